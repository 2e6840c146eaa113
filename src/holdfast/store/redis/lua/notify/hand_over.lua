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

local function as_text(q, given, claimed)
  local parts, size = { '!' .. struct.pack('>I4I7', given, q.now) }, 0
  for index = 1, #claimed, 3 do
    local raw = claimed[index + 1]
    size = size + #raw
    parts[#parts + 1] = claimed[index] .. struct.pack('>I7I4', claimed[index + 2] + 1, #raw) .. raw
  end
  return size <= MOST_BYTES and table.concat(parts) or nil
end

function H.can_take(q, session)
  return session and not session.dead and session.expires_at > q.now and listened(session)
end

-- The session, which is not parked, hears of what it has just claimed, and parks with the room that is left.
function H.send_hand_over(q, id, session, claimed, room)
  local rids = {}
  for index = 1, #claimed, 3 do rids[#rids + 1] = claimed[index] end
  session.given, session.handed = (session.given or 0) + 1, table.concat(rids)
  redis.call('HSET', q.key.sessions, id, cmsgpack.pack(session))
  if room > #rids then redis.call('ZADD', q.key.parked, room - #rids, id) end
  H.ring(session.address, as_text(q, session.given, claimed))
end

-- The session holds up to `count` jobs more, and hears of them. False, with nothing changed, when it cannot.
function H.hand_over_to(q, id, session, count, room)
  if not H.can_take(q, session) then return false end
  local claimed = H.claim(q, id, count, CROWD).claimed
  if #claimed == 0 then return false end
  H.send_hand_over(q, id, session, claimed, room)
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
