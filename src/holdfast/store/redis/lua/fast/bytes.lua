-- What the fast paths share: texts that are the same for many jobs, made once.
--
-- Fast paths are for plain jobs, which most are: no key, no options, started for the first time. Their records and events
-- are cut and joined as bytes (`H.bytes` in lib/record.lua, the order of EVENT in lib/log.lua), because taking records
-- apart is most of what a job costs. None of them is a transition: each says which slow path it equals, and what is not
-- plain goes there. tests/store/redis/test_redis_fast.py compares them.

local bytes = H.bytes
local MOST_TEXTS = 200

-- What never changes of a session: its name as records and events have it, and how its events end, by task.
local sessions, session_count = {}, 0

function bytes.session(id)
  local made = sessions[id]
  if not made then
    if session_count >= MOST_TEXTS then sessions, session_count = {}, 0 end
    local named = struct.pack('>I2', #id) .. id
    made = { named = named, held = bytes.held(named), holder = H.holder_text(id), tails = {}, tasks = 0 }
    sessions[id], session_count = made, session_count + 1
  end
  return made
end

-- How an event of a task and a session ends.
function bytes.tail(session, task)
  local tail = session.tails[task]
  if not tail then
    if session.tasks >= MOST_TEXTS then session.tails, session.tasks = {}, 0 end
    tail = struct.pack('>I2', #task) .. task .. session.named
    session.tails[task], session.tasks = tail, session.tasks + 1
  end
  return tail
end

function bytes.now(q)
  local text = q.now_text
  if not text then
    text = struct.pack('>I7', q.now)
    q.now_text = text
  end
  return text
end
