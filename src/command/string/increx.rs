//! INCREX: adds to the number at a key within bounds, and changes its deadline, in one step.
//!
//! A result outside the bounds leaves key and deadline as they are, or with SATURATE becomes the
//! bound. A counter per window of time is thus one command: `INCREX k UBOUND 100 EX 60 ENX`.
//!
//! Whole numbers have 64 bits, others are [`LongDouble`]s; a command works on one of them only.

use std::cmp::Ordering;

use crate::command::dispatch::args::Args;
use crate::command::key::expire::{Asked, TtlOption};
use crate::command::string::set_effect;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::expiry::is_due;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::store::db::Ttl;
use crate::value::long_double::LongDouble;
use crate::value::number::{format_i64, parse_i64};

/// The command.
pub const COMMANDS: &[Row] = &[Row {
    name: "increx",
    arity: -2,
    flags: flag::WRITE | flag::DENYOOM | flag::FAST | flag::OWN_EFFECT,
    categories: category::WRITE | category::STRING | category::FAST,
    keys: &[KeySpec::at(
        1,
        key_flag::RW | key_flag::ACCESS | key_flag::UPDATE,
    )],
    group: Group::String,
    since: "8.8.0",
    complexity: "O(1)",
    summary: "Increments a number within bounds, and may set its time to live.",
    args: &[
        Arg::key("key"),
        Arg::one_of(
            "increment",
            &[
                Arg::new("float", ArgKind::Double).token("BYFLOAT"),
                Arg::new("integer", ArgKind::Integer).token("BYINT"),
            ],
        )
        .optional(),
        Arg::word("saturate", "SATURATE").optional(),
        Arg::new("lowerbound", ArgKind::String)
            .token("LBOUND")
            .optional(),
        Arg::new("upperbound", ArgKind::String)
            .token("UBOUND")
            .optional(),
        Arg::one_of(
            "expiration",
            &[
                Arg::new("seconds", ArgKind::Integer).token("EX"),
                Arg::new("milliseconds", ArgKind::Integer).token("PX"),
                Arg::new("unix-time-seconds", ArgKind::UnixTime).token("EXAT"),
                Arg::new("unix-time-milliseconds", ArgKind::UnixTime).token("PXAT"),
                Arg::word("persist", "PERSIST"),
            ],
        )
        .optional(),
        Arg::word("enx", "ENX").optional(),
    ],
    subcommands: &[],
    handler: Data(increx),
}];

/// Options as they were given; every one at most once.
#[derive(Default)]
struct Options<'a> {
    by_int: Option<&'a [u8]>,
    by_float: Option<&'a [u8]>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    saturates: bool,
    ttl: Option<TtlOption<'a>>,
    persists: bool,
    /// Only a key without a deadline gets one.
    if_no_ttl: bool,
}

/// Fills what is still empty; none if it is not.
fn fill<T>(place: &mut Option<T>, value: Option<T>) -> Option<usize> {
    if place.is_some() {
        return None;
    }
    *place = Some(value?);
    Some(2)
}

/// Raises a flag that is still down; none if it is not.
fn raise(flag: &mut bool) -> Option<usize> {
    (!std::mem::replace(flag, true)).then_some(1)
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Options<'a>, CommandError> {
        let mut options = Options::default();
        let mut i = 2;
        while i < args.len() {
            i += options.take(args, i).ok_or(CommandError::Syntax)?;
        }
        let is_twofold = options.by_int.is_some() && options.by_float.is_some();
        let is_vain = options.persists && (options.ttl.is_some() || options.if_no_ttl);
        if is_twofold || is_vain {
            return Err(CommandError::Syntax);
        }
        if options.if_no_ttl && options.ttl.is_none() {
            return Err(CommandError::text("ERR ENX flag requires an expiration"));
        }
        Ok(options)
    }

    /// Takes the option at argument `i`; how many arguments it has, its name included.
    fn take(&mut self, args: Args<'a>, i: usize) -> Option<usize> {
        let value = args.at(i + 1);
        match args.get(i).to_ascii_lowercase().as_slice() {
            b"byint" => fill(&mut self.by_int, value),
            b"byfloat" => fill(&mut self.by_float, value),
            b"lbound" => fill(&mut self.lower, value),
            b"ubound" => fill(&mut self.upper, value),
            b"saturate" => raise(&mut self.saturates),
            b"persist" => raise(&mut self.persists),
            b"enx" => raise(&mut self.if_no_ttl),
            _ => fill(&mut self.ttl, TtlOption::parse(args, i)),
        }
    }

    fn asked(&self, live: &Live<'_>) -> Result<Option<Asked>, CommandError> {
        let option = self.ttl.as_ref();
        option
            .map(|option| option.asked("increx", live.reading()))
            .transpose()
    }
}

/// What came of adding: the new number and the difference; or that the old one stays.
enum Sum<T> {
    Changed(T, T),
    Kept(T),
}

fn increx(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let options = Options::parse(args)?;
    if options.by_float.is_some() {
        let term = FloatTerm::parse(&options)?;
        let asked = options.asked(live)?;
        let (new, difference) = match term.add_to(live, key)? {
            Sum::Changed(new, difference) => {
                let text = new.to_text();
                let event = Event::INCRBYFLOAT;
                store(live, key, text.as_bytes(), event, &options, asked);
                (text, difference.to_text())
            }
            Sum::Kept(old) => (old.to_text(), "0".to_owned()),
        };
        reply.array(2);
        reply.decimal(&new);
        reply.decimal(&difference);
        return Ok(());
    }
    let term = IntTerm::parse(&options)?;
    let asked = options.asked(live)?;
    let (new, difference) = match term.add_to(live, key)? {
        Sum::Changed(new, difference) => {
            let mut digits = [0; 20];
            let text = format_i64(new, &mut digits);
            store(live, key, text, Event::INCRBY, &options, asked);
            (new, difference)
        }
        Sum::Kept(old) => (old, 0),
    };
    reply.array(2);
    reply.integer(new);
    reply.integer(difference);
    Ok(())
}

