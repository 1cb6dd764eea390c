-- Fast path for calls whose charges are all takes from buckets or windows: several limits in one group, or groups of several
-- policies. It decides and replies like step.lua, with which it shares the functions of this file. Where a group needs more
-- (a bucket with holds, a state dated in the future, an error), step.lua decides it and those after it, because a later
-- group may charge the same buckets. See step.lua for the arguments and the reply.
local algorithms = {}

local function algorithmOf(name)
  if not algorithms[name] and makers[name] then algorithms[name] = makers[name]() end
  return algorithms[name]
end

-- A charge with its policy, or nil if the text is not one. `isOnly`: it is the only charge of its group.
local function parseCharge(text, isOnly)
  local name, modeName, cost, limit, windowMs, unitsPerToken, unitsPerMs, ttlMs, options =
    match(text or '', '^(%S+) (%a+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  local algorithm, mode = algorithmOf(name or ''), MODES[modeName]
  if not algorithm or not mode then return end
  local grant, hold, forMs, maxHolds, block, rest
  if options ~= '' then
    grant, rest = match(options, '^ grant=(%d+)(.*)$')
    options = rest or options
    hold, forMs, maxHolds, rest = match(options, '^ hold=([%w_.~-]+),(%d+),(%d+)(.*)$')
    options = rest or options
    block = match(options, '^ block=(%d[%d,]*)$')
    if not block and options ~= '' then return end
  end
  local isHold = mode == MODES.hold or mode == MODES.settle
  if isHold ~= (hold ~= nil) or (algorithm.block ~= nil) ~= (block ~= nil) then return end
  -- Texts of digits: adding 0 is faster than tonumber.
  cost = cost + 0
  return {
    algorithm = algorithm,
    mode = mode,
    -- Cost 0 always fits, and blocking a key is never denied.
    asks = mode.asks and cost > 0 and not (isHold and block),
    isHold = isHold and not block,
    isTake = mode == MODES.take and cost > 0 and not (block or algorithm.load or algorithm.holdsOnly),
    cost = cost,
    -- A lone take on a penalty strikes unless the key is blocked, whatever its cost.
    amount = (isOnly and block and mode == MODES.take and min(cost, 1) or cost) * unitsPerToken,
    limit = limit + 0,
    windowMs = windowMs + 0,
    unitsPerToken = unitsPerToken + 0,
    unitsPerMs = unitsPerMs + 0,
    capacityUnits = limit * unitsPerToken,
    ttlMs = ttlMs + 0,
    grantEndsAt = tonumber(grant),
    hold = hold and { id = hold, forMs = tonumber(forMs), max = tonumber(maxHolds) },
    block = block,
  }
end

-- Whether every charge of the call is a take that this file can decide.
local areTakes = not taken

-- Parses all arguments. Returns nil if they do not fit together.
local function parseShapes()
  local shapes, keys, at = {}, 0, 1
  while keys < #KEYS do
    local count, size = match(ARGV[at] or '', '^([1-9]%d*) ([1-9]%d*)$')
    if not count then return end
    -- With room for eight charges: growing a table costs more than parsing one.
    local shape = { 0, 0, 0, 0, 0, 0, 0, 0, count = tonumber(count), size = tonumber(size) }
    for c = 1, min(shape.size, #KEYS) do
      shape[c] = parseCharge(ARGV[at + c], shape.size == 1)
      if not shape[c] then return end
      areTakes = areTakes and shape[c].isTake
    end
    keys, at, shapes[#shapes + 1] = keys + count * size, at + 1 + size, shape
  end
  return keys == #KEYS and shapes
end

local shapes = parseShapes()
if not shapes then return redis.error_reply('ERR sluice: invalid arguments, or arguments of another version') end

local replies, replied = { REPLY_VERSION }, 1

local function append(value)
  replied = replied + 1
  replies[replied] = value
end

-- The charge of the group that is being computed, and the number of replies before the group.
local current, mark

-- Replaces the replies of a group by an error at its current charge, or removes them if `size` is 0.
local function appendError(size, err)
  for i = mark + 1, replied do replies[i] = nil end
  replied = mark
  for i = 1, size do append(i == current and err or 'SKIPPED') end
end

-- Appends the durations of a decision on an algorithm that does not refill continuously, and returns the first.
local function appendDurations(charge, used, over, a, b, c)
  local algorithm, resetMs, nextMs = charge.algorithm, 0, 0
  if used > 0 then
    local remaining = used < charge.capacityUnits and floor((charge.capacityUnits - used) / charge.unitsPerToken) or 0
    local lacking = used - (charge.capacityUnits - (remaining + 1) * charge.unitsPerToken)
    resetMs, nextMs = algorithm.reset(charge, used, a, b, c), algorithm.wait(charge, lacking, a, b, c)
  end
  append(resetMs)
  append(nextMs)
  append(over > 0 and charge.cost <= charge.limit and algorithm.wait(charge, over, a, b, c) or 0)
  return resetMs
end

-- By index of the charge in its group: units in use and state of its bucket, and the value to store with its time to live.
local useds, as, bs, cs = { 0, 0, 0, 0, 0, 0, 0, 0 }, {}, {}, {}
local values, ttls = { 0, 0, 0, 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0, 0, 0 }

-- Reads the buckets of a group. Returns whether it is admitted, or nil if step.lua has to decide it.
local function readTakes(shape, first)
  local isAdmitted = true
  for i = 1, shape.size do
    local charge, raw = shape[i], try('GET', KEYS[first + i])
    local algorithm, unitsPerMs, used = charge.algorithm, charge.unitsPerMs, 0
    local maxUsed = charge.capacityUnits - charge.amount
    if type(raw) == 'table' then return end
    if not algorithm.refills then
      local a, b, c = algorithm.parse(raw)
      if not a then return end
      used, as[i], bs[i], cs[i] = algorithm.used(charge, a, b, c), a, b, c
      if used > maxUsed and algorithm.isInFuture(charge, used, a, b, c) then return end
    elseif raw then
      local full, part, writtenUnitsPerMs = parseInstant(raw)
      if not full then return end
      local untilFull = full - now
      if untilFull >= 0 then
        used = untilFull * unitsPerMs + partIn(unitsPerMs, part, writtenUnitsPerMs)
        if untilFull > charge.windowMs or used > charge.capacityUnits then return end
      end
    end
    useds[i] = used
    if used > maxUsed then isAdmitted = false end
  end
  return isAdmitted
end

-- Appends the replies of a group, and computes the values to store if it is admitted.
local function computeTakes(shape, isAdmitted)
  for i = 1, shape.size do
    local charge, used = shape[i], useds[i]
    local algorithm, over, ttl = charge.algorithm, used - (charge.capacityUnits - charge.amount), nil
    if isAdmitted then used = used + charge.amount end
    append(over > 0 and -1 - used or used)
    if not algorithm.refills then
      local a, b, c = as[i], bs[i], cs[i]
      if isAdmitted then
        a, b, c = algorithm.add(charge, useds[i], charge.cost, a, b, c)
        values[i] = algorithm.text(a, b, c)
      end
      ttl = appendDurations(charge, used, over, a, b, c)
    elseif isAdmitted then
      local unitsPerMs = charge.unitsPerMs
      ttl = floor(used / unitsPerMs)
      local full, part = now + ttl, used - ttl * unitsPerMs
      if part > 0 then
        values[i], ttl = format(INSTANT, full, part, unitsPerMs), ttl + 1
      else
        values[i] = format(WHOLE, full)
      end
    end
    if isAdmitted then ttls[i] = format(WHOLE, ttl > charge.ttlMs and ttl or charge.ttlMs) end
  end
end

-- The number of keys whose groups are decided here.
local decided = 0

-- Decides groups until one is left to step.lua.
local function takeGroups()
  for s = 1, #shapes do
    local shape = shapes[s]
    for _ = 1, shape.count do
      mark = replied
      local isAdmitted = readTakes(shape, decided)
      if isAdmitted == nil then return end
      computeTakes(shape, isAdmitted)
      for i = 1, isAdmitted and shape.size or 0 do
        -- Only the first write of a call can fail: see decideGroup.
        local err = try('SET', KEYS[decided + i], values[i], 'PX', ttls[i]).err
        if err then
          current = i
          appendError(shape.size, err)
          break
        end
      end
      decided = decided + shape.size
    end
  end
end

if areTakes then
  -- An error leaves its group to step.lua too: a group is computed before its first write.
  if not pcall(takeGroups) then appendError(0) end
  if decided == #KEYS then
    append(now)
    return replies
  end
end
