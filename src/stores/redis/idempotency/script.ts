/** The script of the idempotency store. Generated from idempotency.lua and ../lua/ by scripts/make-redis-script.js; do not edit. */

export const script: string = `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local floor, ceil, min, max, fmod, format = math.floor, math.ceil, math.min, math.max, math.fmod, string.format
local WHOLE = format('%d', 4503599627370496) == '4503599627370496' and '%d' or '%.0f'
local function isWhole(n)
return n and n >= 0 and n <= 9007199254740991 and floor(n) == n
end
local NO_OWNER = '*'
local HEAD_BYTES = 512
local operation, owner = ARGV[1], ARGV[2]
local function write(value, ttlMs)
return redis.pcall('SET', KEYS[1], value, 'PX', format(WHOLE, ttlMs))
end
local function parseClaim(raw)
local attempt, leaseEndsAt, leaseMs, ttlMs, claimOwner, fingerprint =
string.match(raw, '^i1 claim (%d+) (%d+) (%d+) (%d+) (%S+) (%S+)$')
attempt, leaseEndsAt, leaseMs, ttlMs = tonumber(attempt), tonumber(leaseEndsAt), tonumber(leaseMs), tonumber(ttlMs)
if not (isWhole(attempt) and isWhole(leaseEndsAt) and isWhole(leaseMs) and isWhole(ttlMs)) then return end
if attempt < 1 or ttlMs < 1 then return end
return {
attempt = attempt,
leaseEndsAt = leaseEndsAt,
leaseMs = leaseMs,
ttlMs = ttlMs,
owner = claimOwner,
fingerprint = fingerprint,
}
end
local function writeClaim(claim, reply)
local written = write(
'i1 claim '
.. format(WHOLE, claim.attempt) .. ' '
.. format(WHOLE, claim.leaseEndsAt) .. ' '
.. format(WHOLE, claim.leaseMs) .. ' '
.. format(WHOLE, claim.ttlMs) .. ' '
.. claim.owner .. ' '
.. claim.fingerprint,
claim.ttlMs
)
return written.err and written or reply
end
local raw = redis.pcall('GETRANGE', KEYS[1], 0, HEAD_BYTES - 1)
if raw == '' and redis.call('PTTL', KEYS[1]) == -2 then raw = nil end
local claim, responseOwner, responseFingerprint
if type(raw) == 'table' then
if string.find(raw.err, 'WRONGTYPE', 1, true) then return 'i1 foreign' end
return raw
elseif raw then
responseOwner, responseFingerprint = string.match(raw, '^i1 response (%S+) (%S+)\\n')
claim = not responseOwner and parseClaim(raw) or nil
if not responseOwner and not claim then return 'i1 foreign' end
end
local isOwner = claim and claim.owner == owner
local operations = {}
function operations.begin(fingerprint, leaseMs, ttlMs)
if responseOwner then return 'i1 completed ' .. (responseFingerprint == fingerprint and '1' or '0') end
local same = claim and claim.fingerprint == fingerprint
local isOwn = same and isOwner
local left = claim and claim.leaseEndsAt - now or 0
if not claim or isOwn or left <= 0 then
local attempt = (claim and claim.attempt or 0) + (isOwn and 0 or 1)
return writeClaim({
attempt = attempt,
leaseEndsAt = now + leaseMs,
leaseMs = leaseMs,
ttlMs = ttlMs,
owner = owner,
fingerprint = fingerprint,
}, 'i1 started ' .. format(WHOLE, attempt))
end
local reply = 'i1 in-progress ' .. (same and '1' or '0') .. ' ' .. format(WHOLE, min(left, claim.leaseMs))
if left <= claim.leaseMs then return reply end
claim.leaseEndsAt = now + claim.leaseMs
return writeClaim(claim, reply)
end
function operations.read(fingerprint)
if not responseOwner or responseFingerprint ~= fingerprint then return 'i1 none' end
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then return value end
return 'i1 response' .. string.sub(value, string.find(value, '\\n', 1, true), -1)
end
function operations.renew(leaseMs)
if not isOwner then return 'i1 lost' end
claim.leaseEndsAt, claim.leaseMs, claim.ttlMs = now + leaseMs, leaseMs, max(claim.ttlMs, leaseMs)
return writeClaim(claim, 'i1 held')
end
function operations.complete(ttlMs, newResponse)
if responseOwner then return responseOwner == owner and 'i1 held' or 'i1 lost' end
if not isOwner then return 'i1 lost' end
local written = write('i1 response ' .. owner .. ' ' .. claim.fingerprint .. '\\n' .. newResponse, ttlMs)
return written.err and written or 'i1 held'
end
function operations.release()
if not isOwner then return 'i1 lost' end
if claim.attempt > 1 then
claim.attempt, claim.leaseEndsAt, claim.owner = claim.attempt - 1, 0, NO_OWNER
return writeClaim(claim, 'i1 held')
end
local deleted = redis.pcall('DEL', KEYS[1])
return type(deleted) == 'table' and deleted or 'i1 held'
end
local function isDuration(text)
return string.match(text or '', '^[1-9]%d*$') and isWhole(tonumber(text))
end
local function isId(text)
return string.match(text or '', '^[%w_.~+/=-]+$')
end
if isId(owner) then
if operation == 'begin' and isId(ARGV[3]) and isDuration(ARGV[4]) and isDuration(ARGV[5]) then
local leaseMs, ttlMs = tonumber(ARGV[4]), tonumber(ARGV[5])
if ttlMs >= leaseMs then return operations.begin(ARGV[3], leaseMs, ttlMs) end
elseif operation == 'read' then
return operations.read(owner)
elseif operation == 'renew' and isDuration(ARGV[3]) then
return operations.renew(tonumber(ARGV[3]))
elseif operation == 'complete' and isDuration(ARGV[3]) and ARGV[4] then
return operations.complete(tonumber(ARGV[3]), ARGV[4])
elseif operation == 'release' then
return operations.release()
end
end
return redis.error_reply('ERR invalid arguments of the idempotency script')`;

/** The script's SHA-1, its name in Redis. */
export const sha: string = "ec6959a4ab8f466e055f92e144a4b0fbb1d9f808";
