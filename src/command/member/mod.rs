//! Deadlines of members of collections: what the commands on fields of hashes (`command::hash`)
//! and those on members of sets and sorted sets have in common, and the latter. Redis has the
//! former only: what SEXPIRE, ZEXPIRE and their kin do is what HEXPIRE and its kin do there, with
//! the word MEMBERS for FIELDS.
//!
//! Arguments are checked in Redis' order: the type of the key, the time, the word before the number
//! of members, that number. A member is answered for as the ones before it in the same command have
//! left it.
//!
//! A member keeps its deadline: SADD of one that is there changes nothing, ZADD and ZINCRBY change
//! its score only, and SMOVE takes the deadline along. One that was removed, or has died, and is
//! added again has none.

pub mod keydb_dragonfly;

use crate::clock::Reading;
use crate::command::dispatch::args::Args;
use crate::command::key::expire::{CONDITION, Conditions, SINCE_MAYFLY};
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::expiry::{self, Basis, Deadline, MemberTerm, Unit, is_due};
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::store::members::words_of;
use crate::value::Kind;
use crate::value::number::parse_i64;

/// The last deadline a member may have, in Unix ms.
const UNIX_MS_MAX: i64 = (1 << 46) - 1;

/// What is answered for a member that is not there.
const NO_MEMBER: i64 = -2;
/// What is answered for a member without a deadline.
const NO_DEADLINE: i64 = -1;

/// How a deadline is told.
pub type Telling = fn(Deadline, &Reading) -> i64;
/// What is left, in seconds, rounded up.
pub const TTL_SECONDS: Telling = |at, reading| expiry::seconds_up(expiry::ttl_ms(at, reading.now));
/// What is left, in milliseconds.
pub const TTL_MS: Telling = |at, reading| expiry::ttl_ms(at, reading.now);
/// When it is, in seconds of Unix time, rounded up.
pub const MOMENT_SECONDS: Telling =
    |at, reading| expiry::seconds_up(expiry::expiretime_ms(at, reading));
/// When it is, in milliseconds of Unix time.
pub const MOMENT_MS: Telling = expiry::expiretime_ms;

/// A type of collection and how its commands speak of its members.
pub struct Family {
    kind: Kind,
    /// The word before the number of members.
    word: &'static str,
    is_missing: &'static str,
    /// What HEXPIRE and its like say of a number of members that is none.
    not_positive_to_expire: &'static str,
    /// What the others say.
    pub not_positive: &'static str,
    does_not_match: &'static str,
}

/// Fields of hashes.
pub const FIELDS_OF_HASH: Family = Family {
    kind: Kind::Hash,
    word: "fields",
    is_missing: "ERR Mandatory argument FIELDS is missing or not at the right position",
    not_positive_to_expire: "ERR Parameter `numFields` should be greater than 0",
    not_positive: "ERR Number of fields must be a positive integer",
    does_not_match: "ERR The `numfields` parameter must match the number of arguments",
};

/// Members of sets.
const MEMBERS_OF_SET: Family = Family {
    kind: Kind::Set,
    word: "members",
    is_missing: "ERR Mandatory argument MEMBERS is missing or not at the right position",
    not_positive_to_expire: "ERR Parameter `numMembers` should be greater than 0",
    not_positive: "ERR Number of members must be a positive integer",
    does_not_match: "ERR The `nummembers` parameter must match the number of arguments",
};

/// Members of sorted sets.
const MEMBERS_OF_ZSET: Family = Family {
    kind: Kind::Zset,
    ..MEMBERS_OF_SET
};

const MEMBERS: &[Arg] = &[
    Arg::new("nummembers", ArgKind::Integer),
    Arg::new("member", ArgKind::String).multiple(),
];

const TELL_ARGS: &[Arg] = &[
    Arg::key("key"),
    Arg::block("members", MEMBERS).token("MEMBERS"),
];

const EXPIRE_ARGS: &[Arg] = &[
    Arg::key("key"),
    Arg::new("seconds", ArgKind::Integer),
    Arg::one_of("condition", CONDITION).optional(),
    Arg::block("members", MEMBERS).token("MEMBERS"),
];

