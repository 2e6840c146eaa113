-- Plain jobs, which most are: no key, no options, started for the first time. Their records and events are cut and
-- joined as bytes, because taking records apart is most of what a job costs. Nothing here is a transition: enqueue,
-- claim and complete decide, and whatever is not plain they do the long way round, to the same effect.

local WAITING, ACTIVE = 119, 97 -- w, a
local HEAD_SIZE, LIFE, REST, CHAIN = 15, 4, 16, 64 -- as in record.lua; a plain record has no flag above the life but the chain
local ONE, NO_TIMES = '\0\0\0\1', '\0\0\0\0\0\0\0\0\0\0\0\0' -- a first attempt; neither waited nor ran
local NORMAL = '\3\232' -- a priority of 0, which is 1000 here
local NO_LIFE_YET = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- finished, free, expires, and the length of no exit

-- What never changes of a session, made once for many calls: its name as records and events have it.
local crew, crew_size = {}, 0

local function member(session)
  local made = crew[session]
  if not made then
    if crew_size >= 200 then crew, crew_size = {}, 0 end
    local named = struct.pack('>I2', #session) .. session
    made = { named = named, held = NO_LIFE_YET .. named, holder = H.holder_text(session), tails = {}, tasks = 0 }
    crew[session], crew_size = made, crew_size + 1
  end
  return made
end

-- How an event of a task and a session ends.
local function tail_of(made, task)
  local tail = made.tails[task]
  if not tail then
    if made.tasks >= 200 then made.tails, made.tasks = {}, 0 end
    tail = struct.pack('>I2', #task) .. task .. made.named
    made.tails[task], made.tasks = tail, made.tasks + 1
  end
  return tail
end

local function now_text(q)
  local text = q.now_text
  if not text then
    text = struct.pack('>I7', q.now)
    q.now_text = text
  end
  return text
end

-- Where the head of a record ends; and run_at and priority, as an event has them.
local function head_of(raw, flags)
  local at, run_at = HEAD_SIZE + 1, nil
  if flags % 2 == 1 then
    run_at, at = string.sub(raw, at, at + 6), at + 7
  else
    run_at = '\0' .. string.sub(raw, 6, 11)
  end
  local priority = NORMAL
  if flags % 4 >= 2 then priority, at = string.sub(raw, at, at + 1), at + 2 end
  if flags >= CHAIN then at = at + 2 + struct.unpack('>I2', raw, at) end
  return at, run_at .. priority
end

local function log(q, id, text)
  redis.call('XADD', q.key.events, q.next_event, 'i', id, 'e', text)
end

function H.start_log(q)
  q.next_event = q.next_event or q.epoch .. '-*'
end

-- A waiting job that never ran is the session's, and the log says so: its new record, its holder and its time-out.
function H.claim_plain(q, session, rid, raw)
  local state, flags = string.byte(raw, 1, 2)
  if state ~= WAITING or not flags or flags % CHAIN >= LIFE or flags > 127
    or #raw < HEAD_SIZE + (flags % 4 > 0 and 9 or 0) + (flags >= CHAIN and 11 or 0) then
    return nil -- not plain, or so short that the long way round has to say what it is
  end
  local made = member(session)
  local id_size, task_size, _, payload_size = struct.unpack('>I2BI6I4', raw, 3)
  local at, place = head_of(raw, flags)
  if at + id_size + task_size + payload_size ~= #raw + 1 then return nil end -- cut off
  local task = string.sub(raw, at + id_size, at + id_size + task_size - 1)
  if q.wait_place ~= place then -- many have the same
    q.wait_place = place
    q.waited = ONE .. now_text(q) .. place
      .. struct.pack('>I6I6', math.max(0, q.now - struct.unpack('>I7', place)) + 1, 0)
  end
  log(q, string.sub(raw, at, at + id_size - 1), '\5claima' .. rid .. q.waited .. tail_of(made, task))
  return 'a' .. string.char(flags + LIFE) .. string.sub(raw, 3, at - 1) .. ONE .. now_text(q) .. made.held
    .. string.sub(raw, at), made.holder, H.task_timeout(q, task) or -1
end

-- How the life of a run that completes now ends, and when it goes.
local function ends_of(q, made, watched, with_chain)
  local kind = with_chain and 'chain' or watched
  local ending = q.ending
  if not ending or ending.kind ~= kind then
    local free_at, expires_at = H.times_of(q, 'completed')
    expires_at = math.max(expires_at, watched and q.now + KEPT_FOR_WATCHERS_MS or 0)
    local text = struct.pack('>I7I7I7', q.now, free_at, with_chain and 0 or expires_at) .. '\8complete' .. made.named
    ending = { kind = kind, text = text, expires_at = with_chain and '+inf' or expires_at }
    q.ending = ending
  end
  return ending.text, ending.expires_at
end

local function ran_since(q, claimed_at)
  if q.ran_from ~= claimed_at then
    q.ran_from = claimed_at
    q.ran = struct.pack('>I6I6', 0, math.max(0, q.now - struct.unpack('>I7', claimed_at)) + 1)
  end
  return q.ran
end

-- A run that the session holds is completed, and the log says so: its new record, and when that goes. Nil when it is
-- not plain, or not held under this token (run, attempt, id).
function H.complete_plain(q, session, token, raw, result, watched)
  local state, flags = string.byte(raw, 1, 2)
  if state ~= ACTIVE or not flags or flags < LIFE or flags >= 2 * LIFE then return nil end
  local made = member(session)
  local at, place = head_of(raw, flags)
  local after = at + 11 + #made.held
  if string.sub(raw, at, at + 3) ~= string.sub(token, 7, 10) or string.sub(raw, at + 11, after - 1) ~= made.held then
    return nil
  end
  local id_size, task_size = struct.unpack('>I2B', raw, 3)
  local id = string.sub(raw, after, after + id_size - 1)
  if id ~= string.sub(token, 11) then return nil end
  local ran = ran_since(q, string.sub(raw, at + 4, at + 10))
  local task = string.sub(raw, after + id_size, after + id_size + task_size - 1)
  local ends, expires_at = ends_of(q, made, watched)
  local rid = string.sub(token, 1, 6)
  log(q, id, '\8completec' .. rid .. string.sub(raw, at, at + 3) .. now_text(q) .. place .. ran .. tail_of(made, task))
  local record = 'c' .. string.char(flags + 8) .. string.sub(raw, 3, at + 10) .. ends .. struct.pack('>I4', #result)
    .. string.sub(raw, after) .. result
  return record, expires_at
end

-- The queue in which the chain began whose later job has this record.
function H.home_of(raw)
  local flags = string.byte(raw, 2)
  if not flags or flags < CHAIN then return nil end
  return string.match(raw, '^%Z+', HEAD_SIZE + 7 + (flags % 2 == 1 and 7 or 0) + (flags % 4 >= 2 and 2 or 0))
end

-- A later job of a chain that the session holds, and that goes on with another in the same queue, is completed: its new
-- record, when that goes, and its chain. Nil when it is not plain, or not held under this token.
function H.go_on_plain(q, session, token, raw)
  local state, flags = string.byte(raw, 1, 2)
  if state ~= ACTIVE or not flags or flags < CHAIN or flags % CHAIN < LIFE or flags % CHAIN >= 2 * LIFE then return nil end
  local made = member(session)
  local at, place = head_of(raw, flags)
  local after = at + 11 + #made.held
  if string.sub(raw, at, at + 3) ~= string.sub(token, 7, 10) or string.sub(raw, at + 11, after - 1) ~= made.held then
    return nil
  end
  local id_size, task_size = struct.unpack('>I2B', raw, 3)
  local id = string.sub(raw, after, after + id_size - 1)
  if id ~= string.sub(token, 11) then return nil end
  local ran = ran_since(q, string.sub(raw, at + 4, at + 10))
  local task = string.sub(raw, after + id_size, after + id_size + task_size - 1)
  local chain_at = HEAD_SIZE + 1 + (flags % 2 == 1 and 7 or 0) + (flags % 4 >= 2 and 2 or 0)
  local chain = string.sub(raw, chain_at + 2, at - 1)
  local ends, expires_at = ends_of(q, made, false, H.goes_with_chain(chain))
  local rid = string.sub(token, 1, 6)
  log(q, id, '\8completec' .. rid .. string.sub(raw, at, at + 3) .. now_text(q) .. place .. ran .. tail_of(made, task))
  return 'c' .. string.sub(raw, 2, at + 10) .. ends .. string.sub(raw, after), expires_at, chain
end

-- A new later job of a chain, which waits from now on: its record and its place.
function H.follow_plain(q, rid, id, task, payload, chain)
  local record, place = H.enqueue_plain(q, rid, id, task, payload)
  return 'w' .. string.char(CHAIN) .. string.sub(record, 3, HEAD_SIZE) .. struct.pack('>I2', #chain) .. chain
    .. string.sub(record, HEAD_SIZE + 1), place
end

-- A new job that waits from now on, and the log says so: its record and its place. `rest` is what `H.rest` made.
function H.enqueue_plain(q, rid, id, task, payload, rest)
  local new = q.new
  if not new then
    local now = now_text(q)
    new = { event = '\0\0\0\0' .. now .. now .. NORMAL .. NO_TIMES, short = string.sub(now, 2), place = NORMAL .. now }
    q.new = new
  end
  log(q, id, '\7enqueuew' .. rid .. new.event .. tail_of(member(''), task))
  return (rest and 'w\16' or 'w\0') .. struct.pack('>I2B', #id, #task) .. new.short
    .. struct.pack('>I4', #payload) .. (rest or '') .. id .. task
    .. payload, new.place .. rid
end

-- The record of a job that has only waited so far, with another rest; nil when there is more to it.
function H.with_rest(raw, rest)
  local state, flags = string.byte(raw, 1, 2)
  if state ~= WAITING or (flags ~= 0 and flags ~= REST) then return nil end
  local at = HEAD_SIZE + 1
  if flags == REST then
    local text = string.sub(raw, at, at + 3 + struct.unpack('>I4', raw, at))
    if not H.is_only_ttl(text) then return nil end
    at = at + #text
  end
  return (rest and 'w\16' or 'w\0') .. string.sub(raw, 3, HEAD_SIZE) .. (rest or '') .. string.sub(raw, at)
end
