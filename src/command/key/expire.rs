//! Deadlines: EXPIRE and its kin, TTL and its kin, PERSIST, and the TTL options of other commands.
//!
//! Arguments are checked in Redis' order: options, then the number, then its range, then the key.
//! A deadline that has already come deletes the key at once; which event that gives is the setting
//! `expire-past-event` (Redis: `del`, Valkey: `expired`).

use crate::clock::Reading;
use crate::command::dispatch::args::Args;
use crate::command::member::keydb_dragonfly::kind_at;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::expiry::{self, Basis, Deadline, SLIDING_MS_MAX, Soft, Term, Unit, is_due};
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::store::entry::Slot;
use crate::value::number::parse_i64;

/// The commands on deadlines.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "expire",
        arity: -3,
        flags: flag::WRITE | flag::FAST | flag::OWN_EFFECT,
        categories: category::KEYSPACE | category::WRITE | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Sets a key's time to live, in seconds.",
        args: &[
            Arg::key("key"),
            Arg::new("seconds", ArgKind::Integer),
            Arg::one_of("condition", CONDITION)
                .optional()
                .since("7.0.0"),
            JITTER,
            SLIDING,
            SOFT,
        ],
        subcommands: &[],
        handler: Data(expire),
    },
    Row {
        name: "pexpire",
        arity: -3,
        flags: flag::WRITE | flag::FAST | flag::OWN_EFFECT,
        categories: category::KEYSPACE | category::WRITE | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Generic,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Sets a key's time to live, in milliseconds.",
        args: &[
            Arg::key("key"),
            Arg::new("milliseconds", ArgKind::Integer),
            Arg::one_of("condition", CONDITION)
                .optional()
                .since("7.0.0"),
            JITTER,
            SLIDING,
            SOFT,
        ],
        subcommands: &[],
        handler: Data(pexpire),
    },
    Row {
        name: "expireat",
        arity: -3,
        flags: flag::WRITE | flag::FAST | flag::OWN_EFFECT,
        categories: category::KEYSPACE | category::WRITE | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Generic,
        since: "1.2.0",
        complexity: "O(1)",
        summary: "Sets when a key expires, as a Unix time in seconds.",
        args: &[
            Arg::key("key"),
            Arg::new("unix-time-seconds", ArgKind::UnixTime),
            Arg::one_of("condition", CONDITION)
                .optional()
                .since("7.0.0"),
            JITTER,
            SLIDING_MS,
            SOFT,
        ],
        subcommands: &[],
        handler: Data(expireat),
    },
    Row {
        name: "pexpireat",
        arity: -3,
        flags: flag::WRITE | flag::FAST | flag::OWN_EFFECT,
        categories: category::KEYSPACE | category::WRITE | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Generic,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Sets when a key expires, as a Unix time in milliseconds.",
        args: &[
            Arg::key("key"),
            Arg::new("unix-time-milliseconds", ArgKind::UnixTime),
            Arg::one_of("condition", CONDITION)
                .optional()
                .since("7.0.0"),
            JITTER,
            SLIDING_MS,
            SOFT,
        ],
        subcommands: &[],
        handler: Data(pexpireat),
    },
    Row {
        name: "ttl",
        arity: -2,
        flags: flag::READONLY | flag::FAST,
        categories: category::KEYSPACE | category::READ | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the remaining time to live of a key, or a member of it, in seconds.",
        args: &[Arg::key("key"), MEMBER],
        subcommands: &[],
        handler: Data(ttl),
    },
    Row {
        name: "pttl",
        arity: -2,
        flags: flag::READONLY | flag::FAST,
        categories: category::KEYSPACE | category::READ | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Generic,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Returns the remaining time to live of a key, or a member of it, in milliseconds.",
        args: &[Arg::key("key"), MEMBER],
        subcommands: &[],
        handler: Data(pttl),
    },
    Row {
        name: "expiretime",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        categories: category::KEYSPACE | category::READ | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Generic,
        since: "7.0.0",
        complexity: "O(1)",
        summary: "Returns when a key expires, as a Unix time in seconds.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(expiretime),
    },
    Row {
        name: "pexpiretime",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        categories: category::KEYSPACE | category::READ | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Generic,
        since: "7.0.0",
        complexity: "O(1)",
        summary: "Returns when a key expires, as a Unix time in milliseconds.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(pexpiretime),
    },
    Row {
        name: "persist",
        arity: 2,
        flags: flag::WRITE | flag::FAST,
        categories: category::KEYSPACE | category::WRITE | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Generic,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Removes a key's time to live, so that it does not expire.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(persist),
    },
];

