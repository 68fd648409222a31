//! What commands do: one module per family, each exporting the rows of its commands.
//!
//! [`dispatch`] is the only way in: it looks the command up, refuses what must be refused, runs
//! the handler and publishes what it changed. A handler of kind [`Handler::Data`] sees one
//! database at one instant ([`Live`]) and nothing else; one of kind [`Handler::Engine`] sees the
//! whole engine, for commands about sessions, settings, or several databases.
//!
//! Not here: parsing of bytes (`resp`), keys and deadlines (`store`), sockets (`server`).

pub mod row;

pub mod args;
pub mod caller;
pub mod dispatch;
pub mod keys;

pub mod string;

pub mod hash;

pub mod hash_expire;

pub mod set;

pub mod increx;

pub mod string_compare;
pub mod zset;

pub mod zset_range;

pub mod zset_pop;

pub mod blocking;
pub mod zset_combine;

pub mod list;

pub mod key;

pub mod sort;

pub mod expire;

pub mod connection;

pub mod client;

pub mod transaction;

pub mod pubsub;

pub mod introspect;

pub mod config;

pub mod info;

pub mod server;

pub mod snapshot;

pub mod debug;
mod digest;

use std::sync::LazyLock;

use hashbrown::HashTable;

use crate::engine::Engine;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::value::StringRef;
use args::Args;
use caller::Caller;
use row::Row;

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

/// Answers a string or, if there is none, null; a long one is shared.
fn reply_string(reply: &mut Reply<'_>, value: Option<StringRef<'_>>) {
    match value {
        Some(StringRef::Short(bytes)) => reply.bulk(bytes),
        Some(StringRef::Long(bytes)) => reply.bulk_shared(bytes),
        None => reply.null(),
    }
}

/// Families in the order of the documentation.
const FAMILIES: &[&[Row]] = &[
    string::COMMANDS,
    hash::COMMANDS,
    hash_expire::COMMANDS,
    set::COMMANDS,
    increx::COMMANDS,
    string_compare::COMMANDS,
    zset::COMMANDS,
    zset_range::COMMANDS,
    zset_pop::COMMANDS,
    zset_combine::COMMANDS,
    list::COMMANDS,
    key::COMMANDS,
    sort::COMMANDS,
    expire::COMMANDS,
    connection::COMMANDS,
    client::COMMANDS,
    transaction::COMMANDS,
    pubsub::COMMANDS,
    introspect::COMMANDS,
    config::COMMANDS,
    info::COMMANDS,
    server::COMMANDS,
    snapshot::COMMANDS,
    debug::COMMANDS,
];

/// A row with its number's meaning: commands first, then all subcommands.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The row.
    pub row: &'static Row,
    /// The container, of a subcommand.
    pub container: Option<&'static Row>,
    /// Number of its first subcommand.
    first_subcommand: u16,
}

/// All rows by number, and the names of commands.
pub struct CommandTable {
    entries: Vec<Entry>,
    commands: usize,
    names: HashTable<u16>,
}

static TABLE: LazyLock<CommandTable> = LazyLock::new(CommandTable::new);

/// The command table, derived once from the rows beside the handlers.
#[inline]
pub fn table() -> &'static CommandTable {
    &TABLE
}

/// A hash of a name, the same in upper and lower case. Not keyed: the table never grows by what
/// users send.
#[inline]
fn name_hash(name: &[u8]) -> u64 {
    let mut hash = name.len() as u64;
    for chunk in name.chunks(8) {
        let mut word = [0u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let folded = u64::from_le_bytes(word) | 0x2020_2020_2020_2020;
        hash = (hash ^ folded).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    }
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl CommandTable {
    fn new() -> CommandTable {
        let mut entries: Vec<Entry> = FAMILIES
            .iter()
            .flat_map(|family| family.iter())
            .map(|row| Entry {
                row,
                container: None,
                first_subcommand: 0,
            })
            .collect();
        let commands = entries.len();
        for at in 0..commands {
            let row = entries[at].row;
            entries[at].first_subcommand = entries.len() as u16;
            for subcommand in row.subcommands {
                let container = Some(row);
                entries.push(Entry {
                    row: subcommand,
                    container,
                    first_subcommand: 0,
                });
            }
        }
        let mut names = HashTable::with_capacity(commands);
        for at in 0..commands {
            let hash = name_hash(entries[at].row.name.as_bytes());
            names.insert_unique(hash, at as u16, |&at| {
                name_hash(entries[at as usize].row.name.as_bytes())
            });
        }
        CommandTable {
            entries,
            commands,
            names,
        }
    }

    /// The number of the command of this name.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<u16> {
        self.names
            .find(name_hash(name), |&at| {
                self.entries[at as usize]
                    .row
                    .name
                    .as_bytes()
                    .eq_ignore_ascii_case(name)
            })
            .copied()
    }

    /// The number of a container's subcommand.
    pub fn find_subcommand(&self, command: u16, name: &[u8]) -> Option<u16> {
        let entry = &self.entries[command as usize];
        let nth = entry
            .row
            .subcommands
            .iter()
            .position(|row| row.name.as_bytes().eq_ignore_ascii_case(name))?;
        Some(entry.first_subcommand + nth as u16)
    }

    /// A row by its number.
    #[inline(always)]
    pub fn entry(&self, number: u16) -> &Entry {
        &self.entries[number as usize]
    }

    /// Numbers of all commands, without subcommands.
    pub fn commands(&self) -> std::ops::Range<u16> {
        0..self.commands as u16
    }

    /// Numbers of a container's subcommands.
    pub fn subcommands(&self, command: u16) -> std::ops::Range<u16> {
        let entry = &self.entries[command as usize];
        entry.first_subcommand..entry.first_subcommand + entry.row.subcommands.len() as u16
    }
}

impl Entry {
    /// Whether its row has one of these flags.
    #[inline(always)]
    pub fn is(&self, flags: u32) -> bool {
        self.row.flags & flags != 0
    }

    /// The full name as Redis writes it: `get`, `client|id`.
    pub fn full_name(&self) -> String {
        match self.container {
            Some(container) => format!("{}|{}", container.name, self.row.name),
            None => self.row.name.to_owned(),
        }
    }
}

/// Answers HELP of a container: a line on how to call each subcommand and one on what it does, from
/// the rows.
///
/// # Panics
/// If there is no command of this name.
pub fn reply_help(reply: &mut Reply<'_>, container: &str) {
    let number = table().find(container.as_bytes());
    let row = table()
        .entry(number.expect("a handler knows its container"))
        .row;
    reply.array(1 + 2 * row.subcommands.len());
    reply.simple(&format!("{} has the subcommands", row.name.to_uppercase()));
    for subcommand in row.subcommands {
        let name = subcommand.name.to_uppercase();
        reply.simple(format!("{name} {}", row::synopsis(subcommand.args)).trim_end());
        reply.simple(&format!("    {}", subcommand.summary));
    }
}