const PEXPIRE_ARGS: &[Arg] = &[
    Arg::key("key"),
    Arg::new("milliseconds", ArgKind::Integer),
    Arg::one_of("condition", CONDITION).optional(),
    Arg::block("members", MEMBERS).token("MEMBERS"),
];

const EXPIREAT_ARGS: &[Arg] = &[
    Arg::key("key"),
    Arg::new("unix-time-seconds", ArgKind::UnixTime),
    Arg::one_of("condition", CONDITION).optional(),
    Arg::block("members", MEMBERS).token("MEMBERS"),
];

const PEXPIREAT_ARGS: &[Arg] = &[
    Arg::key("key"),
    Arg::new("unix-time-milliseconds", ArgKind::UnixTime),
    Arg::one_of("condition", CONDITION).optional(),
    Arg::block("members", MEMBERS).token("MEMBERS"),
];

const CHANGED: &[KeySpec] = &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)];
const READ: &[KeySpec] = &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)];

/// A command that changes deadlines of members of sets or sorted sets.
const fn setting(
    (group, categories): (Group, u32),
    name: &'static str,
    summary: &'static str,
    args: &'static [Arg],
    handler: DataHandler,
) -> Row {
    Row {
        name,
        arity: -6,
        flags: flag::WRITE | flag::FAST | flag::OWN_EFFECT,
        categories: category::WRITE | categories | category::FAST,
        keys: CHANGED,
        group,
        since: SINCE_MAYFLY,
        complexity: "O(N) with N the number of members",
        summary,
        args,
        subcommands: &[],
        handler: Data(handler),
    }
}

/// A command that tells deadlines of members of sets or sorted sets.
const fn telling(
    (group, categories): (Group, u32),
    name: &'static str,
    summary: &'static str,
    handler: DataHandler,
) -> Row {
    Row {
        arity: -5,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | categories | category::FAST,
        keys: READ,
        ..setting((group, categories), name, summary, TELL_ARGS, handler)
    }
}

const OF_SET: (Group, u32) = (Group::Set, category::SET);
const OF_ZSET: (Group, u32) = (Group::SortedSet, category::SORTEDSET);

