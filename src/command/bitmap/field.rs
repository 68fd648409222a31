//! BITFIELD and BITFIELD_RO: integers of any number of bits, anywhere in a string.

use super::offset;
use crate::command::dispatch::args::Args;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::bits::{Field, Overflow};
use crate::value::number::parse_i64;

const GET: &[Arg] = &[
    Arg::new("encoding", ArgKind::String),
    Arg::new("offset", ArgKind::Integer),
];
const OVERFLOW: &[Arg] = &[
    Arg::word("wrap", "WRAP"),
    Arg::word("sat", "SAT"),
    Arg::word("fail", "FAIL"),
];
const WRITE: &[Arg] = &[
    Arg::one_of("overflow-block", OVERFLOW)
        .token("OVERFLOW")
        .optional(),
    Arg::one_of(
        "write-operation",
        &[
            Arg::block(
                "set-block",
                &[
                    Arg::new("encoding", ArgKind::String),
                    Arg::new("offset", ArgKind::Integer),
                    Arg::new("value", ArgKind::Integer),
                ],
            )
            .token("SET"),
            Arg::block(
                "incrby-block",
                &[
                    Arg::new("encoding", ArgKind::String),
                    Arg::new("offset", ArgKind::Integer),
                    Arg::new("increment", ArgKind::Integer),
                ],
            )
            .token("INCRBY"),
        ],
    ),
];

/// BITFIELD and BITFIELD_RO.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "bitfield",
        arity: -2,
        flags: flag::WRITE | flag::DENYOOM,
        categories: category::WRITE | category::BITMAP | category::SLOW,
        keys: &[
            KeySpec::at(1, key_flag::RW | key_flag::ACCESS | key_flag::UPDATE)
                .flags_by(bitfield_key),
        ],
        group: Group::Bitmap,
        since: "3.2.0",
        complexity: "O(1) for each operation",
        summary: "Reads and writes integers of any number of bits in a string.",
        args: &[
            Arg::key("key"),
            Arg::one_of(
                "operation",
                &[
                    Arg::block("get-block", GET).token("GET"),
                    Arg::block("write", WRITE),
                ],
            )
            .optional()
            .multiple(),
        ],
        subcommands: &[],
        handler: Data(bitfield),
    },
    Row {
        name: "bitfield_ro",
        arity: -2,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::BITMAP | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Bitmap,
        since: "6.0.0",
        complexity: "O(1) for each operation",
        summary: "Reads integers of any number of bits in a string.",
        args: &[
            Arg::key("key"),
            Arg {
                multiple_token: true,
                ..Arg::block("get-block", GET)
                    .token("GET")
                    .optional()
                    .multiple()
            },
        ],
        subcommands: &[],
        handler: Data(bitfield_ro),
    },
];

/// What BITFIELD does with its key: it only reads if all its operations are GET.
fn bitfield_key(args: Args<'_>, start: usize) -> u16 {
    let is_written = operations(args, start + 2).is_none_or(|found| {
        let mut words = found.iter().map(|&at| args.get(at));
        words.any(|word| !word.eq_ignore_ascii_case(b"get"))
    });
    if is_written {
        key_flag::RW | key_flag::ACCESS | key_flag::UPDATE
    } else {
        key_flag::RO | key_flag::ACCESS
    }
}

/// Where the words of operations are, those of OVERFLOW left out; none if something else is there.
fn operations(args: Args<'_>, mut at: usize) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    while at < args.len() {
        let arguments = match args.get(at).to_ascii_lowercase().as_slice() {
            b"get" => 2,
            b"set" | b"incrby" => 3,
            b"overflow" => 1,
            _ => return None,
        };
        if arguments > 1 {
            found.push(at);
        }
        at += 1 + arguments;
    }
    Some(found)
}

/// What is done to the number that is there.
#[derive(Clone, Copy)]
enum Change {
    None,
    Set(i64),
    Add(i64),
}

struct Step {
    field: Field,
    at: u64,
    change: Change,
    overflow: Overflow,
}

impl Step {
    /// The number that is to be written; none if it does not fit.
    fn next(&self, old: i64) -> Option<i64> {
        let number = match self.change {
            Change::None => return None,
            // Without a sign, a negative number is a very large one.
            Change::Set(number) if !self.field.is_signed => i128::from(number as u64),
            Change::Set(number) => i128::from(number),
            Change::Add(number) => i128::from(old) + i128::from(number),
        };
        self.field.fit(number, self.overflow)
    }

