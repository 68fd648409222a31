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

use std::fmt;
use std::io;

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

const REWRITE_MARKER: &str = "# Added by CONFIG REWRITE";
const MEBIBYTE: u64 = 1 << 20;
const INT_MAX: i64 = i32::MAX as i64;

/// Position of ordinary clients in [`Config::output_limits`].
pub const OUTPUT_NORMAL: usize = 0;
/// Position of replicas in [`Config::output_limits`].
pub const OUTPUT_REPLICA: usize = 1;
/// Position of clients with subscriptions in [`Config::output_limits`].
pub const OUTPUT_PUBSUB: usize = 2;
const OUTPUT_CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

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

/// Save once `changes` writes have gathered and `seconds` have passed since the last save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavePoint {
    /// Seconds, at least 1.
    pub seconds: u64,
    /// Changed keys.
    pub changes: u64,
}

/// How much unread output a client may have; 0 switches a limit off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimit {
    /// Close at once from this many bytes.
    pub hard_bytes: u64,
    /// Close when over this many bytes for `soft_seconds` on end.
    pub soft_bytes: u64,
    /// See `soft_bytes`.
    pub soft_seconds: u32,
}

/// Which clock deadlines follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpireClock {
    /// Time since boot: setting the wall clock moves no TTL.
    Monotonic,
    /// The wall clock, steps and all.
    Wall,
}

/// Which event EXPIRE with a deadline in the past sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastEvent {
    /// `del`, as Redis does.
    Del,
    /// `expired`, as Valkey does.
    Expired,
}

/// What to do with a damaged snapshot at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotLoad {
    /// Refuse to start.
    Strict,
    /// Load the chunks that are whole.
    Partial,
}

/// Least severe kind of message that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Much, without the details only developers want.
    Verbose,
    /// What an operator wants to know.
    Notice,
    /// Only what needs attention.
    Warning,
    /// Nothing at all.
    Nothing,
}

/// Who may do something dangerous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Nobody.
    No,
    /// Every client.
    Yes,
    /// Clients on this machine.
    Local,
}

impl Permission {
    /// Whether a client may, given where it sits (unix socket or loopback address).
    pub fn allows(self, client_is_local: bool) -> bool {
        self == Permission::Yes || (self == Permission::Local && client_is_local)
    }
}

const YES_NO: &[(&str, bool)] = &[("yes", true), ("no", false)];
const EXPIRE_CLOCKS: &[(&str, ExpireClock)] = &[
    ("monotonic", ExpireClock::Monotonic),
    ("wall", ExpireClock::Wall),
];
const PAST_EVENTS: &[(&str, PastEvent)] =
    &[("del", PastEvent::Del), ("expired", PastEvent::Expired)];
const SNAPSHOT_LOADS: &[(&str, SnapshotLoad)] = &[
    ("strict", SnapshotLoad::Strict),
    ("partial", SnapshotLoad::Partial),
];
const LOAD_EXPIRED: &[(&str, bool)] = &[("no", false), ("keep", true)];
const PERMISSIONS: &[(&str, Permission)] = &[
    ("no", Permission::No),
    ("yes", Permission::Yes),
    ("local", Permission::Local),
];
const LOG_LEVELS: &[(&str, LogLevel)] = &[
    ("debug", LogLevel::Debug),
    ("verbose", LogLevel::Verbose),
    ("notice", LogLevel::Notice),
    ("warning", LogLevel::Warning),
    ("nothing", LogLevel::Nothing),
];

/// A set of classes of keyspace events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NotifyFlags(pub u32);

/// Letters in the order in which they are printed.
const NOTIFY_LETTERS: [(char, NotifyFlags); 16] = [
    ('g', NotifyFlags::GENERIC),
    ('$', NotifyFlags::STRING),
    ('l', NotifyFlags::LIST),
    ('s', NotifyFlags::SET),
    ('h', NotifyFlags::HASH),
    ('z', NotifyFlags::ZSET),
    ('x', NotifyFlags::EXPIRED),
    ('e', NotifyFlags::EVICTED),
    ('t', NotifyFlags::STREAM),
    ('d', NotifyFlags::MODULE),
    ('n', NotifyFlags::NEW),
    ('o', NotifyFlags::OVERWRITTEN),
    ('c', NotifyFlags::TYPE_CHANGED),
    ('K', NotifyFlags::KEYSPACE),
    ('E', NotifyFlags::KEYEVENT),
    ('m', NotifyFlags::KEY_MISS),
];

impl NotifyFlags {
    /// No events.
    pub const NONE: Self = Self(0);
    /// `K`: publish on `__keyspace@db__:key`.
    pub const KEYSPACE: Self = Self(1);
    /// `E`: publish on `__keyevent@db__:event`.
    pub const KEYEVENT: Self = Self(1 << 1);
    /// `g`: commands of no particular type, such as DEL and EXPIRE.
    pub const GENERIC: Self = Self(1 << 2);
    /// `$`: strings.
    pub const STRING: Self = Self(1 << 3);
    /// `l`: lists.
    pub const LIST: Self = Self(1 << 4);
    /// `s`: sets.
    pub const SET: Self = Self(1 << 5);
    /// `h`: hashes.
    pub const HASH: Self = Self(1 << 6);
    /// `z`: sorted sets.
    pub const ZSET: Self = Self(1 << 7);
    /// `x`: a key expired.
    pub const EXPIRED: Self = Self(1 << 8);
    /// `e`: a key was evicted.
    pub const EVICTED: Self = Self(1 << 9);
    /// `t`: streams.
    pub const STREAM: Self = Self(1 << 10);
    /// `m`: a read found no key; not in `A`.
    pub const KEY_MISS: Self = Self(1 << 11);
    /// `d`: types of modules.
    pub const MODULE: Self = Self(1 << 12);
    /// `n`: a key came into being; not in `A`.
    pub const NEW: Self = Self(1 << 13);
    /// `o`: a key was overwritten; not in `A`.
    pub const OVERWRITTEN: Self = Self(1 << 14);
    /// `c`: a key changed its type; not in `A`.
    pub const TYPE_CHANGED: Self = Self(1 << 15);
    /// `A`: g, $, l, s, h, z, x, e, t and d.
    pub const ALL: Self = Self(0b1_0111_1111_1100);

    /// Whether all classes of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Reads letters, in any order; `None` at one that names no class.
    pub fn parse(letters: &str) -> Option<Self> {
        letters.chars().try_fold(Self::NONE, |flags, letter| {
            let class = match letter {
                'A' => Self::ALL,
                _ => NOTIFY_LETTERS.iter().find(|(known, _)| *known == letter)?.1,
            };
            Some(Self(flags.0 | class.0))
        })
    }

    /// The letters as CONFIG GET shows them in Redis 8.2, which leaves out n, o and c beside `A`.
    pub fn print(self) -> String {
        let hidden = if self.contains(Self::ALL) {
            Self::NEW.0 | Self::OVERWRITTEN.0 | Self::TYPE_CHANGED.0
        } else {
            0
        };
        Self(self.0 & !hidden).print_whole()
    }

    /// All letters, so that [`NotifyFlags::parse`] gives the same set back.
    pub fn print_whole(self) -> String {
        let (start, inside) = if self.contains(Self::ALL) {
            ("A", Self::ALL.0)
        } else {
            ("", 0)
        };
        let rest = Self(self.0 & !inside);
        let letters = NOTIFY_LETTERS
            .iter()
            .filter(|(_, class)| rest.contains(*class));
        start
            .chars()
            .chain(letters.map(|(letter, _)| *letter))
            .collect()
    }
}

/// Who may change a setting while the server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everyone who may use CONFIG SET.
    Mutable,
    /// Those whom `enable-protected-configs` lets.
    Protected,
    /// Nobody: it takes a restart.
    Immutable,
}

/// One row of the table of settings.
pub struct Setting {
    /// Name, in lower case with dashes.
    pub name: &'static str,
    /// What may stand as the value, for help and error messages.
    pub values: &'static str,
    /// What it does, in one sentence.
    pub help: &'static str,
    /// Who may change it at run time.
    pub access: Access,
    get: fn(&Config) -> String,
    set: fn(&mut Config, &[String]) -> Result<(), String>,
}

