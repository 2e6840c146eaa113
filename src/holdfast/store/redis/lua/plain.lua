-- Plain jobs, which most are: no key, no options, started for the first time. Their records and events are cut and
-- joined as bytes, because taking records apart is most of what a job costs. Nothing here is a transition: enqueue,
-- claim and complete decide, and whatever is not plain they do the long way round, to the same effect.

local WAITING, ACTIVE = 119, 97 -- w, a
local HEAD_SIZE, LIFE, CHAIN = 11, 4, 64 -- as in record.lua; a plain record has no flag above the life but the chain
local NORMAL = '\3\232' -- a priority of 0, which is 1000 here
local NO_LIFE_YET = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- finished, free, expires, and the length of no exit

-- What the records and events of one call have in common, made once.
local function common(q, session)
  q.plain = q.plain or {}
  local made = q.plain[session]
  if not made then
    local now, named = struct.pack('>I7', q.now), struct.pack('>I2', #session) .. session
    made = {
      now = now, named = named, life = struct.pack('>I4', 1) .. now .. NO_LIFE_YET .. named, held = NO_LIFE_YET .. named,
      first = struct.pack('>I4', 1) .. now, holder = H.holder_text(session), tails = {}, waits = {}, rans = {}, ends = {},
      timeouts = {},
    }
    q.plain[session] = made
  end
  return made
end

local function tail_of(made, task)
  local tail = made.tails[task]
  if not tail then
    tail = struct.pack('>I2', #task) .. task .. made.named
    made.tails[task] = tail
  end
  return tail
end

-- Where the head of a record ends; and run_at and priority, as an event has them.
local function head_of(raw, flags)
  local at, run_at = HEAD_SIZE + 1, nil
  if flags % 2 == 1 then
    run_at, at = string.sub(raw, at, at + 6), at + 7
  else
    run_at = '\0' .. string.sub(raw, 6, HEAD_SIZE)
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
  if state ~= WAITING or flags % CHAIN >= LIFE or #raw < HEAD_SIZE then return nil end
  local made = common(q, session)
  local id_size, task_size = struct.unpack('>I2B', raw, 3)
  local at, place = head_of(raw, flags)
  local task = string.sub(raw, at + id_size, at + id_size + task_size - 1)
  local waited = made.waits[place]
  if not waited then
    waited = made.first .. place .. struct.pack('>I6I6', math.max(0, q.now - struct.unpack('>I7', place)) + 1, 0)
    made.waits[place] = waited
  end
  local timeout = made.timeouts[task]
  if not timeout then
    local _, _, declared = H.policy(q, { task = task, more = NOTHING })
    timeout = declared or -1
    made.timeouts[task] = timeout
  end
  log(q, string.sub(raw, at, at + id_size - 1), '\5claima' .. rid .. waited .. tail_of(made, task))
  return 'a' .. string.char(flags + LIFE) .. string.sub(raw, 3, at - 1) .. made.life .. string.sub(raw, at),
    made.holder, timeout
end

local function ends_of(q, made, watched, with_chain)
  local kind = with_chain and 'chain' or watched
  local known = made.ends[kind]
  if not known then
    local times = { state = 'completed', more = {} }
    H.end_times(q, times)
    local expires_at = math.max(times.more.expires_at, watched and q.now + KEPT_FOR_WATCHERS_MS or 0)
    local text = struct.pack('>I7I7I7', q.now, times.more.free_at, with_chain and 0 or expires_at)
    known = { text .. '\8complete' .. made.named, with_chain and '+inf' or expires_at }
    made.ends[kind] = known
  end
  return known[1], known[2]
end

-- A run that the session holds is completed, and the log says so: its new record, and when that goes. Nil when it is
-- not plain, or not held under this token (run, attempt, id).
function H.complete_plain(q, session, token, raw, result, watched)
  local state, flags = string.byte(raw, 1, 2)
  if state ~= ACTIVE or flags < LIFE or flags >= 2 * LIFE then return nil end
  local made = common(q, session)
  local at, place = head_of(raw, flags)
  local after = at + 11 + #made.held
  if string.sub(raw, at, at + 3) ~= string.sub(token, 7, 10) or string.sub(raw, at + 11, after - 1) ~= made.held then
    return nil
  end
  local id_size, task_size = struct.unpack('>I2B', raw, 3)
  local id = string.sub(raw, after, after + id_size - 1)
  if id ~= string.sub(token, 11) then return nil end
  local claimed_at = string.sub(raw, at + 4, at + 10)
  local ran = made.rans[claimed_at]
  if not ran then
    ran = struct.pack('>I6I6', 0, math.max(0, q.now - struct.unpack('>I7', claimed_at)) + 1)
    made.rans[claimed_at] = ran
  end
  local task = string.sub(raw, after + id_size, after + id_size + task_size - 1)
  local ends, expires_at = ends_of(q, made, watched)
  local rid = string.sub(token, 1, 6)
  log(q, id, '\8completec' .. rid .. string.sub(raw, at, at + 3) .. made.now .. place .. ran .. tail_of(made, task))
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
  if state ~= ACTIVE or flags < CHAIN or flags % CHAIN < LIFE or flags % CHAIN >= 2 * LIFE then return nil end
  local made = common(q, session)
  local at, place = head_of(raw, flags)
  local after = at + 11 + #made.held
  if string.sub(raw, at, at + 3) ~= string.sub(token, 7, 10) or string.sub(raw, at + 11, after - 1) ~= made.held then
    return nil
  end
  local id_size, task_size = struct.unpack('>I2B', raw, 3)
  local id = string.sub(raw, after, after + id_size - 1)
  if id ~= string.sub(token, 11) then return nil end
  local claimed_at = string.sub(raw, at + 4, at + 10)
  local ran = struct.pack('>I6I6', 0, math.max(0, q.now - struct.unpack('>I7', claimed_at)) + 1)
  local task = string.sub(raw, after + id_size, after + id_size + task_size - 1)
  local chain_at = HEAD_SIZE + 1 + (flags % 2 == 1 and 7 or 0) + (flags % 4 >= 2 and 2 or 0)
  local chain = string.sub(raw, chain_at + 2, at - 1)
  local ends, expires_at = ends_of(q, made, false, H.goes_with_chain(chain))
  local rid = string.sub(token, 1, 6)
  log(q, id, '\8completec' .. rid .. string.sub(raw, at, at + 3) .. made.now .. place .. ran .. tail_of(made, task))
  return 'c' .. string.sub(raw, 2, at + 10) .. ends .. string.sub(raw, after), expires_at, chain
end

-- A new later job of a chain, which waits from now on: its record and its place.
function H.follow_plain(q, rid, id, task, payload, chain)
  local record, place = H.enqueue_plain(q, rid, id, task, payload)
  return 'w' .. string.char(CHAIN) .. string.sub(record, 3, HEAD_SIZE) .. struct.pack('>I2', #chain) .. chain
    .. string.sub(record, HEAD_SIZE + 1), place
end

-- A new job that waits from now on, and the log says so: its record and its place.
function H.enqueue_plain(q, rid, id, task, payload)
  local made = common(q, '')
  local sizes = made.tails[task]
  if not sizes then
    sizes = tail_of(made, task)
    made.now_short, made.new = string.sub(made.now, 2), struct.pack('>I4', 0) .. made.now .. made.now .. NORMAL
      .. string.rep('\0', 12)
    made.place = NORMAL .. made.now
  end
  log(q, id, '\7enqueuew' .. rid .. made.new .. sizes)
  return 'w\0' .. struct.pack('>I2B', #id, #task) .. made.now_short .. id .. task .. payload, made.place .. rid
end
