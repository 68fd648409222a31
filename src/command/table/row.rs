//! What the server knows about a command, as data: one [`Row`] per command, written beside its
//! handler. COMMAND, COMMAND DOCS, arity checks, key extraction, refusals while loading, permission
//! inside MULTI and the fuzz dictionary are all derived from it; nothing repeats it.

use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::engine::Engine;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;

/// A handler that sees one database. It writes its reply last, so that an error is the only reply.
pub type DataHandler = fn(&mut Live<'_>, Args<'_>, &mut Reply<'_>) -> Result<(), CommandError>;
/// A handler that sees everything.
pub type EngineHandler = fn(&mut Engine, &mut Caller<'_>, Args<'_>) -> Result<(), CommandError>;

/// What runs a command.
#[derive(Clone, Copy)]
pub enum Handler {
    /// On the keys of the selected database.
    Data(DataHandler),
    /// On the whole engine.
    Engine(EngineHandler),
    /// Nothing: it has subcommands.
    Container,
}

/// The argument of commands on one member or field, or on several, where the first is.
pub const MEMBER_AT: usize = 2;

/// Properties of a command, as bits of [`Row::flags`]; the names are those of COMMAND INFO.
pub mod flag {
    /// May change the data set.
    pub const WRITE: u32 = 1 << 0;
    /// Only reads keys.
    pub const READONLY: u32 = 1 << 1;
    /// May use more memory; refused when memory is short.
    pub const DENYOOM: u32 = 1 << 2;
    /// Administration.
    pub const ADMIN: u32 = 1 << 3;
    /// Publish and subscribe.
    pub const PUBSUB: u32 = 1 << 4;
    /// Not from scripts.
    pub const NOSCRIPT: u32 = 1 << 5;
    /// May block its client.
    pub const BLOCKING: u32 = 1 << 6;
    /// Served while a snapshot is being loaded.
    pub const LOADING: u32 = 1 << 7;
    /// Served by a replica whose link is down.
    pub const STALE: u32 = 1 << 8;
    /// Not shown to MONITOR.
    pub const SKIP_MONITOR: u32 = 1 << 9;
    /// Not kept in the slow log.
    pub const SKIP_SLOWLOG: u32 = 1 << 10;
    /// Allowed by a cluster while slots move.
    pub const ASKING: u32 = 1 << 11;
    /// Constant or logarithmic time.
    pub const FAST: u32 = 1 << 12;
    /// Served before authentication.
    pub const NO_AUTH: u32 = 1 << 13;
    /// May be replicated although it does not change keys: held back by CLIENT PAUSE WRITE. Redis
    /// does not tell about it.
    pub const MAY_REPLICATE: u32 = 1 << 14;
    /// Refused inside MULTI.
    pub const NO_MULTI: u32 = 1 << 15;
    /// Keys are not at fixed places: [`super::KeySpec`] needs a look at the arguments.
    pub const MOVABLEKEYS: u32 = 1 << 16;
    /// Allowed while a background job holds the data set busy.
    pub const ALLOW_BUSY: u32 = 1 << 17;
    /// Does not touch a key's access time.
    pub const TOUCHES_ARBITRARY_KEYS: u32 = 1 << 18;
    /// Served to a client that is busy loading asynchronously.
    pub const NO_ASYNC_LOADING: u32 = 1 << 19;
    // What follows is for the dispatcher; COMMAND INFO does not tell about it.

    /// May take long although its arguments are few and its reply is short: the time is read anew
    /// after it. Commands whose work is bounded by their arguments and their reply together are not
    /// among these; of a deleted collection only the graveyard has work.
    pub const LONG: u32 = 1 << 20;
    /// Its argument [`super::MEMBER_AT`] is a member of a set or a field of a hash, to be looked
    /// ahead for.
    pub const ON_MEMBER: u32 = 1 << 21;
    /// Runs at once inside MULTI.
    pub const NOT_QUEUED: u32 = 1 << 22;
    /// Allowed to a client that is bound by its subscriptions.
    pub const FOR_SUBSCRIBERS: u32 = 1 << 23;
    /// Runs the commands of a transaction: what holds for one of them holds for it.
    pub const RUNS_QUEUE: u32 = 1 << 24;
    /// Refused like writes while saves fail.
    pub const NEEDS_SAVES: u32 = 1 << 25;
    /// Not held back by CLIENT PAUSE.
    pub const ENDS_PAUSE: u32 = 1 << 26;
    /// Its effects are not the command itself: the handler records them (`store::effect`). So it
    /// is with what depends on the time, on chance, or on who waits.
    pub const OWN_EFFECT: u32 = 1 << 27;

    /// Its keys are optional.
    pub const NO_MANDATORY_KEYS: u32 = 1 << 28;

    /// Bit and name, in the order COMMAND INFO lists them.
    pub const NAMES: &[(u32, &str)] = &[
        (WRITE, "write"),
        (READONLY, "readonly"),
        (DENYOOM, "denyoom"),
        (ADMIN, "admin"),
        (PUBSUB, "pubsub"),
        (NOSCRIPT, "noscript"),
        (BLOCKING, "blocking"),
        (LOADING, "loading"),
        (STALE, "stale"),
        (SKIP_MONITOR, "skip_monitor"),
        (SKIP_SLOWLOG, "skip_slowlog"),
        (ASKING, "asking"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (NO_MANDATORY_KEYS, "no_mandatory_keys"),
        (NO_ASYNC_LOADING, "no_async_loading"),
        (NO_MULTI, "no_multi"),
        (MOVABLEKEYS, "movablekeys"),
        (ALLOW_BUSY, "allow_busy"),
        (TOUCHES_ARBITRARY_KEYS, "touches-arbitrary-keys"),
    ];
}

/// ACL categories, as bits of [`Row::categories`].
pub mod category {
    /// Commands on keys of any type.
    pub const KEYSPACE: u32 = 1 << 0;
    /// Reads keys.
    pub const READ: u32 = 1 << 1;
    /// Writes keys.
    pub const WRITE: u32 = 1 << 2;
    /// Sets.
    pub const SET: u32 = 1 << 3;
    /// Sorted sets.
    pub const SORTEDSET: u32 = 1 << 4;
    /// Lists.
    pub const LIST: u32 = 1 << 5;
    /// Hashes.
    pub const HASH: u32 = 1 << 6;
    /// Strings.
    pub const STRING: u32 = 1 << 7;
    /// Bitmaps.
    pub const BITMAP: u32 = 1 << 8;
    /// HyperLogLog.
    pub const HYPERLOGLOG: u32 = 1 << 9;
    /// Geo.
    pub const GEO: u32 = 1 << 10;
    /// Streams.
    pub const STREAM: u32 = 1 << 11;
    /// Publish and subscribe.
    pub const PUBSUB: u32 = 1 << 12;
    /// Administration.
    pub const ADMIN: u32 = 1 << 13;
    /// Constant or logarithmic time.
    pub const FAST: u32 = 1 << 14;
    /// Not fast.
    pub const SLOW: u32 = 1 << 15;
    /// May block.
    pub const BLOCKING: u32 = 1 << 16;
    /// Dangerous in the wrong hands.
    pub const DANGEROUS: u32 = 1 << 17;
    /// Connections.
    pub const CONNECTION: u32 = 1 << 18;
    /// Transactions.
    pub const TRANSACTION: u32 = 1 << 19;
    /// Scripts.
    pub const SCRIPTING: u32 = 1 << 20;

    /// Bit and name, in the order COMMAND INFO lists them.
    pub const NAMES: &[(u32, &str)] = &[
        (KEYSPACE, "@keyspace"),
        (READ, "@read"),
        (WRITE, "@write"),
        (SET, "@set"),
        (SORTEDSET, "@sortedset"),
        (LIST, "@list"),
        (HASH, "@hash"),
        (STRING, "@string"),
        (BITMAP, "@bitmap"),
        (HYPERLOGLOG, "@hyperloglog"),
        (GEO, "@geo"),
        (STREAM, "@stream"),
        (PUBSUB, "@pubsub"),
        (ADMIN, "@admin"),
        (FAST, "@fast"),
        (SLOW, "@slow"),
        (BLOCKING, "@blocking"),
        (DANGEROUS, "@dangerous"),
        (CONNECTION, "@connection"),
        (TRANSACTION, "@transaction"),
        (SCRIPTING, "@scripting"),
    ];
}

/// What a command does with the keys of a [`KeySpec`]; bits, names as in COMMAND INFO.
pub mod key_flag {
    /// Reads the value.
    pub const RO: u16 = 1 << 0;
    /// Reads and writes the value.
    pub const RW: u16 = 1 << 1;
    /// Overwrites the value without reading it.
    pub const OW: u16 = 1 << 2;
    /// Removes the key.
    pub const RM: u16 = 1 << 3;
    /// The reply depends on the user's data.
    pub const ACCESS: u16 = 1 << 4;
    /// Changes the user's data.
    pub const UPDATE: u16 = 1 << 5;
    /// Adds data without changing what is there.
    pub const INSERT: u16 = 1 << 6;
    /// Removes data.
    pub const DELETE: u16 = 1 << 7;
    /// Looks like a key but is none (a channel).
    pub const NOT_KEY: u16 = 1 << 8;
    /// Some keys may be missed by this specification.
    pub const INCOMPLETE: u16 = 1 << 9;
    /// The flags depend on the arguments.
    pub const VARIABLE_FLAGS: u16 = 1 << 10;

    /// Bit and name, in the order COMMAND INFO lists them.
    pub const NAMES: &[(u16, &str)] = &[
        (RO, "RO"),
        (RW, "RW"),
        (OW, "OW"),
        (RM, "RM"),
        (ACCESS, "access"),
        (UPDATE, "update"),
        (INSERT, "insert"),
        (DELETE, "delete"),
        (NOT_KEY, "not_key"),
        (INCOMPLETE, "incomplete"),
        (VARIABLE_FLAGS, "variable_flags"),
    ];
}

/// How the number and the places of keys are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySearch {
    /// From the first to the last of a range.
    Range,
    /// The arguments say how many there are, just before the first.
    Counted,
    /// The first half of the arguments behind a word.
    BehindWord(&'static str),
    /// Only the command itself can tell.
    Unknown,
}

/// Where a command's keys stand among its arguments (argument 0 is the command's name).
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// Index of the first key; of the number of keys, if they are counted; of the first argument
    /// that
    /// may be the word they are behind.
    pub first: u16,
    /// Index of the last key, relative to `first`; -1 is the last argument, -2 the one before.
    pub last: i16,
    /// Distance from key to key.
    pub step: u16,
    /// Bits of [`key_flag`].
    pub flags: u16,
    /// How they are found.
    pub search: KeySearch,
    /// Finds a key that only the arguments tell, given the index of the command's name.
    pub found_by: Option<fn(Args<'_>, usize) -> Option<usize>>,
    /// What is done with the keys, where the arguments tell.
    pub flags_by: Option<fn(Args<'_>, usize) -> u16>,
}

impl KeySpec {
    /// A single key.
    pub const fn at(first: u16, flags: u16) -> KeySpec {
        KeySpec {
            first,
            last: 0,
            step: 1,
            flags,
            search: KeySearch::Range,
            found_by: None,
            flags_by: None,
        }
    }

    /// As many keys as the argument at `number_at` says, each the first of `step` arguments.
    pub const fn counted(number_at: u16, step: u16, flags: u16) -> KeySpec {
        KeySpec {
            first: number_at,
            last: 0,
            step,
            flags,
            search: KeySearch::Counted,
            found_by: None,
            flags_by: None,
        }
    }

    /// As many keys as there are arguments behind them, behind a word that is argument `first` or a
    /// later one.
    pub const fn behind_word(word: &'static str, first: u16, flags: u16) -> KeySpec {
        KeySpec {
            first,
            last: -1,
            step: 1,
            flags,
            search: KeySearch::BehindWord(word),
            found_by: None,
            flags_by: None,
        }
    }

    /// Keys whose places depend on the other arguments or even on what keys hold.
    pub const fn unknown(flags: u16) -> KeySpec {
        KeySpec {
            first: 0,
            last: 0,
            step: 0,
            flags,
            search: KeySearch::Unknown,
            found_by: None,
            flags_by: None,
        }
    }

    /// With a function that finds the key.
    pub const fn found_by(mut self, found_by: fn(Args<'_>, usize) -> Option<usize>) -> KeySpec {
        self.found_by = Some(found_by);
        self
    }

    /// With a function that tells what is done with the keys.
    pub const fn flags_by(mut self, flags_by: fn(Args<'_>, usize) -> u16) -> KeySpec {
        self.flags |= key_flag::VARIABLE_FLAGS;
        self.flags_by = Some(flags_by);
        self
    }

    /// Every argument but the first so many and the last.
    pub const fn but_last(first: u16, flags: u16) -> KeySpec {
        KeySpec {
            first,
            last: -2,
            step: 1,
            flags,
            search: KeySearch::Range,
            found_by: None,
            flags_by: None,
        }
    }

    /// Index of the first key.
    pub const fn first_key(&self) -> usize {
        match self.search {
            KeySearch::Counted => self.first as usize + 1,
            KeySearch::Range | KeySearch::BehindWord(_) | KeySearch::Unknown => self.first as usize,
        }
    }

    /// Every `step`th argument up to the end.
    pub const fn to_end(first: u16, step: u16, flags: u16) -> KeySpec {
        KeySpec {
            first,
            last: -1,
            step,
            flags,
            search: KeySearch::Range,
            found_by: None,
            flags_by: None,
        }
    }
}

/// The group a command belongs to in the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Group {
    Generic,
    String,
    List,
    Set,
    SortedSet,
    Hash,
    PubSub,
    Transactions,
    Connection,
    Server,
    Scripting,
    Hyperloglog,
    Cluster,
    Geo,
    Stream,
    Bitmap,
}

impl Group {
    /// The name COMMAND DOCS gives.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Generic => "generic",
            Group::String => "string",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Hash => "hash",
            Group::PubSub => "pubsub",
            Group::Transactions => "transactions",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Scripting => "scripting",
            Group::Hyperloglog => "hyperloglog",
            Group::Cluster => "cluster",
            Group::Geo => "geo",
            Group::Stream => "stream",
            Group::Bitmap => "bitmap",
        }
    }
}

/// The type of an argument in a command's grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ArgKind {
    String,
    Integer,
    Double,
    Key,
    Pattern,
    UnixTime,
    /// The bare word given by [`Arg::token`].
    PureToken,
    /// Exactly one of `args`.
    OneOf,
    /// All of `args`, in order.
    Block,
}

impl ArgKind {
    /// The name COMMAND DOCS gives.
    pub const fn name(self) -> &'static str {
        match self {
            ArgKind::String => "string",
            ArgKind::Integer => "integer",
            ArgKind::Double => "double",
            ArgKind::Key => "key",
            ArgKind::Pattern => "pattern",
            ArgKind::UnixTime => "unix-time",
            ArgKind::PureToken => "pure-token",
            ArgKind::OneOf => "oneof",
            ArgKind::Block => "block",
        }
    }
}

