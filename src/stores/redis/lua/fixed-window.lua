-- Fixed window: a counter that starts again at every multiple of the window. See fixed-window.ts.
-- Stored:  start:count
-- Replies: the milliseconds until the window ends.
local function fixedWindow()
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

  -- The count of the window. It may exceed this policy's limit: plans with other limits share the counter.
  local function countAt(terms, start, count)
    return now >= start + terms.windowMs and 0 or count
  end

  local function used(terms, start, count)
    return min(countAt(terms, start, count), terms.limit)
  end

  -- The window's start; one from the future begins now instead.
  local function startAt(terms, stored)
    local start = min(stored, now)
    if now < start + terms.windowMs then return start end
    return windowStart(terms)
  end

  local function reset(terms, _, start)
    return startAt(terms, start) + terms.windowMs - now
  end

  local function ahead(_, _, start)
    return start > now
  end

  local function add(terms, _, cost, start, count)
    return startAt(terms, start), countAt(terms, start, count) + cost
  end

  local function giveBack(terms, _, cost, start, count)
    return startAt(terms, start), max(0, countAt(terms, start, count) - cost)
  end

  local function reply(say, terms, used, _, start)
    say(reset(terms, used, start))
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
