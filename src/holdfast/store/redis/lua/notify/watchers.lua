-- Watchers: by id, one after the other, each as the run that it waits for and its address. Mostly there is one.

-- How the text of a watcher ends, behind its run. Few addresses come over and over.
local endings, addresses, address_count = {}, {}, 0

local function ending_of(address)
  local ending = endings[address]
  if not ending then
    if address_count >= 200 then endings, addresses, address_count = {}, {}, 0 end
    ending = struct.pack('>I2', #address) .. address
    endings[address], addresses[ending], address_count = ending, address, address_count + 1
  end
  return ending
end

local function as_text(run, address)
  return H.rid(run) .. ending_of(address)
end

-- What of it cannot be read is no watcher: its caller polls.
local function each_watcher(text, visit)
  local at = 1
  while at + 7 <= #text do
    local run, size, after = struct.unpack('>I6I2', text, at)
    at = after + size
    local address = string.sub(text, after, at - 1)
    if string.find(address, '#%d+$') then visit(run, address) end
  end
end

local function with_watcher(text, rid, address)
  if not text then return rid .. ending_of(address) end
  local run, known = H.run_of(rid), false
  each_watcher(text, function(other, its) known = known or (other == run and its == address) end)
  return known and text or text .. as_text(run, address)
end

function H.watch(q, id, run, address)
  local rid = H.rid(run)
  q.has.watchers = true
  if redis.call('HSETNX', q.key.watchers, id, with_watcher(nil, rid, address)) == 0 then -- mostly it is the first
    redis.call('HSET', q.key.watchers, id, with_watcher(redis.call('HGET', q.key.watchers, id), rid, address))
  end
end

-- Runs and their addresses, by index, under the ids; no id twice.
function H.watch_all(q, ids, rids, watching)
  for first = 1, #ids, AT_ONCE do
    local last, pairs_of = math.min(first + AT_ONCE - 1, #ids), {}
    local texts = H.any(q, 'watchers') and redis.call('HMGET', q.key.watchers, unpack(ids, first, last)) or NOTHING
    for index = first, last do
      local at = 2 * (index - first) + 1
      pairs_of[at], pairs_of[at + 1] = ids[index], with_watcher(texts[index - first + 1], rids[index], watching[index])
    end
    redis.call('HSET', q.key.watchers, unpack(pairs_of))
    q.has.watchers = true
  end
end

local MOST_BYTES_SENT = 8192 -- of a result that goes along with the word that it is there

-- What a watcher hears of one run; `finished_in` in listen.py reads it. A result goes along where it is known and small.
local function news(id, rid, state, result)
  local sent = result and #result <= MOST_BYTES_SENT
  return LETTER[state] .. rid .. struct.pack('>I2I4', #id, sent and #result + 1 or 0) .. id .. (sent and result or '')
end

local function address_news(addressed, address, text)
  local texts = addressed[address]
  if not texts then
    texts = {}
    addressed[address] = texts
  end
  texts[#texts + 1] = text
end

local function send_news(q, addressed)
  for address, texts in pairs(addressed) do
    H.ring(address, '=' .. struct.pack('>I2', #q.name) .. q.name .. table.concat(texts))
  end
end

-- Those of the watchers that wait for one of these runs, and the text of the others.
local function parted(text, first, last, address)
  local kept, gone = '', {}
  each_watcher(text, function(run, its)
    if run >= first and run <= last and (not address or its == address) then
      gone[#gone + 1] = { run, its }
    else
      kept = kept .. as_text(run, its)
    end
  end)
  return gone, kept
end

-- The address of the only watcher, when it waits for this run; nil where it is not known.
local function sole(text, rid)
  return string.sub(text, 1, 6) == rid and addresses[string.sub(text, 7)] or nil
end

local function keep(q, id, kept)
  if kept == '' then redis.call('HDEL', q.key.watchers, id) else redis.call('HSET', q.key.watchers, id, kept) end
end

function H.unwatch(q, id, first, last, address)
  if not H.any(q, 'watchers') then return {} end
  local text = redis.call('HGET', q.key.watchers, id)
  if not text then return {} end
  local gone, kept = parted(text, first, last, address)
  keep(q, id, kept)
  return gone
end

-- Notify those who wait for this run, or for one that it absorbed, that it is over.
function H.notify_watchers(q, job, state)
  local found = H.unwatch(q, job.id, job.run, math.max(job.run, job.more.absorbed_to or job.run))
  if #found > 0 and job.more.expires_at and job.more.expires_at < q.now + KEPT_FOR_WATCHERS_MS then
    job.more.expires_at = q.now + KEPT_FOR_WATCHERS_MS -- who waited must find the result
    redis.call('ZADD', q.key[job.state], job.more.expires_at, job.rid)
    H.store(q, job)
  end
  local addressed = {}
  for _, each in ipairs(found) do address_news(addressed, each[2], news(job.id, H.rid(each[1]), state)) end
  send_news(q, addressed)
end

-- The same for many runs at once, with one message for each listener. An entry is an id, a run as keys have it, the id's
-- watchers and the result.
function H.notify_all(q, entries, state)
  local addressed, over, gone = {}, {}, 0
  for index = 1, #entries do
    local entry = entries[index]
    local id, rid = entry[1], entry[2]
    local address = sole(entry[3], rid)
    if address then
      address_news(addressed, address, news(id, rid, state, entry[4]))
      gone = gone + 1
      over[gone] = id
    else
      local run = H.run_of(rid)
      local found, kept = parted(entry[3], run, run)
      for _, each in ipairs(found) do address_news(addressed, each[2], news(id, rid, state, entry[4])) end
      keep(q, id, kept)
    end
  end
  if gone > 0 then redis.call('HDEL', q.key.watchers, unpack(over)) end
  send_news(q, addressed)
end

function H.notify_progress(q, job)
  if not H.any(q, 'watchers') then return end
  each_watcher(redis.call('HGET', q.key.watchers, job.id) or '', function(run, address)
    if run >= job.run then send_news(q, { [address] = { news(job.id, H.rid(run), 'active') } }) end
  end)
end
