//! The settings: one table of rows, from which everything else follows.
//!
//! A row knows its name, its help, how its value is read and how it is shown. The configuration
//! file, the environment (`MAYFLY_PORT=7000`) and the command line (`--port 7000`) are three ways
//! to write the same lines; a later source wins over an earlier one. CONFIG GET, SET and REWRITE
//! walk the same table, and so do `--help` and `--print-config`.
//!
//! A configuration file of Redis or Valkey starts unchanged. So there are three kinds of settings:
//! those that work ([`SETTINGS`]); those that are accepted, validated and kept although they have
//! no effect here ([`ACCEPTED`], one warning per reason); and values or lines that are refused with
//! the reason, because accepting them would promise what is not there (`appendonly yes`,
//! `rename-command`). Any other name is a mistake, told with the name that is nearest. All mistakes
//! of all sources are told at once. `unknown-settings warn` makes unknown names warnings.
//!
//! Values are bytes: a password need not be UTF-8. Settings that are text say so when they are not.
//!
//! Redis: `dbfilename` may end in `.rdb`. Mayfly's snapshots have a format of their own, so such a
//! name gets the ending `.mayfly`, with a warning; CONFIG GET shows the name in use.
//!
//! Invariants: nothing here does I/O (the caller hands in texts and reads included files);
//! [`Config::set`] changes all or nothing, and accepts every value that [`Config::get`] shows; what
//! [`Config::rewrite`] and [`annotated`] return reads back as the configuration it was made from.
//!
//! Not here: what a change means for the running server (binding a port, changing the directory).
//! The caller does that after `set`, on a copy it can throw away when the step fails.

mod accepted;
pub mod expiry_rules;
mod help;
mod nearest;
mod read;
mod rewrite;
mod source;
mod table;
mod values;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

pub use accepted::{ACCEPTED, Accepted, without_effect};
pub use help::{annotated, help};
pub use source::{
    ConfigError, ConfigErrors, NamedFile, ReadInclude, parse, snapshot_note, split_file_argument,
    split_line,
};
pub use table::{Access, Row, SETTINGS, Setting, find, rows};
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
/// How many names `metrics-hosts` takes.
pub const METRICS_HOSTS_MAX: usize = 64;
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
    pub requirepass: Vec<u8>,
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
    /// Bytes of a chunk of a stream; 0 is as many as there may be.
    pub stream_chunk_bytes_max: u64,
    /// Entries of a chunk of a stream; 0 is no limit.
    pub stream_chunk_entries_max: u64,
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
    /// A sparse HyperLogLog becomes dense when it is longer, in bytes.
    pub hll_sparse_bytes_max: u64,
    /// A script that runs longer, in ms, is one that others are told of; 0 is never.
    pub busy_reply_threshold_ms: u64,
    /// Which keyspace events are published.
    pub notify_keyspace_events: NotifyFlags,
    /// Housekeeping rounds per second, 1 to 500.
    pub hz: u32,
    /// How much CPU expiry may take, 1 to 10.
    pub active_expire_effort: u32,
    /// Which clock deadlines follow.
    pub expire_clock: ExpireClock,
    /// Milliseconds of lag from which expiry gets a larger share of the CPU.
    pub expire_lag_ms_max: u32,
    /// Which event a deadline in the past sends.
    pub expire_past_event: PastEvent,
    /// Memory from which on keys give way; 0 for no limit. A share is one of the memory that this
    /// process may use.
    pub maxmemory: MemorySize,
    /// Memory of all clients together from which on the largest are closed; 0 for no limit. A share
    /// is one of `maxmemory`.
    pub clients_memory: MemorySize,
    /// Which keys do.
    pub maxmemory_policy: EvictionPolicy,
    /// How many are drawn to find one.
    pub maxmemory_samples: u32,
    /// Whether what lives is moved together.
    pub activedefrag: bool,
    /// With fewer bytes in between it is not worth it,
    pub active_defrag_ignore_bytes: u64,
    /// nor with fewer percent of what lives.
    pub active_defrag_threshold_lower: u32,
    /// From so many percent on, moving takes the largest share.
    pub active_defrag_threshold_upper: u32,
    /// The smallest share of the time it takes, in percent.
    pub active_defrag_cycle_min: u32,
    /// The largest.
    pub active_defrag_cycle_max: u32,
    /// For how long one command may evict: 10 is 500 microseconds, 100 is without end.
    pub eviction_tenacity: u32,
    /// How slowly a count of uses grows.
    pub lfu_log_factor: u32,
    /// After how many minutes it falls by one, 0 for never.
    pub lfu_decay_minutes: u32,
    /// The stream that gets an entry for all that expires.
    pub expired_event_stream: Option<ExpiredStream>,
    /// What holds for the deadlines of keys that begin alike.
    pub expiry_rules: expiry_rules::ExpiryRules,
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
    /// TCP port of the page and of metrics, 0 for none.
    pub metrics_port: u16,
    /// Addresses it is on; one with a leading `-` may be missing from the machine.
    pub metrics_bind: Vec<String>,
    /// Names by which it may be asked for, in lower case, besides `localhost` and IP addresses.
    pub metrics_hosts: Vec<String>,
    /// Whether the page shows names of keys.
    pub metrics_show_keys: bool,
    /// Whether a setting of an unknown name stops the start.
    pub refuses_unknown: bool,
    /// Values of settings without effect, where they are not the defaults.
    pub accepted: BTreeMap<&'static str, Vec<u8>>,
}