impl Setting {
    /// The value as CONFIG GET shows it.
    pub fn value(&self, config: &Config) -> String {
        (self.get)(config)
    }

    /// The default as CONFIG GET shows it.
    pub fn default_value(&self) -> String {
        self.value(&Config::default())
    }

    /// The environment variable that sets it.
    pub fn env_name(&self) -> String {
        format!(
            "{ENV_PREFIX}{}",
            self.name.to_ascii_uppercase().replace('-', "_")
        )
    }

    /// The lines of a file that give this setting its value in `config`, whatever it was before.
    fn lines(&self, config: &Config) -> Vec<String> {
        let line = |value: &str| format!("{} {value}", self.name);
        match self.name {
            "save" if !config.save.is_empty() => config
                .save
                .iter()
                .map(|p| line(&print_save_point(p)))
                .collect(),
            "client-output-buffer-limit" => (0..OUTPUT_CLASSES.len())
                .map(|class| line(&print_output_limit(&config.output_limits, class)))
                .collect(),
            "bind" if !config.bind.is_empty() => vec![line(&config.bind.join(" "))],
            "notify-keyspace-events" => {
                vec![line(&quote(&config.notify_keyspace_events.print_whole()))]
            }
            _ => vec![line(&quote(&self.value(config)))],
        }
    }
}