/// Since when there are commands that Redis has not: a version of Mayfly.
pub(in crate::command) const SINCE_MAYFLY: &str = "0.1.0";

/// By how much a TTL is shortened at random; Redis has no such option.
pub(in crate::command) const JITTER: Arg = Arg::new("percent", ArgKind::Integer)
    .token("JITTER")
    .optional();
/// That a TTL begins anew with each use; Redis has no such option.
pub(in crate::command) const SLIDING: Arg = Arg::word("sliding", "SLIDING").optional();
/// When the value becomes stale, as the TTL is given; Redis has no such option.
pub(in crate::command) const SOFT: Arg =
    Arg::new("soft", ArgKind::Integer).token("SOFT").optional();
/// The same with the span by which a moment slides.
const SLIDING_MS: Arg = Arg::new("sliding-milliseconds", ArgKind::Integer)
    .token("SLIDING")
    .optional();

/// The member of a collection whose deadline is asked for; Redis has no such argument.
const MEMBER: Arg = Arg::new("member", ArgKind::String)
    .optional()
    .since(SINCE_MAYFLY);

/// When a deadline is changed at all.
pub(in crate::command) const CONDITION: &[Arg] = &[
    Arg::word("nx", "NX"),
    Arg::word("xx", "XX"),
    Arg::word("gt", "GT"),
    Arg::word("lt", "LT"),
];

/// What may follow the number of a TTL: the percentage by which it is shortened at random, and that
/// it begins anew with each use. Numbers are not read yet.
#[derive(Clone, Copy, Default)]
pub struct Extras<'a> {
    jitter: Option<&'a [u8]>,
    sliding: Option<Sliding<'a>>,
    /// When the value becomes stale, said as the TTL is.
    soft: Option<&'a [u8]>,
}

/// By what a deadline slides.
#[derive(Clone, Copy)]
enum Sliding<'a> {
    /// The TTL itself.
    Ttl,
    /// So many ms, as a moment has no length.
    Millis(&'a [u8]),
}

/// Terms that a command asks for, and the percentage of jitter.
pub type Asked = (Term, Option<u8>);

const SOFT_TOO_LATE: CommandError =
    CommandError::text("ERR the soft deadline must come before the deadline");
const JITTER_OUT_OF_RANGE: CommandError =
    CommandError::text("ERR jitter must be between 0 and 100 percent inclusive");

impl<'a> Extras<'a> {
    /// Takes the option at argument `i`; how many arguments it has, its name included, none if it
    /// is another.
    pub fn take(&mut self, args: Args<'a>, i: usize, basis: Basis) -> Option<usize> {
        if args.is(i, "jitter") && self.jitter.is_none() {
            self.jitter = Some(args.at(i + 1)?);
            return Some(2);
        }
        if self.sliding.is_some() || self.soft.is_some() {
            return None;
        }
        if args.is(i, "soft") {
            self.soft = Some(args.at(i + 1)?);
            return Some(2);
        }
        if !args.is(i, "sliding") {
            return None;
        }
        if basis == Basis::Relative {
            self.sliding = Some(Sliding::Ttl);
            return Some(1);
        }
        self.sliding = Some(Sliding::Millis(args.at(i + 1)?));
        Some(2)
    }

    /// What is asked for with these options.
    ///
    /// # Errors
    /// No integer, no percentage, or not a possible span.
    fn asked(
        &self,
        (deadline, basis, unit): (Deadline, Basis, Unit),
        command: &'static str,
        reading: &Reading,
    ) -> Result<Asked, CommandError> {
        let mut jitter_percent = None;
        if let Some(percent) = self.jitter {
            let percent = parse_i64(percent).ok_or(CommandError::NotAnInteger)?;
            let percent = u8::try_from(percent).ok().filter(|&percent| percent <= 100);
            jitter_percent = Some(percent.ok_or(JITTER_OUT_OF_RANGE)?);
        }
        let mut term = Term::new(deadline, basis);
        if let Some(soft) = self.soft {
            let amount = parse_i64(soft).ok_or(CommandError::NotAnInteger)?;
            let soft = expiry::deadline(amount, unit, basis, reading).filter(|_| amount > 0);
            let soft = soft.ok_or(CommandError::InvalidExpire(command))?;
            let before_ms = u64::try_from(deadline.0.since(soft.0)).unwrap_or(0);
            if !(1..=SLIDING_MS_MAX).contains(&before_ms) {
                return Err(SOFT_TOO_LATE);
            }
            term.soft = Some(Soft::new(before_ms));
        }
        let span_ms = match self.sliding {
            None => return Ok((term, jitter_percent)),
            Some(Sliding::Ttl) => deadline.0.since(reading.now).max(1),
            Some(Sliding::Millis(ms)) => parse_i64(ms).ok_or(CommandError::NotAnInteger)?,
        };
        let is_possible = |ms: &u64| (1..=SLIDING_MS_MAX).contains(ms);
        let span_ms = u64::try_from(span_ms).ok().filter(is_possible);
        term.sliding_ms = Some(span_ms.ok_or(CommandError::InvalidExpire(command))?);
        Ok((term, jitter_percent))
    }
}

