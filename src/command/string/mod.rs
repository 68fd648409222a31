//! Strings.
//!
//! A string is stored as the bytes it was given; whether it is an integer is found out when it
//! matters. Options that set a deadline are read by [`crate::command::key::expire::TtlOption`].
//!
//! Conditions on values are in [`compare`], a counter with bounds in [`increx`].
//!
//! Redis: values are encoded as int, embstr or raw; here OBJECT ENCODING derives those names.

pub mod compare;
pub mod soft;

pub mod increx;

use bytes::Bytes;

use crate::clock::Reading;
use crate::command::dispatch::args::Args;
use crate::command::key::expire::{Asked, Extras, JITTER, SLIDING, SOFT, TtlOption, set_or_remove};
use crate::command::reply_string;
use crate::command::string::compare::Comparison;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::expiry::{Basis, Unit};
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::store::db::Ttl;
use crate::value::StringRef;
use crate::value::long_double::LongDouble;
use crate::value::number::{format_i64, parse_i64};

/// The commands on strings.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "set",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::OWN_EFFECT,
        categories: category::WRITE | category::STRING | category::SLOW,
        keys: &[
            KeySpec::at(1, key_flag::RW | key_flag::ACCESS | key_flag::UPDATE).flags_by(set_flags),
        ],
        group: Group::String,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Sets the string at a key, and may set its time to live.",
        args: &[
            Arg::key("key"),
            Arg::new("value", ArgKind::String),
            Arg::one_of("condition", SET_CONDITION)
                .optional()
                .since("2.6.12"),
            Arg::word("get", "GET").optional().since("6.2.0"),
            Arg::one_of("expiration", SET_EXPIRATION).optional(),
            JITTER,
            SLIDING,
            SOFT,
        ],
        subcommands: &[],
        handler: Data(set),
    },
    Row {
        name: "get",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::STRING | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::String,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the string at a key.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(get),
    },
    Row {
        name: "getdel",
        arity: 2,
        flags: flag::WRITE | flag::FAST,
        categories: category::WRITE | category::STRING | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::String,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Returns the string at a key and deletes the key.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(getdel),
    },
    Row {
        name: "getex",
        arity: -2,
        flags: flag::WRITE | flag::FAST | flag::OWN_EFFECT,
        categories: category::WRITE | category::STRING | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::UPDATE,
        )],
        group: Group::String,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Returns the string at a key and may set or remove its time to live.",
        args: &[
            Arg::key("key"),
            Arg::one_of("expiration", GETEX_EXPIRATION).optional(),
            JITTER,
            SLIDING,
            SOFT,
        ],
        subcommands: &[],
        handler: Data(getex),
    },
    Row {
        name: "getset",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::STRING | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::UPDATE,
        )],
        group: Group::String,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Sets the string at a key and returns the old one.",
        args: &[Arg::key("key"), Arg::new("value", ArgKind::String)],
        subcommands: &[],
        handler: Data(getset),
    },
    Row {
        name: "setnx",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::STRING | category::FAST,
        keys: &[KeySpec::at(1, key_flag::OW | key_flag::INSERT)],
        group: Group::String,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Sets the string at a key unless the key exists.",
        args: &[Arg::key("key"), Arg::new("value", ArgKind::String)],
        subcommands: &[],
        handler: Data(setnx),
    },
    Row {
        name: "setex",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::OWN_EFFECT,
        categories: category::WRITE | category::STRING | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::OW | key_flag::UPDATE)],
        group: Group::String,
        since: "2.0.0",
        complexity: "O(1)",
        summary: "Sets the string at a key with a time to live in seconds.",
        args: &[
            Arg::key("key"),
            Arg::new("seconds", ArgKind::Integer),
            Arg::new("value", ArgKind::String),
        ],
        subcommands: &[],
        handler: Data(setex),
    },
    Row {
        name: "psetex",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM | flag::OWN_EFFECT,
        categories: category::WRITE | category::STRING | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::OW | key_flag::UPDATE)],
        group: Group::String,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Sets the string at a key with a time to live in milliseconds.",
        args: &[
            Arg::key("key"),
            Arg::new("milliseconds", ArgKind::Integer),
            Arg::new("value", ArgKind::String),
        ],
        subcommands: &[],
        handler: Data(psetex),
    },
    Row {
        name: "mget",
        arity: -2,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::STRING | category::FAST,
        keys: &[KeySpec::to_end(1, 1, key_flag::RO | key_flag::ACCESS)],
        group: Group::String,
        since: "1.0.0",
        complexity: "O(N) with N the number of keys",
        summary: "Returns the strings at several keys.",
        args: &[Arg::key("key").multiple()],
        subcommands: &[],
        handler: Data(mget),
    },
    Row {
        name: "mset",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        categories: category::WRITE | category::STRING | category::SLOW,
        keys: &[KeySpec::to_end(1, 2, key_flag::OW | key_flag::UPDATE)],
        group: Group::String,
        since: "1.0.1",
        complexity: "O(N) with N the number of keys",
        summary: "Sets the strings at several keys.",
        args: &[Arg::block("data", KEY_VALUE).multiple()],
        subcommands: &[],
        handler: Data(mset),
    },
    Row {
        name: "msetnx",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM,
        categories: category::WRITE | category::STRING | category::SLOW,
        keys: &[KeySpec::to_end(1, 2, key_flag::OW | key_flag::INSERT)],
        group: Group::String,
        since: "1.0.1",
        complexity: "O(N) with N the number of keys",
        summary: "Sets the strings at several keys, or none if any of the keys exists.",
        args: &[Arg::block("data", KEY_VALUE).multiple()],
        subcommands: &[],
        handler: Data(msetnx),
    },
    Row {
        name: "msetex",
        arity: -4,
        flags: flag::WRITE | flag::DENYOOM | flag::MOVABLEKEYS | flag::OWN_EFFECT,
        categories: category::WRITE | category::STRING | category::SLOW,
        keys: &[KeySpec::counted(1, 2, key_flag::OW | key_flag::UPDATE)],
        group: Group::String,
        since: "8.4.0",
        complexity: "O(N) with N the number of keys",
        summary: "Sets the strings at several keys with one time to live for all.",
        args: &[
            Arg::new("numkeys", ArgKind::Integer),
            Arg::block("data", KEY_VALUE).multiple(),
            Arg::one_of("condition", MSETEX_CONDITION).optional(),
            Arg::one_of("expiration", MSETEX_EXPIRATION).optional(),
            JITTER,
            SLIDING,
            SOFT,
        ],
        subcommands: &[],
        handler: Data(msetex),
    },
    Row {
        name: "append",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::STRING | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::INSERT)],
        group: Group::String,
        since: "2.0.0",
        complexity: "O(1) amortized, for a small value",
        summary: "Appends to the string at a key; a missing key counts as empty.",
        args: &[Arg::key("key"), Arg::new("value", ArgKind::String)],
        subcommands: &[],
        handler: Data(append),
    },
    Row {
        name: "strlen",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::STRING | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO)],
        group: Group::String,
        since: "2.2.0",
        complexity: "O(1)",
        summary: "Returns the length of the string at a key, in bytes.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(strlen),
    },
    Row {
        name: "setrange",
        arity: 4,
        flags: flag::WRITE | flag::DENYOOM,
        categories: category::WRITE | category::STRING | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::String,
        since: "2.2.0",
        complexity: "O(1) for a small value; otherwise O(M) with M the length of the value",
        summary: "Overwrites part of a string from an offset on; pads it with zero bytes.",
        args: &[
            Arg::key("key"),
            Arg::new("offset", ArgKind::Integer),
            Arg::new("value", ArgKind::String),
        ],
        subcommands: &[],
        handler: Data(setrange),
    },
    Row {
        name: "getrange",
        arity: 4,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::STRING | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::String,
        since: "2.4.0",
        complexity: "O(N) with N the length of the reply",
        summary: "Returns the part of a string between two offsets, both included.",
        args: &[
            Arg::key("key"),
            Arg::new("start", ArgKind::Integer),
            Arg::new("end", ArgKind::Integer),
        ],
        subcommands: &[],
        handler: Data(getrange),
    },
    Row {
        name: "substr",
        arity: 4,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::STRING | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::String,
        since: "1.0.0",
        complexity: "O(N) with N the length of the reply",
        summary: "Returns the part of a string between two offsets; older name of GETRANGE.",
        args: &[
            Arg::key("key"),
            Arg::new("start", ArgKind::Integer),
            Arg::new("end", ArgKind::Integer),
        ],
        subcommands: &[],
        handler: Data(substr),
    },
    Row {
        name: "incr",
        arity: 2,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::STRING | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::UPDATE,
        )],
        group: Group::String,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Increments the integer at a key by one; a missing key counts as 0.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(incr),
    },
    Row {
        name: "decr",
        arity: 2,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::STRING | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::UPDATE,
        )],
        group: Group::String,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Decrements the integer at a key by one; a missing key counts as 0.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(decr),
    },
    Row {
        name: "incrby",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::STRING | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::UPDATE,
        )],
        group: Group::String,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Increments the integer at a key; a missing key counts as 0.",
        args: &[Arg::key("key"), Arg::new("increment", ArgKind::Integer)],
        subcommands: &[],
        handler: Data(incrby),
    },
    Row {
        name: "decrby",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST,
        categories: category::WRITE | category::STRING | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::UPDATE,
        )],
        group: Group::String,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Decrements the integer at a key; a missing key counts as 0.",
        args: &[Arg::key("key"), Arg::new("decrement", ArgKind::Integer)],
        subcommands: &[],
        handler: Data(decrby),
    },
    Row {
        name: "incrbyfloat",
        arity: 3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST | flag::OWN_EFFECT,
        categories: category::WRITE | category::STRING | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::UPDATE,
        )],
        group: Group::String,
        since: "2.6.0",
        complexity: "O(1)",
        summary: "Increments the number at a key by a decimal; a missing key counts as 0.",
        args: &[Arg::key("key"), Arg::new("increment", ArgKind::Double)],
        subcommands: &[],
        handler: Data(incrbyfloat),
    },
];

