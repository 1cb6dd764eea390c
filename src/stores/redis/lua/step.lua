-- Decides many groups of charges in one call, each all or nothing, in order. See decide.ts.
-- KEYS: the bucket of every charge of every group.
-- ARGV: the shapes of the groups. Consecutive groups that differ only in their keys share one: "count size" (how many
--       groups, how many charges each), then for each charge
--       "algorithm mode cost limit windowMs unitsPerToken unitsPerMs ttlMs", followed by " grant=endsAt",
--       " hold=id,forMs,maxHolds" and " block=durationMs,..." if it has them. ttlMs is the minimum time to live of the value.
-- Returns a version, then for each charge the units in use, or -1 minus that if its cost does not fit. An algorithm that
--       does not refill continuously adds three durations in ms: until nothing is in use, until more is left, and until
--       the cost fits (0: it does, or never can). A penalty, and a bucket that has holds or gets one, has a list instead:
--       1 or 0, whether the charge is admitted or its hold settled, the value after the charge (as text, that of a list in
--       the form of its TypeScript twin), and what a settlement did not charge; or the front of that value, 0, the value
--       before the charge, and at which character of it the holds start. `inspect` adds the stored value and its
--       time to live. If a bucket can't be read or written, its group has a text for each charge instead: the error, or
--       SKIPPED. Last comes the time.
-- All arguments are checked before the first write, and each group is computed before its own first write, because Redis
-- does not roll back. An error while a group is computed fails that group alone.
-- An error text or nil, then the bucket if it has holds or may get one, or nil and the state of the algorithm.
local function read(charge, key)
  local load, raw = charge.algorithm.load, nil
  if load and not charge.isHold then
    local err, log = load(key)
    if err ~= HELD then return err, nil, log end
  elseif not charge.isHold then
    raw = heldValues and heldValues[key]
    -- A second charge to the key reads what the first has written.
    if raw then heldValues[key] = nil else raw = try('GET', key) end
    if type(raw) == 'table' then return raw.err end
    local a, b, c = charge.algorithm.parse(raw)
    if a then return nil, nil, a, b, c end
    if not string.find(raw, '|', 1, true) then return 'FOREIGN value' end
  end
  holds = holds or makeHolds()
  return holds.read(charge, key, raw)
end

-- The state of an untouched bucket.
local function untouched(charge)
  local algorithm = charge.algorithm
  if not algorithm.load then return algorithm.parse(false) end
  local _, log = algorithm.load(false)
  return log
end

-- By how much the cost does not fit; it fits at 0 or less.
local function excess(charge, used)
  return charge.asks and used - (charge.capacityUnits - charge.amount) or 0
end

-- Applies an action, or none, and appends the reply. Returns the value to store and its time to live: nil if nothing
-- changes, false if the key is to be deleted.
local function prepare(charge, action, over, used, a, b, c)
  local algorithm, changed, isAdmitted = charge.algorithm, false, over <= 0
  if action == 'add' and charge.cost > 0 and not algorithm.holdsOnly then
    a, b, c = algorithm.add(charge, used, charge.cost, a, b, c)
    used, changed = used + charge.amount, true
    if charge.mode.applyIfDenied or charge.block then
      -- A strike is added whether it fits or not, and may be what blocks the key.
      used = algorithm.used(charge, a, b, c)
      over = excess(charge, used)
    end
  elseif action == 'subtract' and used > 0 and (charge.grantEndsAt or now + 1) > now then
    a, b, c = algorithm.refund(charge, used, charge.cost, a, b, c)
    used, changed = algorithm.used(charge, a, b, c), true
  elseif action == 'clear' then
    a, b, c = untouched(charge)
    used, changed = 0, true
  elseif charge.block and charge.hold then
    -- Holding and settling a penalty is blocking and unblocking its key.
    isAdmitted = false
    if action then
      local x, y, z
      if action == 'hold' then
        x, y, z = algorithm.block(charge.hold.forMs, a, b, c)
      else
        x, y, z = algorithm.unblock(a, b, c)
      end
      if x then
        a, b, c, isAdmitted, changed = x, y, z, true, true
        used = algorithm.used(charge, a, b, c)
      end
    end
  elseif over > 0 and charge.mode ~= MODES.peek and charge.cost <= charge.limit then
    -- A denied charge clamps a state dated in the future.
    if algorithm.isInFuture(charge, used, a, b, c) then
      a, b, c = algorithm.add(charge, used, 0, a, b, c)
      changed = true
    end
  end
  if charge.block then
    append({ isAdmitted and 1 or 0, algorithm.text(a, b, c) })
  else
    append(over > 0 and -1 - used or used)
    if charge.unitsPerMs == 0 then appendDurations(charge, used, over, a, b, c) end
  end
  if not changed then return end
  if used == 0 then return false end
  local ttl = format(WHOLE, max(1, charge.ttlMs, algorithm.reset(charge, used, a, b, c)))
  if algorithm.commands then return algorithm.commands(a, ttl) end
  return algorithm.text(a, b, c), ttl
