-- Hand-over: an idle worker gets a job together with the word that there is one, which saves it a call.
-- It is a claim like any other. `parked` marks who may be handed to (by half a place more), and each worker has
-- at most one hand-over that it has not acknowledged. One that it never heard of comes with the reply to its next turn.

local MOST_BYTES = 65536 -- of a message; what is more comes with the next turn

function H.may_hand_over(score)
  return score % 1 > 0
end

local function listened(session)
  local channel = session.address and string.match(session.address, '^(.*)#%d+$')
  return channel and redis.call('PUBSUB', 'NUMSUB', channel)[2] > 0
end

-- How a job begins in a message, behind its run: the time-out, and the size of the record that follows.
function H.handed_head(timeout, size)
  return struct.pack('>I7I4', (timeout or -1) + 1, size)
end

function H.can_take(q, session)
  return session and not session.dead and session.expires_at > q.now and listened(session)
end

-- The session, which is not parked, hears of what it has just claimed, and parks with the room that is left. `parts` of
-- the message are runs, heads and records, which together have so many bytes of records.
function H.send_hand_over(q, id, session, rids, parts, size, room)
  session.given, session.handed = (session.given or 0) + 1, table.concat(rids)
  redis.call('HSET', q.key.sessions, id, cmsgpack.pack(session))
  if room > #rids then redis.call('ZADD', q.key.parked, room - #rids, id) end
  local head = '!' .. struct.pack('>I4I7', session.given, q.now)
  H.ring(session.address, size <= MOST_BYTES and head .. table.concat(parts) or nil)
end

local function send_claimed(q, id, session, claimed, room)
  local rids, parts, size = {}, {}, 0
  for index = 1, #claimed, 3 do
    local rid, raw, at = claimed[index], claimed[index + 1], #parts
    rids[#rids + 1] = rid
    parts[at + 1], parts[at + 2], parts[at + 3] = rid, H.handed_head(claimed[index + 2], #raw), raw
    size = size + #raw
  end
  H.send_hand_over(q, id, session, rids, parts, size, room)
end

-- The session holds up to `count` jobs more, and hears of them. False, with nothing changed, when it cannot.
function H.hand_over_to(q, id, session, count, room)
  if not H.can_take(q, session) then return false end
  local claimed = H.claim(q, id, count, CROWD).claimed
  if #claimed == 0 then return false end
  send_claimed(q, id, session, claimed, room)
  return true
end

-- The hand-over that the worker has not heard of: its number, and what it claimed. A worker that knows of more than the
-- server, which went back in time, is followed: later hand-overs must not have numbers that it knows.
function H.unheard(q, id, session, received)
  local given = session.given or 0
  if received and received > given then
    session.given, session.handed = received, ''
    redis.call('HSET', q.key.sessions, id, cmsgpack.pack(session))
  end
  if not received or received >= given then return nil end
  local claimed = {}
  for at = 1, #session.handed, 6 do
    local rid = string.sub(session.handed, at, at + 5)
    local job = H.load(q, rid)
    if job and job.state == 'active' and job.more.session == id then
      local _, _, timeout = H.policy(q, job)
      local at = #claimed
      claimed[at + 1], claimed[at + 2], claimed[at + 3] = rid, H.encode(job), timeout or -1
    end
  end
  return { number = given, claimed = claimed }
end