/// One of the options EX, PX, EXAT, PXAT with its number, which is not read yet.
pub struct TtlOption<'a> {
    /// Seconds or milliseconds.
    pub unit: Unit,
    /// From now or from the epoch.
    pub basis: Basis,
    /// The number as given.
    pub number: &'a [u8],
    /// What follows it.
    pub extras: Extras<'a>,
}

impl<'a> TtlOption<'a> {
    /// What the word of such an option says; none if it is no such word.
    #[inline]
    pub fn meaning(word: &[u8]) -> Option<(Unit, Basis)> {
        let is = |other: &str| word.eq_ignore_ascii_case(other.as_bytes());
        match word.len() {
            2 if is("ex") => Some((Unit::Seconds, Basis::Relative)),
            2 if is("px") => Some((Unit::Millis, Basis::Relative)),
            4 if is("exat") => Some((Unit::Seconds, Basis::Absolute)),
            4 if is("pxat") => Some((Unit::Millis, Basis::Absolute)),
            _ => None,
        }
    }

    /// The option at argument `i`, if it is one and its number follows.
    pub fn parse(args: Args<'a>, i: usize) -> Option<TtlOption<'a>> {
        let (unit, basis) = TtlOption::meaning(args.get(i))?;
        args.at(i + 1).map(|number| TtlOption {
            unit,
            basis,
            number,
            extras: Extras::default(),
        })
    }

    /// Whether both are the same word; the last of these wins.
    pub fn is_same_kind(&self, other: &TtlOption<'_>) -> bool {
        self.unit == other.unit && self.basis == other.basis
    }

    /// What is asked for, by commands that refuse zero and less.
    ///
    /// # Errors
    /// No integer, or not a possible deadline.
    pub fn asked(&self, command: &'static str, reading: &Reading) -> Result<Asked, CommandError> {
        let amount = parse_i64(self.number).ok_or(CommandError::NotAnInteger)?;
        if amount <= 0 {
            return Err(CommandError::InvalidExpire(command));
        }
        let deadline = expiry::deadline(amount, self.unit, self.basis, reading)
            .ok_or(CommandError::InvalidExpire(command))?;
        let ends = (deadline, self.basis, self.unit);
        self.extras.asked(ends, command, reading)
    }
}

/// Conditions of EXPIRE and HEXPIRE.
#[derive(Clone, Copy, Default)]
pub(in crate::command) struct Conditions {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Conditions {
    /// The one condition that HEXPIRE takes; none if the word is none.
    pub(in crate::command) fn of_word(word: &[u8]) -> Option<Conditions> {
        let mut found = Conditions::default();
        match word.to_ascii_lowercase().as_slice() {
            b"nx" => found.nx = true,
            b"xx" => found.xx = true,
            b"gt" => found.gt = true,
            b"lt" => found.lt = true,
            _ => return None,
        }
        Some(found)
    }

