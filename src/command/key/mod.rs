//! Keys of any type: whether they exist, their names, and the databases they are in.
//!
//! What stays within one database works on a [`Live`]; COPY, MOVE, SWAPDB and the FLUSH commands
//! cross databases and so see the engine. Flushed databases are freed by a job, whether ASYNC was
//! asked for or not, so that nothing here takes time proportional to what it removes.
//!
//! Redis: DBSIZE counts expired keys; here it does not, unless active expiry has been switched off
//! with DEBUG SET-ACTIVE-EXPIRE.

pub mod expire;

pub mod sort;

use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::table::reply_help;
use crate::command::table::row::Handler::{Container, Data, Engine as OnEngine};
use crate::command::table::row::*;
use crate::engine::Engine;
use crate::expiry::ALL_LIVE;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::change::Event;
use crate::store::entry::{Form, Slot};
use crate::store::{Live, collection};
use crate::value::Kind;
use crate::value::glob::Glob;
use crate::value::number::is_canonical_i64;

/// The commands on keys of any type.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "del",
        arity: -2,
        flags: flag::WRITE,
        categories: category::KEYSPACE | category::WRITE | category::SLOW,
        keys: &[KeySpec::to_end(1, 1, key_flag::RM | key_flag::DELETE)],
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(N) with N the number of keys, plus O(M) for a collection of M elements",
        summary: "Deletes keys; replies how many existed.",
        args: &[Arg::key("key").multiple()],
        subcommands: &[],
        handler: Data(del),
    },
    Row {
        name: "unlink",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        categories: category::KEYSPACE | category::WRITE | category::FAST,
        keys: &[KeySpec::to_end(1, 1, key_flag::RM | key_flag::DELETE)],
        group: Group::Generic,
        since: "4.0.0",
        complexity: "O(1) for each key, then O(N) in the background for a value of N allocations",
        summary: "Deletes keys; their memory is freed afterwards.",
        args: &[Arg::key("key").multiple()],
        subcommands: &[],
        handler: Data(unlink),
    },
    Row {
        name: "exists",
        arity: -2,
        flags: flag::READONLY | flag::FAST,
        categories: category::KEYSPACE | category::READ | category::FAST,
        keys: &[KeySpec::to_end(1, 1, key_flag::RO)],
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(N) with N the number of keys",
        summary: "Returns how many of the given keys exist.",
        args: &[Arg::key("key").multiple()],
        subcommands: &[],
        handler: Data(exists),
    },
    Row {
        name: "type",
        arity: 2,
        flags: flag::READONLY | flag::FAST,
        categories: category::KEYSPACE | category::READ | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO)],
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns the type of the value at a key.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(type_of),
    },
    Row {
        name: "rename",
        arity: 3,
        flags: flag::WRITE,
        categories: category::KEYSPACE | category::WRITE | category::SLOW,
        keys: &[
            KeySpec::at(1, key_flag::RW | key_flag::ACCESS | key_flag::DELETE),
            KeySpec::at(2, key_flag::OW | key_flag::UPDATE),
        ],
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Renames a key; a key that has the new name is replaced.",
        args: &[Arg::key("key"), Arg::key("newkey").key_spec(1)],
        subcommands: &[],
        handler: Data(rename),
    },
    Row {
        name: "renamenx",
        arity: 3,
        flags: flag::WRITE | flag::FAST,
        categories: category::KEYSPACE | category::WRITE | category::FAST,
        keys: &[
            KeySpec::at(1, key_flag::RW | key_flag::ACCESS | key_flag::DELETE),
            KeySpec::at(2, key_flag::OW | key_flag::INSERT),
        ],
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Renames a key unless the new name is taken.",
        args: &[Arg::key("key"), Arg::key("newkey").key_spec(1)],
        subcommands: &[],
        handler: Data(renamenx),
    },
    Row {
        name: "copy",
        arity: -3,
        flags: flag::WRITE | flag::DENYOOM | flag::LONG,
        categories: category::KEYSPACE | category::WRITE | category::SLOW,
        keys: &[
            KeySpec::at(1, key_flag::RO | key_flag::ACCESS),
            KeySpec::at(2, key_flag::OW | key_flag::UPDATE),
        ],
        group: Group::Generic,
        since: "6.2.0",
        complexity: "O(N) for a collection, with N the number of its elements; O(1) for a string",
        summary: "Copies a value with its time to live to another key or database.",
        args: &[
            Arg::key("source"),
            Arg::key("destination").key_spec(1),
            Arg::new("destination-db", ArgKind::Integer)
                .token("DB")
                .optional(),
            Arg::word("replace", "REPLACE").optional(),
        ],
        subcommands: &[],
        handler: OnEngine(copy),
    },
    Row {
        name: "move",
        arity: 3,
        flags: flag::WRITE | flag::FAST,
        categories: category::KEYSPACE | category::WRITE | category::FAST,
        keys: &[KeySpec::at(
            1,
            key_flag::RW | key_flag::ACCESS | key_flag::UPDATE,
        )],
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Moves a key to another database.",
        args: &[Arg::key("key"), Arg::new("db", ArgKind::Integer)],
        subcommands: &[],
        handler: OnEngine(move_key),
    },
    Row {
        name: "swapdb",
        arity: 3,
        flags: flag::WRITE | flag::FAST | flag::LONG,
        categories: category::KEYSPACE | category::WRITE | category::FAST | category::DANGEROUS,
        keys: &[],
        group: Group::Server,
        since: "4.0.0",
        complexity: "O(N) with N the clients watching or blocked on keys of either database",
        summary: "Swaps the contents of two databases, for all clients.",
        args: &[
            Arg::new("index1", ArgKind::Integer),
            Arg::new("index2", ArgKind::Integer),
        ],
        subcommands: &[],
        handler: OnEngine(swapdb),
    },
    Row {
        name: "touch",
        arity: -2,
        flags: flag::READONLY | flag::FAST,
        categories: category::KEYSPACE | category::READ | category::FAST,
        keys: &[KeySpec::to_end(1, 1, key_flag::RO)],
        group: Group::Generic,
        since: "3.2.1",
        complexity: "O(N) with N the number of keys",
        summary: "Updates the access times of keys; replies how many exist.",
        args: &[Arg::key("key").multiple()],
        subcommands: &[],
        handler: Data(touch),
    },
    Row {
        name: "keys",
        arity: 2,
        flags: flag::READONLY | flag::LONG,
        categories: category::KEYSPACE | category::READ | category::SLOW | category::DANGEROUS,
        keys: &[],
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(N) with N the number of keys in the database",
        summary: "Returns all keys that match a pattern, in one reply.",
        args: &[Arg::new("pattern", ArgKind::Pattern)],
        subcommands: &[],
        handler: Data(keys),
    },
    Row {
        name: "scan",
        arity: -2,
        flags: flag::READONLY,
        categories: category::KEYSPACE | category::READ | category::SLOW,
        keys: &[],
        group: Group::Generic,
        since: "2.8.0",
        complexity: "O(1) for each call; O(N) for a full iteration, with N the number of keys",
        summary: "Iterates over the keys of the database with a cursor.",
        args: &[
            Arg::new("cursor", ArgKind::Integer),
            Arg::new("pattern", ArgKind::Pattern)
                .token("MATCH")
                .optional(),
            Arg::new("count", ArgKind::Integer)
                .token("COUNT")
                .optional(),
            Arg::new("type", ArgKind::String)
                .token("TYPE")
                .optional()
                .since("6.0.0"),
        ],
        subcommands: &[],
        handler: Data(scan),
    },
    Row {
        name: "randomkey",
        arity: 1,
        flags: flag::READONLY,
        categories: category::KEYSPACE | category::READ | category::SLOW,
        keys: &[],
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns a random key of the database.",
        args: &[],
        subcommands: &[],
        handler: Data(randomkey),
    },
    Row {
        name: "dbsize",
        arity: 1,
        flags: flag::READONLY | flag::FAST,
        categories: category::KEYSPACE | category::READ | category::FAST,
        keys: &[],
        group: Group::Server,
        since: "1.0.0",
        complexity: "O(1)",
        summary: "Returns how many keys the database has; expired ones are not counted.",
        args: &[],
        subcommands: &[],
        handler: OnEngine(dbsize),
    },
    Row {
        name: "flushdb",
        arity: -1,
        flags: flag::WRITE | flag::LONG,
        categories: category::KEYSPACE | category::WRITE | category::SLOW | category::DANGEROUS,
        keys: &[],
        group: Group::Server,
        since: "1.0.0",
        complexity: "O(N) with N the number of keys in the database",
        summary: "Deletes all keys of the selected database.",
        args: &[Arg::one_of("flush-type", FLUSH_TYPE).optional()],
        subcommands: &[],
        handler: OnEngine(flushdb),
    },
    Row {
        name: "flushall",
        arity: -1,
        flags: flag::WRITE | flag::LONG,
        categories: category::KEYSPACE | category::WRITE | category::SLOW | category::DANGEROUS,
        keys: &[],
        group: Group::Server,
        since: "1.0.0",
        complexity: "O(N) with N the number of keys in all databases",
        summary: "Deletes all keys of all databases.",
        args: &[Arg::one_of("flush-type", FLUSH_TYPE).optional()],
        subcommands: &[],
        handler: OnEngine(flushall),
    },
    Row {
        name: "object",
        arity: -2,
        flags: flag::LONG,
        categories: category::SLOW,
        keys: &[],
        group: Group::Generic,
        since: "2.2.3",
        complexity: "That of the subcommand",
        summary: "Groups the commands that show how values are stored.",
        args: &[],
        subcommands: OBJECT,
        handler: Container,
    },
];