/// The commands on deadlines of members of sets and sorted sets.
pub const COMMANDS: &[Row] = &[
    setting(
        OF_SET,
        "sexpire",
        "Sets the time to live of set members, in seconds.",
        EXPIRE_ARGS,
        |live, args, reply| MEMBERS_OF_SET.expire(live, args, reply, "sexpire"),
    ),
    setting(
        OF_SET,
        "spexpire",
        "Sets the time to live of set members, in milliseconds.",
        PEXPIRE_ARGS,
        |live, args, reply| MEMBERS_OF_SET.expire(live, args, reply, "spexpire"),
    ),
    setting(
        OF_SET,
        "sexpireat",
        "Sets when set members expire, as a Unix time in seconds.",
        EXPIREAT_ARGS,
        |live, args, reply| MEMBERS_OF_SET.expire(live, args, reply, "sexpireat"),
    ),
    setting(
        OF_SET,
        "spexpireat",
        "Sets when set members expire, as a Unix time in milliseconds.",
        PEXPIREAT_ARGS,
        |live, args, reply| MEMBERS_OF_SET.expire(live, args, reply, "spexpireat"),
    ),
    telling(
        OF_SET,
        "sttl",
        "Returns the remaining time to live of set members, in seconds.",
        |live, args, reply| MEMBERS_OF_SET.tell(live, args, reply, TTL_SECONDS),
    ),
    telling(
        OF_SET,
        "spttl",
        "Returns the remaining time to live of set members, in milliseconds.",
        |live, args, reply| MEMBERS_OF_SET.tell(live, args, reply, TTL_MS),
    ),
    telling(
        OF_SET,
        "sexpiretime",
        "Returns when set members expire, as Unix times in seconds.",
        |live, args, reply| MEMBERS_OF_SET.tell(live, args, reply, MOMENT_SECONDS),
    ),
    telling(
        OF_SET,
        "spexpiretime",
        "Returns when set members expire, as Unix times in milliseconds.",
        |live, args, reply| MEMBERS_OF_SET.tell(live, args, reply, MOMENT_MS),
    ),
    Row {
        arity: -5,
        flags: flag::WRITE | flag::FAST,
        ..setting(
            OF_SET,
            "spersist",
            "Removes the time to live of set members, so that they do not expire.",
            TELL_ARGS,
            |live, args, reply| MEMBERS_OF_SET.persist(live, args, reply),
        )
    },
    setting(
        OF_ZSET,
        "zexpire",
        "Sets the time to live of sorted set members, in seconds.",
        EXPIRE_ARGS,
        |live, args, reply| MEMBERS_OF_ZSET.expire(live, args, reply, "zexpire"),
    ),
    setting(
        OF_ZSET,
        "zpexpire",
        "Sets the time to live of sorted set members, in milliseconds.",
        PEXPIRE_ARGS,
        |live, args, reply| MEMBERS_OF_ZSET.expire(live, args, reply, "zpexpire"),
    ),
    setting(
        OF_ZSET,
        "zexpireat",
        "Sets when sorted set members expire, as a Unix time in seconds.",
        EXPIREAT_ARGS,
        |live, args, reply| MEMBERS_OF_ZSET.expire(live, args, reply, "zexpireat"),
    ),
    setting(
        OF_ZSET,
        "zpexpireat",
        "Sets when sorted set members expire, as a Unix time in milliseconds.",
        PEXPIREAT_ARGS,
        |live, args, reply| MEMBERS_OF_ZSET.expire(live, args, reply, "zpexpireat"),
    ),
    telling(
        OF_ZSET,
        "zttl",
        "Returns the remaining time to live of sorted set members, in seconds.",
        |live, args, reply| MEMBERS_OF_ZSET.tell(live, args, reply, TTL_SECONDS),
    ),
    telling(
        OF_ZSET,
        "zpttl",
        "Returns the remaining time to live of sorted set members, in milliseconds.",
        |live, args, reply| MEMBERS_OF_ZSET.tell(live, args, reply, TTL_MS),
    ),
    telling(
        OF_ZSET,
        "zexpiretime",
        "Returns when sorted set members expire, as Unix times in seconds.",
        |live, args, reply| MEMBERS_OF_ZSET.tell(live, args, reply, MOMENT_SECONDS),
    ),
    telling(
        OF_ZSET,
        "zpexpiretime",
        "Returns when sorted set members expire, as Unix times in milliseconds.",
        |live, args, reply| MEMBERS_OF_ZSET.tell(live, args, reply, MOMENT_MS),
    ),
    Row {
        arity: -5,
        flags: flag::WRITE | flag::FAST,
        ..setting(
            OF_ZSET,
            "zpersist",
            "Removes the time to live of sorted set members, so that they do not expire.",
            TELL_ARGS,
            |live, args, reply| MEMBERS_OF_ZSET.persist(live, args, reply),
        )
    },
];

/// The term of members that a number asks for; a deadline that has come is none to refuse.
pub fn member_term(
    live: &Live<'_>,
    number: &[u8],
    (unit, basis): (Unit, Basis),
    command: &'static str,
) -> Result<MemberTerm, CommandError> {
    let amount = parse_i64(number).ok_or(CommandError::NotAnInteger)?;
    if amount < 0 {
        return Err(CommandError::text("ERR invalid expire time, must be >= 0"));
    }
    let reading = live.reading();
    expiry::deadline(amount, unit, basis, reading)
        .filter(|&deadline| expiry::expiretime_ms(deadline, reading) <= UNIX_MS_MAX)
        .map(|deadline| live.member_term(deadline, basis))
        .ok_or(CommandError::InvalidExpire(command))
}

