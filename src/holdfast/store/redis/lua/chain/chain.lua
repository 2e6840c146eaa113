-- Chains: a job continues with the next, and the first job's record says how all of them ended. A chain's home is the
-- queue of its first job; what happens elsewhere comes there by a message.

-- Where the chain stands that a job began: `active` while another job of it is on; else its own state.
function H.outcome(job)
  local state = job.more.chain_state
  if not state then return job.state end
  return state == 'open' and 'active' or state
end

-- A later job's record has its position and its chain as one text: queue, id and run of the first job.

function H.text_of(chain)
  return chain[1] .. '\0' .. chain[2] .. '\0' .. string.format('%d', chain[3])
end

function H.chain_text(chain, position)
  return struct.pack('>I4', position) .. H.text_of(chain)
end

function H.chain_parts(text)
  local queue, id, run = string.match(text, '^(%Z+)%z(.*)%z(%d+)$', 5)
  return { queue, id, tonumber(run) }, (struct.unpack('>I4', text))
end

-- Jobs that go with their chain, and not before; from a thousand on they go by their own time, for a chain may be endless.
function H.goes_with_chain(text)
  return text and (struct.unpack('>I4', text)) < WITH_CHAIN
end

-- How far a chain is: position, queue and id of its latest job, by the run of its first.

function H.tail_of(q, rid)
  local text = redis.call('HGET', q.key.tails, rid)
  if not text then return 0 end
  return (struct.unpack('>I4', text))
end

function H.tail_text(position, queue, id)
  return struct.pack('>I4', position) .. queue .. '\0' .. id
end

-- Jobs of a chain that are here, the first aside, by the chain.

local function member_of(chain)
  return H.text_of(chain) .. '\0'
end

function H.members(q, chain)
  local prefix = member_of(chain)
  local found = redis.call('ZRANGEBYLEX', q.key.members, '[' .. prefix, '(' .. string.sub(prefix, 1, -2) .. '\1')
  for index, member in ipairs(found) do found[index] = string.sub(member, -6) end
  return found
end

function H.note_member(q, job)
  redis.call('ZADD', q.key.members, 0, string.sub(job.more.chain, 5) .. '\0' .. job.rid)
end

function H.forget_member(q, job)
  if job.more.chain then redis.call('ZREM', q.key.members, string.sub(job.more.chain, 5) .. '\0' .. job.rid) end
  if job.more.chain_state then
    redis.call('ZREM', q.key.chains, job.rid)
    redis.call('HDEL', q.key.tails, job.rid)
  end
end

-- It is known, at home, how far a chain is, and through which other queues it went. What comes late, because it came
-- another way, changes nothing.
function H.move(q, chain, queue, id, position)
  local rid = H.rid(chain[3])
  if H.tail_of(q, rid) >= position or redis.call('HEXISTS', q.key.jobs, rid) == 0 then return end
  redis.call('HSET', q.key.tails, rid, H.tail_text(position, queue, id))
  if queue ~= q.name then redis.call('ZADD', q.key.members, 0, H.text_of(chain) .. '\1' .. queue) end
end

-- The other queues through which a chain went; they are not known any more.
function H.take_other_queues(q, chain)
  local prefix = H.text_of(chain) .. '\1'
  local found = redis.call('ZRANGEBYLEX', q.key.members, '[' .. prefix, '(' .. H.text_of(chain) .. '\2')
  if #found > 0 then redis.call('ZREM', q.key.members, unpack(found)) end
  for index, member in ipairs(found) do found[index] = string.sub(member, #prefix + 1) end
  return found
end

-- The job that is meant by the first one of a chain: its current one, while the chain is open and that is here.
function H.current(q, job)
  if job.more.chain_state ~= 'open' then return job end
  local text = redis.call('HGET', q.key.tails, job.rid)
  local queue, id = string.match(text or '', '^(%Z+)%z(.*)$', 5)
  return queue == q.name and H.answering(q, H.short(id)) or job
end

function H.first_of(q, chain)
  local job = H.load(q, H.rid(chain[3]))
  if job and H.long(job.id) == chain[2] then return job end
end

-- Messages of other queues.

function H.receive.moved(q, body)
  H.move(q, body.chain, body.queue, body.id, body.position)
end

function H.receive.renamed(q, body)
  local first = H.first_of(q, body.chain)
  if not first or H.tail_of(q, first.rid) ~= body.position then return end
  redis.call('HSET', q.key.tails, first.rid, H.tail_text(body.position, body.queue, body.id))
end
