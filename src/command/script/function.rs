//! Functions: FUNCTION, which keeps libraries of them, and FCALL and FCALL_RO, which call them.
//!
//! The first line of a library names it (`#!lua name=mylib`). Its code runs once, when it is
//! loaded, and registers functions. Libraries are part of every snapshot.

use std::collections::BTreeMap;

use super::payload::{self, Fault};
use super::run::{Body, Name, run};
use super::{EVAL_CATEGORIES, EVAL_FLAGS, FLUSH_TYPE, READ, WRITTEN, call_args, keys, kill};
use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::server::introspect::wrong_subcommand;
use crate::command::table::reply_help;
use crate::command::table::row::Handler::{Container, Engine as OnEngine};
use crate::command::table::row::*;
use crate::engine::Engine;
use crate::engine::scripts::Library;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::script::Registered;
use crate::value::glob::Glob;

const CALL_ARGS: &[Arg] = &call_args(Arg::new("function", ArgKind::String));

/// The commands on functions.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "fcall",
        arity: -3,
        flags: EVAL_FLAGS | flag::MAY_REPLICATE | flag::MOVABLEKEYS,
        categories: EVAL_CATEGORIES,
        keys: &[keys(WRITTEN)],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "That of the function",
        summary: "Calls a function.",
        args: CALL_ARGS,
        subcommands: &[],
        handler: OnEngine(fcall),
    },
    Row {
        name: "fcall_ro",
        arity: -3,
        flags: EVAL_FLAGS | flag::READONLY | flag::MOVABLEKEYS,
        categories: EVAL_CATEGORIES,
        keys: &[keys(READ)],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "That of the function",
        summary: "Calls a function that only reads.",
        args: CALL_ARGS,
        subcommands: &[],
        handler: OnEngine(fcall_ro),
    },
    Row {
        name: "function",
        arity: -2,
        flags: 0,
        categories: category::SLOW,
        keys: &[],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "That of the subcommand",
        summary: "Groups the commands that keep libraries of functions.",
        args: &[],
        subcommands: FUNCTION,
        handler: Container,
    },
];

const WRITING: u32 = category::WRITE | EVAL_CATEGORIES;

/// Subcommands of FUNCTION.
const FUNCTION: &[Row] = &[
    Row {
        name: "delete",
        arity: 3,
        flags: flag::WRITE | flag::NOSCRIPT,
        categories: WRITING,
        keys: &[],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "O(N) with N the number of functions of the library",
        summary: "Deletes a library and its functions.",
        args: &[Arg::new("library-name", ArgKind::String)],
        subcommands: &[],
        handler: OnEngine(function_delete),
    },
    Row {
        name: "dump",
        arity: 2,
        flags: flag::NOSCRIPT | flag::LONG,
        categories: EVAL_CATEGORIES,
        keys: &[],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "O(N) with N the length of all libraries",
        summary: "Returns all libraries as bytes that FUNCTION RESTORE takes.",
        args: &[],
        subcommands: &[],
        handler: OnEngine(function_dump),
    },
    Row {
        name: "flush",
        arity: -2,
        flags: flag::WRITE | flag::NOSCRIPT,
        categories: WRITING,
        keys: &[],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "O(N) with N the number of functions",
        summary: "Deletes all libraries.",
        args: &[Arg::one_of("flush-type", FLUSH_TYPE).optional()],
        subcommands: &[],
        handler: OnEngine(function_flush),
    },
    Row {
        name: "help",
        arity: 2,
        flags: flag::LOADING | flag::STALE,
        categories: EVAL_CATEGORIES,
        keys: &[],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "O(1)",
        summary: "Lists the subcommands.",
        args: &[],
        subcommands: &[],
        handler: OnEngine(function_help),
    },
    Row {
        name: "kill",
        arity: 2,
        flags: flag::NOSCRIPT | flag::ALLOW_BUSY,
        categories: EVAL_CATEGORIES,
        keys: &[],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "O(1)",
        summary: "Ends the function that runs, unless it has written.",
        args: &[],
        subcommands: &[],
        handler: OnEngine(function_kill),
    },
    Row {
        name: "list",
        arity: -2,
        flags: flag::NOSCRIPT | flag::LONG,
        categories: EVAL_CATEGORIES,
        keys: &[],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "O(N) with N the number of functions",
        summary: "Returns what is known of libraries.",
        args: &[
            Arg::new("library-name-pattern", ArgKind::String)
                .token("LIBRARYNAME")
                .optional(),
            Arg::word("withcode", "WITHCODE").optional(),
        ],
        subcommands: &[],
        handler: OnEngine(function_list),
    },
    Row {
        name: "load",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::NOSCRIPT | flag::LONG,
        categories: WRITING,
        keys: &[],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "O(1), not counting what the library does when it is loaded",
        summary: "Adds a library.",
        args: &[
            Arg::word("replace", "REPLACE").optional(),
            Arg::new("function-code", ArgKind::String),
        ],
        subcommands: &[],
        handler: OnEngine(function_load),
    },
    Row {
        name: "restore",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::NOSCRIPT | flag::LONG,
        categories: WRITING,
        keys: &[],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "O(N) with N the number of functions in the payload",
        summary: "Adds the libraries that FUNCTION DUMP has returned.",
        args: &[
            Arg::new("serialized-value", ArgKind::String),
            Arg::one_of("policy", RESTORE_POLICY).optional(),
        ],
        subcommands: &[],
        handler: OnEngine(function_restore),
    },
    Row {
        name: "stats",
        arity: 2,
        flags: flag::NOSCRIPT | flag::ALLOW_BUSY,
        categories: EVAL_CATEGORIES,
        keys: &[],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: "O(1)",
        summary: "Returns which function runs, and how many there are.",
        args: &[],
        subcommands: &[],
        handler: OnEngine(function_stats),
    },
];