/// Subcommands of OBJECT.
const OBJECT: &[Row] = &[
    Row {
        name: "encoding",
        arity: 3,
        flags: flag::READONLY,
        categories: category::KEYSPACE | category::READ | category::SLOW,
        keys: &[KeySpec::at(2, key_flag::RO)],
        group: Group::Generic,
        since: "2.2.3",
        complexity: "O(1)",
        summary: "Returns the encoding of the value at a key.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(object_encoding),
    },
    Row {
        name: "freq",
        arity: 3,
        flags: flag::READONLY,
        categories: category::KEYSPACE | category::READ | category::SLOW,
        keys: &[KeySpec::at(2, key_flag::RO)],
        group: Group::Generic,
        since: "4.0.0",
        complexity: "O(1)",
        summary: "Returns how often a key is accessed, as a logarithmic counter.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(object_freq),
    },
    Row {
        name: "idletime",
        arity: 3,
        flags: flag::READONLY,
        categories: category::KEYSPACE | category::READ | category::SLOW,
        keys: &[KeySpec::at(2, key_flag::RO)],
        group: Group::Generic,
        since: "2.2.3",
        complexity: "O(1)",
        summary: "Returns the time since a key was last accessed, in seconds.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(object_idletime),
    },
    Row {
        name: "refcount",
        arity: 3,
        flags: flag::READONLY,
        categories: category::KEYSPACE | category::READ | category::SLOW,
        keys: &[KeySpec::at(2, key_flag::RO)],
        group: Group::Generic,
        since: "2.2.3",
        complexity: "O(1)",
        summary: "Returns the reference count of a key's value.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(object_refcount),
    },
    Row {
        name: "help",
        arity: 2,
        flags: flag::LOADING | flag::STALE,
        categories: category::KEYSPACE | category::SLOW,
        keys: &[],
        group: Group::Generic,
        since: "6.2.0",
        complexity: "O(1)",
        summary: "Lists the subcommands of OBJECT, each with a short description.",
        args: &[],
        subcommands: &[],
        handler: Data(object_help),
    },
];

