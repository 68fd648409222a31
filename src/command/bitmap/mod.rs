//! Bits of strings: SETBIT and GETBIT, and what counts and looks for them. Strings are combined in
//! [`operate`]; integers in them are read and written in [`field`].

pub mod operate;

pub mod field;

use crate::command::dispatch::args::Args;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::bits;
use crate::value::number::parse_i64;

const UNIT: &[Arg] = &[Arg::word("byte", "BYTE"), Arg::word("bit", "BIT")];

/// The commands on single bits.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "setbit",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM,
        categories: category::WRITE | category::BITMAP | category::SLOW,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::UPDATE,
        )],
        group: Group::Bitmap,
        since: "2.2.0",
        complexity: "O(1), and O(N) to make a string of N bytes longer",
        summary: "Sets or clears a bit of a string.",
        args: &[
            Arg::key("key"),
            Arg::new("offset", ArgKind::Integer),
            Arg::new("value", ArgKind::Integer),
        ],
        subcommands: &[],
        handler: Data(setbit),
    },
    Row {
        name: "getbit",
        arity: 3,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::BITMAP | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Bitmap,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Returns a bit of a string.",
        args: &[Arg::key("key"), Arg::new("offset", ArgKind::Integer)],
        subcommands: &[],
        handler: Data(getbit),
    },
    Row {
        name: "bitcount",
        arity: -2,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::BITMAP | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Bitmap,
        since: "2.6.0",
        complexity: "O(N) with N the length of the string",
        summary: "Counts the bits of a string that are set.",
        args: &[
            Arg::key("key"),
            Arg::block(
                "range",
                &[
                    Arg::new("start", ArgKind::Integer),
                    Arg::new("end", ArgKind::Integer),
                    Arg::one_of("unit", UNIT).optional().since("7.0.0"),
                ],
            )
            .optional(),
        ],
        subcommands: &[],
        handler: Data(bitcount),
    },
    Row {
        name: "bitpos",
        arity: -3,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::BITMAP | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Bitmap,
        since: "2.8.7",
        complexity: "O(N) with N the length of the string",
        summary: "Finds the first bit of a string that is set, or that is not.",
        args: &[
            Arg::key("key"),
            Arg::new("bit", ArgKind::Integer),
            Arg::block(
                "range",
                &[
                    Arg::new("start", ArgKind::Integer),
                    Arg::block(
                        "end-unit-block",
                        &[
                            Arg::new("end", ArgKind::Integer),
                            Arg::one_of("unit", UNIT).optional().since("7.0.0"),
                        ],
                    )
                    .optional(),
                ],
            )
            .optional(),
        ],
        subcommands: &[],
        handler: Data(bitpos),
    },
];

const OFFSET: CommandError = CommandError::text("ERR bit offset is not an integer or out of range");

/// The index of a bit that a string may have.
fn offset(live: &Live<'_>, text: &[u8], factor: u64) -> Result<u64, CommandError> {
    let number = parse_i64(text).and_then(|number| u64::try_from(number).ok());
    let number = number.and_then(|number| number.checked_mul(factor));
    number
        .filter(|number| number / 8 < live.string_bytes_max() as u64)
        .ok_or(OFFSET)
}

fn setbit(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let at = offset(live, args.get(2), 1)?;
    let bit = match args.get(3) {
        b"0" => false,
        b"1" => true,
        _ => {
            return Err(CommandError::text(
                "ERR bit is not an integer or out of range",
            ));
        }
    };
    let string = live.peek_string(key)?;
    let len = string.map(|string| string.len());
    let old = string.is_some_and(|string| bits::get(&string, at));
    let end = (at / 8 + 1) as usize;
    let is_longer = len.is_none_or(|len| len < end);
    if is_longer || old != bit {
        live.edit_string(key, len.unwrap_or(0).max(end), |bytes| {
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bits::set(bytes, at, bit);
        });
        live.changed(Event::SETBIT, key);
    }
    reply.integer(i64::from(old));
    Ok(())
}

