//! Deadlines of the fields of hashes: HEXPIRE and its kin, HTTL and its kin, HPERSIST, and the
//! commands that read, write or remove fields and their deadlines together.
//!
//! Arguments are checked in Redis' order: the type of the key, the time, the word FIELDS, the
//! number of fields; HSETEX checks its options first, one after another. A field is answered for as
//! the ones before it in the same command have left it.
//!
//! Redis: an expired field still counts until it is removed, with the consequences that
//! `store::fields` lists. Here it does not exist.

use crate::clock::Reading;
use crate::command::dispatch::args::Args;
use crate::command::hash::FIELD_VALUE;
use crate::command::key::expire::{CONDITION, Conditions, TtlOption};
use crate::command::reply_string;
use crate::command::string::{GETEX_EXPIRATION, MSETEX_EXPIRATION};
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::expiry::{self, Basis, Deadline, Unit, is_due};
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::Kind;
use crate::value::number::parse_i64;

/// The last deadline a field may have, in Unix ms.
const UNIX_MS_MAX: i64 = (1 << 46) - 1;

/// What is answered for a field that is not there.
const NO_FIELD: i64 = -2;
/// What is answered for a field without a deadline.
const NO_DEADLINE: i64 = -1;

/// The commands on deadlines of fields.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "hexpire",
        arity: -6,
        flags: flag::WRITE | flag::FAST | flag::OWN_EFFECT,
        categories: category::WRITE | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Hash,
        since: "7.4.0",
        complexity: "O(N) with N the number of fields",
        summary: "Sets the time to live of hash fields, in seconds.",
        args: &[
            Arg::key("key"),
            Arg::new("seconds", ArgKind::Integer),
            Arg::one_of("condition", CONDITION).optional(),
            Arg::block("fields", FIELDS).token("FIELDS"),
        ],
        subcommands: &[],
        handler: Data(hexpire),
    },
    Row {
        name: "hpexpire",
        arity: -6,
        flags: flag::WRITE | flag::FAST | flag::OWN_EFFECT,
        categories: category::WRITE | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Hash,
        since: "7.4.0",
        complexity: "O(N) with N the number of fields",
        summary: "Sets the time to live of hash fields, in milliseconds.",
        args: &[
            Arg::key("key"),
            Arg::new("milliseconds", ArgKind::Integer),
            Arg::one_of("condition", CONDITION).optional(),
            Arg::block("fields", FIELDS).token("FIELDS"),
        ],
        subcommands: &[],
        handler: Data(hpexpire),
    },
    Row {
        name: "hexpireat",
        arity: -6,
        flags: flag::WRITE | flag::FAST | flag::OWN_EFFECT,
        categories: category::WRITE | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Hash,
        since: "7.4.0",
        complexity: "O(N) with N the number of fields",
        summary: "Sets when hash fields expire, as a Unix time in seconds.",
        args: &[
            Arg::key("key"),
            Arg::new("unix-time-seconds", ArgKind::UnixTime),
            Arg::one_of("condition", CONDITION).optional(),
            Arg::block("fields", FIELDS).token("FIELDS"),
        ],
        subcommands: &[],
        handler: Data(hexpireat),
    },
    Row {
        name: "hpexpireat",
        arity: -6,
        flags: flag::WRITE | flag::FAST | flag::OWN_EFFECT,
        categories: category::WRITE | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Hash,
        since: "7.4.0",
        complexity: "O(N) with N the number of fields",
        summary: "Sets when hash fields expire, as a Unix time in milliseconds.",
        args: &[
            Arg::key("key"),
            Arg::new("unix-time-milliseconds", ArgKind::UnixTime),
            Arg::one_of("condition", CONDITION).optional(),
            Arg::block("fields", FIELDS).token("FIELDS"),
        ],
        subcommands: &[],
        handler: Data(hpexpireat),
    },
    Row {
        name: "httl",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Hash,
        since: "7.4.0",
        complexity: "O(N) with N the number of fields",
        summary: "Returns the remaining time to live of hash fields, in seconds.",
        args: &[
            Arg::key("key"),
            Arg::block("fields", FIELDS).token("FIELDS"),
        ],
        subcommands: &[],
        handler: Data(httl),
    },
    Row {
        name: "hpttl",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Hash,
        since: "7.4.0",
        complexity: "O(N) with N the number of fields",
        summary: "Returns the remaining time to live of hash fields, in milliseconds.",
        args: &[
            Arg::key("key"),
            Arg::block("fields", FIELDS).token("FIELDS"),
        ],
        subcommands: &[],
        handler: Data(hpttl),
    },
    Row {
        name: "hexpiretime",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Hash,
        since: "7.4.0",
        complexity: "O(N) with N the number of fields",
        summary: "Returns when hash fields expire, as Unix times in seconds.",
        args: &[
            Arg::key("key"),
            Arg::block("fields", FIELDS).token("FIELDS"),
        ],
        subcommands: &[],
        handler: Data(hexpiretime),
    },
    Row {
        name: "hpexpiretime",
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Hash,
        since: "7.4.0",
        complexity: "O(N) with N the number of fields",
        summary: "Returns when hash fields expire, as Unix times in milliseconds.",
        args: &[
            Arg::key("key"),
            Arg::block("fields", FIELDS).token("FIELDS"),
        ],
        subcommands: &[],
        handler: Data(hpexpiretime),
    },
    Row {
        name: "hpersist",
        arity: -5,
        flags: flag::WRITE | flag::FAST,
        categories: category::WRITE | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Hash,
        since: "7.4.0",
        complexity: "O(N) with N the number of fields",
        summary: "Removes the time to live of hash fields, so that they do not expire.",
        args: &[
            Arg::key("key"),
            Arg::block("fields", FIELDS).token("FIELDS"),
        ],
        subcommands: &[],
        handler: Data(hpersist),
    },
    Row {
        name: "hgetex",
        arity: -5,
        flags: flag::WRITE | flag::FAST | flag::OWN_EFFECT,
        categories: category::WRITE | category::HASH | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::UPDATE,
        )],
        group: Group::Hash,
        since: "8.0.0",
        complexity: "O(N) with N the number of fields",
        summary: "Returns the values of hash fields and sets or removes their time to live.",
        args: &[
            Arg::key("key"),
            Arg::one_of("expiration", GETEX_EXPIRATION).optional(),
            Arg::block("fields", FIELDS).token("FIELDS"),
        ],
        subcommands: &[],
        handler: Data(hgetex),
    },
    Row {
        name: "hsetex",
        arity: -6,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST | flag::OWN_EFFECT,
        categories: category::WRITE | category::HASH | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Hash,
        since: "8.0.0",
        complexity: "O(N) with N the number of fields",
        summary: "Sets hash fields together with their time to live.",
        args: &[
            Arg::key("key"),
            Arg::one_of("condition", HSETEX_CONDITION).optional(),
            Arg::one_of("expiration", MSETEX_EXPIRATION).optional(),
            Arg::block("fields", FIELDS_AND_VALUES).token("FIELDS"),
        ],
        subcommands: &[],
        handler: Data(hsetex),
    },
    Row {
        name: "hgetdel",
        arity: -5,
        flags: flag::WRITE | flag::FAST,
        categories: category::WRITE | category::HASH | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::Hash,
        since: "8.0.0",
        complexity: "O(N) with N the number of fields",
        summary: "Returns the values of hash fields and removes the fields.",
        args: &[
            Arg::key("key"),
            Arg::block("fields", FIELDS).token("FIELDS"),
        ],
        subcommands: &[],
        handler: Data(hgetdel),
    },
];

