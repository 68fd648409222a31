-- Builds what scripts see out of Lua's own functions and those of Rust (`native`).
--
-- A table that outlives a script is shown to it as a proxy: an empty table whose metatable reads
-- the real one and refuses writes. Lua's functions that look past metatables are replaced by ones
-- that know proxies. None of the originals may get into a script's hands where that matters.
--
-- A function of Rust raises its errors as userdata, which no script may see: everything that
-- catches errors makes plain values of them (`native.plain`).

local native, limits = ...

local assert, collectgarbage, error, gcinfo = assert, collectgarbage, error, gcinfo
local getmetatable, ipairs, loadstring, next = getmetatable, ipairs, loadstring, next
local pairs, pcall, rawequal, rawget, rawset = pairs, pcall, rawequal, rawget, rawset
local select, setmetatable, tonumber, tostring = select, setmetatable, tonumber, tostring
local type, unpack, xpcall = type, unpack, xpcall
local find, match, gmatch, gsub = string.find, string.match, string.gmatch, string.gsub
local rep, sub = string.rep, string.sub
local concat, insert = table.concat, table.insert
local create, resume = coroutine.create, coroutine.resume

local READONLY = "Attempt to modify a readonly table"

-- Proxy to what it stands for. Proxies are never dropped, so the table holds them.
local real_of = {}

local function renamed(name, ok, ...)
  if ok then
    return ...
  end
  local message = ...
  if type(message) == "string" then
    -- In a function: gsub gives a count too, which is no level.
    message = gsub(message, "'%?'", "'" .. name .. "'")
  end
  error(message, 4)
end

-- Calls one of Lua's functions with arguments that do not look right, so that its message names it
-- and the script's line.
local function careful(name, original, ...)
  return renamed(name, pcall(original, ...))
end

-- Lua's own functions that are called from here put this chunk's name and line into their messages.
local OWN_PLACE = "^%[lua%]:%d+: "

local function plain(err, place)
  if type(err) == "userdata" then
    return native.plain(err)
  end
  if type(err) == "string" and sub(err, 1, 6) == "[lua]:" then
    local _, last = find(err, OWN_PLACE)
    return last and (place or "") .. sub(err, last + 1) or err
  end
  return err
end

local function refuse_write()
  error(READONLY, 2)
end

local function proxy(real, index, metatable_shown)
  local made = setmetatable({}, {
    __index = index or real,
    __newindex = refuse_write,
    shown = metatable_shown,
  })
  real_of[made] = real
  return made
end

-- Lua's own functions, with proxies, limits and without memory of earlier scripts.

local base = {
  _VERSION = _VERSION,
  assert = assert,
  error = error,
  gcinfo = gcinfo,
  ipairs = ipairs,
  rawequal = rawequal,
  select = select,
  tonumber = tonumber,
  tostring = tostring,
  type = type,
}

function base.next(t, key)
  if type(t) ~= "table" then
    return careful("next", next, t, key)
  end
  return next(real_of[t] or t, key)
end

local walk = base.next
function base.pairs(...)
  local t = ...
  if type(t) ~= "table" then
    return careful("pairs", pairs, ...)
  end
  if real_of[t] then
    return walk, t, nil
  end
  return next, t, nil
end

function base.rawget(...)
  local t, key = ...
  if type(t) ~= "table" or select("#", ...) < 2 then
    return careful("rawget", rawget, ...)
  end
  return rawget(real_of[t] or t, key)
end

function base.rawset(...)
  local t, key, value = ...
  if real_of[t] then
    error(READONLY, 0)
  end
  if type(t) ~= "table" or key == nil or key ~= key or select("#", ...) < 3 then
    return careful("rawset", rawset, ...)
  end
  return rawset(t, key, value)
end

local string_metatable

function base.getmetatable(...)
  local value = ...
  if type(value) == "string" then
    return string_metatable
  end
  if real_of[value] then
    return getmetatable(value).shown
  end
  if select("#", ...) == 0 then
    return careful("getmetatable", getmetatable)
  end
  return getmetatable(value)
end

function base.setmetatable(...)
  local t, metatable = ...
  if real_of[t] then
    error(READONLY, 0)
  end
  if type(t) ~= "table" or select("#", ...) < 2 then
    return careful("setmetatable", setmetatable, ...)
  end
  local kind = type(metatable)
  if (kind ~= "table" and kind ~= "nil") or getmetatable(t) then
    return careful("setmetatable", setmetatable, ...)
  end
  -- A proxy as a metatable would show nothing of what it stands for to Lua, which does not look
  -- through it.
  return setmetatable(t, real_of[metatable] and {} or metatable)
end

