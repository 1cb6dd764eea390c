-- Many groups of charges in one call, each all or none, in order. See step.ts.
-- KEYS: the bucket of every charge of every group.
-- ARGV: the groups, told by their shape, which they mostly share: "count size", how many groups in a row have it and
--       how many charges it has, and then each of those as "algorithm mode cost limit windowMs unit p ttlMs", and
--       " grantEndsAt" of a refund for which that is known. ttlMs is the shortest time that a value is kept.
-- Returns for every charge what is in use, or -1 minus it when the cost would not fit alone, and then what its
-- algorithm replies; `inspect` adds the value as it is stored and its time to live. A charge of which the bucket can't
-- be read or written gets a text in the place of all that, and so do the others of its group. The last reply is the
-- server's time.
-- All arguments are checked before the first write, because Redis takes no write back.
local call = redis.call
local made = {}

local function algorithmOf(name)
  if not made[name] then
    local make = name == 'token-bucket' and tokenBucket
      or name == 'leaky-bucket' and leakyBucket
      or name == 'fixed-window' and fixedWindow
      or name == 'sliding-window' and slidingWindow
      or name == 'sliding-log' and slidingLog
    made[name] = make and make()
  end
  return made[name]
end

-- A charge as the arithmetic sees it, or nothing when it is not one.
local function parseCharge(text)
  local name, mode, cost, limit, windowMs, unit, p, ttlMs, grantEndsAt =
    match(text or '', '^(%S+) (%a+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)( ?%d*)$')
  local algorithm = algorithmOf(name or '')
  local asks = mode == 'take' or mode == 'peek'
  local known = asks or mode == 'refund' or mode == 'reset' or mode == 'inspect'
  if not algorithm or not known then return end
  if grantEndsAt ~= '' and not (mode == 'refund' and match(grantEndsAt, '^ %d+$')) then return end
  cost = tonumber(cost)
  return {
    algorithm = algorithm,
    mode = mode,
    takes = mode == 'take',
    -- What is given back or only looked at always fits, and so does cost 0.
    asks = asks and cost > 0,
    cost = cost,
    amount = cost * unit,
    limit = tonumber(limit),
    windowMs = tonumber(windowMs),
    unit = tonumber(unit),
    p = tonumber(p),
    cap = limit * unit,
    ttlMs = tonumber(ttlMs),
    grantEndsAt = tonumber(grantEndsAt),
  }
end

-- Reads all arguments; gives nothing when they do not fit together.
local function parseShapes()
  local shapes, keys, at = {}, 0, 1
  while keys < #KEYS do
    local count, size = match(ARGV[at] or '', '^([1-9]%d*) ([1-9]%d*)$')
    if not count then return end
    local shape = { count = tonumber(count), size = tonumber(size) }
    for c = 1, min(shape.size, #KEYS) do shape[c] = parseCharge(ARGV[at + c]) end
    if #shape ~= shape.size then return end
    keys, at, shapes[#shapes + 1] = keys + count * size, at + 1 + size, shape
  end
  return keys == #KEYS and shapes
end

local shapes = parseShapes()
if not shapes then return redis.error_reply('ERR sluice: arguments of another version') end

local replies, replied = {}, 0

local function say(value)
  replied = replied + 1
  replies[replied] = value
end

-- The state of a bucket, after a text that says why it can't be read.
local function read(charge, key)
  local raw = charge.mode ~= 'reset' and try('GET', key)
  if type(raw) == 'table' then return raw.err end
  local a, b, c = charge.algorithm.parse(raw)
  if not a then return 'FOREIGN value' end
  return nil, a, b, c
end

-- One value, one write with its expiry. Gives the text of an error.
local function write(charge, key, used, a, b, c)
  if used == 0 then
    call('DEL', key)
    return
  end
  local ttl = max(1, charge.ttlMs, charge.algorithm.reset(charge, used, a, b, c))
  return try('SET', key, charge.algorithm.text(a, b, c), 'PX', format(WHOLE, ttl)).err
end

-- Does a charge of a group, of which every one fits or not, and replies.
local function settle(charge, key, every, over, used, a, b, c)
  local algorithm, changed = charge.algorithm, false
  if charge.takes then
    if every and charge.asks then
      a, b, c = algorithm.add(charge, used, charge.cost, a, b, c)
      used, changed = used + charge.amount, true
    elseif over > 0 and charge.cost <= charge.limit and algorithm.ahead(charge, used, a, b, c) then
      a, b, c = algorithm.add(charge, used, 0, a, b, c)
      changed = true
    end
  elseif charge.mode == 'refund' and every and used > 0 and (charge.grantEndsAt or now + 1) > now then
    a, b, c = algorithm.giveBack(charge, used, charge.cost, a, b, c)
    used, changed = algorithm.used(charge, a, b, c), true
  elseif charge.mode == 'reset' then
    changed = true
  end
  local fault = changed and write(charge, key, used, a, b, c)
  if fault then return say(fault) end
  say(over > 0 and -1 - used or used)
  algorithm.reply(say, charge, used, over > 0 and charge.cost or 0, a, b, c)
  if charge.mode == 'inspect' then
    say(call('GET', key) or '')
    say(call('PTTL', key))
  end
end

-- By how much a charge does not fit; it fits at 0 or less.
local function excess(charge, used)
  return charge.asks and used - (charge.cap - charge.amount) or 0
end

local function settleOne(charge, key)
  local fault, a, b, c = read(charge, key)
  if fault then return say(fault) end
  local used = charge.algorithm.used(charge, a, b, c)
  local over = excess(charge, used)
  settle(charge, key, over <= 0, over, used, a, b, c)
end

local function settleGroup(shape, first)
  local every, steps = true, {}
  for i = 1, shape.size do
    local charge = shape[i]
    local fault, a, b, c = read(charge, KEYS[first + i])
    if fault then
      for j = 1, shape.size do say(j == i and fault or 'SKIPPED') end
      return
    end
    local used = charge.algorithm.used(charge, a, b, c)
    local over = excess(charge, used)
    every = every and over <= 0
    steps[i] = { over, used, a, b, c }
  end
  for i = 1, shape.size do settle(shape[i], KEYS[first + i], every, unpack(steps[i], 1, 5)) end
end

local k = 0
for s = 1, #shapes do
  local shape = shapes[s]
  for _ = 1, shape.count do
    if shape.size == 1 then
      settleOne(shape[1], KEYS[k + 1])
    else
      settleGroup(shape, k)
    end
    k = k + shape.size
  end
end
say(now)
return replies