/// In what unit the times of a command are, and from when they count, as its name says.
fn time_of(command: &str) -> (Unit, Basis) {
    let unit = if command.as_bytes().get(1) == Some(&b'p') {
        Unit::Millis
    } else {
        Unit::Seconds
    };
    let basis = if command.ends_with("at") {
        Basis::Absolute
    } else {
        Basis::Relative
    };
    (unit, basis)
}

impl Family {
    /// The collection at a key that a command changes may be of another type: that is said before
    /// anything is said about the other arguments.
    pub fn check_type(&self, live: &Live<'_>, key: &[u8]) -> Result<(), CommandError> {
        match live.peek(key) {
            Some(slot) if slot.kind() != self.kind => Err(CommandError::WrongType),
            _ => Ok(()),
        }
    }

    /// Where the members begin behind the word, which is argument `at`, and their number, which is
    /// that of all the arguments left.
    pub fn names_at(
        &self,
        args: Args<'_>,
        at: usize,
        not_positive: &'static str,
    ) -> Result<usize, CommandError> {
        if at >= args.len() || !args.is(at, self.word) {
            return Err(CommandError::text(self.is_missing));
        }
        let count = args.at(at + 1).and_then(parse_i64);
        let count = count.filter(|count| *count > 0);
        let count = count.ok_or(CommandError::text(not_positive))?;
        if usize::try_from(count) != Ok(args.len() - at - 2) {
            return Err(CommandError::text(self.does_not_match));
        }
        Ok(at + 2)
    }

    /// Gives members deadlines, as HEXPIRE does fields, in the terms that the command's name says.
    pub fn expire(
        &self,
        live: &mut Live<'_>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
        command: &'static str,
    ) -> Result<(), CommandError> {
        let key = args.get(1);
        self.check_type(live, key)?;
        let term = member_term(live, args.get(2), time_of(command), command)?;
        let conditions = Conditions::of_word(args.get(3));
        let at = if conditions.is_some() { 4 } else { 3 };
        let first = self.names_at(args, at, self.not_positive_to_expire)?;
        let mut done = Done::new(self.kind);
        let conditions = conditions.unwrap_or_default();
        let names = args.from(first);
        let answers = done.expire(live, key, names, term, conditions)?;
        reply.array(answers.len());
        answers.into_iter().for_each(|answer| reply.integer(answer));
        done.record(live, key, Some(term.deadline));
        done.report_past(live, key);
        Ok(())
    }

    /// Answers something about the deadlines of members.
    pub fn tell(
        &self,
        live: &mut Live<'_>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
        telling: Telling,
    ) -> Result<(), CommandError> {
        let reading = *live.reading();
        let members = live.members(args.get(1), self.kind)?;
        let first = self.names_at(args, 2, self.not_positive)?;
        reply.array(args.len() - first);
        for member in args.from(first) {
            let deadline = members.and_then(|members| members.deadline(member));
            reply.integer(match deadline {
                None => NO_MEMBER,
                Some(None) => NO_DEADLINE,
                Some(Some(deadline)) => telling(deadline, &reading),
            });
        }
        Ok(())
    }

    /// Takes the deadlines of members.
    pub fn persist(
        &self,
        live: &mut Live<'_>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), CommandError> {
        let key = args.get(1);
        self.check_type(live, key)?;
        let first = self.names_at(args, 2, self.not_positive)?;
        let mut has_changed = false;
        let mut members = live.members_mut(key, self.kind)?;
        reply.array(args.len() - first);
        for member in args.from(first) {
            let answer =
                members
                    .as_mut()
                    .map_or(NO_MEMBER, |members| match members.deadline(member) {
                        None => NO_MEMBER,
                        Some(None) => NO_DEADLINE,
                        Some(Some(_)) => {
                            members.set_term(member, None);
                            has_changed = true;
                            1
                        }
                    });
            reply.integer(answer);
        }
        if has_changed {
            // Redis: one change, however many fields there are, unlike HGETEX.
            live.changed(words_of(self.kind).persisted, key);
        }
        Ok(())
    }
}

