//! The command table: all rows by number, found by name, and answered for in HELP. It is derived
//! once from the rows beside the handlers; COMMAND, the checks before a command and the fuzzers'
//! dictionary follow from it.

pub mod row;

pub mod keys;

use std::sync::LazyLock;

use hashbrown::HashTable;

use super::FAMILIES;
use crate::resp::reply::Reply;
use row::Row;

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
    /// No name of a command is longer.
    name_bytes_max: usize,
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
        let lengths = entries[..commands].iter().map(|entry| entry.row.name.len());
        CommandTable {
            name_bytes_max: lengths.max().unwrap_or(0),
            entries,
            commands,
            names,
        }
    }

    /// The number of the command of this name.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<u16> {
        if name.len() > self.name_bytes_max {
            return None;
        }
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
