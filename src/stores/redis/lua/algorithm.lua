-- What the algorithms have in common. Each one is a function, called when a charge first needs it, that gives a table
-- with the functions of its TypeScript twin and three of its own: `parse`, the state in a stored value (of `false`: an
-- untouched one; nothing when the value is not ours); `text`, the value to store; `reply`, which says what the figures
-- are made of besides what is in use. A state is up to three values, passed as a, b, c: tables would cost more than
-- the arithmetic. An algorithm whose state is not one string has, in place of `parse` and `text`: `load`, which reads
-- the state at a key (of `false`: an untouched one) after the text of an error; `commands`, the commands that store it;
-- `raw`, the stored value as text.
-- Functions of algorithms run before their group's first write. An error in one of them is reported as a foreign value.
local call = redis.call

-- The start of the window that `now` is in: windows begin at multiples of their length.
local function windowStart(policy)
  return now - fmod(now, policy.windowMs)
end
