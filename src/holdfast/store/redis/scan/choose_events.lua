-- choose_events: entries of a log that may be wanted, and how many were looked at. A read-only script, no part of the library.
-- keys:  the log of a queue
-- args:  the first and the last entry; whether payloads are wanted ('1' or ''); what is wanted, as JSON (`pruning.py`)
-- reply: how many entries there are, those that may be wanted as XRANGE has them
-- The reader looks at every condition again. What this script cannot take apart, it lets through.

local wanted = cjson.decode(ARGV[4])
local EVENT = '>Bc0c1I6I4I7' -- transition, state, run, attempt, when
local SHORT, SHORT_MARK = '>I6I7', 128 -- run, when; of an `enqueue` of a job that waits

local function head_of(raw)
  if string.byte(raw) ~= SHORT_MARK then return struct.unpack(EVENT, raw) end
  local run, at = struct.unpack(SHORT, raw, 2)
  return 'enqueue', 'w', run, 0, at
end

local function within(bounds, value)
  return not bounds or (value >= bounds[1] and value <= bounds[2])
end

local function may_be_wanted(id, raw)
  if wanted.prefix and (string.byte(id, 1) or 2) > 1 and string.sub(id, 1, #wanted.prefix) ~= wanted.prefix then return false end
  local transition, state, run, attempt, at = head_of(raw)
  return within(wanted.at_ms, at) and within(wanted.run, run) and within(wanted.attempt, attempt)
    and (not wanted.transition or wanted.transition[transition]) and (not wanted.state or wanted.state[state])
end

local found, chosen = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2]), {}
for _, entry in ipairs(found) do
  local fields = entry[2]
  local readable, may_be = pcall(may_be_wanted, fields[2], fields[4])
  if may_be or not readable then
    if ARGV[3] == '' and #fields > 4 then entry = { entry[1], { fields[1], fields[2], fields[3], fields[4] } } end
    chosen[#chosen + 1] = entry
  end
end
return { #found, chosen }
