-- Token bucket: the instant at which the bucket will be full again, `full + part/p` ms. See token-bucket.ts.
-- Stored:  full, or full:part/p when there is a part.
-- Replies: nothing more than what is in use.
local function tokenBucket()
  local function parse(raw)
    if not raw then return 0, 0, 0 end
    local full, part, p = parseInstant(raw)
    if full then return full, part, p end
  end

  local function text(full, part, p)
    local whole = format(WHOLE, full)
    return part == 0 and whole or whole .. format(PART, part, p)
  end

  local function used(policy, full, part, writtenP)
    local ahead = full - now
    if ahead < 0 then return 0 end
    local p, cap = policy.p, policy.cap
    if ahead > policy.windowMs then return cap end
    local used = ahead * p + partIn(p, part, writtenP)
    return used < cap and used or cap
  end

  local function reset(policy, used)
    return ceil(used / policy.p)
  end

  -- What is in use as the instant at which it will have been given back.
  local function settled(policy, used)
    local whole = floor(used / policy.p)
    local part = used - whole * policy.p
    return now + whole, part, part > 0 and policy.p or 0
  end

  -- Whether the bucket would be full later than an empty one: the clock has stepped back.
  local function ahead(policy, used, full, part, writtenP)
    if used < policy.cap then return false end
    local ahead = full - now
    return ahead > policy.windowMs or ahead * policy.p + partIn(policy.p, part, writtenP) > policy.cap
  end

  local function add(policy, used, cost)
    return settled(policy, used + cost * policy.unit)
  end

  -- Use drains in the order of the grants: what is left of one is what drains until its end.
  local function giveBack(policy, used, cost)
    local given = min(cost, policy.limit) * policy.unit
    if policy.grantEndsAt then given = min(given, (policy.grantEndsAt - now) * policy.p) end
    return settled(policy, max(0, used - given))
  end

  local function reply() end

  return {
    parse = parse,
    text = text,
    used = used,
    reset = reset,
    ahead = ahead,
    add = add,
    giveBack = giveBack,
    reply = reply,
  }
end