/// What SET does with its key: without GET it does not answer with the old value, and unless it
/// compares it does not even read it.
fn set_flags(args: Args<'_>, start: usize) -> u16 {
    let has = |words: &[&str]| {
        let mut options = start + 3..args.len();
        options.any(|i| words.iter().any(|word| args.is(i, word)))
    };
    if has(&["get"]) {
        key_flag::RW | key_flag::ACCESS | key_flag::UPDATE
    } else if has(&["ifeq", "ifne", "ifdeq", "ifdne"]) {
        key_flag::RW | key_flag::UPDATE
    } else {
        key_flag::OW | key_flag::UPDATE
    }
}

/// When SET stores at all.
const SET_CONDITION: &[Arg] = &[
    Arg::word("nx", "NX"),
    Arg::word("xx", "XX"),
    Arg::new("ifeq-value", ArgKind::String)
        .token("IFEQ")
        .since("8.4.0"),
    Arg::new("ifne-value", ArgKind::String)
        .token("IFNE")
        .since("8.4.0"),
    Arg::new("ifdeq-digest", ArgKind::String)
        .token("IFDEQ")
        .since("8.4.0"),
    Arg::new("ifdne-digest", ArgKind::String)
        .token("IFDNE")
        .since("8.4.0"),
];

/// When MSETEX stores at all.
const MSETEX_CONDITION: &[Arg] = &[Arg::word("nx", "NX"), Arg::word("xx", "XX")];