/// Whether to wait until the memory is free.
const FLUSH_TYPE: &[Arg] = &[
    Arg::word("async", "ASYNC").since("4.0.0"),
    Arg::word("sync", "SYNC").since("6.2.0"),
];

/// Elements a command of the SCAN kind looks at if COUNT is not given.
const SCAN_COUNT: usize = 10;
/// SCAN goes on to the next segment of the table at most once per so many keys of COUNT: a database
/// of dead keys, or one that has shrunk, must not be walked through in one call. The same holds for
/// collections.
const SCAN_ELEMENTS_PER_STEP: usize = 128;
/// The longest string that OBJECT ENCODING calls `embstr`.
///
/// Redis: 8.2 counts the key's length too, as key and value share an allocation there; here the
/// limit is that of the versions before, which is documented.
const EMBSTR_BYTES_MAX: usize = 44;
/// The longest text of a 64-bit integer.
const INT_BYTES_MAX: usize = 20;

/// What a database index means that is an integer but names no database.
fn db_index(engine: &Engine, index: i32) -> Result<usize, CommandError> {
    usize::try_from(index)
        .ok()
        .filter(|&index| index < engine.keyspace.databases())
        .ok_or(CommandError::DbIndexOutOfRange)
}

fn del(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let mut removed = 0;
    for key in args.from(1) {
        if live.remove(key) {
            live.changed(Event::DEL, key);
            removed += 1;
        }
    }
    reply.integer(removed);
    Ok(())
}