    fn is_write(&self) -> bool {
        !matches!(self.change, Change::None)
    }
}

/// `i` or `u` and the number of bits.
fn field(text: &[u8]) -> Option<Field> {
    let (&sign, bits) = text.split_first()?;
    let is_signed = match sign {
        b'i' => true,
        b'u' => false,
        _ => return None,
    };
    let bits = parse_i64(bits).and_then(|bits| u32::try_from(bits).ok())?;
    let most = if is_signed { 64 } else { 63 };
    (1..=most)
        .contains(&bits)
        .then_some(Field { is_signed, bits })
}

fn parse(live: &Live<'_>, args: Args<'_>) -> Result<Vec<Step>, CommandError> {
    let mut steps = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut i = 2;
    while i < args.len() {
        let left = args.len() - i - 1;
        let (is_get, is_set) = (args.is(i, "get"), args.is(i, "set"));
        if args.is(i, "overflow") && left >= 1 {
            overflow = match args.get(i + 1).to_ascii_lowercase().as_slice() {
                b"wrap" => Overflow::Wrap,
                b"sat" => Overflow::Saturate,
                b"fail" => Overflow::Fail,
                _ => return Err(CommandError::text("ERR Invalid OVERFLOW type specified")),
            };
            i += 2;
            continue;
        }
        let arguments = if is_get { 2 } else { 3 };
        if left < arguments || !(is_get || is_set || args.is(i, "incrby")) {
            return Err(CommandError::Syntax);
        }
        let field = field(args.get(i + 1)).ok_or(CommandError::text(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported \
             but i64 is.",
        ))?;
        let at = match args.get(i + 2) {
            [b'#', number @ ..] => offset(live, number, u64::from(field.bits))?,
            number => offset(live, number, 1)?,
        };
        let change = match is_get {
            true => Change::None,
            false if is_set => Change::Set(args.integer(i + 3)?),
            false => Change::Add(args.integer(i + 3)?),
        };
        steps.push(Step {
            field,
            at,
            change,
            overflow,
        });
        i += 1 + arguments;
    }
    Ok(steps)
}

/// Answers each step from the string as the steps before have left it, and does it; how many have
/// changed something.
fn run(steps: &[Step], bytes: &mut [u8], reply: &mut Reply<'_>) -> usize {
    let mut changes = 0;
    for step in steps {
        let old = step.field.read(bytes, step.at);
        let next = step.next(old);
        match (step.change, next) {
            (Change::None | Change::Set(_), Some(_)) | (Change::None, None) => reply.integer(old),
            (Change::Add(_), Some(next)) => reply.integer(next),
            (_, None) => reply.null(),
        }
        if let Some(next) = next
            && next != old
        {
            step.field.write(bytes, step.at, next);
            changes += 1;
        }
    }
    changes
}

fn read(
    live: &mut Live<'_>,
    key: &[u8],
    steps: &[Step],
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let string = live.string(key)?;
    let bytes = string.as_ref().map_or(b"".as_slice(), |string| string);
    reply.array(steps.len());
    for step in steps {
        reply.integer(step.field.read(bytes, step.at));
    }
    Ok(())
}

fn bitfield(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let key = args.get(1);
    let steps = parse(live, args)?;
    if !steps.iter().any(Step::is_write) {
        return read(live, key, &steps, reply);
    }
    let writes = steps.iter().filter(|step| step.is_write());
    let end = writes
        .map(|step| step.field.end(step.at))
        .max()
        .unwrap_or(0);
    let len = live.peek_string(key)?.map(|string| string.len());
    let is_longer = len.is_none_or(|len| len < end);
    let mut changes = 0;
    reply.array(steps.len());
    live.edit_string(key, len.unwrap_or(0).max(end), |bytes| {
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        changes = run(&steps, bytes, reply);
    });
    // Redis: a string that has only become longer counts as unchanged.
    let changes = changes.max(usize::from(is_longer));
    if changes > 0 {
        live.changed_by(Event::SETBIT, key, changes);
    }
    Ok(())
}

fn bitfield_ro(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let steps = parse(live, args)?;
    if steps.iter().any(Step::is_write) {
        return Err(CommandError::text(
            "ERR BITFIELD_RO only supports the GET subcommand",
        ));
    }
    read(live, args.get(1), &steps, reply)
}