/// What MSETEX and HSETEX do with the deadlines.
pub(super) const MSETEX_EXPIRATION: &[Arg] = &[
    Arg::new("seconds", ArgKind::Integer).token("EX"),
    Arg::new("milliseconds", ArgKind::Integer).token("PX"),
    Arg::new("unix-time-seconds", ArgKind::UnixTime).token("EXAT"),
    Arg::new("unix-time-milliseconds", ArgKind::UnixTime).token("PXAT"),
    Arg::word("keepttl", "KEEPTTL"),
];

/// What SET does with the deadline.
const SET_EXPIRATION: &[Arg] = &[
    Arg::new("seconds", ArgKind::Integer)
        .token("EX")
        .since("2.6.12"),
    Arg::new("milliseconds", ArgKind::Integer)
        .token("PX")
        .since("2.6.12"),
    Arg::new("unix-time-seconds", ArgKind::UnixTime)
        .token("EXAT")
        .since("6.2.0"),
    Arg::new("unix-time-milliseconds", ArgKind::UnixTime)
        .token("PXAT")
        .since("6.2.0"),
    Arg::word("keepttl", "KEEPTTL").since("6.0.0"),
];

/// What GETEX and HGETEX do with the deadline.
pub(super) const GETEX_EXPIRATION: &[Arg] = &[
    Arg::new("seconds", ArgKind::Integer).token("EX"),
    Arg::new("milliseconds", ArgKind::Integer).token("PX"),
    Arg::new("unix-time-seconds", ArgKind::UnixTime).token("EXAT"),
    Arg::new("unix-time-milliseconds", ArgKind::UnixTime).token("PXAT"),
    Arg::word("persist", "PERSIST"),
];

