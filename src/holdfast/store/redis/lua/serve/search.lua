-- Lists: runs that may match, and those of them that do. Nothing of this changes anything.

local CHUNK = 250
local HOLE = 1 / 16

local function is_wanted(which, job, now)
  local more = job.more
  if more.expires_at and more.expires_at <= now then return false end
  if which.task and job.task ~= which.task or which.key and more.key ~= which.key then return false end
  if which.prefix and string.sub(H.long(job.id), 1, #which.prefix) ~= which.prefix then return false end
  if which.signature and more.signature ~= which.signature and more.signature ~= '-' then return false end
  return not (which.fresh and more.requeued_as)
end

-- Whether an id that begins here may have the beginning that is asked for; `packed` is that of ids that are stored as bytes.
local function may_begin(which, packed, raw, at)
  local mark = string.byte(raw, at)
  if mark == 1 then return packed and string.sub(raw, at, at + #packed - 1) == packed end
  if mark == 0 then at = at + 1 end
  return string.sub(raw, at, at + #which.prefix - 1) == which.prefix
end

-- Whether a record may match, by what can be told without taking it apart: that takes ten times as long.
local function may_match(which, packed, raw)
  if which.states and not string.find(which.states, string.sub(raw, 1, 1), 1, true) then return false end
  if which.key and not string.find(raw, which.key, 1, true) then return false end
  if which.word and not string.find(raw, which.word, 1, true) then return false end
  if which.after or which.before then
    local at = H.enqueued_at(raw)
    if at and (which.after and at < which.after or which.before and at >= which.before) then return false end
  end
  if not which.task and not which.prefix then return true end
  local at, id_size, task_size = H.names_at(raw)
  if which.task and (task_size ~= #which.task
    or string.sub(raw, at + id_size, at + id_size + task_size - 1) ~= which.task) then return false end
  return not which.prefix or may_begin(which, packed, raw, at)
end

-- Look at the record of a run: true when there are enough.
local function look(q, call, found, rid, raw)
  local which = H.json(call.which)
  found.last = raw
  local told, may = pcall(may_match, which, found.packed, raw)
  if told and not may then return false end
  local fine, job = pcall(H.decode, rid, raw)
  if fine and not is_wanted(which, job, q.now) then return false end
  local flat, run = found.records, H.run_of(rid)
  local sure = call.bare and fine and (not which.signature or job.more.signature == which.signature)
  flat[#flat + 1], flat[#flat + 2] = run, sure and '' or raw
  flat[#flat + 1] = fine and not call.bare and H.outcome(job) == 'active' and redis.call('HEXISTS', q.key.successors, job.id) or 0
  found.below, found.left = run, found.left - 1
  return found.left <= 0
end

-- Look at the records of runs: true when there are enough; and how many records there were.
local function look_at(q, call, found, rids)
  local raws, seen = redis.call('HMGET', q.key.jobs, unpack(rids)), 0
  for index, rid in ipairs(rids) do
    if raws[index] then
      seen = seen + 1
      if look(q, call, found, rid, raws[index]) then
        found.seen = found.seen + seen
        return true, seen
      end
    end
  end
  found.below, found.seen = H.run_of(rids[#rids]), found.seen + seen
  return false, seen
end

-- Runs from the newest on, by their numbers. A number without a record costs less than one with.
local function walk(q, call, found)
  local latest = H.number(redis.call('HGET', q.key.queue, 'run'), 0)
  local run, left = math.min(call.below - 1, latest), call.most
  found.below = run + 1
  while run > 0 and left >= 1 do
    local rids = {}
    for index = 1, math.min(CHUNK, math.ceil(left), run) do rids[index] = H.rid(run - index + 1) end
    local enough, seen = look_at(q, call, found, rids)
    if enough then return end
    run, left = run - #rids, left - seen - (#rids - seen) * HOLE
  end
  if run <= 0 then found.below = 0 end
end

-- The beginning of an id as it is stored where the whole is 32 hexadecimal digits: those that make up bytes.
local function packed(prefix)
  if not prefix or #prefix > 32 or not string.find(prefix, '^[0-9a-f]+$') then return nil end
  local whole = string.gsub(string.sub(prefix, 1, #prefix - #prefix % 2), '..', function(two)
    return string.char(tonumber(two, 16))
  end)
  return '\1' .. whole
end

-- serve search: now, below, most, limit, bare, which
--   then, over and over, run_arguments: rid
--   reply: now, below, oldest, seen, records
--   in it, record_fields: run, record, successor
H.serve('search', function(call, keys, args, at)
  local q = H.queue(keys[1], call.now)
  local found = { records = {}, seen = 0, left = call.limit, below = call.below, packed = packed(H.json(call.which).prefix) }
  if #args < at then
    walk(q, call, found)
  else
    for first = at, #args, CHUNK do
      if look_at(q, call, found, { unpack(args, first, math.min(first + CHUNK - 1, #args)) }) then break end
    end
  end
  return REPLY.search({
    now = q.now, below = found.below, oldest = found.last and H.enqueued_at(found.last), seen = found.seen,
    records = found.records,
  })
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
