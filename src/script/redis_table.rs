//! What is in `redis` (and `server`, its newer name) of Rust: calling commands, the log, settings
//! of the run, and registering functions while a library loads.

use std::rc::Rc;

use mlua::{Function, Lua, LuaString, Table, Value};

use super::native::{
    self, Outcome, Refusal, number, number_of, push_number, register, string, truncated,
};
use super::sandbox::{HOST, Shared, WaitingFunction};
use super::{FunctionFlags, LogLevel, REPL_AOF, REPL_REPLICA, Settings, Words, exchange};
use crate::resp::reply::Protocol;

/// Adds the functions and constants to the table of those for the prelude.
pub(super) fn add(
    lua: &Lua,
    functions: &Table,
    shared: &Rc<Shared>,
    settings: &Settings,
) -> mlua::Result<()> {
    add_commands(lua, functions, shared)?;
    add_run_settings(lua, functions, shared)?;
    register(lua, functions, "log", log)?;
    register(lua, functions, "sha1hex", sha1_hex)?;
    let place = Rc::clone(shared);
    register(lua, functions, "register_function", move |lua, args| {
        register_function(lua, args, &place)
    })?;
    functions.raw_set("constants", constants(lua, settings)?)
}

fn constants(lua: &Lua, settings: &Settings) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", REPL_AOF),
        ("REPL_SLAVE", REPL_REPLICA),
        ("REPL_REPLICA", REPL_REPLICA),
        ("REPL_ALL", REPL_AOF | REPL_REPLICA),
    ] {
        table.raw_set(name, value)?;
    }
    table.raw_set("REDIS_VERSION", settings.version.as_str())?;
    table.raw_set("REDIS_VERSION_NUM", settings.version_number)?;
    Ok(table)
}

fn add_commands(lua: &Lua, functions: &Table, shared: &Rc<Shared>) -> mlua::Result<()> {
    exchange::add(lua, functions, shared)?;
    register(lua, functions, "acl_check_cmd", |_, args| {
        let mut words = Words::default();
        fill(&mut words, args)?;
        match HOST.with(|host| host.is_allowed(&words)) {
            Some(is_allowed) => Ok(vec![Value::Boolean(is_allowed)]),
            None => Err(Refusal::reply(
                "ERR Invalid command passed to redis.acl_check_cmd()",
            )),
        }
    })
}

/// Makes a command of values: of strings, and of numbers as text.
fn fill(words: &mut Words, args: &[Value]) -> Result<(), Refusal> {
    if args.is_empty() {
        return Err(Refusal::reply(
            "ERR Please specify at least one argument for this redis lib call",
        ));
    }
    for arg in args {
        let has_room = match arg {
            Value::String(text) => words.push(&text.as_bytes()),
            other => match number_of(other) {
                Some(number) => push_number(words, number),
                None => {
                    return Err(Refusal::reply(
                        "ERR Lua redis lib command arguments must be strings or integers",
                    ));
                }
            },
        };
        if !has_room {
            return Err(native::too_large());
        }
    }
    Ok(())
}

fn add_run_settings(lua: &Lua, functions: &Table, shared: &Rc<Shared>) -> mlua::Result<()> {
    let place = Rc::clone(shared);
    register(lua, functions, "setresp", move |lua, args| {
        if args.len() != 1 {
            return Err(Refusal::reply("ERR redis.setresp() requires one argument."));
        }
        place.protocol.set(match integer(lua, &args[0])? {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(Refusal::reply("ERR RESP version must be 2 or 3.")),
        });
        Ok(vec![])
    })?;
    register(lua, functions, "set_repl", |lua, args| {
        if args.len() != 1 {
            return Err(Refusal::reply(
                "ERR redis.set_repl() requires one argument.",
            ));
        }
        let targets = integer(lua, &args[0])?;
        if !(0..=i64::from(REPL_AOF | REPL_REPLICA)).contains(&targets) {
            return Err(Refusal::reply(
                "ERR Invalid replication flags. \
                 Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
            ));
        }
        HOST.with(|host| host.set_replication(targets as u8));
        Ok(vec![])
    })?;
    let place = Rc::clone(shared);
    register(lua, functions, "random", move |lua, args| {
        place.random(lua, args)
    })?;
    let place = Rc::clone(shared);
    register(lua, functions, "randomseed", move |lua, args| {
        place.seed(truncated(number(lua, args, 0)?) as i32);
        Ok(vec![])
    })
}

/// A value as an integer; 0 if it is no number.
fn integer(lua: &Lua, value: &Value) -> Result<i64, Refusal> {
    let number = lua.coerce_number(value.clone())?;
    Ok(number.map_or(0, truncated))
}

fn log(lua: &Lua, args: &[Value]) -> Outcome {
    if args.len() < 2 {
        return Err(Refusal::reply(
            "ERR redis.log() requires two arguments or more.",
        ));
    }
    let Some(level) = number_of(&args[0]).map(truncated) else {
        return Err(Refusal::reply(
            "ERR First argument must be a number (log level).",
        ));
    };
    let level = match level {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return Err(Refusal::reply("ERR Invalid log level.")),
    };
    // What is neither a string nor a number is left out.
    let words: Vec<LuaString> = (1..args.len())
        .filter_map(|at| string(lua, args, at).ok())
        .collect();
    let words: Vec<_> = words.iter().map(LuaString::as_bytes).collect();
    HOST.with(|host| host.log(level, &words.join(&b' ')));
    Ok(vec![])
}