/// The most pairs MSETEX takes, as in Redis; the limits on requests are far lower.
const MSETEX_PAIRS_MAX: u32 = i32::MAX as u32;

/// A pair of MSET and its kin.
const KEY_VALUE: &[Arg] = &[Arg::key("key"), Arg::new("value", ArgKind::String)];

/// Writes the argument at `index` over whatever the key holds; a large one is not copied.
fn put(live: &mut Live<'_>, key: &[u8], args: Args<'_>, index: usize, ttl: Ttl) {
    match args.shared(index) {
        Some(bytes) => live.set_shared(key, bytes, ttl),
        None => live.set_string(key, args.get(index), ttl),
    }
}

/// What stood at a key, for commands that answer it after changing it.
enum Old {
    Short(Vec<u8>),
    Long(Bytes),
}

fn old_value(live: &Live<'_>, key: &[u8]) -> Result<Option<Old>, CommandError> {
    Ok(live.string(key)?.map(|value| match value {
        StringRef::Short(bytes) => Old::Short(bytes.to_vec()),
        StringRef::Long(bytes) => Old::Long(bytes.clone()),
    }))
}

fn reply_old(reply: &mut Reply<'_>, value: Option<Old>) {
    match value {
        Some(Old::Short(bytes)) => reply.bulk(&bytes),
        Some(Old::Long(bytes)) => reply.bulk_shared(&bytes),
        None => reply.null(),
    }
}

/// When SET and MSETEX store.
#[derive(Clone, Copy, Default)]
enum Condition<'a> {
    #[default]
    Always,
    IfAbsent,
    IfPresent,
    If(Comparison<'a>),
}

/// Options of SET and MSETEX.
#[derive(Default)]
struct SetOptions<'a> {
    ttl: Option<TtlOption<'a>>,
    keeps_ttl: bool,
    condition: Condition<'a>,
    gets: bool,
}

