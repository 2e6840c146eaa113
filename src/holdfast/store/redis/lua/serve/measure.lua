-- What operators look at: keys, what grows and is late, and who waits for a chain. Nothing of this changes anything.

local CHUNK = 250

local function oldest(q, key, precise)
  local member = redis.call('ZRANGE', H.lane_of(q, key), 0, 0)[1]
  if not member then return nil end
  local _, run_at = struct.unpack('>I2I7', member)
  local job = precise and H.peek(q, string.sub(member, -6))
  return job and (job.more.ready_at or job.run_at) or run_at
end

local function add(seen, keys, list)
  for _, key in ipairs(list) do
    if not seen[key] then
      seen[key] = true
      keys[#keys + 1] = key
    end
  end
end

-- Keys among which a list chooses; those with active jobs, and those whose turn comes first, however many there are.
local function looked_at(q, order)
  local seen, keys = {}, {}
  if order == 'busiest' then add(seen, keys, redis.call('HKEYS', q.key.running)) end
  if order == 'starved' then add(seen, keys, redis.call('ZRANGE', q.key.ready, 0, KEYS_LOOKED_AT - 1)) end
  local flat, names = redis.call('HSCAN', q.key.lanes, '0', 'COUNT', KEYS_LOOKED_AT)[2], {}
  for index = 1, #flat, 2 do names[#names + 1] = flat[index] end
  add(seen, keys, names)
  return keys
end

-- Each of the keys, with its jobs, its limit and its bucket.
local function add_lanes(q, flat, keys, precise)
  local lanes, limits = redis.call('HMGET', q.key.lanes, unpack(keys)), redis.call('HMGET', q.key.limits, unpack(keys))
  local running = redis.call('HMGET', q.key.running, unpack(keys))
  local timed, cooling = redis.call('ZMSCORE', q.key.timed, unpack(keys)), redis.call('ZMSCORE', q.key.cooling, unpack(keys))
  for index, key in ipairs(keys) do
    local lane, own = H.lane(lanes[index]), H.number(limits[index])
    for _, value in ipairs({
      key, redis.call('ZCARD', H.lane_of(q, key)), H.number(running[index], 0), own and own >= 0 and own or false,
      tonumber(timed[index] or nil) or false, cooling[index] and 1 or 0, lane.tokens and tostring(lane.tokens) or false,
      lane.at or false, oldest(q, key, precise) or false,
    }) do flat[#flat + 1] = value end
  end
end

-- serve lanes: now, order
--   then, over and over, key_arguments: key
--   reply: now, settings, lanes
--   in it, lane_fields: key, waiting, active, own_limit, ready_at, cooling, tokens, tokens_at, oldest
H.serve('lanes', function(call, keys, args, at)
  local q, flat = H.queue(keys[1], call.now), {}
  if not q.epoch then return false end
  local chosen = #args >= at and { unpack(args, at) } or looked_at(q, call.order)
  for first = 1, #chosen, CHUNK do add_lanes(q, flat, { unpack(chosen, first, first + CHUNK - 1) }, #args >= at) end
  return REPLY.lanes({ now = q.now, settings = q.settings_text, lanes = flat })
end)

-- serve measure: now
--   reply: now, keys_at_limit, due, events, newest, readers
H.serve('measure', function(call, keys)
  local q, full = H.queue(keys[1], call.now), 0
  local running = redis.call('HGETALL', q.key.running)
  for index = 1, #running, 2 do
    local limit = H.key_limit(q, running[index])
    if limit and H.number(running[index + 1], 0) >= limit then full = full + 1 end
  end
  local last = redis.call('XREVRANGE', q.key.events, '+', '-', 'COUNT', 1)[1]
  local readers, flat = redis.call('HGETALL', q.key.readers), {}
  for index = 1, #readers, 2 do
    local seq, at = string.match(readers[index + 1], '^(%d+) (%d+)$')
    if seq and tonumber(at) > q.now - READER_FORGOTTEN_MS then
      flat[#flat + 1], flat[#flat + 2] = readers[index], tonumber(seq)
    end
  end
  return REPLY.measure({
    now = q.now, keys_at_limit = full, due = H.next_scheduled(q), events = redis.call('XLEN', q.key.events),
    newest = last and tonumber(string.match(last[1], '-(%d+)$')), readers = flat,
  })
end)

-- serve dependants: now, rid, limit
--   reply: total, dependants
--   in it, dependant_fields: queue, run, id
H.serve('dependants', function(call, keys)
  local q = H.queue(keys[1], call.now)
  local first, behind = '[' .. call.rid, '(' .. H.rid(H.run_of(call.rid) + 1)
  return REPLY.dependants({
    total = redis.call('ZLEXCOUNT', q.key.dependants, first, behind),
    dependants = H.waiting_for(q, call.rid, call.limit),
  })
end)
