//! The arguments of one command, and how their usual kinds are read.

use bytes::Bytes;

use crate::engine::session::Queued;
use crate::resp::error::CommandError;
use crate::resp::output::Mark;
use crate::resp::reply::Reply;
use crate::resp::request::{ArgRange, Source};
use crate::value::number::parse_i64;

/// An error about an unknown name quotes at most this many bytes of it.
pub const QUOTED_LEN_MAX: usize = 128;
/// Random draws that may repeat each other, in one command.
///
/// Redis: there is no limit, and a reply of billions of elements takes all memory there is.
pub const REPEATED_DRAWS_MAX: u64 = 1 << 24;

/// The reply of such draws may take so many bytes.
const REPEATED_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// The reply of draws that may repeat each other: how many they are is said before it is known how
/// large they are.
pub struct RepeatedDraws {
    start: Mark,
}

impl RepeatedDraws {
    /// Before anything is replied.
    pub fn begin(reply: &mut Reply<'_>) -> RepeatedDraws {
        RepeatedDraws {
            start: reply.output().mark(),
        }
    }

    /// Whether the next one may be replied.
    pub fn go_on(&self, reply: &mut Reply<'_>) -> bool {
        reply.output().len_since(self.start) <= REPEATED_BYTES_MAX
    }

    /// After the last.
    ///
    /// # Errors
    /// If they are too large together; the reply is taken back.
    pub fn end(self, reply: &mut Reply<'_>) -> Result<(), CommandError> {
        if self.go_on(reply) {
            return Ok(());
        }
        reply.output().truncate_to(self.start);
        Err(CommandError::text("ERR value is out of range"))
    }
}

/// How many random draws that may repeat each other a negative count asks for.
///
/// # Errors
/// If they are more than one command may make.
fn repeated_draws(count: i64) -> Result<usize, CommandError> {
    let draws = count.unsigned_abs();
    if draws > REPEATED_DRAWS_MAX {
        return Err(CommandError::text("ERR value is out of range"));
    }
    Ok(draws as usize)
}

/// How many draws a count of [`Args::draws`] asks for, from a collection of so many elements.
///
/// # Errors
/// If they are more than one command may make.
pub fn draws_from(count: i64, len: usize) -> Result<usize, CommandError> {
    match usize::try_from(count) {
        Ok(count) => Ok(count.min(len)),
        Err(_) => repeated_draws(count),
    }
}

/// Arguments of a command; number 0 is its name. Ranges over what they arrived in.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    source: Source<'a>,
    ranges: &'a [ArgRange],
}

impl<'a> Args<'a> {
    /// Arguments lying in `source`.
    #[inline]
    pub fn new(source: Source<'a>, ranges: &'a [ArgRange]) -> Args<'a> {
        Args { source, ranges }
    }

    /// Number of arguments, the name included.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there are none at all.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The argument at `index`.
    ///
    /// # Panics
    /// If there is none; arity is checked before a handler runs.
    #[inline(always)]
    pub fn get(&self, index: usize) -> &'a [u8] {
        self.ranges[index].of(self.source)
    }

    /// The argument at `index`, if there is one.
    pub fn at(&self, index: usize) -> Option<&'a [u8]> {
        (index < self.len()).then(|| self.get(index))
    }

    /// The argument at `index`, if it is large and can be shared.
    #[inline]
    pub fn shared(&self, index: usize) -> Option<Bytes> {
        let number = self.ranges[index].number()?;
        Some(self.source.large[number].clone())
    }

    /// Arguments from `index` on.
    pub fn from(&self, index: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let args = *self;
        (index..args.len()).map(move |i| args.get(i))
    }

    /// A copy of the arguments that EXEC can run later as the command of this row.
    pub fn queued(&self, row: u16) -> Queued {
        Queued::new(row, self.source, self.ranges)
    }

    /// The same with other arguments in some places.
    pub fn queued_replacing<'r>(
        &self,
        row: u16,
        replacement: impl Fn(usize) -> Option<&'r [u8]>,
    ) -> Queued {
        Queued::replacing(row, self.source, self.ranges, replacement)
    }

    /// The argument at `index` as an integer.
    ///
    /// # Errors
    /// If it is none of 64 bits in canonical form.
    pub fn integer(&self, index: usize) -> Result<i64, CommandError> {
        parse_i64(self.get(index)).ok_or(CommandError::NotAnInteger)
    }

    /// The argument at `index` as an integer of 32 bits, which Redis wants of a database's number.
    ///
    /// # Errors
    /// If it is no integer, or one of more bits.
    pub fn short_integer(&self, index: usize) -> Result<i32, CommandError> {
        i32::try_from(self.integer(index)?).map_err(|_| {
            CommandError::text(
                "ERR value is out of range, value must between -2147483648 and 2147483647",
            )
        })
    }

    /// The argument at `index` as a number of random draws; negative if they may repeat each other.
    ///
    /// # Errors
    /// If it is no integer, or the one that has no opposite.
    pub fn draws(&self, index: usize) -> Result<i64, CommandError> {
        match self.integer(index)? {
            i64::MIN => Err(CommandError::text(
                "ERR value is out of range, value must between -9223372036854775807 and \
                 9223372036854775807",
            )),
            draws => Ok(draws),
        }
    }

    /// The number of draws at argument 2 and whether the word that may follow it does, which asks
    /// for a second string with each element.
    ///
    /// # Errors
    /// Those of [`Args::draws`]; something else behind the number; a reply that RESP2 could not
    /// count, which has two elements for each then.
    pub fn draws_and_word(&self, word: &str) -> Result<(i64, bool), CommandError> {
        let count = self.draws(2)?;
        let has_word = self.len() == 4 && self.is(3, word);
        if self.len() > 3 && !has_word {
            return Err(CommandError::Syntax);
        }
        if has_word && count.unsigned_abs() > i64::MAX as u64 / 2 {
            return Err(CommandError::text("ERR value is out of range"));
        }
        Ok((count, has_word))
    }

    /// Whether the argument at `index` is this word, whatever its case.
    pub fn is(&self, index: usize, word: &str) -> bool {
        self.get(index).eq_ignore_ascii_case(word.as_bytes())
    }

    /// The argument at `index` as error messages quote it: its bytes up to the first zero byte, as
    /// far as `len_max`.
    pub fn quoted(&self, index: usize, len_max: usize) -> &'a [u8] {
        let arg = self.get(index);
        let end = memchr::memchr(0, arg).unwrap_or(arg.len());
        &arg[..end.min(len_max)]
    }

    /// The error that quotes the argument at `index` between two pieces of text.
    pub fn refused(&self, before: &str, index: usize, after: &str) -> CommandError {
        CommandError::quoting(before, self.quoted(index, usize::MAX), after)
    }

    /// The argument at `index` as text; bytes that are none are replaced.
    pub fn text(&self, index: usize) -> String {
        String::from_utf8_lossy(self.get(index)).into_owned()
    }
}

impl<'a> std::ops::Index<usize> for Args<'a> {
    type Output = [u8];

    #[inline(always)]
    fn index(&self, index: usize) -> &[u8] {
        self.get(index)
    }
}
