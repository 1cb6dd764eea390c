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

  local function used(terms, full, part, writtenP)
    local ahead = full - now
    if ahead < 0 then return 0 end
    local p, cap = terms.p, terms.cap
    if ahead > terms.windowMs then return cap end
    local used = ahead * p + partIn(p, part, writtenP)
    return used < cap and used or cap
  end

  local function reset(terms, used)
    return ceil(used / terms.p)
  end

  -- What is in use as the instant at which it will have been given back.
  local function settled(terms, used)
    local whole = floor(used / terms.p)
    local part = used - whole * terms.p
    return now + whole, part, part > 0 and terms.p or 0
  end

  -- Whether the bucket would be full later than an empty one: the clock has stepped back.
  local function ahead(terms, used, full, part, writtenP)
    if used < terms.cap then return false end
    local ahead = full - now
    return ahead > terms.windowMs or ahead * terms.p + partIn(terms.p, part, writtenP) > terms.cap
  end

  local function add(terms, used, cost)
    return settled(terms, used + cost * terms.unit)
  end

  -- Use drains in the order of the grants: what is left of one is what drains until its end.
  local function giveBack(terms, used, cost)
    local given = min(cost, terms.limit) * terms.unit
    if terms.grantEndsAt then given = min(given, (terms.grantEndsAt - now) * terms.p) end
    return settled(terms, max(0, used - given))
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
