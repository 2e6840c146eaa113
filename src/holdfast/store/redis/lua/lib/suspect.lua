-- Suspects: jobs that stalled, in an order of their own. They come first, to a worker that holds few enough others.

-- In what company a job may be tried again that stalled in this one; nil: this stall was final. As in core/suspect.py.
function H.company_after(stalls, limit, company)
  if limit and stalls >= limit and company <= 1 then return nil end
  if limit and stalls + 1 >= limit then return 1 end
  return math.max(1, math.floor(company / 2))
end

local function take(q, member, rid, key)
  redis.call('ZREM', q.key.suspects, member)
  H.count_running(q, key, 1)
  if key then H.recheck(q, key, redis.call('HINCRBY', q.key.queue, 'turn', 1)) end
  return rid
end

-- A suspect whose record is gone or cannot be read is dropped.
local function load(q, member, rid)
  local job = H.load(q, rid)
  local waits = job and job.state == 'waiting'
  if waits and type(job.more.company) == 'number' then return job end
  redis.call('ZREM', q.key.suspects, member)
  if waits then
    H.set_aside(q, rid, redis.call('HGET', q.key.jobs, rid))
  elseif not job then
    H.set_aside(q, rid)
  end
end

-- The suspects that come next, as far as company and limits allow them to a session that holds so many; and the room
-- that they leave in all, whether one had to be left, and when a key has a token that one waits for.
function H.take_suspects(q, room, held)
  local taken = { rids = {}, room = room, left = false }
  if room <= 0 or not H.any(q, 'suspects') then return taken end
  for _, member in ipairs(redis.call('ZRANGE', q.key.suspects, 0, math.max(MOST_SUSPECTS, room) - 1)) do
    local rid, count = string.sub(member, -6), #taken.rids
    if count >= taken.room then break end
    local job = load(q, member, rid)
    local key, at = job and job.more.key, job and q.now
    if key then at = H.key_starts_at(q, key) end
    if at and at > q.now then
      taken.next_at = math.min(at, taken.next_at or at)
    elseif at and held + count + 1 > job.more.company then
      taken.left = true
      break
    elseif at then
      taken.rids[count + 1] = take(q, member, rid, key)
      taken.room = math.min(taken.room, job.more.company - held)
    end
  end
  return taken
end
