-- Policy: what was declared of a task, under what the job's caller set.

local DEFAULT_RETRY = {
  failures = MOST_FAILURES, stalls = MOST_STALLS, timeouts = MOST_TIMEOUTS, releases = MOST_RELEASES,
  initial = FIRST_BACKOFF, multiplier = BACKOFF_FACTOR, maximum = LONGEST_BACKOFF, jitter = 0,
}

local function declared_for(q, name)
  q.policies = q.policies or {}
  local declared = q.policies[name]
  if declared == nil then
    local text = redis.call('HGET', q.key.policies, name)
    declared = text and H.readable(text) or NOTHING
    if declared.retry and type(H.given(declared.retry) or NOTHING) ~= 'table' then declared = NOTHING end
    q.policies[name] = declared
  end
  return declared
end

-- The time-out of a task whose job overrides nothing.
function H.task_timeout(q, name)
  return H.given(declared_for(q, name).timeout_ms)
end

function H.policy(q, job)
  local declared = declared_for(q, job.task or '')
  if not job.more.overrides then return declared, H.given(declared.retry) or DEFAULT_RETRY, H.given(declared.timeout_ms) end
  local fine, own = pcall(H.json, job.more.overrides)
  if not fine then own = {} end -- an unreadable override must not keep the job from being put back
  local retry = H.given(own.retry) or H.given(declared.retry) or DEFAULT_RETRY
  return declared, retry, H.given(own.timeout_ms) or H.given(declared.timeout_ms)
end

function H.is_final(retry, cause, counted)
  local limit = H.given(retry[LIMIT[cause]])
  return limit ~= nil and counted >= limit
end

-- How many of its attempts count: neither those that were handed back free of charge, nor those before a reset.
function H.tried(more)
  return (more.attempts or 0) - (more.spared or 0)
end

-- The cause whose limit a waiting run has already reached, after the limit was lowered.
function H.spent(retry, more)
  for _, cause in ipairs(CAUSES) do
    local tried_again = cause == 'stall' and more.company -- whatever its stalls: it may have suffered them in company
    if not tried_again and H.is_final(retry, cause, more[LIMIT[cause]] or 0) then return cause end
  end
  if H.is_final(retry, 'attempts', H.tried(more)) then return 'attempts' end
end

function H.backoff(q, retry, nth)
  local seconds = math.min(retry.initial * retry.multiplier ^ math.min(nth - 1, MOST_DOUBLED), retry.maximum)
  local jitter = retry.jitter or 0
  if jitter > 0 then
    if not q.seeded then math.randomseed(q.seed or 0) end
    q.seeded = true
    seconds = seconds * (1 + jitter * (2 * math.random() - 1))
  end
  return math.floor(seconds * 1000 + 0.5)
end

-- Buckets of tokens.

function H.capacity(rate)
  return H.given(rate.burst) or math.max(1, rate.count)
end

function H.per_ms(rate)
  return rate.count / ((H.given(rate.per) or 1) * 1000)
end

function H.refilled(rate, tokens, at, now)
  if not tokens or not at then return H.capacity(rate) end
  return math.min(H.capacity(rate), tokens + math.max(0, now - at) * H.per_ms(rate))
end

function H.token_at(rate, tokens, now)
  if tokens >= 1 then return now end
  return now + math.ceil((1 - tokens) / H.per_ms(rate))
end
