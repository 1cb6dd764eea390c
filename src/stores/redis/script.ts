/** The script of the Redis store. Made from lua/ by scripts/make-redis-script.js; do not edit. */

export const script: string = `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local floor, ceil, min, max, fmod, format = math.floor, math.ceil, math.min, math.max, math.fmod, string.format
local WHOLE = format('%d', 4503599627370496) == '4503599627370496' and '%d' or '%.0f'
local function isWhole(n)
return n and n >= 0 and n <= 9007199254740991 and floor(n) == n
end
local try, match = redis.pcall, string.match
local PART = ':' .. WHOLE .. '/' .. WHOLE
local function parseInstant(raw)
local full = tonumber(raw)
if full then
if isWhole(full) then return full, 0, 0 end
return
end
local part, p
full, part, p = match(raw, '^(%d+):(%d+)/(%d+)$')
full, part, p = tonumber(full), tonumber(part), tonumber(p)
if isWhole(full) and isWhole(p) and part < p then return full, part, p end
end
local function partIn(p, part, writtenP)
if part == 0 or p == writtenP then return part end
local high = part * floor(p / 65536)
local quotient = floor(high / writtenP)
local low = (high - quotient * writtenP) * 65536 + part * (p % 65536)
return quotient * 65536 + ceil(low / writtenP)
end
local function takeTokens(cost, limit, windowMs, unit, p, ttlMs)
local cap, amount, out = limit * unit, cost * unit, {}
for i = 1, #KEYS do
local key, full, part, writtenP = KEYS[i], 0, 0, 0
local raw = try('GET', key)
if raw then
full = nil
if type(raw) == 'string' then full, part, writtenP = parseInstant(raw) end
end
if full then
local ahead, used, isAhead = full - now, 0, false
if ahead >= 0 then
used = ahead * p + partIn(p, part, writtenP)
isAhead = ahead > windowMs or used > cap
if isAhead then used = cap end
end
local fits = used <= cap - amount
local after = fits and used + amount or used
local whole = floor(after / p)
local rest = after - whole * p
local answer = fits and after or -1 - after
if fits or (isAhead and cost <= limit) then
local text, ttl = format(WHOLE, now + whole), ceil(after / p)
if rest > 0 then text = text .. format(PART, rest, p) end
answer = try('SET', key, text, 'PX', format(WHOLE, ttl > ttlMs and ttl or ttlMs)).err or answer
end
out[i] = answer
else
out[i] = type(raw) == 'table' and raw.err or 'FOREIGN value'
end
end
out[#KEYS + 1] = now
return out
end
if #ARGV == 2 and tonumber(match(ARGV[1], '^([1-9]%d*) 1$')) == #KEYS then
local cost, limit, windowMs, unit, p, ttlMs =
match(ARGV[2], '^token%-bucket take ([1-9]%d*) (%d+) (%d+) (%d+) (%d+) (%d+)$')
if cost then
local replies = takeTokens(
tonumber(cost),
tonumber(limit),
tonumber(windowMs),
tonumber(unit),
tonumber(p),
tonumber(ttlMs)
)
return replies
end
end
local function windowStart(terms)
return now - fmod(now, terms.windowMs)
end
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
local function settled(terms, used)
local whole = floor(used / terms.p)
local part = used - whole * terms.p
return now + whole, part, part > 0 and terms.p or 0
end
local function ahead(terms, used, full, part, writtenP)
if used < terms.cap then return false end
local ahead = full - now
return ahead > terms.windowMs or ahead * terms.p + partIn(terms.p, part, writtenP) > terms.cap
end
local function add(terms, used, cost)
return settled(terms, used + cost * terms.unit)
end
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
local leakyBucket = tokenBucket
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
local function countAt(terms, start, count)
return now >= start + terms.windowMs and 0 or count
end
local function used(terms, start, count)
return min(countAt(terms, start, count), terms.limit)
end
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
local function slidingWindow()
local TRIPLE = WHOLE .. ':' .. WHOLE .. ':' .. WHOLE
local function parse(raw)
if not raw then return 0, 0, 0 end
local start, previous, current = string.match(raw, '^(%d+):(%d+):(%d+)$')
start, previous, current = tonumber(start), tonumber(previous), tonumber(current)
if isWhole(start) and isWhole(previous) and isWhole(current) then return start, previous, current end
end
local function text(start, previous, current)
return format(TRIPLE, start, previous, current)
end
local function viewAt(terms, start, previous, current)
local windowMs = terms.windowMs
if start > now then
start, previous, current = windowStart(terms), 0, previous + current
elseif now >= start + 2 * windowMs then
start, previous, current = windowStart(terms), 0, 0
elseif now >= start + windowMs then
start, previous, current = start + windowMs, current, 0
end
return start, previous, current, start + windowMs - now
end
local function used(terms, a, b, c)
local _, previous, current, left = viewAt(terms, a, b, c)
return min(previous, terms.limit) * left + min(current, terms.limit) * terms.windowMs
end
local function reset(terms, _, a, b, c)
local _, _, current, left = viewAt(terms, a, b, c)
return current > 0 and left + terms.windowMs or left
end
local function ahead(_, _, start)
return start > now
end
local function add(terms, _, cost, a, b, c)
local start, previous, current = viewAt(terms, a, b, c)
return start, previous, current + cost
end
local function giveBack(terms, _, cost, a, b, c)
local start, previous, current = viewAt(terms, a, b, c)
if not terms.grantEndsAt then
local older = max(0, cost - current)
return start, max(0, previous - older), max(0, current - cost)
end
if start < terms.grantEndsAt - terms.windowMs then return start, previous, max(0, current - cost) end
return start, max(0, previous - cost), current
end
local function reply(say, terms, _, _, a, b, c)
local _, previous, current, left = viewAt(terms, a, b, c)
say(previous)
say(current)
say(left)
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
local function grantAt(grants, at)
local _, last, stop, cost = find(grants, '^ (%d+):(%d+)', at)
if last then return tonumber(stop), tonumber(cost), last + 1 end
end
local function newest(grants)
local at, _, stop, cost = find(grants, ' (%d+):(%d+)$', -40)
return tonumber(stop) or 0, tonumber(cost), at
end
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
if stop == now + terms.windowMs then
grants, cost = sub(grants, 1, at - 1), before + cost
end
return after, cost > 0 and grants .. format(GRANT, now + terms.windowMs, cost) or grants
end
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
local call = redis.call
local made = {}
local function algorithmOf(name)
if not made[name] then
local make = name == 'token-bucket' and tokenBucket
or name == 'leaky-bucket' and leakyBucket
or name == 'fixed-window' and fixedWindow
or name == 'sliding-window' and slidingWindow
or name == 'sliding-log' and slidingLog
made[name] = make and make()
end
return made[name]
end
local function parseCharge(text)
local name, mode, cost, limit, windowMs, unit, p, ttlMs, grantEndsAt =
match(text or '', '^(%S+) (%a+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)( ?%d*)$')
local algorithm = algorithmOf(name or '')
local asks = mode == 'take' or mode == 'peek'
local known = asks or mode == 'refund' or mode == 'reset' or mode == 'inspect'
if not algorithm or not known then return end
if grantEndsAt ~= '' and not (mode == 'refund' and match(grantEndsAt, '^ %d+$')) then return end
cost = tonumber(cost)
return {
algorithm = algorithm,
mode = mode,
takes = mode == 'take',
asks = asks and cost > 0,
cost = cost,
amount = cost * unit,
limit = tonumber(limit),
windowMs = tonumber(windowMs),
unit = tonumber(unit),
p = tonumber(p),
cap = limit * unit,
ttlMs = tonumber(ttlMs),
grantEndsAt = tonumber(grantEndsAt),
}
end
local function parseShapes()
local shapes, keys, at = {}, 0, 1
while keys < #KEYS do
local count, size = match(ARGV[at] or '', '^([1-9]%d*) ([1-9]%d*)$')
if not count then return end
local shape = { count = tonumber(count), size = tonumber(size) }
for c = 1, min(shape.size, #KEYS) do shape[c] = parseCharge(ARGV[at + c]) end
if #shape ~= shape.size then return end
keys, at, shapes[#shapes + 1] = keys + count * size, at + 1 + size, shape
end
return keys == #KEYS and shapes
end
local shapes = parseShapes()
if not shapes then return redis.error_reply('ERR sluice: arguments of another version') end
local replies, replied = {}, 0
local function say(value)
replied = replied + 1
replies[replied] = value
end
local function read(charge, key)
local raw = charge.mode ~= 'reset' and try('GET', key)
if type(raw) == 'table' then return raw.err end
local a, b, c = charge.algorithm.parse(raw)
if not a then return 'FOREIGN value' end
return nil, a, b, c
end
local function write(charge, key, used, a, b, c)
if used == 0 then
call('DEL', key)
return
end
local ttl = max(1, charge.ttlMs, charge.algorithm.reset(charge, used, a, b, c))
return try('SET', key, charge.algorithm.text(a, b, c), 'PX', format(WHOLE, ttl)).err
end
local function settle(charge, key, every, over, used, a, b, c)
local algorithm, changed = charge.algorithm, false
if charge.takes then
if every and charge.asks then
a, b, c = algorithm.add(charge, used, charge.cost, a, b, c)
used, changed = used + charge.amount, true
elseif over > 0 and charge.cost <= charge.limit and algorithm.ahead(charge, used, a, b, c) then
a, b, c = algorithm.add(charge, used, 0, a, b, c)
changed = true
end
elseif charge.mode == 'refund' and every and used > 0 and (charge.grantEndsAt or now + 1) > now then
a, b, c = algorithm.giveBack(charge, used, charge.cost, a, b, c)
used, changed = algorithm.used(charge, a, b, c), true
elseif charge.mode == 'reset' then
changed = true
end
local fault = changed and write(charge, key, used, a, b, c)
if fault then return say(fault) end
say(over > 0 and -1 - used or used)
algorithm.reply(say, charge, used, over > 0 and charge.cost or 0, a, b, c)
if charge.mode == 'inspect' then
say(call('GET', key) or '')
say(call('PTTL', key))
end
end
local function excess(charge, used)
return charge.asks and used - (charge.cap - charge.amount) or 0
end
local function settleOne(charge, key)
local fault, a, b, c = read(charge, key)
if fault then return say(fault) end
local used = charge.algorithm.used(charge, a, b, c)
local over = excess(charge, used)
settle(charge, key, over <= 0, over, used, a, b, c)
end
local function settleGroup(shape, first)
local every, steps = true, {}
for i = 1, shape.size do
local charge = shape[i]
local fault, a, b, c = read(charge, KEYS[first + i])
if fault then
for j = 1, shape.size do say(j == i and fault or 'SKIPPED') end
return
end
local used = charge.algorithm.used(charge, a, b, c)
local over = excess(charge, used)
every = every and over <= 0
steps[i] = { over, used, a, b, c }
end
for i = 1, shape.size do settle(shape[i], KEYS[first + i], every, unpack(steps[i], 1, 5)) end
end
local k = 0
for s = 1, #shapes do
local shape = shapes[s]
for _ = 1, shape.count do
if shape.size == 1 then
settleOne(shape[1], KEYS[k + 1])
else
settleGroup(shape, k)
end
k = k + shape.size
end
end
say(now)
return replies`;

/** The script's SHA-1, by which Redis knows it. */
export const sha: string = "0a3200b35354dd105d944092e04e8178563716d1";
