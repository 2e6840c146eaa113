-- Lists: runs that may match, and those of them that do. Nothing of this changes anything.

local CHUNK = 250

local function is_wanted(which, job, now)
  local more = job.more
  if more.expires_at and more.expires_at <= now then return false end
  if which.task and job.task ~= which.task or which.key and more.key ~= which.key then return false end
  if which.prefix and string.sub(H.long(job.id), 1, #which.prefix) ~= which.prefix then return false end
  if which.signature and more.signature ~= which.signature and more.signature ~= '-' then return false end
  if which.after and job.enqueued_at < which.after or which.before and job.enqueued_at >= which.before then return false end
  return not (which.fresh and more.requeued_as)
end

-- Look at the record of a run: true when there are enough.
local function look(q, call, found, rid, raw)
  found.seen = found.seen + 1
  local which = H.json(call.which)
  if which.states and not string.find(which.states, string.sub(raw, 1, 1), 1, true) then
    local fine, _, _, _, _, at = pcall(struct.unpack, '>c1BI2BI6', raw)
    if fine then found.oldest = at end
    return false
  end
  local fine, job = pcall(H.decode, rid, raw)
  if fine then found.oldest = job.enqueued_at end
  if fine and not is_wanted(which, job, q.now) then return false end
  local flat, run = found.records, H.run_of(rid)
  local sure = call.bare and fine and (not which.signature or job.more.signature == which.signature)
  flat[#flat + 1], flat[#flat + 2] = run, sure and '' or raw
  flat[#flat + 1] = fine and not call.bare and H.outcome(job) == 'active' and redis.call('HEXISTS', q.key.successors, job.id) or 0
  found.below, found.left = run, found.left - 1
  return found.left <= 0
end

local function look_at(q, call, found, rids)
  local raws = redis.call('HMGET', q.key.jobs, unpack(rids))
  for index, rid in ipairs(rids) do
    if raws[index] and look(q, call, found, rid, raws[index]) then return true end
  end
  found.below = H.run_of(rids[#rids])
  return false
end

-- Runs from the newest on, by their numbers.
local function walk(q, call, found)
  local latest = H.number(redis.call('HGET', q.key.queue, 'run'), 0)
  local run, left = math.min(call.below - 1, latest), call.most
  found.below = run + 1
  while run > 0 and left > 0 do
    local rids = {}
    for index = 1, math.min(CHUNK, left, run) do rids[index] = H.rid(run - index + 1) end
    if look_at(q, call, found, rids) then return end
    run, left = run - #rids, left - #rids
  end
  if run <= 0 then found.below = 0 end
end

-- serve search: now, below, most, limit, bare, which
--   then, over and over, run_arguments: rid
--   reply: now, below, oldest, records
--   in it, record_fields: run, record, successor
H.serve('search', function(call, keys, args, at)
  local q = H.queue(keys[1], call.now)
  local found = { records = {}, seen = 0, left = call.limit, below = call.below }
  if #args < at then
    walk(q, call, found)
  else
    for first = at, #args, CHUNK do
      if look_at(q, call, found, { unpack(args, first, math.min(first + CHUNK - 1, #args)) }) then break end
    end
  end
  return REPLY.search({ now = q.now, below = found.below, oldest = found.oldest, records = found.records })
end)

local function add(rids, members)
  for _, member in ipairs(members) do rids[#rids + 1] = string.sub(member, -6) end
end

local gather = {}

function gather.waiting(q, rids, most)
  local keys = { q.key.waiting, q.key.suspects }
  local lanes = redis.call('HLEN', q.key.lanes) <= most / 10 and redis.call('HKEYS', q.key.lanes) or nil
  if not lanes then return false end
  for _, key in ipairs(lanes) do keys[#keys + 1] = H.lane_of(q, key) end
  for _, key in ipairs(keys) do
    if #rids + redis.call('ZCARD', key) > most then return false end
    add(rids, redis.call('ZRANGE', key, 0, -1))
  end
  return true
end

function gather.active(q, rids, most)
  if #rids + redis.call('HLEN', q.key.active) > most then return false end
  add(rids, redis.call('HKEYS', q.key.active))
  return true
end

local function gather_set(q, name, rids, most)
  if #rids + redis.call('ZCARD', q.key[name]) > most then return false end
  add(rids, redis.call('ZRANGE', q.key[name], 0, -1))
  return true
end

-- All runs in these states, or without any, all that there are, in no order; nothing when there are more than so many.
-- serve runs: now, states, most
--   reply: a list
H.serve('runs', function(call, keys)
  local q, rids = H.queue(keys[1], call.now), {}
  if not call.states then
    if redis.call('HLEN', q.key.jobs) > call.most then return false end
    return redis.call('HKEYS', q.key.jobs)
  end
  for letter in string.gmatch(call.states, '.') do
    local state = STATE[letter]
    local one = gather[state] or function(...) return gather_set(q, state, select(2, ...)) end
    if not one(q, rids, call.most) then return false end
  end
  return rids
end)