-- The original computes the number of results in an int, which may overflow.
function base.unpack(...)
  local t, first, last = ...
  if type(t) ~= "table" then
    return careful("unpack", unpack, ...)
  end
  if first == nil and last == nil then
    return unpack(t)
  end
  if first == nil then first = 1 end
  if last == nil then last = #t end
  local from, to = tonumber(first), tonumber(last)
  if not from or not to then
    return careful("unpack", unpack, ...)
  end
  if not (to - from < limits.results) or from < -2147483648 or to > 2147483647 then
    error("too many results to unpack", 2)
  end
  return unpack(t, from, to)
end

-- How many calls are on the stack of C that Lua's own limit does not count well: coroutines (each
-- has a limit of its own) and gsub (its frames are very large). What catches an error puts the
-- count back to what it was.
local coroutine_depth, gsub_depth = 0, 0

local function caught(depth, ok, ...)
  gsub_depth = depth
  if ok then
    return ok, ...
  end
  local err = plain((...))
  if type(err) == "table" then
    local text = rawget(err, "err")
    if type(text) == "string" then
      return false, text
    end
  end
  return false, err
end

-- Redis: an error that is a table with `err` is caught as its text.
function base.pcall(...)
  if select("#", ...) == 0 then
    return caught(gsub_depth, pcall(nil))
  end
  return caught(gsub_depth, pcall(...))
end

local function caught_by_handler(depth, ...)
  gsub_depth = depth
  return ...
end

function base.xpcall(...)
  local f, handle = ...
  if select("#", ...) < 2 then
    error("bad argument #2 to 'xpcall' (value expected)", 2)
  end
  -- A script that is being ended is so from within a hook, in which no other hook runs: what the
  -- script does here could not be ended again.
  local function handle_plain(err)
    if native.is_ending() then
      return err
    end
    return handle(plain(err))
  end
  return caught_by_handler(gsub_depth, xpcall(f, handle_plain))
end

-- Redis: options that change the collector for later scripts change nothing.
function base.collectgarbage(...)
  local option = ...
  if option == "stop" or option == "restart" or option == "setpause" or option == "setstepmul" then
    return 0
  end
  if option ~= nil and option ~= "collect" and option ~= "count" and option ~= "step" then
    return careful("collectgarbage", collectgarbage, ...)
  end
  return collectgarbage(...)
end

-- Text only: compiled code could do anything. The parser does not hold the chunk's name, which ends
-- at a zero byte for it; so it gets one that ends there and that its caller's stack holds.
local function load_text(text, name)
  if #text > limits.source_bytes then
    return nil, "source too long"
  end
  if sub(text, 1, 1) == "\27" then
    return nil, "binary chunks are not loaded"
  end
  return loadstring(text, match(name, "^[^%z]*"))
end

function base.loadstring(...)
  local text, name = ...
  if type(text) == "number" then text = tostring(text) end
  if type(name) == "number" then name = tostring(name) end
  if type(text) ~= "string" or (name ~= nil and type(name) ~= "string") then
    return careful("loadstring", loadstring, ...)
  end
  return load_text(text, name or text)
end

