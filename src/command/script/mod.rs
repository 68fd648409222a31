//! Scripts: EVAL and its kin, and SCRIPT, which keeps them.
//!
//! The first line of a script may say what it does (`#!lua flags=no-writes`); one that says nothing
//! may do anything, as in the days before there were such lines.

mod run;

pub mod function;

mod payload;

use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::table::reply_help;
use crate::command::table::row::Handler::{Container, Engine as OnEngine};
use crate::command::table::row::*;
use crate::config::split_line;
use crate::engine::Engine;
use crate::engine::scripts::{ScriptKey, digest_of, hex, parse_digest};
use crate::resp::error::CommandError;
use crate::script::FunctionFlags;
use run::{Body, Name, run};

const EVAL_FLAGS: u32 = flag::NOSCRIPT | flag::SKIP_MONITOR | flag::STALE | flag::NO_MANDATORY_KEYS;
const EVAL_CATEGORIES: u32 = category::SLOW | category::SCRIPTING;
const COMPLEXITY: &str = "That of the script";

const fn keys(flags: u16) -> KeySpec {
    KeySpec::counted(2, 1, flags)
}

const WRITTEN: u16 = key_flag::RW | key_flag::ACCESS | key_flag::UPDATE;
const READ: u16 = key_flag::RO | key_flag::ACCESS;

const fn call_args(first: Arg) -> [Arg; 4] {
    [
        first,
        Arg::new("numkeys", ArgKind::Integer),
        Arg::key("key").optional().multiple(),
        Arg::new("arg", ArgKind::String).optional().multiple(),
    ]
}

const TEXT_ARGS: &[Arg] = &call_args(Arg::new("script", ArgKind::String));
const DIGEST_ARGS: &[Arg] = &call_args(Arg::new("sha1", ArgKind::String));

/// The commands on scripts.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "eval",
        arity: -3,
        flags: EVAL_FLAGS | flag::MAY_REPLICATE | flag::MOVABLEKEYS,
        categories: EVAL_CATEGORIES,
        keys: &[keys(WRITTEN)],
        group: Group::Scripting,
        since: "2.6.0",
        complexity: COMPLEXITY,
        summary: "Runs a script.",
        args: TEXT_ARGS,
        subcommands: &[],
        handler: OnEngine(eval),
    },
    Row {
        name: "evalsha",
        arity: -3,
        flags: EVAL_FLAGS | flag::MAY_REPLICATE | flag::MOVABLEKEYS,
        categories: EVAL_CATEGORIES,
        keys: &[keys(WRITTEN)],
        group: Group::Scripting,
        since: "2.6.0",
        complexity: COMPLEXITY,
        summary: "Runs a script that was run or loaded before, by the SHA1 of its text.",
        args: DIGEST_ARGS,
        subcommands: &[],
        handler: OnEngine(evalsha),
    },
    Row {
        name: "eval_ro",
        arity: -3,
        flags: EVAL_FLAGS | flag::READONLY | flag::MOVABLEKEYS,
        categories: EVAL_CATEGORIES,
        keys: &[keys(READ)],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: COMPLEXITY,
        summary: "Runs a script that only reads.",
        args: TEXT_ARGS,
        subcommands: &[],
        handler: OnEngine(eval_ro),
    },
    Row {
        name: "evalsha_ro",
        arity: -3,
        flags: EVAL_FLAGS | flag::READONLY | flag::MOVABLEKEYS,
        categories: EVAL_CATEGORIES,
        keys: &[keys(READ)],
        group: Group::Scripting,
        since: "7.0.0",
        complexity: COMPLEXITY,
        summary: "Runs a script that only reads and was run or loaded before, by its SHA1.",
        args: DIGEST_ARGS,
        subcommands: &[],
        handler: OnEngine(evalsha_ro),
    },
    Row {
        name: "script",
        arity: -2,
        flags: 0,
        categories: category::SLOW,
        keys: &[],
        group: Group::Scripting,
        since: "2.6.0",
        complexity: "That of the subcommand",
        summary: "Groups the commands that keep scripts.",
        args: &[],
        subcommands: SCRIPT,
        handler: Container,
    },
];

