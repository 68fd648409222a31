//! Sets.
//!
//! A member is added by `SetMut::add`, which hides the form the set has; the deadline of the key
//! stays as it is. The commands on several sets look at all of them at once; what they store is
//! collected first, as the destination may be among the sources.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::command::dispatch::args::{Args, RepeatedDraws, draws_from};
use crate::command::key::{ScanOptions, Scanned, StringList, reply_scan, scan_cursor};
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::number::is_canonical_i64;
use crate::value::placement::Placement;
use crate::value::set::{SetMember, SetRef};
use crate::value::{Kind, StringRef};

/// The commands on sets.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "sadd",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST | flag::ON_MEMBER,
        categories: category::WRITE | category::SET | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::INSERT)],
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) with N the number of members",
        summary: "Adds members to a set; creates the set if it is missing.",
        args: &[
            Arg::key("key"),
            Arg::new("member", ArgKind::String).multiple(),
        ],
        subcommands: &[],
        handler: Data(sadd),
    },
    Row {
        name: "srem",
        arity: -3,
        flags: flag::WRITE | flag::FAST | flag::ON_MEMBER,
        categories: category::WRITE | category::SET | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::DELETE)],
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) with N the number of members",
        summary: "Removes members from a set; a set that becomes empty is deleted.",
        args: &[
            Arg::key("key"),
            Arg::new("member", ArgKind::String).multiple(),
        ],
        subcommands: &[],
        handler: Data(srem),
    },
    Row {
        name: "smembers",
        arity: 2,
        flags: flag::READONLY,
        categories: category::READ | category::SET | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) with N the size of the set",
        summary: "Returns all members of a set.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(smembers),
    },
    Row {
        name: "sismember",
        arity: 3,
        flags: flag::READONLY | flag::FAST | flag::ON_MEMBER,
        categories: category::READ | category::SET | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO)],
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Checks whether a string is a member of a set.",
        args: &[Arg::key("key"), Arg::new("member", ArgKind::String)],
        subcommands: &[],
        handler: Data(sismember),
    },
    Row {
        name: "smismember",
        arity: -3,
        flags: flag::READONLY | flag::FAST | flag::ON_MEMBER,
        categories: category::READ | category::SET | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Set,
        since: "6.2.0",
        complexity: "O(N) with N the number of strings",
        summary: "Checks for each of several strings whether it is a member of a set.",
        args: &[
            Arg::key("key"),
            Arg::new("member", ArgKind::String).multiple(),
        ],
        subcommands: &[],
        handler: Data(smismember),
    },
    Row {
        name: "scard",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        categories: category::READ | category::SET | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO)],
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns how many members a set has.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(scard),
    },
    Row {
        name: "spop",
        arity: -2,
        flags: flag::WRITE | flag::FAST | flag::LONG | flag::OWN_EFFECT,
        categories: category::WRITE | category::SET | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::DELETE,
        )],
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) with N the number of members; O(1) for one",
        summary: "Removes random members from a set and returns them.",
        args: &[
            Arg::key("key"),
            Arg::new("count", ArgKind::Integer)
                .optional()
                .since("3.2.0"),
        ],
        subcommands: &[],
        handler: Data(spop),
    },
    Row {
        name: "srandmember",
        arity: -2,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::SET | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) with N the number of members picked",
        summary: "Returns random members of a set, with or without repetition.",
        args: &[
            Arg::key("key"),
            Arg::new("count", ArgKind::Integer)
                .optional()
                .since("2.6.0"),
        ],
        subcommands: &[],
        handler: Data(srandmember),
    },
    Row {
        name: "smove",
        arity: 4,
        flags: flag::WRITE | flag::FAST,
        categories: category::WRITE | category::SET | category::FAST,
        keys: &[
            KeySpec::at(1, key_flag::RW | key_flag::ACCESS | key_flag::DELETE),
            KeySpec::at(2, key_flag::RW | key_flag::INSERT),
        ],
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Moves a member from one set to another.",
        args: &[
            Arg::key("source"),
            Arg::key("destination").key_spec(1),
            Arg::new("member", ArgKind::String),
        ],
        subcommands: &[],
        handler: Data(smove),
    },
    Row {
        name: "sinter",
        arity: -2,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::SET | category::SLOW,
        keys: &[KeySpec::to_end(1, 1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N*M) at worst, with N the size of the smallest set and M the number of sets",
        summary: "Returns the intersection of several sets.",
        args: &[Arg::key("key").multiple()],
        subcommands: &[],
        handler: Data(sinter),
    },
    Row {
        name: "sintercard",
        arity: -3,
        flags: flag::READONLY | flag::MOVABLEKEYS | flag::LONG,
        categories: category::READ | category::SET | category::SLOW,
        keys: &[KeySpec::counted(1, 1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Set,
        since: "7.0.0",
        complexity: "O(N*M) at worst, with N the size of the smallest set and M the number of sets",
        summary: "Returns the size of the intersection of several sets, up to a limit.",
        args: &[
            Arg::new("numkeys", ArgKind::Integer),
            Arg::key("key").multiple(),
            Arg::new("limit", ArgKind::Integer)
                .token("LIMIT")
                .optional(),
        ],
        subcommands: &[],
        handler: Data(sintercard),
    },
    Row {
        name: "sunion",
        arity: -2,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::SET | category::SLOW,
        keys: &[KeySpec::to_end(1, 1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) with N the number of members of all sets",
        summary: "Returns the union of several sets.",
        args: &[Arg::key("key").multiple()],
        subcommands: &[],
        handler: Data(sunion),
    },
    Row {
        name: "sdiff",
        arity: -2,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::SET | category::SLOW,
        keys: &[KeySpec::to_end(1, 1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) with N the number of members of all sets",
        summary: "Returns the members of the first set that are in none of the others.",
        args: &[Arg::key("key").multiple()],
        subcommands: &[],
        handler: Data(sdiff),
    },
    Row {
        name: "sinterstore",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::LONG,
        categories: category::WRITE | category::SET | category::SLOW,
        keys: &[
            KeySpec::at(1, key_flag::OW | key_flag::UPDATE),
            KeySpec::to_end(2, 1, key_flag::RO | key_flag::ACCESS),
        ],
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N*M) at worst, with N the size of the smallest set and M the number of sets",
        summary: "Stores the intersection of several sets under a key.",
        args: &[
            Arg::key("destination"),
            Arg::key("key").key_spec(1).multiple(),
        ],
        subcommands: &[],
        handler: Data(sinterstore),
    },
    Row {
        name: "sunionstore",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::LONG,
        categories: category::WRITE | category::SET | category::SLOW,
        keys: &[
            KeySpec::at(1, key_flag::OW | key_flag::UPDATE),
            KeySpec::to_end(2, 1, key_flag::RO | key_flag::ACCESS),
        ],
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) with N the number of members of all sets",
        summary: "Stores the union of several sets under a key.",
        args: &[
            Arg::key("destination"),
            Arg::key("key").key_spec(1).multiple(),
        ],
        subcommands: &[],
        handler: Data(sunionstore),
    },
    Row {
        name: "sdiffstore",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::LONG,
        categories: category::WRITE | category::SET | category::SLOW,
        keys: &[
            KeySpec::at(1, key_flag::OW | key_flag::UPDATE),
            KeySpec::to_end(2, 1, key_flag::RO | key_flag::ACCESS),
        ],
        group: Group::Set,
        since: "1.0.0",
        complexity: "O(N) with N the number of members of all sets",
        summary: "Stores the members of the first set that are in none of the others.",
        args: &[
            Arg::key("destination"),
            Arg::key("key").key_spec(1).multiple(),
        ],
        subcommands: &[],
        handler: Data(sdiffstore),
    },
    Row {
        name: "sscan",
        arity: -3,
        flags: flag::READONLY,
        categories: category::READ | category::SET | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::Set,
        since: "2.8.0",
        complexity: "O(1) for each call; O(N) for a full iteration, with N the number of members",
        summary: "Iterates over the members of a set with a cursor.",
        args: &[
            Arg::key("key"),
            Arg::new("cursor", ArgKind::Integer),
            Arg::new("pattern", ArgKind::Pattern)
                .token("MATCH")
                .optional(),
            Arg::new("count", ArgKind::Integer)
                .token("COUNT")
                .optional(),
        ],
        subcommands: &[],
        handler: Data(sscan),
    },
];

/// Answers a member; a long one is shared.
fn reply_member(reply: &mut Reply<'_>, member: SetMember<'_>) {
    match member {
        SetMember::String(StringRef::Long(bytes)) => reply.bulk_shared(bytes),
        member => reply.bulk(&member),
    }
}

fn sadd(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let mut set = live.set_or_new(key, args.get(2), args.len() - 2)?;
    let added = args.from(2).filter(|member| set.add(member)).count();
    if added > 0 {
        live.changed_by(Event::SADD, key, added);
    }
    reply.integer(added as i64);
    Ok(())
}

fn srem(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let mut removed = 0;
    if let Some(mut set) = live.set_mut(key)? {
        removed = args.from(2).filter(|member| set.remove(member)).count();
    }
    if removed > 0 {
        live.changed_by(Event::SREM, key, removed);
        live.drop_empty(key);
    }
    reply.integer(removed as i64);
    Ok(())
}

fn smembers(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let set = live.set(args.get(1))?;
    reply.set(set.map_or(0, SetRef::len));
    for member in set.into_iter().flat_map(SetRef::iter) {
        reply_member(reply, member);
    }
    Ok(())
}

fn sismember(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let set = live.set(args.get(1))?;
    let is_member = set.is_some_and(|set| set.contains_with(live.member_ahead(), args.get(2)));
    reply.integer(i64::from(is_member));
    Ok(())
}

fn smismember(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let set = live.set(args.get(1))?;
    reply.array(args.len() - 2);
    for member in args.from(2) {
        let is_member = set.is_some_and(|set| set.contains(member));
        reply.integer(i64::from(is_member));
    }
    Ok(())
}

fn scard(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let len = live.set(args.get(1))?.map_or(0, SetRef::len);
    reply.integer(len as i64);
    Ok(())
}

fn spop(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let count = match args.len() {
        2 => None,
        3 => Some(
            args.integer(2)
                .ok()
                .and_then(|n| usize::try_from(n).ok())
                .ok_or(CommandError::text(
                    "ERR value is out of range, must be positive",
                ))?,
        ),
        _ => return Err(CommandError::Syntax),
    };
    let (mut rng, is_followed) = (live.own_rng(), live.is_followed());
    let Some(mut set) = live.set_mut(key)? else {
        match count {
            None => reply.null(),
            Some(_) => reply.set(0),
        }
        return Ok(());
    };
    let len = set.view().len();
    let mut taken: Vec<Vec<u8>> = Vec::new();
    let mut note = |member: &[u8]| {
        if is_followed {
            taken.push(member.to_vec());
        }
    };
    match count {
        None => {
            set.pop(&mut rng, |member| {
                note(member);
                reply.bulk(member);
            });
        }
        Some(0) => {
            reply.set(0);
            return Ok(());
        }
        Some(count) if count < len => {
            reply.set(count);
            set.pop_many(count, &mut rng, |member| {
                note(member);
                reply.bulk(member);
            });
        }
        Some(_) => {
            // The whole set goes, and a big one is freed in pieces.
            reply.set(len);
            let members = set.view().iter();
            members.for_each(|member| reply_member(reply, member));
            live.remove(key);
            live.effect([b"DEL".as_slice(), key]);
            live.changed_by(Event::SPOP, key, len);
            live.also(Event::DEL, key);
            return Ok(());
        }
    }
    let taken = taken.iter().map(Vec::as_slice);
    live.effect([b"SREM".as_slice(), key].into_iter().chain(taken));
    live.changed_by(Event::SPOP, key, count.unwrap_or(1));
    live.drop_empty(key);
    Ok(())
}

fn srandmember(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let mut rng = live.own_rng();
    let key = args.get(1);
    if args.len() == 2 {
        match live.set(key)?.and_then(|set| set.random(&mut rng)) {
            Some(member) => reply_member(reply, member),
            None => reply.null(),
        }
        return Ok(());
    }
    // The number is looked at only if there is nothing behind it, unlike that of HRANDFIELD.
    if args.len() > 3 {
        return Err(CommandError::Syntax);
    }
    let count = args.draws(2)?;
    let Some(set) = live.set(key)? else {
        reply.array(0);
        return Ok(());
    };
    let draws = draws_from(count, set.len())?;
    let repeated = RepeatedDraws::begin(reply);
    reply.array(draws);
    if count >= 0 {
        set.sample(draws, &mut rng, |member| reply_member(reply, member));
    } else {
        // As many replies as were announced: no set is empty.
        set.draw(draws, &mut rng, |member| {
            reply_member(reply, member);
            repeated.go_on(reply)
        });
        repeated.end(reply)?;
    }
    Ok(())
}

fn smove(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let (from, to, member) = (args.get(1), args.get(2), args.get(3));
    let Some(source) = live.set_mut(from)? else {
        reply.integer(0);
        return Ok(());
    };
    let is_member = source.view().contains(member);
    // The type of the destination is checked even if nothing is moved.
    live.set_mut(to)?;
    if is_member && from != to {
        let mut term = None;
        if let Some(mut source) = live.set_mut(from)? {
            term = source.term(member).flatten();
            source.remove(member);
        }
        live.changed(Event::SREM, from);
        live.drop_empty(from);
        let mut destination = live.set_or_new(to, member, 1)?;
        if destination.add(member) {
            if term.is_some() {
                destination.set_term(member, term);
            }
            live.changed(Event::SADD, to);
        }
    }
    reply.integer(i64::from(is_member));
    Ok(())
}

/// The sets at keys, none for a missing one. All are checked, whatever becomes of the others.
fn sets_at<'l, 'k>(
    live: &'l Live<'_>,
    keys: impl Iterator<Item = &'k [u8]>,
) -> Result<Vec<Option<SetRef<'l>>>, CommandError> {
    keys.map(|key| live.set(key)).collect()
}

/// What is made of several sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Combination {
    Intersection,
    Union,
    Difference,
}