end

-- Stores what `prepare` returned. Returns an error text or nil.
local function write(key, value, ttl)
  if value == nil then return end
  if type(value) == 'string' then return try('SET', key, value, 'PX', ttl).err end
  local list = value or { { 'DEL', key } }
  for i = 1, #list do
    local reply = try(unpack(list[i]))
    if type(reply) == 'table' and reply.err then return reply.err end
  end
end

-- Applies an action to a bucket, or none, and appends the reply. `over` is by how much the charge does not fit; of a bucket
-- that has holds or may get one, false or true: whether it fits. Returns what to store, as `prepare` does.
local function apply(charge, key, action, over, used, a, b, c)
  local value, ttl
  if type(used) == 'table' then
    local isAdmitted, text
    isAdmitted, text, value, ttl = holds.prepare(key, used, action, over)
    append({ isAdmitted and 1 or 0, text, used.forgiven, used.isFront and used.raw or nil, used.at })
  else
    value, ttl = prepare(charge, action, over, used, a, b, c)
  end
  if charge.mode == MODES.inspect then
    append(charge.algorithm.raw and charge.algorithm.raw(key) or call('GET', key) or '')
    append(call('PTTL', key))
  end
  return value, ttl
end

-- Both decide a group and return an error text or nil.
local function decideOne(shape, first)
  local charge, key = shape[1], KEYS[first + 1]
  -- A reset must not fail because the value is foreign.
  local err, bucket, a, b, c
  if charge.mode.apply == 'clear' then a, b, c = untouched(charge) else err, bucket, a, b, c = read(charge, key) end
  if err then return err end
  if bucket then
    local isFit = holds.fits(bucket)
    return write(key, apply(charge, key, isFit and charge.mode.apply, isFit, bucket))
  end
  local used = charge.algorithm.used(charge, a, b, c)
  local over = excess(charge, used)
  return write(key, apply(charge, key, over <= 0 and charge.mode.apply, over, used, a, b, c))
end

local function decideGroup(shape, first)
  local admitted, isViolation, isOnlyLook = true, true, true
  local steps, values = {}, {}
  for i = 1, shape.size do
    current = i
    local charge = shape[i]
    local err, bucket, a, b, c = read(charge, KEYS[first + i])
    if err then return err end
    local isFit, used, over
    if bucket then
      isFit = holds.fits(bucket)
      steps[i] = { isFit, bucket }
    else
      used = charge.algorithm.used(charge, a, b, c)
      over = excess(charge, used)
      isFit = over <= 0
      steps[i] = { over, used, a, b, c }
    end
    if charge.mode.apply then isOnlyLook = false end
    if not isFit then
      admitted = false
      -- A denial by a penalty is not a violation, nor is a cost that never fits.
      if charge.mode.applyIfDenied or charge.block or charge.cost > charge.limit then isViolation = false end
    end
  end
  for i = 1, shape.size do
    current = i
    local mode = shape[i].mode
    local action
    if admitted then action = mode.apply elseif isViolation and not isOnlyLook then action = mode.applyIfDenied end
    values[i] = { apply(shape[i], KEYS[first + i], action, unpack(steps[i], 1, 5)) }
  end
  for i = 1, shape.size do
    current = i
    -- Only the first write of a call can fail: after it Redis rejects none, whatever its memory or its role.
    local err = write(KEYS[first + i], values[i][1], values[i][2])
    if err then return err end
  end
end

local k, present = 0, now
for s = 1, #shapes do
  local shape = shapes[s]
  for _ = 1, shape.count do
    if k >= decided then
      current, mark = 1, replied
      local ok, err = true, nil
      if taken and taken[k + 2] then
        append(taken[k + 2])
      else
        ok, err = pcall(shape.size == 1 and decideOne or decideGroup, shape, k)
      end
      -- The error of a command is a table since Redis 7.
      if not ok then err = type(err) == 'table' and err.err or 'FOREIGN value' end
      if err then appendError(shape.size, err) end
      -- An error may have occurred while a hold was charged as of its own end.
      now = present
    end
    k = k + shape.size
  end
end
append(now)
return replies