fn sha1_hex(lua: &Lua, args: &[Value]) -> Outcome {
    use sha1::Digest;
    if args.len() != 1 {
        return Err(Refusal::reply("ERR wrong number of arguments"));
    }
    // What is neither a string nor a number counts as the empty string.
    let digest = match string(lua, args, 0) {
        Ok(text) => sha1::Sha1::digest(&text.as_bytes()[..]),
        Err(_) => sha1::Sha1::digest(b""),
    };
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(vec![Value::String(lua.create_string(hex)?)])
}

fn register_function(lua: &Lua, args: &[Value], shared: &Shared) -> Outcome {
    if shared.registered.borrow().is_none() {
        return Err(Refusal::reply(
            "ERR redis.register_function can only be called on FUNCTION LOAD command",
        ));
    }
    let function = match args {
        [Value::Table(named)] => from_named(lua, named)?,
        [_] => {
            return Err(Refusal::reply(
                "ERR calling redis.register_function with a single argument is only \
                 applicable to Lua table (representing named arguments).",
            ));
        }
        [name, callback] => from_pair(lua, name, callback)?,
        _ => {
            return Err(Refusal::reply(
                "ERR wrong number of arguments to redis.register_function",
            ));
        }
    };
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if function.name.is_empty() || !function.name.iter().all(is_word) {
        return Err(Refusal::reply(
            "ERR Library names can only contain letters, numbers, or underscores(_) and must be \
             at least one character long",
        ));
    }
    let mut registered = shared.registered.borrow_mut();
    let registered = registered.as_mut().expect("a library is being loaded");
    if registered.iter().any(|known| known.name == function.name) {
        return Err(Refusal::reply("ERR Function already exists in the library"));
    }
    registered.push(function);
    Ok(vec![])
}

fn from_pair(lua: &Lua, name: &Value, callback: &Value) -> Result<WaitingFunction, Refusal> {
    let name = text_of(lua, name)?.ok_or_else(|| {
        Refusal::reply("ERR first argument to redis.register_function must be a string")
    })?;
    let Value::Function(callback) = callback else {
        return Err(Refusal::reply(
            "ERR second argument to redis.register_function must be a function",
        ));
    };
    Ok(WaitingFunction {
        name,
        callback: callback.clone(),
        description: None,
        flags: FunctionFlags::default(),
    })
}

fn from_named(lua: &Lua, named: &Table) -> Result<WaitingFunction, Refusal> {
    let mut name: Option<Vec<u8>> = None;
    let mut callback: Option<Function> = None;
    let mut description = None;
    let mut flags = FunctionFlags::default();
    for pair in native::pairs(named) {
        let (key, value) = &pair?;
        let Value::String(key) = key else {
            return Err(unknown_argument());
        };
        match &key.as_bytes()[..] {
            b"function_name" => {
                name = Some(text_of(lua, value)?.ok_or_else(|| {
                    Refusal::reply(
                        "ERR function_name argument given to redis.register_function must be a \
                         string",
                    )
                })?);
            }
            b"description" => {
                description = Some(text_of(lua, value)?.ok_or_else(|| {
                    Refusal::reply(
                        "ERR description argument given to redis.register_function must be a \
                         string",
                    )
                })?);
            }
            b"callback" => match value {
                Value::Function(function) => callback = Some(function.clone()),
                _ => {
                    return Err(Refusal::reply(
                        "ERR callback argument given to redis.register_function must be a \
                         function",
                    ));
                }
            },
            b"flags" => flags = flags_of(value)?,
            _ => return Err(unknown_argument()),
        }
    }
    let name = name.ok_or_else(|| {
        Refusal::reply("ERR redis.register_function must get a function name argument")
    })?;
    let callback = callback.ok_or_else(|| {
        Refusal::reply("ERR redis.register_function must get a callback argument")
    })?;
    Ok(WaitingFunction {
        name,
        callback,
        description,
        flags,
    })
}

fn unknown_argument() -> Refusal {
    Refusal::reply("ERR unknown argument given to redis.register_function")
}

fn flags_of(value: &Value) -> Result<FunctionFlags, Refusal> {
    let Value::Table(table) = value else {
        return Err(Refusal::reply(
            "ERR flags argument to redis.register_function must be a table representing function \
             flags",
        ));
    };
    let mut names: Vec<Value> = Vec::new();
    table.for_each_value(|name| {
        names.push(name);
        Ok(())
    })?;
    let mut flags = FunctionFlags::default();
    for name in &names {
        let known = match name {
            Value::String(name) => FunctionFlags::named(&name.as_bytes()),
            _ => None,
        };
        flags = flags.with(known.ok_or_else(|| Refusal::reply("ERR unknown flag given"))?);
    }
    Ok(flags)
}

/// The text of a string or a number.
fn text_of(lua: &Lua, value: &Value) -> Result<Option<Vec<u8>>, Refusal> {
    match value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => {
            let text = string(lua, std::slice::from_ref(value), 0)?;
            Ok(Some(text.as_bytes().to_vec()))
        }
        _ => Ok(None),
    }
}
