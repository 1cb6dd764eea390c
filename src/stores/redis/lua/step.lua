-- Many groups of charges in one call, each all or none, in order. See step.ts.
-- KEYS: the bucket of every charge of every group.
-- ARGV: the groups, told by their shape, which they mostly share: "count size", how many groups in a row have it and
--       how many charges it has, and then each of those as "algorithm mode cost limit windowMs unit p ttlMs", and
--       " grantEndsAt" of a refund for which that is known. ttlMs is the shortest time that a value is kept.
-- Returns for every charge what is in use, or -1 minus it when the cost would not fit alone, and then what its
-- algorithm replies; `inspect` adds the value as it is stored and its time to live. A charge of which the bucket can't
-- be read or written gets a text in the place of all that, and so do the others of its group. The last reply is the
-- server's time.
-- All arguments are checked before the first write, and of every group all is computed before its first write, because
-- Redis does not roll back. An error while a group is computed is that group's alone.
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
  local name, mode, cost, limit, windowMs, unitsPerToken, unitsPerMs, ttlMs, grantEndsAt =
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
    amount = cost * unitsPerToken,
    limit = tonumber(limit),
    windowMs = tonumber(windowMs),
    unitsPerToken = tonumber(unitsPerToken),
    unitsPerMs = tonumber(unitsPerMs),
    capacityUnits = limit * unitsPerToken,
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

-- The charge of its group that is being computed, and what was said before the group.
local current, mark

-- Says that the current charge of a group is at fault, and that the others were not made, in place of all else.
local function sayFault(size, fault)
  for i = mark + 1, replied do replies[i] = nil end
  replied = mark
  for i = 1, size do say(i == current and fault or 'SKIPPED') end
end

-- The state of a bucket, after a text that says why it can't be read.
local function read(charge, key)
  local load, known = charge.algorithm.load, charge.mode ~= 'reset'
  if load then return load(known and key) end
  local raw = known and try('GET', key)
  if type(raw) == 'table' then return raw.err end
  local a, b, c = charge.algorithm.parse(raw)
  if not a then return 'FOREIGN value' end
  return nil, a, b, c
end

-- Says what becomes of a charge of a group, of which every one fits or not. Returns the value to store and its time to
-- live: nothing when nothing changes, false for a key to delete.
local function prepare(charge, key, every, over, used, a, b, c)
  local algorithm, changed = charge.algorithm, false
  if charge.takes then
    if every and charge.asks then
      a, b, c = algorithm.add(charge, used, charge.cost, a, b, c)
      used, changed = used + charge.amount, true
    elseif over > 0 and charge.cost <= charge.limit and algorithm.isInFuture(charge, used, a, b, c) then
      a, b, c = algorithm.add(charge, used, 0, a, b, c)
      changed = true
    end
  elseif charge.mode == 'refund' and every and used > 0 and (charge.grantEndsAt or now + 1) > now then
    a, b, c = algorithm.refund(charge, used, charge.cost, a, b, c)
    used, changed = algorithm.used(charge, a, b, c), true
  elseif charge.mode == 'reset' then
    changed = true
  end
  say(over > 0 and -1 - used or used)
  algorithm.reply(say, charge, used, over > 0 and charge.cost or 0, a, b, c)
  if charge.mode == 'inspect' then
    say(algorithm.raw and algorithm.raw(key) or call('GET', key) or '')
    say(call('PTTL', key))
  end
  if not changed then return end
  if used == 0 then return false end
  local ttl = format(WHOLE, max(1, charge.ttlMs, algorithm.reset(charge, used, a, b, c)))
  if algorithm.commands then return algorithm.commands(a, ttl) end
  return algorithm.text(a, b, c), ttl
end

-- Stores what `prepare` returned. Gives the text of an error.
local function write(key, value, ttl)
  if value == nil then return end
  if type(value) == 'string' then return try('SET', key, value, 'PX', ttl).err end
  local list = value or { { 'DEL', key } }
  for i = 1, #list do
    local reply = try(unpack(list[i]))
    if type(reply) == 'table' and reply.err then return reply.err end
  end
end

-- By how much a charge does not fit; it fits at 0 or less.
local function excess(charge, used)
  return charge.asks and used - (charge.capacityUnits - charge.amount) or 0
end

-- Both settle a group and give the text of an error.
local function settleOne(shape, first)
  local charge, key = shape[1], KEYS[first + 1]
  local fault, a, b, c = read(charge, key)
  if fault then return fault end
  local used = charge.algorithm.used(charge, a, b, c)
  local over = excess(charge, used)
  return write(key, prepare(charge, key, over <= 0, over, used, a, b, c))
end

local function settleGroup(shape, first)
  local every, steps, values = true, {}, {}
  for i = 1, shape.size do
    current = i
    local charge = shape[i]
    local fault, a, b, c = read(charge, KEYS[first + i])
    if fault then return fault end
    local used = charge.algorithm.used(charge, a, b, c)
    local over = excess(charge, used)
    every = every and over <= 0
    steps[i] = { over, used, a, b, c }
  end
  for i = 1, shape.size do
    current = i
    values[i] = { prepare(shape[i], KEYS[first + i], every, unpack(steps[i], 1, 5)) }
  end
  for i = 1, shape.size do
    current = i
    -- Only the first write of a call can fail: from then on Redis refuses none, whatever its memory or its role.
    local fault = write(KEYS[first + i], values[i][1], values[i][2])
    if fault then return fault end
  end
end

local k = 0
for s = 1, #shapes do
  local shape = shapes[s]
  for _ = 1, shape.count do
    current, mark = 1, replied
    local ok, fault = pcall(shape.size == 1 and settleOne or settleGroup, shape, k)
    -- An error of a command is a table since Redis 7.
    if not ok then fault = type(fault) == 'table' and fault.err or 'FOREIGN value' end
    if fault then sayFault(shape.size, fault) end
    k = k + shape.size
  end
end
say(now)
return replies