const FIELDS: &[Arg] = &[
    Arg::new("numfields", ArgKind::Integer),
    Arg::new("field", ArgKind::String).multiple(),
];

const FIELDS_AND_VALUES: &[Arg] = &[
    Arg::new("numfields", ArgKind::Integer),
    Arg::block("data", FIELD_VALUE).multiple(),
];

const HSETEX_CONDITION: &[Arg] = &[Arg::word("fnx", "FNX"), Arg::word("fxx", "FXX")];

/// The deadline of fields that a number asks for; one that has come is none to refuse.
fn field_deadline(
    number: &[u8],
    unit: Unit,
    basis: Basis,
    command: &'static str,
    reading: &Reading,
) -> Result<Deadline, CommandError> {
    let amount = parse_i64(number).ok_or(CommandError::NotAnInteger)?;
    if amount < 0 {
        return Err(CommandError::text("ERR invalid expire time, must be >= 0"));
    }
    expiry::deadline(amount, unit, basis, reading)
        .filter(|&deadline| expiry::expiretime_ms(deadline, reading) <= UNIX_MS_MAX)
        .ok_or(CommandError::InvalidExpire(command))
}

/// Where the names begin behind the word FIELDS, which is argument `at`, and their number, which is
/// that of all the arguments left.
fn fields_at(args: Args<'_>, at: usize, not_positive: &'static str) -> Result<usize, CommandError> {
    if at >= args.len() || !args.is(at, "fields") {
        return Err(CommandError::text(
            "ERR Mandatory argument FIELDS is missing or not at the right position",
        ));
    }
    let count = args.at(at + 1).and_then(parse_i64);
    let count = count.filter(|count| *count > 0);
    let count = count.ok_or(CommandError::text(not_positive))?;
    if usize::try_from(count) != Ok(args.len() - at - 2) {
        return Err(CommandError::text(
            "ERR The `numfields` parameter must match the number of arguments",
        ));
    }
    Ok(at + 2)
}