/// Subcommands of SCRIPT.
const SCRIPT: &[Row] = &[
    Row {
        name: "exists",
        arity: -3,
        flags: flag::NOSCRIPT,
        categories: EVAL_CATEGORIES,
        keys: &[],
        group: Group::Scripting,
        since: "2.6.0",
        complexity: "O(N) with N the number of digests",
        summary: "Tells which scripts the server knows, by their SHA1.",
        args: &[Arg::new("sha1", ArgKind::String).multiple()],
        subcommands: &[],
        handler: OnEngine(script_exists),
    },
    Row {
        name: "flush",
        arity: -2,
        flags: flag::NOSCRIPT,
        categories: EVAL_CATEGORIES,
        keys: &[],
        group: Group::Scripting,
        since: "2.6.0",
        complexity: "O(N) with N the number of scripts",
        summary: "Forgets all scripts.",
        args: &[Arg::one_of("flush-type", FLUSH_TYPE)
            .optional()
            .since("6.2.0")],
        subcommands: &[],
        handler: OnEngine(script_flush),
    },
    Row {
        name: "help",
        arity: 2,
        flags: flag::LOADING | flag::STALE,
        categories: EVAL_CATEGORIES,
        keys: &[],
        group: Group::Scripting,
        since: "5.0.0",
        complexity: "O(1)",
        summary: "Lists the subcommands.",
        args: &[],
        subcommands: &[],
        handler: OnEngine(script_help),
    },
    Row {
        name: "kill",
        arity: 2,
        flags: flag::NOSCRIPT | flag::ALLOW_BUSY,
        categories: EVAL_CATEGORIES,
        keys: &[],
        group: Group::Scripting,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Ends the script that runs, unless it has written.",
        args: &[],
        subcommands: &[],
        handler: OnEngine(script_kill),
    },
    Row {
        name: "load",
        arity: 3,
        flags: flag::NOSCRIPT | flag::STALE,
        categories: EVAL_CATEGORIES,
        keys: &[],
        group: Group::Scripting,
        since: "2.6.0",
        complexity: "O(N) with N the length of the script",
        summary: "Keeps a script to be run by its SHA1, which it returns.",
        args: &[Arg::new("script", ArgKind::String)],
        subcommands: &[],
        handler: OnEngine(script_load),
    },
    Row {
        name: "show",
        arity: 3,
        flags: flag::NOSCRIPT,
        categories: EVAL_CATEGORIES,
        keys: &[],
        group: Group::Scripting,
        since: "8.0.0",
        complexity: "O(1)",
        summary: "Returns the text of a script, by its SHA1.",
        args: &[Arg::new("sha1", ArgKind::String)],
        subcommands: &[],
        handler: OnEngine(script_show),
    },
];

const FLUSH_TYPE: &[Arg] = &[Arg::word("async", "ASYNC"), Arg::word("sync", "SYNC")];

const NO_SCRIPT: CommandError = CommandError::text("NOSCRIPT No matching script. Please use EVAL.");

/// The flags in the first line of a script, if it is about them.
fn flags_of(body: &[u8]) -> Result<Option<FunctionFlags>, CommandError> {
    if !body.starts_with(b"#!") {
        return Ok(None);
    }
    let end =
        memchr::memchr(b'\n', body).ok_or(CommandError::text("ERR Invalid script shebang"))?;
    let words = split_line(&body[..end]);
    let words = words.ok_or(CommandError::text("ERR Invalid engine in script shebang"))?;
    let (engine, words) = words.split_first().expect("the line begins with a word");
    if engine != b"#!lua" {
        return Err(CommandError::quoting(
            "ERR Unexpected engine in script shebang: ",
            engine,
            "",
        ));
    }
    let mut flags = FunctionFlags::default();
    for word in words {
        let Some(names) = word.strip_prefix(b"flags=") else {
            return Err(CommandError::quoting(
                "ERR Unknown lua shebang option: ",
                word,
                "",
            ));
        };
        if names.is_empty() {
            continue;
        }
        for name in names.split(|&byte| byte == b',') {
            let flag = FunctionFlags::named(name).ok_or_else(|| {
                CommandError::quoting("ERR Unexpected flag in script shebang: ", name, "")
            })?;
            flags = flags.with(flag);
        }
    }
    Ok(Some(flags))
}

