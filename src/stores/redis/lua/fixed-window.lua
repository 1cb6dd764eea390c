-- Fixed window: a counter that starts again at every multiple of the window. See fixed-window.ts.
-- Stored:  start:count
makers['fixed-window'] = function()
  local PAIR = WHOLE .. ':' .. WHOLE

  local function parse(raw)
    if not raw then return 0, 0 end
    local start, count = string.match(raw, '^(%d+):(%d+)$')
    start, count = tonumber(start), tonumber(count)
    if isWhole(start) and isWhole(count) then return start, count end
  end

  local function text(start, count)
    return format(PAIR, start, count)
  end

  -- The count of the window. It may exceed the limit of this policy: plans with other limits share the counter.
  local function countAt(policy, start, count)
    return now >= start + policy.windowMs and 0 or count
  end

  local function used(policy, start, count)
    return min(countAt(policy, start, count), policy.limit)
  end

  -- The start of the window. A start in the future is moved to now.
  local function startAt(policy, stored)
    local start = min(stored, now)
    if now < start + policy.windowMs then return start end
    return windowStart(policy)
  end

  -- Milliseconds until the window ends: the wait for any amount, and for all.
  local function untilEnd(policy, _, start)
    return startAt(policy, start) + policy.windowMs - now
  end

  local function isInFuture(_, _, start)
    return start > now
  end

  local function add(policy, _, cost, start, count)
    return startAt(policy, start), countAt(policy, start, count) + cost
  end

  local function refund(policy, _, cost, start, count)
    return startAt(policy, start), max(0, countAt(policy, start, count) - cost)
  end

  return {
    parse = parse,
    text = text,
    used = used,
    wait = untilEnd,
    reset = untilEnd,
    isInFuture = isInFuture,
    add = add,
    refund = refund,
  }
end