/// All settings, in the order in which help and CONFIG GET list them.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "bind",
        values: "ADDRESS ...",
        help: "Addresses to listen on; with a leading dash it is no error if the machine lacks it.",
        access: Access::Mutable,
        get: |c| c.bind.join(" "),
        set: |c, a| addresses(a).map(|v| c.bind = v),
    },
    Setting {
        name: "port",
        values: "0 to 65535",
        help: "TCP port to listen on, 0 for none.",
        access: Access::Mutable,
        get: |c| c.port.to_string(),
        set: |c, a| integer(a, 0, 65535).map(|v| c.port = v),
    },
    Setting {
        name: "unixsocket",
        values: "PATH",
        help: "Path of a unix socket to listen on as well.",
        access: Access::Immutable,
        get: |c| c.unixsocket.clone(),
        set: |c, a| text(a).map(|v| c.unixsocket = v),
    },
    Setting {
        name: "unixsocketperm",
        values: "0 to 777, octal",
        help: "Mode of the unix socket's file, 0 to leave it to the umask.",
        access: Access::Immutable,
        get: |c| format!("{:o}", c.unixsocket_permissions),
        set: |c, a| octal(a, 0o777).map(|v| c.unixsocket_permissions = v),
    },
    Setting {
        name: "tcp-backlog",
        values: "0 to 2147483647",
        help: "How many connections the system queues before they are accepted.",
        access: Access::Immutable,
        get: |c| c.tcp_backlog.to_string(),
        set: |c, a| integer(a, 0, INT_MAX).map(|v| c.tcp_backlog = v),
    },
    Setting {
        name: "tcp-keepalive",
        values: "SECONDS",
        help: "Seconds of silence until TCP checks whether a client is still there, 0 for never.",
        access: Access::Mutable,
        get: |c| c.tcp_keepalive_seconds.to_string(),
        set: |c, a| integer(a, 0, INT_MAX).map(|v| c.tcp_keepalive_seconds = v),
    },
    Setting {
        name: "timeout",
        values: "SECONDS",
        help: "Seconds after which an idle client is closed, 0 for never.",
        access: Access::Mutable,
        get: |c| c.timeout_seconds.to_string(),
        set: |c, a| integer(a, 0, INT_MAX).map(|v| c.timeout_seconds = v),
    },
    Setting {
        name: "maxclients",
        values: "1 to 4294967295",
        help: "How many clients may be connected at one time.",
        access: Access::Mutable,
        get: |c| c.clients_max.to_string(),
        set: |c, a| integer(a, 1, i64::from(u32::MAX)).map(|v| c.clients_max = v),
    },
    Setting {
        name: "protected-mode",
        values: "yes|no",
        help: "Refuses clients from other machines as long as there is no password.",
        access: Access::Mutable,
        get: |c| name_of(c.is_protected, YES_NO),
        set: |c, a| yes_no(a).map(|v| c.is_protected = v),
    },
    Setting {
        name: "requirepass",
        values: "PASSWORD",
        help: "Password that clients must give first, empty for none.",
        access: Access::Mutable,
        get: |c| c.requirepass.clone(),
        set: |c, a| text(a).map(|v| c.requirepass = v),
    },
    Setting {
        name: "client-output-buffer-limit",
        values: "normal|replica|pubsub HARD SOFT SECONDS ...",
        help: "Closes clients with this much unread output: HARD at once, SOFT after SECONDS.",
        access: Access::Mutable,
        get: |c| {
            [0, 1, 2]
                .map(|class| print_output_limit(&c.output_limits, class))
                .join(" ")
        },
        set: |c, a| set_output_limits(&mut c.output_limits, a),
    },
    Setting {
        name: "client-query-buffer-limit",
        values: "BYTES, at least 1mb",
        help: "Closes clients that send this much faster than it can be executed.",
        access: Access::Mutable,
        get: |c| c.query_buffer_bytes_limit.to_string(),
        set: |c, a| memory(a, MEBIBYTE).map(|v| c.query_buffer_bytes_limit = v),
    },
    Setting {
        name: "proto-max-bulk-len",
        values: "BYTES, 1mb to 512mb",
        help: "The longest argument that a request may have, and the longest string.",
        access: Access::Mutable,
        get: |c| c.bulk_bytes_max.to_string(),
        set: |c, a| memory_up_to(a, MEBIBYTE, BULK_BYTES_MAX).map(|v| c.bulk_bytes_max = v),
    },
    Setting {
        name: "list-max-listpack-size",
        values: "ITEMS, or -1 to -5 for 4kb to 64kb",
        help: "What a chunk of a list may hold.",
        access: Access::Mutable,
        get: |c| c.list_chunk.to_string(),
        set: |c, a| integer(a, -(1 << 31), (1 << 31) - 1).map(|v| c.list_chunk = v),
    },
    Setting {
        name: "hash-max-listpack-entries",
        values: "COUNT",
        help: "How many fields a hash may have and still be packed.",
        access: Access::Mutable,
        get: |c| c.hash_packed_entries_max.to_string(),
        set: |c, a| integer(a, 0, i64::MAX).map(|v| c.hash_packed_entries_max = v),
    },
    Setting {
        name: "hash-max-listpack-value",
        values: "BYTES",
        help: "How long fields and values of a packed hash may be.",
        access: Access::Mutable,
        get: |c| c.hash_packed_value_bytes_max.to_string(),
        set: |c, a| memory(a, 0).map(|v| c.hash_packed_value_bytes_max = v),
    },
    Setting {
        name: "set-max-intset-entries",
        values: "COUNT",
        help: "How many members a set of integers may have and still be an array.",
        access: Access::Mutable,
        get: |c| c.set_integers_max.to_string(),
        set: |c, a| integer(a, 0, i64::MAX).map(|v| c.set_integers_max = v),
    },
    Setting {
        name: "set-max-listpack-entries",
        values: "COUNT",
        help: "How many members a set may have and still be packed.",
        access: Access::Mutable,
        get: |c| c.set_packed_entries_max.to_string(),
        set: |c, a| integer(a, 0, i64::MAX).map(|v| c.set_packed_entries_max = v),
    },
    Setting {
        name: "set-max-listpack-value",
        values: "BYTES",
        help: "How long members of a packed set may be.",
        access: Access::Mutable,
        get: |c| c.set_packed_value_bytes_max.to_string(),
        set: |c, a| integer(a, 0, i64::MAX).map(|v| c.set_packed_value_bytes_max = v),
    },
    Setting {
        name: "zset-max-listpack-entries",
        values: "COUNT",
        help: "How many members a sorted set may have and still be packed.",
        access: Access::Mutable,
        get: |c| c.zset_packed_entries_max.to_string(),
        set: |c, a| integer(a, 0, i64::MAX).map(|v| c.zset_packed_entries_max = v),
    },
    Setting {
        name: "zset-max-listpack-value",
        values: "BYTES",
        help: "How long members of a packed sorted set may be.",
        access: Access::Mutable,
        get: |c| c.zset_packed_value_bytes_max.to_string(),
        set: |c, a| memory(a, 0).map(|v| c.zset_packed_value_bytes_max = v),
    },
    Setting {
        name: "databases",
        values: "1 to 65536",
        help: "How many databases SELECT can choose from.",
        access: Access::Immutable,
        get: |c| c.databases.to_string(),
        set: |c, a| integer(a, 1, DATABASES_MAX).map(|v| c.databases = v),
    },
    Setting {
        name: "dbfilename",
        values: "FILENAME",
        help: "Name of the snapshot file inside the working directory.",
        access: Access::Protected,
        get: |c| c.dbfilename.clone(),
        set: |c, a| file_name(a).map(|v| c.dbfilename = v),
    },
    Setting {
        name: "dir",
        values: "DIRECTORY",
        help: "Working directory, in which the snapshot is kept.",
        access: Access::Protected,
        get: |c| c.dir.clone(),
        set: |c, a| text(a).map(|v| c.dir = v),
    },
    Setting {
        name: "save",
        values: "SECONDS CHANGES ... or \"\"",
        help: "Saves by itself once so many changes have gathered and so many seconds have passed.",
        access: Access::Mutable,
        get: |c| {
            c.save
                .iter()
                .map(print_save_point)
                .collect::<Vec<_>>()
                .join(" ")
        },
        set: |c, a| save_points(a).map(|v| c.save = v),
    },
    Setting {
        name: "stop-writes-on-bgsave-error",
        values: "yes|no",
        help: "Refuses writes after a failed save until one succeeds.",
        access: Access::Mutable,
        get: |c| name_of(c.stop_writes_on_save_error, YES_NO),
        set: |c, a| yes_no(a).map(|v| c.stop_writes_on_save_error = v),
    },
    Setting {
        name: "notify-keyspace-events",
        values: "letters of AKEg$lshzxetdmnoc",
        help: "Kinds of changes to keys that are published to subscribers.",
        access: Access::Mutable,
        get: |c| c.notify_keyspace_events.print(),
        set: |c, a| match NotifyFlags::parse(one(a)?) {
            Some(v) => {
                c.notify_keyspace_events = v;
                Ok(())
            }
            None => Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_string()),
        },
    },
    Setting {
        name: "hz",
        values: "1 to 500",
        help: "Housekeeping rounds per second; expiry does not depend on it.",
        access: Access::Mutable,
        get: |c| c.hz.to_string(),
        set: |c, a| {
            integer::<u32>(a, 0, INT_MAX)
                .map(|v| c.hz = v.clamp(*HZ_RANGE.start(), *HZ_RANGE.end()))
        },
    },
    Setting {
        name: "dynamic-hz",
        values: "yes|no",
        help: "Does housekeeping more often when there are many clients.",
        access: Access::Mutable,
        get: |c| name_of(c.is_hz_dynamic, YES_NO),
        set: |c, a| yes_no(a).map(|v| c.is_hz_dynamic = v),
    },
    Setting {
        name: "active-expire-effort",
        values: "1 to 10",
        help: "How large a share of the CPU removing due keys may take.",
        access: Access::Mutable,
        get: |c| c.active_expire_effort.to_string(),
        set: |c, a| integer(a, 1, 10).map(|v| c.active_expire_effort = v),
    },
    Setting {
        name: "expire-clock",
        values: "monotonic|wall",
        help: "Whether deadlines follow elapsed time or the wall clock when that is set.",
        access: Access::Immutable,
        get: |c| name_of(c.expire_clock, EXPIRE_CLOCKS),
        set: |c, a| choice(a, EXPIRE_CLOCKS).map(|v| c.expire_clock = v),
    },
    Setting {
        name: "expire-max-lag-ms",
        values: "1 to 60000",
        help: "Milliseconds by which keys may outlive their deadline before expiry gets more CPU.",
        access: Access::Mutable,
        get: |c| c.expire_lag_ms_max.to_string(),
        set: |c, a| integer(a, 1, 60000).map(|v| c.expire_lag_ms_max = v),
    },
    Setting {
        name: "expire-past-event",
        values: "del|expired",
        help: "Event sent when a key is given a deadline that has already passed.",
        access: Access::Mutable,
        get: |c| name_of(c.expire_past_event, PAST_EVENTS),
        set: |c, a| choice(a, PAST_EVENTS).map(|v| c.expire_past_event = v),
    },
    Setting {
        name: "snapshot-backlog-limit",
        values: "BYTES, at least 1mb",
        help: "Gives a snapshot up when old values waiting to be written take this much memory.",
        access: Access::Mutable,
        get: |c| c.snapshot_backlog_bytes_limit.to_string(),
        set: |c, a| memory(a, MEBIBYTE).map(|v| c.snapshot_backlog_bytes_limit = v),
    },
    Setting {
        name: "snapshot-load",
        values: "strict|partial",
        help: "Whether a damaged snapshot stops the start or its whole parts are loaded.",
        access: Access::Mutable,
        get: |c| name_of(c.snapshot_load, SNAPSHOT_LOADS),
        set: |c, a| choice(a, SNAPSHOT_LOADS).map(|v| c.snapshot_load = v),
    },
    Setting {
        name: "load-expired",
        values: "no|keep",
        help: "Whether keys that are already due are loaded from a snapshot.",
        access: Access::Mutable,
        get: |c| name_of(c.load_keeps_expired, LOAD_EXPIRED),
        set: |c, a| choice(a, LOAD_EXPIRED).map(|v| c.load_keeps_expired = v),
    },
    Setting {
        name: "enable-debug-command",
        values: "no|yes|local",
        help: "Who may use DEBUG: nobody, everybody or clients on this machine.",
        access: Access::Immutable,
        get: |c| name_of(c.debug_command, PERMISSIONS),
        set: |c, a| choice(a, PERMISSIONS).map(|v| c.debug_command = v),
    },
    Setting {
        name: "enable-protected-configs",
        values: "no|yes|local",
        help: "Who may change dir and dbfilename at run time, as with enable-debug-command.",
        access: Access::Immutable,
        get: |c| name_of(c.protected_configs, PERMISSIONS),
        set: |c, a| choice(a, PERMISSIONS).map(|v| c.protected_configs = v),
    },
    Setting {
        name: "loglevel",
        values: "debug|verbose|notice|warning|nothing",
        help: "Least severe kind of message that is logged.",
        access: Access::Mutable,
        get: |c| name_of(c.loglevel, LOG_LEVELS),
        set: |c, a| choice(a, LOG_LEVELS).map(|v| c.loglevel = v),
    },
    Setting {
        name: "logfile",
        values: "PATH",
        help: "File to log to, empty for standard output.",
        access: Access::Immutable,
        get: |c| c.logfile.clone(),
        set: |c, a| text(a).map(|v| c.logfile = v),
    },
    Setting {
        name: "pidfile",
        values: "PATH",
        help: "File that gets the process id, empty for none.",
        access: Access::Immutable,
        get: |c| c.pidfile.clone(),
        set: |c, a| text(a).map(|v| c.pidfile = v),
    },
    Setting {
        name: "maxmemory",
        values: "0",
        help: "Memory limit; there is none yet.",
        access: Access::Mutable,
        get: |_| "0".to_string(),
        set: |_, a| {
            only(
                memory(a, 0)? == 0,
                "a memory limit is not supported yet, the only value is 0",
            )
        },
    },
    Setting {
        name: "maxmemory-policy",
        values: "noeviction",
        help: "What gives way when memory is full; nothing yet.",
        access: Access::Mutable,
        get: |_| "noeviction".to_string(),
        set: |_, a| {
            only(
                one(a)?.eq_ignore_ascii_case("noeviction"),
                "eviction is not supported yet, the only value is noeviction",
            )
        },
    },
    Setting {
        name: "appendonly",
        values: "no",
        help: "Append-only file; there is none.",
        access: Access::Mutable,
        get: |_| "no".to_string(),
        set: |_, a| {
            only(
                !yes_no(a)?,
                "an append-only file is not supported yet, the only value is no",
            )
        },
    },
    Setting {
        name: "io-threads",
        values: "1",
        help: "Threads that serve clients; always one.",
        access: Access::Immutable,
        get: |_| "1".to_string(),
        set: |_, a| {
            only(
                integer::<i64>(a, 1, 128)? == 1,
                "more threads are not supported, the only value is 1",
            )
        },
    },
];

