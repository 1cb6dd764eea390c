-- The twin of strike-log.ts, added to the script by list-state.test.ts.
-- Stored:  the end of every unit of cost, oldest first, separated by commas.
makers['strike-log'] = function()
  local function parse(raw)
    local ends = {}
    if not raw then return ends end
    if not string.match(raw, '^%d[%d,]*$') then return end
    for text in string.gmatch(raw, '%d+') do
      local n = tonumber(text)
      if not isWhole(n) or (ends[#ends] or 0) > n then return end
      ends[#ends + 1] = n
    end
    return ends
  end

  local function text(ends)
    local texts = {}
    for i = 1, #ends do texts[i] = format(WHOLE, ends[i]) end
    return table.concat(texts, ',')
  end

  -- The ends that still count, none of them later than that of a charge now.
  local function clamped(policy, ends)
    local kept = {}
    for i = 1, #ends do
      if ends[i] > now then kept[#kept + 1] = min(ends[i], now + policy.windowMs) end
    end
    return kept
  end

  local function live(ends)
    local kept = {}
    for i = 1, #ends do
      if ends[i] > now then kept[#kept + 1] = ends[i] end
    end
    return kept
  end

  local function untilEnd(policy, endsAt)
    return min(endsAt - now, policy.windowMs)
  end

  local function used(_, ends)
    return #live(ends)
  end

  local function wait(policy, amount, ends)
    return untilEnd(policy, live(ends)[amount])
  end

  local function reset(policy, _, ends)
    return untilEnd(policy, ends[#ends])
  end

  local function isInFuture(policy, _, ends)
    return ends[#ends] > now + policy.windowMs
  end

  local function add(policy, _, cost, ends)
    local kept = clamped(policy, ends)
    for _ = 1, cost do kept[#kept + 1] = now + policy.windowMs end
    return kept
  end

  local function refund(policy, _, cost, ends)
    local kept, left, result = clamped(policy, ends), cost, {}
    local grantEnd = policy.grantEndsAt and min(policy.grantEndsAt, now + policy.windowMs)
    for i = 1, #kept do
      local isRefunded = false
      if grantEnd then
        if kept[i] == grantEnd and left > 0 then
          isRefunded, left = true, left - 1
        end
      else
        isRefunded = i > #kept - cost
      end
      if not isRefunded then result[#result + 1] = kept[i] end
    end
    return result
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
