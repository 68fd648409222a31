//! The settings: one table, [`SETTINGS`], from which everything else follows.
//!
//! A row knows its name, its help, how its value is read and how it is shown. The configuration
//! file, the environment (`MAYFLY_PORT=7000`) and the command line (`--port 7000`) are three ways
//! to write the same lines; a later source wins over an earlier one. CONFIG GET, SET and REWRITE
//! walk the same table, and so does `--help`.
//!
//! Invariants: nothing here does I/O (the caller hands in texts and reads included files);
//! [`Config::set`] changes all or nothing; what [`Config::rewrite`] returns reads back as the
//! configuration it was made from.
//!
//! Not here: what a change means for the running server (binding a port, changing the directory).
//! The caller does that after `set`, on a copy it can throw away when the step fails.

mod help;
mod read;
mod rewrite;
mod source;
mod table;
mod values;

#[cfg(test)]
mod tests;

use std::fmt;

pub use help::help;
pub use source::{ConfigError, parse, split_file_argument, split_line};
pub use table::{Access, SETTINGS, Setting, find};
pub use values::*;

use table::OLD_NAMES;

/// What an environment variable must start with to be read as a setting.
pub const ENV_PREFIX: &str = "MAYFLY_";
/// How deep `include` lines may nest.
pub const INCLUDE_DEPTH_MAX: usize = 16;
/// How many files may be included in all: nesting alone would allow 2^16 reads of one file.
pub const INCLUDES_MAX: usize = 256;
/// How many addresses `bind` takes.
pub const BIND_ADDRESSES_MAX: usize = 16;
/// Redis: allows two thousand million databases; each costs memory, so there is a sane end.
pub const DATABASES_MAX: i64 = 65_536;
/// `hz` is held in this range without an error, as in Redis.
pub const HZ_RANGE: std::ops::RangeInclusive<u32> = 1..=500;

const MEBIBYTE: u64 = 1 << 20;
const INT_MAX: i64 = i32::MAX as i64;

