//! HyperLogLog: counting different elements in little memory. What is counted is a string, see
//! [`crate::value::hyperloglog`].

use crate::command::dispatch::args::Args;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::hyperloglog::{self as hll, Corrupted, REGISTERS};

const ADMINISTRATION: u32 =
    category::HYPERLOGLOG | category::ADMIN | category::SLOW | category::DANGEROUS;

/// The commands on HyperLogLogs.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "pfadd",
        arity: -2,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::HYPERLOGLOG | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::INSERT)],
        group: Group::Hyperloglog,
        since: "2.8.9",
        complexity: "O(1) for each element",
        summary: "Adds elements to a HyperLogLog.",
        args: &[
            Arg::key("key"),
            Arg::new("element", ArgKind::String).optional().multiple(),
        ],
        subcommands: &[],
        handler: Data(pfadd),
    },
    Row {
        name: "pfcount",
        arity: -2,
        flags: flag::READONLY | flag::MAY_REPLICATE | flag::OWN_EFFECT | flag::LONG,
        categories: category::READ | category::HYPERLOGLOG | category::SLOW,
        // It notes the count in the string.
        keys: &[KeySpec::to_end(1, 1, key_flag::RW | key_flag::ACCESS)],
        group: Group::Hyperloglog,
        since: "2.8.9",
        complexity: "O(1) with one key, mostly noted; O(N) with N keys, and each takes longer",
        summary: "Returns about how many different elements were added.",
        args: &[Arg::key("key").multiple()],
        subcommands: &[],
        handler: Data(pfcount),
    },
    Row {
        name: "pfmerge",
        arity: -2,
        flags: flag::WRITE | flag::DENYOOM | flag::LONG,
        categories: category::WRITE | category::HYPERLOGLOG | category::SLOW,
        keys: &[
            KeySpec::at(1, key_flag::RW | key_flag::ACCESS | key_flag::INSERT),
            KeySpec::to_end(2, 1, key_flag::RO | key_flag::ACCESS),
        ],
        group: Group::Hyperloglog,
        since: "2.8.9",
        complexity: "O(N) with N the number of keys",
        summary: "Merges HyperLogLogs into one.",
        args: &[
            Arg::key("destkey"),
            Arg::key("sourcekey").key_spec(1).optional().multiple(),
        ],
        subcommands: &[],
        handler: Data(pfmerge),
    },
    Row {
        name: "pfdebug",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM | flag::ADMIN,
        categories: category::WRITE | ADMINISTRATION,
        keys: &[KeySpec::at(2, key_flag::RW | key_flag::ACCESS)],
        group: Group::Hyperloglog,
        since: "2.8.9",
        complexity: "O(1)",
        summary: "Shows what a HyperLogLog is made of.",
        args: &[Arg::new("subcommand", ArgKind::String), Arg::key("key")],
        subcommands: &[],
        handler: Data(pfdebug),
    },
    Row {
        name: "pfselftest",
        arity: 1,
        flags: flag::ADMIN | flag::LONG,
        categories: ADMINISTRATION,
        keys: &[],
        group: Group::Hyperloglog,
        since: "2.8.9",
        complexity: "O(1)",
        summary: "Tests the two forms of HyperLogLogs and how well they count.",
        args: &[],
        subcommands: &[],
        handler: Data(pfselftest),
    },
];

impl From<Corrupted> for CommandError {
    fn from(_: Corrupted) -> CommandError {
        CommandError::text("INVALIDOBJ Corrupted HLL object detected")
    }
}

/// The HyperLogLog at a key.
fn at<'a>(live: &'a Live<'_>, key: &[u8]) -> Result<Option<&'a [u8]>, CommandError> {
    let string = live.string(key)?.map(|string| string.as_bytes());
    match string {
        Some(bytes) if !hll::is_one(bytes) => Err(CommandError::text(
            "WRONGTYPE Key is not a valid HyperLogLog string value.",
        )),
        other => Ok(other),
    }
}

/// Changes one that is there, or a new one. What goes wrong in the middle leaves it as far as it
/// was changed.
fn edit<T>(
    live: &mut Live<'_>,
    key: &[u8],
    change: impl FnOnce(&mut Vec<u8>, usize) -> Result<T, Corrupted>,
) -> Result<T, CommandError> {
    let sparse_bytes_max = live.sparse_bytes_max();
    let mut result = Err(Corrupted);
    live.edit_string(key, 0, |bytes| {
        if bytes.is_empty() {
            *bytes = hll::empty();
        }
        result = change(bytes, sparse_bytes_max);
    });
    Ok(result?)
}