/// One argument of a command's grammar, for COMMAND DOCS and redis-cli's hints.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// The argument's name.
    pub name: &'static str,
    /// Its type.
    pub kind: ArgKind,
    /// The word that precedes it, or is it; empty if none.
    pub token: &'static str,
    /// May be left out.
    pub optional: bool,
    /// May be repeated.
    pub multiple: bool,
    /// The token is repeated with it.
    pub multiple_token: bool,
    /// Version in which it was added; empty if with the command.
    pub since: &'static str,
    /// Version since which it should not be used any more; empty if it may be.
    pub deprecated_since: &'static str,
    /// How it is shown in a synopsis; empty if by its name.
    pub display: &'static str,
    /// Which key specification it belongs to; keys only.
    pub key_spec: Option<u8>,
    /// Members of a [`ArgKind::OneOf`] or [`ArgKind::Block`].
    pub args: &'static [Arg],
}

impl Arg {
    /// An argument of this kind.
    pub const fn new(name: &'static str, kind: ArgKind) -> Arg {
        Arg {
            name,
            kind,
            token: "",
            optional: false,
            multiple: false,
            multiple_token: false,
            since: "",
            deprecated_since: "",
            display: "",
            key_spec: None,
            args: &[],
        }
    }

    /// A key of the first key specification.
    pub const fn key(name: &'static str) -> Arg {
        Arg {
            key_spec: Some(0),
            ..Arg::new(name, ArgKind::Key)
        }
    }