/// Names that settings had before Redis 7, which files, CONFIG GET and CONFIG SET still know.
const OLD_NAMES: &[(&str, &str)] = &[
    ("list-max-ziplist-size", "list-max-listpack-size"),
    ("hash-max-ziplist-entries", "hash-max-listpack-entries"),
    ("hash-max-ziplist-value", "hash-max-listpack-value"),
    ("zset-max-ziplist-entries", "zset-max-listpack-entries"),
    ("zset-max-ziplist-value", "zset-max-listpack-value"),
];

/// Finds a setting by its name, in any case.
pub fn find(name: &str) -> Option<&'static Setting> {
    let mut old_names = OLD_NAMES.iter();
    let renamed = old_names.find(|(old, _)| old.eq_ignore_ascii_case(name));
    let name = renamed.map_or(name, |(_, new)| new);
    SETTINGS
        .iter()
        .find(|setting| setting.name.eq_ignore_ascii_case(name))
}

/// The list of all settings for `--help`.
pub fn help() -> String {
    let entry = |s: &Setting| {
        let (name, values, default) = (s.name, s.values, quote(&s.default_value()));
        format!("  --{name} {values}\n      {} Default: {default}\n", s.help)
    };
    SETTINGS.iter().map(entry).collect()
}

/// Why a configuration could not be read: where and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// `file:line`, an environment variable or an argument.
    pub place: String,
    /// What was wrong there and what was expected.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for ConfigError {}

/// The most that `proto-max-bulk-len` can be, and its default: what a snapshot can hold.
pub const BULK_BYTES_MAX: u64 = 512 * MEBIBYTE;

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

/// Reads the three sources, later ones winning, and returns the configuration and warnings.
///
/// `args` are the words after the program's name; a leading file argument is skipped, its content
/// is `file`, named for messages. `read_include` reads the files of `include` lines.
pub fn parse(
    file: Option<(&str, &str)>,
    env: impl Iterator<Item = (String, String)>,
    args: &[String],
    read_include: &mut dyn FnMut(&str) -> io::Result<String>,
) -> Result<(Config, Vec<String>), ConfigError> {
    let mut loader = Loader::new(read_include);
    if let Some((name, text)) = file {
        loader.file(name, text, 0)?;
    }
    let warnings = loader.environment(env)?;
    loader.arguments(split_file_argument(args).1)?;
    Ok((loader.config, warnings))
}

/// Parts the words of the command line into the configuration file's path, if there is one
/// (`-` is standard input), and the settings.
pub fn split_file_argument(args: &[String]) -> (Option<&str>, &[String]) {
    match args.split_first() {
        Some((first, rest)) if first == "-" || !first.starts_with('-') => (Some(first), rest),
        _ => (None, args),
    }
}

/// Splits a line into words as redis.conf and inline requests are: separated by white space,
/// `"..."` with escapes (`\n \r \t \a \b \xHH`), `'...'` where only `\'` is one.
///
/// `None` if a quote is left open or followed by anything but white space.
pub fn split_line(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let is_space = |byte: u8| byte.is_ascii_whitespace() || byte == 0x0b;
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        at += line[at..]
            .iter()
            .take_while(|byte| is_space(**byte))
            .count();
        if at == line.len() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let Some(&byte) = line.get(at).filter(|byte| !is_space(**byte)) {
            at += 1;
            if byte == b'"' || byte == b'\'' {
                at += unquote(&line[at..], byte, &mut word)?;
                if line.get(at).is_some_and(|next| !is_space(*next)) {
                    return None;
                }
            } else {
                word.push(byte);
            }
        }
        words.push(word);
    }
}

/// Appends the text up to the closing quote to `word` and returns the length read.
fn unquote(text: &[u8], quote: u8, word: &mut Vec<u8>) -> Option<usize> {
    let hex = |at: usize| {
        text.get(at)
            .and_then(|digit| char::from(*digit).to_digit(16))
    };
    let mut at = 0;
    loop {
        let byte = *text.get(at)?;
        at += 1;
        if byte == quote {
            return Some(at);
        }
        let escaped = text.get(at).copied().filter(|_| byte == b'\\');
        match (quote, escaped) {
            (b'"', Some(letter)) => {
                at += 1;
                word.push(match (letter, hex(at), hex(at + 1)) {
                    (b'x', Some(high), Some(low)) => {
                        at += 2;
                        (high * 16 + low) as u8
                    }
                    (b'n', ..) => b'\n',
                    (b'r', ..) => b'\r',
                    (b't', ..) => b'\t',
                    (b'a', ..) => 0x07,
                    (b'b', ..) => 0x08,
                    _ => letter,
                });
            }
            (b'\'', Some(b'\'')) => {
                at += 1;
                word.push(b'\'');
            }
            _ => word.push(byte),
        }
    }
}

/// A value as it must stand in a file: bare where that is safe, else in double quotes.
fn quote(value: &str) -> String {
    let is_bare = |c: char| !c.is_whitespace() && !c.is_control() && !"\"'\\#".contains(c);
    if !value.is_empty() && value.chars().all(is_bare) {
        return value.to_string();
    }
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A line of a file as words; none for a comment or an empty line.
fn line_words(line: &str) -> Result<Vec<String>, String> {
    if line.trim_start().starts_with('#') {
        return Ok(Vec::new());
    }
    let words = split_line(line.as_bytes())
        .ok_or("unbalanced quotes: expected the closing one, then a space or the line's end")?;
    let text = |word| String::from_utf8(word).map_err(|_| "expected UTF-8".to_string());
    words.into_iter().map(text).collect()
}

/// The setting that a line of a file gives, even if the line is broken.
fn setting_of(line: &str) -> Option<&'static Setting> {
    match line_words(line) {
        Ok(words) => find(words.first()?),
        Err(_) => find(line.split_whitespace().next()?),
    }
}

/// Applies the sources one after another to the defaults.
struct Loader<'a> {
    config: Config,
    read_include: &'a mut dyn FnMut(&str) -> io::Result<String>,
    /// Save points of one source add up, those of a later source replace them.
    save_seen: bool,
    includes: usize,
    /// Goes on after a bad line: CONFIG REWRITE must cope with a file edited since the start.
    is_lenient: bool,
}

impl<'a> Loader<'a> {
    fn new(read_include: &'a mut dyn FnMut(&str) -> io::Result<String>) -> Self {
        let config = Config::default();
        Loader {
            config,
            read_include,
            save_seen: false,
            includes: 0,
            is_lenient: false,
        }
    }

    fn file(&mut self, name: &str, text: &str, depth: usize) -> Result<(), ConfigError> {
        for (index, line) in text.lines().enumerate() {
            let place = format!("{name}:{}", index + 1);
            let result = match line_words(line) {
                Ok(words) => self.words(place, &words, depth),
                Err(message) => Err(ConfigError { place, message }),
            };
            if !self.is_lenient {
                result?;
            }
        }
        Ok(())
    }

    fn environment(
        &mut self,
        env: impl Iterator<Item = (String, String)>,
    ) -> Result<Vec<String>, ConfigError> {
        self.save_seen = false;
        let mut warnings = Vec::new();
        for (key, value) in env.filter(|(key, _)| key.starts_with(ENV_PREFIX)) {
            match SETTINGS.iter().find(|setting| setting.env_name() == key) {
                Some(setting) => self.apply(key, setting, &[value])?,
                None => warnings.push(format!("{key}: names no setting and is ignored")),
            }
        }
        Ok(warnings)
    }

