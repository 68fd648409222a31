//! The table: a row for each setting, with its name, help, access, and how it is read and shown.

use super::read::*;
use super::source::quote;
use super::*;

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
    pub(super) set: fn(&mut Config, &[Vec<u8>]) -> Result<(), String>,
}

/// A row of one of the two tables: a setting that works or one that is only accepted.
#[derive(Clone, Copy)]
pub enum Row {
    /// A row of [`SETTINGS`].
    Works(&'static Setting),
    /// A row of [`ACCEPTED`].
    Accepted(&'static Accepted),
}

impl Row {
    /// Name, in lower case with dashes.
    pub fn name(self) -> &'static str {
        match self {
            Row::Works(setting) => setting.name,
            Row::Accepted(accepted) => accepted.name,
        }
    }

    /// Who may change it at run time.
    pub fn access(self) -> Access {
        match self {
            Row::Works(setting) => setting.access,
            Row::Accepted(accepted) => accepted.access,
        }
    }

    /// What may stand as the value, for help and error messages.
    pub fn values(self) -> String {
        match self {
            Row::Works(setting) => setting.values.to_string(),
            Row::Accepted(accepted) => accepted.values(),
        }
    }

    /// The value as CONFIG GET shows it. A password is any bytes, everything else is text.
    pub fn value(self, config: &Config) -> Vec<u8> {
        match self {
            Row::Works(setting) if setting.name == "requirepass" => config.requirepass.clone(),
            Row::Works(setting) => (setting.get)(config).into_bytes(),
            Row::Accepted(accepted) => accepted.value(config),
        }
    }

    /// The default as CONFIG GET shows it.
    pub fn default_value(self) -> Vec<u8> {
        self.value(&Config::default())
    }

    /// Reads a value, given as one word or as several, into `config`.
    pub fn set(self, config: &mut Config, args: &[Vec<u8>]) -> Result<(), String> {
        match self {
            Row::Works(setting) => (setting.set)(config, args),
            Row::Accepted(accepted) => accepted.set(config, args),
        }
    }

    /// Whether the value must not be shown in a message.
    pub fn is_secret(self) -> bool {
        [
            "requirepass",
            "masterauth",
            "tls-key-file-pass",
            "tls-client-key-file-pass",
        ]
        .contains(&self.name())
    }

    /// The environment variable that sets it.
    pub fn env_name(self) -> String {
        let name = self.name().to_ascii_uppercase().replace('-', "_");
        format!("{ENV_PREFIX}{name}")
    }

    /// The lines of a file that give this setting its value in `config`, whatever it was before.
    pub(super) fn lines(self, config: &Config) -> Vec<String> {
        let line = |value: &str| format!("{} {value}", self.name());
        match self.name() {
            "save" if !config.save.is_empty() => config
                .save
                .iter()
                .map(|p| line(&print_save_point(p)))
                .collect(),
            "client-output-buffer-limit" => (0..OUTPUT_CLASSES.len())
                .map(|class| line(&print_output_limit(&config.output_limits, class)))
                .collect(),
            "expired-event-stream" if config.expired_event_stream.is_some() => {
                vec![line(&print_expired_stream(
                    config.expired_event_stream.as_ref(),
                ))]
            }
            "expiry-rule" if !config.expiry_rules.is_empty() => config
                .expiry_rules
                .iter()
                .map(|rule| line(&rule.print()))
                .collect(),
            "bind" if !config.bind.is_empty() => vec![line(&config.bind.join(" "))],
            "metrics-bind" if !config.metrics_bind.is_empty() => {
                vec![line(&config.metrics_bind.join(" "))]
            }
            "metrics-hosts" if !config.metrics_hosts.is_empty() => {
                vec![line(&config.metrics_hosts.join(" "))]
            }
            "notify-keyspace-events" => {
                let letters = config.notify_keyspace_events.print_whole();
                vec![line(&quote(letters.as_bytes()))]
            }
            _ => vec![line(&quote(&self.value(config)))],
        }
    }
}

/// All settings: those that work, then those that are only accepted.
pub fn rows() -> impl Iterator<Item = Row> {
    let works = SETTINGS.iter().map(Row::Works);
    works.chain(ACCEPTED.iter().map(Row::Accepted))
}

/// The settings that work, in the order in which help and CONFIG GET list them.
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
        get: |c| String::from_utf8_lossy(&c.requirepass).into_owned(),
        set: |c, a| bytes(a).map(|v| c.requirepass = v),
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
        name: "hll-sparse-max-bytes",
        values: "BYTES",
        help: "A HyperLogLog takes its dense form when its sparse one would be longer.",
        access: Access::Mutable,
        get: |c| c.hll_sparse_bytes_max.to_string(),
        set: |c, a| memory(a, 0).map(|v| c.hll_sparse_bytes_max = v),
    },
    Setting {
        name: "maxmemory",
        values: "BYTES, or PERCENT% of the machine's or container's memory, 0 for no limit",
        help: "Memory from which on keys give way, or writes are refused.",
        access: Access::Mutable,
        get: |c| c.maxmemory.to_string(),
        set: |c, a| memory_or_percent(a).map(|v| c.maxmemory = v),
    },
    Setting {
        name: "maxmemory-policy",
        values: "noeviction, allkeys- or volatile- with lru, lfu, lrm, random; volatile-ttl",
        help: "Which keys give way when memory is full.",
        access: Access::Mutable,
        get: |c| name_of(c.maxmemory_policy, EVICTION_POLICIES),
        set: |c, a| choice(a, EVICTION_POLICIES).map(|v| c.maxmemory_policy = v),
    },
    Setting {
        name: "maxmemory-samples",
        values: "1 to 64",
        help: "How many keys are drawn to find one that gives way.",
        access: Access::Mutable,
        get: |c| c.maxmemory_samples.to_string(),
        set: |c, a| integer(a, 1, 64).map(|v| c.maxmemory_samples = v),
    },
    Setting {
        name: "activedefrag",
        values: "yes|no",
        help: "Things that live are moved together, so that memory between them can be given back.",
        access: Access::Mutable,
        get: |c| name_of(c.activedefrag, YES_NO),
        set: |c, a| yes_no(a).map(|v| c.activedefrag = v),
    },
    Setting {
        name: "active-defrag-ignore-bytes",
        values: "BYTES",
        help: "Fewer bytes than this in between are left alone.",
        access: Access::Mutable,
        get: |c| c.active_defrag_ignore_bytes.to_string(),
        set: |c, a| memory(a, 1).map(|v| c.active_defrag_ignore_bytes = v),
    },
    Setting {
        name: "active-defrag-threshold-lower",
        values: "0 to 1000 percent of what lives",
        help: "Fewer bytes than this in between are left alone.",
        access: Access::Mutable,
        get: |c| c.active_defrag_threshold_lower.to_string(),
        set: |c, a| integer(a, 0, 1000).map(|v| c.active_defrag_threshold_lower = v),
    },
    Setting {
        name: "active-defrag-threshold-upper",
        values: "0 to 1000 percent of what lives",
        help: "From so many bytes in between on, moving takes the largest share of the time.",
        access: Access::Mutable,
        get: |c| c.active_defrag_threshold_upper.to_string(),
        set: |c, a| integer(a, 0, 1000).map(|v| c.active_defrag_threshold_upper = v),
    },
    Setting {
        name: "active-defrag-cycle-min",
        values: "1 to 99 percent",
        help: "The smallest share of the time that moving takes.",
        access: Access::Mutable,
        get: |c| c.active_defrag_cycle_min.to_string(),
        set: |c, a| integer(a, 1, 99).map(|v| c.active_defrag_cycle_min = v),
    },
    Setting {
        name: "active-defrag-cycle-max",
        values: "1 to 99 percent",
        help: "The largest share of the time that moving takes.",
        access: Access::Mutable,
        get: |c| c.active_defrag_cycle_max.to_string(),
        set: |c, a| integer(a, 1, 99).map(|v| c.active_defrag_cycle_max = v),
    },
    Setting {
        name: "maxmemory-eviction-tenacity",
        values: "0 to 100",
        help: "How long one command may evict: 10 is 0.5 ms, 20 is 2 ms, 100 is without end.",
        access: Access::Mutable,
        get: |c| c.eviction_tenacity.to_string(),
        set: |c, a| integer(a, 0, 100).map(|v| c.eviction_tenacity = v),
    },
    Setting {
        name: "maxmemory-clients",
        values: "BYTES, or PERCENT% of maxmemory, 0 for no limit",
        help: "Memory of all clients together from which on the largest are closed.",
        access: Access::Mutable,
        get: |c| c.clients_memory.to_string(),
        set: |c, a| memory_or_percent(a).map(|v| c.clients_memory = v),
    },
    Setting {
        name: "lfu-log-factor",
        values: "0 to 2147483647",
        help: "How much more slowly a count of uses grows the larger it is.",
        access: Access::Mutable,
        get: |c| c.lfu_log_factor.to_string(),
        set: |c, a| integer(a, 0, INT_MAX).map(|v| c.lfu_log_factor = v),
    },
    Setting {
        name: "lfu-decay-time",
        values: "MINUTES, 0 for never",
        help: "After how many minutes without a use its count falls by one.",
        access: Access::Mutable,
        get: |c| c.lfu_decay_minutes.to_string(),
        set: |c, a| integer(a, 0, INT_MAX).map(|v| c.lfu_decay_minutes = v),
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
        name: "stream-node-max-bytes",
        values: "BYTES",
        help: "How many bytes a chunk of a stream may hold; 0, and at most, 64 KiB.",
        access: Access::Mutable,
        get: |c| c.stream_chunk_bytes_max.to_string(),
        set: |c, a| memory(a, 0).map(|v| c.stream_chunk_bytes_max = v),
    },
    Setting {
        name: "stream-node-max-entries",
        values: "COUNT",
        help: "How many entries a chunk of a stream may hold; 0 is no limit.",
        access: Access::Mutable,
        get: |c| c.stream_chunk_entries_max.to_string(),
        set: |c, a| integer(a, 0, i64::MAX).map(|v| c.stream_chunk_entries_max = v),
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
        name: "snapshot-backlog-limit",
        values: "BYTES, at least 1mb",
        help: "Gives a snapshot up when old values waiting to be written take this much memory.",
        access: Access::Mutable,
        get: |c| c.snapshot_backlog_bytes_limit.to_string(),
        set: |c, a| memory(a, MEBIBYTE).map(|v| c.snapshot_backlog_bytes_limit = v),
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
        name: "expired-event-stream",
        values: "KEY [MAXLEN N] [VALUE BYTES] or \"\"",
        help: "A stream in database 0 that gets an entry for each key and hash field that expires.",
        access: Access::Mutable,
        get: |c| print_expired_stream(c.expired_event_stream.as_ref()),
        set: |c, a| expired_stream(a).map(|v| c.expired_event_stream = v),
    },
    Setting {
        name: "expiry-rule",
        values: "NAME PREFIX TEXT [DB N] [DEFAULT MS] [MIN MS] [MAX MS] [JITTER %] [SLIDING]",
        help: "What holds for the deadlines of keys that begin alike; one line for each rule.",
        access: Access::Mutable,
        get: expiry_rules::print_all,
        set: |c, a| expiry_rules::parse_all(a).map(|v| c.expiry_rules = v),
    },
    Setting {
        name: "busy-reply-threshold",
        values: "milliseconds",
        help: "A script that runs longer can be killed, and others are told of it; 0 is never.",
        access: Access::Mutable,
        get: |c| c.busy_reply_threshold_ms.to_string(),
        set: |c, a| integer(a, 0, i64::MAX).map(|v| c.busy_reply_threshold_ms = v),
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
        name: "metrics-port",
        values: "0 to 65535",
        help: "TCP port of a page about this server and of metrics for Prometheus, 0 for none.",
        access: Access::Mutable,
        get: |c| c.metrics_port.to_string(),
        set: |c, a| integer(a, 0, 65535).map(|v| c.metrics_port = v),
    },
    Setting {
        name: "metrics-bind",
        values: "ADDRESS ...",
        help: "Addresses of that port, as with bind.",
        access: Access::Mutable,
        get: |c| c.metrics_bind.join(" "),
        set: |c, a| addresses(a).map(|v| c.metrics_bind = v),
    },
    Setting {
        name: "metrics-hosts",
        values: "NAME ... or \"\"",
        help: "Names of this machine by which browsers may ask for the page; others are refused.",
        access: Access::Mutable,
        get: |c| c.metrics_hosts.join(" "),
        set: |c, a| host_names(a).map(|v| c.metrics_hosts = v),
    },
    Setting {
        name: "metrics-show-keys",
        values: "yes|no",
        help: "Whether the page names the keys that expire next.",
        access: Access::Mutable,
        get: |c| name_of(c.metrics_show_keys, YES_NO),
        set: |c, a| yes_no(a).map(|v| c.metrics_show_keys = v),
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
        name: "unknown-settings",
        values: "refuse|warn",
        help: "Whether a setting of an unknown name stops the start or is only logged.",
        access: Access::Immutable,
        get: |c| name_of(c.refuses_unknown, UNKNOWN_SETTINGS),
        set: |c, a| choice(a, UNKNOWN_SETTINGS).map(|v| c.refuses_unknown = v),
    },
];