/// The most that `proto-max-bulk-len` can be, and its default: what a snapshot can hold.
pub const BULK_BYTES_MAX: u64 = 512 * MEBIBYTE;
/// All settings, typed. `Default` gives the documented defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Addresses to listen on; one with a leading `-` may be missing from the machine.
    pub bind: Vec<String>,
    /// TCP port, 0 for none.
    pub port: u16,
    /// Path of the unix socket, empty for none.
    pub unixsocket: String,
    /// Mode bits of the unix socket, 0 to leave them to the umask.
    pub unixsocket_permissions: u32,
    /// Length of the queue of connections not yet accepted.
    pub tcp_backlog: u32,
    /// Seconds of silence before TCP probes a client, 0 for never.
    pub tcp_keepalive_seconds: u32,
    /// Seconds before an idle client is closed, 0 for never.
    pub timeout_seconds: u32,
    /// Clients allowed at one time.
    pub clients_max: u32,
    /// Whether strangers are refused while no password is set.
    pub is_protected: bool,
    /// Password of the default user, empty for none.
    pub requirepass: String,
    /// Output limits of normal, replica and pub/sub clients, in this order.
    pub output_limits: [OutputLimit; 3],
    /// Bytes a client may have sent and not yet had executed.
    pub query_buffer_bytes_limit: u64,
    /// Bytes of the longest argument a request may have.
    pub bulk_bytes_max: u64,
    /// What a chunk of a list may hold: items, or from -1 on 4, 8, 16, 32 or 64 KiB.
    pub list_chunk: i64,
    /// Fields of a packed hash.
    pub hash_packed_entries_max: u64,
    /// Bytes of a field or value of a packed hash.
    pub hash_packed_value_bytes_max: u64,
    /// Members of a set of integers that is an array.
    pub set_integers_max: u64,
    /// Members of a packed set.
    pub set_packed_entries_max: u64,
    /// Bytes of a member of a packed set.
    pub set_packed_value_bytes_max: u64,
    /// Members of a packed sorted set.
    pub zset_packed_entries_max: u64,
    /// Bytes of a member of a packed sorted set.
    pub zset_packed_value_bytes_max: u64,
    /// Number of databases.
    pub databases: u32,
    /// File name of the snapshot, without a directory.
    pub dbfilename: String,
    /// Working directory; the snapshot lives in it.
    pub dir: String,
    /// When to save by itself; empty for never.
    pub save: Vec<SavePoint>,
    /// Whether a failed save makes the server refuse writes.
    pub stop_writes_on_save_error: bool,
    /// Which keyspace events are published.
    pub notify_keyspace_events: NotifyFlags,
    /// Housekeeping rounds per second, 1 to 500.
    pub hz: u32,
    /// Whether `hz` follows the number of clients.
    pub is_hz_dynamic: bool,
    /// How much CPU expiry may take, 1 to 10.
    pub active_expire_effort: u32,
    /// Which clock deadlines follow.
    pub expire_clock: ExpireClock,
    /// Milliseconds of lag from which expiry gets a larger share of the CPU.
    pub expire_lag_ms_max: u32,
    /// Which event a deadline in the past sends.
    pub expire_past_event: PastEvent,
    /// Bytes of old values a snapshot may hold back before it gives up.
    pub snapshot_backlog_bytes_limit: u64,
    /// What to do with a damaged snapshot at start.
    pub snapshot_load: SnapshotLoad,
    /// Whether keys already due are kept when a snapshot is loaded.
    pub load_keeps_expired: bool,
    /// Who may use DEBUG.
    pub debug_command: Permission,
    /// Who may change protected settings.
    pub protected_configs: Permission,
    /// Least severe kind of message that is logged.
    pub loglevel: LogLevel,
    /// Path of the log, empty for standard output.
    pub logfile: String,
    /// Path of the file that gets the process id, empty for none.
    pub pidfile: String,
}

impl Default for Config {
    fn default() -> Self {
        let point = |seconds, changes| SavePoint { seconds, changes };
        let limit = |hard, soft, soft_seconds| OutputLimit {
            hard_bytes: hard * MEBIBYTE,
            soft_bytes: soft * MEBIBYTE,
            soft_seconds,
        };
        Config {
            bind: vec!["127.0.0.1".into(), "-::1".into()],
            port: 6379,
            unixsocket: String::new(),
            unixsocket_permissions: 0,
            tcp_backlog: 511,
            tcp_keepalive_seconds: 300,
            timeout_seconds: 0,
            clients_max: 10_000,
            is_protected: true,
            requirepass: String::new(),
            output_limits: [limit(0, 0, 0), limit(256, 64, 60), limit(32, 8, 60)],
            query_buffer_bytes_limit: 1024 * MEBIBYTE,
            bulk_bytes_max: BULK_BYTES_MAX,
            list_chunk: -2,
            hash_packed_entries_max: 512,
            hash_packed_value_bytes_max: 64,
            set_integers_max: 512,
            set_packed_entries_max: 128,
            set_packed_value_bytes_max: 64,
            zset_packed_entries_max: 128,
            zset_packed_value_bytes_max: 64,
            databases: 16,
            dbfilename: "dump.mayfly".into(),
            dir: ".".into(),
            save: vec![point(3600, 1), point(300, 100), point(60, 10_000)],
            stop_writes_on_save_error: false,
            notify_keyspace_events: NotifyFlags::NONE,
            hz: 10,
            is_hz_dynamic: true,
            active_expire_effort: 1,
            expire_clock: ExpireClock::Monotonic,
            expire_lag_ms_max: 100,
            expire_past_event: PastEvent::Del,
            snapshot_backlog_bytes_limit: 12 * MEBIBYTE,
            snapshot_load: SnapshotLoad::Strict,
            load_keeps_expired: false,
            debug_command: Permission::No,
            protected_configs: Permission::No,
            loglevel: LogLevel::Notice,
            logfile: String::new(),
            pidfile: String::new(),
        }
    }
}
/// What CONFIG SET says of a name that no setting has, before the name.
pub const UNKNOWN_SETTING: &str = "ERR Unknown option or number of arguments for CONFIG SET - '";

