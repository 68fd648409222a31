//! Lua: what runs the scripts and functions of clients, and knows nothing of the server.
//!
//! ```text
//!  engine ── Interpreter::run ──> interpreter ──> the script, in a sandbox ──> its value ──> reply
//!    ▲                                                 │ redis.call(...)        (convert)
//!    └── Host::call ◄──────────────────────────────────┘ ──> reply bytes ──> Lua value (exchange)
//! ```
//!
//! The engine owns a [`Interpreter`] and lends itself as a [`Host`] for one run. A script reaches
//! the server through nothing else. Without the feature `scripting` there is only this interface,
//! and [`open`] gives none.
//!
//! The names a script sees are made in two steps. Rust gives functions (`redis_table`, `lib`);
//! `prelude.lua` puts them and Lua's own into the tables that scripts see. mlua raises an error of
//! Rust as a userdata; whatever lets a script catch an error (pcall, coroutines) replaces it by the
//! string or table that it stands for (`native`).
//!
//! Invariants: what a script does leaves no trace that another script can see. Every table that
//! scripts share is read-only: they get an empty *proxy* of it (`sandbox`). Memory, time, depth
//! of recursion and the lengths that a script names are limited; passing a limit ends the script
//! with an error, and the interpreter can be used afterwards.
//!
//! Not here: which scripts there are and their digests, what a script may do with data, when it
//! is stopped (`engine`, `command`).

use crate::resp::output::Output;
use crate::resp::reply::Protocol;
use crate::resp::request::{ArgRange, Source};

#[cfg(feature = "scripting")]
mod convert;
#[cfg(feature = "scripting")]
mod decimal;
#[cfg(feature = "scripting")]
mod exchange;
#[cfg(feature = "scripting")]
mod interpreter;
#[cfg(feature = "scripting")]
mod lib;
#[cfg(feature = "scripting")]
mod native;
#[cfg(feature = "scripting")]
mod redis_table;
#[cfg(feature = "scripting")]
mod sandbox;

/// What a script may ask of the server, lent for one run.
pub trait Host {
    /// Runs a command and appends its reply, in `protocol`, to `reply`, which is empty. The command
    /// is refused by an error in the reply.
    fn call(&mut self, command: &Words, protocol: Protocol, reply: &mut Output);

    /// Writes a line to the server's log.
    fn log(&mut self, level: LogLevel, text: &[u8]);

    /// Asked every [`INSTRUCTIONS_PER_PAUSE`] instructions: whether the script may go on.
    fn pause(&mut self) -> Verdict;

    /// Whether the user who runs the script may run a command; None if there is no such command.
    fn is_allowed(&mut self, command: &Words) -> Option<bool>;

    /// `redis.set_repl`: where the effects of the following commands go, an OR of [`REPL_AOF`] and
    /// [`REPL_REPLICA`].
    fn set_replication(&mut self, targets: u8);
}

/// A command with its arguments, one after another in a buffer that is used again.
#[derive(Default)]
pub struct Words {
    bytes: Vec<u8>,
    ranges: Vec<ArgRange>,
}

impl Words {
    /// Longest that a command may be, in bytes.
    pub const BYTES_MAX: usize = 1 << 30;
    /// Room that is kept for the next command, in bytes.
    const KEPT_BYTES: usize = 64 * 1024;

    /// Adds a word; false if that makes the command too long.
    pub fn push(&mut self, word: &[u8]) -> bool {
        if word.len() > Words::BYTES_MAX - self.bytes.len() {
            return false;
        }
        self.ranges.push(ArgRange {
            start: self.bytes.len() as u32,
            len: word.len() as u32,
        });
        self.bytes.extend_from_slice(word);
        true
    }

    /// Forgets the command.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.bytes.clear();
        self.bytes.shrink_to(Words::KEPT_BYTES);
        self.ranges
            .shrink_to(Words::KEPT_BYTES / size_of::<ArgRange>());
    }

    /// What the words are ranges of.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where they are.
    pub fn ranges(&self) -> &[ArgRange] {
        &self.ranges
    }

    /// The words.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let source = Source::from(self.bytes.as_slice());
        self.ranges.iter().map(move |range| range.of(source))
    }
}

/// How many instructions of Lua are run between two calls of [`Host::pause`]: a tenth of a
/// millisecond of the plainest, so that a pause that reads the clock costs a thousandth.
pub const INSTRUCTIONS_PER_PAUSE: u32 = 10_000;
/// Effects go to the journal.
pub const REPL_AOF: u8 = 1;
/// Effects go to replicas.
pub const REPL_REPLICA: u8 = 2;

/// The level of a line for the log, as scripts number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// 0
    Debug,
    /// 1
    Verbose,
    /// 2
    Notice,
    /// 3
    Warning,
}

impl LogLevel {
    /// Writes a line to the log.
    pub fn write(self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        match self {
            LogLevel::Debug => log::debug!("{text}"),
            LogLevel::Verbose | LogLevel::Notice => log::info!("{text}"),
            LogLevel::Warning => log::warn!("{text}"),
        }
    }
}