const RESTORE_POLICY: &[Arg] = &[
    Arg::word("flush", "FLUSH"),
    Arg::word("append", "APPEND"),
    Arg::word("replace", "REPLACE"),
];

fn call_function(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    is_read_only: bool,
) -> Result<(), CommandError> {
    let function = engine.scripts.function(args.get(1));
    let function = function.ok_or(CommandError::text("ERR Function not found"))?;
    let bad_number = |_| CommandError::text("ERR Bad number of keys provided");
    args.integer(2).map_err(bad_number)?;
    let body = Body {
        id: function.id,
        name: Name::Function(args.get(1)),
        flags: Some(function.flags),
        is_read_only,
    };
    run(engine, caller, args, body)
}

fn fcall(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    call_function(engine, caller, args, false)
}

fn fcall_ro(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    call_function(engine, caller, args, true)
}

fn function_load(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let last = args.len() - 1;
    for i in 2..last {
        if !args.is(i, "replace") {
            return Err(args.refused("ERR Unknown option given: ", i, ""));
        }
    }
    let name = engine.scripts.load_library(args.get(last), last > 2)?;
    engine.keyspace.changes.count(1);
    caller.reply().bulk(&name);
    Ok(())
}

fn function_delete(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    if !engine.scripts.delete_library(args.get(2)) {
        return Err(CommandError::text("ERR Library not found"));
    }
    engine.keyspace.changes.count(1);
    caller.reply().ok();
    Ok(())
}

fn function_flush(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    if args.len() > 3 {
        return Err(wrong_subcommand(args));
    }
    let is_known = args.len() == 2 || args.is(2, "async") || args.is(2, "sync");
    if !is_known {
        return Err(CommandError::text(
            "ERR FUNCTION FLUSH only supports SYNC|ASYNC option",
        ));
    }
    let libraries = engine.scripts.take_libraries();
    engine.scripts.unload_all(libraries);
    engine.keyspace.changes.count(1);
    caller.reply().ok();
    Ok(())
}

fn function_help(_: &mut Engine, caller: &mut Caller<'_>, _: Args<'_>) -> Result<(), CommandError> {
    reply_help(&mut caller.reply(), "function");
    Ok(())
}

fn function_kill(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    _: Args<'_>,
) -> Result<(), CommandError> {
    kill(engine, caller, true)
}

fn reply_function(reply: &mut Reply<'_>, function: &Registered) {
    reply.map(3);
    reply.bulk(b"name");
    reply.bulk(&function.name);
    reply.bulk(b"description");
    match &function.description {
        Some(description) => reply.bulk(description),
        None => reply.null(),
    }
    reply.bulk(b"flags");
    reply.set(function.flags.names().count());
    let names = function.flags.names();
    names.for_each(|name| reply.simple(name));
}