    /// A bare word.
    pub const fn word(name: &'static str, token: &'static str) -> Arg {
        Arg {
            token,
            ..Arg::new(name, ArgKind::PureToken)
        }
    }

    /// One of several arguments.
    pub const fn one_of(name: &'static str, args: &'static [Arg]) -> Arg {
        Arg {
            args,
            ..Arg::new(name, ArgKind::OneOf)
        }
    }

    /// Several arguments in a row.
    pub const fn block(name: &'static str, args: &'static [Arg]) -> Arg {
        Arg {
            args,
            ..Arg::new(name, ArgKind::Block)
        }
    }

    /// This argument, preceded by a word.
    pub const fn token(self, token: &'static str) -> Arg {
        Arg { token, ..self }
    }

    /// This argument, optional.
    pub const fn optional(self) -> Arg {
        Arg {
            optional: true,
            ..self
        }
    }

    /// This argument, repeatable.
    pub const fn multiple(self) -> Arg {
        Arg {
            multiple: true,
            ..self
        }
    }

    /// This argument, added in a later version than the command.
    pub const fn since(self, since: &'static str) -> Arg {
        Arg { since, ..self }
    }

    /// This argument, deprecated since a version.
    pub const fn deprecated_since(self, deprecated_since: &'static str) -> Arg {
        Arg {
            deprecated_since,
            ..self
        }
    }

