//! Counters for INFO.

use std::collections::{BTreeMap, BTreeSet};

/// Calls of one command.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommandStat {
    /// Times it ran.
    pub calls: u64,
    /// Time it took in all.
    pub us: u64,
    /// Times it was refused before it ran.
    pub rejected: u64,
    /// Times it ran and answered with an error.
    pub failed: u64,
}

/// Bytes of a code word that tell kinds of errors apart; scripts make up any they like.
const ERROR_CODE_LEN_MAX: usize = 64;
/// Kinds of errors that are counted apart; beyond that INFO says that errors were left out.
pub const ERROR_KINDS_MAX: usize = 128;

/// Names of unknown commands that are counted apart and logged; all others are counted together.
pub const UNKNOWN_NAMES_MAX: usize = 64;
/// At most this much of an unknown command's name is kept, in bytes.
pub const UNKNOWN_NAME_BYTES_MAX: usize = 64;

/// Commands that clients asked for in vain. Many libraries swallow the error, so that whoever runs
/// the server has no other way to learn of them.
#[derive(Default)]
pub struct UnknownCommands {
    /// How often which name was asked for, since start or CONFIG RESETSTAT.
    pub calls: BTreeMap<String, u64>,
    /// How often any other.
    pub other_calls: u64,
    /// Names that have been logged. They outlive CONFIG RESETSTAT: no client can flood the log.
    logged: BTreeSet<String>,
}

impl UnknownCommands {
    /// Counts a name as a client sent it, a container's with `|` and the subcommand behind it.
    /// Gives the name if it is to be logged.
    pub fn count(&mut self, name: &[u8]) -> Option<&str> {
        let name = printable(&name[..name.len().min(UNKNOWN_NAME_BYTES_MAX)]);
        if let Some(calls) = self.calls.get_mut(&name) {
            *calls += 1;
        } else if self.calls.len() < UNKNOWN_NAMES_MAX {
            self.calls.insert(name.clone(), 1);
        } else {
            self.other_calls += 1;
        }
        if self.logged.len() >= UNKNOWN_NAMES_MAX || !self.logged.insert(name.clone()) {
            return None;
        }
        self.logged.get(&name).map(String::as_str)
    }

    /// Whether no further name will be logged.
    pub fn is_log_full(&self) -> bool {
        self.logged.len() >= UNKNOWN_NAMES_MAX
    }
}

/// A name in lower case in which whatever means something in INFO or in a log is escaped.
fn printable(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.to_ascii_lowercase() {
        if byte.is_ascii_alphanumeric() || b"._-|".contains(&byte) {
            text.push(byte.into());
        } else {
            text += &format!("\\x{byte:02x}");
        }
    }
    text
}

/// All counters.
#[derive(Default)]
pub struct Metrics {
    /// By row number.
    pub commands: Vec<CommandStat>,
    /// Errors sent, by code word.
    pub errors: BTreeMap<String, u64>,
    /// What clients asked for in vain.
    pub unknown: UnknownCommands,
    /// Errors sent.
    pub error_replies: u64,
    /// Clients accepted.
    pub connections_received: u64,
    /// Clients turned away at `maxclients`.
    pub connections_rejected: u64,
    /// Commands executed.
    pub commands_processed: u64,
    /// Bytes received.
    pub input_bytes: u64,
    /// Bytes sent.
    pub output_bytes: u64,
    /// Clients closed for too much input.
    pub query_buffer_disconnections: u64,
    /// Clients closed for too much output.
    pub output_buffer_disconnections: u64,
    /// Clients closed because all together took too much.
    pub clients_evicted: u64,
    /// Largest input buffer seen.
    pub input_buffer_max: usize,
    /// Largest output buffer seen.
    pub output_buffer_max: usize,
    /// Turns of the loop.
    pub turns: u64,
    /// Time the loop was busy.
    pub busy_us: u64,
    /// Time commands took.
    pub command_us: u64,
    /// Wrong passwords.
    pub auth_denied: u64,
    /// Most memory in use seen, in bytes.
    pub memory_peak: u64,
    /// Samples of the total of commands, input and output bytes, at times in ms: for rates.
    samples: [(u64, [u64; 3]); 16],
    sample_at: usize,
}

/// A code word as INFO shows it. Those that scripts make up may be any bytes.
fn code_shown(code: &[u8]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"#:".contains(&byte);
    let shown = code.iter().map(|&byte| {
        if is_plain(byte) {
            char::from(byte)
        } else {
            '_'
        }
    });
    shown.collect()
}

impl Metrics {
    /// The counters of a command.
    pub fn command(&mut self, row: u16) -> &mut CommandStat {
        let row = row as usize;
        if row >= self.commands.len() {
            self.commands.resize(row + 1, CommandStat::default());
        }
        &mut self.commands[row]
    }

    /// Counts an error reply by the first word of its line.
    pub fn error(&mut self, line: &[u8]) {
        self.error_replies += 1;
        let code = line.split(|&byte| byte == b' ').next().unwrap_or_default();
        let code = &code[..code.len().min(ERROR_CODE_LEN_MAX)];
        let known = str::from_utf8(code).ok();
        if let Some(count) = known.and_then(|code| self.errors.get_mut(code)) {
            *count += 1;
        } else if self.errors.len() < ERROR_KINDS_MAX {
            *self.errors.entry(code_shown(code)).or_default() += 1;
        }
    }

    /// Takes a sample of what rates are computed from.
    pub fn sample(&mut self, now_ms: u64) {
        self.sample_at = (self.sample_at + 1) % self.samples.len();
        let totals = [self.commands_processed, self.input_bytes, self.output_bytes];
        self.samples[self.sample_at] = (now_ms, totals);
    }

    /// Commands, input bytes and output bytes a second, over the last sixteen samples and now.
    pub fn rates(&self, now_ms: u64) -> [u64; 3] {
        let oldest = self.samples[(self.sample_at + 1) % self.samples.len()];
        let elapsed = now_ms.saturating_sub(oldest.0).max(1);
        let totals = [self.commands_processed, self.input_bytes, self.output_bytes];
        std::array::from_fn(|i| totals[i].saturating_sub(oldest.1[i]) * 1000 / elapsed)
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&mut self) {
        let logged = std::mem::take(&mut self.unknown.logged);
        *self = Metrics {
            memory_peak: self.memory_peak,
            unknown: UnknownCommands {
                logged,
                ..UnknownCommands::default()
            },
            ..Metrics::default()
        };
    }
}
