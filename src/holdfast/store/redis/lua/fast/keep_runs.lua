-- The fast path of `keep` in serve/result_ttl.lua, for plain jobs that only wait.

local bytes = H.bytes

-- Whether that is how long its result is kept, and nothing else. Few texts say so, over and over.
local only_ttl, only_ttl_count = {}, 0

local function is_only_ttl(text)
  if text == '' then return true end
  local known = only_ttl[text]
  if known == nil then
    local rest = cmsgpack.unpack(string.sub(text, 5))
    known = rest.ttl ~= nil and next(rest, next(rest)) == nil
    if only_ttl_count >= 100 then only_ttl, only_ttl_count = {}, 0 end
    only_ttl[text], only_ttl_count = known, only_ttl_count + 1
  end
  return known
end

-- The record of a job that has only waited so far, with another rest; nil when there is more to it.
function H.keep_plain(raw, rest)
  local text, at = bytes.rest(raw)
  if not text or not is_only_ttl(text) then return nil end
  return bytes.with_rest(raw, at, rest)
end
