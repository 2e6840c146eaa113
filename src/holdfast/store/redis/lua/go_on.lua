-- complete: the chain goes on with another job, here or in another queue.

-- The next job of a chain is here. One whose id somebody else has gets an id of its own.
function H.follow(q, wanted, chain, position)
  local holder = H.holding(q, wanted.id)
  while holder do
    wanted.id = string.sub(wanted.id .. '/' .. holder.run, -1024)
    holder = H.holding(q, wanted.id)
  end
  local job = H.new_job(q, H.next_runs(q, 1), wanted)
  job.more.chain = H.chain_text(chain, position)
  local failed
  if wanted.spec.blockers then failed = H.wait_for(q, job, wanted.spec.blockers, wanted.spec.policy) end
  H.note_member(q, job)
  H.insert(q, job, 'enqueue')
  H.recheck(q, job.more.key)
  if job.state ~= 'blocked' then H.wake_for(q, job.run_at) end
  return job, failed
end

-- complete: the chain goes on with another job.
function H.go_on(q, job, entry)
  local more, next_job = job.more, entry.next
  local chain, position = { q.name, H.long(job.id), job.run }, 0
  if more.chain then chain, position = H.chain_parts(more.chain) end
  position = position + 1
  H.let_go(q, job.rid)
  local event = H.ending(q, job)
  job.state, job.result, more.exit, more.error = 'completed', nil, 'complete', nil
  if more.chain then
    H.end_times(q, job, entry.ttl)
  else
    more.finished_at, more.chain_state = q.now, 'open'
    redis.call('ZADD', q.key.chains, job.run, job.rid)
  end
  redis.call('ZADD', q.key.completed, more.expires_at or '+inf', job.rid)
  H.append(q, 'complete', job, event)
  local wanted = {
    id = H.short(next_job.id), long = next_job.id, task = H.given(next_job.task), payload = entry.body,
    spec = next_job.spec,
  }
  local id, failed = next_job.id, nil
  if next_job.queue == q.name then
    local following
    following, failed = H.follow(q, wanted, chain, position)
    id = H.long(following.id)
  else
    H.send(q, next_job.queue, 'follow', { wanted = wanted, chain = chain, position = position })
  end
  if chain[1] == q.name then
    H.move(q, chain, next_job.queue, id, position)
  elseif chain[1] ~= next_job.queue then
    H.send(q, chain[1], 'moved', { chain = chain, queue = next_job.queue, id = id, position = position })
  end
  H.store(q, job)
  if more.chain then H.tell_watchers(q, job, 'completed') end -- who waits for the first job waits for the chain
  if failed then H.give_up(q, failed) end
end

-- Later jobs that go on with a plain job, where that queue and their chain's home are at hand, are completed together.

-- The next job that an entry asks for, when it is a plain one: `>`, its id and its task, here; or `@`, queue, id and task.
function H.next_of(q, more)
  local mark, queue, id, task = string.byte(more, 1), q.name, nil, nil
  if mark == 62 then
    id, task = string.match(more, '^>(.*)%z(.*)$')
  elseif mark == 64 then
    queue, id, task = string.match(more, '^@(%Z+)%z(.*)%z(%Z*)$')
  end
  if id then return { queue = queue, long = id, task = task } end
end