    /// The conditions and what else stands behind the number of EXPIRE.
    fn parse(args: Args<'_>, basis: Basis) -> Result<(Conditions, Extras<'_>), CommandError> {
        let mut found = Conditions::default();
        let mut extras = Extras::default();
        let mut i = 3;
        while i < args.len() {
            let Some(one) = Conditions::of_word(args.get(i)) else {
                let taken = extras.take(args, i, basis);
                i += taken.ok_or_else(|| args.refused("ERR Unsupported option ", i, ""))?;
                continue;
            };
            i += 1;
            found.nx |= one.nx;
            found.xx |= one.xx;
            found.gt |= one.gt;
            found.lt |= one.lt;
        }
        if found.nx && (found.xx || found.gt || found.lt) {
            return Err(CommandError::text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if found.gt && found.lt {
            return Err(CommandError::text(
                "ERR GT and LT options at the same time are not compatible",
            ));
        }
        Ok((found, extras))
    }

    /// Whether they allow `new` for a key that has `old`; no deadline counts as infinite.
    pub(in crate::command) fn allow(&self, old: Option<Deadline>, new: Deadline) -> bool {
        let is_refused = (self.nx && old.is_some())
            || (self.xx && old.is_none())
            || (self.gt && old.is_none_or(|old| new <= old))
            || (self.lt && old.is_some_and(|old| new >= old));
        !is_refused
    }
}

/// Gives a key another deadline, or removes it if that has come, and reports it.
pub fn set_or_remove(live: &mut Live<'_>, key: &[u8], term: Term) {
    if is_due(term.deadline, live.reading().now) {
        live.remove_as_past(key);
        return;
    }
    live.set_term(key, Some(term));
    live.effect_until([b"PEXPIREAT", key], term);
    live.changed(Event::EXPIRE, key);
}

fn expire_with(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    unit: Unit,
    basis: Basis,
    command: &'static str,
) -> Result<(), CommandError> {
    let key = args.get(1);
    let (conditions, extras) = Conditions::parse(args, basis)?;
    let amount = args.integer(2)?;
    let deadline = expiry::deadline(amount, unit, basis, live.reading())
        .ok_or(CommandError::InvalidExpire(command))?;
    let (term, jitter_percent) = extras.asked((deadline, basis, unit), command, live.reading())?;
    let term = live.term(key, term, jitter_percent);
    let is_set = match live.deadline(key) {
        Some(old) => conditions.allow(old, term.deadline),
        None => false,
    };
    if is_set {
        set_or_remove(live, key, term);
    }
    reply.integer(i64::from(is_set));
    Ok(())
}

fn expire(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    expire_with(live, args, reply, Unit::Seconds, Basis::Relative, "expire")
}

fn pexpire(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    expire_with(live, args, reply, Unit::Millis, Basis::Relative, "pexpire")
}

fn expireat(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    expire_with(
        live,
        args,
        reply,
        Unit::Seconds,
        Basis::Absolute,
        "expireat",
    )
}

fn pexpireat(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    expire_with(
        live,
        args,
        reply,
        Unit::Millis,
        Basis::Absolute,
        "pexpireat",
    )
}

/// Answers something about a key's deadline: -2 if there is no key, -1 if it has none.
fn reply_deadline(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    read: fn(Deadline, &Reading) -> i64,
) -> Result<(), CommandError> {
    let answer = match live.look(args.get(1)).map(Slot::deadline) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => read(deadline, live.reading()),
    };
    reply.integer(answer);
    Ok(())
}

/// Answers the same of a member of the collection at a key, if one is named.
///
/// Redis: TTL has no second argument; KeyDB has.
fn reply_ttl(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    (command, read): (&str, fn(Deadline, &Reading) -> i64),
) -> Result<(), CommandError> {
    let (key, member) = match args.len() {
        2 => return reply_deadline(live, args, reply, read),
        3 => (args.get(1), args.get(2)),
        _ => return Err(CommandError::WrongArity(command.to_owned())),
    };
    let reading = *live.reading();
    let members = match kind_at(live, key)? {
        Some(kind) => live.members(key, kind)?,
        None => None,
    };
    reply.integer(match members.and_then(|all| all.deadline(member)) {
        None => -2,
        Some(None) => -1,
        Some(Some(deadline)) => read(deadline, &reading),
    });
    Ok(())
}

fn ttl(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let read = |at: Deadline, reading: &Reading| expiry::ttl_seconds(at, reading.now);
    reply_ttl(live, args, reply, ("ttl", read))
}

fn pttl(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let read = |at: Deadline, reading: &Reading| expiry::ttl_ms(at, reading.now);
    reply_ttl(live, args, reply, ("pttl", read))
}

fn expiretime(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    reply_deadline(live, args, reply, expiry::expiretime_seconds)
}

fn pexpiretime(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    reply_deadline(live, args, reply, expiry::expiretime_ms)
}

fn persist(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let had_deadline = live.deadline(key).flatten().is_some();
    if had_deadline {
        live.set_term(key, None);
        live.changed(Event::PERSIST, key);
    }
    reply.integer(i64::from(had_deadline));
    Ok(())
}
