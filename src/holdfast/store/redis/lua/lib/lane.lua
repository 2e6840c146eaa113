-- Lanes: keys take turns, and a key is ready exactly when it has a job, room and a token.

-- How many jobs of a key may run at once, and whether that is its own limit.
local function limit_of(q, key, own)
  local limit = H.number(own)
  if not limit or limit < 0 then
    local declared = H.setting(q, 'key_limits')
    limit = declared and tonumber(declared[key])
    if not limit then return H.setting(q, 'key_concurrency'), false end
  end
  return limit, true
end

function H.key_limit(q, key)
  return limit_of(q, key, H.any(q, 'limits') and redis.call('HGET', q.key.limits, key))
end

local function has_room(q, key)
  local limit = H.key_limit(q, key)
  return not limit or H.number(redis.call('HGET', q.key.running, key), 0) < limit
end

-- The first of so many turns that nobody had.
local function next_turns(q, count)
  local turn = redis.pcall('HINCRBY', q.key.queue, 'turn', count)
  if type(turn) == 'number' then return turn - count + 1 end
  redis.call('HSET', q.key.queue, 'turn', count) -- what stood there was no number
  return 1
end

local PLACES = { 'ready', 'timed', 'cooling' }

local function drop(q, key)
  redis.call('HDEL', q.key.lanes, key)
  for _, name in ipairs(PLACES) do
    if name == 'ready' or H.any(q, name) then redis.call('ZREM', q.key[name], key) end
  end
end

-- `where`: ready (by turn), timed (by the instant of the next token), cooling (until the bucket is full) or nil. The last two
-- are there only where keys have rates.
local function put(q, key, lane, where, score)
  redis.call('HSET', q.key.lanes, key, cmsgpack.pack(lane))
  q.has.lanes = true
  for _, name in ipairs(PLACES) do
    if where == name then
      redis.call('ZADD', q.key[name], score, key)
      q.has[name] = true
    elseif name == 'ready' or H.any(q, name) then
      redis.call('ZREM', q.key[name], key)
    end
  end
end

-- What is stored of a lane; one that cannot be read is made anew.
local function whole(text)
  local lane = H.unpacked(text) or {}
  for _, name in ipairs({ 'turn', 'tokens', 'at' }) do
    if lane[name] and type(lane[name]) ~= 'number' then return {} end
  end
  return lane.tokens and lane.at and lane or { turn = lane.turn }
end

H.lane, H.limit_of, H.next_turns = whole, limit_of, next_turns

-- When a job of the key may start by its limits, if nothing else happens; nil: when another ends.
function H.key_starts_at(q, key)
  if not has_room(q, key) then return nil end
  local rate = H.setting(q, 'key_rate')
  if not rate then return q.now end
  local lane = whole(redis.call('HGET', q.key.lanes, key))
  return H.token_at(rate, H.refilled(rate, lane.tokens, lane.at, q.now), q.now)
end

-- The lane is as its jobs, its limits and its bucket say. `served` is the turn it has just had.
function H.recheck(q, key, served)
  if not key then return end
  local text = redis.call('HGET', q.key.lanes, key)
  local lane = whole(text)
  local rate = H.setting(q, 'key_rate')
  if rate then
    lane.tokens = H.refilled(rate, lane.tokens, lane.at, q.now) - (served and 1 or 0)
    lane.at = q.now
  else
    lane.tokens, lane.at = nil, nil
  end
  local waits = redis.call('EXISTS', H.lane_of(q, key)) == 1
  if not waits and redis.call('HEXISTS', q.key.running, key) == 0 then
    if not rate or lane.tokens >= H.capacity(rate) then return drop(q, key) end
    local full_at = q.now + math.floor((H.capacity(rate) - lane.tokens) / H.per_ms(rate) + 0.5) + 1
    lane.turn = lane.turn or 0
    return put(q, key, lane, 'cooling', full_at)
  end
  lane.turn = served or lane.turn or next_turns(q, 1)
  if not (waits and has_room(q, key)) then return put(q, key, lane) end
  if rate and lane.tokens < 1 then return put(q, key, lane, 'timed', H.token_at(rate, lane.tokens, q.now)) end
  put(q, key, lane, 'ready', lane.turn)
end

-- A token that a claim took and did not use is there again.
function H.refund(q, key)
  local text = key and redis.call('HGET', q.key.lanes, key)
  if not text then return end
  local lane = whole(text)
  if lane.tokens then
    lane.tokens = lane.tokens + 1
    redis.call('HSET', q.key.lanes, key, cmsgpack.pack(lane))
  end
end

-- Lanes whose token has come are ready, and those whose bucket is full again gone, at most `limit` of each. True when
-- there may be more.
function H.recheck_due(q, limit)
  local more = false
  for _, name in ipairs({ 'timed', 'cooling' }) do
    local due = redis.call('ZRANGEBYSCORE', q.key[name], '-inf', q.now, 'LIMIT', 0, limit)
    for _, key in ipairs(due) do H.recheck(q, key) end
    more = more or #due >= limit
  end
  return more
end

-- The same for many keys. `anew`: which of them are ready is not to be relied on.
function H.recheck_each(q, keys, anew)
  for first = 1, #keys, AT_ONCE do
    local some = { unpack(keys, first, math.min(first + AT_ONCE - 1, #keys)) }
    local counts = H.counts_of(q, some)
    if counts then
      H.recheck_together(q, some, counts, nil, anew)
    else
      for _, key in ipairs(some) do H.recheck(q, key) end
    end
  end
end

function H.recheck_all(q)
  H.recheck_each(q, redis.call('HKEYS', q.key.lanes), true)
end

-- Keys, each once, with how many more of their jobs are active (fewer, if that is below 0), and the turns that they have had.
function H.tally()
  return { index = {}, keys = {}, by = {}, turns = {} }
end

function H.count(tally, key, by, turn)
  local index = tally.index[key]
  if not index then
    index = #tally.keys + 1
    tally.index[key], tally.keys[index], tally.by[index] = index, key, 0
  end
  tally.by[index], tally.turns[index] = tally.by[index] + by, turn
end

function H.count_and_recheck(q, tally)
  local keys, by, turns = tally.keys, tally.by, tally.turns
  local counts = H.counts_of(q, keys)
  if counts then
    H.count_together(q, keys, counts, by)
    return H.recheck_together(q, keys, counts, turns[1] and turns)
  end
  for index, key in ipairs(keys) do
    H.count_running(q, key, by[index])
    H.recheck(q, key, turns[index])
  end
end