/// Why CONFIG SET changed nothing; displayed as the whole error reply, without the dash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetError {
    /// No setting of this name.
    Unknown(String),
    /// The named setting refused.
    Failed(String, String),
}

impl SetError {
    /// For the caller, when putting a new value into effect failed.
    pub fn failed(name: impl Into<String>, why: impl Into<String>) -> Self {
        SetError::Failed(name.into(), why.into())
    }
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::Unknown(name) => {
                write!(f, "{UNKNOWN_SETTING}{name}'")
            }
            SetError::Failed(name, why) => write!(
                f,
                "ERR CONFIG SET failed (possibly related to argument '{name}') - {why}"
            ),
        }
    }
}

impl std::error::Error for SetError {}
impl Config {
    /// The settings that match any of the patterns, each once, as CONFIG GET names and shows them.
    /// `glob` takes a lower-case pattern and a name.
    pub fn get(
        &self,
        patterns: &[&[u8]],
        glob: &dyn Fn(&[u8], &[u8]) -> bool,
    ) -> Vec<(String, String)> {
        let mut found: Vec<(String, String)> = Vec::new();
        for pattern in patterns {
            let lower = pattern.to_ascii_lowercase();
            let is_glob = lower.iter().any(|byte| b"*?[".contains(byte));
            let old_names = OLD_NAMES
                .iter()
                .filter_map(|(old, new)| Some((*old, find(new)?)));
            let names = SETTINGS.iter().map(|setting| (setting.name, setting));
            for (name, setting) in names.chain(old_names) {
                let is_known = |(n, _): &(String, String)| n.eq_ignore_ascii_case(name);
                let name = name.as_bytes();
                let is_match = if is_glob {
                    glob(&lower, name)
                } else {
                    lower == name
                };
                if is_match && !found.iter().any(is_known) {
                    // A plain name comes back as the client spelled it, so that it finds it.
                    let spelled = if is_glob { name } else { pattern };
                    let spelled = String::from_utf8_lossy(spelled).into_owned();
                    found.push((spelled, setting.value(self)));
                }
            }
        }
        found
    }

    /// CONFIG SET: sets all pairs or none, and names the settings whose value changed.
    /// `client_is_local` decides on protected settings (see [`Permission::allows`]).
    pub fn set(
        &mut self,
        pairs: &[(String, String)],
        client_is_local: bool,
    ) -> Result<Vec<&'static str>, SetError> {
        let may_protected = self.protected_configs.allows(client_is_local);
        let mut settings: Vec<&Setting> = Vec::new();
        for (name, _) in pairs {
            let setting = find(name).ok_or_else(|| SetError::Unknown(name.clone()))?;
            if setting.access == Access::Immutable {
                return Err(SetError::failed(name, "can't set immutable config"));
            }
            if setting.access == Access::Protected && !may_protected {
                return Err(SetError::failed(name, "can't set protected config"));
            }
            if settings.iter().any(|earlier| earlier.name == setting.name) {
                return Err(SetError::failed(name, "duplicate parameter"));
            }
            settings.push(setting);
        }
        let mut next = self.clone();
        for (setting, (name, value)) in settings.iter().zip(pairs) {
            // The name is the old one if that was given.
            (setting.set)(&mut next, std::slice::from_ref(value))
                .map_err(|why| SetError::failed(name.to_ascii_lowercase(), why))?;
        }
        settings.retain(|setting| setting.lines(self) != setting.lines(&next));
        *self = next;
        Ok(settings.into_iter().map(|setting| setting.name).collect())
    }
}