fn add(engine: &mut Engine, body: &[u8], is_loaded: bool) -> Result<ScriptKey, CommandError> {
    let flags = flags_of(body)?;
    let added = engine.scripts.add(body, flags, is_loaded);
    added.map_err(|message| {
        CommandError::quoting("ERR Error compiling script (new function): ", &message, "")
    })
}

fn run_script(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    key: ScriptKey,
    is_read_only: bool,
) -> Result<(), CommandError> {
    engine.scripts.note_use(key);
    let script = engine.scripts.script(key);
    let body = Body {
        id: script.id,
        name: Name::Script(script.digest),
        flags: script.flags,
        is_read_only,
    };
    run(engine, caller, args, body)
}

fn run_text(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    is_read_only: bool,
) -> Result<(), CommandError> {
    // What is wrong with the keys is said before anything about the script.
    run::number_of_keys(args)?;
    let body = args.get(1);
    let key = match engine.scripts.find_text(body) {
        Some(key) => key,
        None => add(engine, body, false)?,
    };
    run_script(engine, caller, args, key, is_read_only)
}

fn run_digest(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    is_read_only: bool,
) -> Result<(), CommandError> {
    let digest = parse_digest(args.get(1)).ok_or(NO_SCRIPT)?;
    let key = engine.scripts.find(&digest).ok_or(NO_SCRIPT)?;
    run_script(engine, caller, args, key, is_read_only)
}

fn eval(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    run_text(engine, caller, args, false)
}

fn eval_ro(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    run_text(engine, caller, args, true)
}

fn evalsha(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    run_digest(engine, caller, args, false)
}

fn evalsha_ro(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    run_digest(engine, caller, args, true)
}

fn script_exists(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    caller.reply().array(args.len() - 2);
    for text in args.from(2) {
        let digest = parse_digest(text);
        let is_there = digest.is_some_and(|digest| engine.scripts.find(&digest).is_some());
        caller.reply().integer(i64::from(is_there));
    }
    Ok(())
}

fn script_flush(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let is_known = args.len() == 2 || args.is(2, "async") || args.is(2, "sync");
    if args.len() > 3 || !is_known {
        return Err(CommandError::text(
            "ERR SCRIPT FLUSH only support SYNC|ASYNC option",
        ));
    }
    engine.scripts.flush();
    caller.reply().ok();
    Ok(())
}

fn script_help(_: &mut Engine, caller: &mut Caller<'_>, _: Args<'_>) -> Result<(), CommandError> {
    reply_help(&mut caller.reply(), "script");
    Ok(())
}

/// Ends what runs, which is a function or a script.
fn kill(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    kills_function: bool,
) -> Result<(), CommandError> {
    let Some(running) = &mut engine.scripts.running else {
        return Err(CommandError::text(
            "NOTBUSY No scripts in execution right now.",
        ));
    };
    if running.is_function != kills_function {
        return Err(running.refusal());
    }
    if running.has_written {
        return Err(CommandError::text(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. You \
             can either wait the script termination or kill the server in a hard way using the \
             SHUTDOWN NOSAVE command.",
        ));
    }
    running.is_killed = true;
    caller.reply().ok();
    Ok(())
}

fn script_kill(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    _: Args<'_>,
) -> Result<(), CommandError> {
    kill(engine, caller, false)
}

fn script_load(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let body = args.get(2);
    match engine.scripts.find_text(body) {
        Some(key) => engine.scripts.keep(key),
        None => drop(add(engine, body, true)?),
    }
    caller.reply().bulk(&hex(&digest_of(body)));
    Ok(())
}

/// Redis: has no such subcommand; Valkey has.
fn script_show(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let digest = parse_digest(args.get(2)).ok_or(NO_SCRIPT)?;
    let key = engine.scripts.find(&digest).ok_or(NO_SCRIPT)?;
    caller.reply().bulk(&engine.scripts.script(key).body);
    Ok(())
}
