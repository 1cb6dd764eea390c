-- Concurrency: at most `limit` holds at once. See concurrency.ts.
-- Stored:  nothing of its own; holds.lua stores the holds.
makers['concurrency'] = function()
  local function parse(raw)
    if not raw then return 0 end
  end

  local function zero()
    return 0
  end

  local function isInFuture()
    return false
  end

  return {
    holdsOnly = true,
    parse = parse,
    text = zero,
    used = zero,
    wait = zero,
    reset = zero,
    isInFuture = isInFuture,
    add = zero,
    refund = zero,
  }
end