/// Records that members of a collection of this type got a deadline.
pub fn deadline_effect(
    live: &mut Live<'_>,
    (kind, key): (Kind, &[u8]),
    deadline: Deadline,
    members: &[&[u8]],
) {
    if live.is_followed() && !members.is_empty() {
        let words = words_of(kind);
        let moment = expiry::expiretime_ms(deadline, live.reading()).to_string();
        let count = members.len().to_string();
        let head = [words.expiration, key, moment.as_bytes(), words.members];
        let members = members.iter().copied();
        live.effect(head.into_iter().chain([count.as_bytes()]).chain(members));
    }
}

/// Members a command did the same to: how many, and which if anybody hears of effects.
#[derive(Default)]
pub struct Touched<'a> {
    /// How many.
    pub count: usize,
    members: Vec<&'a [u8]>,
}

impl<'a> Touched<'a> {
    /// Adds one.
    pub fn add(&mut self, member: &'a [u8], is_followed: bool) {
        self.count += 1;
        if is_followed {
            self.members.push(member);
        }
    }
}

/// What a command did to members, to be reported once for all of them.
pub struct Done<'a> {
    kind: Kind,
    /// Those that got a deadline.
    pub set: Touched<'a>,
    /// Those that lost theirs.
    pub persisted: Touched<'a>,
    /// Those that were removed.
    pub removed: Touched<'a>,
}

impl<'a> Done<'a> {
    /// Nothing yet, to a collection of this type.
    pub fn new(kind: Kind) -> Done<'a> {
        Done {
            kind,
            set: Touched::default(),
            persisted: Touched::default(),
            removed: Touched::default(),
        }
    }

    /// Gives members a deadline, or removes them if it has come; what HEXPIRE answers for each.
    pub(in crate::command) fn expire(
        &mut self,
        live: &mut Live<'_>,
        key: &[u8],
        names: impl Iterator<Item = &'a [u8]>,
        term: MemberTerm,
        conditions: Conditions,
    ) -> Result<Vec<i64>, CommandError> {
        let is_past = is_due(term.deadline, live.reading().now);
        let is_followed = live.is_followed();
        let mut members = live.members_mut(key, self.kind)?;
        let answers = names.map(|name| {
            let Some(members) = members.as_mut() else {
                return NO_MEMBER;
            };
            let Some(old) = members.deadline(name) else {
                return NO_MEMBER;
            };
            if !conditions.allow(old, term.deadline) {
                return 0;
            }
            if is_past {
                members.remove(name);
                self.removed.add(name, is_followed);
                return 2;
            }
            members.set_term(name, Some(term));
            self.set.add(name, is_followed);
            1
        });
        Ok(answers.collect())
    }

    /// Records the effects, of which there is one for each kind; members were set to this deadline.
    pub fn record(&self, live: &mut Live<'_>, key: &[u8], deadline: Option<Deadline>) {
        let words = words_of(self.kind);
        if let Some(deadline) = deadline {
            deadline_effect(live, (self.kind, key), deadline, &self.set.members);
        }
        let Touched { count, members } = &self.persisted;
        if !members.is_empty() {
            let count = count.to_string();
            let head = [words.persistence, key, words.members, count.as_bytes()];
            live.effect(head.into_iter().chain(members.iter().copied()));
        }
        if !self.removed.members.is_empty() {
            let head = [words.removal, key];
            live.effect(head.into_iter().chain(self.removed.members.iter().copied()));
        }
    }

    /// Reports it; removes the collection if its last member is gone.
    pub fn report(&self, live: &mut Live<'_>, key: &[u8], removal: Event) {
        let words = words_of(self.kind);
        if self.set.count > 0 {
            live.changed_by(words.given, key, self.set.count);
        }
        if self.persisted.count > 0 {
            live.changed_by(words.persisted, key, self.persisted.count);
        }
        if self.removed.count > 0 {
            live.changed_by(removal, key, self.removed.count);
            live.drop_empty(key);
        }
    }

    /// The same if members were removed because they were given a deadline in the past.
    pub fn report_past(&self, live: &mut Live<'_>, key: &[u8]) {
        let removal = live.past_member_event(self.kind, self.removed.count);
        self.report(live, key, removal);
    }
}