impl Combination {
    /// The members of the sets that the arguments from `first` on name.
    fn of(
        self,
        live: &mut Live<'_>,
        args: Args<'_>,
        first: usize,
    ) -> Result<StringList, CommandError> {
        let placement = Placement::new(&mut live.own_rng());
        let sets = sets_at(live, args.from(first))?;
        Ok(match self {
            Combination::Intersection => {
                let mut found = StringList::default();
                intersection(sets).for_each(|member| found.push(&member));
                found
            }
            Combination::Union => {
                let mut found = Distinct::new(placement);
                let members = sets.into_iter().flatten().flat_map(SetRef::iter);
                members.for_each(|member| found.insert(&member));
                found.strings
            }
            Combination::Difference => difference(&sets, placement),
        })
    }

    /// Answers the members.
    fn reply(
        self,
        live: &mut Live<'_>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), CommandError> {
        let found = self.of(live, args, 1)?;
        reply.set(found.len());
        found.iter().for_each(|member| reply.bulk(member));
        Ok(())
    }

    /// Stores the members at the key that argument 1 names, and answers how many they are.
    fn store(
        self,
        live: &mut Live<'_>,
        args: Args<'_>,
        reply: &mut Reply<'_>,
        event: Event,
    ) -> Result<(), CommandError> {
        let key = args.get(1);
        args.from(2).for_each(|key| live.settle_all_members(key));
        let found = self.of(live, args, 2)?;
        if found.len() == 0 {
            if live.remove(key) {
                live.changed(Event::DEL, key);
            }
        } else {
            live.vacate(key, Kind::Set);
            // As in Redis: an intersection gets the form that suits all of it; the others begin
            // with the form that suits their first member and are converted as they grow.
            let odd = found.iter().find(|member| !is_canonical_i64(member));
            let (first, expected) = match self {
                Combination::Intersection => (odd.unwrap_or(found.get(0)), found.len()),
                Combination::Union | Combination::Difference => (found.get(0), 1),
            };
            let mut set = live.set_or_new(key, first, expected)?;
            found.iter().for_each(|member| {
                set.add(member);
            });
            live.changed(event, key);
        }
        reply.integer(found.len() as i64);
        Ok(())
    }
}

