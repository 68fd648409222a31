//! GETSOFT: a value and whether it is stale, with the right for one caller to refresh it.
//!
//! A value with a soft deadline (`SET key value EX 60 SOFT 30`) is served until its deadline, but
//! from its soft one on it is stale: whoever asks with a lease first is told to refresh it, and the
//! others get the stale value at once. In the same way one of those who miss a key may fill it.
//! What ends a lease is the next write or deletion of the key, or its time. A lease is not data: it
//! is not saved, and the command counts as a reading one.
//!
//! The idea is known as stale-while-revalidate (RFC 5861) and, with leases, from memcached at
//! Facebook (Nishtala et al., NSDI 2013).

use crate::command::dispatch::args::Args;
use crate::command::key::expire::SINCE_MAYFLY;
use crate::command::reply_string;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::live::Freshness;

/// The longest lease, in ms: a day.
const LEASE_MS_MAX: i64 = 86_400_000;

/// The command GETSOFT.
pub const COMMANDS: &[Row] = &[Row {
    name: "getsoft",
    arity: -2,
    flags: flag::READONLY | flag::FAST,
    categories: category::STRING | category::READ | category::FAST,
    keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
    group: Group::String,
    since: SINCE_MAYFLY,
    complexity: "O(1)",
    summary: "Returns a value, whether it is stale, and whether the caller is to refresh it.",
    args: &[
        Arg::key("key"),
        Arg::new("milliseconds", ArgKind::Integer)
            .token("LEASE")
            .optional(),
    ],
    subcommands: &[],
    handler: Data(getsoft),
}];

fn getsoft(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let lease_ms = match args.len() {
        2 => None,
        4 if args.is(2, "lease") => match args.integer(3)? {
            ms @ 1..=LEASE_MS_MAX => Some(ms),
            _ => return Err(CommandError::text("ERR lease is out of range")),
        },
        _ => return Err(CommandError::Syntax),
    };
    let value = live.string(key)?;
    let is_there = value.is_some();
    reply.array(3);
    reply_string(reply, value);
    let freshness = if is_there {
        live.freshness(key, lease_ms)
    } else {
        live.fill_lease(key, lease_ms)
    };
    let (state, ms) = match freshness {
        Freshness::Fresh(ms) => ("fresh", ms.unwrap_or(-1)),
        Freshness::Stale(ms) => ("stale", ms),
        Freshness::StaleAndYours(ms) => ("stale-and-yours", ms),
        Freshness::Missing => ("missing", -2),
        Freshness::MissingAndYours(ms) => ("missing-and-yours", ms),
        Freshness::BeingFilled(ms) => ("being-filled", ms),
    };
    reply.bulk(state.as_bytes());
    reply.integer(ms);
    Ok(())
}