local LOAD_NAME = "=(load)"
function base.load(...)
  local reader, name = ...
  if type(reader) ~= "function" then
    local got = select("#", ...) == 0 and "no value" or type(reader)
    error("bad argument #1 to 'load' (function expected, got " .. got .. ")", 2)
  end
  local pieces = {}
  local bytes = 0
  while true do
    local ok, piece = pcall(reader)
    if not ok then
      return nil, plain(piece)
    end
    if piece == nil or piece == "" then break end
    if type(piece) == "number" then piece = tostring(piece) end
    if type(piece) ~= "string" then
      return nil, "reader function must return a string"
    end
    bytes = bytes + #piece
    if bytes > limits.source_bytes then
      return nil, "source too long"
    end
    pieces[#pieces + 1] = piece
  end
  return load_text(concat(pieces), type(name) == "string" and name or LOAD_NAME)
end

-- Library tables.

local function copied(library, names)
  local made = {}
  for name in gmatch(names, "%S+") do
    made[name] = assert(library[name], name)
  end
  return made
end

local strings = copied(
  string,
  "byte char dump find format gfind gmatch gsub len lower match rep reverse sub upper"
)

-- The matcher of patterns calls itself once for each item of a pattern.
local function limited(name, original)
  return function(...)
    local s, pattern, a, b = ...
    if type(s) ~= "string" or type(pattern) ~= "string" or a ~= nil then
      if #tostring(pattern) > limits.pattern_bytes and not (name == "find" and b) then
        error("pattern too long", 2)
      end
      return careful(name, original, ...)
    end
    if #pattern > limits.pattern_bytes then
      error("pattern too long", 2)
    end
    -- The pattern may be none, which its error tells with the script's line.
    return careful(name, original, s, pattern)
  end
end

for _, name in ipairs({ "find", "match", "gmatch", "gfind" }) do
  strings[name] = limited(name, strings[name])
end

local function left_gsub(...)
  gsub_depth = gsub_depth - 1
  return ...
end

function strings.gsub(...)
  local s, pattern, replacement = ...
  if type(pattern) == "string" and #pattern > limits.pattern_bytes then
    error("pattern too long", 2)
  end
  if type(replacement) == "string" and type(s) == "string" and type(pattern) == "string"
    and select("#", ...) == 3 then
    return careful("gsub", gsub, s, pattern, replacement)
  end
  if gsub_depth >= limits.gsub_depth then
    error("stack overflow", 2)
  end
  gsub_depth = gsub_depth + 1
  if type(replacement) == "table" and real_of[replacement] then
    replacement = real_of[replacement]
  end
  if type(s) ~= "string" or type(pattern) ~= "string"
    or (type(replacement) ~= "function" and type(replacement) ~= "table") then
    gsub_depth = gsub_depth - 1
    return careful("gsub", gsub, ...)
  end
  return left_gsub(gsub(s, pattern, replacement, select(4, ...)))
end

function strings.rep(...)
  local s, n = ...
  if type(s) ~= "string" or type(n) ~= "number" or select("#", ...) ~= 2 then
    if s == "" then
      n = tonumber(n)
      if n then return "" end
    end
    return careful("rep", rep, ...)
  end
  if #s == 0 then
    return ""
  end
  -- Refused before it is built, as that takes long and cannot be interrupted.
  if #s * n > limits.memory_bytes then
    error("not enough memory", 0)
  end
  return rep(s, n)
end

local tables = copied(
  table,
  "concat foreach foreachi getn insert maxn remove setn sort"
)

function tables.insert(...)
  local t = ...
  if real_of[t] then
    error(READONLY, 0)
  end
  local count = select("#", ...)
  if type(t) ~= "table" or count < 2 or count > 3 then
    return careful("insert", insert, ...)
  end
  if count == 2 then
    local _, value = ...
    return insert(t, value)
  end
  local _, position, value = ...
  if type(position) ~= "number" then
    return careful("insert", insert, ...)
  end
  return insert(t, position, value)
end

local foreach = table.foreach
function tables.foreach(...)
  local t, f = ...
  if real_of[t] then
    return careful("foreach", foreach, real_of[t], f)
  end
  return careful("foreach", foreach, ...)
end

local coroutines = copied(coroutine, "create running status yield")

local function resumed(depth, count, ...)
  gsub_depth, coroutine_depth = depth, count
  if (...) then
    return ...
  end
  return false, plain((select(2, ...)))
end

function coroutines.resume(...)
  if type((...)) ~= "thread" then
    error("bad argument #1 to 'resume' (coroutine expected)", 2)
  end
  if coroutine_depth >= limits.coroutine_depth then
    return false, "C stack overflow"
  end
  coroutine_depth = coroutine_depth + 1
  return resumed(gsub_depth, coroutine_depth - 1, resume(...))
end

local function unwrapped(ok, ...)
  if ok then
    return ...
  end
  local err = ...
  error(err, type(err) == "string" and 3 or 0)
end

function coroutines.wrap(f)
  if type(f) ~= "function" then
    error("bad argument #1 to 'wrap' (Lua function expected)", 2)
  end
  local ok, thread = pcall(create, f)
  if not ok then
    error("bad argument #1 to 'wrap' (Lua function expected)", 2)
  end
  return function(...)
    return unwrapped(coroutines.resume(thread, ...))
  end
end

local maths = copied(
  math,
  "abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp log log10 max min "
    .. "mod modf pi pow rad sin sinh sqrt tan tanh"
)
maths.random = native.random
maths.randomseed = native.randomseed

base.string = proxy(strings)
base.table = proxy(tables)
base.coroutine = proxy(coroutines)
base.math = proxy(maths)
base.os = proxy({ clock = os.clock })
base.bit = proxy(native.bit)
base.struct = proxy(native.struct)
base.cmsgpack = proxy(native.cmsgpack)
base.cjson = proxy(native.cjson)

getmetatable("").__index = strings
string_metatable = proxy({ __index = base.string })

-- Errors.

local function handler(err)
  local source, line, shown = native.place()
  err = plain(err, source and shown .. ":" .. line .. ": ")
  if type(err) ~= "table" or real_of[err] then
    err = { err = "ERR " .. tostring(err) }
  end
  if source then
    rawset(err, "source", source)
    rawset(err, "line", line)
  end
  return err
end

-- The server.

local function error_reply(...)
  local text = ...
  if select("#", ...) ~= 1 or type(text) ~= "string" then
    return { err = "ERR wrong number or type of arguments" }
  end
  -- A text that begins with `-` is the reply as it is; any other gets the usual code word if it
  -- has none.
  if sub(text, 1, 1) == "-" then
    text = sub(text, 2)
    if not find(text, " ", 1, true) then
      text = "ERR " .. text
    end
  elseif not find(text, " ", 1, true) then
    text = "ERR " .. text
  end
  return { err = text }
end

local function status_reply(...)
  local text = ...
  if select("#", ...) ~= 1 or type(text) ~= "string" then
    return { err = "ERR wrong number or type of arguments" }
  end
  return { ok = text }
end

local function server_table()
  local server = {
    error_reply = error_reply,
    status_reply = status_reply,
  }
  for name in gmatch("call pcall log setresp sha1hex acl_check_cmd set_repl", "[%w_]+") do
    server[name] = native[name]
  end
  for name, value in pairs(native.constants) do
    server[name] = value
  end
  return server
end

local function missing(_, key)
  error("Script attempted to access nonexistent global variable '" .. tostring(key) .. "'", 2)
end

local function globals_with(server)
  local made = {}
  for name, value in pairs(base) do
    made[name] = value
  end
  made.redis = proxy(server)
  made.server = made.redis
  return setmetatable(made, { __index = missing })
end

local script_server = server_table()
-- There is no debugger to stop in, and none to print to.
function script_server.breakpoint()
  return false
end
function script_server.debug() end
function script_server.replicate_commands()
  return true
end
local for_scripts = globals_with(script_server)
for_scripts.__redis__err__handler = handler

local for_functions = globals_with(server_table())

local load_server = setmetatable({
  register_function = native.register_function,
  log = native.log,
}, { __index = missing })
for _, name in ipairs({
  "LOG_DEBUG", "LOG_NOTICE", "LOG_VERBOSE", "LOG_WARNING", "REDIS_VERSION", "REDIS_VERSION_NUM",
}) do
  load_server[name] = native.constants[name]
end
local load_proxy = proxy(load_server)
local for_load = setmetatable({ redis = load_proxy, server = load_proxy }, { __index = missing })

-- There is one table of globals, as every function holds the one it was made under. What it shows
-- depends on what runs.
local globals = proxy(for_scripts, nil, proxy({ __index = missing }))
local view = getmetatable(globals)
for_scripts._G, for_functions._G = globals, globals

local function look_at(real)
  view.__index = real
  real_of[globals] = real
end

local function begin(real)
  coroutine_depth, gsub_depth = 0, 0
  if view.__index ~= real then
    look_at(real)
  end
end

-- The functions of all scripts, by numbers.
local functions = {}
local given = native.given

local function run_script(number)
  begin(for_scripts)
  for_scripts.KEYS, for_scripts.ARGV = given()
  return xpcall(functions[number], handler)
end

-- What is called next, as what xpcall calls gets no arguments.
local called, called_keys, called_args

local function call_function()
  local f, keys, args = called, called_keys, called_args
  called, called_keys, called_args = nil, nil, nil
  return f(keys, args)
end

local function run_function(number)
  begin(for_functions)
  called, called_keys, called_args = functions[number], given()
  return xpcall(call_function, handler)
end

local function run_load(f)
  begin(for_load)
  return xpcall(f, handler)
end

-- What kind of reply a table is: its number in the list in `convert`, and what it holds.
local function shape(t)
  t = real_of[t] or t
  local get = t
  if getmetatable(t) then
    get = {}
    for _, name in ipairs({
      "err", "ok", "double", "map", "set", "big_number", "verbatim_string",
    }) do
      get[name] = rawget(t, name)
    end
  end
  local v = get.err
  if v ~= nil and type(v) == "string" then return 1, v end
  v = get.ok
  if v ~= nil and type(v) == "string" then return 2, v end
  v = get.double
  if v ~= nil and type(v) == "number" then return 3, v end
  v = get.map
  if v ~= nil and type(v) == "table" then return 4, v end
  v = get.set
  if v ~= nil and type(v) == "table" then return 5, v end
  v = get.big_number
  if v ~= nil and type(v) == "string" then return 6, v end
  v = get.verbatim_string
  if v ~= nil and type(v) == "table" then
    local format, text = rawget(v, "format"), rawget(v, "string")
    if type(format) == "string" and type(text) == "string" then return 7, text, format end
  end
  return 0
end

return {
  globals = globals,
  functions = functions,
  run_script = run_script,
  run_function = run_function,
  run_load = run_load,
  shape = shape,
}
