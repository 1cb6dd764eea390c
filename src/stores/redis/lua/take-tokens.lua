-- The commonest call by far, written out in one piece: every group is one charge that takes from a token bucket, and
-- all have one shape. It does what token-bucket.lua and step.lua do, without what they need for all other calls.
local try, match = redis.pcall, string.match

local function takeTokens(cost, limit, windowMs, unit, p, ttlMs)
  local cap, amount, out = limit * unit, cost * unit, {}
  for i = 1, #KEYS do
    local key, full, part = KEYS[i], 0, 0
    local raw = try('GET', key)
    if raw then
      full = tonumber(raw)
      if not full and type(raw) == 'string' then
        full, part = match(raw, '^(%d+):(%d+)$')
        full, part = tonumber(full), tonumber(part)
      end
    end
    if full and full >= 0 and full <= 9007199254740991 and floor(full) == full and (part == 0 or isWhole(part)) then
      local ahead, used = full - now, 0
      if ahead > windowMs then
        used = cap
      elseif ahead >= 0 then
        used = ahead * p + (part < p and part or p - 1)
        if used > cap then used = cap end
      end
      local fits = used <= cap - amount
      local after = fits and used + amount or used
      local whole = floor(after / p)
      local rest = after - whole * p
      local answer = fits and after or -1 - after
      -- A denial writes only what would be stored another way: a state from the future.
      if fits or (used == cap and cost <= limit and (now + whole ~= full or rest ~= part)) then
        local text, ttl = format(WHOLE, now + whole), ceil(after / p)
        if rest > 0 then text = text .. ':' .. format(WHOLE, rest) end
        answer = try('SET', key, text, 'PX', format(WHOLE, ttl > ttlMs and ttl or ttlMs)).err or answer
      end
      out[i] = answer
    else
      out[i] = type(raw) == 'table' and raw.err or 'FOREIGN value'
    end
  end
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
