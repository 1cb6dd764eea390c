-- The commonest call by far, written out in one piece: every group is one charge that takes from a token bucket, and
-- all have one shape. It does what token-bucket.lua and step.lua do, without what they need for all other calls.
local try, match = redis.pcall, string.match
local PART = ':' .. WHOLE .. '/' .. WHOLE

-- The instant in a stored value: whole milliseconds, and a part of one in 1/p. Nothing when the value is not one.
local function parseInstant(raw)
  local full = tonumber(raw)
  if full then
    if isWhole(full) then return full, 0, 0 end
    return
  end
  local part, p
  full, part, p = match(raw, '^(%d+):(%d+)/(%d+)$')
  full, part, p = tonumber(full), tonumber(part), tonumber(p)
  if isWhole(full) and isWhole(p) and part < p then return full, part, p end
end

-- A fraction part/writtenP of a millisecond in units of 1/p, rounded up.
local function partIn(p, part, writtenP)
  if part == 0 or p == writtenP then return part end
  local high = part * floor(p / 65536)
  local quotient = floor(high / writtenP)
  local low = (high - quotient * writtenP) * 65536 + part * (p % 65536)
  return quotient * 65536 + ceil(low / writtenP)
end

local function takeTokens(cost, limit, windowMs, unit, p, ttlMs)
  local cap, amount, out = limit * unit, cost * unit, {}
  for i = 1, #KEYS do
    local key, full, part, writtenP = KEYS[i], 0, 0, 0
    local raw = try('GET', key)
    if raw then
      full = nil
      if type(raw) == 'string' then full, part, writtenP = parseInstant(raw) end
    end
    if full then
      local ahead, used, isAhead = full - now, 0, false
      if ahead >= 0 then
        used = ahead * p + partIn(p, part, writtenP)
        isAhead = ahead > windowMs or used > cap
        if isAhead then used = cap end
      end
      local fits = used <= cap - amount
      local after = fits and used + amount or used
      local whole = floor(after / p)
      local rest = after - whole * p
      local answer = fits and after or -1 - after
      -- A denial writes only to clamp a state that is dated in the future.
      if fits or (isAhead and cost <= limit) then
        local text, ttl = format(WHOLE, now + whole), ceil(after / p)
        if rest > 0 then text = text .. format(PART, rest, p) end
        answer = try('SET', key, text, 'PX', format(WHOLE, ttl > ttlMs and ttl or ttlMs)).err or answer
      end
      out[i] = answer
    else
      out[i] = type(raw) == 'table' and raw.err or 'FOREIGN value'
    end
  end
  out[#KEYS + 1] = now
  return out
end

if #ARGV == 2 and tonumber(match(ARGV[1], '^([1-9]%d*) 1$')) == #KEYS then
  local cost, limit, windowMs, unit, p, ttlMs =
    match(ARGV[2], '^token%-bucket take ([1-9]%d*) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if cost then
    local replies = takeTokens(
      tonumber(cost),
      tonumber(limit),
      tonumber(windowMs),
      tonumber(unit),
      tonumber(p),
      tonumber(ttlMs)
    )
    return replies
  end
end