const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

/// The hash at a key that a command changes may be of another type: that is said before anything
/// is said about the other arguments.
fn check_type(live: &Live<'_>, key: &[u8]) -> Result<(), CommandError> {
    match live.peek(key) {
        Some(slot) if slot.kind() != Kind::Hash => Err(CommandError::WrongType),
        _ => Ok(()),
    }
}

/// Records that fields got a deadline.
pub(super) fn deadline_effect(
    live: &mut Live<'_>,
    key: &[u8],
    deadline: Deadline,
    fields: &[&[u8]],
) {
    if live.is_followed() && !fields.is_empty() {
        let moment = expiry::expiretime_ms(deadline, live.reading()).to_string();
        let count = fields.len().to_string();
        let head = [b"HPEXPIREAT".as_slice(), key, moment.as_bytes(), b"FIELDS"];
        let fields = fields.iter().copied();
        live.effect(head.into_iter().chain([count.as_bytes()]).chain(fields));
    }
}

/// Fields a command did the same to: how many, and which if anybody hears of effects.
#[derive(Default)]
struct Touched<'a> {
    count: usize,
    fields: Vec<&'a [u8]>,
}

impl<'a> Touched<'a> {
    fn add(&mut self, field: &'a [u8], is_followed: bool) {
        self.count += 1;
        if is_followed {
            self.fields.push(field);
        }
    }
}

/// What a command did to fields, to be reported once for all of them.
#[derive(Default)]
struct Done<'a> {
    set: Touched<'a>,
    persisted: Touched<'a>,
    removed: Touched<'a>,
}

impl Done<'_> {
    /// Records the effects, of which there is one for each kind; fields were set to this deadline.
    fn record(&self, live: &mut Live<'_>, key: &[u8], deadline: Option<Deadline>) {
        if let Some(deadline) = deadline {
            deadline_effect(live, key, deadline, &self.set.fields);
        }
        let Touched { count, fields } = &self.persisted;
        if !fields.is_empty() {
            let count = count.to_string();
            let head = [b"HPERSIST".as_slice(), key, b"FIELDS", count.as_bytes()];
            live.effect(head.into_iter().chain(fields.iter().copied()));
        }
        if !self.removed.fields.is_empty() {
            let head = [b"HDEL".as_slice(), key];
            live.effect(head.into_iter().chain(self.removed.fields.iter().copied()));
        }
    }

    /// Reports it; removes the hash if its last field is gone.
    fn report(&self, live: &mut Live<'_>, key: &[u8], removal: Event) {
        if self.set.count > 0 {
            live.changed_by(Event::HEXPIRE, key, self.set.count);
        }
        if self.persisted.count > 0 {
            live.changed_by(Event::HPERSIST, key, self.persisted.count);
        }
        if self.removed.count > 0 {
            live.changed_by(removal, key, self.removed.count);
            live.drop_empty(key);
        }
    }
}