impl<'a> SetOptions<'a> {
    /// Options from argument `i` on; of SET alone, GET and comparisons.
    fn parse(args: Args<'a>, mut i: usize, is_set: bool) -> Result<SetOptions<'a>, CommandError> {
        let mut options = SetOptions::default();
        while i < args.len() {
            i += options.take(args, i, is_set).ok_or(CommandError::Syntax)?;
        }
        Ok(options)
    }

    /// Takes the option at argument `i`; how many arguments it has, its name included.
    fn take(&mut self, args: Args<'a>, i: usize, is_set: bool) -> Option<usize> {
        use Condition::{Always, If, IfAbsent, IfPresent};
        if args.is(i, "nx") && matches!(self.condition, Always | IfAbsent) {
            self.condition = IfAbsent;
            return Some(1);
        }
        if args.is(i, "xx") && matches!(self.condition, Always | IfPresent) {
            self.condition = IfPresent;
            return Some(1);
        }
        if args.is(i, "get") && is_set {
            self.gets = true;
            return Some(1);
        }
        if args.is(i, "keepttl") && self.ttl.is_none() {
            self.keeps_ttl = true;
            return Some(1);
        }
        if let Some(option) = TtlOption::parse(args, i) {
            let is_other = |ttl: &TtlOption<'_>| !ttl.is_same_kind(&option);
            if self.keeps_ttl || self.ttl.as_ref().is_some_and(is_other) {
                return None;
            }
            self.ttl = Some(option);
            return Some(2);
        }
        if let Some(ttl) = &mut self.ttl
            && let Some(taken) = ttl.extras.take(args, i, ttl.basis)
        {
            return Some(taken);
        }
        let comparison = Comparison::parse(args, i)?;
        if !is_set || !matches!(self.condition, Always) {
            return None;
        }
        self.condition = If(comparison);
        Some(2)
    }

    fn asked(
        &self,
        command: &'static str,
        reading: &Reading,
    ) -> Result<Option<Asked>, CommandError> {
        let option = self.ttl.as_ref();
        option
            .map(|option| option.asked(command, reading))
            .transpose()
    }
}

impl Condition<'_> {
    fn holds(self, live: &Live<'_>, key: &[u8]) -> Result<bool, CommandError> {
        match self {
            Condition::Always => Ok(true),
            Condition::IfAbsent => Ok(live.peek(key).is_none()),
            Condition::IfPresent => Ok(live.peek(key).is_some()),
            Condition::If(comparison) => comparison.holds(live.peek_string(key)?),
        }
    }
}

/// Stores the argument at `index` as SET does, and reports it.
fn store(
    live: &mut Live<'_>,
    key: &[u8],
    args: Args<'_>,
    index: usize,
    keeps_ttl: bool,
    asked: Option<Asked>,
) {
    let ttl = match asked {
        Some((term, jitter_percent)) => Ttl::At(live.term(key, term, jitter_percent)),
        None if keeps_ttl => Ttl::Keep,
        None => Ttl::Drop,
    };
    put(live, key, args, index, ttl);
    set_effect(live, key, args.get(index), ttl);
    live.changed(Event::SET, key);
    if asked.is_some() {
        live.also(Event::EXPIRE, key);
    }
}

/// Records that a key got this value.
#[inline]
pub(super) fn set_effect(live: &mut Live<'_>, key: &[u8], value: &[u8], ttl: Ttl) {
    let set = [b"SET".as_slice(), key, value];
    match ttl {
        Ttl::At(term) => live.effect_until([set[0], key, value, b"PXAT"], term),
        Ttl::Keep => live.effect(set.into_iter().chain([b"KEEPTTL".as_slice()])),
        Ttl::Drop => live.effect(set),
    }
}

fn set(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    if args.len() == 3 {
        put(live, key, args, 2, Ttl::Drop);
        live.effect(args.from(0));
        live.changed(Event::SET, key);
        reply.ok();
        return Ok(());
    }
    let options = SetOptions::parse(args, 3, true)?;
    let asked = options.asked("set", live.reading())?;
    let old = if options.gets {
        old_value(live, key)?
    } else {
        None
    };
    let is_stored = options.condition.holds(live, key)?;
    if is_stored {
        store(live, key, args, 2, options.keeps_ttl, asked);
    }
    if options.gets {
        reply_old(reply, old)
    } else if is_stored {
        reply.ok()
    } else {
        reply.null()
    }
    Ok(())
}

fn get(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    reply_string(reply, live.string(args.get(1))?);
    Ok(())
}

fn getdel(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let old = old_value(live, key)?;
    if old.is_some() {
        live.remove(key);
        live.changed(Event::DEL, key);
    }
    reply_old(reply, old);
    Ok(())
}