    /// Redis: adds save points of the command line to those of the file; here they replace them.
    fn arguments(&mut self, args: &[String]) -> Result<(), ConfigError> {
        self.save_seen = false;
        let mut rest = args;
        while let Some((first, after)) = rest.split_first() {
            let error = |message: &str| ConfigError {
                place: format!("argument '{first}'"),
                message: message.to_string(),
            };
            let Some(line) = first.strip_prefix("--").filter(|line| !line.is_empty()) else {
                return Err(error("expected --name and its value"));
            };
            let values = after
                .iter()
                .take_while(|word| !word.starts_with("--"))
                .count();
            // `"--port 7000"` in one word is a whole line; elsewhere the shell did the quoting.
            let mut words = if line.contains(char::is_whitespace) {
                line_words(line).map_err(|message| error(&message))?
            } else {
                vec![line.to_string()]
            };
            words.extend_from_slice(&after[..values]);
            self.words("command line".to_string(), &words, 0)?;
            rest = &after[values..];
        }
        Ok(())
    }

    fn words(&mut self, place: String, words: &[String], depth: usize) -> Result<(), ConfigError> {
        let Some((name, values)) = words.split_first() else {
            return Ok(());
        };
        if name.eq_ignore_ascii_case("include") {
            return self.include(place, values, depth);
        }
        match find(name) {
            Some(setting) => self.apply(format!("{place}: {}", setting.name), setting, values),
            None => Err(ConfigError {
                place,
                message: format!("unknown setting '{name}', expected one listed by --help"),
            }),
        }
    }

    fn include(
        &mut self,
        place: String,
        values: &[String],
        depth: usize,
    ) -> Result<(), ConfigError> {
        let place = format!("{place}: include");
        let error = |message: String| Err(ConfigError { place, message });
        let [path] = values else {
            return error(format!("expected one path, got {}", values.len()));
        };
        self.includes += 1;
        if depth == INCLUDE_DEPTH_MAX || self.includes > INCLUDES_MAX {
            return error(format!(
                "expected at most {INCLUDE_DEPTH_MAX} levels and {INCLUDES_MAX} files in all"
            ));
        }
        match (self.read_include)(path) {
            Ok(text) => self.file(path, &text, depth + 1),
            Err(why) => error(format!("can't read '{path}': {why}")),
        }
    }

    fn apply(
        &mut self,
        place: String,
        setting: &Setting,
        values: &[String],
    ) -> Result<(), ConfigError> {
        let is_save = setting.name == "save";
        let before = (is_save && self.save_seen).then(|| self.config.save.clone());
        let result = (setting.set)(&mut self.config, values);
        self.save_seen |= is_save && result.is_ok();
        // An empty value takes back the points before it, any other adds to them.
        if let (Ok(()), Some(mut points)) = (&result, before)
            && !self.config.save.is_empty()
        {
            points.append(&mut self.config.save);
            self.config.save = points;
        }
        result.map_err(|why| {
            // A password must not end up in the log.
            let got = match setting.name {
                "requirepass" => String::new(),
                _ => format!(", got '{}'", values.join(" ")),
            };
            ConfigError {
                place,
                message: format!("{why}{got} (expected {})", setting.values),
            }
        })
    }
}

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

    /// CONFIG REWRITE: the text of the file changed so that reading it gives this configuration.
    ///
    /// Comments, unknown lines, order and lines that still hold stay as they are. A setting whose
    /// lines no longer hold gets new ones in the place of its first; what then is still missing
    /// (because it stood in no line, or an included file says otherwise) is added at the end.
    pub fn rewrite(
        &self,
        old_text: &str,
        read_include: &mut dyn FnMut(&str) -> io::Result<String>,
    ) -> String {
        let mut text = self.replace_stale_lines(old_text);
        let mut loader = Loader::new(read_include);
        loader.is_lenient = true;
        // A lenient loader skips what is wrong, so there is no error to see.
        let _ = loader.file("", &text, 0);
        let mut added = Vec::new();
        for setting in SETTINGS {
            let lines = setting.lines(self);
            if lines != setting.lines(&loader.config) {
                // Without this the points would add up with those further above.
                if setting.name == "save" && loader.save_seen && !self.save.is_empty() {
                    added.push("save \"\"".to_string());
                }
                added.extend(lines);
            }
        }
        if !added.is_empty() && !text.lines().any(|line| line == REWRITE_MARKER) {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            added.insert(0, REWRITE_MARKER.to_string());
        }
        for line in added {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    fn replace_stale_lines(&self, old_text: &str) -> String {
        let lines: Vec<(&str, Option<&Setting>)> = old_text
            .split_inclusive('\n')
            .map(|line| (line, setting_of(line)))
            .collect();
        let is_stale = |setting: &Setting| {
            let mut no_include = |_: &str| Err(io::Error::other("not read here"));
            let mut loader = Loader::new(&mut no_include);
            let own = lines
                .iter()
                .filter(|(_, s)| s.is_some_and(|s| s.name == setting.name));
            let is_bad = own
                .map(|(line, _)| loader.file("", line, 0))
                .any(|r| r.is_err());
            is_bad || setting.lines(&loader.config) != setting.lines(self)
        };
        let mut text = String::with_capacity(old_text.len());
        let mut replaced: Vec<&str> = Vec::new();
        for (line, setting) in &lines {
            match setting {
                Some(s) if replaced.contains(&s.name) => continue,
                Some(s) if is_stale(s) => {
                    replaced.push(s.name);
                    text.push_str(&s.lines(self).join("\n"));
                }
                _ => text.push_str(line),
            }
            if !text.ends_with('\n') {
                text.push('\n');
            }
        }
        text
    }
}

fn one(args: &[String]) -> Result<&str, String> {
    match args {
        [value] => Ok(value),
        _ => Err("wrong number of arguments".to_string()),
    }
}

fn text(args: &[String]) -> Result<String, String> {
    one(args).map(str::to_string)
}

/// The words of a value that may be given as one argument (CONFIG SET, the environment, quoted)
/// or as several (a file's line). Split at single spaces, as Redis does; `""` is no word.
fn many(args: &[String]) -> Vec<&str> {
    match args {
        [value] if value.is_empty() => Vec::new(),
        [value] => value.split(' ').collect(),
        _ => args.iter().map(String::as_str).collect(),
    }
}

fn integer<T: TryFrom<i64>>(args: &[String], min: i64, max: i64) -> Result<T, String> {
    let value = one(args)?;
    // Only the shortest spelling is an integer: no plus sign, no leading zero.
    let number: i64 = (value.parse().ok())
        .filter(|number: &i64| number.to_string() == value)
        .ok_or("argument couldn't be parsed into an integer")?;
    (T::try_from(number).ok())
        .filter(|_| (min..=max).contains(&number))
        .ok_or_else(|| match max {
            i64::MAX => format!("argument must be greater or equal to {min}"),
            _ => format!("argument must be between {min} and {max} inclusive"),
        })
}

/// A size such as `64mb`, in bytes: k, m, g are powers of 1000, kb, mb, gb powers of 1024.
/// A number too large for anything saturates, so that the range check names the range.
fn memory_bytes(value: &str) -> Option<u128> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = value.split_at_checked(digits).filter(|_| digits > 0)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1000 * 1000,
        "mb" => 1 << 20,
        "g" => 1000 * 1000 * 1000,
        "gb" => 1 << 30,
        _ => return None,
    };
    Some(number.parse().unwrap_or(u128::MAX).saturating_mul(factor))
}

fn memory(args: &[String], min: u64) -> Result<u64, String> {
    memory_up_to(args, min, i64::MAX as u64)
}

fn memory_up_to(args: &[String], min: u64, max: u64) -> Result<u64, String> {
    let bytes = memory_bytes(one(args)?).ok_or("argument must be a memory value")?;
    (u64::try_from(bytes).ok())
        .filter(|bytes| (min..=max).contains(bytes))
        .ok_or_else(|| format!("argument must be between {min} and {max} inclusive"))
}

