-- Lists of one state in the order of its index: the places of its jobs, an instant and a run, below a place.
-- Nothing of this changes anything.

local MOST_RUN_NUMBER = 2 ^ 48 - 1

local function text(number) return string.format('%.0f', number) end

-- Where in a part of a set whose members have one score those begin that are below a run; `sign` is that of its order.
local function first_below(range, key, from, size, run, sign)
  local low, high = from, from + size
  while low < high do
    local middle = math.floor((low + high) / 2)
    local member = redis.call(range, key, middle, middle)[1]
    if sign * H.run_of(member) < run then high = middle else low = middle + 1 end
  end
  return low
end

local function add(flat, found, sign)
  for index = 1, #found, 2 do
    local at = tonumber(found[index + 1])
    flat[#flat + 1] = at == math.huge and NO_INSTANT or sign * at
    flat[#flat + 1] = sign * H.run_of(found[index])
  end
end

local places = {}

-- Those that go with their chain have no instant (+inf), and come last.
function places.completed(q, below, most)
  local key, flat = q.key.completed, {}
  local unended, run = redis.call('ZCOUNT', key, '+inf', '+inf'), below.run
  if below.at > NO_INSTANT then
    local at = text(below.at)
    local above, same = redis.call('ZCOUNT', key, '(' .. at, '+inf'), redis.call('ZCOUNT', key, at, at)
    local from = first_below('ZREVRANGE', key, above, same, below.run, 1)
    add(flat, redis.call('ZREVRANGE', key, from, from + most - 1, 'WITHSCORES'), 1)
    run = math.huge
  end
  local left = most - #flat / 2
  local from = left > 0 and first_below('ZREVRANGE', key, 0, unended, run, 1) or unended
  if from < unended then
    add(flat, redis.call('ZREVRANGE', key, from, math.min(from + left, unended) - 1, 'WITHSCORES'), 1)
  end
  return flat
end

-- The next one first: of these, both numbers are negative.
function places.scheduled(q, below, most)
  local key, at, flat = q.key.scheduled, text(-below.at), {}
  local before, same = redis.call('ZCOUNT', key, '-inf', '(' .. at), redis.call('ZCOUNT', key, at, at)
  local from = first_below('ZRANGE', key, before, same, below.run, -1)
  add(flat, redis.call('ZRANGE', key, from, from + most - 1, 'WITHSCORES'), -1)
  return flat
end

-- The sets of those that wait, each priority of a set by itself, with the first member below a place.
local function streams_of(q, behind, keys)
  local streams = {}
  for _, key in ipairs(keys) do
    local next_one = redis.call('ZRANGEBYLEX', key, '-', '+', 'LIMIT', 0, 1)[1]
    while next_one do
      local priority = string.sub(next_one, 1, 2)
      local first = redis.call('ZREVRANGEBYLEX', key, '(' .. priority .. behind, '[' .. priority, 'LIMIT', 0, 1)[1]
      if first then streams[#streams + 1] = { key = key, priority = priority, first = string.sub(first, 3) } end
      local after = struct.pack('>I2', struct.unpack('>I2', priority) + 1)
      next_one = redis.call('ZRANGEBYLEX', key, '[' .. after, '+', 'LIMIT', 0, 1)[1]
    end
  end
  table.sort(streams, function(one, other) return one.first > other.first end)
  return streams
end

-- Of the sets whose first is not among the first `most`, nothing is.
function places.waiting(q, below, most, most_lanes)
  if redis.call('HLEN', q.key.lanes) > most_lanes then return false end
  local keys, members = { q.key.waiting, q.key.suspects }, {}
  for _, key in ipairs(redis.call('HKEYS', q.key.lanes)) do keys[#keys + 1] = H.lane_of(q, key) end
  local at, run = math.max(0, math.min(below.at, LARGEST_NUMBER)), math.max(0, math.min(below.run, MOST_RUN_NUMBER))
  local behind = struct.pack('>I7I6', at, run)
  for index, each in ipairs(streams_of(q, behind, keys)) do
    if index > most then break end
    local from, to = '(' .. each.priority .. behind, '[' .. each.priority
    for _, member in ipairs(redis.call('ZREVRANGEBYLEX', each.key, from, to, 'LIMIT', 0, most)) do
      members[#members + 1] = string.sub(member, 3)
    end
  end
  table.sort(members, function(one, other) return one > other end)
  local flat = {}
  for index = 1, math.min(most, #members) do
    flat[2 * index - 1], flat[2 * index] = struct.unpack('>I7I6', members[index])
  end
  return flat
end

-- serve placed: now, state, at, run, most, most_lanes
--   reply: a list
H.serve('placed', function(call, keys)
  local q = H.queue(keys[1], call.now)
  return places[call.state](q, { at = call.at, run = call.run }, call.most, call.most_lanes)
end)
