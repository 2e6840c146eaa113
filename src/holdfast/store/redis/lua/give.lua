-- Hand-over: a worker with nothing to do gets a job together with the word that there is one, which saves it a call.
-- It is a claim like any other; `parked` marks who may be given to (by half a place more), and each worker has
-- at most one gift that it has not acknowledged. One that it never heard of comes with the reply to its next turn.

local MOST_BYTES = 65536 -- of a message; what is more comes with the next turn

function H.may_give(score)
  return score % 1 > 0
end

local function listened(session)
  local channel = session.address and string.match(session.address, '^(.*)#%d+$')
  return channel and redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0
end

local function as_text(q, given, claimed)
  local parts, size = { '!' .. struct.pack('>I4I7', given, q.now) }, 0
  for index = 1, #claimed, 3 do
    local raw = claimed[index + 1]
    size = size + #raw
    parts[#parts + 1] = claimed[index] .. struct.pack('>I7I4', claimed[index + 2] + 1, #raw) .. raw
  end
  return size <= MOST_BYTES and table.concat(parts) or nil
end

local function can_take(q, session)
  return session and not session.dead and session.expires_at > q.now and listened(session)
end

-- What the session, which is not parked, has just claimed is a gift: it hears of it, and parks with the room that is left.
local function wrap(q, id, session, claimed, room)
  local rids = {}
  for index = 1, #claimed, 3 do rids[#rids + 1] = claimed[index] end
  session.given, session.gift = (session.given or 0) + 1, table.concat(rids)
  redis.call('HSET', q.key.sessions, id, cmsgpack.pack(session))
  if room > #rids then redis.call('ZADD', q.key.parked, room - #rids, id) end
  H.ring(session.address, as_text(q, session.given, claimed))
end

-- The session holds up to `count` jobs more, and hears of them. False, with nothing changed, when it cannot.
function H.give(q, id, session, count, room)
  if not can_take(q, session) then return false end
  local claimed = H.claim(q, id, count, CROWD).claimed
  if #claimed == 0 then return false end
  wrap(q, id, session, claimed, room)
  return true
end

local LIMITS = { 'paused', 'concurrency', 'rate' }

-- The worker that may have so many new jobs before they ever wait: it is idle, nothing is in front of them, and no limit
-- is asked. Nil, with nothing changed, when there is none.
function H.taker(q, count)
  if count > MOST_GIVEN then return nil end
  for _, name in ipairs(LIMITS) do
    if H.setting(q, name) then return nil end
  end
  local id, score = unpack(redis.call('ZRANGE', q.key.parked, -1, -1, 'WITHSCORES'))
  score = tonumber(score or 0)
  if score < count or not H.may_give(score) then return nil end
  local session = H.session(q, id)
  if not can_take(q, session) then return nil end
  if redis.call('EXISTS', q.key.waiting, q.key.scheduled, q.key.lanes) > 0 then return nil end
  return { id = id, session = session, room = math.floor(score), claimed = {}, holders = {} }
end

-- A new plain job is the taker's, and the log says so: its record as it is then.
function H.take(q, taker, rid, raw)
  local record, holder, timeout = H.claim_plain(q, taker.id, rid, raw)
  local claimed, holders = taker.claimed, taker.holders
  claimed[#claimed + 1], claimed[#claimed + 2], claimed[#claimed + 3] = rid, raw, timeout
  holders[#holders + 1], holders[#holders + 2] = rid, holder
  return record
end

-- The taker hears of all that it took, which is written already.
function H.taken(q, taker)
  redis.call('HSET', q.key.active, unpack(taker.holders))
  if taker.room == #taker.holders / 2 then redis.call('ZREM', q.key.parked, taker.id) end
  wrap(q, taker.id, taker.session, taker.claimed, taker.room)
end

-- The gift that the worker has not heard of, as a claim: its number, and run, record and time-out of each job. A worker
-- that knows of more than the server, which went back in time, is followed: later gifts must not have numbers it knows.
function H.given_again(q, id, session, received)
  local given = session.given or 0
  if received and received > given then
    session.given, session.gift = received, ''
    redis.call('HSET', q.key.sessions, id, cmsgpack.pack(session))
  end
  if not received or received >= given then return nil end
  local found = { given }
  for at = 1, #session.gift, 6 do
    local rid = string.sub(session.gift, at, at + 5)
    local job = H.load(q, rid)
    if job and job.state == 'active' and job.more.session == id then
      local _, _, timeout = H.policy(q, job)
      found[#found + 1], found[#found + 2], found[#found + 3] = rid, H.encode(job), timeout or -1
    end
  end
  return found
end
