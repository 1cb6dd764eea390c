-- Token bucket: stores the instant at which the bucket will be full, full + part/unitsPerMs ms. See token-bucket.ts.
-- Stored:  full, or full:part/unitsPerMs if part is not 0.
makers['token-bucket'] = function()
  local function parse(raw)
    if not raw then return 0, 0, 0 end
    local full, part, unitsPerMs = parseInstant(raw)
    if full then return full, part, unitsPerMs end
  end

  local function text(full, part, unitsPerMs)
    return part == 0 and format(WHOLE, full) or format(INSTANT, full, part, unitsPerMs)
  end

  local function used(policy, full, part, writtenUnitsPerMs)
    local untilFull = full - now
    if untilFull < 0 then return 0 end
    local unitsPerMs, capacityUnits = policy.unitsPerMs, policy.capacityUnits
    if untilFull > policy.windowMs then return capacityUnits end
    local used = untilFull * unitsPerMs + partIn(unitsPerMs, part, writtenUnitsPerMs)
    return used < capacityUnits and used or capacityUnits
  end

  -- Milliseconds until an amount has refilled: the wait for it, and for all that is in use.
  local function untilRefilled(policy, amount)
    return ceil(amount / policy.unitsPerMs)
  end

  -- The instant at which the units in use will have refilled.
  local function fullAt(policy, used)
    local whole = floor(used / policy.unitsPerMs)
    local part = used - whole * policy.unitsPerMs
    return now + whole, part, part > 0 and policy.unitsPerMs or 0
  end

  -- Whether it would be full later than an empty bucket, because the clock has stepped back.
  local function isInFuture(policy, used, full, part, writtenUnitsPerMs)
    if used < policy.capacityUnits then return false end
    local untilFull, unitsPerMs = full - now, policy.unitsPerMs
    if untilFull > policy.windowMs then return true end
    return untilFull * unitsPerMs + partIn(unitsPerMs, part, writtenUnitsPerMs) > policy.capacityUnits
  end

  local function add(policy, used, cost)
    return fullAt(policy, used + cost * policy.unitsPerToken)
  end

  -- Use drains in the order of the grants: the rest of a grant drains until its end.
  local function refund(policy, used, cost)
    local refunded = min(cost, policy.limit) * policy.unitsPerToken
    if policy.grantEndsAt then refunded = min(refunded, (policy.grantEndsAt - now) * policy.unitsPerMs) end
    return fullAt(policy, max(0, used - refunded))
  end

  return {
    refills = true,
    parse = parse,
    text = text,
    used = used,
    wait = untilRefilled,
    reset = untilRefilled,
    isInFuture = isInFuture,
    add = add,
    refund = refund,
  }
end