/// Writes the new number and the deadline, and reports both.
fn store(
    live: &mut Live<'_>,
    key: &[u8],
    text: &[u8],
    event: Event,
    options: &Options<'_>,
    asked: Option<Asked>,
) {
    let has_deadline = live.deadline(key).flatten().is_some();
    let asked = asked.filter(|_| !(options.if_no_ttl && has_deadline));
    let term = asked.map(|(term, jitter_percent)| live.term(key, term, jitter_percent));
    if term.is_some_and(|term| is_due(term.deadline, live.reading().now)) {
        return live.remove_as_past(key);
    }
    let persists = options.persists && has_deadline;
    let ttl = match term {
        Some(term) => Ttl::At(term),
        None if persists => Ttl::Drop,
        None => Ttl::Keep,
    };
    live.set_number(key, text, ttl);
    set_effect(live, key, text, ttl);
    live.changed(event, key);
    if term.is_some() {
        live.also(Event::EXPIRE, key);
    } else if persists {
        live.also(Event::PERSIST, key);
    }
}

const CROSSED_BOUNDS: CommandError = CommandError::text("ERR LBOUND can't be greater than UBOUND");

/// A whole number to add, and where the sum must lie.
struct IntTerm {
    increment: i64,
    lower: i64,
    upper: i64,
    saturates: bool,
}

impl IntTerm {
    fn parse(options: &Options<'_>) -> Result<IntTerm, CommandError> {
        let read = |text: Option<&[u8]>, default, name| match text {
            None => Ok(default),
            Some(text) => parse_i64(text).ok_or_else(|| {
                CommandError::owned(format!("ERR {name} is not an integer or out of range"))
            }),
        };
        let term = IntTerm {
            increment: read(options.by_int, 1, "Increment")?,
            lower: read(options.lower, i64::MIN, "LBOUND")?,
            upper: read(options.upper, i64::MAX, "UBOUND")?,
            saturates: options.saturates,
        };
        if term.lower > term.upper {
            return Err(CROSSED_BOUNDS);
        }
        Ok(term)
    }

    fn add_to(&self, live: &Live<'_>, key: &[u8]) -> Result<Sum<i64>, CommandError> {
        let old = match live.peek_string(key)? {
            Some(text) => parse_i64(text.as_bytes()).ok_or(CommandError::NotAnInteger)?,
            None => 0,
        };
        let sum = i128::from(old) + i128::from(self.increment);
        let bounded = sum.clamp(self.lower.into(), self.upper.into()) as i64;
        if sum != i128::from(bounded) && !self.saturates {
            return Ok(Sum::Kept(old));
        }
        let difference = bounded
            .checked_sub(old)
            .ok_or(CommandError::text("ERR applied increment would overflow"))?;
        Ok(Sum::Changed(bounded, difference))
    }
}

/// A number with a fraction to add, and where the sum must lie.
struct FloatTerm {
    increment: LongDouble,
    lower: LongDouble,
    upper: LongDouble,
    saturates: bool,
}

impl FloatTerm {
    fn parse(options: &Options<'_>) -> Result<FloatTerm, CommandError> {
        let read = |text: Option<&[u8]>, default, name| match text {
            None => Ok(default),
            Some(text) => LongDouble::parse(text)
                .ok_or_else(|| CommandError::owned(format!("ERR {name} is not a valid float"))),
        };
        let term = FloatTerm {
            increment: read(options.by_float, LongDouble::MAX, "Increment")?,
            lower: read(options.lower, LongDouble::MAX.negated(), "LBOUND")?,
            upper: read(options.upper, LongDouble::MAX, "UBOUND")?,
            saturates: options.saturates,
        };
        if !term.increment.is_finite() {
            return Err(CommandError::text(
                "ERR BYFLOAT increment cannot be Infinity",
            ));
        }
        if term.lower.compare(term.upper) == Ordering::Greater {
            return Err(CROSSED_BOUNDS);
        }
        Ok(term)
    }

    fn add_to(&self, live: &Live<'_>, key: &[u8]) -> Result<Sum<LongDouble>, CommandError> {
        let text = live.peek_string(key)?;
        let text = text
            .as_ref()
            .map_or(b"0".as_slice(), |text| text.as_bytes());
        let old = LongDouble::parse(text).ok_or(CommandError::NotAFloat)?;
        if !old.is_finite() {
            return Err(CommandError::text("ERR value cannot be Infinity"));
        }
        // A sum beyond all numbers is beyond the largest of them too, whatever the bound.
        let max = LongDouble::MAX;
        let sum = old.add(self.increment);
        let is_over = |bound: LongDouble| sum.compare(bound) == Ordering::Greater;
        let is_under = |bound: LongDouble| sum.compare(bound) == Ordering::Less;
        let bounded = if is_over(self.upper) {
            self.upper
        } else if is_under(self.lower) {
            self.lower
        } else if is_over(max) {
            max
        } else if is_under(max.negated()) {
            max.negated()
        } else {
            let difference = sum.add(old.negated());
            return Ok(Sum::Changed(sum, difference));
        };
        if !self.saturates {
            return Ok(Sum::Kept(old));
        }
        let difference = bounded.add(old.negated());
        if !difference.is_finite() {
            return Err(CommandError::text(
                "ERR applied increment would be Infinity",
            ));
        }
        Ok(Sum::Changed(bounded, difference))
    }
}