-- Entries by the queue that they go on in.
local function going_on(q, entries)
  local groups, by_name = {}, {}
  for index, entry in ipairs(entries) do
    local wanted = H.next_of(q, entry.more)
    local target = wanted and #wanted.task < 256 and q.near[wanted.queue]
    if target then
      local group = by_name[target.name]
      if not group then
        group = { target = target, wanted = {}, rids = {}, ids = {} }
        by_name[target.name], groups[#groups + 1] = group, group
      end
      local number = #group.rids + 1
      wanted.index, wanted.id = index, H.short(wanted.long)
      group.wanted[number], group.rids[number], group.ids[number] = wanted, string.sub(entry.token, 1, 6), wanted.id
    end
  end
  return groups
end

-- What is written at the home of chains: how far they are, and through which other queues they went. Elsewhere a job may
-- outlive its deleted chain until it hears of that.
local function note_home(homes, q, home, chain, position, target, id)
  local first = H.rid(tonumber(string.match(chain, '%z(%d+)$')))
  if home ~= q and redis.call('HEXISTS', home.key.jobs, first) == 0 then return end
  local page = homes[home.name]
  if not page then
    page = { home = home, tails = {}, places = {} }
    homes[home.name] = page
  end
  local tails, places = page.tails, page.places
  tails[#tails + 1], tails[#tails + 2] = first, H.tail_text(position, target.name, id)
  if home ~= target then places[#places + 1], places[#places + 2] = 0, chain .. '\1' .. target.name end
end

local function write_homes(homes)
  for _, page in pairs(homes) do
    redis.call('HSET', page.home.key.tails, unpack(page.tails))
    if #page.places > 0 then redis.call('ZADD', page.home.key.members, unpack(page.places)) end
  end
end

local function write_new(target, new, held, waiting, members)
  redis.call('HSET', target.key.jobs, unpack(new))
  redis.call('HSET', target.key.ids, unpack(held))
  redis.call('ZADD', target.key.waiting, unpack(waiting))
  target.has.waiting = true
  redis.call('ZADD', target.key.members, unpack(members))
  H.wake(target, #new / 2)
end

-- Those of a group that are completed now, each with its record, when that goes, its chain and where that began.
local function leaving(q, session, entries, group)
  local raws = redis.call('HMGET', q.key.jobs, unpack(group.rids))
  local taken = redis.call('HMGET', group.target.key.ids, unpack(group.ids))
  local found, done, promised = {}, {}, {}
  for number, wanted in ipairs(group.wanted) do
    local entry, rid, raw = entries[wanted.index], group.rids[number], raws[number]
    local free = raw and not taken[number] and not done[rid] and not promised[wanted.id]
    local home = free and q.near[H.home_of(raw) or 0]
    local record, expires_at, chain
    if home then record, expires_at, chain = H.go_on_plain(q, session, entry.token, raw) end
    if record then
      done[rid], promised[wanted.id] = true, true
      found[#found + 1] = {
        wanted = wanted, payload = entry.body, rid = rid, record = record, expires_at = expires_at, chain = chain, home = home,
      }
    end
  end
  return found
end

local function go_on_in(q, session, entries, words, group)
  local target = group.target
  if H.keeps_payloads(target) or (target ~= q and H.any(target, 'lanes')) then return end
  H.start_log(q)
  H.start_log(target)
  local found, homes, at = leaving(q, session, entries, group), {}, 0
  if #found == 0 then return end
  local run = H.next_runs(target, #found)
  local records, ends, gone, new, held, waiting, members = {}, {}, {}, {}, {}, {}, {}
  for number, each in ipairs(found) do
    local wanted, rid, next_rid = each.wanted, each.rid, H.rid(run + number - 1)
    local position, text = struct.unpack('>I4', each.chain) + 1, string.sub(each.chain, 5)
    local following, place =
      H.follow_plain(target, next_rid, wanted.id, wanted.task, each.payload, struct.pack('>I4', position) .. text)
    records[at + 1], records[at + 2], ends[at + 1], ends[at + 2] = rid, each.record, each.expires_at, rid
    new[at + 1], new[at + 2], held[at + 1], held[at + 2] = next_rid, following, wanted.id, next_rid
    waiting[at + 1], waiting[at + 2], members[at + 1], members[at + 2] = 0, place, 0, text .. '\0' .. next_rid
    note_home(homes, q, each.home, text, position, target, wanted.long)
    at, gone[number], words[wanted.index] = at + 2, rid, 'ok completed'
  end
  redis.call('HSET', q.key.jobs, unpack(records))
  redis.call('ZADD', q.key.completed, unpack(ends))
  redis.call('HDEL', q.key.active, unpack(gone))
  write_new(target, new, held, waiting, members)
  write_homes(homes)
end

-- The words have gaps where an entry needs a closer look.
function H.go_on_all(q, session, entries, words)
  local groups = going_on(q, entries)
  if #groups == 0 or H.keeps_payloads(q) or H.any(q, 'watchers') then return end
  for _, group in ipairs(groups) do go_on_in(q, session, entries, words, group) end
end

-- A sender whose slot went back in time does its step again: the job that follows is there already, and says again how
-- it ended the chain, if it did.
local function follows_already(q, body)
  local holder = H.holding(q, body.wanted.id)
  if not holder or holder.more.chain ~= H.chain_text(body.chain, body.position) then return false end
  if FINISHED[holder.state] and (holder.state ~= 'completed' or holder.result) then H.end_chain(q, holder, holder.state) end
  return true
end

function H.receive.follow(q, body)
  if follows_already(q, body) then return end
  local job, failed = H.follow(q, body.wanted, body.chain, body.position)
  if body.chain[1] == q.name then
    H.move(q, body.chain, q.name, H.long(job.id), body.position)
  elseif H.long(job.id) ~= body.wanted.long then -- its id was taken: home must know the one that it has
    H.send(q, body.chain[1], 'renamed', {
      chain = body.chain, queue = q.name, id = H.long(job.id), position = body.position,
    })
  end
  if failed then H.give_up(q, failed) end
end