fn hexpire_with(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    (unit, basis): (Unit, Basis),
    command: &'static str,
) -> Result<(), CommandError> {
    let key = args.get(1);
    check_type(live, key)?;
    let deadline = field_deadline(args.get(2), unit, basis, command, live.reading())?;
    let conditions = Conditions::of_word(args.get(3));
    let at = if conditions.is_some() { 4 } else { 3 };
    let first = fields_at(
        args,
        at,
        "ERR Parameter `numFields` should be greater than 0",
    )?;
    let conditions = conditions.unwrap_or_default();
    let is_past = is_due(deadline, live.reading().now);
    let is_followed = live.is_followed();
    let mut done = Done::default();
    let mut hash = live.hash_mut(key)?;
    reply.array(args.len() - first);
    for field in args.from(first) {
        let answer = hash.as_mut().map_or(NO_FIELD, |hash| {
            let Some(old) = hash.find(field).map(|found| found.deadline) else {
                return NO_FIELD;
            };
            if !conditions.allow(old, deadline) {
                return 0;
            }
            if is_past {
                hash.remove(field);
                done.removed.add(field, is_followed);
                return 2;
            }
            hash.set_deadline(field, Some(deadline));
            done.set.add(field, is_followed);
            1
        });
        reply.integer(answer);
    }
    done.record(live, key, Some(deadline));
    let removal = live.past_field_event(done.removed.count);
    done.report(live, key, removal);
    Ok(())
}

fn hexpire(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    hexpire_with(
        live,
        args,
        reply,
        (Unit::Seconds, Basis::Relative),
        "hexpire",
    )
}

fn hpexpire(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    hexpire_with(
        live,
        args,
        reply,
        (Unit::Millis, Basis::Relative),
        "hpexpire",
    )
}

fn hexpireat(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    hexpire_with(
        live,
        args,
        reply,
        (Unit::Seconds, Basis::Absolute),
        "hexpireat",
    )
}

fn hpexpireat(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    hexpire_with(
        live,
        args,
        reply,
        (Unit::Millis, Basis::Absolute),
        "hpexpireat",
    )
}

/// Answers something about the deadlines of fields.
fn reply_deadlines(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    read: fn(Deadline, &Reading) -> i64,
) -> Result<(), CommandError> {
    let hash = live.hash(args.get(1))?;
    let first = fields_at(args, 2, NOT_POSITIVE)?;
    reply.array(args.len() - first);
    for field in args.from(first) {
        let deadline = hash.and_then(|hash| hash.deadline(field));
        reply.integer(match deadline {
            None => NO_FIELD,
            Some(None) => NO_DEADLINE,
            Some(Some(deadline)) => read(deadline, live.reading()),
        });
    }
    Ok(())
}

fn httl(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    reply_deadlines(live, args, reply, |at, reading| {
        expiry::seconds_up(expiry::ttl_ms(at, reading.now))
    })
}

fn hpttl(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    reply_deadlines(live, args, reply, |at, reading| {
        expiry::ttl_ms(at, reading.now)
    })
}

fn hexpiretime(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    reply_deadlines(live, args, reply, |at, reading| {
        expiry::seconds_up(expiry::expiretime_ms(at, reading))
    })
}

fn hpexpiretime(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    reply_deadlines(live, args, reply, expiry::expiretime_ms)
}

fn hpersist(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let key = args.get(1);
    check_type(live, key)?;
    let first = fields_at(args, 2, NOT_POSITIVE)?;
    let mut has_changed = false;
    let mut hash = live.hash_mut(key)?;
    reply.array(args.len() - first);
    for field in args.from(first) {
        let answer = hash.as_mut().map_or(NO_FIELD, |hash| {
            match hash.find(field).map(|f| f.deadline) {
                None => NO_FIELD,
                Some(None) => NO_DEADLINE,
                Some(Some(_)) => {
                    hash.set_deadline(field, None);
                    has_changed = true;
                    1
                }
            }
        });
        reply.integer(answer);
    }
    if has_changed {
        // Redis: one change, however many fields there are, unlike HGETEX.
        live.changed(Event::HPERSIST, key);
    }
    Ok(())
}