fn lookup<T: Copy>(args: &[String], table: &[(&str, T)]) -> Result<Option<T>, String> {
    let value = one(args)?;
    let row = table
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(value));
    Ok(row.map(|(_, choice)| *choice))
}

fn choice<T: Copy>(args: &[String], table: &[(&str, T)]) -> Result<T, String> {
    lookup(args, table)?.ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        format!(
            "argument(s) must be one of the following: {}",
            names.join(", ")
        )
    })
}

fn yes_no(args: &[String]) -> Result<bool, String> {
    lookup(args, YES_NO)?.ok_or_else(|| "argument must be 'yes' or 'no'".to_string())
}

fn name_of<T: PartialEq>(value: T, table: &[(&'static str, T)]) -> String {
    let row = table.iter().find(|(_, choice)| *choice == value);
    row.expect("each table names every variant").0.to_string()
}

/// For facts other tools ask for: the one value there is is fine, any other is refused.
fn only(is_fact: bool, message: &str) -> Result<(), String> {
    if is_fact {
        Ok(())
    } else {
        Err(message.to_string())
    }
}

fn addresses(args: &[String]) -> Result<Vec<String>, String> {
    let words = many(args);
    if words.len() > BIND_ADDRESSES_MAX {
        return Err("Too many bind addresses specified.".to_string());
    }
    if words
        .iter()
        .any(|word| word.trim_start_matches('-').is_empty())
    {
        return Err("Failed to bind to specified addresses.".to_string());
    }
    Ok(words.into_iter().map(str::to_string).collect())
}

fn octal(args: &[String], max: u32) -> Result<u32, String> {
    let value = u32::from_str_radix(one(args)?, 8)
        .map_err(|_| "argument couldn't be parsed as an octal number".to_string())?;
    if value > max {
        return Err(format!("argument must be between 0 and {max:o} inclusive"));
    }
    Ok(value)
}

fn file_name(args: &[String]) -> Result<String, String> {
    match one(args)? {
        "" => Err("dbfilename can't be empty".to_string()),
        "." | ".." => Err("dbfilename can't be a path, just a filename".to_string()),
        name if name.contains(['/', '\\']) => {
            Err("dbfilename can't be a path, just a filename".to_string())
        }
        name => Ok(name.to_string()),
    }
}

fn save_points(args: &[String]) -> Result<Vec<SavePoint>, String> {
    let words = many(args);
    let point = |pair: &[&str]| {
        let [seconds, changes] = pair else {
            return None;
        };
        let (seconds, changes): (i64, i64) = (seconds.parse().ok()?, changes.parse().ok()?);
        let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)?;
        Some(SavePoint {
            seconds,
            changes: u64::try_from(changes).ok()?,
        })
    };
    let points: Option<_> = words.chunks(2).map(point).collect();
    points.ok_or_else(|| "Invalid save parameters".to_string())
}

fn print_save_point(point: &SavePoint) -> String {
    format!("{} {}", point.seconds, point.changes)
}

/// Classes that are not named keep the limits they had.
fn set_output_limits(limits: &mut [OutputLimit; 3], args: &[String]) -> Result<(), String> {
    let words = many(args);
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_string());
    }
    for group in words.chunks_exact(4) {
        let class = match group[0].to_ascii_lowercase().as_str() {
            "normal" => OUTPUT_NORMAL,
            "slave" | "replica" => OUTPUT_REPLICA,
            "pubsub" => OUTPUT_PUBSUB,
            _ => {
                return Err("Invalid client class specified in buffer limit configuration.".into());
            }
        };
        let bytes = |word| memory_bytes(word).and_then(|bytes| i64::try_from(bytes).ok());
        let (hard, soft, seconds) = (bytes(group[1]), bytes(group[2]), group[3].parse::<i32>());
        let (Some(hard), Some(soft), Ok(seconds @ 0..)) = (hard, soft, seconds) else {
            let what = "Error in hard, soft or soft_seconds setting";
            return Err(format!("{what} in buffer limit configuration."));
        };
        limits[class] = OutputLimit {
            hard_bytes: hard.unsigned_abs(),
            soft_bytes: soft.unsigned_abs(),
            soft_seconds: seconds.unsigned_abs(),
        };
    }
    Ok(())
}

