-- The fast path of `recheck` in lib/lane.lua, for many keys at once in a queue whose keys have no rate: what is asked for each
-- of them is asked once for all.

local function is_limited(q)
  return H.any(q, 'limits') or H.setting(q, 'key_limits') or H.setting(q, 'key_concurrency')
end

-- How many jobs of each key are active. Nil where keys have rates, or where one of the counts is no number.
function H.counts_of(q, keys)
  if #keys == 0 or H.setting(q, 'key_rate') or H.any(q, 'timed') or H.any(q, 'cooling') then return nil end
  local counts = redis.call('HMGET', q.key.running, unpack(keys))
  for index, text in ipairs(counts) do
    if text and not string.find(text, '^%d%d?%d?%d?%d?%d?$') then return nil end
    counts[index] = tonumber(text or 0)
  end
  return counts
end

-- How often lanes have their turn at once, with room for so many jobs: a few whose keys have no limit, several times.
function H.rounds(q, lanes, room)
  if H.setting(q, 'key_rate') or is_limited(q) then return 1 end
  return math.max(1, math.floor(room / #lanes))
end

-- The counts are more by these.
function H.count_together(q, keys, counts, by)
  local some, none = {}, {}
  for index, key in ipairs(keys) do
    local count = counts[index] + by[index]
    counts[index] = count
    if count > 0 then
      some[#some + 1], some[#some + 2] = key, count
    else
      none[#none + 1] = key
    end
  end
  if #some > 0 then redis.call('HSET', q.key.running, unpack(some)) end
  if #none > 0 then redis.call('HDEL', q.key.running, unpack(none)) end
end

-- The turns of lanes, as they are stored or new; false for one that goes, since none of its jobs waits or runs.
local function turns_of(q, keys, waits, counts)
  local turns, new = redis.call('HMGET', q.key.lanes, unpack(keys)), {}
  for index, text in ipairs(turns) do
    local stays = waits[index] or counts[index] > 0
    turns[index] = stays and text and H.lane(text).turn or false
    if stays and not turns[index] then new[#new + 1] = index end
  end
  if #new > 0 then
    local first = H.next_turns(q, #new)
    for number, index in ipairs(new) do turns[index] = first + number - 1 end
  end
  return turns
end

local function write(q, lanes, ready, away, gone)
  if #lanes > 0 then
    redis.call('HSET', q.key.lanes, unpack(lanes))
    q.has.lanes = true
  end
  if #gone > 0 then redis.call('HDEL', q.key.lanes, unpack(gone)) end
  if #ready > 0 then redis.call('ZADD', q.key.ready, unpack(ready)) end
  if #away > 0 then redis.call('ZREM', q.key.ready, unpack(away)) end
end

-- Which of the lanes have jobs that wait. One that is ready has, unless `each` is to be looked at.
local function waiting_in(q, keys, each)
  local waits = each and {} or redis.call('ZMSCORE', q.key.ready, unpack(keys))
  for index, key in ipairs(keys) do
    waits[index] = waits[index] and true or redis.call('EXISTS', H.lane_of(q, key)) == 1
  end
  return waits
end

-- The lanes are as their jobs and their limits say. `turns` are those that they have just had.
function H.recheck_together(q, keys, counts, turns, anew)
  local limited = is_limited(q)
  local waits = waiting_in(q, keys, turns or anew)
  local limits = H.any(q, 'limits') and redis.call('HMGET', q.key.limits, unpack(keys)) or NOTHING
  turns = turns or turns_of(q, keys, waits, counts)
  local lanes, ready, away, gone = {}, {}, {}, {}
  for index, key in ipairs(keys) do
    local turn, limit = turns[index], limited and H.limit_of(q, key, limits[index])
    if turn then
      lanes[#lanes + 1], lanes[#lanes + 2] = key, cmsgpack.pack({ turn = turn })
    else
      gone[#gone + 1] = key
    end
    if waits[index] and (not limit or counts[index] < limit) then
      ready[#ready + 1], ready[#ready + 2] = turn, key
    else
      away[#away + 1] = key
    end
  end
  write(q, lanes, ready, away, gone)
end