fn pfadd(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let mut changes = 0;
    let mut missing = Vec::new();
    match at(live, key)? {
        // Made, even without an element.
        None => {
            changes = 1;
            missing.extend(args.from(2).map(hll::place));
        }
        // Mostly it has seen them all, and then nothing is touched.
        Some(bytes) => {
            for place in args.from(2).map(hll::place) {
                if !hll::holds(bytes, place)? {
                    missing.push(place);
                }
            }
        }
    }
    if changes + missing.len() > 0 {
        let raised = edit(live, key, |bytes, sparse_bytes_max| {
            let mut raised = 0;
            for place in missing {
                raised += usize::from(hll::set(bytes, place, sparse_bytes_max)?);
            }
            hll::spoil_count(bytes);
            Ok(raised)
        });
        changes += raised?;
        live.changed_by(Event::PFADD, key, changes);
    }
    reply.integer(i64::from(changes > 0));
    Ok(())
}

fn pfcount(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    if args.len() > 2 {
        let mut registers = Box::new([0; REGISTERS]);
        for key in args.from(1) {
            if let Some(bytes) = at(live, key)? {
                hll::raise(&mut registers, bytes)?;
            }
        }
        reply.integer(hll::estimate(&registers) as i64);
        return Ok(());
    }
    let Some(bytes) = at(live, key)? else {
        reply.integer(0);
        return Ok(());
    };
    let count = match hll::noted_count(bytes) {
        Some(count) => count,
        None => {
            let count = hll::estimate(&*hll::registers(bytes)?);
            let len = bytes.len();
            live.edit_string(key, len, |bytes| hll::note_count(bytes, count));
            live.altered();
            live.effect(args.from(0));
            count
        }
    };
    reply.integer(count as i64);
    Ok(())
}

fn pfmerge(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let mut registers = Box::new([0; REGISTERS]);
    let mut has_dense = false;
    for key in args.from(1) {
        if let Some(bytes) = at(live, key)? {
            has_dense |= hll::is_dense(bytes);
            hll::raise(&mut registers, bytes)?;
        }
    }
    edit(live, key, |bytes, sparse_bytes_max| {
        let mut places = registers.iter().copied().enumerate();
        let mut is_dense = has_dense;
        while !is_dense && let Some(place) = places.find(|place| place.1 > 0) {
            hll::set(bytes, place, sparse_bytes_max)?;
            is_dense = hll::is_dense(bytes);
        }
        if is_dense {
            hll::set_all(bytes, &registers);
        }
        hll::spoil_count(bytes);
        Ok(())
    })?;
    live.changed(Event::PFADD, key);
    reply.ok();
    Ok(())
}

fn pfdebug(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(2);
    let is_missing = || CommandError::text("ERR The specified key does not exist");
    let bytes = at(live, key)?.ok_or_else(is_missing)?;
    let is_dense = hll::is_dense(bytes);
    match args.get(1).to_ascii_lowercase().as_slice() {
        b"encoding" => reply.simple(if is_dense { "dense" } else { "sparse" }),
        b"decode" if is_dense => {
            return Err(CommandError::text("ERR HLL encoding is not sparse"));
        }
        b"decode" => reply.bulk(hll::decode(bytes)?.as_bytes()),
        b"todense" | b"getreg" => {
            let registers = hll::registers(bytes)?;
            if !is_dense {
                edit(live, key, |bytes, _| hll::make_dense(bytes))?;
                live.altered();
            }
            if args.is(1, "todense") {
                reply.integer(i64::from(!is_dense));
            } else {
                reply.array(REGISTERS);
                registers
                    .iter()
                    .for_each(|&value| reply.integer(value.into()));
            }
        }
        _ => {
            return Err(args.refused("ERR Unknown PFDEBUG subcommand '", 1, "'"));
        }
    }
    Ok(())
}

/// Elements that a self-test adds.
const TESTED: u64 = 100_000;

fn pfselftest(_: &mut Live<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let failed = |what: String| CommandError::owned(format!("ERR TESTFAILED {what}"));
    let mut bytes = [hll::empty(), hll::empty()];
    hll::make_dense(&mut bytes[1])?;
    for element in 1..=TESTED {
        let place = hll::place(&element.to_le_bytes());
        for bytes in &mut bytes {
            hll::set(bytes, place, usize::MAX / 2)?;
        }
        if element.is_power_of_two() || element == TESTED {
            let [first, second] = [hll::registers(&bytes[0])?, hll::registers(&bytes[1])?];
            if first != second {
                return Err(failed(format!("the forms differ after {element} elements")));
            }
            // Four times the standard error.
            let count = hll::estimate(&first);
            let most = (element as f64 * 4.0 * 1.04 / (REGISTERS as f64).sqrt()).max(10.0);
            if count.abs_diff(element) as f64 > most {
                return Err(failed(format!("{count} counted of {element} elements")));
            }
        }
    }
    reply.ok();
    Ok(())
}
