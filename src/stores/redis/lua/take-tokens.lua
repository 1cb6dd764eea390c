-- Fast path for the most common call: every group is a single take from a token bucket, with the same policy and cost. It
-- decides and replies like token-bucket.lua and step.lua, without the generality that they need for other calls. Buckets
-- with holds are left to step.lua, in the same call, unless they have so many that holds.lua would not parse them.
local try, match = redis.pcall, string.match
-- Version of the reply; script-reply.ts expects the same.
local REPLY_VERSION = 2
-- The format of an instant that is not a whole millisecond.
local INSTANT = WHOLE .. ':' .. WHOLE .. '/' .. WHOLE

-- The instant in a stored value, full + part/unitsPerMs ms: whole milliseconds, the part, and the unitsPerMs it was
-- written with. nil if the value is foreign.
local function parseInstant(raw)
  local full = tonumber(raw)
  if full then
    if isWhole(full) then return full, 0, 0 end
    return
  end
  local part, unitsPerMs
  full, part, unitsPerMs = match(raw, '^(%d+):(%d+)/(%d+)$')
  full, part, unitsPerMs = tonumber(full), tonumber(part), tonumber(unitsPerMs)
  if isWhole(full) and isWhole(unitsPerMs) and part < unitsPerMs then return full, part, unitsPerMs end
end

-- Converts the fraction part/writtenUnitsPerMs of a millisecond to units of 1/unitsPerMs, rounded up. In two digits of
-- base 2^16, because part * unitsPerMs may leave the exact integers.
local function partIn(unitsPerMs, part, writtenUnitsPerMs)
  if part == 0 or unitsPerMs == writtenUnitsPerMs then return part end
  local high = part * floor(unitsPerMs / 65536)
  local quotient = floor(high / writtenUnitsPerMs)
  local low = (high - quotient * writtenUnitsPerMs) * 65536 + part * (unitsPerMs % 65536)
  return quotient * 65536 + ceil(low / writtenUnitsPerMs)
end

-- A take beside longer holds does not parse them. Its time to live is an upper bound then: the reset after the last hold
-- takes two windows at most, and two more if a debt is left.
local MANY_CHARS, MAX_WINDOWS = 1000, 4

-- The head of the holds, with zeros so that it is `chars` long together with the algorithm's own text.
local function headText(own, held, lastEnd, chars)
  local head = format('|' .. WHOLE .. '/' .. WHOLE .. '/' .. WHOLE, now, held, lastEnd)
  local missing = chars - #own - #head
  if missing <= 0 then return head end
  return (string.gsub(head, '/', '/' .. string.rep('0', missing), 1))
end

-- Takes from a bucket with many holds, none of which has ended, and returns the reply. nil: leave it to holds.lua.
local function takeBeside(key, raw, cost, limit, windowMs, unitsPerToken, unitsPerMs, ttlMs)
  local own, writtenAt, held, lastEnd, at, endsAt, amount, id =
    match(raw, '^([%d:/]*)|(%d+)/(%d+)/(%d+)() (%d+):(%d+):([%w_.~ -])')
  if not own or #raw - #own <= MANY_CHARS then return end
  writtenAt, held, lastEnd, endsAt = tonumber(writtenAt), tonumber(held), tonumber(lastEnd), tonumber(endsAt)
  if not (isWhole(writtenAt) and isWhole(held) and isWhole(lastEnd) and isWhole(endsAt)) then return end
  if writtenAt > now or endsAt <= now then return end
  local full, part, writtenUnitsPerMs = 0, 0, 0
  if own ~= '' then full, part, writtenUnitsPerMs = parseInstant(own) end
  if not full then return end
  local untilFull, used = full - now, 0
  if untilFull > windowMs then return end
  if untilFull >= 0 then used = untilFull * unitsPerMs + partIn(unitsPerMs, part, writtenUnitsPerMs) end
  if used > limit * unitsPerToken then return end
  -- Only a debt has no id. Until it is due, nothing fits.
  if id == ' ' then return used > max(0, limit - tonumber(amount)) * unitsPerToken and { 0, raw, 0 } or nil end
  local room = limit - cost - held
  if room < 0 or used > room * unitsPerToken then return { 0, raw, 0 } end
  local after = used + cost * unitsPerToken
  local whole = floor(after / unitsPerMs)
  local rest = after - whole * unitsPerMs
  local front = rest > 0 and format(INSTANT, now + whole, rest, unitsPerMs) or format(WHOLE, now + whole)
  front = front .. headText(front, held, lastEnd, at - 1)
  if #front ~= at - 1 then return end
  local err = try('SETRANGE', key, '0', front)
  if type(err) == 'table' then return err.err end
  try('PEXPIRE', key, format(WHOLE, max(ttlMs, lastEnd - now + MAX_WINDOWS * windowMs)))
  return { 1, front, 0, raw, at }
