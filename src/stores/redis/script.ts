/** The script of the Redis store. Generated from lua/ by scripts/make-redis-script.js; do not edit. */

export const script: string = `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local floor, ceil, min, max, fmod, format = math.floor, math.ceil, math.min, math.max, math.fmod, string.format
local WHOLE = format('%d', 4503599627370496) == '4503599627370496' and '%d' or '%.0f'
local function isWhole(n)
return n and n >= 0 and n <= 9007199254740991 and floor(n) == n
end
local try, match = redis.pcall, string.match
local REPLY_VERSION = 2
local INSTANT = WHOLE .. ':' .. WHOLE .. '/' .. WHOLE
local function parseInstant(raw)
local full = tonumber(raw)
if full then
if isWhole(full) then return full, 0, 0 end
return
end
local part, unitsPerMs
full, part, unitsPerMs = match(raw, '^(%d+):(%d+)/(%d+)$')
full, part, unitsPerMs = tonumber(full), tonumber(part), tonumber(unitsPerMs)
if isWhole(full) and isWhole(unitsPerMs) and part < unitsPerMs then return full, part, unitsPerMs end
end
local function partIn(unitsPerMs, part, writtenUnitsPerMs)
if part == 0 or unitsPerMs == writtenUnitsPerMs then return part end
local high = part * floor(unitsPerMs / 65536)
local quotient = floor(high / writtenUnitsPerMs)
local low = (high - quotient * writtenUnitsPerMs) * 65536 + part * (unitsPerMs % 65536)
return quotient * 65536 + ceil(low / writtenUnitsPerMs)
end
local MANY_CHARS, MAX_WINDOWS = 1000, 4
local function headText(own, held, lastEnd, chars)
local head = format('|' .. WHOLE .. '/' .. WHOLE .. '/' .. WHOLE, now, held, lastEnd)
local missing = chars - #own - #head
if missing <= 0 then return head end
return (string.gsub(head, '/', '/' .. string.rep('0', missing), 1))
end
local function takeBeside(key, raw, cost, limit, windowMs, unitsPerToken, unitsPerMs, ttlMs)
local own, writtenAt, held, lastEnd, at, endsAt, amount, id =
match(raw, '^([%d:/]*)|(%d+)/(%d+)/(%d+)() (%d+):(%d+):([%w_.~ -])')
if not own or #raw - #own <= MANY_CHARS then return end
writtenAt, held, lastEnd, endsAt = tonumber(writtenAt), tonumber(held), tonumber(lastEnd), tonumber(endsAt)
if not (isWhole(writtenAt) and isWhole(held) and isWhole(lastEnd) and isWhole(endsAt)) then return end
if writtenAt > now or endsAt <= now then return end
local full, part, writtenUnitsPerMs = 0, 0, 0
if own ~= '' then full, part, writtenUnitsPerMs = parseInstant(own) end
if not full then return end
local untilFull, used = full - now, 0
if untilFull > windowMs then return end
if untilFull >= 0 then used = untilFull * unitsPerMs + partIn(unitsPerMs, part, writtenUnitsPerMs) end
if used > limit * unitsPerToken then return end
if id == ' ' then return used > max(0, limit - tonumber(amount)) * unitsPerToken and { 0, raw, 0 } or nil end
local room = limit - cost - held
if room < 0 or used > room * unitsPerToken then return { 0, raw, 0 } end
local after = used + cost * unitsPerToken
local whole = floor(after / unitsPerMs)
local rest = after - whole * unitsPerMs
local front = rest > 0 and format(INSTANT, now + whole, rest, unitsPerMs) or format(WHOLE, now + whole)
front = front .. headText(front, held, lastEnd, at - 1)
if #front ~= at - 1 then return end
local err = try('SETRANGE', key, '0', front)
if type(err) == 'table' then return err.err end
try('PEXPIRE', key, format(WHOLE, max(ttlMs, lastEnd - now + MAX_WINDOWS * windowMs)))
return { 1, front, 0, raw, at }
end
local heldValues
local function takeTokens(cost, limit, windowMs, unitsPerToken, unitsPerMs, ttlMs)
local capacityUnits, amount, out, hasHolds = limit * unitsPerToken, cost * unitsPerToken, { REPLY_VERSION }, false
for i = 1, #KEYS do
local key, full, part, writtenUnitsPerMs = KEYS[i], 0, 0, 0
local raw = try('GET', key)
if raw then
full = nil
if type(raw) == 'string' then full, part, writtenUnitsPerMs = parseInstant(raw) end
end
if full then
local untilFull, used, isInFuture = full - now, 0, false
if untilFull >= 0 then
used = untilFull * unitsPerMs + partIn(unitsPerMs, part, writtenUnitsPerMs)
isInFuture = untilFull > windowMs or used > capacityUnits
if isInFuture then used = capacityUnits end
end
local fits = used <= capacityUnits - amount
local after = fits and used + amount or used
local whole = floor(after / unitsPerMs)
local rest = after - whole * unitsPerMs
local verdict = fits and after or -1 - after
if fits or (isInFuture and cost <= limit) then
local ttl = rest > 0 and whole + 1 or whole
local text = rest > 0 and format(INSTANT, now + whole, rest, unitsPerMs) or format(WHOLE, now + whole)
verdict = try('SET', key, text, 'PX', format(WHOLE, ttl > ttlMs and ttl or ttlMs)).err or verdict
end
out[i + 1] = verdict
elseif type(raw) == 'string' and string.find(raw, '|', 1, true) then
out[i + 1] = takeBeside(key, raw, cost, limit, windowMs, unitsPerToken, unitsPerMs, ttlMs)
if not out[i + 1] then
hasHolds, heldValues = true, heldValues or {}
heldValues[key] = raw
end
else
out[i + 1] = type(raw) == 'table' and raw.err or 'FOREIGN value'
end
end
out[#KEYS + 2] = now
return out, hasHolds
end
local taken
if #ARGV == 2 and tonumber(match(ARGV[1], '^([1-9]%d*) 1$')) == #KEYS then
local cost, limit, windowMs, unitsPerToken, unitsPerMs, ttlMs =
match(ARGV[2], '^token%-bucket take ([1-9]%d*) (%d+) (%d+) (%d+) (%d+) (%d+)$')
if cost then
local replies, hasHolds = takeTokens(
tonumber(cost),
tonumber(limit),
tonumber(windowMs),
tonumber(unitsPerToken),
tonumber(unitsPerMs),
tonumber(ttlMs)
)
if not hasHolds then
return replies
end
taken = replies
end
end
return (function()
local call, makers, HELD = redis.call, {}, 'HELD'
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
local function windowStart(policy)
return now - fmod(now, policy.windowMs)
end
makers['token-bucket'] = function()
local function parse(raw)
if not raw then return 0, 0, 0 end
local full, part, unitsPerMs = parseInstant(raw)
if full then return full, part, unitsPerMs end
end
local function text(full, part, unitsPerMs)
return part == 0 and format(WHOLE, full) or format(INSTANT, full, part, unitsPerMs)
end
local function used(policy, full, part, writtenUnitsPerMs)
local untilFull = full - now
if untilFull < 0 then return 0 end
local unitsPerMs, capacityUnits = policy.unitsPerMs, policy.capacityUnits
if untilFull > policy.windowMs then return capacityUnits end
local used = untilFull * unitsPerMs + partIn(unitsPerMs, part, writtenUnitsPerMs)
return used < capacityUnits and used or capacityUnits
end
local function untilRefilled(policy, amount)
return ceil(amount / policy.unitsPerMs)
end
local function fullAt(policy, used)
local whole = floor(used / policy.unitsPerMs)
local part = used - whole * policy.unitsPerMs
return now + whole, part, part > 0 and policy.unitsPerMs or 0
end
local function isInFuture(policy, used, full, part, writtenUnitsPerMs)
if used < policy.capacityUnits then return false end
local untilFull, unitsPerMs = full - now, policy.unitsPerMs
if untilFull > policy.windowMs then return true end
return untilFull * unitsPerMs + partIn(unitsPerMs, part, writtenUnitsPerMs) > policy.capacityUnits
end
local function add(policy, used, cost)
return fullAt(policy, used + cost * policy.unitsPerToken)
end
local function refund(policy, used, cost)
local refunded = min(cost, policy.limit) * policy.unitsPerToken
if policy.grantEndsAt then refunded = min(refunded, (policy.grantEndsAt - now) * policy.unitsPerMs) end
return fullAt(policy, max(0, used - refunded))
end
return {
refills = true,
parse = parse,
text = text,
used = used,
wait = untilRefilled,
reset = untilRefilled,
isInFuture = isInFuture,
add = add,
refund = refund,
}
end
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
makers['fixed-window'] = function()
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
local function countAt(policy, start, count)
return now >= start + policy.windowMs and 0 or count
end
local function used(policy, start, count)
return min(countAt(policy, start, count), policy.limit)
end
local function startAt(policy, stored)
local start = min(stored, now)
if now < start + policy.windowMs then return start end
return windowStart(policy)
end
local function untilEnd(policy, _, start)
return startAt(policy, start) + policy.windowMs - now
end
local function isInFuture(_, _, start)
return start > now
end
local function add(policy, _, cost, start, count)
return startAt(policy, start), countAt(policy, start, count) + cost
end
local function refund(policy, _, cost, start, count)
return startAt(policy, start), max(0, countAt(policy, start, count) - cost)
end
return {
parse = parse,
text = text,
used = used,
wait = untilEnd,
reset = untilEnd,
isInFuture = isInFuture,
add = add,
refund = refund,
}
end
local function makeHeldLog()
local MAX_PUSHED = 2000
local function text(log)
local parts = {}
for i = 1, #log do parts[i] = format(WHOLE, log[i]) end
return table.concat(parts, ',')
end
local function load(key, bucket)
local list = try('LRANGE', key, '0', '-1')
bucket.a, bucket.length = {}, #list
if #list == 0 then return list.err, false end
local total, held = match(list[1], '^(%d+)(.*)$')
bucket.total, total = total, tonumber(total)
assert(isWhole(total) and #list % 2 == 1)
local log, last = { 0 }, 0
for i = 2, #list, 2 do
local endsAt, after = tonumber(list[i]), tonumber(list[i + 1])
assert(isWhole(endsAt) and isWhole(after) and endsAt >= last and after > total)
log[i], log[i + 1], log[1] = endsAt, after - total, log[1] + after - total
last, total = endsAt, after
end
bucket.a = log
return nil, (#log > 1 and text(log) or '') .. held
end
local function parse()
return {}
end
local function copy(log)
local copied = {}
for i = 1, #log do copied[i] = log[i] end
return copied
end
local function commands(key, bucket, own, held, ttl)
local expire = { 'PEXPIRE', key, ttl }
if bucket.length > 0 and own == bucket.own then
return { { 'LSET', key, '0', bucket.total .. held }, expire }
end
local values, total, list = { '0' .. held }, 0, {}
local log = bucket.a
for i = 2, #log, 2 do
total = total + log[i + 1]
values[i], values[i + 1] = format(WHOLE, log[i]), format(WHOLE, total)
end
for i = 1, #values, MAX_PUSHED do
list[#list + 1] = { 'RPUSH', key, unpack(values, i, min(i + MAX_PUSHED - 1, #values)) }
end
list[#list + 1] = { 'LTRIM', key, format(WHOLE, bucket.length), '-1' }
list[#list + 1] = expire
return list
end
local function firstLive(log)
local i = 2
while log[i] and log[i] <= now do i = i + 2 end
return i
end
local function used(_, log)
local sum = log[1] or 0
for i = 3, firstLive(log) - 1, 2 do sum = sum - log[i] end
return sum
end
local function untilEnd(policy, endsAt)
return min(endsAt - now, policy.windowMs)
end
local function wait(policy, amount, log)
local i = firstLive(log)
while amount > log[i + 1] do
amount, i = amount - log[i + 1], i + 2
end
return untilEnd(policy, log[i])
end
local function reset(policy, _, log)
return untilEnd(policy, log[#log - 1])
end
local function isInFuture(policy, _, log)
return (log[#log - 1] or 0) > now + policy.windowMs
end
local function tidy(policy, log, sum)
local latest, kept, clamped = now + policy.windowMs, { sum }, 0
local isClamped = isInFuture(policy, sum, log)
for i = firstLive(log), #log, 2 do
if isClamped and log[i] >= latest then
clamped = clamped + log[i + 1]
else
kept[#kept + 1] = log[i]
kept[#kept + 1] = log[i + 1]
end
end
if clamped > 0 then
kept[#kept + 1] = latest
kept[#kept + 1] = clamped
end
return kept
end
local function add(policy, used, cost, log)
local endsAt, at = now + policy.windowMs, #log
if (log[2] or endsAt) <= now or isInFuture(policy, used, log) then
log = tidy(policy, log, used)
at = #log
end
log[1] = used + cost
if log[at - 1] == endsAt then
log[at] = log[at] + cost
elseif cost > 0 then
at = max(1, at)
log[at + 1], log[at + 2] = endsAt, cost
end
return log
end
local function refund(policy, used, cost, log)
log = tidy(policy, log, used)
local endsAt = policy.grantEndsAt and min(policy.grantEndsAt, now + policy.windowMs)
local left = cost
for i = #log - 1, 2, -2 do
if left > 0 and (log[i] == endsAt or not endsAt) then
local refunded = min(left, log[i + 1])
left, log[1] = left - refunded, log[1] - refunded
log[i + 1] = log[i + 1] - refunded
if log[i + 1] == 0 then
table.remove(log, i)
table.remove(log, i)
end
end
end
return log
end
return {
load = load,
commands = commands,
parse = parse,
text = text,
copy = copy,
used = used,
wait = wait,
reset = reset,
isInFuture = isInFuture,
add = add,
refund = refund,
}
end
makers['leaky-bucket'] = makers['token-bucket']
makers['penalty'] = function()
local parse, text = makeTriple()
local function viewAt(writtenAt, blockedUntil, forgottenAt)
local since = max(now, writtenAt)
local blockMs = max(0, blockedUntil - since)
return blockMs, max(0, forgottenAt - since - blockMs)
end
local function write(blockMs, memoryMs)
local ends = now + blockMs
return blockMs + memoryMs > 0 and now or 0, blockMs > 0 and ends or 0, memoryMs > 0 and ends + memoryMs or 0
end
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
local function refund(policy, _, cost, a, b, c)
local blockMs, memoryMs = viewAt(a, b, c)
return write(blockMs, max(0, memoryMs - min(cost, 1001) * policy.windowMs))
end
local function block(forMs, a, b, c)
local blockMs, memoryMs = viewAt(a, b, c)
return write(max(blockMs, forMs), memoryMs)
end
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
makers['sliding-log'] = function()
local ENDS_AT, TOTAL = 1, 2
local INTERPOLATED_PROBES = 3
local function parse(raw)
local n = tonumber(raw)
assert(isWhole(n))
return n
end
local function text(n)
return format(WHOLE, n)
end
local function storedGrant(log, i)
local values, at = nil, 1
if log.tail and i >= log.tailStart then
values, at = log.tail, 2 * (i - log.tailStart) + 1
elseif log.head and 2 * i <= #log.head then
values, at = log.head, 2 * i - 1
else
values = call('LRANGE', log.key, text(2 * (i + log.moved) - 1), text(2 * (i + log.moved)))
end
return { parse(values[at]), parse(values[at + 1]) }
end
local function reach(log, field, target)
local low, before, high, grant = log.first, log.oldest, log.kept + 1, log.newest
if low >= high then return high, grant, log.base end
if before[field] >= target then return low, before, log.base end
local probes = 0
while high - low > 1 do
local part = 0.5
if probes < INTERPOLATED_PROBES then part = (target - before[field]) / (grant[field] - before[field]) end
local i = max(low + 1, min(high - 1, low + floor(part * (high - low))))
local probe = storedGrant(log, i)
if probe[field] < target then
low, before = i, probe
else
high, grant = i, probe
end
probes = probes + 1
end
return high, grant, before[TOTAL]
end
local function load(key)
local log = { key = key, count = 0, first = 1, base = 0, kept = 0, newest = { 0, 0 }, moved = 0 }
local head = key and try('LRANGE', key, '0', '2') or {}
if head.err or #head == 0 then return head.err, log end
local base = tonumber(head[1])
if not base and string.find(head[1], '|', 1, true) then return HELD end
log.base, log.oldest = parse(base), { parse(head[2]), parse(head[3]) }
log.count = parse((call('LLEN', key) - 1) / 2)
log.newest = storedGrant(log, log.count)
log.storedEnd = log.newest[ENDS_AT]
if log.storedEnd <= now then
log.first, log.kept, log.base = log.count + 1, log.count, log.newest[TOTAL]
log.newest = { 0, log.base }
return nil, log
end
log.kept = log.count - 1
log.first, log.oldest, log.base = reach(log, ENDS_AT, now + 1)
assert(log.base < log.oldest[TOTAL] and log.oldest[TOTAL] <= log.newest[TOTAL])
return nil, log
end
local function rewritten(trim, push, values, expire)
local list = { trim }
for i = 1, #values, 2000 do list[#list + 1] = { push[1], push[2], unpack(values, i, min(i + 1999, #values)) } end
list[#list + 1] = expire
return list
end
local function commands(log, ttl)
local key, kept = log.key, log.kept
local front, back = text(2 * (log.first - 1)), '-1'
local expire = { 'PEXPIRE', key, ttl }
if log.tail then
return rewritten({ 'LTRIM', key, front, text(2 * (log.tailStart - 1)) }, { 'RPUSH', key }, log.tail, expire)
end
if log.head then
local values, size = {}, #log.head
for i = 1, size do values[i] = log.head[size + 1 - i] end
values[size + 1] = text(log.base)
local keptFrom = size + 1 + 2 * log.moved
return rewritten({ 'LTRIM', key, text(keptFrom), '-1' }, { 'LPUSH', key }, values, expire)
end
local endsAt, total = text(log.newest[ENDS_AT]), text(log.newest[TOTAL])
local push = { 'RPUSH', key, endsAt, total }
if log.count == 0 then
push = { 'RPUSH', key, '0', endsAt, total }
elseif kept == log.count - 1 and log.newest[ENDS_AT] == log.storedEnd then
push = { 'LSET', key, '-1', total }
elseif kept < log.count then
back = text(2 * kept)
end
local trim = { 'LTRIM', key, front, back }
if back ~= '-1' then return { trim, push, expire } end
if front ~= '0' then return { push, trim, expire } end
return { push, expire }
end
local function used(_, log)
return log.newest[TOTAL] - log.base
end
local function untilEnd(policy, grant)
local left = grant[ENDS_AT] - now
assert(left > 0)
return min(left, policy.windowMs)
end
local function wait(policy, amount, log)
local _, grant = reach(log, TOTAL, log.base + amount)
return untilEnd(policy, grant)
end
local function reset(policy, _, log)
return untilEnd(policy, log.newest)
end
local function isInFuture(policy, _, log)
return log.newest[ENDS_AT] > now + policy.windowMs
end
local function add(policy, _, cost, log)
local endsAt = now + policy.windowMs
if isInFuture(policy, 0, log) then
log.kept = reach(log, ENDS_AT, endsAt) - 1
elseif log.newest[ENDS_AT] < endsAt then
log.kept = log.count
end
log.newest = { endsAt, log.newest[TOTAL] + cost }
return log
end
local function shifted(log, first, last, by)
local values = last >= first and call('LRANGE', log.key, text(2 * first - 1), text(2 * last)) or {}
for i = 2, #values, 2 do values[i] = text(parse(values[i]) + by) end
return values
end
local function removeGrant(cost, log, endsAt)
if log.newest[ENDS_AT] < endsAt then return log end
local at, grant, before = reach(log, ENDS_AT, endsAt)
if grant[ENDS_AT] ~= endsAt then return log end
local refunded = min(cost, grant[TOTAL] - before)
local isPartial = grant[TOTAL] - refunded > before
local isClamped = log.newest[ENDS_AT] ~= log.storedEnd
if not isClamped and at <= log.kept and at - log.first < log.kept - at then
log.head = shifted(log, log.first, at - 1, refunded)
log.base = log.base + refunded
log.moved = (isPartial and at - 1 or at) - #log.head / 2
log.first, log.kept = 1, log.kept - log.moved
log.oldest = storedGrant(log, 1)
return log
end
local tail = shifted(log, isPartial and at or at + 1, log.kept, -refunded)
if isPartial or at <= log.kept then
tail[#tail + 1] = text(log.newest[ENDS_AT])
tail[#tail + 1] = text(log.newest[TOTAL] - refunded)
end
if #tail == 0 then
log.kept = at - 2
log.newest = at > log.first and storedGrant(log, at - 1) or { 0, before }
return log
end
log.tail, log.tailStart = tail, at
log.kept = at + #tail / 2 - 2
log.newest = storedGrant(log, log.kept + 1)
if at == log.first then log.oldest = storedGrant(log, at) end
return log
end
local function refund(policy, used, cost, log)
if isInFuture(policy, used, log) then add(policy, used, 0, log) end
if policy.grantEndsAt then return removeGrant(cost, log, min(policy.grantEndsAt, now + policy.windowMs)) end
local total = log.newest[TOTAL] - min(cost, used)
local i, grant = reach(log, TOTAL, total)
log.kept, log.newest = i - 1, { grant[ENDS_AT], total }
return log
end
local function raw(key)
local list = call('LRANGE', key, '0', '201')
if list[202] then list[202] = '...' end
return table.concat(list, ' ')
end
return {
load = load,
commands = commands,
used = used,
wait = wait,
reset = reset,
isInFuture = isInFuture,
add = add,
refund = refund,
raw = raw,
makeHeld = makeHeldLog,
}
end
makers['sliding-window'] = function()
local parse, text = makeTriple()
local function viewAt(policy, start, previous, current)
local windowMs = policy.windowMs
if start > now then
start, previous, current = windowStart(policy), 0, previous + current
elseif now >= start + 2 * windowMs then
start, previous, current = windowStart(policy), 0, 0
elseif now >= start + windowMs then
start, previous, current = start + windowMs, current, 0
end
return start, previous, current, start + windowMs - now
end
local function used(policy, a, b, c)
local _, previous, current, left = viewAt(policy, a, b, c)
return min(previous, policy.limit) * left + min(current, policy.limit) * policy.windowMs
end
local function wait(policy, amount, a, b, c)
local _, previous, current, left = viewAt(policy, a, b, c)
previous, current = min(previous, policy.limit), min(current, policy.limit)
local fading = previous * left
if amount <= fading then return ceil(amount / previous) end
return left + ceil((amount - fading) / current)
end
local function reset(policy, _, a, b, c)
local _, _, current, left = viewAt(policy, a, b, c)
return current > 0 and left + policy.windowMs or left
end
local function isInFuture(_, _, start)
return start > now
end
local function add(policy, _, cost, a, b, c)
local start, previous, current = viewAt(policy, a, b, c)
return start, previous, current + cost
end
local function refund(policy, _, cost, a, b, c)
local start, previous, current = viewAt(policy, a, b, c)
if not policy.grantEndsAt then
local older = max(0, cost - current)
return start, max(0, previous - older), max(0, current - cost)
end
if start < policy.grantEndsAt - policy.windowMs then return start, previous, max(0, current - cost) end
return start, max(0, previous - cost), current
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
local MODES = {
take = { asks = true, apply = 'add' },
peek = { asks = true },
refund = { apply = 'subtract' },
reset = { apply = 'clear' },
hold = { asks = true, apply = 'hold' },
settle = { apply = 'settle' },
penalty = { asks = true, applyIfDenied = 'add' },
inspect = {},
}
local algorithms = {}
local function algorithmOf(name)
if not algorithms[name] and makers[name] then algorithms[name] = makers[name]() end
return algorithms[name]
end
local function parseCharge(text, isOnly)
local name, modeName, cost, limit, windowMs, unitsPerToken, unitsPerMs, ttlMs, options =
match(text or '', '^(%S+) (%a+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
local algorithm, mode = algorithmOf(name or ''), MODES[modeName]
if not algorithm or not mode then return end
local grant, hold, forMs, maxHolds, block, rest
if options ~= '' then
grant, rest = match(options, '^ grant=(%d+)(.*)$')
options = rest or options
hold, forMs, maxHolds, rest = match(options, '^ hold=([%w_.~-]+),(%d+),(%d+)(.*)$')
options = rest or options
block = match(options, '^ block=(%d[%d,]*)$')
if not block and options ~= '' then return end
end
local isHold = mode == MODES.hold or mode == MODES.settle
if isHold ~= (hold ~= nil) or (algorithm.block ~= nil) ~= (block ~= nil) then return end
cost = cost + 0
return {
algorithm = algorithm,
mode = mode,
asks = mode.asks and cost > 0 and not (isHold and block),
isHold = isHold and not block,
isTake = mode == MODES.take and cost > 0 and not (block or algorithm.load or algorithm.holdsOnly),
cost = cost,
amount = (isOnly and block and mode == MODES.take and min(cost, 1) or cost) * unitsPerToken,
limit = limit + 0,
windowMs = windowMs + 0,
unitsPerToken = unitsPerToken + 0,
unitsPerMs = unitsPerMs + 0,
capacityUnits = limit * unitsPerToken,
ttlMs = ttlMs + 0,
grantEndsAt = tonumber(grant),
hold = hold and { id = hold, forMs = tonumber(forMs), max = tonumber(maxHolds) },
block = block,
}
end
local areTakes = not taken
local function parseShapes()
local shapes, keys, at = {}, 0, 1
while keys < #KEYS do
local count, size = match(ARGV[at] or '', '^([1-9]%d*) ([1-9]%d*)$')
if not count then return end
local shape = { 0, 0, 0, 0, 0, 0, 0, 0, count = tonumber(count), size = tonumber(size) }
for c = 1, min(shape.size, #KEYS) do
shape[c] = parseCharge(ARGV[at + c], shape.size == 1)
if not shape[c] then return end
areTakes = areTakes and shape[c].isTake
end
keys, at, shapes[#shapes + 1] = keys + count * size, at + 1 + size, shape
end
return keys == #KEYS and shapes
end
local shapes = parseShapes()
if not shapes then return redis.error_reply('ERR sluice: invalid arguments, or arguments of another version') end
local replies, replied = { REPLY_VERSION }, 1
local function append(value)
replied = replied + 1
replies[replied] = value
end
local current, mark
local function appendError(size, err)
for i = mark + 1, replied do replies[i] = nil end
replied = mark
for i = 1, size do append(i == current and err or 'SKIPPED') end
end
local function appendDurations(charge, used, over, a, b, c)
local algorithm, resetMs, nextMs = charge.algorithm, 0, 0
if used > 0 then
local remaining = used < charge.capacityUnits and floor((charge.capacityUnits - used) / charge.unitsPerToken) or 0
local lacking = used - (charge.capacityUnits - (remaining + 1) * charge.unitsPerToken)
resetMs, nextMs = algorithm.reset(charge, used, a, b, c), algorithm.wait(charge, lacking, a, b, c)
end
append(resetMs)
append(nextMs)
append(over > 0 and charge.cost <= charge.limit and algorithm.wait(charge, over, a, b, c) or 0)
return resetMs
end
local useds, as, bs, cs = { 0, 0, 0, 0, 0, 0, 0, 0 }, {}, {}, {}
local values, ttls = { 0, 0, 0, 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0, 0, 0 }
local function readTakes(shape, first)
local isAdmitted = true
for i = 1, shape.size do
local charge, raw = shape[i], try('GET', KEYS[first + i])
local algorithm, unitsPerMs, used = charge.algorithm, charge.unitsPerMs, 0
local maxUsed = charge.capacityUnits - charge.amount
if type(raw) == 'table' then return end
if not algorithm.refills then
local a, b, c = algorithm.parse(raw)
if not a then return end
used, as[i], bs[i], cs[i] = algorithm.used(charge, a, b, c), a, b, c
if used > maxUsed and algorithm.isInFuture(charge, used, a, b, c) then return end
elseif raw then
local full, part, writtenUnitsPerMs = parseInstant(raw)
if not full then return end
local untilFull = full - now
if untilFull >= 0 then
used = untilFull * unitsPerMs + partIn(unitsPerMs, part, writtenUnitsPerMs)
if untilFull > charge.windowMs or used > charge.capacityUnits then return end
end
end
useds[i] = used
if used > maxUsed then isAdmitted = false end
end
return isAdmitted
end
local function computeTakes(shape, isAdmitted)
for i = 1, shape.size do
local charge, used = shape[i], useds[i]
local algorithm, over, ttl = charge.algorithm, used - (charge.capacityUnits - charge.amount), nil
if isAdmitted then used = used + charge.amount end
append(over > 0 and -1 - used or used)
if not algorithm.refills then
local a, b, c = as[i], bs[i], cs[i]
if isAdmitted then
a, b, c = algorithm.add(charge, useds[i], charge.cost, a, b, c)
values[i] = algorithm.text(a, b, c)
end
ttl = appendDurations(charge, used, over, a, b, c)
elseif isAdmitted then
local unitsPerMs = charge.unitsPerMs
ttl = floor(used / unitsPerMs)
local full, part = now + ttl, used - ttl * unitsPerMs
if part > 0 then
values[i], ttl = format(INSTANT, full, part, unitsPerMs), ttl + 1
else
values[i] = format(WHOLE, full)
end
end
if isAdmitted then ttls[i] = format(WHOLE, ttl > charge.ttlMs and ttl or charge.ttlMs) end
end
end
local decided = 0
local function takeGroups()
for s = 1, #shapes do
local shape = shapes[s]
for _ = 1, shape.count do
mark = replied
local isAdmitted = readTakes(shape, decided)
if isAdmitted == nil then return end
computeTakes(shape, isAdmitted)
for i = 1, isAdmitted and shape.size or 0 do
local err = try('SET', KEYS[decided + i], values[i], 'PX', ttls[i]).err
if err then
current = i
appendError(shape.size, err)
break
end
end
decided = decided + shape.size
end
end
end
if areTakes then
if not pcall(takeGroups) then appendError(0) end
if decided == #KEYS then
append(now)
return replies
end
end
local function makeHolds()
local HOLD, MAX_ID_CHARS, NEVER = ' ' .. WHOLE .. ':' .. WHOLE .. ':%s', 64, math.huge
local FRONT_CHARS = 120
local function parse(bucket, text)
local writtenAt, head, list = match(text, '^(%d+)([%d/]*)( .+)$')
bucket.writtenAt = tonumber(writtenAt)
if not isWhole(bucket.writtenAt) then return false end
local ends, amounts, ids, texts = bucket.ends, bucket.amounts, bucket.ids, bucket.texts
local count, held, chars, last = 0, 0, 0, 0
for whole, endsAt, amount, id in string.gmatch(list, '( (%d+):(%d+):([%w_.~-]*))') do
endsAt, amount = tonumber(endsAt), tonumber(amount)
if not isWhole(endsAt) or not isWhole(amount) or endsAt < last or #id > MAX_ID_CHARS then return false end
if id ~= '' then
count, last = count + 1, endsAt
ends[count], amounts[count], ids[count], texts[count] = endsAt, amount, id, whole
elseif chars == 0 and amount > 0 then
bucket.debt, bucket.dueAt = amount, endsAt
else
return false
end
held, chars = held + amount, chars + #whole
end
bucket.count, bucket.held = count, held
if chars ~= #list then return false end
local sum, lastEnd = match(head, '^/(%d+)/(%d+)$')
return head == '' or (tonumber(sum) == held and tonumber(lastEnd) == last)
end
local function usedOf(bucket)
return bucket.algorithm.used(bucket.policy, bucket.a, bucket.b, bucket.c)
end
local function isOwnInFuture(bucket, used)
return bucket.algorithm.isInFuture(bucket.policy, used, bucket.a, bucket.b, bucket.c)
end
local function add(bucket, used, cost)
bucket.a, bucket.b, bucket.c = bucket.algorithm.add(bucket.policy, used, cost, bucket.a, bucket.b, bucket.c)
bucket.isOwnChanged = true
end
local function takeDebt(bucket)
local debt = bucket.debt
bucket.debt, bucket.held = 0, bucket.held - debt
return debt
end
local function charge(bucket, amount, time)
local policy, present, owed = bucket.policy, now, amount + takeDebt(bucket)
if bucket.algorithm.holdsOnly then return end
now = time
local used = usedOf(bucket)
local fit = min(owed, max(0, floor((policy.capacityUnits - used) / policy.unitsPerToken)))
if fit > 0 or (used > 0 and isOwnInFuture(bucket, used)) then add(bucket, used, fit) end
local rest = min(owed - fit, policy.limit)
bucket.forgiven = bucket.forgiven + owed - fit - rest
if rest > 0 then
local lacking = usedOf(bucket) - (policy.limit - rest) * policy.unitsPerToken
bucket.dueAt = time + bucket.algorithm.wait(policy, lacking, bucket.a, bucket.b, bucket.c)
bucket.debt, bucket.held = rest, bucket.held + rest
end
now = present
end
local function nextEnd(bucket)
local endsAt = bucket.first <= bucket.count and bucket.ends[bucket.first] or NEVER
return bucket.debt > 0 and bucket.dueAt < endsAt and bucket.dueAt or endsAt
end
local function endUntil(bucket, time)
local next = nextEnd(bucket)
while next <= time do
local first, amount = bucket.first, 0
if first <= bucket.count and bucket.ends[first] == next then
amount = bucket.amounts[first]
bucket.first, bucket.held = first + 1, bucket.held - amount
end
charge(bucket, amount, next)
next = nextEnd(bucket)
end
end
local function reviewDebt(bucket)
local policy = bucket.policy
local debt = min(bucket.debt, policy.limit)
bucket.debt, bucket.held = debt, bucket.held + debt - bucket.debt
local lacking = usedOf(bucket) - (policy.limit - debt) * policy.unitsPerToken
local waitMs = lacking > 0 and bucket.algorithm.wait(policy, lacking, bucket.a, bucket.b, bucket.c) or 0
bucket.dueAt = min(bucket.dueAt, now + waitMs)
endUntil(bucket, now)
end
local function clearIfUnused(bucket)
if usedOf(bucket) > 0 then return end
bucket.a, bucket.b, bucket.c = bucket.algorithm.parse(false)
end
local function newBucket(policy)
return { policy = policy, debt = 0, dueAt = 0, held = 0, forgiven = 0, writtenAt = 0, first = 1, count = 0 }
end
local function clampToNow(bucket)
local used = usedOf(bucket)
bucket.isInFuture = used > 0 and isOwnInFuture(bucket, used)
if bucket.isInFuture then add(bucket, used, 0) end
if bucket.debt > 0 then reviewDebt(bucket) end
clearIfUnused(bucket)
bucket.forgiven = 0
end
local function readBeside(policy, raw, bar)
local writtenAt, held, lastEnd, at = match(raw, '^(%d+)/(%d+)/(%d+)()', bar + 1)
writtenAt, held, lastEnd = tonumber(writtenAt), tonumber(held), tonumber(lastEnd)
if not (isWhole(writtenAt) and isWhole(held) and isWhole(lastEnd)) or writtenAt > now then return end
local bucket, own = newBucket(policy), string.sub(raw, 1, bar - 1)
bucket.algorithm, bucket.held, bucket.lastEnd, bucket.raw, bucket.own = policy.algorithm, held, lastEnd, raw, own
bucket.a, bucket.b, bucket.c = policy.algorithm.parse(own ~= '' and own)
if not bucket.a then return end
local dueAt, debt, start = match(raw, '^ (%d+):(%d+):() ', at)
dueAt, debt = tonumber(dueAt or 0), tonumber(debt or 0)
if not isWhole(dueAt) or not isWhole(debt) then return end
bucket.dueAt, bucket.debt, at = dueAt, debt, start or at
while true do
local endsAt, amount, after = match(raw, '^ (%d+):(%d+):[%w_.~-]+()', at)
endsAt, amount = tonumber(endsAt), tonumber(amount)
if not isWhole(endsAt) or not isWhole(amount) then return end
local next = bucket.debt > 0 and min(bucket.dueAt, endsAt) or endsAt
if next > now then break end
if next == endsAt then at = after else amount = 0 end
bucket.held = bucket.held - amount
charge(bucket, amount, next)
end
bucket.at = at
clampToNow(bucket)
return (bucket.debt == 0 or not bucket.isInFuture) and bucket
end
local function read(policy, key, raw)
local algorithm, err = policy.algorithm, nil
local bucket = newBucket(policy)
if algorithm.makeHeld then
algorithm.held = algorithm.held or algorithm.makeHeld()
algorithm = algorithm.held
err, raw = algorithm.load(key, bucket)
if err then return err end
elseif raw == nil then
raw = try('GET', key)
if type(raw) == 'table' then return raw.err end
end
local bar = raw and string.find(raw, '|', 1, true)
if bar and #raw - bar > MANY_CHARS and not bucket.length and (policy.mode == MODES.take or policy.mode == MODES.peek) then
local beside = readBeside(policy, raw, bar)
if beside then return nil, beside end
end
bucket.ends, bucket.amounts, bucket.ids, bucket.texts = {}, {}, {}, {}
bucket.lists = { bucket.ends, bucket.amounts, bucket.ids, bucket.texts }
local own = bar and string.sub(raw, 1, bar - 1) or raw
if bar and not parse(bucket, string.sub(raw, bar + 1)) then return 'FOREIGN value' end
if not bucket.a then bucket.a, bucket.b, bucket.c = algorithm.parse(bar ~= 1 and own) end
if not bucket.a then return 'FOREIGN value' end
bucket.algorithm, bucket.raw, bucket.own = algorithm, raw or '', own or ''
local back = max(0, bucket.writtenAt - now)
if back > 0 then
bucket.dueAt = bucket.dueAt - back
for i = 1, bucket.count do
bucket.ends[i] = bucket.ends[i] - back
bucket.texts[i] = format(HOLD, bucket.ends[i], bucket.amounts[i], bucket.ids[i])
end
end
endUntil(bucket, now)
clampToNow(bucket)
bucket.isInFuture = bucket.isInFuture or back > 0
return nil, bucket
end
local function leavesRoom(bucket, held)
local policy = bucket.policy
local room = policy.limit - policy.cost - held
return room >= 0 and usedOf(bucket) <= room * policy.unitsPerToken
end
local function find(bucket, id)
for i = bucket.first, bucket.count do
if bucket.ids[i] == id then return i end
end
end
local function fits(bucket)
local policy = bucket.policy
if policy.mode.apply ~= 'hold' then return not policy.asks or leavesRoom(bucket, bucket.held) end
local own = find(bucket, policy.hold.id)
local ownAmount = own and bucket.amounts[own] or 0
if own and policy.cost <= ownAmount then return true end
if not own and bucket.count - bucket.first + 1 >= policy.hold.max then return false end
return leavesRoom(bucket, bucket.held - ownAmount)
end
local function remove(bucket, id)
local i = find(bucket, id)
if not i then return false end
bucket.count, bucket.held = bucket.count - 1, bucket.held - bucket.amounts[i]
for _, list in ipairs(bucket.lists) do table.remove(list, i) end
return true
end
local function take(bucket)
local cost = bucket.policy.cost
if cost == 0 or bucket.algorithm.holdsOnly then return false end
add(bucket, usedOf(bucket), cost)
return true
end
local function refund(bucket)
local policy, used = bucket.policy, usedOf(bucket)
local cost = policy.cost
if cost == 0 or used == 0 or (policy.grantEndsAt or now + 1) <= now then return false end
local debt = takeDebt(bucket)
if cost > debt then
bucket.a, bucket.b, bucket.c = bucket.algorithm.refund(policy, used, cost - debt, bucket.a, bucket.b, bucket.c)
bucket.isOwnChanged = true
elseif debt > cost then
charge(bucket, debt - cost, now)
end
return true
end
local function clear(bucket)
bucket.first, bucket.count, bucket.debt, bucket.held = 1, 0, 0, 0
bucket.a, bucket.b, bucket.c = bucket.algorithm.parse(false)
return true
end
local function hold(bucket)
local cost, id, endsAt = bucket.policy.cost, bucket.policy.hold.id, now + bucket.policy.hold.forMs
remove(bucket, id)
local at = bucket.count + 1
while at > bucket.first and bucket.ends[at - 1] > endsAt do at = at - 1 end
local values = { endsAt, cost, id, format(HOLD, endsAt, cost, id) }
for i, list in ipairs(bucket.lists) do table.insert(list, at, values[i]) end
bucket.count, bucket.held = bucket.count + 1, bucket.held + cost
return true
end
local function settle(bucket)
if not remove(bucket, bucket.policy.hold.id) then return false end
charge(bucket, bucket.policy.cost, now)
return true
end
local ACTIONS = { add = take, subtract = refund, clear = clear, hold = hold, settle = settle }
local function resetAfter(bucket)
local algorithm, present, time = bucket.algorithm, now, now
if bucket.at then return max(now, bucket.lastEnd) - now + MAX_WINDOWS * bucket.policy.windowMs end
if algorithm.holdsOnly then return max(now, bucket.ends[bucket.count] or 0) - now end
local later = { policy = bucket.policy, algorithm = algorithm, a = bucket.a, b = bucket.b, c = bucket.c, forgiven = 0, held = 0 }
later.first, later.count, later.ends, later.amounts = bucket.first, bucket.count, bucket.ends, bucket.amounts
later.debt, later.dueAt = bucket.debt, bucket.dueAt
if algorithm.copy then later.a = algorithm.copy(bucket.a) end
local next = nextEnd(later)
while next < NEVER do
time = next
endUntil(later, time)
next = nextEnd(later)
end
now = time
local used = usedOf(later)
if used > 0 then time = time + algorithm.reset(bucket.policy, used, later.a, later.b, later.c) end
now = present
return time - now
end
local function texts(bucket)
local own = bucket.own
if usedOf(bucket) == 0 then
own = ''
elseif bucket.isOwnChanged then
own = bucket.algorithm.text(bucket.a, bucket.b, bucket.c)
end
if bucket.at then
local head = headText(own, bucket.held, bucket.lastEnd, bucket.at - 1)
bucket.isFront = #own + #head == bucket.at - 1
if bucket.isFront then return own, head end
return own, headText(own, bucket.held, bucket.lastEnd, FRONT_CHARS) .. string.sub(bucket.raw, bucket.at)
end
if bucket.debt == 0 and bucket.first > bucket.count then return own, '' end
local debt = bucket.debt > 0 and format(HOLD, bucket.dueAt, bucket.debt, '') or ''
local list = debt .. table.concat(bucket.texts, '', bucket.first, bucket.count)
local lastEnd = bucket.first <= bucket.count and bucket.ends[bucket.count] or 0
return own, headText(own, bucket.held, lastEnd, #list > MANY_CHARS and FRONT_CHARS or 0) .. list
end
local function prepare(key, bucket, action, isFit)
local policy = bucket.policy
local changed = action and ACTIONS[action](bucket) or false
local allowed = isFit
if policy.mode.apply == 'settle' then
allowed = changed
elseif action and policy.mode.applyIfDenied then
allowed = fits(bucket)
elseif not action and not isFit and policy.mode ~= MODES.peek and policy.cost <= policy.limit then
changed = bucket.isInFuture
end
if not changed then return allowed, bucket.raw end
clearIfUnused(bucket)
local own, held = texts(bucket)
local value = own .. held
if value == '' then return allowed, value, false end
local ttl = format(WHOLE, max(1, policy.ttlMs, resetAfter(bucket)))
if bucket.isFront then return allowed, value, { { 'SETRANGE', key, '0', value }, { 'PEXPIRE', key, ttl } } end
if bucket.length then return allowed, value, bucket.algorithm.commands(key, bucket, own, held, ttl) end
return allowed, value, value, ttl
end
return { read = read, fits = fits, prepare = prepare }
end
local holds
local function read(charge, key)
local load, raw = charge.algorithm.load, nil
if load and not charge.isHold then
local err, log = load(key)
if err ~= HELD then return err, nil, log end
elseif not charge.isHold then
raw = heldValues and heldValues[key]
if raw then heldValues[key] = nil else raw = try('GET', key) end
if type(raw) == 'table' then return raw.err end
local a, b, c = charge.algorithm.parse(raw)
if a then return nil, nil, a, b, c end
if not string.find(raw, '|', 1, true) then return 'FOREIGN value' end
end
holds = holds or makeHolds()
return holds.read(charge, key, raw)
end
local function untouched(charge)
local algorithm = charge.algorithm
if not algorithm.load then return algorithm.parse(false) end
local _, log = algorithm.load(false)
return log
end
local function excess(charge, used)
return charge.asks and used - (charge.capacityUnits - charge.amount) or 0
end
local function prepare(charge, action, over, used, a, b, c)
local algorithm, changed, isAdmitted = charge.algorithm, false, over <= 0
if action == 'add' and charge.cost > 0 and not algorithm.holdsOnly then
a, b, c = algorithm.add(charge, used, charge.cost, a, b, c)
used, changed = used + charge.amount, true
if charge.mode.applyIfDenied or charge.block then
used = algorithm.used(charge, a, b, c)
over = excess(charge, used)
end
elseif action == 'subtract' and used > 0 and (charge.grantEndsAt or now + 1) > now then
a, b, c = algorithm.refund(charge, used, charge.cost, a, b, c)
used, changed = algorithm.used(charge, a, b, c), true
elseif action == 'clear' then
a, b, c = untouched(charge)
used, changed = 0, true
elseif charge.block and charge.hold then
isAdmitted = false
if action then
local x, y, z
if action == 'hold' then
x, y, z = algorithm.block(charge.hold.forMs, a, b, c)
else
x, y, z = algorithm.unblock(a, b, c)
end
if x then
a, b, c, isAdmitted, changed = x, y, z, true, true
used = algorithm.used(charge, a, b, c)
end
end
elseif over > 0 and charge.mode ~= MODES.peek and charge.cost <= charge.limit then
if algorithm.isInFuture(charge, used, a, b, c) then
a, b, c = algorithm.add(charge, used, 0, a, b, c)
changed = true
end
end
if charge.block then
append({ isAdmitted and 1 or 0, algorithm.text(a, b, c) })
else
append(over > 0 and -1 - used or used)
if charge.unitsPerMs == 0 then appendDurations(charge, used, over, a, b, c) end
end
if not changed then return end
if used == 0 then return false end
local ttl = format(WHOLE, max(1, charge.ttlMs, algorithm.reset(charge, used, a, b, c)))
if algorithm.commands then return algorithm.commands(a, ttl) end
return algorithm.text(a, b, c), ttl
end
local function write(key, value, ttl)
if value == nil then return end
if type(value) == 'string' then return try('SET', key, value, 'PX', ttl).err end
local list = value or { { 'DEL', key } }
for i = 1, #list do
local reply = try(unpack(list[i]))
if type(reply) == 'table' and reply.err then return reply.err end
end
end
local function apply(charge, key, action, over, used, a, b, c)
local value, ttl
if type(used) == 'table' then
local isAdmitted, text
isAdmitted, text, value, ttl = holds.prepare(key, used, action, over)
append({ isAdmitted and 1 or 0, text, used.forgiven, used.isFront and used.raw or nil, used.at })
else
value, ttl = prepare(charge, action, over, used, a, b, c)
end
if charge.mode == MODES.inspect then
append(charge.algorithm.raw and charge.algorithm.raw(key) or call('GET', key) or '')
append(call('PTTL', key))
end
return value, ttl
end
local function decideOne(shape, first)
local charge, key = shape[1], KEYS[first + 1]
local err, bucket, a, b, c
if charge.mode.apply == 'clear' then a, b, c = untouched(charge) else err, bucket, a, b, c = read(charge, key) end
if err then return err end
if bucket then
local isFit = holds.fits(bucket)
return write(key, apply(charge, key, isFit and charge.mode.apply, isFit, bucket))
end
local used = charge.algorithm.used(charge, a, b, c)
local over = excess(charge, used)
return write(key, apply(charge, key, over <= 0 and charge.mode.apply, over, used, a, b, c))
end
local function decideGroup(shape, first)
local admitted, isViolation, isOnlyLook = true, true, true
local steps, values = {}, {}
for i = 1, shape.size do
current = i
local charge = shape[i]
local err, bucket, a, b, c = read(charge, KEYS[first + i])
if err then return err end
local isFit, used, over
if bucket then
isFit = holds.fits(bucket)
steps[i] = { isFit, bucket }
else
used = charge.algorithm.used(charge, a, b, c)
over = excess(charge, used)
isFit = over <= 0
steps[i] = { over, used, a, b, c }
end
if charge.mode.apply then isOnlyLook = false end
if not isFit then
admitted = false
if charge.mode.applyIfDenied or charge.block or charge.cost > charge.limit then isViolation = false end
end
end
for i = 1, shape.size do
current = i
local mode = shape[i].mode
local action
if admitted then action = mode.apply elseif isViolation and not isOnlyLook then action = mode.applyIfDenied end
values[i] = { apply(shape[i], KEYS[first + i], action, unpack(steps[i], 1, 5)) }
end
for i = 1, shape.size do
current = i
local err = write(KEYS[first + i], values[i][1], values[i][2])
if err then return err end
end
end
local k, present = 0, now
for s = 1, #shapes do
local shape = shapes[s]
for _ = 1, shape.count do
if k >= decided then
current, mark = 1, replied
local ok, err = true, nil
if taken and taken[k + 2] then
append(taken[k + 2])
else
ok, err = pcall(shape.size == 1 and decideOne or decideGroup, shape, k)
end
if not ok then err = type(err) == 'table' and err.err or 'FOREIGN value' end
if err then appendError(shape.size, err) end
now = present
end
k = k + shape.size
end
end
append(now)
return replies
end)()`;

/** The script's SHA-1, its name in Redis. */
export const sha: string = "7d610c8487222e0faa25be6e0738d22a3fe9a6c7";