fn getex(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let mut option = None;
    let mut persists = false;
    let mut i = 2;
    while i < args.len() {
        if args.is(i, "persist") && option.is_none() {
            persists = true;
        } else if let Some(parsed) = TtlOption::parse(args, i)
            && !persists
            && option
                .as_ref()
                .is_none_or(|other: &TtlOption<'_>| other.is_same_kind(&parsed))
        {
            // The same option twice is accepted, and the last one wins.
            option = Some(parsed);
            i += 1;
        } else if let Some(ttl) = &mut option
            && let Some(taken) = ttl.extras.take(args, i, ttl.basis)
        {
            i += taken - 1;
        } else {
            return Err(CommandError::Syntax);
        }
        i += 1;
    }
    // Redis answers nil for a missing key before it looks at the number.
    let Some(value) = live.string(key)? else {
        reply.null();
        return Ok(());
    };
    let asked = match &option {
        Some(option) => Some(option.asked("getex", live.reading())?),
        None => None,
    };
    reply_string(reply, Some(value));
    if let Some((term, jitter_percent)) = asked {
        let term = live.term(key, term, jitter_percent);
        set_or_remove(live, key, term);
    } else if persists && live.deadline(key).flatten().is_some() {
        live.set_term(key, None);
        live.effect([b"PERSIST".as_slice(), key]);
        live.changed(Event::PERSIST, key);
    }
    Ok(())
}

fn getset(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let old = old_value(live, key)?;
    put(live, key, args, 2, Ttl::Drop);
    live.changed(Event::SET, key);
    reply_old(reply, old);
    Ok(())
}

fn setnx(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let is_there = live.peek(key).is_some();
    if !is_there {
        put(live, key, args, 2, Ttl::Drop);
        live.changed(Event::SET, key);
    }
    reply.integer(i64::from(!is_there));
    Ok(())
}

fn set_with_ttl(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    unit: Unit,
    command: &'static str,
) -> Result<(), CommandError> {
    let key = args.get(1);
    let option = TtlOption {
        unit,
        basis: Basis::Relative,
        number: args.get(2),
        extras: Extras::default(),
    };
    let (term, jitter_percent) = option.asked(command, live.reading())?;
    let ttl = Ttl::At(live.term(key, term, jitter_percent));
    put(live, key, args, 3, ttl);
    set_effect(live, key, args.get(3), ttl);
    live.changed(Event::SET, key);
    live.also(Event::EXPIRE, key);
    reply.ok();
    Ok(())
}

fn setex(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    set_with_ttl(live, args, reply, Unit::Seconds, "setex")
}

fn psetex(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    set_with_ttl(live, args, reply, Unit::Millis, "psetex")
}

fn mget(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    reply.array(args.len() - 1);
    for key in args.from(1) {
        // A key of another type counts as missing here.
        reply_string(reply, live.string(key).unwrap_or(None));
    }
    Ok(())
}

fn mset(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    set_pairs(live, args, "mset")?;
    reply.ok();
    Ok(())
}

fn set_pairs(live: &mut Live<'_>, args: Args<'_>, name: &str) -> Result<(), CommandError> {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity(name.to_owned()));
    }
    for i in (1..args.len()).step_by(2) {
        let key = args.get(i);
        put(live, key, args, i + 1, Ttl::Drop);
        live.changed(Event::SET, key);
    }
    Ok(())
}

fn msetnx(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    if args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity("msetnx".to_owned()));
    }
    let is_any_there = (1..args.len())
        .step_by(2)
        .any(|i| live.peek(args.get(i)).is_some());
    if !is_any_there {
        set_pairs(live, args, "msetnx")?;
    }
    reply.integer(i64::from(!is_any_there));
    Ok(())
}

fn msetex(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let pairs = args.integer(1).ok().and_then(|n| u32::try_from(n).ok());
    let pairs = pairs
        .filter(|pairs| (1..=MSETEX_PAIRS_MAX).contains(pairs))
        .ok_or(CommandError::text("ERR invalid numkeys value"))?;
    let end = 2 + 2 * pairs as usize;
    if end > args.len() {
        return Err(CommandError::text("ERR wrong number of key-value pairs"));
    }
    let options = SetOptions::parse(args, end, false)?;
    let asked = options.asked("msetex", live.reading())?;
    for i in (2..end).step_by(2) {
        if !options.condition.holds(live, args.get(i))? {
            reply.integer(0);
            return Ok(());
        }
    }
    for i in (2..end).step_by(2) {
        store(live, args.get(i), args, i + 1, options.keeps_ttl, asked);
    }
    reply.integer(1);
    Ok(())
}