/// What the host says to a script that has run for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may go on.
    Continue,
    /// It ends with this error, code word included, whatever the script does against it.
    Kill(Vec<u8>),
}

/// What the interpreter is told once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes that the interpreter may use for all scripts, their data included.
    pub memory_bytes_limit: usize,
    /// `redis.REDIS_VERSION`.
    pub version: String,
    /// `redis.REDIS_VERSION_NUM`: a byte each for major, minor and patch.
    pub version_number: u32,
}

/// A compiled script or a function of a library, until it is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScriptId(usize);

/// Why a script has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The error line for the client, code word included.
    pub line: Vec<u8>,
    /// A command that the script called answered so, and has been counted as failed.
    pub is_of_command: bool,
}

/// A function that a library registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its name; letters, digits and `_`.
    pub name: Vec<u8>,
    /// What to run.
    pub id: ScriptId,
    /// What the library says about it.
    pub description: Option<Vec<u8>>,
    /// Its flags.
    pub flags: FunctionFlags,
}

/// Flags of a function, as of a script's first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionFlags(u8);

impl FunctionFlags {
    /// The flags and their names, in the order in which FUNCTION LIST shows them.
    const NAMES: [(&str, FunctionFlags); 5] = [
        ("no-writes", FunctionFlags::NO_WRITES),
        ("allow-oom", FunctionFlags::ALLOW_OOM),
        ("allow-stale", FunctionFlags::ALLOW_STALE),
        ("no-cluster", FunctionFlags::NO_CLUSTER),
        (
            "allow-cross-slot-keys",
            FunctionFlags::ALLOW_CROSS_SLOT_KEYS,
        ),
    ];

    /// It may not change data.
    pub const NO_WRITES: FunctionFlags = FunctionFlags(1);
    /// It may run when memory is used up.
    pub const ALLOW_OOM: FunctionFlags = FunctionFlags(2);
    /// It may run on a replica with stale data.
    pub const ALLOW_STALE: FunctionFlags = FunctionFlags(4);
    /// It does not run in a cluster.
    pub const NO_CLUSTER: FunctionFlags = FunctionFlags(8);
    /// It may use keys of several slots.
    pub const ALLOW_CROSS_SLOT_KEYS: FunctionFlags = FunctionFlags(16);

    /// The flag of a name.
    pub fn named(name: &[u8]) -> Option<FunctionFlags> {
        let found = Self::NAMES
            .iter()
            .find(|(text, _)| text.as_bytes() == name)?;
        Some(found.1)
    }

    /// Whether all of `other` are set.
    pub fn contains(self, other: FunctionFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and those of `other`.
    #[must_use]
    pub fn with(self, other: FunctionFlags) -> FunctionFlags {
        FunctionFlags(self.0 | other.0)
    }

    /// The names of those that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let set = move |&(_, flag): &(_, FunctionFlags)| self.contains(flag);
        Self::NAMES.into_iter().filter(set).map(|(name, _)| name)
    }
}

/// Runs Lua. There is one implementor; it is a trait so that what owns it need not know of Lua,
/// which may be left out of the build.
pub trait Interpreter {
    /// Compiles a script. Its `name` (the digest of the body) appears in errors. The error is the
    /// compiler's message, `user_script:1: ...`.
    fn compile(&mut self, name: &[u8], body: &[u8]) -> Result<ScriptId, Vec<u8>>;

    /// Runs the code of a library, which registers its functions. The error is a message without
    /// code word for [`LoadError::Compile`], an error line for [`LoadError::Run`].
    fn load(&mut self, body: &[u8], host: &mut dyn Host) -> Result<Vec<Registered>, LoadError>;

    /// Runs a script or a function. Its reply, in the client's protocol, is appended to `reply`,
    /// which stays as it is if the script fails.
    fn run(
        &mut self,
        id: ScriptId,
        arguments: Arguments<'_>,
        host: &mut dyn Host,
        reply: &mut Output,
    ) -> Result<(), Failure>;

    /// Forgets a script or a function.
    fn forget(&mut self, id: ScriptId);

    /// Bytes in use.
    fn memory_bytes(&self) -> usize;

    /// Collects garbage for a while, some tens of microseconds; true at the end of a cycle.
    fn collect_step(&mut self) -> bool;
}

/// What a script is run with.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    /// All, the keys first.
    pub all: &'a dyn Fn(usize) -> &'a [u8],
    /// How many of them there are.
    pub len: usize,
    /// How many are keys: KEYS; the others are ARGV.
    pub keys: usize,
    /// What the client speaks.
    pub protocol: Protocol,
}

/// Why a library was not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// Its text is no Lua.
    Compile(Vec<u8>),
    /// Its code failed.
    Run(Vec<u8>),
}

/// An interpreter, if the server was built with one.
#[cfg(feature = "scripting")]
pub fn open(settings: Settings) -> Option<Box<dyn Interpreter>> {
    Some(Box::new(interpreter::Lua51::new(settings)))
}

/// An interpreter, if the server was built with one.
#[cfg(not(feature = "scripting"))]
pub fn open(_settings: Settings) -> Option<Box<dyn Interpreter>> {
    None
}

#[cfg(all(test, feature = "scripting"))]
mod tests;