/// What HGETEX does to deadlines.
enum Change {
    Nothing,
    Persist,
    Set(Deadline),
}

/// The option of HGETEX, and where the word FIELDS must be.
fn hgetex_option(args: Args<'_>, reading: &Reading) -> Result<(Change, usize), CommandError> {
    if args.is(2, "persist") {
        return Ok((Change::Persist, 3));
    }
    let Some(option) = TtlOption::parse(args, 2) else {
        return Ok((Change::Nothing, 2));
    };
    let TtlOption {
        unit,
        basis,
        number,
        ..
    } = option;
    let deadline = field_deadline(number, unit, basis, "hgetex", reading)?;
    if args.len() < 6 {
        return Err(CommandError::WrongArity("hgetex".to_owned()));
    }
    Ok((Change::Set(deadline), 4))
}

fn hgetex(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    check_type(live, key)?;
    let (change, at) = hgetex_option(args, live.reading())?;
    let first = fields_at(args, at, NOT_POSITIVE)?;
    let (now, is_followed) = (live.reading().now, live.is_followed());
    let mut done = Done::default();
    if let Change::Nothing = change {
        let hash = live.peek_hash(key)?;
        reply.array(args.len() - first);
        for field in args.from(first) {
            reply_string(reply, hash.and_then(|hash| hash.get(field)));
        }
        return Ok(());
    }
    let mut hash = live.hash_mut(key)?;
    reply.array(args.len() - first);
    for field in args.from(first) {
        let found = hash.as_mut().and_then(|hash| hash.find(field));
        reply_string(reply, found.map(|found| found.value));
        let deadline = found.map(|found| found.deadline);
        let Some((hash, old)) = hash.as_mut().zip(deadline) else {
            continue;
        };
        match change {
            Change::Set(deadline) if is_due(deadline, now) => {
                hash.remove(field);
                done.removed.add(field, is_followed);
            }
            Change::Set(deadline) => {
                hash.set_deadline(field, Some(deadline));
                done.set.add(field, is_followed);
            }
            Change::Persist if old.is_some() => {
                hash.set_deadline(field, None);
                done.persisted.add(field, is_followed);
            }
            Change::Persist | Change::Nothing => {}
        }
    }
    let deadline = match change {
        Change::Set(deadline) => Some(deadline),
        Change::Persist | Change::Nothing => None,
    };
    done.record(live, key, deadline);
    let removal = live.past_field_event(done.removed.count);
    done.report(live, key, removal);
    Ok(())
}

/// The options of HSETEX.
#[derive(Default)]
struct HsetexOptions {
    /// Only if all fields are there, or only if none is.
    condition: Option<bool>,
    keeps: bool,
    deadline: Option<Deadline>,
    /// The argument with the first field.
    first: usize,
}

impl HsetexOptions {
    fn parse(args: Args<'_>, reading: &Reading) -> Result<HsetexOptions, CommandError> {
        let mut options = HsetexOptions::default();
        let wrong_arity = || CommandError::WrongArity("hsetex".to_owned());
        let mut i = 2;
        while i < args.len() {
            if args.is(i, "fields") {
                options.first = i + 2;
                return options.check_fields(args, i).map(|()| options);
            }
            if args.is(i, "fnx") || args.is(i, "fxx") {
                let is_second = options.condition.is_some();
                options.condition = Some(args.is(i, "fxx"));
                if is_second {
                    return Err(CommandError::text(
                        "ERR Only one of FXX or FNX arguments can be specified",
                    ));
                }
                i += 1;
                continue;
            }
            let is_keep = args.is(i, "keepttl");
            let is_ttl = TtlOption::meaning(args.get(i)).is_some();
            if !is_keep && !is_ttl {
                return Err(args.refused("ERR unknown argument: ", i, ""));
            }
            if options.keeps || options.deadline.is_some() {
                return Err(CommandError::text(
                    "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
                ));
            }
            if is_keep {
                options.keeps = true;
                i += 1;
                continue;
            }
            let TtlOption {
                unit,
                basis,
                number,
                ..
            } = TtlOption::parse(args, i).ok_or_else(wrong_arity)?;
            options.deadline = Some(field_deadline(number, unit, basis, "hsetex", reading)?);
            i += 2;
        }
        Err(wrong_arity())
    }

