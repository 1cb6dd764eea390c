-- Sliding log: every grant until it is a window old. See sliding-log.ts.
-- Stored:  the sum of all costs, then " end:cost" for each grant, oldest first. The text is cut and joined, and only
--          the grants that matter are read, so that a long log costs little more than a short one.
-- Replies: the milliseconds until all is given back, until some is, and until the cost fits (0: it does, or never can).
local function slidingLog()
  local find, sub = string.find, string.sub
  local GRANT = ' ' .. WHOLE .. ':' .. WHOLE

  local function parse(raw)
    if not raw then return 0, '' end
    local sum, grants = string.match(raw, '^(%d+)([ %d:]+)$')
    sum = tonumber(sum)
    if isWhole(sum) and find(grants, '^ %d+:%d+') and find(grants, ' %d+:%d+$', -40) then return sum, grants end
  end

  local function text(sum, grants)
    return format(WHOLE, sum) .. grants
  end

  -- The grant that begins at `at`: its end, its cost, and where the next one begins.
  local function grantAt(grants, at)
    local _, last, stop, cost = find(grants, '^ (%d+):(%d+)', at)
    if last then return tonumber(stop), tonumber(cost), last + 1 end
  end

  local function newest(grants)
    local at, _, stop, cost = find(grants, ' (%d+):(%d+)$', -40)
    return tonumber(stop) or 0, tonumber(cost), at
  end

  -- What counts still, and where the oldest grant is that does.
  local function live(sum, grants)
    local at = 1
    while true do
      local stop, cost, after = grantAt(grants, at)
      if not stop or stop > now then return sum, at end
      sum, at = sum - cost, after
    end
  end

  local function used(_, sum, grants)
    return (live(sum, grants))
  end

  local function untilEnd(terms, stop)
    return min(stop - now, terms.windowMs)
  end

  local function wait(terms, amount, sum, grants)
    local _, at = live(sum, grants)
    local stop, cost, after = grantAt(grants, at)
    while amount > cost do
      amount = amount - cost
      stop, cost, after = grantAt(grants, after)
    end
    return untilEnd(terms, stop)
  end

  local function reset(terms, _, _, grants)
    return untilEnd(terms, (newest(grants)))
  end

  local function ahead(terms, _, _, grants)
    return newest(grants) > now + terms.windowMs
  end

  -- Forgets grants that have ended; those that end later than a grant of now would are as old as now.
  local function tidy(terms, sum, grants)
    local _, at = live(sum, grants)
    grants = sub(grants, at)
    if not ahead(terms, 0, 0, grants) then return grants end
    return (string.gsub(grants, '(%d+):', function(stop)
      return format(WHOLE .. ':', min(tonumber(stop), now + terms.windowMs))
    end))
  end

  local function add(terms, used, cost, sum, grants)
    grants = tidy(terms, sum, grants)
    local after = used + cost
    local stop, before, at = newest(grants)
    -- Grants of one millisecond are one.
    if stop == now + terms.windowMs then
      grants, cost = sub(grants, 1, at - 1), before + cost
    end
    return after, cost > 0 and grants .. format(GRANT, now + terms.windowMs, cost) or grants
  end

  -- Gives back what is in the log of the grants that end at one instant, if they are still there.
  local function removeGrant(used, cost, grants, stop)
    local at = find(grants, format(' ' .. WHOLE .. ':%%d+', stop))
    if not at then return used, grants end
    local granted, after = 0, at
    while true do
      local other, spent, following = grantAt(grants, after)
      if other ~= stop then break end
      granted, after = granted + spent, following
    end
    local rest = granted > cost and format(GRANT, stop, granted - cost) or ''
    return used - min(cost, granted), sub(grants, 1, at - 1) .. rest .. sub(grants, after)
  end

  local function giveBack(terms, used, cost, sum, grants)
    grants = tidy(terms, sum, grants)
    if terms.grantEndsAt then
      return removeGrant(used, cost, grants, min(terms.grantEndsAt, now + terms.windowMs))
    end
    local left = min(cost, used)
    local after = used - left
    -- Newest first: without its decision, a refund is taken to be of the latest grants.
    while left > 0 do
      local stop, spent, at = newest(grants)
      grants = sub(grants, 1, at - 1)
      if spent > left then grants = grants .. format(GRANT, stop, spent - left) end
      left = max(0, left - spent)
    end
    return after, grants
  end

  local function reply(say, terms, used, cost, sum, grants)
    local over = used + cost - terms.limit
    local lacking = max(0, used - terms.limit) + 1
    say(used > 0 and reset(terms, used, sum, grants) or 0)
    say(used > 0 and wait(terms, lacking, sum, grants) or 0)
    say(over > 0 and cost > 0 and cost <= terms.limit and wait(terms, over, sum, grants) or 0)
  end

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
