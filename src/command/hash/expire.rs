//! Deadlines of the fields of hashes: HEXPIRE and its kin, HTTL and its kin, HPERSIST, and the
//! commands that read, write or remove fields and their deadlines together.
//!
//! What they share with the commands on members of sets is in `command::member`. HSETEX checks its
//! options first, one after another.
//!
//! Redis: an expired field still counts until it is removed, with the consequences that
//! `store::members` lists. Here it does not exist.

use crate::command::dispatch::args::Args;
use crate::command::hash::FIELD_VALUE;
use crate::command::key::expire::{CONDITION, TtlOption};
use crate::command::member::{
    Done, FIELDS_OF_HASH, MOMENT_MS, MOMENT_SECONDS, TTL_MS, TTL_SECONDS, member_term,
};
use crate::command::reply_string;
use crate::command::string::{GETEX_EXPIRATION, MSETEX_EXPIRATION};
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::expiry::{self, MemberTerm, is_due};
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::Kind;
use crate::value::number::parse_i64;

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
        handler: Data(|live, args, reply| FIELDS_OF_HASH.expire(live, args, reply, "hexpire")),
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
        handler: Data(|live, args, reply| FIELDS_OF_HASH.expire(live, args, reply, "hpexpire")),
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
        handler: Data(|live, args, reply| FIELDS_OF_HASH.expire(live, args, reply, "hexpireat")),
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
        handler: Data(|live, args, reply| FIELDS_OF_HASH.expire(live, args, reply, "hpexpireat")),
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
        handler: Data(|live, args, reply| FIELDS_OF_HASH.tell(live, args, reply, TTL_SECONDS)),
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
        handler: Data(|live, args, reply| FIELDS_OF_HASH.tell(live, args, reply, TTL_MS)),
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
        handler: Data(|live, args, reply| FIELDS_OF_HASH.tell(live, args, reply, MOMENT_SECONDS)),
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
        handler: Data(|live, args, reply| FIELDS_OF_HASH.tell(live, args, reply, MOMENT_MS)),
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
        handler: Data(|live, args, reply| FIELDS_OF_HASH.persist(live, args, reply)),
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

/// What HGETEX does to deadlines.
enum Change {
    Nothing,
    Persist,
    Set(MemberTerm),
}

/// The option of HGETEX, and where the word FIELDS must be.
fn hgetex_option(live: &Live<'_>, args: Args<'_>) -> Result<(Change, usize), CommandError> {
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
    let term = member_term(live, number, (unit, basis), "hgetex")?;
    if args.len() < 6 {
        return Err(CommandError::WrongArity("hgetex".to_owned()));
    }
    Ok((Change::Set(term), 4))
}

fn hgetex(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    FIELDS_OF_HASH.check_type(live, key)?;
    let (change, at) = hgetex_option(live, args)?;
    let first = FIELDS_OF_HASH.names_at(args, at, FIELDS_OF_HASH.not_positive)?;
    let (now, is_followed) = (live.reading().now, live.is_followed());
    let mut done = Done::new(Kind::Hash);
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
        let deadline = found.map(|found| found.deadline());
        let Some((hash, old)) = hash.as_mut().zip(deadline) else {
            continue;
        };
        match change {
            Change::Set(term) if is_due(term.deadline, now) => {
                hash.remove(field);
                done.removed.add(field, is_followed);
            }
            Change::Set(term) => {
                hash.set_term(field, Some(term));
                done.set.add(field, is_followed);
            }
            Change::Persist if old.is_some() => {
                hash.set_term(field, None);
                done.persisted.add(field, is_followed);
            }
            Change::Persist | Change::Nothing => {}
        }
    }
    let deadline = match change {
        Change::Set(term) => Some(term.deadline),
        Change::Persist | Change::Nothing => None,
    };
    done.record(live, key, deadline);
    done.report_past(live, key);
    Ok(())
}

/// The options of HSETEX.
#[derive(Default)]
struct HsetexOptions {
    /// Only if all fields are there, or only if none is.
    condition: Option<bool>,
    keeps: bool,
    term: Option<MemberTerm>,
    /// The argument with the first field.
    first: usize,
}

impl HsetexOptions {
    fn parse(live: &Live<'_>, args: Args<'_>) -> Result<HsetexOptions, CommandError> {
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
            if options.keeps || options.term.is_some() {
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
            options.term = Some(member_term(live, number, (unit, basis), "hsetex")?);
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
            .term
            .map(|term| expiry::expiretime_ms(term.deadline, live.reading()));
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
    let options = HsetexOptions::parse(live, args)?;
    FIELDS_OF_HASH.check_type(live, key)?;
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
        .term
        .is_some_and(|term| is_due(term.deadline, live.reading().now));
    let mut hash = live.hash_or_new(key)?;
    hash.prepare((args.len() - options.first) / 2);
    for i in fields() {
        let (field, value) = (args.get(i), args.get(i + 1));
        if options.keeps || options.term.is_some() {
            hash.set_keeping(field, value);
        } else {
            hash.set(field, value);
        }
        if options.term.is_some() && !is_past {
            hash.set_term(field, options.term);
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
        let removal = live.past_member_event(Kind::Hash, removed);
        live.also(removal, key);
        live.drop_empty(key);
    } else if options.term.is_some() {
        live.also(Event::HEXPIRE, key);
    }
    reply.integer(1);
    Ok(())
}

fn hgetdel(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    FIELDS_OF_HASH.check_type(live, key)?;
    let first = FIELDS_OF_HASH.names_at(args, 2, FIELDS_OF_HASH.not_positive)?;
    let mut done = Done::new(Kind::Hash);
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
