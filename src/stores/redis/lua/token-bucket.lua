-- Token bucket: the instant at which the bucket will be full again, `full + part/p` ms. See token-bucket.ts.
-- Stored:  full, or full:part when there is a part.
-- Replies: nothing more than what is in use.
local function tokenBucket()
  local function parse(raw)
    if not raw then return 0, 0 end
    local full, part = tonumber(raw), 0
    if not full then
      full, part = string.match(raw, '^(%d+):(%d+)$')
      full, part = tonumber(full), tonumber(part)
    end
    if isWhole(full) and isWhole(part) then return full, part end
  end

  local function text(full, part)
    local whole = format(WHOLE, full)
    return part == 0 and whole or whole .. ':' .. format(WHOLE, part)
  end

  local function used(terms, full, part)
    local ahead = full - now
    if ahead < 0 then return 0 end
    local p, cap = terms.p, terms.cap
    if ahead > terms.windowMs then return cap end
    local used = ahead * p + (part < p and part or p - 1)
    return used < cap and used or cap
  end

  local function reset(terms, used)
    return ceil(used / terms.p)
  end

  -- What is in use as the instant at which it will have been given back.
  local function settled(terms, used)
    local whole = floor(used / terms.p)
    return now + whole, used - whole * terms.p
  end

  -- Whether more was in use than fits, so that an empty bucket would be written another way than it is stored.
  local function ahead(terms, used, full, part)
    if used < terms.cap then return false end
    local empty, rest = settled(terms, used)
    return full ~= empty or part ~= rest
  end

  local function add(terms, used, cost)
    return settled(terms, used + cost * terms.unit)
  end

  local function giveBack(terms, used, cost)
    return settled(terms, max(0, used - min(cost, terms.limit) * terms.unit))
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
