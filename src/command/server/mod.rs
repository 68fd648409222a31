//! The server itself: its clock, its role, what its keys cost, and a picture.
//!
//! CLUSTER exists to say that there is no cluster, and MEMORY for USAGE only: INFO has the other
//! figures that Redis' MEMORY reports.

pub mod introspect;

pub mod config;

pub mod info;

pub mod snapshot;

pub mod debug;

mod digest;

use rand::Rng;

use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::server::introspect::refer_to_help;
use crate::command::table::reply_help;
use crate::command::table::row::Handler::{Container, Data, Engine as OnEngine};
use crate::command::table::row::*;
use crate::engine::Engine;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;

/// The commands on the server.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "time",
        arity: 1,
        flags: flag::LOADING | flag::STALE | flag::FAST,
        categories: category::FAST,
        keys: &[],
        group: Group::Server,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Returns the server's time, as Unix seconds and microseconds.",
        args: &[],
        subcommands: &[],
        handler: OnEngine(time),
    },
    Row {
        name: "role",
        arity: 1,
        flags: flag::NOSCRIPT | flag::LOADING | flag::STALE | flag::FAST,
        categories: category::ADMIN | category::FAST | category::DANGEROUS,
        keys: &[],
        group: Group::Server,
        since: "2.8.12",
        complexity: "O(1)",
        summary: "Returns the server's role in replication: always master.",
        args: &[],
        subcommands: &[],
        handler: OnEngine(role),
    },
    Row {
        name: "memory",
        arity: -2,
        flags: flag::LONG,
        categories: category::SLOW,
        keys: &[],
        group: Group::Server,
        since: "4.0.0",
        complexity: "That of the subcommand",
        summary: "Groups the commands on memory use.",
        args: &[],
        subcommands: MEMORY,
        handler: Container,
    },
    Row {
        name: "lolwut",
        arity: -1,
        flags: flag::READONLY | flag::FAST | flag::LONG,
        categories: category::READ | category::FAST,
        keys: &[],
        group: Group::Server,
        since: "5.0.0",
        complexity: "",
        summary: "Returns a drawing with the server's version.",
        args: &[Arg::new("version", ArgKind::Integer)
            .token("VERSION")
            .optional()],
        subcommands: &[],
        handler: OnEngine(lolwut),
    },
    Row {
        name: "cluster",
        arity: -2,
        flags: flag::LONG,
        categories: category::SLOW,
        keys: &[],
        group: Group::Cluster,
        since: "3.0.0",
        complexity: "That of the subcommand",
        summary: "Groups the commands on the cluster.",
        args: &[],
        subcommands: &[],
        handler: OnEngine(cluster),
    },
];

/// Subcommands of MEMORY.
const MEMORY: &[Row] = &[
    Row {
        name: "usage",
        arity: -3,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::SLOW,
        keys: &[KeySpec::at(2, key_flag::RO)],
        group: Group::Server,
        since: "4.0.0",
        complexity: "O(N) with N the number of samples",
        summary: "Returns how many bytes of memory a key and its value take.",
        args: &[
            Arg::key("key"),
            Arg::new("count", ArgKind::Integer)
                .token("SAMPLES")
                .optional(),
        ],
        subcommands: &[],
        handler: Data(memory_usage),
    },
    Row {
        name: "help",
        arity: 2,
        flags: flag::LOADING | flag::STALE,
        categories: category::SLOW,
        keys: &[],
        group: Group::Server,
        since: "4.0.0",
        complexity: "O(1)",
        summary: "Lists the subcommands of MEMORY, each with a short description.",
        args: &[],
        subcommands: &[],
        handler: OnEngine(memory_help),
    },
];

fn time(engine: &mut Engine, caller: &mut Caller<'_>, _args: Args<'_>) -> Result<(), CommandError> {
    let wall_us = engine.reading.wall_us;
    let mut reply = caller.reply();
    reply.array(2);
    reply.bulk_integer(wall_us.div_euclid(1_000_000));
    reply.bulk_integer(wall_us.rem_euclid(1_000_000));
    Ok(())
}

/// There is no replication: always a master, at offset 0, without replicas.
fn role(_: &mut Engine, caller: &mut Caller<'_>, _args: Args<'_>) -> Result<(), CommandError> {
    let mut reply = caller.reply();
    reply.array(3);
    reply.bulk(b"master");
    reply.integer(0);
    reply.array(0);
    Ok(())
}

/// Subcommands of CLUSTER with their arity: what is none of them hears so, and the others that
/// there is no cluster.
const CLUSTER: &[(&str, i16)] = &[
    ("addslots", -3),
    ("addslotsrange", -4),
    ("bumpepoch", 2),
    ("count-failure-reports", 3),
    ("countkeysinslot", 3),
    ("delslots", -3),
    ("delslotsrange", -4),
    ("failover", -2),
    ("flushslots", 2),
    ("forget", 3),
    ("getkeysinslot", 4),
    ("help", 2),
    ("info", 2),
    ("keyslot", 3),
    ("links", 2),
    ("meet", -4),
    ("myid", 2),
    ("myshardid", 2),
    ("nodes", 2),
    ("replicas", 3),
    ("replicate", 3),
    ("reset", -2),
    ("saveconfig", 2),
    ("set-config-epoch", 3),
    ("setslot", -4),
    ("shards", 2),
    ("slaves", 3),
    ("slot-stats", -4),
    ("slots", 2),
];

fn cluster(
    _engine: &mut Engine,
    _caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let Some((name, arity)) = CLUSTER.iter().find(|(name, _)| args.is(1, name)) else {
        return Err(refer_to_help("ERR unknown subcommand '", args));
    };
    if !fits(*arity, args.len()) {
        return Err(CommandError::WrongArity(format!("cluster|{name}")));
    }
    Err(CommandError::text(
        "ERR This instance has cluster support disabled",
    ))
}

/// SAMPLES is checked and makes no difference: a value's size is always known exactly.
fn memory_usage(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    for i in (3..args.len()).step_by(2) {
        if !args.is(i, "samples") || i + 1 == args.len() {
            return Err(CommandError::Syntax);
        }
        if args.integer(i + 1)? < 0 {
            return Err(CommandError::Syntax);
        }
    }
    match live.memory_usage(args.get(2)) {
        Some(bytes) => reply.integer(bytes as i64),
        None => reply.null(),
    }
    Ok(())
}

fn memory_help(
    _: &mut Engine,
    caller: &mut Caller<'_>,
    _args: Args<'_>,
) -> Result<(), CommandError> {
    reply_help(&mut caller.reply(), "memory");
    Ok(())
}

/// A mayfly over its pond.
const MAYFLY: &str = r"
                  __   __
        \    ___.-'  `.'  `-.___
         \  (____    |    ____)
    ______\_____ `--.|.--'
   (_o_______,===========-------------
          /  /   |
         /  /    |         one day, well spent
";

/// Columns of the water below it.
const POND_COLUMNS: usize = 48;

/// Redis: each version of it has a drawing of its own. Here there is one drawing, with other waves
/// each time; VERSION is read and makes no difference.
fn lolwut(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    if args.len() > 2 && args.is(1, "version") {
        args.integer(2)?;
    }
    let mut text = MAYFLY[1..].to_owned();
    for _ in 0..3 {
        let water = engine.rng.next_u64();
        text.extend((0..POND_COLUMNS).map(|i| if water >> i & 1 == 0 { '~' } else { '-' }));
        text.push('\n');
    }
    text.push_str(concat!("\nMayfly ver. ", env!("CARGO_PKG_VERSION"), "\n"));
    caller.reply().verbatim(text);
    Ok(())
}
