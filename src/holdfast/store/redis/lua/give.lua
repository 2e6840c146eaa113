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

-- The session holds up to `count` jobs more, and hears of them. False, with nothing changed, when it cannot.
function H.give(q, id, session, count, room)
  if session.dead or session.expires_at <= q.now or not listened(session) then return false end
  local claimed = H.claim(q, id, count).claimed
  if #claimed == 0 then return false end
  local rids = {}
  for index = 1, #claimed, 3 do rids[#rids + 1] = claimed[index] end
  session.given, session.gift = (session.given or 0) + 1, table.concat(rids)
  redis.call('HSET', q.key.sessions, id, cmsgpack.pack(session))
  if room > #rids then redis.call('ZADD', q.key.parked, room - #rids, id) end
  H.ring(session.address, as_text(q, session.given, claimed))
  return true
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