fn print_output_limit(limits: &[OutputLimit; 3], class: usize) -> String {
    let OutputLimit {
        hard_bytes,
        soft_bytes,
        soft_seconds,
    } = limits[class];
    format!(
        "{} {hard_bytes} {soft_bytes} {soft_seconds}",
        OUTPUT_CLASSES[class]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// File, environment, arguments, and what should come of them.
    type Case = (
        &'static str,
        &'static [(&'static str, &'static str)],
        &'static [&'static str],
        &'static str,
    );

    fn no_files(path: &str) -> io::Result<String> {
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("no {path}"),
        ))
    }

    fn words(text: &[&str]) -> Vec<String> {
        text.iter().map(|word| word.to_string()).collect()
    }

    fn load(file: &str, env: &[(&str, &str)], args: &[&str]) -> Result<Config, String> {
        let env = env.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        parse(Some(("m.conf", file)), env, &words(args), &mut no_files)
            .map(|(config, _)| config)
            .map_err(|error| error.to_string())
    }

    fn shown(config: &Config, name: &str) -> String {
        find(name).expect("a known name").value(config)
    }

    fn set(config: &mut Config, pairs: &[(&str, &str)]) -> Result<Vec<&'static str>, String> {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect();
        config.set(&pairs, false).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_shown_as_documented_and_read_back() {
        let expected = [
            ("bind", "127.0.0.1 -::1"),
            ("port", "6379"),
            ("unixsocketperm", "0"),
            ("client-query-buffer-limit", "1073741824"),
            ("proto-max-bulk-len", "536870912"),
            ("save", "3600 1 300 100 60 10000"),
            ("snapshot-backlog-limit", "12582912"),
            ("stop-writes-on-bgsave-error", "no"),
            ("notify-keyspace-events", ""),
            ("maxmemory", "0"),
            ("maxmemory-policy", "noeviction"),
            ("appendonly", "no"),
            ("io-threads", "1"),
            (
                "client-output-buffer-limit",
                "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
            ),
        ];
        for (name, value) in expected {
            assert_eq!(shown(&Config::default(), name), value, "{name}");
        }
        for setting in SETTINGS {
            let mut config = Config::default();
            (setting.set)(&mut config, &[setting.default_value()]).expect(setting.name);
            assert_eq!(config, Config::default(), "{}", setting.name);
            assert_eq!(
                SETTINGS.iter().filter(|s| s.name == setting.name).count(),
                1
            );
            assert!(help().contains(setting.help) && setting.help.ends_with('.'));
        }
    }

    #[test]
    fn values_are_accepted_and_shown_as_redis_does() {
        let table = [
            ("hz", "0", "1"),
            ("hz", "501", "500"),
            ("protected-mode", "NO", "no"),
            ("client-query-buffer-limit", "1MB", "1048576"),
            ("client-query-buffer-limit", "1500000b", "1500000"),
            ("proto-max-bulk-len", "2m", "2000000"),
            ("loglevel", "DEBUG", "debug"),
            ("save", "+5 07", "5 7"),
            ("save", "60 10 60 10", "60 10 60 10"),
            ("save", "1 0", "1 0"),
            ("save", "", ""),
            ("bind", "* -::*", "* -::*"),
            ("bind", "", ""),
            ("notify-keyspace-events", "KEA", "AKE"),
            ("notify-keyspace-events", "KEAmnoc", "AKEm"),
            ("notify-keyspace-events", "cKonEm", "nocKEm"),
            ("notify-keyspace-events", "Elgx$", "g$lxE"),
            ("notify-keyspace-events", "tdxe", "xetd"),
            ("notify-keyspace-events", "g$lshzxetd", "A"),
            ("notify-keyspace-events", "g$lshzxetE", "g$lshzxetE"),
            ("appendonly", "NO", "no"),
            ("maxmemory", "0mb", "0"),
            (
                "client-output-buffer-limit",
                "REPLICA 1kb 2k +3 pubsub 1gb 1g 5",
                "normal 0 0 0 slave 1024 2000 3 pubsub 1073741824 1000000000 5",
            ),
        ];
        for (name, value, expected) in table {
            let mut config = Config::default();
            set(&mut config, &[(name, value)]).expect(name);
            assert_eq!(shown(&config, name), expected, "{name} {value}");
        }
    }

    #[test]
    fn config_set_refuses_in_the_words_of_redis() {
        let not_integer = "argument couldn't be parsed into an integer";
        let not_memory = "argument must be a memory value";
        let is_immutable = "can't set immutable config";
        let is_protected = "can't set protected config";
        let event_class = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
        let one_mb = "argument must be between 1048576 and 9223372036854775807 inclusive";
        let limits = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        let levels = "argument(s) must be one of the following: \
                      debug, verbose, notice, warning, nothing";
        let limit_count = "Wrong number of arguments in buffer limit configuration.";
        let table = [
            ("port", "x", not_integer),
            (
                "port",
                "70000",
                "argument must be between 0 and 65535 inclusive",
            ),
            ("timeout", "010", not_integer),
            ("timeout", "+1", not_integer),
            ("timeout", "-0", not_integer),
            ("timeout", "", not_integer),
            (
                "timeout",
                "-1",
                "argument must be between 0 and 2147483647 inclusive",
            ),
            (
                "hz",
                "-1",
                "argument must be between 0 and 2147483647 inclusive",
            ),
            (
                "maxclients",
                "0",
                "argument must be between 1 and 4294967295 inclusive",
            ),
            (
                "active-expire-effort",
                "11",
                "argument must be between 1 and 10 inclusive",
            ),
            ("dynamic-hz", "maybe", "argument must be 'yes' or 'no'"),
            ("client-query-buffer-limit", "1.5mb", not_memory),
            ("client-query-buffer-limit", "-1", not_memory),
            ("client-query-buffer-limit", "1", one_mb),
            (
                "proto-max-bulk-len",
                "99999999999999999999999999999999999999999gb",
                "argument must be between 1048576 and 536870912 inclusive",
            ),
            ("save", "3600", "Invalid save parameters"),
            ("save", "0 1", "Invalid save parameters"),
            ("save", "1 -1", "Invalid save parameters"),
            ("save", " 60 10", "Invalid save parameters"),
            ("notify-keyspace-events", "Kq", event_class),
            ("client-output-buffer-limit", "normal 1 2", limit_count),
            ("client-output-buffer-limit", "normal 1% 2 3", limits),
            ("client-output-buffer-limit", "normal 1 2 -3", limits),
            (
                "client-output-buffer-limit",
                "normal 1 2 3 master 1 2 3",
                "Invalid client class specified in buffer limit configuration.",
            ),
            ("loglevel", "foo", levels),
            ("databases", "3", is_immutable),
            ("enable-debug-command", "yes", is_immutable),
            ("expire-clock", "wall", is_immutable),
            ("dbfilename", "a", is_protected),
            ("dir", "/tmp", is_protected),
            (
                "bind",
                &["::1"; 17].join(" "),
                "Too many bind addresses specified.",
            ),
            ("bind", "  ::1", "Failed to bind to specified addresses."),
        ];
        for (name, value, why) in table {
            let mut config = Config::default();
            let error = set(&mut config, &[("tcp-keepalive", "7"), (name, value)]);
            let head = format!("ERR CONFIG SET failed (possibly related to argument '{name}')");
            assert_eq!(error, Err(format!("{head} - {why}")), "{name} {value}");
            assert_eq!(config, Config::default(), "{name}: all or nothing");
        }
    }

    #[test]
    fn config_set_checks_names_before_values() {
        let mut config = Config::default();
        let unknown = "ERR Unknown option or number of arguments for CONFIG SET - 'Foo'";
        assert_eq!(
            set(&mut config, &[("port", "x"), ("Foo", "1")]),
            Err(unknown.into())
        );
        let twice = set(&mut config, &[("timeout", "1"), ("TIMEOUT", "2")]).unwrap_err();
        assert!(
            twice.ends_with("argument 'TIMEOUT') - duplicate parameter"),
            "{twice}"
        );
        for fixed in [
            ("appendonly", "yes"),
            ("maxmemory", "1gb"),
            ("maxmemory-policy", "x"),
        ] {
            assert!(
                set(&mut config, &[fixed])
                    .unwrap_err()
                    .contains("not supported yet")
            );
        }
        assert!(
            load("enable-protected-configs local", &[], &[]).is_ok_and(|mut config| {
                let pair = [("dbfilename".to_string(), "a/b".to_string())];
                let remote = config.set(&pair, false).unwrap_err().to_string();
                let local = config.set(&pair, true).unwrap_err().to_string();
                remote.ends_with("can't set protected config")
                    && local.ends_with("dbfilename can't be a path, just a filename")
            })
        );
        let changed = set(&mut config, &[("hz", "10"), ("Port", "7"), ("save", "1 1")]);
        assert_eq!(changed, Ok(vec!["port", "save"]));
        let hidden = [("notify-keyspace-events", "An")];
        assert_eq!(
            set(&mut config, &[("notify-keyspace-events", "A")]).map(|c| c.len()),
            Ok(1)
        );
        assert_eq!(
            set(&mut config, &hidden).map(|changed| changed.len()),
            Ok(1)
        );
    }

    #[test]
    fn later_sources_win_and_save_points_add_up_within_one() {
        let file = "# c\n\n \t TIMEOUT\t1\r\nport 1\nhz 1\nsave 1 2\nsave 3 4 5 6\n";
        let env = [("MAYFLY_PORT", "2"), ("MAYFLY_HZ", "2"), ("HOME", "x")];
        let config = load(file, &env, &["x.conf", "--hz", "3"]).expect("it is well formed");
        assert_eq!((config.timeout_seconds, config.port, config.hz), (1, 2, 3));
        assert_eq!(shown(&config, "save"), "1 2 3 4 5 6");
        let table: [Case; 8] = [
            ("save 1 2\nsave \"\"\nsave 3 4", &[], &[], "3 4"),
            ("save \"\"", &[], &[], ""),
            ("save \"1 2\"", &[], &[], "1 2"),
            ("save 1 2", &[("MAYFLY_SAVE", "5 6")], &[], "5 6"),
            ("save 1 2", &[("MAYFLY_SAVE", "")], &[], ""),
            (
                "save 1 2",
                &[],
                &["--save", "5", "6", "--save", "7 8"],
                "5 6 7 8",
            ),
            ("save 1 2", &[], &["--save", "--port", "7000"], ""),
            ("save 1 2", &[], &["--save", ""], ""),
        ];
        for (file, env, args, expected) in table {
            assert_eq!(
                shown(&load(file, env, args).expect("it is well formed"), "save"),
                expected,
                "{file} {args:?}"
            );
        }
        let args = [
            "--bind",
            "127.0.0.1",
            "-::1",
            "--requirepass",
            "a b",
            "--port 7000",
        ];
        let config = load("", &[], &args).expect("it is well formed");
        assert_eq!(
            (config.bind.len(), config.port, &*config.requirepass),
            (2, 7000, "a b")
        );
        let config =
            load("client-output-buffer-limit normal 1 2 3\n", &[], &[]).expect("it is well formed");
        assert!(
            shown(&config, "client-output-buffer-limit").starts_with("normal 1 2 3 slave 2684")
        );
        assert_eq!(
            load("unixsocketperm 0777", &[], &[])
                .expect("it is well formed")
                .unixsocket_permissions,
            0o777
        );
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let table: [Case; 15] = [
            (
                "\nport 70000",
                &[],
                &[],
                "m.conf:2: port: argument must be between 0 and 65535 \
              inclusive, got '70000' (expected 0 to 65535)",
            ),
            (
                "foo 1",
                &[],
                &[],
                "m.conf:1: unknown setting 'foo', expected one listed by --help",
            ),
            (
                "daemonize no",
                &[],
                &[],
                "m.conf:1: unknown setting 'daemonize'",
            ),
            ("dir \"x", &[], &[], "m.conf:1: unbalanced quotes"),
            (
                "timeout 5 # five",
                &[],
                &[],
                "m.conf:1: timeout: wrong number of arguments, got",
            ),
            (
                "timeout",
                &[],
                &[],
                "m.conf:1: timeout: wrong number of arguments, got ''",
            ),
            (
                "requirepass se cret",
                &[],
                &[],
                "m.conf:1: requirepass: wrong number of arguments (ex",
            ),
            (
                "unixsocketperm 789",
                &[],
                &[],
                "m.conf:1: unixsocketperm: argument couldn't be parsed as",
            ),
            (
                "unixsocketperm 1000",
                &[],
                &[],
                "m.conf:1: unixsocketperm: argument must be between 0 and 777",
            ),
            (
                "include x",
                &[],
                &[],
                "m.conf:1: include: can't read 'x': no x",
            ),
            (
                "dbfilename ..",
                &[],
                &[],
                "m.conf:1: dbfilename: dbfilename can't be a path",
            ),
            (
                "appendonly yes",
                &[],
                &[],
                "m.conf:1: appendonly: an append-only file is not supported",
            ),
            (
                "",
                &[("MAYFLY_PORT", "x")],
                &[],
                "MAYFLY_PORT: argument couldn't be parsed into an",
            ),
            (
                "",
                &[],
                &["--foo", "1"],
                "command line: unknown setting 'foo'",
            ),
            (
                "",
                &[],
                &["-p", "1"],
                "argument '-p': expected --name and its value",
            ),
        ];
        for (file, env, args, expected) in table {
            let error = load(file, env, args).unwrap_err();
            assert!(error.starts_with(expected), "{error}\n{expected}");
        }
        let env = [("MAYFLY_FOO".to_string(), "1".to_string())].into_iter();
        let (_, warnings) = parse(None, env, &[], &mut no_files).expect("it is well formed");
        assert_eq!(warnings, ["MAYFLY_FOO: names no setting and is ignored"]);
    }

    #[test]
    fn included_files_are_read_in_place_and_only_so_deep() {
        let mut files = |path: &str| match path {
            "a" => Ok("timeout 9\nport 2\n".to_string()),
            "bad" => Ok("\nhz x".to_string()),
            "loop" => Ok("include loop\n".to_string()),
            _ => no_files(path),
        };
        let mut read = |text| parse(Some(("m", text)), [].into_iter(), &[], &mut files);
        let (config, _) = read("timeout 1\ninclude a\nport 3").expect("it is well formed");
        assert_eq!((config.timeout_seconds, config.port), (9, 3));
        assert!(
            read("include bad")
                .unwrap_err()
                .to_string()
                .starts_with("bad:2: hz: ")
        );
        let error = read("include loop").unwrap_err();
        assert_eq!(
            error.to_string(),
            "loop:1: include: expected at most 16 levels and 256 files in all"
        );
    }

    #[test]
    fn lines_are_split_as_redis_splits_them() {
        let table: [(&str, Option<&[&str]>); 11] = [
            ("", Some(&[])),
            (" a\t b\r\n", Some(&["a", "b"])),
            (r#"a "b c" 'd e'"#, Some(&["a", "b c", "d e"])),
            (r#""" ''"#, Some(&["", ""])),
            (r#""a\x41\n\"\q\xZ""#, Some(&["aA\n\"qxZ"])),
            (r"'a\'b\n'", Some(&["a'b\\n"])),
            (r#"a"b c""#, Some(&["ab c"])),
            (r#"a"b"c"#, None),
            (r#"a "b"#, None),
            (r#""b\"#, None),
            ("'a\\'", None),
        ];
        for (line, expected) in table {
            let expected = expected.map(|e| e.iter().map(|w| w.as_bytes().to_vec()).collect());
            assert_eq!(split_line(line.as_bytes()), expected, "{line}");
        }
        for value in ["a", "", "a b", "\"\\'\n\r\t\u{7}é#", "é"] {
            let back = split_line(quote(value).as_bytes()).expect("it is well formed");
            assert_eq!(back, [value.as_bytes()]);
        }
        let args = words(&["-", "--port", "1"]);
        assert_eq!(split_file_argument(&args), (Some("-"), &args[1..]));
        assert_eq!(split_file_argument(&args[1..]), (None, &args[1..]));
    }

    #[test]
    fn config_get_takes_names_and_patterns_in_any_case() {
        let prefix = |pattern: &[u8], name: &[u8]| name.starts_with(&pattern[..pattern.len() - 1]);
        let config = Config::default();
        let get = |patterns: &[&[u8]]| -> Vec<String> {
            config
                .get(patterns, &prefix)
                .into_iter()
                .map(|(name, _)| name)
                .collect()
        };
        assert_eq!(
            get(&[b"TIMEOUT", b"timeout", b"nope", b"\xff"]),
            ["TIMEOUT"]
        );
        assert_eq!(
            get(&[b"TC*", b"tcp-backlog", b"Hz"]),
            ["tcp-backlog", "tcp-keepalive", "Hz"]
        );
        assert_eq!(get(&[b"*"]).len(), SETTINGS.len() + OLD_NAMES.len());
    }

    #[test]
    fn rewrite_changes_only_what_no_longer_holds() {
        let old = "# head\nport 1\n\ntimeout 5\nsave 1 2\n# mid\nsave 3 4\nhz  10\n\
                   client-query-buffer-limit 10mb\nfrobnicate 1\ntimeout 6";
        let mut config =
            load(&old.replace("frobnicate 1", ""), &[], &[]).expect("it is well formed");
        assert_eq!(config.rewrite(old, &mut no_files), format!("{old}\n"));
        let pairs = [
            ("save", "8 8 9 9"),
            ("timeout", "7"),
            ("notify-keyspace-events", "AKn"),
        ];
        set(&mut config, &pairs).expect("it is well formed");
        set(&mut config, &[("requirepass", "x y\"\n")]).expect("it is well formed");
        let new = config.rewrite(old, &mut no_files);
        let expected = "# head\nport 1\n\ntimeout 7\nsave 8 8\nsave 9 9\n# mid\nhz  10\n\
                        client-query-buffer-limit 10mb\nfrobnicate 1\n\n# Added by CONFIG REWRITE\n\
                        requirepass \"x y\\\"\\n\"\nnotify-keyspace-events AnK\n";
        assert_eq!(new, expected);
        assert_eq!(config.rewrite(&new, &mut no_files), new);
        assert_eq!(load(&new.replace("frobnicate 1", ""), &[], &[]), Ok(config));
    }

    #[test]
    fn rewrite_holds_against_included_files_and_broken_lines() {
        let mut files = |_: &str| Ok("timeout 9\nhz 20\nsave 9 9\nbind ::1\n".to_string());
        let old = "timeout 1\ninclude a\nsave 1 1\ndir \"x\nport x\n";
        let mut config = Config::default();
        for save in ["", "7 7 8 8"] {
            set(
                &mut config,
                &[("save", save), ("timeout", "3"), ("bind", "")],
            )
            .expect("it is well formed");
            let new = config.rewrite(old, &mut files);
            let read = parse(Some(("m", &new)), [].into_iter(), &[], &mut files);
            assert_eq!(read.map(|(read, _)| read), Ok(config.clone()), "{new}");
            assert_eq!(config.rewrite(&new, &mut files), new);
        }
        let everything = Config {
            bind: vec!["*".into()],
            unixsocket: "/run/my sock".into(),
            unixsocket_permissions: 0o770,
            output_limits: [OutputLimit {
                hard_bytes: 3,
                soft_bytes: 2,
                soft_seconds: 1,
            }; 3],
            save: vec![],
            expire_clock: ExpireClock::Wall,
            load_keeps_expired: true,
            debug_command: Permission::Local,
            ..Config::default()
        };
        let new = everything.rewrite("", &mut no_files);
        assert!(new.starts_with(REWRITE_MARKER));
        assert_eq!(load(&new, &[], &[]), Ok(everything));
    }
}
