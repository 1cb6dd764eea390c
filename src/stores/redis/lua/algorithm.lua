-- Shared by the algorithms. Each algorithm file adds a function to `makers`, called when a charge first needs it, that
-- returns a table with the functions of its TypeScript twin (algorithm.ts) and these:
--   parse(raw)             the state in a stored value, or an untouched one if raw is false; nil if the value is foreign
--   text(a, b, c)          the value to store
--   refills                whether it refills continuously: take-groups.lua computes its takes
-- A state is up to three values, passed as a, b, c: tables would cost more than the arithmetic.
-- An algorithm whose state is not one string has other functions in place of parse and text:
--   load(key)              an error text or nil, then the state at the key, or an untouched one if key is false
--   commands(state, ttl)   the commands that store the state
--   raw(key)               the stored value as text
--   makeHeld()             returns the same algorithm for buckets with holds; `load` returns HELD in place of an error there
-- They run before the first write of their group. An error in one of them is reported as a foreign value.
local call, makers, HELD = redis.call, {}, 'HELD'

-- Returns `parse` and `text` of an algorithm whose state is three numbers. Their text is a:b:c.
local function makeTriple()
  local TRIPLE = WHOLE .. ':' .. WHOLE .. ':' .. WHOLE

  local function parse(raw)
    if not raw then return 0, 0, 0 end
    local a, b, c = match(raw, '^(%d+):(%d+):(%d+)$')
    a, b, c = tonumber(a), tonumber(b), tonumber(c)
    if isWhole(a) and isWhole(b) and isWhole(c) then return a, b, c end
  end

  local function text(a, b, c)
    return format(TRIPLE, a, b, c)
  end

  return parse, text
end

-- The start of the window that contains now: windows start at multiples of their length.
local function windowStart(policy)
  return now - fmod(now, policy.windowMs)
end
