-- Sliding log with holds: loads the whole log as the state of sliding-log.ts, the sum of all costs followed by pairs of
-- end and cost. Its time grows with the length of the log, so logs with a high limit have no holds.
-- Stored:  the list of sliding-log.lua, with the holds after its first element. A log without grants has that element only.
local function makeHeldLog()
  local MAX_PUSHED = 2000

  local function text(log)
    local parts = {}
    for i = 1, #log do parts[i] = format(WHOLE, log[i]) end
    return table.concat(parts, ',')
  end

  -- Returns an error text or nil, then the log as text, like the value of a string. Sets the state, the number of stored
  -- elements, and the running total in the first one.
  local function load(key, bucket)
    local list = try('LRANGE', key, '0', '-1')
    bucket.a, bucket.length = {}, #list
    if #list == 0 then return list.err, false end
    local total, held = match(list[1], '^(%d+)(.*)$')
    bucket.total, total = total, tonumber(total)
    assert(isWhole(total) and #list % 2 == 1)
    local log, last = { 0 }, 0
    for i = 2, #list, 2 do
      local endsAt, after = tonumber(list[i]), tonumber(list[i + 1])
      -- Every cost is above 0.
      assert(isWhole(endsAt) and isWhole(after) and endsAt >= last and after > total)
      log[i], log[i + 1], log[1] = endsAt, after - total, log[1] + after - total
      last, total = endsAt, after
    end
    bucket.a = log
    return nil, (#log > 1 and text(log) or '') .. held
  end

  -- Only `load` reads stored values.
  local function parse()
    return {}
  end

  local function copy(log)
    local copied = {}
    for i = 1, #log do copied[i] = log[i] end
    return copied
  end

  -- The commands that store a log. If only the holds have changed, so does only the first element. Otherwise the new list is
  -- pushed before the old one is removed: the command that can fail with OOM comes first.
  local function commands(key, bucket, own, held, ttl)
    local expire = { 'PEXPIRE', key, ttl }
    if bucket.length > 0 and own == bucket.own then
      return { { 'LSET', key, '0', bucket.total .. held }, expire }
    end
    local values, total, list = { '0' .. held }, 0, {}
    local log = bucket.a
    for i = 2, #log, 2 do
      total = total + log[i + 1]
      values[i], values[i + 1] = format(WHOLE, log[i]), format(WHOLE, total)
    end
    for i = 1, #values, MAX_PUSHED do
      list[#list + 1] = { 'RPUSH', key, unpack(values, i, min(i + MAX_PUSHED - 1, #values)) }
    end
    list[#list + 1] = { 'LTRIM', key, format(WHOLE, bucket.length), '-1' }
    list[#list + 1] = expire
    return list
  end

  -- Index of the oldest grant that still counts.
  local function firstLive(log)
    local i = 2
    while log[i] and log[i] <= now do i = i + 2 end
    return i
  end

  local function used(_, log)
    local sum = log[1] or 0
    for i = 3, firstLive(log) - 1, 2 do sum = sum - log[i] end
    return sum
  end

  local function untilEnd(policy, endsAt)
    return min(endsAt - now, policy.windowMs)
  end

  local function wait(policy, amount, log)
    local i = firstLive(log)
    while amount > log[i + 1] do
      amount, i = amount - log[i + 1], i + 2
    end
    return untilEnd(policy, log[i])
  end

  local function reset(policy, _, log)
    return untilEnd(policy, log[#log - 1])
  end

  local function isInFuture(policy, _, log)
    return (log[#log - 1] or 0) > now + policy.windowMs
  end

  -- The grants that still count, with those dated in the future merged into one of now.
  local function tidy(policy, log, sum)
    local latest, kept, clamped = now + policy.windowMs, { sum }, 0
    local isClamped = isInFuture(policy, sum, log)
    for i = firstLive(log), #log, 2 do
      if isClamped and log[i] >= latest then
        clamped = clamped + log[i + 1]
      else
        kept[#kept + 1] = log[i]
        kept[#kept + 1] = log[i + 1]
      end
    end
    if clamped > 0 then
      kept[#kept + 1] = latest
      kept[#kept + 1] = clamped
    end
    return kept
  end

  local function add(policy, used, cost, log)
    local endsAt, at = now + policy.windowMs, #log
    if (log[2] or endsAt) <= now or isInFuture(policy, used, log) then
      log = tidy(policy, log, used)
      at = #log
    end
    log[1] = used + cost
    -- Grants of one millisecond are merged.
    if log[at - 1] == endsAt then
      log[at] = log[at] + cost
    elseif cost > 0 then
      at = max(1, at)
      log[at + 1], log[at + 2] = endsAt, cost
    end
    return log
  end

  -- Refunds up to `cost` of the grants that end at one instant, or of the newest ones if that is not known.
  local function refund(policy, used, cost, log)
    log = tidy(policy, log, used)
    local endsAt = policy.grantEndsAt and min(policy.grantEndsAt, now + policy.windowMs)
    local left = cost
    for i = #log - 1, 2, -2 do
      if left > 0 and (log[i] == endsAt or not endsAt) then
        local refunded = min(left, log[i + 1])
        left, log[1] = left - refunded, log[1] - refunded
        log[i + 1] = log[i + 1] - refunded
        if log[i + 1] == 0 then
          table.remove(log, i)
          table.remove(log, i)
        end
      end
    end
    return log
  end

  return {
    load = load,
    commands = commands,
    parse = parse,
    text = text,
    copy = copy,
    used = used,
    wait = wait,
    reset = reset,
    isInFuture = isInFuture,
    add = add,
    refund = refund,
  }
end
