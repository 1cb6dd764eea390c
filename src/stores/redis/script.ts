/** The script of the Redis store. Generated from lua/ by scripts/make-redis-script.js; do not edit. */

export const script: string = `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local floor, ceil, min, max, fmod, format = math.floor, math.ceil, math.min, math.max, math.fmod, string.format
local WHOLE = format('%d', 4503599627370496) == '4503599627370496' and '%d' or '%.0f'
local function isWhole(n)
return n and n >= 0 and n <= 9007199254740991 and floor(n) == n
end
local try, match = redis.pcall, string.match
local REPLY_VERSION = 1
local PART = ':' .. WHOLE .. '/' .. WHOLE
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
local function takeTokens(cost, limit, windowMs, unitsPerToken, unitsPerMs, ttlMs)
local capacityUnits, amount, out = limit * unitsPerToken, cost * unitsPerToken, { REPLY_VERSION }
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
local text, ttl = format(WHOLE, now + whole), ceil(after / unitsPerMs)
if rest > 0 then text = text .. format(PART, rest, unitsPerMs) end
verdict = try('SET', key, text, 'PX', format(WHOLE, ttl > ttlMs and ttl or ttlMs)).err or verdict
end
out[i + 1] = verdict
else
out[i + 1] = type(raw) == 'table' and raw.err or 'FOREIGN value'
end
end
out[#KEYS + 2] = now
return out
end
if #ARGV == 2 and tonumber(match(ARGV[1], '^([1-9]%d*) 1$')) == #KEYS then
local cost, limit, windowMs, unitsPerToken, unitsPerMs, ttlMs =
match(ARGV[2], '^token%-bucket take ([1-9]%d*) (%d+) (%d+) (%d+) (%d+) (%d+)$')
if cost then
local replies = takeTokens(
tonumber(cost),
tonumber(limit),
tonumber(windowMs),
tonumber(unitsPerToken),
tonumber(unitsPerMs),
tonumber(ttlMs)
)
return replies
end
end
local call, makers = redis.call, {}
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
local whole = format(WHOLE, full)
return part == 0 and whole or whole .. format(PART, part, unitsPerMs)
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
makers['leaky-bucket'] = makers['token-bucket']
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
log.base, log.oldest = parse(head[1]), { parse(head[2]), parse(head[3]) }
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
}
end
makers['sliding-window'] = function()
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
penalty = { asks = true, applyIfDenied = 'add' },
inspect = {},
}
local algorithms = {}
local function algorithmOf(name)
if not algorithms[name] and makers[name] then algorithms[name] = makers[name]() end
return algorithms[name]
end
local function parseCharge(text)
local name, modeName, cost, limit, windowMs, unitsPerToken, unitsPerMs, ttlMs, options =
match(text or '', '^(%S+) (%a+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$')
local algorithm, mode = algorithmOf(name or ''), MODES[modeName]
if not algorithm or not mode then return end
local grant, afterGrant = match(options, '^ grant=(%d+)(.*)$')
local hold, forMs = match(afterGrant or options, '^ hold=([%w_.~-]+),(%d+)$')
if not hold and (afterGrant or options) ~= '' then return end
cost = tonumber(cost)
return {
algorithm = algorithm,
mode = mode,
asks = mode.asks and cost > 0,
cost = cost,
amount = cost * unitsPerToken,
limit = tonumber(limit),
windowMs = tonumber(windowMs),
unitsPerToken = tonumber(unitsPerToken),
unitsPerMs = tonumber(unitsPerMs),
capacityUnits = limit * unitsPerToken,
ttlMs = tonumber(ttlMs),
grantEndsAt = tonumber(grant),
hold = hold and { id = hold, forMs = tonumber(forMs) },
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
local function read(charge, key)
local load = charge.algorithm.load
if load then return load(key) end
local raw = try('GET', key)
if type(raw) == 'table' then return raw.err end
local a, b, c = charge.algorithm.parse(raw)
if not a then return 'FOREIGN value' end
return nil, a, b, c
end
local function untouched(charge)
local algorithm = charge.algorithm
if algorithm.load then return algorithm.load(false) end
return nil, algorithm.parse(false)
end
local function excess(charge, used)
return charge.asks and used - (charge.capacityUnits - charge.amount) or 0
end
local function appendDurations(charge, used, over, a, b, c)
if used == 0 then
append(0)
append(0)
else
local remaining = used < charge.capacityUnits and floor((charge.capacityUnits - used) / charge.unitsPerToken) or 0
local lacking = used - (charge.capacityUnits - (remaining + 1) * charge.unitsPerToken)
append(charge.algorithm.reset(charge, used, a, b, c))
append(charge.algorithm.wait(charge, lacking, a, b, c))
end
append(over > 0 and charge.cost <= charge.limit and charge.algorithm.wait(charge, over, a, b, c) or 0)
end
local function prepare(charge, key, action, over, used, a, b, c)
local algorithm, changed = charge.algorithm, false
if action == 'add' and charge.cost > 0 then
a, b, c = algorithm.add(charge, used, charge.cost, a, b, c)
used, changed = used + charge.amount, true
if charge.mode.applyIfDenied then
used = algorithm.used(charge, a, b, c)
over = excess(charge, used)
end
elseif action == 'subtract' and used > 0 and (charge.grantEndsAt or now + 1) > now then
a, b, c = algorithm.refund(charge, used, charge.cost, a, b, c)
used, changed = algorithm.used(charge, a, b, c), true
elseif action == 'clear' then
local _
_, a, b, c = untouched(charge)
used, changed = 0, true
elseif charge.mode.apply == 'add' and over > 0 and charge.cost <= charge.limit then
if algorithm.isInFuture(charge, used, a, b, c) then
a, b, c = algorithm.add(charge, used, 0, a, b, c)
changed = true
end
end
append(over > 0 and -1 - used or used)
if charge.unitsPerMs == 0 then appendDurations(charge, used, over, a, b, c) end
if charge.mode == MODES.inspect then
append(algorithm.raw and algorithm.raw(key) or call('GET', key) or '')
append(call('PTTL', key))
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
local function decideOne(shape, first)
local charge, key = shape[1], KEYS[first + 1]
local err, a, b, c
if charge.mode.apply == 'clear' then err, a, b, c = untouched(charge) else err, a, b, c = read(charge, key) end
if err then return err end
local used = charge.algorithm.used(charge, a, b, c)
local over = excess(charge, used)
return write(key, prepare(charge, key, over <= 0 and charge.mode.apply, over, used, a, b, c))
end
local function decideGroup(shape, first)
local admitted, isViolation, isOnlyLook = true, true, true
local steps, values = {}, {}
for i = 1, shape.size do
current = i
local charge = shape[i]
local err, a, b, c = read(charge, KEYS[first + i])
if err then return err end
local used = charge.algorithm.used(charge, a, b, c)
local over = excess(charge, used)
if charge.mode.apply then isOnlyLook = false end
if over > 0 then
admitted = false
if charge.mode.applyIfDenied or charge.cost > charge.limit then isViolation = false end
end
steps[i] = { over, used, a, b, c }
end
for i = 1, shape.size do
current = i
local mode = shape[i].mode
local action
if admitted then action = mode.apply elseif isViolation and not isOnlyLook then action = mode.applyIfDenied end
values[i] = { prepare(shape[i], KEYS[first + i], action, unpack(steps[i], 1, 5)) }
end
for i = 1, shape.size do
current = i
local err = write(KEYS[first + i], values[i][1], values[i][2])
if err then return err end
end
end
local k = 0
for s = 1, #shapes do
local shape = shapes[s]
for _ = 1, shape.count do
current, mark = 1, replied
local ok, err = pcall(shape.size == 1 and decideOne or decideGroup, shape, k)
if not ok then err = type(err) == 'table' and err.err or 'FOREIGN value' end
if err then appendError(shape.size, err) end
k = k + shape.size
end
end
append(now)
return replies`;

/** The script's SHA-1, its name in Redis. */
export const sha: string = "527bd1bce820045b792b036c6a43b642b65e3ea8";