end

-- Values of buckets with holds by key, which step.lua need not read again; nil if there are none.
local heldValues

-- Returns the replies, without those of buckets with holds, and whether there are such buckets.
local function takeTokens(cost, limit, windowMs, unitsPerToken, unitsPerMs, ttlMs)
  local capacityUnits, amount, out, hasHolds = limit * unitsPerToken, cost * unitsPerToken, { REPLY_VERSION }, false
  for i = 1, #KEYS do
    local key, full, part, writtenUnitsPerMs = KEYS[i], 0, 0, 0
    local raw = try('GET', key)
    if raw then
      full = nil
      if type(raw) == 'string' then full, part, writtenUnitsPerMs = parseInstant(raw) end
    end
    if full then
      local untilFull, used, isInFuture = full - now, 0, false
      if untilFull >= 0 then
        used = untilFull * unitsPerMs + partIn(unitsPerMs, part, writtenUnitsPerMs)
        isInFuture = untilFull > windowMs or used > capacityUnits
        if isInFuture then used = capacityUnits end
      end
      local fits = used <= capacityUnits - amount
      local after = fits and used + amount or used
      local whole = floor(after / unitsPerMs)
      local rest = after - whole * unitsPerMs
      local verdict = fits and after or -1 - after
      -- A denial writes only to clamp a state that is dated in the future.
      if fits or (isInFuture and cost <= limit) then
        local ttl = rest > 0 and whole + 1 or whole
        local text = rest > 0 and format(INSTANT, now + whole, rest, unitsPerMs) or format(WHOLE, now + whole)
        verdict = try('SET', key, text, 'PX', format(WHOLE, ttl > ttlMs and ttl or ttlMs)).err or verdict
      end
      out[i + 1] = verdict
    elseif type(raw) == 'string' and string.find(raw, '|', 1, true) then
      out[i + 1] = takeBeside(key, raw, cost, limit, windowMs, unitsPerToken, unitsPerMs, ttlMs)
      -- A bucket that occurs twice is not read again before its first charge.
      if not out[i + 1] then
        hasHolds, heldValues = true, heldValues or {}
        heldValues[key] = raw
      end
    else
      out[i + 1] = type(raw) == 'table' and raw.err or 'FOREIGN value'
    end
  end
  out[#KEYS + 2] = now
  return out, hasHolds
end

-- The replies of takeTokens, if some are missing.
local taken

if #ARGV == 2 and tonumber(match(ARGV[1], '^([1-9]%d*) 1$')) == #KEYS then
  local cost, limit, windowMs, unitsPerToken, unitsPerMs, ttlMs =
    match(ARGV[2], '^token%-bucket take ([1-9]%d*) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  if cost then
    local replies, hasHolds = takeTokens(
      tonumber(cost),
      tonumber(limit),
      tonumber(windowMs),
      tonumber(unitsPerToken),
      tonumber(unitsPerMs),
      tonumber(ttlMs)
    )
    if not hasHolds then
      return replies
    end
    taken = replies
  end
end