fn append(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let (key, tail) = (args.get(1), args.get(2));
    let old = live.peek_string(key)?.map(|value| value.as_bytes().len());
    let len = old.unwrap_or(0).saturating_add(tail.len());
    if len > live.string_bytes_max() {
        return Err(CommandError::StringTooLong);
    }
    if old.is_none() {
        live.set_string(key, tail, Ttl::Drop);
    } else {
        live.edit_string(key, len, |bytes| bytes.extend_from_slice(tail));
    }
    live.changed(Event::APPEND, key);
    reply.integer(len as i64);
    Ok(())
}

fn strlen(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let len = live
        .string(args.get(1))?
        .map_or(0, |value| value.as_bytes().len());
    reply.integer(len as i64);
    Ok(())
}

fn setrange(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let (key, patch) = (args.get(1), args.get(3));
    let offset = args.integer(2)?;
    if offset < 0 {
        return Err(CommandError::text("ERR offset is out of range"));
    }
    let old = live
        .peek_string(key)?
        .map_or(0, |value| value.as_bytes().len());
    if patch.is_empty() {
        reply.integer(old as i64);
        return Ok(());
    }
    let end = (offset as usize).saturating_add(patch.len());
    if end > live.string_bytes_max() {
        return Err(CommandError::StringTooLong);
    }
    live.edit_string(key, old.max(end), |bytes| {
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(patch);
    });
    live.changed(Event::SETRANGE, key);
    reply.integer(old.max(end) as i64);
    Ok(())
}

fn getrange(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let (first, last) = (args.integer(2)?, args.integer(3)?);
    let Some(value) = live.string(args.get(1))? else {
        reply.bulk(b"");
        return Ok(());
    };
    let bytes = value.as_bytes();
    let len = bytes.len() as i64;
    // Redis: both ends negative and crossed is empty before clamping.
    if first < 0 && last < 0 && first > last {
        reply.bulk(b"");
        return Ok(());
    }
    let from_end = |i: i64| {
        if i < 0 {
            len.saturating_add(i).max(0)
        } else {
            i
        }
    };
    let (first, last) = (from_end(first), from_end(last).min(len - 1));
    if first > last || len == 0 {
        reply.bulk(b"");
    } else {
        reply.bulk(&bytes[first as usize..=last as usize]);
    }
    Ok(())
}

fn substr(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    getrange(live, args, reply)
}

fn add(
    live: &mut Live<'_>,
    key: &[u8],
    amount: i64,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let old = match live.peek_string(key)? {
        Some(value) => parse_i64(value.as_bytes()).ok_or(CommandError::NotAnInteger)?,
        None => 0,
    };
    let new = old.checked_add(amount).ok_or(CommandError::Overflow)?;
    live.set_number(key, format_i64(new, &mut [0; 20]), Ttl::Keep);
    live.changed(Event::INCRBY, key);
    reply.integer(new);
    Ok(())
}

fn incr(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    add(live, args.get(1), 1, reply)
}

fn decr(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    add(live, args.get(1), -1, reply)
}

fn incrby(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    add(live, args.get(1), args.integer(2)?, reply)
}

fn decrby(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let amount = args.integer(2)?;
    let negated = amount
        .checked_neg()
        .ok_or(CommandError::text("ERR decrement would overflow"))?;
    add(live, args.get(1), negated, reply)
}

fn incrbyfloat(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let key = args.get(1);
    let old = match live.peek_string(key)? {
        Some(value) => LongDouble::parse(value.as_bytes()).ok_or(CommandError::NotAFloat)?,
        None => LongDouble::parse(b"0").ok_or(CommandError::NotAFloat)?,
    };
    let amount = LongDouble::parse(args.get(2)).ok_or(CommandError::NotAFloat)?;
    let new = old.add(amount);
    if !new.is_finite() {
        return Err(CommandError::NanOrInfinity);
    }
    let text = new.to_text();
    live.set_number(key, text.as_bytes(), Ttl::Keep);
    set_effect(live, key, text.as_bytes(), Ttl::Keep);
    live.changed(Event::INCRBYFLOAT, key);
    reply.bulk(text.as_bytes());
    Ok(())
}
