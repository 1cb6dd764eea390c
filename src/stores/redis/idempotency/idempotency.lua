-- Begins, reads, renews, completes or releases an idempotency key in one atomic step. See src/idempotency/entry.ts.
-- KEYS: the entry.
-- ARGV: "begin", owner, fingerprint, leaseMs, ttlMs; "read", fingerprint; "renew", owner, leaseMs; "complete", owner,
--       ttlMs, response; or "release", owner.
-- Stores a string, always with a TTL: "i1 claim attempt leaseEndsAt leaseMs ttlMs owner fingerprint", whose owner is *
--       after a release, or "i1 response owner fingerprint", a line feed and the response.
-- Returns "i1 started attempt", "i1 in-progress same leaseMs", or "i1 completed same", where same is 1 or 0; for "read"
--       "i1 response", a line feed and the response, or "i1 none"; for the other operations "i1 held" or "i1 lost".
--       "i1 foreign": the key has another value.
-- Only "read" reads a response: another operation reads the head of the value, so it takes as long beside 1 MiB as beside 1 kB.
-- Each operation writes at most once, after all checks, because Redis does not roll back.
local NO_OWNER = '*'
-- Longer than a claim, and than the head of a response: owner and fingerprint have at most 128 characters each.
local HEAD_BYTES = 512
local operation, owner = ARGV[1], ARGV[2]

local function write(value, ttlMs)
  return redis.pcall('SET', KEYS[1], value, 'PX', format(WHOLE, ttlMs))
end

-- The claim of an entry, or nil.
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

-- Writes a claim, and returns the reply or the error of the write.
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
-- A key that does not exist is read as an empty text. An empty text that is stored is foreign.
if raw == '' and redis.call('PTTL', KEYS[1]) == -2 then raw = nil end
local claim, responseOwner, responseFingerprint
if type(raw) == 'table' then
  -- A value of another type. Other errors are those of the server.
  if string.find(raw.err, 'WRONGTYPE', 1, true) then return 'i1 foreign' end
  return raw
elseif raw then
  responseOwner, responseFingerprint = string.match(raw, '^i1 response (%S+) (%S+)\n')
  claim = not responseOwner and parseClaim(raw) or nil
  if not responseOwner and not claim then return 'i1 foreign' end
end
local isOwner = claim and claim.owner == owner

local operations = {}

function operations.begin(fingerprint, leaseMs, ttlMs)
  if responseOwner then return 'i1 completed ' .. (responseFingerprint == fingerprint and '1' or '0') end
  local same = claim and claim.fingerprint == fingerprint
  -- Sent again after a lost reply.
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
  -- The clock has stepped back. Restart the lease: the owner loses nothing, and the key is not blocked until the clock
  -- has caught up.
  claim.leaseEndsAt = now + claim.leaseMs
  return writeClaim(claim, reply)
end

function operations.read(fingerprint)
  if not responseOwner or responseFingerprint ~= fingerprint then return 'i1 none' end
  local value = redis.pcall('GET', KEYS[1])
  if type(value) == 'table' then return value end
  return 'i1 response' .. string.sub(value, string.find(value, '\n', 1, true), -1)
end

function operations.renew(leaseMs)
  if not isOwner then return 'i1 lost' end
  claim.leaseEndsAt, claim.leaseMs, claim.ttlMs = now + leaseMs, leaseMs, max(claim.ttlMs, leaseMs)
  return writeClaim(claim, 'i1 held')
end

function operations.complete(ttlMs, newResponse)
  if responseOwner then return responseOwner == owner and 'i1 held' or 'i1 lost' end
  if not isOwner then return 'i1 lost' end
  local written = write('i1 response ' .. owner .. ' ' .. claim.fingerprint .. '\n' .. newResponse, ttlMs)
  return written.err and written or 'i1 held'
end

-- Earlier attempts may have had an effect, so they stay counted.
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
return redis.error_reply('ERR invalid arguments of the idempotency script')