/// The members that all sets have: those of the smallest, looked up in the others from small to
/// large.
fn intersection(sets: Vec<Option<SetRef<'_>>>) -> impl Iterator<Item = SetMember<'_>> {
    // One that is missing is empty, and so is the result.
    let mut sets: Vec<SetRef<'_>> = sets.into_iter().collect::<Option<_>>().unwrap_or_default();
    sets.sort_by_key(|set| set.len());
    let smallest = sets.first().copied();
    let members = smallest.into_iter().flat_map(SetRef::iter);
    members.filter(move |member| sets[1..].iter().all(|set| set.contains(member)))
}

/// The members of the first set that no other has. Either each of them is looked up in the others,
/// from large to small as the large are more likely to have it; or the members of the others are
/// struck off a copy of the first. Which is less work is guessed as in Redis: the first way often
/// ends early and counts half.
fn difference(sets: &[Option<SetRef<'_>>], placement: Placement) -> StringList {
    let mut found = Distinct::new(placement);
    let Some((Some(first), others)) = sets.split_first() else {
        return found.strings;
    };
    let mut others: Vec<SetRef<'_>> = others.iter().flatten().copied().collect();
    let by_lookup = first.len().saturating_mul(1 + others.len()) / 2;
    let by_striking = first.len() + others.iter().map(|set| set.len()).sum::<usize>();
    if by_lookup <= by_striking {
        others.sort_by_key(|set| std::cmp::Reverse(set.len()));
        let is_left = |member: &SetMember<'_>| !others.iter().any(|set| set.contains(member));
        let left = first.iter().filter(is_left);
        left.for_each(|member| found.strings.push(&member));
        return found.strings;
    }
    first.iter().for_each(|member| found.insert(&member));
    for member in others.into_iter().flat_map(SetRef::iter) {
        if found.places.is_empty() {
            break;
        }
        found.strike(&member);
    }
    found.left()
}

/// Different strings in the order they came.
struct Distinct {
    strings: StringList,
    /// Indices of those that are not struck off.
    places: HashTable<usize>,
    placement: Placement,
}

impl Distinct {
    fn new(placement: Placement) -> Distinct {
        Distinct {
            strings: StringList::default(),
            places: HashTable::new(),
            placement,
        }
    }

    fn insert(&mut self, string: &[u8]) {
        let Distinct {
            strings,
            places,
            placement,
        } = self;
        let entry = places.entry(
            placement.hash(string),
            |&at| strings.get(at) == string,
            |&at| placement.hash(strings.get(at)),
        );
        if let Entry::Vacant(vacant) = entry {
            vacant.insert(strings.len());
            strings.push(string);
        }
    }

    fn strike(&mut self, string: &[u8]) {
        let hash = self.placement.hash(string);
        let strings = &self.strings;
        let is_it = |&at: &usize| strings.get(at) == string;
        if let Ok(entry) = self.places.find_entry(hash, is_it) {
            entry.remove();
        }
    }

    /// Those that are not struck off.
    fn left(self) -> StringList {
        let mut places: Vec<usize> = self.places.into_iter().collect();
        places.sort_unstable();
        let mut left = StringList::default();
        places
            .into_iter()
            .for_each(|at| left.push(self.strings.get(at)));
        left
    }
}

fn sinter(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    Combination::Intersection.reply(live, args, reply)
}

fn sunion(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    Combination::Union.reply(live, args, reply)
}

fn sdiff(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    Combination::Difference.reply(live, args, reply)
}

fn sinterstore(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    Combination::Intersection.store(live, args, reply, Event::SINTERSTORE)
}

fn sunionstore(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    Combination::Union.store(live, args, reply, Event::SUNIONSTORE)
}

fn sdiffstore(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    Combination::Difference.store(live, args, reply, Event::SDIFFSTORE)
}

fn sintercard(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let keys = args.integer(1).ok().filter(|&keys| keys > 0);
    let keys = keys.ok_or(CommandError::text("ERR numkeys should be greater than 0"))?;
    let keys = usize::try_from(keys)
        .ok()
        .filter(|&keys| keys <= args.len() - 2);
    let keys = keys.ok_or(CommandError::text(
        "ERR Number of keys can't be greater than number of args",
    ))?;
    let mut limit = 0;
    for i in (2 + keys..args.len()).step_by(2) {
        if !args.is(i, "limit") || i + 1 == args.len() {
            return Err(CommandError::Syntax);
        }
        let number = args
            .integer(i + 1)
            .ok()
            .and_then(|n| usize::try_from(n).ok());
        limit = number.ok_or(CommandError::text("ERR LIMIT can't be negative"))?;
    }
    let sets = sets_at(live, args.from(2).take(keys))?;
    let most = if limit == 0 { usize::MAX } else { limit };
    reply.integer(intersection(sets).take(most).count() as i64);
    Ok(())
}

fn sscan(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let cursor = scan_cursor(args, 2)?;
    let mut found = StringList::default();
    let Some(set) = live.set(args.get(1))? else {
        reply_scan(reply, 0, &found);
        return Ok(());
    };
    let options = ScanOptions::parse(args, 3, Scanned::Members)?;
    let next = options.walk(cursor, |cursor, count, met| {
        set.scan(cursor, count, |member| {
            *met += 1;
            if options.allow(&member) {
                found.push(&member);
            }
        })
    });
    reply_scan(reply, next, &found);
    Ok(())
}
