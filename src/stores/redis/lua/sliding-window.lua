-- Sliding window: the counter of the current window, and the previous one weighted by its overlap. See sliding-window.ts.
-- Stored:  start:previous:current
makers['sliding-window'] = function()
  local parse, text = makeTriple()

  -- The start, the two counters as of now, and the milliseconds left of this window. The counters may exceed the limit of
  -- this policy: plans with other limits share them.
  local function viewAt(policy, start, previous, current)
    local windowMs = policy.windowMs
    if start > now then
      start, previous, current = windowStart(policy), 0, previous + current
    elseif now >= start + 2 * windowMs then
      start, previous, current = windowStart(policy), 0, 0
    elseif now >= start + windowMs then
      start, previous, current = start + windowMs, current, 0
    end
    return start, previous, current, start + windowMs - now
  end

  local function used(policy, a, b, c)
    local _, previous, current, left = viewAt(policy, a, b, c)
    return min(previous, policy.limit) * left + min(current, policy.limit) * policy.windowMs
  end

  local function wait(policy, amount, a, b, c)
    local _, previous, current, left = viewAt(policy, a, b, c)
    previous, current = min(previous, policy.limit), min(current, policy.limit)
    -- First the previous window fades out; after that, in the next window, the current one does.
    local fading = previous * left
    if amount <= fading then return ceil(amount / previous) end
    return left + ceil((amount - fading) / current)
  end

  local function reset(policy, _, a, b, c)
    local _, _, current, left = viewAt(policy, a, b, c)
    return current > 0 and left + policy.windowMs or left
  end

  local function isInFuture(_, _, start)
    return start > now
  end

  local function add(policy, _, cost, a, b, c)
    local start, previous, current = viewAt(policy, a, b, c)
    return start, previous, current + cost
  end

  local function refund(policy, _, cost, a, b, c)
    local start, previous, current = viewAt(policy, a, b, c)
    if not policy.grantEndsAt then
      local older = max(0, cost - current)
      return start, max(0, previous - older), max(0, current - cost)
    end
    -- A grant expires two windows after the start of its own window.
    if start < policy.grantEndsAt - policy.windowMs then return start, previous, max(0, current - cost) end
    return start, max(0, previous - cost), current
  end

  return {
    parse = parse,
    text = text,
    used = used,
    wait = wait,
    reset = reset,
    isInFuture = isInFuture,
    add = add,
    refund = refund,
  }
end