impl Default for Config {
    #[expect(clippy::too_many_lines, reason = "a line for each setting")]
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
            requirepass: Vec::new(),
            output_limits: [limit(0, 0, 0), limit(256, 64, 60), limit(32, 8, 60)],
            query_buffer_bytes_limit: 1024 * MEBIBYTE,
            bulk_bytes_max: BULK_BYTES_MAX,
            list_chunk: -2,
            hash_packed_entries_max: 512,
            hash_packed_value_bytes_max: 64,
            stream_chunk_bytes_max: 4096,
            stream_chunk_entries_max: 100,
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
            hll_sparse_bytes_max: 3_000,
            busy_reply_threshold_ms: 5_000,
            notify_keyspace_events: NotifyFlags::NONE,
            hz: 10,
            active_expire_effort: 1,
            expire_clock: ExpireClock::Monotonic,
            expire_lag_ms_max: 100,
            expire_past_event: PastEvent::Del,
            maxmemory: MemorySize::ZERO,
            clients_memory: MemorySize::ZERO,
            maxmemory_policy: EvictionPolicy::NoEviction,
            maxmemory_samples: 5,
            activedefrag: true,
            active_defrag_ignore_bytes: 8 * MEBIBYTE,
            active_defrag_threshold_lower: 10,
            active_defrag_threshold_upper: 100,
            active_defrag_cycle_min: 1,
            active_defrag_cycle_max: 10,
            eviction_tenacity: 10,
            lfu_log_factor: 10,
            lfu_decay_minutes: 1,
            expired_event_stream: None,
            expiry_rules: expiry_rules::ExpiryRules::default(),
            snapshot_backlog_bytes_limit: 12 * MEBIBYTE,
            snapshot_load: SnapshotLoad::Strict,
            load_keeps_expired: false,
            debug_command: Permission::No,
            protected_configs: Permission::No,
            loglevel: LogLevel::Notice,
            logfile: String::new(),
            pidfile: String::new(),
            metrics_port: 0,
            metrics_bind: vec!["127.0.0.1".into()],
            metrics_hosts: Vec::new(),
            metrics_show_keys: false,
            refuses_unknown: true,
            accepted: BTreeMap::new(),
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
    ) -> Vec<(String, Vec<u8>)> {
        let mut found: Vec<(String, Vec<u8>)> = Vec::new();
        for pattern in patterns {
            let lower = pattern.to_ascii_lowercase();
            let is_glob = lower.iter().any(|byte| b"*?[".contains(byte));
            let old_names = OLD_NAMES
                .iter()
                .filter_map(|(old, new)| Some((*old, find(new)?)));
            let names = rows().map(|row| (row.name(), row));
            for (name, row) in names.chain(old_names) {
                let is_known = |(n, _): &(String, Vec<u8>)| n.eq_ignore_ascii_case(name);
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
                    found.push((spelled, row.value(self)));
                }
            }
        }
        found
    }

    /// CONFIG SET: sets all pairs or none, and names the settings whose value changed.
    /// `client_is_local` decides on protected settings (see [`Permission::allows`]).
    ///
    /// Redis: refuses an immutable or protected setting even if its value stays as it is, so that
    /// what CONFIG GET gave cannot be given back. Here only a change is refused.
    pub fn set(
        &mut self,
        pairs: &[(String, Vec<u8>)],
        client_is_local: bool,
    ) -> Result<Vec<&'static str>, SetError> {
        let may_protected = self.protected_configs.allows(client_is_local);
        let mut settings: Vec<Row> = Vec::new();
        for (name, value) in pairs {
            let row = find(name).ok_or_else(|| SetError::Unknown(name.clone()))?;
            let locked = match row.access() {
                Access::Immutable => Some("can't set immutable config"),
                Access::Protected if !may_protected => Some("can't set protected config"),
                _ => None,
            };
            if let Some(why) = locked.filter(|_| self.changes(row, value)) {
                return Err(SetError::failed(name, why));
            }
            if settings.iter().any(|earlier| earlier.name() == row.name()) {
                return Err(SetError::failed(name, "duplicate parameter"));
            }
            settings.push(row);
        }
        let mut next = self.clone();
        for (row, (name, value)) in settings.iter().zip(pairs) {
            // The name is the old one if that was given.
            row.set(&mut next, std::slice::from_ref(value))
                .map_err(|why| SetError::failed(name.to_ascii_lowercase(), why))?;
        }
        expiry_rules::check_databases(&next).map_err(|why| SetError::failed("expiry-rule", why))?;
        settings.retain(|row| row.lines(self) != row.lines(&next));
        *self = next;
        Ok(settings.into_iter().map(Row::name).collect())
    }

    fn changes(&self, row: Row, value: &[u8]) -> bool {
        let mut next = self.clone();
        row.set(&mut next, &[value.to_vec()]).is_err() || row.lines(self) != row.lines(&next)
    }
}