/// Other names of settings: older ones, and those of Valkey.
pub(super) const OLD_NAMES: &[(&str, &str)] = &[
    ("list-max-ziplist-size", "list-max-listpack-size"),
    ("hash-max-ziplist-entries", "hash-max-listpack-entries"),
    ("hash-max-ziplist-value", "hash-max-listpack-value"),
    ("zset-max-ziplist-entries", "zset-max-listpack-entries"),
    ("zset-max-ziplist-value", "zset-max-listpack-value"),
    ("slave-announce-ip", "replica-announce-ip"),
    ("slave-announce-port", "replica-announce-port"),
    ("slave-ignore-maxmemory", "replica-ignore-maxmemory"),
    ("slave-lazy-flush", "replica-lazy-flush"),
    ("slave-priority", "replica-priority"),
    ("slave-read-only", "replica-read-only"),
    ("slave-serve-stale-data", "replica-serve-stale-data"),
    ("slaveof", "replicaof"),
    ("repl-ping-slave-period", "repl-ping-replica-period"),
    ("cluster-slave-no-failover", "cluster-replica-no-failover"),
    (
        "cluster-slave-validity-factor",
        "cluster-replica-validity-factor",
    ),
    ("min-slaves-max-lag", "min-replicas-max-lag"),
    ("min-slaves-to-write", "min-replicas-to-write"),
    ("lua-time-limit", "busy-reply-threshold"),
    ("primaryauth", "masterauth"),
    ("primaryuser", "masteruser"),
    ("aof_rewrite_cpulist", "aof-rewrite-cpulist"),
    ("bgsave_cpulist", "bgsave-cpulist"),
    ("bio_cpulist", "bio-cpulist"),
    ("server_cpulist", "server-cpulist"),
    (
        "commandlog-execution-slower-than",
        "slowlog-log-slower-than",
    ),
    ("commandlog-slow-execution-max-len", "slowlog-max-len"),
];

/// Finds a setting by its name, in any case.
pub fn find(name: &str) -> Option<Row> {
    let mut old_names = OLD_NAMES.iter();
    let renamed = old_names.find(|(old, _)| old.eq_ignore_ascii_case(name));
    let name = renamed.map_or(name, |(_, new)| new);
    rows().find(|row| row.name().eq_ignore_ascii_case(name))
}
