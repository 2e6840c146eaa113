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

local function is_above(one, other)
  if one.at ~= other.at then return one.at > other.at end
  return one.run > other.run
end

local function packed(place) return struct.pack('>I7I6', place.at, place.run) end

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

local function place_of(member)
  local at, run = struct.unpack('>I7I6', member, 3)
  return { at = at, run = run }
end

-- The first place of a set below another, of one priority. Most often that is its last.
local function first_of(key, priority, last, below)
  local place = place_of(last)
  if string.sub(last, 1, 2) == priority and is_above(below, place) then return place end
  local first = redis.call('ZREVRANGEBYLEX', key, '(' .. priority .. packed(below), '[' .. priority, 'LIMIT', 0, 1)[1]
  return first and place_of(first)
end

-- The highest of many, in order: numbers are sorted much faster than tables.
local function first_of_many(many, most)
  if #many > 2 * most then
    local times, few = {}, {}
    for index, one in ipairs(many) do times[index] = one.at end
    table.sort(times)
    local least = times[#times - most + 1]
    for _, one in ipairs(many) do
      if one.at >= least then few[#few + 1] = one end
    end
    many = few
  end
  table.sort(many, is_above)
  return many
end

-- The sets of those that wait, each priority of a set by itself, with its first place below another.
local function streams_of(below, keys)
  local streams = {}
  for _, key in ipairs(keys) do
    local next_one, last = redis.call('ZRANGE', key, 0, 0)[1], redis.call('ZRANGE', key, -1, -1)[1]
    while next_one do
      local priority = string.sub(next_one, 1, 2)
      local place = first_of(key, priority, last, below)
      if place then
        place.key, place.priority = key, priority
        streams[#streams + 1] = place
      end
      if priority == string.sub(last, 1, 2) then break end
      local after = struct.pack('>I2', struct.unpack('>I2', priority) + 1)
      next_one = redis.call('ZRANGEBYLEX', key, '[' .. after, '+', 'LIMIT', 0, 1)[1]
    end
  end
  return streams
end

-- Add the places of a stream below another, the highest first: at most so many, and none below the lowest that counts.
local function add_places(found, stream, below, most, lowest)
  local from, to = '(' .. stream.priority .. packed(below), '[' .. stream.priority .. (lowest and packed(lowest) or '')
  local members = redis.call('ZREVRANGEBYLEX', stream.key, from, to, 'LIMIT', 0, most)
  for _, member in ipairs(members) do found[#found + 1] = place_of(member) end
  stream.last = #members == most and found[#found] or nil
end

-- The highest places of all streams: a few of each at first, then, down to the lowest of these that counts, the others.
-- Of the streams whose first is not among the first `most`, nothing is.
local function highest(streams, below, most)
  local found, share = {}, math.ceil(most / #streams) + 1
  for index = 1, math.min(most, #streams) do add_places(found, streams[index], below, share) end
  table.sort(found, is_above)
  local lowest, before = found[most], #found
  for index = 1, math.min(most, #streams) do
    local stream = streams[index]
    if stream.last and (not lowest or is_above(stream.last, lowest)) then
      add_places(found, stream, stream.last, most, lowest)
    end
  end
  if #found > before then table.sort(found, is_above) end
  return found
end

function places.waiting(q, below, most, most_lanes)
  if redis.call('HLEN', q.key.lanes) > most_lanes then return false end
  local keys, flat = { q.key.waiting, q.key.suspects }, {}
  for _, key in ipairs(redis.call('HKEYS', q.key.lanes)) do keys[#keys + 1] = H.lane_of(q, key) end
  below = {
    at = math.max(0, math.min(below.at, LARGEST_NUMBER)), run = math.max(0, math.min(below.run, MOST_RUN_NUMBER)),
  }
  local streams = first_of_many(streams_of(below, keys), most)
  for index, place in ipairs(#streams > 0 and highest(streams, below, most) or {}) do
    if index > most then break end
    flat[2 * index - 1], flat[2 * index] = place.at, place.run
  end
  return flat
end

-- serve placed: now, state, at, run, most, most_lanes
--   reply: a list
H.serve('placed', function(call, keys)
  local q = H.queue(keys[1], call.now)
  return places[call.state](q, { at = call.at, run = call.run }, call.most, call.most_lanes)
end)
