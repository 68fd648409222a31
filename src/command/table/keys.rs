//! Which keys a command line names, and what the command does with each: COMMAND GETKEYS today.
//!
//! It follows from the row alone: from the places that its [`KeySpec`]s name or, where only the
//! arguments tell, from the functions they carry.

use crate::command::dispatch::args::Args;
use crate::command::table::row::{KeySearch, KeySpec, Row, key_flag};
use crate::resp::error::CommandError;

/// A key among the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// Index of the argument.
    pub at: usize,
    /// What the command does with it, as bits of [`key_flag`].
    pub flags: u16,
}

/// The keys of a command line, whose name is argument `start`. Channels are none.
///
/// # Errors
/// If the row has no keys, or the arguments cannot be those of the command.
pub fn keys_of(row: &Row, args: Args<'_>, start: usize) -> Result<Vec<KeyUse>, CommandError> {
    let is_key = |spec: &&KeySpec| spec.flags & key_flag::NOT_KEY == 0;
    if !row.keys.iter().any(|spec| is_key(&spec)) {
        return Err(CommandError::text("ERR The command has no key arguments"));
    }
    if !row.takes(args.len() - start) {
        return Err(CommandError::text(
            "ERR Invalid number of arguments specified for command",
        ));
    }
    let mut keys = Vec::new();
    for spec in row.keys.iter().filter(is_key) {
        let flags = match spec.flags_by {
            Some(flags_by) => flags_by(args, start),
            None => spec.flags,
        };
        if let Some(found_by) = spec.found_by {
            let found = found_by(args, start);
            keys.extend(found.map(|at| KeyUse { at, flags }));
        }
        if let Some((first, last)) = places(spec, args, start)? {
            let places = (first..=last).step_by(spec.step as usize);
            keys.extend(places.map(|at| KeyUse {
                at: start + at,
                flags,
            }));
        }
    }
    Ok(keys)
}

/// The first and the last place of keys, counted from the command's name; none if only the command
/// itself can tell.
fn places(
    spec: &KeySpec,
    args: Args<'_>,
    start: usize,
) -> Result<Option<(usize, usize)>, CommandError> {
    let wrong = || CommandError::text("ERR Invalid arguments specified for command");
    let len = args.len() - start;
    let first = spec.first_key();
    let last = match spec.search {
        KeySearch::Unknown => return Ok(None),
        KeySearch::Counted => {
            let number = args.integer(start + usize::from(spec.first));
            let count = number.ok().and_then(|n| usize::try_from(n).ok());
            let count = count.filter(|n| *n > 0).ok_or_else(wrong)?;
            let last = (count - 1)
                .saturating_mul(usize::from(spec.step))
                .saturating_add(first);
            if last >= len {
                return Err(wrong());
            }
            last
        }
        KeySearch::BehindWord(word) => {
            let mut places = start + first..args.len();
            let found = places.find(|&place| args.is(place, word));
            let first = found.ok_or_else(wrong)? + 1 - start;
            let behind = len - first;
            if behind == 0 || !behind.is_multiple_of(2) {
                return Err(wrong());
            }
            return Ok(Some((first, first + behind / 2 - 1)));
        }
        KeySearch::Range if spec.last < 0 => len - usize::from(spec.last.unsigned_abs()),
        KeySearch::Range => first + spec.last as usize,
    };
    Ok(Some((first, last.min(len - 1))))
}
