-- What the algorithms have in common. Each one is a function, called when a charge first needs it, that gives a table
-- with the functions of its TypeScript twin and three of its own: `parse`, the state in a stored value (of `false`: an
-- untouched one; nothing when the value is not ours); `text`, the value to store; `reply`, which says what the figures
-- are made of besides what is in use. A state is up to three values, passed as a, b, c: tables would cost more than
-- the arithmetic.
local floor, ceil, min, max, fmod, format = math.floor, math.ceil, math.min, math.max, math.fmod, string.format

-- Prints a whole number. The shorter form is twice as fast, but where a C long has 32 bits it is wrong.
local WHOLE = format('%d', 4503599627370496) == '4503599627370496' and '%d' or '%.0f'

-- Whether this is a whole number that a double holds exactly. NaN and infinity are not.
local function isWhole(n)
  return n and n >= 0 and n <= 9007199254740991 and floor(n) == n
end

-- The start of the window that `now` is in: windows begin at multiples of their length.
local function windowStart(terms)
  return now - fmod(now, terms.windowMs)
end
