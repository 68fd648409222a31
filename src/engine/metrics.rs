//! Counters for INFO.

use std::collections::BTreeMap;

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

/// Kinds of errors that are counted apart; beyond that INFO says that errors were left out.
pub const ERROR_KINDS_MAX: usize = 128;

/// All counters.
#[derive(Default)]
pub struct Metrics {
    /// By row number.
    pub commands: Vec<CommandStat>,
    /// Errors sent, by code word.
    pub errors: BTreeMap<String, u64>,
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
        let code = str::from_utf8(code).expect("code words are ours, and ASCII");
        if let Some(count) = self.errors.get_mut(code) {
            *count += 1;
        } else if self.errors.len() < ERROR_KINDS_MAX {
            self.errors.insert(code.to_owned(), 1);
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
        *self = Metrics {
            memory_peak: self.memory_peak,
            ..Metrics::default()
        };
    }
}
