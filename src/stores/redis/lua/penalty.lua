-- Penalty: counts strikes, and blocks a key for longer with each of them. See penalty.ts.
-- Stored:  writtenAt:blockedUntil:forgottenAt
makers['penalty'] = function()
  local parse, text = makeTriple()

  -- Milliseconds that are left of the block, and after it until the last strike is forgotten. If the clock has stepped back
  -- behind the last write, no time has passed since.
  local function viewAt(writtenAt, blockedUntil, forgottenAt)
    local since = max(now, writtenAt)
    local blockMs = max(0, blockedUntil - since)
    return blockMs, max(0, forgottenAt - since - blockMs)
  end

  local function write(blockMs, memoryMs)
    local ends = now + blockMs
    return blockMs + memoryMs > 0 and now or 0, blockMs > 0 and ends or 0, memoryMs > 0 and ends + memoryMs or 0
  end

  -- Current strikes. One that is partly forgotten still counts.
  local function strikesOf(policy, memoryMs)
    return ceil(memoryMs / policy.windowMs)
  end

  local function used(policy, a, b, c)
    local blockMs, memoryMs = viewAt(a, b, c)
    return blockMs > 0 and policy.capacityUnits or strikesOf(policy, memoryMs)
  end

  local function reset(_, _, a, b, c)
    local blockMs, memoryMs = viewAt(a, b, c)
    return blockMs + memoryMs
  end

  local function isInFuture(_, _, writtenAt)
    return writtenAt > now
  end

  local function add(policy, _, cost, a, b, c)
    local blockMs, memoryMs = viewAt(a, b, c)
    if cost == 0 then return write(blockMs, memoryMs) end
    local durationsMs, count = {}, 0
    for durationMs in string.gmatch(policy.block, '%d+') do
      count = count + 1
      durationsMs[count] = tonumber(durationMs)
    end
    memoryMs = min(memoryMs + min(cost, count) * policy.windowMs, count * policy.windowMs)
    return write(durationsMs[strikesOf(policy, memoryMs)], memoryMs)
  end

  -- Forgets strikes. A block stays.
  local function refund(policy, _, cost, a, b, c)
    local blockMs, memoryMs = viewAt(a, b, c)
    return write(blockMs, max(0, memoryMs - min(cost, 1001) * policy.windowMs))
  end

  local function block(forMs, a, b, c)
    local blockMs, memoryMs = viewAt(a, b, c)
    return write(max(blockMs, forMs), memoryMs)
  end

  -- Returns nothing if there is no block.
  local function unblock(a, b, c)
    local blockMs, memoryMs = viewAt(a, b, c)
    if blockMs > 0 then return write(0, memoryMs) end
  end

  return {
    parse = parse,
    text = text,
    used = used,
    reset = reset,
    isInFuture = isInFuture,
    add = add,
    refund = refund,
    block = block,
    unblock = unblock,
  }
end
