-- Sliding log: keeps every grant until it is one window old. See sliding-log.ts.
-- Stored:  a list: the running total of costs before the first grant, then for each grant, oldest first, its end and the
--          running total after it. New grants are pushed at the back. Expired grants are trimmed from the front, which
--          leaves a running total at the start. A decision reads both ends of the list and searches in between: its
--          time grows with the logarithm of the length.
makers['sliding-log'] = function()
  -- A grant is { end, running total }.
  local ENDS_AT, TOTAL = 1, 2
  -- Grants are often evenly spaced: the first probes of a search interpolate, later ones bisect.
  local INTERPOLATED_PROBES = 3

  -- A stored number. A damaged one raises an error, which fails only its own group.
  local function parse(raw)
    local n = tonumber(raw)
    assert(isWhole(n))
    return n
  end

  local function text(n)
    return format(WHOLE, n)
  end

  local function storedGrant(log, i)
    local values, at = nil, 1
    if log.tail and i >= log.tailStart then
      values, at = log.tail, 2 * (i - log.tailStart) + 1
    elseif log.head and 2 * i <= #log.head then
      values, at = log.head, 2 * i - 1
    else
      values = call('LRANGE', log.key, text(2 * (i + log.moved) - 1), text(2 * (i + log.moved)))
    end
    return { parse(values[at]), parse(values[at + 1]) }
  end

  -- Searches the first grant in use whose field is at least `target`; the newest grant's always is. Returns its index, the
  -- grant, and the running total before it.
  local function reach(log, field, target)
    local low, before, high, grant = log.first, log.oldest, log.kept + 1, log.newest
    if low >= high then return high, grant, log.base end
    if before[field] >= target then return low, before, log.base end
    local probes = 0
    while high - low > 1 do
      local part = 0.5
      if probes < INTERPOLATED_PROBES then part = (target - before[field]) / (grant[field] - before[field]) end
      local i = max(low + 1, min(high - 1, low + floor(part * (high - low))))
      local probe = storedGrant(log, i)
      if probe[field] < target then
        low, before = i, probe
      else
        high, grant = i, probe
      end
      probes = probes + 1
    end
    return high, grant, before[TOTAL]
  end

  -- Returns an error text or nil, then the log at a key, or an untouched one if key is false. A log with holds is HELD.
  --   count              number of stored grants
  --   first, base        index of the oldest grant in use, and the running total before it
  --   kept, newest       index of the last stored grant that stays unchanged, and the grant after it
  --   tail, tailStart    after a refund in the back half: the grants from index tailStart on, as they will be stored
  --   head, moved        after a refund in the front half: the first grants as they will be stored; those after them are
  --                      stored `moved` grants further back
  local function load(key)
    local log = { key = key, count = 0, first = 1, base = 0, kept = 0, newest = { 0, 0 }, moved = 0 }
    local head = key and try('LRANGE', key, '0', '2') or {}
    if head.err or #head == 0 then return head.err, log end
    local base = tonumber(head[1])
    if not base and string.find(head[1], '|', 1, true) then return HELD end
    log.base, log.oldest = parse(base), { parse(head[2]), parse(head[3]) }
    log.count = parse((call('LLEN', key) - 1) / 2)
    log.newest = storedGrant(log, log.count)
    log.storedEnd = log.newest[ENDS_AT]
    if log.storedEnd <= now then
      -- All grants have expired.
      log.first, log.kept, log.base = log.count + 1, log.count, log.newest[TOTAL]
      log.newest = { 0, log.base }
      return nil, log
    end
    log.kept = log.count - 1
    log.first, log.oldest, log.base = reach(log, ENDS_AT, now + 1)
    -- Every cost is above 0.
    assert(log.base < log.oldest[TOTAL] and log.oldest[TOTAL] <= log.newest[TOTAL])
    return nil, log
  end

  -- The commands that trim a log and push values to one side, 2000 at a time: unpack is limited by the Lua stack.
  local function rewritten(trim, push, values, expire)
    local list = { trim }
    for i = 1, #values, 2000 do list[#list + 1] = { push[1], push[2], unpack(values, i, min(i + 1999, #values)) } end
    list[#list + 1] = expire
    return list
  end

  -- The commands that store a log. A command that can fail with OOM comes first, except where grants are replaced, which
  -- frees memory.
  local function commands(log, ttl)
    local key, kept = log.key, log.kept
    local front, back = text(2 * (log.first - 1)), '-1'
    local expire = { 'PEXPIRE', key, ttl }
    if log.tail then
      return rewritten({ 'LTRIM', key, front, text(2 * (log.tailStart - 1)) }, { 'RPUSH', key }, log.tail, expire)
    end
    if log.head then
      -- LPUSH reverses the order of its values.
      local values, size = {}, #log.head
      for i = 1, size do values[i] = log.head[size + 1 - i] end
      values[size + 1] = text(log.base)
      local keptFrom = size + 1 + 2 * log.moved
      return rewritten({ 'LTRIM', key, text(keptFrom), '-1' }, { 'LPUSH', key }, values, expire)
    end
    local endsAt, total = text(log.newest[ENDS_AT]), text(log.newest[TOTAL])
    local push = { 'RPUSH', key, endsAt, total }
    if log.count == 0 then
      push = { 'RPUSH', key, '0', endsAt, total }
    elseif kept == log.count - 1 and log.newest[ENDS_AT] == log.storedEnd then
      push = { 'LSET', key, '-1', total }
    elseif kept < log.count then
      back = text(2 * kept)
    end
    local trim = { 'LTRIM', key, front, back }
    if back ~= '-1' then return { trim, push, expire } end
    if front ~= '0' then return { push, trim, expire } end
    return { push, expire }
  end

  local function used(_, log)
    return log.newest[TOTAL] - log.base
  end

  local function untilEnd(policy, grant)
    local left = grant[ENDS_AT] - now
    assert(left > 0)
    return min(left, policy.windowMs)
  end

  local function wait(policy, amount, log)
    local _, grant = reach(log, TOTAL, log.base + amount)
    return untilEnd(policy, grant)
  end

  local function reset(policy, _, log)
    return untilEnd(policy, log.newest)
  end

  local function isInFuture(policy, _, log)
    return log.newest[ENDS_AT] > now + policy.windowMs
  end

  local function add(policy, _, cost, log)
    local endsAt = now + policy.windowMs
    -- Grants of one millisecond are merged, and so are grants dated in the future, which are moved to now.
    if isInFuture(policy, 0, log) then
      log.kept = reach(log, ENDS_AT, endsAt) - 1
    elseif log.newest[ENDS_AT] < endsAt then
      log.kept = log.count
    end
    log.newest = { endsAt, log.newest[TOTAL] + cost }
    return log
  end

  -- The stored values of the grants from first to last, with `by` added to their running totals.
  local function shifted(log, first, last, by)
    local values = last >= first and call('LRANGE', log.key, text(2 * first - 1), text(2 * last)) or {}
    for i = 2, #values, 2 do values[i] = text(parse(values[i]) + by) end
    return values
  end

  -- Refunds up to `cost` of the grants that end at `endsAt`, if they are still in the log. That changes the running totals
  -- of one side of the log relative to the other, so the shorter side is rewritten.
  local function removeGrant(cost, log, endsAt)
    if log.newest[ENDS_AT] < endsAt then return log end
    local at, grant, before = reach(log, ENDS_AT, endsAt)
    if grant[ENDS_AT] ~= endsAt then return log end
    local refunded = min(cost, grant[TOTAL] - before)
    local isPartial = grant[TOTAL] - refunded > before
    -- If the newest grants were moved to now, they have to be written in any case.
    local isClamped = log.newest[ENDS_AT] ~= log.storedEnd
    if not isClamped and at <= log.kept and at - log.first < log.kept - at then
      log.head = shifted(log, log.first, at - 1, refunded)
      log.base = log.base + refunded
      log.moved = (isPartial and at - 1 or at) - #log.head / 2
      log.first, log.kept = 1, log.kept - log.moved
      log.oldest = storedGrant(log, 1)
      return log
    end
    local tail = shifted(log, isPartial and at or at + 1, log.kept, -refunded)
    if isPartial or at <= log.kept then
      tail[#tail + 1] = text(log.newest[ENDS_AT])
      tail[#tail + 1] = text(log.newest[TOTAL] - refunded)
    end
    if #tail == 0 then
      -- The newest grant was refunded completely.
      log.kept = at - 2
      log.newest = at > log.first and storedGrant(log, at - 1) or { 0, before }
      return log
    end
    log.tail, log.tailStart = tail, at
    log.kept = at + #tail / 2 - 2
    log.newest = storedGrant(log, log.kept + 1)
    if at == log.first then log.oldest = storedGrant(log, at) end
    return log
  end

  -- A refund without a decision is taken from the newest grants.
  local function refund(policy, used, cost, log)
    if isInFuture(policy, used, log) then add(policy, used, 0, log) end
    if policy.grantEndsAt then return removeGrant(cost, log, min(policy.grantEndsAt, now + policy.windowMs)) end
    local total = log.newest[TOTAL] - min(cost, used)
    local i, grant = reach(log, TOTAL, total)
    log.kept, log.newest = i - 1, { grant[ENDS_AT], total }
    return log
  end

  -- The first elements of the list, for `inspect`.
  local function raw(key)
    local list = call('LRANGE', key, '0', '201')
    if list[202] then list[202] = '...' end
    return table.concat(list, ' ')
  end

  return {
    load = load,
    commands = commands,
    used = used,
    wait = wait,
    reset = reset,
    isInFuture = isInFuture,
    add = add,
    refund = refund,
    raw = raw,
    makeHeld = makeHeldLog,
  }
end