    /// Whether behind the word FIELDS, which is argument `at`, there are as many fields with values
    /// as it says.
    fn check_fields(&self, args: Args<'_>, at: usize) -> Result<(), CommandError> {
        let wrong_arity = || CommandError::WrongArity("hsetex".to_owned());
        let given = args.len().saturating_sub(self.first);
        if given < 2 {
            return Err(wrong_arity());
        }
        let count = parse_i64(args.get(at + 1)).filter(|count| (1..1 << 31).contains(count));
        let count = count.ok_or(CommandError::text("ERR invalid number of fields"))?;
        if given as i64 != 2 * count {
            return Err(wrong_arity());
        }
        Ok(())
    }
}

impl HsetexOptions {
    /// Records the effect: fields removed that were given a deadline in the past, or set.
    fn record(&self, live: &mut Live<'_>, args: Args<'_>, is_past: bool) {
        if !live.is_followed() {
            return;
        }
        let key = args.get(1);
        if is_past {
            let fields = args.from(self.first).step_by(2);
            return live.effect([b"HDEL".as_slice(), key].into_iter().chain(fields));
        }
        let moment = self
            .deadline
            .map(|at| expiry::expiretime_ms(at, live.reading()));
        let moment = moment.map(|moment| moment.to_string());
        let count = ((args.len() - self.first) / 2).to_string();
        let mut effect = vec![b"HSETEX".as_slice(), key];
        match &moment {
            Some(moment) => effect.extend([b"PXAT".as_slice(), moment.as_bytes()]),
            None if self.keeps => effect.push(b"KEEPTTL"),
            None => {}
        }
        effect.extend([b"FIELDS".as_slice(), count.as_bytes()]);
        live.effect(effect.into_iter().chain(args.from(self.first)));
    }
}

fn hsetex(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let options = HsetexOptions::parse(args, live.reading())?;
    check_type(live, key)?;
    let fields = || (options.first..args.len()).step_by(2);
    if let Some(must_be_there) = options.condition {
        let hash = live.peek_hash(key)?;
        let is_there = |i| hash.is_some_and(|hash| hash.contains(args.get(i)));
        if !fields().all(|i| is_there(i) == must_be_there) {
            reply.integer(0);
            return Ok(());
        }
    }
    let is_past = options
        .deadline
        .is_some_and(|at| is_due(at, live.reading().now));
    let mut hash = live.hash_or_new(key)?;
    hash.prepare((args.len() - options.first) / 2);
    for i in fields() {
        let (field, value) = (args.get(i), args.get(i + 1));
        if options.keeps || options.deadline.is_some() {
            hash.set_keeping(field, value);
        } else {
            hash.set(field, value);
        }
        if options.deadline.is_some() && !is_past {
            hash.set_deadline(field, options.deadline);
        }
    }
    let removed = if is_past {
        fields().filter(|&i| hash.remove(args.get(i))).count()
    } else {
        0
    };
    options.record(live, args, is_past);
    live.changed_by(Event::HSET, key, fields().count());
    if is_past {
        let removal = live.past_field_event(removed);
        live.also(removal, key);
        live.drop_empty(key);
    } else if options.deadline.is_some() {
        live.also(Event::HEXPIRE, key);
    }
    reply.integer(1);
    Ok(())
}

fn hgetdel(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    check_type(live, key)?;
    let first = fields_at(args, 2, NOT_POSITIVE)?;
    let mut done = Done::default();
    let mut hash = live.hash_mut(key)?;
    reply.array(args.len() - first);
    for field in args.from(first) {
        let value = hash.as_ref().and_then(|hash| hash.view().get(field));
        reply_string(reply, value);
        let was_there = hash.as_mut().is_some_and(|hash| hash.remove(field));
        done.removed.count += usize::from(was_there);
    }
    done.report(live, key, Event::HDEL);
    Ok(())
}
