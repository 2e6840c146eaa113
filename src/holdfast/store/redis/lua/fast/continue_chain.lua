-- The fast path of `continue_chain` in chain/continue_chain.lua, for later jobs of chains that continue with a plain job,
-- where that queue and their chain's home are at hand: they are completed together.

local bytes = H.bytes

-- A later job of a chain that the session holds is completed, and its chain continues: its new record, when that goes,
-- and its chain. Nil when it is not plain, or not held under this token.
function H.continue_plain(q, session, token, raw)
  local flags = bytes.active(raw, true)
  if not flags then return nil end
  local made = bytes.session(session)
  local at, after = bytes.append_completed(q, made, token, raw, flags)
  if not at then return nil end
  local chain = bytes.chain(raw, flags, at)
  local ends, expires_at = bytes.ends_now(q, made, false, H.goes_with_chain(chain))
  return bytes.completed(raw, flags, at, after, ends), expires_at, chain
end

-- Entries without a word by the queue in which they continue.
local function by_target(q, entries, words)
  local groups, by_name = {}, {}
  for index = 1, #entries do
    local entry = entries[index]
    local wanted = not words[index] and H.next_of(q, entry.more)
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
    page = { home = home, tails = {}, queues = {} }
    homes[home.name] = page
  end
  local tails, queues = page.tails, page.queues
  tails[#tails + 1], tails[#tails + 2] = first, H.tail_text(position, target.name, id)
  if home ~= target then queues[#queues + 1], queues[#queues + 2] = 0, chain .. '\1' .. target.name end
end

local function write_homes(homes)
  for _, page in pairs(homes) do
    redis.call('HSET', page.home.key.tails, unpack(page.tails))
    if #page.queues > 0 then redis.call('ZADD', page.home.key.members, unpack(page.queues)) end
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
    local home = free and q.near[bytes.home(raw) or 0]
    local record, expires_at, chain
    if home then record, expires_at, chain = H.continue_plain(q, session, entry.token, raw) end
    if record then
      done[rid], promised[wanted.id] = true, true
      found[#found + 1] = {
        wanted = wanted, payload = entry.body, rid = rid, record = record, expires_at = expires_at, chain = chain, home = home,
      }
    end
  end
  return found
end

local function continue_in(q, session, entries, words, group)
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
    local spec = wanted.envelope and H.enveloped_spec(wanted.envelope) or NOTHING
    local following, member =
      H.enqueue_plain(target, next_rid, wanted.id, wanted.task, each.payload, spec, struct.pack('>I4', position) .. text)
    records[at + 1], records[at + 2], ends[at + 1], ends[at + 2] = rid, each.record, each.expires_at, rid
    new[at + 1], new[at + 2], held[at + 1], held[at + 2] = next_rid, following, wanted.id, next_rid
    waiting[at + 1], waiting[at + 2], members[at + 1], members[at + 2] = 0, member, 0, text .. '\0' .. next_rid
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
function H.continue_all_plain(q, session, entries, words)
  local groups = by_target(q, entries, words)
  if #groups == 0 or H.keeps_payloads(q) or H.any(q, 'watchers') then return end
  for _, group in ipairs(groups) do continue_in(q, session, entries, words, group) end
end