fn function_list(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let (mut pattern, mut has_code) = (None, false);
    let mut i = 2;
    while i < args.len() {
        if !has_code && args.is(i, "withcode") {
            has_code = true;
        } else if pattern.is_none() && args.is(i, "libraryname") {
            i += 1;
            let given = args.at(i);
            let given = given.ok_or(CommandError::text(
                "ERR library name argument was not given",
            ))?;
            pattern = Some(Glob::new(given, true));
        } else {
            return Err(args.refused("ERR Unknown argument ", i, ""));
        }
        i += 1;
    }
    let is_asked = |name: &[u8]| pattern.as_ref().is_none_or(|pattern| pattern.matches(name));
    let libraries = engine.scripts.libraries();
    let asked: Vec<_> = libraries.filter(|(name, _)| is_asked(name)).collect();
    let mut reply = caller.reply();
    reply.array(asked.len());
    for (name, library) in asked {
        reply.map(if has_code { 4 } else { 3 });
        reply.bulk(b"library_name");
        reply.bulk(name);
        reply.bulk(b"engine");
        reply.bulk(b"LUA");
        reply.bulk(b"functions");
        reply.array(library.functions.len());
        let functions = library.functions.iter();
        functions.for_each(|function| reply_function(&mut reply, function));
        if has_code {
            reply.bulk(b"library_code");
            reply.bulk(&library.code);
        }
    }
    Ok(())
}

fn function_stats(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    _: Args<'_>,
) -> Result<(), CommandError> {
    let scripts = &engine.scripts;
    let mut reply = caller.reply();
    reply.map(2);
    reply.bulk(b"running_script");
    match &scripts.running {
        None => reply.null(),
        Some(running) => {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(&running.name);
            reply.bulk(b"command");
            reply.array(running.command.len());
            running.command.iter().for_each(|arg| reply.bulk(arg));
            reply.bulk(b"duration_ms");
            reply.integer(((running.now_us - running.started_us) / 1000) as i64);
        }
    }
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    reply.bulk(b"libraries_count");
    reply.integer(scripts.libraries().len() as i64);
    reply.bulk(b"functions_count");
    reply.integer(scripts.functions_len() as i64);
    Ok(())
}

fn function_dump(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    _: Args<'_>,
) -> Result<(), CommandError> {
    let codes = engine
        .scripts
        .libraries()
        .map(|(_, library)| library.code.as_slice());
    caller.reply().bulk(&payload::write(codes));
    Ok(())
}

/// What becomes of libraries that are there when others are restored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    Flush,
    Append,
    Replace,
}

/// All of them are restored, or nothing has changed.
fn function_restore(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let policy = match args.at(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"append") if args.len() <= 4 => Policy::Append,
        Some(b"replace") if args.len() == 4 => Policy::Replace,
        Some(b"flush") if args.len() == 4 => Policy::Flush,
        _ if args.len() > 4 => return Err(wrong_subcommand(args)),
        _ => {
            return Err(CommandError::text(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    let codes = payload::read(args.get(2)).map_err(|fault| {
        CommandError::text(match fault {
            Fault::Footer => "ERR DUMP payload version or checksum are wrong",
            Fault::Content => "ERR given type is not a function",
        })
    })?;
    // Those that are there stay, out of the way, until the others are all right.
    let mut old = engine.scripts.take_libraries();
    let mut result = Ok(());
    let mut names = Vec::new();
    for code in &codes {
        result = engine
            .scripts
            .load_library(code, false)
            .map(|name| names.push(name));
        if result.is_err() {
            break;
        }
    }
    if result.is_ok() && policy != Policy::Flush {
        result = keep(engine, &mut old, &names, policy);
    }
    if let Err(error) = result {
        let new = engine.scripts.take_libraries();
        engine.scripts.unload_all(new);
        for (name, library) in old {
            engine.scripts.add_library(&name, library);
        }
        return Err(error);
    }
    engine.scripts.unload_all(old);
    engine.keyspace.changes.count(1);
    caller.reply().ok();
    Ok(())
}

/// Puts old libraries back beside new ones, but for those that are replaced, which are left.
fn keep(
    engine: &mut Engine,
    old: &mut BTreeMap<Vec<u8>, Library>,
    names: &[Vec<u8>],
    policy: Policy,
) -> Result<(), CommandError> {
    for name in names {
        if policy == Policy::Append && old.contains_key(name) {
            return Err(CommandError::quoting(
                "ERR Library ",
                name,
                " already exists",
            ));
        }
    }
    let is_kept = |name: &Vec<u8>| !names.contains(name);
    let kept = old.iter().filter(|(name, _)| is_kept(name));
    for function in kept.flat_map(|(_, library)| &library.functions) {
        if engine.scripts.function(&function.name).is_some() {
            return Err(CommandError::quoting(
                "ERR Function ",
                &function.name,
                " already exists",
            ));
        }
    }
    let kept: Vec<Vec<u8>> = old.keys().filter(|name| is_kept(name)).cloned().collect();
    for name in kept {
        if let Some(library) = old.remove(&name) {
            engine.scripts.add_library(&name, library);
        }
    }
    Ok(())
}