fn unlink(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    del(live, args, reply)
}

fn exists(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let found = args.from(1).filter(|key| live.look(key).is_some()).count();
    reply.integer(found as i64);
    Ok(())
}

fn type_of(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    reply.simple(
        live.look(args.get(1))
            .map_or("none", |slot| slot.kind().name()),
    );
    Ok(())
}

fn rename(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    if !live.rename(args.get(1), args.get(2)) {
        return Err(CommandError::NoSuchKey);
    }
    reply.ok();
    Ok(())
}

fn renamenx(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let (from, to) = (args.get(1), args.get(2));
    if live.peek(from).is_none() {
        return Err(CommandError::NoSuchKey);
    }
    let is_free = live.peek(to).is_none();
    if is_free {
        live.rename(from, to);
    }
    reply.integer(i64::from(is_free));
    Ok(())
}

fn same_object() -> CommandError {
    CommandError::text("ERR source and destination objects are the same")
}

fn copy(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let db = caller.db;
    let (mut to_db, mut replaces) = (db, false);
    let mut i = 3;
    while i < args.len() {
        if args.is(i, "replace") {
            replaces = true;
        } else if args.is(i, "db") && i + 1 < args.len() {
            i += 1;
            to_db = db_index(engine, args.short_integer(i)?)?;
        } else {
            return Err(CommandError::Syntax);
        }
        i += 1;
    }
    let (from, to) = (args.get(1), args.get(2));
    if db == to_db && from == to {
        return Err(same_object());
    }
    let reading = engine.reading;
    // The source is read as by any reading command.
    let is_there = engine.keyspace.live(db, &reading).get(from).is_some();
    let is_copied = is_there
        && engine
            .keyspace
            .copy_key((db, from), (to_db, to), replaces, &reading);
    caller.reply().integer(i64::from(is_copied));
    Ok(())
}

fn move_key(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let db = caller.db;
    let to_db = db_index(engine, args.short_integer(2)?)?;
    if db == to_db {
        return Err(same_object());
    }
    let reading = engine.reading;
    let is_moved = engine.keyspace.move_key(db, to_db, args.get(1), &reading);
    caller.reply().integer(i64::from(is_moved));
    Ok(())
}

fn swapdb(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    let index = |i: usize, error| {
        let index = args.short_integer(i);
        index.map_err(|_| CommandError::text(error))
    };
    let first = index(1, "ERR invalid first DB index")?;
    let second = index(2, "ERR invalid second DB index")?;
    let (first, second) = (db_index(engine, first)?, db_index(engine, second)?);
    if first != second {
        engine.touch_database(first as u16, Some(second as u16));
        engine.touch_database(second as u16, Some(first as u16));
        engine.keyspace.swap(first, second);
        engine.blocking.note_all(first as u16);
        engine.blocking.note_all(second as u16);
        engine.keyspace.changes.count(1);
    }
    caller.reply().ok();
    Ok(())
}

fn touch(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    // The one command that counts as a use even under CLIENT NO-TOUCH.
    live.is_touching = true;
    let found = args.from(1).filter(|key| live.get(key).is_some()).count();
    reply.integer(found as i64);
    Ok(())
}

/// Strings on their way into a reply, one after another in one buffer: how many there are must be
/// said before the first.
#[derive(Default)]
pub(super) struct StringList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl StringList {
    pub(super) fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The string of an index below [`StringList::len`].
    pub(super) fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    pub(super) fn reply(&self, reply: &mut Reply<'_>) {
        reply.array(self.len());
        self.iter().for_each(|string| reply.bulk(string));
    }
}

fn keys(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let pattern = Glob::new(args.get(1), false);
    let mut found = StringList::default();
    live.for_each(|slot| {
        if pattern.matches(slot.key()) {
            found.push(slot.key());
        }
    });
    found.reply(reply);
    Ok(())
}