fn getbit(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let at = offset(live, args.get(2), 1)?;
    let string = live.string(args.get(1))?;
    let bit = string.is_some_and(|string| bits::get(&string, at));
    reply.integer(i64::from(bit));
    Ok(())
}

/// The range that arguments from `at` on name, in bytes unless a word says otherwise.
struct Range {
    start: i64,
    end: Option<i64>,
    is_of_bits: bool,
}

impl Range {
    /// # Errors
    /// What is no number, or another word.
    fn parse(args: Args<'_>, at: usize) -> Result<Range, CommandError> {
        let start = args.integer(at)?;
        let end = match args.len() - at {
            1 => None,
            _ => Some(args.integer(at + 1)?),
        };
        Ok(Range {
            start,
            end,
            is_of_bits: is_unit_of_bits(args, at + 2)?,
        })
    }

    /// The first and the last bit of it in a string; none if it is empty.
    fn within(&self, bytes: &[u8]) -> Option<(u64, u64)> {
        let unit = if self.is_of_bits { 1 } else { 8 };
        let units = (bytes.len() as i64 * 8) / unit;
        let end = self.end.unwrap_or(-1);
        let place = |number: i64| {
            let from_end = if number < 0 {
                units.saturating_add(number)
            } else {
                number
            };
            from_end.max(0)
        };
        let (start, end) = (place(self.start), place(end).min(units - 1));
        (start <= end).then(|| ((start * unit) as u64, (end * unit + unit - 1) as u64))
    }
}

/// Whether the last argument, if there is one at this place, says that a range is one of bits.
fn is_unit_of_bits(args: Args<'_>, at: usize) -> Result<bool, CommandError> {
    match args.len().saturating_sub(at) {
        0 => Ok(false),
        1 if args.is(at, "bit") => Ok(true),
        1 if args.is(at, "byte") => Ok(false),
        _ => Err(CommandError::Syntax),
    }
}

fn bitcount(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    if args.len() == 3 || args.len() > 5 {
        return Err(CommandError::Syntax);
    }
    let range = match args.len() {
        2 => None,
        _ => Some(Range::parse(args, 2)?),
    };
    let string = live.string(args.get(1))?;
    let bytes = string.as_ref().map_or(b"".as_slice(), |string| string);
    let ones = match range {
        None => bits::count(bytes),
        // Redis: both negative and crossed is empty before they are brought into range.
        Some(Range {
            start,
            end: Some(end),
            ..
        }) if start < 0 && end < 0 && start > end => 0,
        Some(range) => range
            .within(bytes)
            .map_or(0, |(first, last)| bits::count_between(bytes, first, last)),
    };
    reply.integer(ones as i64);
    Ok(())
}

fn bitpos(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let bit = match args.integer(2)? {
        0 => false,
        1 => true,
        _ => {
            return Err(CommandError::text("ERR The bit argument must be 1 or 0."));
        }
    };
    if args.len() > 6 {
        return Err(CommandError::Syntax);
    }
    let range = match args.len() {
        3 => Range {
            start: 0,
            end: None,
            is_of_bits: false,
        },
        _ => {
            // Redis: here, unlike in BITCOUNT, the unit is looked at before the end.
            args.integer(3)?;
            is_unit_of_bits(args, 5)?;
            Range::parse(args, 3)?
        }
    };
    let Some(string) = live.string(args.get(1))? else {
        // Nothing is a string of zeros without end.
        reply.integer(if bit { -1 } else { 0 });
        return Ok(());
    };
    let bytes = string.as_bytes();
    let found = range
        .within(bytes)
        .map(|(first, last)| bits::find(bytes, bit, first, last));
    reply.integer(match found {
        None => -1,
        Some(Some(at)) => at as i64,
        // Behind the end there are zeros, for whoever has not set an end.
        Some(None) if !bit && range.end.is_none() => bytes.len() as i64 * 8,
        Some(None) => -1,
    });
    Ok(())
}
