-- Holds: amounts of a bucket that are reserved under an id. See holds.ts.
-- Stored:  after the algorithm's own text, which is empty if nothing is in use: "|writtenAt/held/lastEnd", then
--          " end:amount:id" for each hold, ordered by end, then age. A debt comes first and has an empty id; its end is when it
--          is due. `held` is the sum of all amounts, and `lastEnd` the end of the last hold, or 0. Before many holds, `held`
--          starts with zeros, so that a take can replace the front of the value by one of the same length. Earlier versions
--          stored writtenAt alone.
-- A bucket is a table here:
--   policy, algorithm, a, b, c     the charge with its policy, the algorithm, and its own state
--   ends, amounts, ids, texts      the holds, also as `lists`; those before index `first` have ended
--   debt, dueAt, held, forgiven    as in holds.ts
--   raw, own                       the stored value, and the algorithm's part of it
--   length, total                  of a log: the number of stored elements, and the running total in the first
--   isOwnChanged                   whether the algorithm's part has to be formatted again
--   at, lastEnd, isFront           beside many holds, which are not parsed: where those that have not ended start in `raw`,
--                                  the last end, and whether only what precedes them is written
-- Algorithms read the time from `now`, which is set to the end of a hold while that hold is charged.
local function makeHolds()
  local HOLD, MAX_ID_CHARS, NEVER = ' ' .. WHOLE .. ':' .. WHOLE .. ':%s', 64, math.huge
  -- Length of the algorithm's own text and the head of many holds, with zeros for texts that get longer.
  local FRONT_CHARS = 120

  -- Adds the holds in the text after the bar to a bucket. Returns whether the text is valid.
  local function parse(bucket, text)
    local writtenAt, head, list = match(text, '^(%d+)([%d/]*)( .+)$')
    bucket.writtenAt = tonumber(writtenAt)
    if not isWhole(bucket.writtenAt) then return false end
    local ends, amounts, ids, texts = bucket.ends, bucket.amounts, bucket.ids, bucket.texts
    local count, held, chars, last = 0, 0, 0, 0
    for whole, endsAt, amount, id in string.gmatch(list, '( (%d+):(%d+):([%w_.~-]*))') do
      endsAt, amount = tonumber(endsAt), tonumber(amount)
      if not isWhole(endsAt) or not isWhole(amount) or endsAt < last or #id > MAX_ID_CHARS then return false end
      if id ~= '' then
        count, last = count + 1, endsAt
        ends[count], amounts[count], ids[count], texts[count] = endsAt, amount, id, whole
      elseif chars == 0 and amount > 0 then
        bucket.debt, bucket.dueAt = amount, endsAt
      else
        return false
      end
      held, chars = held + amount, chars + #whole
    end
    bucket.count, bucket.held = count, held
    if chars ~= #list then return false end
    local sum, lastEnd = match(head, '^/(%d+)/(%d+)$')
    return head == '' or (tonumber(sum) == held and tonumber(lastEnd) == last)
  end

  local function usedOf(bucket)
    return bucket.algorithm.used(bucket.policy, bucket.a, bucket.b, bucket.c)
  end

  local function isOwnInFuture(bucket, used)
    return bucket.algorithm.isInFuture(bucket.policy, used, bucket.a, bucket.b, bucket.c)
  end

  local function add(bucket, used, cost)
    bucket.a, bucket.b, bucket.c = bucket.algorithm.add(bucket.policy, used, cost, bucket.a, bucket.b, bucket.c)
    bucket.isOwnChanged = true
  end

  -- Removes the debt and returns its amount.
  local function takeDebt(bucket)
    local debt = bucket.debt
    bucket.debt, bucket.held = 0, bucket.held - debt
    return debt
  end

  -- Charges an amount and the debt as of an instant. What does not fit becomes the debt, up to one limit.
  local function charge(bucket, amount, time)
    local policy, present, owed = bucket.policy, now, amount + takeDebt(bucket)
    if bucket.algorithm.holdsOnly then return end
    now = time
    local used = usedOf(bucket)
    local fit = min(owed, max(0, floor((policy.capacityUnits - used) / policy.unitsPerToken)))
    if fit > 0 or (used > 0 and isOwnInFuture(bucket, used)) then add(bucket, used, fit) end
    local rest = min(owed - fit, policy.limit)
    bucket.forgiven = bucket.forgiven + owed - fit - rest
    if rest > 0 then
      local lacking = usedOf(bucket) - (policy.limit - rest) * policy.unitsPerToken
      bucket.dueAt = time + bucket.algorithm.wait(policy, lacking, bucket.a, bucket.b, bucket.c)
      bucket.debt, bucket.held = rest, bucket.held + rest
    end
    now = present
  end

  -- The instant at which the next hold ends or the debt is due.
  local function nextEnd(bucket)
    local endsAt = bucket.first <= bucket.count and bucket.ends[bucket.first] or NEVER
    return bucket.debt > 0 and bucket.dueAt < endsAt and bucket.dueAt or endsAt
  end

  -- Charges the holds that have ended, each as of its own end, and the debt when it is due.
  local function endUntil(bucket, time)
    local next = nextEnd(bucket)
    while next <= time do
      local first, amount = bucket.first, 0
      if first <= bucket.count and bucket.ends[first] == next then
        amount = bucket.amounts[first]
        bucket.first, bucket.held = first + 1, bucket.held - amount
      end
      charge(bucket, amount, next)
      next = nextEnd(bucket)
    end
  end

  -- Under another plan than the one it was made with, a debt is at most one limit, and due when it fits.
  local function reviewDebt(bucket)
    local policy = bucket.policy
    local debt = min(bucket.debt, policy.limit)
    bucket.debt, bucket.held = debt, bucket.held + debt - bucket.debt
    local lacking = usedOf(bucket) - (policy.limit - debt) * policy.unitsPerToken
    local waitMs = lacking > 0 and bucket.algorithm.wait(policy, lacking, bucket.a, bucket.b, bucket.c) or 0
    bucket.dueAt = min(bucket.dueAt, now + waitMs)
    endUntil(bucket, now)
  end

  -- A bucket with nothing in use is an untouched one.
  local function clearIfUnused(bucket)
    if usedOf(bucket) > 0 then return end
    bucket.a, bucket.b, bucket.c = bucket.algorithm.parse(false)
  end

  local function newBucket(policy)
    return { policy = policy, debt = 0, dueAt = 0, held = 0, forgiven = 0, writtenAt = 0, first = 1, count = 0 }
  end

  -- Clamps a state dated in the future, and reviews the debt.
  local function clampToNow(bucket)
    local used = usedOf(bucket)
    bucket.isInFuture = used > 0 and isOwnInFuture(bucket, used)
    if bucket.isInFuture then add(bucket, used, 0) end
    if bucket.debt > 0 then reviewDebt(bucket) end
    clearIfUnused(bucket)
    bucket.forgiven = 0
  end

  -- The bucket for a take or a peek beside many holds, of which only those that have ended are parsed: the sum of all is in
  -- front of them. Returns nil if all have to be parsed: after a step back of the clock, and if all have ended.
  local function readBeside(policy, raw, bar)
    local writtenAt, held, lastEnd, at = match(raw, '^(%d+)/(%d+)/(%d+)()', bar + 1)
    writtenAt, held, lastEnd = tonumber(writtenAt), tonumber(held), tonumber(lastEnd)
    if not (isWhole(writtenAt) and isWhole(held) and isWhole(lastEnd)) or writtenAt > now then return end
    local bucket, own = newBucket(policy), string.sub(raw, 1, bar - 1)
    bucket.algorithm, bucket.held, bucket.lastEnd, bucket.raw, bucket.own = policy.algorithm, held, lastEnd, raw, own
    bucket.a, bucket.b, bucket.c = policy.algorithm.parse(own ~= '' and own)
    if not bucket.a then return end
    -- Only a debt has no id.
    local dueAt, debt, start = match(raw, '^ (%d+):(%d+):() ', at)
    dueAt, debt = tonumber(dueAt or 0), tonumber(debt or 0)
    if not isWhole(dueAt) or not isWhole(debt) then return end
    bucket.dueAt, bucket.debt, at = dueAt, debt, start or at
    while true do
      local endsAt, amount, after = match(raw, '^ (%d+):(%d+):[%w_.~-]+()', at)
      endsAt, amount = tonumber(endsAt), tonumber(amount)
      if not isWhole(endsAt) or not isWhole(amount) then return end
      local next = bucket.debt > 0 and min(bucket.dueAt, endsAt) or endsAt
      if next > now then break end
      if next == endsAt then at = after else amount = 0 end
      bucket.held = bucket.held - amount
      charge(bucket, amount, next)
    end
    bucket.at = at
    clampToNow(bucket)
    -- Beside a debt nothing fits, so a take writes only to clamp.
    return (bucket.debt == 0 or not bucket.isInFuture) and bucket
  end

  -- Returns an error text or nil, then the bucket at a key as of now. `raw` is the value of a string, if it is known.
  local function read(policy, key, raw)
    local algorithm, err = policy.algorithm, nil
    local bucket = newBucket(policy)
    if algorithm.makeHeld then
      algorithm.held = algorithm.held or algorithm.makeHeld()
      algorithm = algorithm.held
      err, raw = algorithm.load(key, bucket)
      if err then return err end
    elseif raw == nil then
      raw = try('GET', key)
      if type(raw) == 'table' then return raw.err end
    end
    local bar = raw and string.find(raw, '|', 1, true)
    if bar and #raw - bar > MANY_CHARS and not bucket.length and (policy.mode == MODES.take or policy.mode == MODES.peek) then
      local beside = readBeside(policy, raw, bar)
      if beside then return nil, beside end
    end
    bucket.ends, bucket.amounts, bucket.ids, bucket.texts = {}, {}, {}, {}
    bucket.lists = { bucket.ends, bucket.amounts, bucket.ids, bucket.texts }
    local own = bar and string.sub(raw, 1, bar - 1) or raw
    if bar and not parse(bucket, string.sub(raw, bar + 1)) then return 'FOREIGN value' end
    if not bucket.a then bucket.a, bucket.b, bucket.c = algorithm.parse(bar ~= 1 and own) end
    if not bucket.a then return 'FOREIGN value' end
    bucket.algorithm, bucket.raw, bucket.own = algorithm, raw or '', own or ''
    -- If the clock has stepped back, no time has passed since the holds were written.
    local back = max(0, bucket.writtenAt - now)
    if back > 0 then
      bucket.dueAt = bucket.dueAt - back
      for i = 1, bucket.count do
        bucket.ends[i] = bucket.ends[i] - back
        bucket.texts[i] = format(HOLD, bucket.ends[i], bucket.amounts[i], bucket.ids[i])
      end
    end
    endUntil(bucket, now)
    clampToNow(bucket)
    bucket.isInFuture = bucket.isInFuture or back > 0
    return nil, bucket
  end

  -- Whether a cost fits beside a held amount. Compared in costs first, so that every step is exact.
  local function leavesRoom(bucket, held)
    local policy = bucket.policy
    local room = policy.limit - policy.cost - held
    return room >= 0 and usedOf(bucket) <= room * policy.unitsPerToken
  end

  -- The index of the hold with an id.
  local function find(bucket, id)
    for i = bucket.first, bucket.count do
      if bucket.ids[i] == id then return i end
    end
  end

  -- Whether a charge admits its group. Holding no more than before is always possible.
  local function fits(bucket)
    local policy = bucket.policy
    if policy.mode.apply ~= 'hold' then return not policy.asks or leavesRoom(bucket, bucket.held) end
    local own = find(bucket, policy.hold.id)
    local ownAmount = own and bucket.amounts[own] or 0
    if own and policy.cost <= ownAmount then return true end
    if not own and bucket.count - bucket.first + 1 >= policy.hold.max then return false end
    return leavesRoom(bucket, bucket.held - ownAmount)
  end

  -- Removes the hold with an id, and returns whether it existed.
  local function remove(bucket, id)
    local i = find(bucket, id)
    if not i then return false end
    bucket.count, bucket.held = bucket.count - 1, bucket.held - bucket.amounts[i]
    for _, list in ipairs(bucket.lists) do table.remove(list, i) end
    return true
  end

  -- The actions of modes.lua. Each changes the bucket, and returns whether that had an effect.
  local function take(bucket)
    local cost = bucket.policy.cost
    if cost == 0 or bucket.algorithm.holdsOnly then return false end
    add(bucket, usedOf(bucket), cost)
    return true
  end

  -- Refunds the debt first, then what is in use.
  local function refund(bucket)
    local policy, used = bucket.policy, usedOf(bucket)
    local cost = policy.cost
    if cost == 0 or used == 0 or (policy.grantEndsAt or now + 1) <= now then return false end
    local debt = takeDebt(bucket)
    if cost > debt then
      bucket.a, bucket.b, bucket.c = bucket.algorithm.refund(policy, used, cost - debt, bucket.a, bucket.b, bucket.c)
      bucket.isOwnChanged = true
    elseif debt > cost then
      charge(bucket, debt - cost, now)
    end
    return true
  end

  local function clear(bucket)
    bucket.first, bucket.count, bucket.debt, bucket.held = 1, 0, 0, 0
    bucket.a, bucket.b, bucket.c = bucket.algorithm.parse(false)
    return true
  end

  local function hold(bucket)
    local cost, id, endsAt = bucket.policy.cost, bucket.policy.hold.id, now + bucket.policy.hold.forMs
    remove(bucket, id)
    local at = bucket.count + 1
    while at > bucket.first and bucket.ends[at - 1] > endsAt do at = at - 1 end
    local values = { endsAt, cost, id, format(HOLD, endsAt, cost, id) }
    for i, list in ipairs(bucket.lists) do table.insert(list, at, values[i]) end
    bucket.count, bucket.held = bucket.count + 1, bucket.held + cost
    return true
  end

  local function settle(bucket)
    if not remove(bucket, bucket.policy.hold.id) then return false end
    charge(bucket, bucket.policy.cost, now)
    return true
  end

  local ACTIONS = { add = take, subtract = refund, clear = clear, hold = hold, settle = settle }

  -- Milliseconds until nothing is in use, if nothing is settled.
  local function resetAfter(bucket)
    local algorithm, present, time = bucket.algorithm, now, now
    if bucket.at then return max(now, bucket.lastEnd) - now + MAX_WINDOWS * bucket.policy.windowMs end
    if algorithm.holdsOnly then return max(now, bucket.ends[bucket.count] or 0) - now end
    local later = { policy = bucket.policy, algorithm = algorithm, a = bucket.a, b = bucket.b, c = bucket.c, forgiven = 0, held = 0 }
    later.first, later.count, later.ends, later.amounts = bucket.first, bucket.count, bucket.ends, bucket.amounts
    later.debt, later.dueAt = bucket.debt, bucket.dueAt
    if algorithm.copy then later.a = algorithm.copy(bucket.a) end
    local next = nextEnd(later)
    while next < NEVER do
      time = next
      endUntil(later, time)
      next = nextEnd(later)
    end
    now = time
    local used = usedOf(later)
    if used > 0 then time = time + algorithm.reset(bucket.policy, used, later.a, later.b, later.c) end
    now = present
    return time - now
  end

  -- Formats a bucket: the algorithm's part of the value, and that of the holds, which is empty if there are none.
  local function texts(bucket)
    local own = bucket.own
    if usedOf(bucket) == 0 then
      own = ''
    elseif bucket.isOwnChanged then
      own = bucket.algorithm.text(bucket.a, bucket.b, bucket.c)
    end
    if bucket.at then
      local head = headText(own, bucket.held, bucket.lastEnd, bucket.at - 1)
      bucket.isFront = #own + #head == bucket.at - 1
      if bucket.isFront then return own, head end
      return own, headText(own, bucket.held, bucket.lastEnd, FRONT_CHARS) .. string.sub(bucket.raw, bucket.at)
    end
    if bucket.debt == 0 and bucket.first > bucket.count then return own, '' end
    local debt = bucket.debt > 0 and format(HOLD, bucket.dueAt, bucket.debt, '') or ''
    local list = debt .. table.concat(bucket.texts, '', bucket.first, bucket.count)
    local lastEnd = bucket.first <= bucket.count and bucket.ends[bucket.count] or 0
    return own, headText(own, bucket.held, lastEnd, #list > MANY_CHARS and FRONT_CHARS or 0) .. list
  end

  -- Applies an action, or none. Returns whether the charge is allowed, the value after it, and what to store: nil if nothing
  -- changes, false if the key is to be deleted, or a value or commands, with the time to live.
  local function prepare(key, bucket, action, isFit)
    local policy = bucket.policy
    local changed = action and ACTIONS[action](bucket) or false
    local allowed = isFit
    if policy.mode.apply == 'settle' then
      allowed = changed
    elseif action and policy.mode.applyIfDenied then
      allowed = fits(bucket)
    elseif not action and not isFit and policy.mode ~= MODES.peek and policy.cost <= policy.limit then
      -- A denied charge clamps a state dated in the future.
      changed = bucket.isInFuture
    end
    if not changed then return allowed, bucket.raw end
    clearIfUnused(bucket)
    local own, held = texts(bucket)
    local value = own .. held
    if value == '' then return allowed, value, false end
    local ttl = format(WHOLE, max(1, policy.ttlMs, resetAfter(bucket)))
    if bucket.isFront then return allowed, value, { { 'SETRANGE', key, '0', value }, { 'PEXPIRE', key, ttl } } end
    if bucket.length then return allowed, value, bucket.algorithm.commands(key, bucket, own, held, ttl) end
    return allowed, value, value, ttl
  end

  return { read = read, fits = fits, prepare = prepare }
end

-- Created when a charge first needs it, like the algorithms.
local holds