    /// This argument, shown under another name than its own.
    pub const fn display(self, display: &'static str) -> Arg {
        Arg { display, ..self }
    }

    /// This argument, of another key specification than the first.
    pub const fn key_spec(self, index: u8) -> Arg {
        Arg {
            key_spec: Some(index),
            ..self
        }
    }
}

/// A command, or a subcommand of a container.
#[derive(Clone, Copy)]
pub struct Row {
    /// Lower-case name; of a subcommand without its container's.
    pub name: &'static str,
    /// Number of arguments with the name (and container); negative: at least that many.
    pub arity: i16,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Bits of [`category`].
    pub categories: u32,
    /// Where the keys are.
    pub keys: &'static [KeySpec],
    /// Group in the documentation.
    pub group: Group,
    /// Redis version that introduced it.
    pub since: &'static str,
    /// Time complexity.
    pub complexity: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Argument grammar.
    pub args: &'static [Arg],
    /// Subcommands of a container.
    pub subcommands: &'static [Row],
    /// What runs.
    pub handler: Handler,
}

/// A grammar on one line, as in `<key> [DB <destination-db>] [REPLACE]`.
pub fn synopsis(args: &[Arg]) -> String {
    let mut text = Vec::new();
    for arg in args {
        let name = if arg.display.is_empty() {
            arg.name
        } else {
            arg.display
        };
        let inner = match arg.kind {
            ArgKind::PureToken => String::new(),
            ArgKind::OneOf => {
                let choices: Vec<String> = arg
                    .args
                    .iter()
                    .map(|choice| synopsis(std::slice::from_ref(choice)))
                    .collect();
                choices.join(" | ")
            }
            ArgKind::Block => synopsis(arg.args),
            _ => format!("<{name}>"),
        };
        let mut whole = format!("{} {inner}", arg.token).trim().to_owned();
        if arg.multiple {
            whole.push_str(" ...");
        }
        text.push(if arg.optional {
            format!("[{whole}]")
        } else {
            whole
        });
    }
    text.join(" ")
}

impl Row {
    /// Whether the command may have this many arguments, its name included.
    #[inline]
    pub fn takes(&self, arguments: usize) -> bool {
        fits(self.arity, arguments)
    }
}

/// Whether so many arguments fit an arity, which is exact, or if negative the least.
#[inline]
pub fn fits(arity: i16, arguments: usize) -> bool {
    let least = usize::from(arity.unsigned_abs());
    if arity < 0 {
        arguments >= least
    } else {
        arguments == least
    }
}
