//! BITOP: strings combined bit by bit.

use crate::command::dispatch::args::Args;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::StringRef;
use crate::value::bits::{self, Operation};

/// The words for them.
const OPERATIONS: &[(&str, Operation)] = &[
    ("AND", Operation::And),
    ("OR", Operation::Or),
    ("XOR", Operation::Xor),
    ("NOT", Operation::Not),
    ("DIFF", Operation::Diff),
    ("DIFF1", Operation::Diff1),
    ("ANDOR", Operation::AndOr),
    ("ONE", Operation::One),
];

/// BITOP.
pub const COMMANDS: &[Row] = &[Row {
    name: "bitop",
    arity: -4,
    flags: flag::WRITE | flag::DENYOOM | flag::LONG,
    categories: category::WRITE | category::BITMAP | category::SLOW,
    keys: &[
        KeySpec::at(2, key_flag::OW | key_flag::UPDATE),
        KeySpec::to_end(3, 1, key_flag::RO | key_flag::ACCESS),
    ],
    group: Group::Bitmap,
    since: "2.6.0",
    complexity: "O(N) with N the length of all strings",
    summary: "Combines strings bit by bit and stores the result.",
    args: &[
        Arg::one_of(
            "operation",
            &[
                Arg::word("and", "AND"),
                Arg::word("or", "OR"),
                Arg::word("xor", "XOR"),
                Arg::word("not", "NOT"),
                Arg::word("diff", "DIFF").since("8.2.0"),
                Arg::word("diff1", "DIFF1").since("8.2.0"),
                Arg::word("andor", "ANDOR").since("8.2.0"),
                Arg::word("one", "ONE").since("8.2.0"),
            ],
        ),
        Arg::key("destkey"),
        Arg::key("key").key_spec(1).multiple(),
    ],
    subcommands: &[],
    handler: Data(bitop),
}];

fn bitop(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let named = OPERATIONS.iter().find(|(word, _)| args.is(1, word));
    let &(word, operation) = named.ok_or(CommandError::Syntax)?;
    let keys = args.len() - 3;
    match operation {
        Operation::Not if keys != 1 => {
            return Err(CommandError::text(
                "ERR BITOP NOT must be called with a single source key.",
            ));
        }
        Operation::Diff | Operation::Diff1 | Operation::AndOr if keys < 2 => {
            return Err(CommandError::owned(format!(
                "ERR BITOP {word} must be called with at least two source keys."
            )));
        }
        _ => {}
    }
    let sources: Result<Vec<Option<StringRef<'_>>>, _> =
        args.from(3).map(|key| live.string(key)).collect();
    let sources = sources?;
    let slices: Vec<&[u8]> = sources
        .iter()
        .map(|source| source.as_ref().map_or(b"".as_slice(), |source| source))
        .collect();
    let result = bits::combine(operation, &slices);
    let destination = args.get(2);
    let len = result.len() as i64;
    if result.is_empty() {
        if live.remove(destination) {
            live.changed(Event::DEL, destination);
        }
    } else {
        live.set_computed(destination, result);
        live.changed(Event::SET, destination);
    }
    reply.integer(len);
    Ok(())
}