/// What a command of the SCAN kind walks through, which decides on its options.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scanned {
    /// The keys of a database: SCAN.
    Keys,
    /// The fields of a hash: HSCAN.
    Fields,
    /// The members of a set or sorted set: SSCAN, ZSCAN.
    Members,
}

/// What a command of the SCAN kind was asked for.
pub(super) struct ScanOptions<'a> {
    pattern: Option<Glob<'a>>,
    count: usize,
    /// `Some(None)`: a type that does not exist, so that no key has it.
    kind: Option<Option<Kind>>,
    /// NOVALUES of HSCAN.
    pub(super) omits_values: bool,
}

impl<'a> ScanOptions<'a> {
    /// The options from the argument at `first` on.
    pub(super) fn parse(
        args: Args<'a>,
        first: usize,
        scanned: Scanned,
    ) -> Result<ScanOptions<'a>, CommandError> {
        let mut options = ScanOptions {
            pattern: None,
            count: SCAN_COUNT,
            kind: None,
            omits_values: false,
        };
        let mut i = first;
        while i < args.len() {
            if args.is(i, "novalues") {
                if scanned != Scanned::Fields {
                    return Err(CommandError::text(
                        "ERR NOVALUES option can only be used in HSCAN",
                    ));
                }
                options.omits_values = true;
                i += 1;
                continue;
            }
            let Some(value) = args.at(i + 1) else {
                return Err(CommandError::Syntax);
            };
            if args.is(i, "count") {
                let count = args.integer(i + 1)?;
                options.count = usize::try_from(count)
                    .ok()
                    .filter(|&count| count > 0)
                    .ok_or(CommandError::Syntax)?;
            } else if args.is(i, "match") {
                options.pattern = Some(Glob::new(value, false));
            } else if args.is(i, "type") && scanned == Scanned::Keys {
                options.kind = Some(Kind::from_name(value));
            } else {
                return Err(CommandError::Syntax);
            }
            i += 2;
        }
        Ok(options)
    }

    /// Whether the pattern allows this key, field or member.
    pub(super) fn allow(&self, name: &[u8]) -> bool {
        let pattern = self.pattern.as_ref();
        pattern.is_none_or(|pattern| pattern.matches(name))
    }

    fn allow_slot(&self, slot: &Slot) -> bool {
        self.kind.is_none_or(|kind| kind == Some(slot.kind())) && self.allow(slot.key())
    }

    /// Takes steps from a cursor on until about COUNT elements were met, and gives the cursor to go
    /// on from. A step gets the cursor, how many elements are wanted and where to count those met.
    pub(super) fn walk(
        &self,
        mut cursor: u64,
        mut step: impl FnMut(u64, usize, &mut usize) -> u64,
    ) -> u64 {
        let mut met = 0;
        for _ in 0..=self.count / SCAN_ELEMENTS_PER_STEP {
            cursor = step(cursor, self.count - met, &mut met);
            if cursor == 0 || met >= self.count {
                break;
            }
        }
        cursor
    }
}

/// The cursor in the argument at `index`, as Redis reads it: any unsigned number of 64 bits, with
/// blanks and a plus before it.
pub(super) fn scan_cursor(args: Args<'_>, index: usize) -> Result<u64, CommandError> {
    let text = args.get(index).trim_ascii_start();
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let is_number = digits.first().is_some_and(u8::is_ascii_digit);
    std::str::from_utf8(digits)
        .ok()
        .filter(|_| is_number)
        .and_then(|digits| digits.parse().ok())
        .ok_or(CommandError::text("ERR invalid cursor"))
}

/// Answers a command of the SCAN kind: where to go on, and what was found.
pub(super) fn reply_scan(reply: &mut Reply<'_>, cursor: u64, found: &StringList) {
    reply.array(2);
    // Cursors have 48 bits at most.
    reply.bulk_integer(cursor as i64);
    found.reply(reply);
}

fn scan(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let cursor = scan_cursor(args, 1)?;
    let options = ScanOptions::parse(args, 2, Scanned::Keys)?;
    let mut found = StringList::default();
    let next = options.walk(cursor, |cursor, count, met| {
        // A cursor that never was one of ours is as good as the last there is.
        let cursor = u32::try_from(cursor).unwrap_or(u32::MAX);
        let next = live.scan(cursor, count, |slot| {
            *met += 1;
            if options.allow_slot(slot) {
                found.push(slot.key());
            }
        });
        next.into()
    });
    reply_scan(reply, next, &found);
    Ok(())
}

fn randomkey(
    live: &mut Live<'_>,
    _args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    match live.random_key() {
        Some(key) => reply.bulk(&key),
        None => reply.null(),
    }
    Ok(())
}

fn dbsize(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    _args: Args<'_>,
) -> Result<(), CommandError> {
    let (db, reading) = (caller.db, engine.reading);
    let counts_dead = engine.is_expiry_paused();
    let len = engine.keyspace.live(db, &reading).len(counts_dead);
    caller.reply().integer(len as i64);
    Ok(())
}

/// The argument of FLUSHDB and FLUSHALL. It makes no difference: the memory is freed afterwards in
/// either case, as waiting for it would hold everybody up.
fn check_flush_type(args: Args<'_>) -> Result<(), CommandError> {
    match args.len() {
        1 => Ok(()),
        2 if args.is(1, "async") || args.is(1, "sync") => Ok(()),
        _ => Err(CommandError::Syntax),
    }
}

fn flush(engine: &mut Engine, db: usize) {
    engine.touch_database(db as u16, None);
    engine.blocking.note_all(db as u16);
    let keys = engine.keyspace.flush(db, engine.reading.now);
    engine.keyspace.changes.count(keys as u64);
}

fn flushdb(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    check_flush_type(args)?;
    let db = caller.db;
    flush(engine, db);
    caller.reply().ok();
    Ok(())
}

fn flushall(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
) -> Result<(), CommandError> {
    check_flush_type(args)?;
    for db in 0..engine.keyspace.databases() {
        if !engine.keyspace.db(db).table.is_empty() {
            flush(engine, db);
        }
    }
    engine.save_flushed();
    caller.reply().ok();
    Ok(())
}

/// The name of a value's representation. There is one representation of strings here; the names
/// are those Redis would have, by its rules.
pub fn encoding(slot: &Slot) -> &'static str {
    if let Ok(list) = collection::list_of(slot) {
        return list.encoding();
    }
    if let Ok(set) = collection::set_of(slot, ALL_LIVE) {
        return set.form().name();
    }
    if let Ok(zset) = collection::zset_of(slot) {
        return zset.encoding();
    }
    if let Ok(hash) = collection::hash_of(slot, ALL_LIVE) {
        return hash.encoding();
    }
    if slot.kind() == Kind::Stream {
        return "stream";
    }
    let bytes = slot.string().unwrap_or_default();
    if slot.form() == Form::RawString || bytes.len() > EMBSTR_BYTES_MAX {
        "raw"
    } else if bytes.len() <= INT_BYTES_MAX && is_canonical_i64(bytes) {
        "int"
    } else {
        "embstr"
    }
}

fn object_encoding(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    match live.inspect(args.get(2)) {
        Some(slot) => reply.bulk(encoding(slot).as_bytes()),
        None => reply.null(),
    }
    Ok(())
}

fn object_freq(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    match live.inspect(args.get(2)).map(|slot| live.frequency(slot)) {
        None => reply.null(),
        Some(Some(count)) => reply.integer(count.into()),
        Some(None) => {
            return Err(CommandError::text(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
                 Please note that when switching between policies at runtime LRU and LFU data will \
                 take some time to adjust.",
            ));
        }
    }
    Ok(())
}

/// Redis: the clock wraps after 194 days; here, as an entry has 16 bits for it, after 18 hours, so
/// that a key which has not been used for longer seems to have been used more recently.
fn object_idletime(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    match live.inspect(args.get(2)) {
        Some(slot) if live.frequency(slot).is_some() => {
            return Err(CommandError::text(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that \
                 when switching between policies at runtime LRU and LFU data will take some time \
                 to adjust.",
            ));
        }
        Some(slot) => reply.integer(live.idle_seconds(slot).into()),
        None => reply.null(),
    }
    Ok(())
}

/// Values are never shared between keys.
fn object_refcount(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    match live.inspect(args.get(2)) {
        Some(_) => reply.integer(1),
        None => reply.null(),
    }
    Ok(())
}

fn object_help(
    _live: &mut Live<'_>,
    _args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    reply_help(reply, "object");
    Ok(())
}
