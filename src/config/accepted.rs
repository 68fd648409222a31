//! Settings of Redis and Valkey that are accepted although they have no effect here.
//!
//! A configuration file written for Redis or Valkey must start unchanged, so every directive of
//! their files is known. What has no meaning in Mayfly is validated as there and kept, so that
//! CONFIG GET, SET and REWRITE treat it like any other setting; one warning per reason names those
//! that were given. Where accepting would promise something that is not there, the only value is
//! the default ([`Shape::Fixed`]), or the line is refused altogether ([`refusal`]).
//!
//! Redis: the defaults are those of 8.2, so that CONFIG GET answers alike; those that only
//! Valkey 9 or Redis 7.0 knows have the defaults of that server.

use Access::*;
use Shape::*;

use super::read::*;
use super::source::quote;
use super::*;

/// What the values of a setting without effect may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    YesNo,
    /// Smallest and largest.
    Integer(i64, i64),
    /// Bytes, at least so many; -1 may stand for no limit where the least is below 0.
    Memory(i64),
    Choice(&'static [&'static str]),
    /// One word of any bytes.
    Text,
    /// Any number of words.
    Words,
    /// The default only: any other value would promise what is not there.
    Fixed,
}

/// A setting that is validated, kept and shown, and does nothing.
pub struct Accepted {
    /// Name, in lower case with dashes.
    pub name: &'static str,
    /// Who may change it at run time, as in Redis.
    pub access: Access,
    /// Why it has no effect: what follows the colon of a warning.
    pub reason: &'static str,
    shape: Shape,
    default: &'static str,
}

impl Accepted {
    /// The value in `config`, as CONFIG GET shows it.
    pub fn value(&self, config: &Config) -> Vec<u8> {
        let given = config.accepted.get(self.name);
        given.map_or_else(|| self.default.into(), Vec::clone)
    }

    /// What may stand as the value, for error messages.
    pub fn values(&self) -> String {
        match self.shape {
            YesNo => "yes|no".to_string(),
            Integer(min, i64::MAX) => format!("{min} or more"),
            Integer(min, max) => format!("{min} to {max}"),
            Memory(_) => "BYTES".to_string(),
            Choice(names) => names.join("|"),
            Text => "TEXT".to_string(),
            Words => "WORD ...".to_string(),
            Fixed => quote(self.default.as_bytes()),
        }
    }

    /// Validates and keeps a value.
    pub fn set(&self, config: &mut Config, args: &[Vec<u8>]) -> Result<(), String> {
        let value = self.read(args)?;
        if value == self.default.as_bytes() {
            config.accepted.remove(self.name);
        } else {
            config.accepted.insert(self.name, value);
        }
        Ok(())
    }

    fn read(&self, args: &[Vec<u8>]) -> Result<Vec<u8>, String> {
        let value = match self.shape {
            YesNo => name_of(yes_no(args)?, YES_NO),
            Integer(min, max) => integer::<i64>(args, min, max)?.to_string(),
            Memory(min) if min < 0 && one(args)? == "-1" => "-1".to_string(),
            Memory(min) => memory(args, min.max(0).unsigned_abs())?.to_string(),
            Choice(names) => {
                let rows: Vec<(&str, &str)> = names.iter().map(|name| (*name, *name)).collect();
                choice(args, &rows)?.to_string()
            }
            Text => return bytes(args),
            Words => many(args)?.join(" "),
            Fixed => {
                let given = many(args)?.join(" ");
                let is_default = given.eq_ignore_ascii_case(self.default)
                    || (self.name == "replicaof" && given.eq_ignore_ascii_case("no one"));
                let (reason, default) = (self.reason, quote(self.default.as_bytes()));
                only(
                    is_default,
                    &format!("{reason}, the only value is {default}"),
                )?;
                self.default.to_string()
            }
        };
        Ok(value.into_bytes())
    }
}

/// Why a directive that is no setting is refused. It has a meaning in Redis, and starting without
/// it would run a server that is not the one asked for.
///
/// A line that says what is the case anyway does no harm: CONFIG REWRITE of Redis adds one for the
/// user `default`.
pub(super) fn refusal(name: &str, values: &[Vec<u8>]) -> Option<Result<(), &'static str>> {
    let refused = match name.to_ascii_lowercase().as_str() {
        "user" if is_unlimited_default(values) => return Some(Ok(())),
        "user" => "there are no users but 'default' yet; its password is the setting requirepass",
        "loadmodule" => "modules cannot be loaded",
        "rename-command" => "commands cannot be renamed",
        _ => return None,
    };
    Some(Err(refused))
}

fn is_unlimited_default(values: &[Vec<u8>]) -> bool {
    let known = [
        "on",
        "nopass",
        "sanitize-payload",
        "skip-sanitize-payload",
        "~*",
        "&*",
        "+@all",
    ];
    let has = |rule: &str| values.iter().any(|value| value == rule.as_bytes());
    let is_known = |value: &Vec<u8>| known.iter().any(|rule| value == rule.as_bytes());
    values
        .split_first()
        .is_some_and(|(user, rules)| user == b"default" && rules.iter().all(is_known))
        && ["on", "nopass", "~*", "+@all"].into_iter().all(has)
}

/// A warning for each reason for which settings have no effect, naming those of `given`.
pub fn without_effect(given: &[&'static str]) -> Vec<String> {
    let rows = || ACCEPTED.iter().filter(|row| given.contains(&row.name));
    let mut reasons: Vec<&str> = Vec::new();
    for row in rows().filter(|row| row.shape != Fixed) {
        if !reasons.contains(&row.reason) {
            reasons.push(row.reason);
        }
    }
    let warning = |reason: &str| {
        let names = rows()
            .filter(|row| row.reason == reason)
            .map(|row| row.name);
        let names: Vec<&str> = names.collect();
        let verb = if names.len() == 1 { "has" } else { "have" };
        format!("{} {verb} no effect: {reason}", names.join(", "))
    };
    reasons.into_iter().map(warning).collect()
}

const ACCESS_RULES: &str = "there are no access rules yet";
const ALLOCATOR: &str = "Mayfly sets up the allocator itself";
const APPEND_ONLY: &str = "there is no append-only file";
const BATCHES: &str = "the look-ahead over requests has a fixed length";
const CLUSTER: &str = "there is no cluster mode";
const COLLATION: &str = "texts are compared byte by byte";
const COMPATIBILITY: &str = "Mayfly follows Redis where Valkey differs";
const FOREGROUND: &str = "Mayfly stays in the foreground";
const FREEING: &str = "big values are always freed piece by piece";
const HASHING: &str = "hashes are seeded at random at each start";
const HOUSEKEEPING: &str = "housekeeping looks after all clients each time, `hz` times a second";
const IMPORT: &str = "expiry cannot be suspended for an import";
const LISTS: &str = "lists are not compressed";
const LOGGING: &str = "the log goes to a file or the standard output, in one form";
const MOVING: &str = "big values are always moved piece by piece, for half a millisecond at a time";
const MODULES: &str = "there are no modules";
const NO_VECTORS: &str = "there are no vector sets";
const ONE_THREAD: &str = "Mayfly serves all clients on one thread";
const PROCESS: &str = "Mayfly leaves its title, memory policy and processors to the system";
const REPLICATION: &str = "there is no replication";
const SIGNALS: &str = "SIGINT and SIGTERM save if there are save points";
const SLOW_LOG: &str = "there is no log of slow or large commands and no latency monitor yet";
const SNAPSHOTS: &str =
    "snapshots have a format of their own, with checksums, and no forked writer";
const SOCKETS: &str = "sockets are set up as the system does it";
const SUPERVISION: &str = "Mayfly does not report to a service manager";
const TABLES: &str = "tables always grow piece by piece";
const TLS: &str = "there is no TLS";
const TRACKING: &str = "there is no client-side caching yet";
const TRANSPORT: &str = "Mayfly listens on TCP and unix sockets only";

const UINT_MAX: i64 = u32::MAX as i64;

const fn row(
    name: &'static str,
    access: Access,
    shape: Shape,
    default: &'static str,
    reason: &'static str,
) -> Accepted {
    Accepted {
        name,
        access,
        reason,
        shape,
        default,
    }
}

/// All settings without effect, by name.
pub const ACCEPTED: &[Accepted] = &[
    row(
        "acl-pubsub-default",
        Mutable,
        Choice(&["allchannels", "resetchannels"]),
        "resetchannels",
        ACCESS_RULES,
    ),
    row("aclfile", Immutable, Fixed, "", ACCESS_RULES),
    row(
        "acllog-max-len",
        Mutable,
        Integer(0, i64::MAX),
        "128",
        ACCESS_RULES,
    ),
    row(
        "active-defrag-cycle-us",
        Mutable,
        Integer(0, 100000),
        "500",
        MOVING,
    ),
    row(
        "active-defrag-max-scan-fields",
        Mutable,
        Integer(1, i64::MAX),
        "1000",
        MOVING,
    ),
    row("activerehashing", Mutable, YesNo, "yes", TABLES),
    row("always-show-logo", Immutable, YesNo, "no", LOGGING),
    row("aof-disable-auto-gc", Mutable, YesNo, "no", APPEND_ONLY),
    row("aof-load-truncated", Mutable, YesNo, "yes", APPEND_ONLY),
    row("aof-rewrite-cpulist", Immutable, Text, "", PROCESS),
    row(
        "aof-rewrite-incremental-fsync",
        Mutable,
        YesNo,
        "yes",
        APPEND_ONLY,
    ),
    row("aof-timestamp-enabled", Mutable, YesNo, "no", APPEND_ONLY),
    row("aof-use-rdb-preamble", Mutable, YesNo, "yes", APPEND_ONLY),
    row(
        "appenddirname",
        Immutable,
        Text,
        "appendonlydir",
        APPEND_ONLY,
    ),
    row(
        "appendfilename",
        Immutable,
        Text,
        "appendonly.aof",
        APPEND_ONLY,
    ),
    row(
        "appendfsync",
        Mutable,
        Choice(&["everysec", "always", "no"]),
        "everysec",
        APPEND_ONLY,
    ),
    row(
        "auto-aof-rewrite-min-size",
        Mutable,
        Memory(0),
        "67108864",
        APPEND_ONLY,
    ),
    row(
        "auto-aof-rewrite-percentage",
        Mutable,
        Integer(0, INT_MAX),
        "100",
        APPEND_ONLY,
    ),
    row("availability-zone", Mutable, Text, "", CLUSTER),
    row("bgsave-cpulist", Immutable, Text, "", PROCESS),
    row("bind-source-addr", Mutable, Text, "", REPLICATION),
    row("bio-cpulist", Immutable, Text, "", PROCESS),
    row(
        "cluster-allow-pubsubshard-when-down",
        Mutable,
        YesNo,
        "yes",
        CLUSTER,
    ),
    row(
        "cluster-allow-reads-when-down",
        Mutable,
        YesNo,
        "no",
        CLUSTER,
    ),
    row(
        "cluster-allow-replica-migration",
        Mutable,
        YesNo,
        "yes",
        CLUSTER,
    ),
    row(
        "cluster-announce-bus-port",
        Mutable,
        Integer(0, 65535),
        "0",
        CLUSTER,
    ),
    row("cluster-announce-client-ipv4", Mutable, Text, "", CLUSTER),
    row("cluster-announce-client-ipv6", Mutable, Text, "", CLUSTER),
    row(
        "cluster-announce-client-port",
        Mutable,
        Integer(0, 65535),
        "0",
        CLUSTER,
    ),
    row(
        "cluster-announce-client-tls-port",
        Mutable,
        Integer(0, 65535),
        "0",
        CLUSTER,
    ),
    row("cluster-announce-hostname", Mutable, Text, "", CLUSTER),
    row(
        "cluster-announce-human-nodename",
        Mutable,
        Text,
        "",
        CLUSTER,
    ),
    row("cluster-announce-ip", Mutable, Text, "", CLUSTER),
    row(
        "cluster-announce-port",
        Mutable,
        Integer(0, 65535),
        "0",
        CLUSTER,
    ),
    row(
        "cluster-announce-tls-port",
        Mutable,
        Integer(0, 65535),
        "0",
        CLUSTER,
    ),
    row(
        "cluster-blacklist-ttl",
        Mutable,
        Integer(0, UINT_MAX),
        "60",
        CLUSTER,
    ),
    row(
        "cluster-compatibility-sample-ratio",
        Mutable,
        Integer(0, 100),
        "0",
        CLUSTER,
    ),
    row(
        "cluster-config-file",
        Immutable,
        Text,
        "nodes.conf",
        CLUSTER,
    ),
    row(
        "cluster-config-save-behavior",
        Mutable,
        Choice(&["sync", "best-effort"]),
        "sync",
        CLUSTER,
    ),
    row(
        "cluster-databases",
        Immutable,
        Integer(1, INT_MAX),
        "1",
        CLUSTER,
    ),
    row("cluster-enabled", Immutable, Fixed, "no", CLUSTER),
    row(
        "cluster-link-sendbuf-limit",
        Mutable,
        Memory(0),
        "0",
        CLUSTER,
    ),
    row(
        "cluster-manual-failover-timeout",
        Mutable,
        Integer(1, INT_MAX),
        "5000",
        CLUSTER,
    ),
    row(
        "cluster-migration-barrier",
        Mutable,
        Integer(0, INT_MAX),
        "1",
        CLUSTER,
    ),
    row(
        "cluster-node-timeout",
        Mutable,
        Integer(0, i64::MAX),
        "15000",
        CLUSTER,
    ),
    row("cluster-port", Immutable, Integer(0, 65535), "0", CLUSTER),
    row(
        "cluster-preferred-endpoint-type",
        Mutable,
        Choice(&["ip", "hostname", "unknown-endpoint"]),
        "ip",
        CLUSTER,
    ),
    row("cluster-replica-no-failover", Mutable, YesNo, "no", CLUSTER),
    row(
        "cluster-replica-validity-factor",
        Mutable,
        Integer(0, INT_MAX),
        "10",
        CLUSTER,
    ),
    row(
        "cluster-require-full-coverage",
        Mutable,
        YesNo,
        "yes",
        CLUSTER,
    ),
    row(
        "cluster-slot-migration-log-max-len",
        Mutable,
        Integer(0, i64::MAX),
        "1000",
        CLUSTER,
    ),
    row("cluster-slot-stats-enabled", Mutable, YesNo, "no", CLUSTER),
    row(
        "commandlog-large-reply-max-len",
        Mutable,
        Integer(0, i64::MAX),
        "128",
        SLOW_LOG,
    ),
    row(
        "commandlog-large-request-max-len",
        Mutable,
        Integer(0, i64::MAX),
        "128",
        SLOW_LOG,
    ),
    row(
        "commandlog-reply-larger-than",
        Mutable,
        Integer(-1, i64::MAX),
        "1048576",
        SLOW_LOG,
    ),
    row(
        "commandlog-request-larger-than",
        Mutable,
        Integer(-1, i64::MAX),
        "1048576",
        SLOW_LOG,
    ),
    row("crash-log-enabled", Mutable, YesNo, "yes", LOGGING),
    row("crash-memcheck-enabled", Mutable, YesNo, "yes", LOGGING),
    row("daemonize", Immutable, YesNo, "no", FOREGROUND),
    row("disable-thp", Immutable, YesNo, "yes", PROCESS),
    row("dynamic-hz", Mutable, YesNo, "yes", HOUSEKEEPING),
    row(
        "dual-channel-replication-enabled",
        Mutable,
        YesNo,
        "no",
        REPLICATION,
    ),
    row(
        "enable-module-command",
        Immutable,
        Choice(&["no", "yes", "local"]),
        "no",
        MODULES,
    ),
    row(
        "extended-redis-compatibility",
        Mutable,
        YesNo,
        "no",
        COMPATIBILITY,
    ),
    row("hash-seed", Immutable, Text, "", HASHING),
    row("hide-user-data-from-log", Mutable, YesNo, "no", LOGGING),
    row("ignore-warnings", Mutable, Text, "", LOGGING),
    row("import-mode", Mutable, Fixed, "no", IMPORT),
    row("io-threads", Immutable, Integer(1, 256), "1", ONE_THREAD),
    row("io-threads-do-reads", Immutable, YesNo, "no", ONE_THREAD),
    row("jemalloc-bg-thread", Mutable, YesNo, "yes", ALLOCATOR),
    row(
        "latency-monitor-threshold",
        Mutable,
        Integer(0, i64::MAX),
        "0",
        SLOW_LOG,
    ),
    row("latency-tracking", Mutable, YesNo, "yes", SLOW_LOG),
    row(
        "latency-tracking-info-percentiles",
        Mutable,
        Words,
        "50 99 99.9",
        SLOW_LOG,
    ),
    row("lazyfree-lazy-eviction", Mutable, YesNo, "no", FREEING),
    row("lazyfree-lazy-expire", Mutable, YesNo, "no", FREEING),
    row("lazyfree-lazy-server-del", Mutable, YesNo, "no", FREEING),
    row("lazyfree-lazy-user-del", Mutable, YesNo, "no", FREEING),
    row("lazyfree-lazy-user-flush", Mutable, YesNo, "no", FREEING),
    row(
        "list-compress-depth",
        Mutable,
        Integer(0, INT_MAX),
        "0",
        LISTS,
    ),
    row("locale-collate", Mutable, Text, "", COLLATION),
    row(
        "log-format",
        Mutable,
        Choice(&["legacy", "logfmt", "json"]),
        "legacy",
        LOGGING,
    ),
    row(
        "log-timestamp-format",
        Mutable,
        Choice(&["legacy", "iso8601", "milliseconds"]),
        "legacy",
        LOGGING,
    ),
    row("masterauth", Mutable, Text, "", REPLICATION),
    row("masteruser", Mutable, Text, "", REPLICATION),
    row(
        "max-new-connections-per-cycle",
        Mutable,
        Integer(1, 1000),
        "10",
        SOCKETS,
    ),
    row(
        "max-new-tls-connections-per-cycle",
        Mutable,
        Integer(1, 1000),
        "1",
        TLS,
    ),
    row(
        "min-replicas-max-lag",
        Mutable,
        Integer(0, INT_MAX),
        "10",
        REPLICATION,
    ),
    row(
        "min-replicas-to-write",
        Mutable,
        Integer(0, INT_MAX),
        "0",
        REPLICATION,
    ),
    row("mptcp", Immutable, YesNo, "no", TRANSPORT),
    row(
        "no-appendfsync-on-rewrite",
        Mutable,
        YesNo,
        "no",
        APPEND_ONLY,
    ),
    row(
        "oom-score-adj",
        Mutable,
        Choice(&["no", "yes", "relative", "absolute"]),
        "no",
        PROCESS,
    ),
    row("oom-score-adj-values", Mutable, Words, "0 200 800", PROCESS),
    row(
        "prefetch-batch-max-size",
        Mutable,
        Integer(0, 128),
        "16",
        BATCHES,
    ),
    row(
        "proc-title-template",
        Mutable,
        Text,
        "{title} {listen-addr} {server-mode}",
        PROCESS,
    ),
    row(
        "propagation-error-behavior",
        Mutable,
        Choice(&["ignore", "panic", "panic-on-replicas"]),
        "ignore",
        REPLICATION,
    ),
    row("rdb-del-sync-files", Mutable, YesNo, "no", REPLICATION),
    row(
        "rdb-save-incremental-fsync",
        Mutable,
        YesNo,
        "yes",
        SNAPSHOTS,
    ),
    row(
        "rdb-version-check",
        Mutable,
        Choice(&["strict", "relaxed"]),
        "strict",
        SNAPSHOTS,
    ),
    row("rdbchecksum", Immutable, YesNo, "yes", SNAPSHOTS),
    row("rdbcompression", Mutable, YesNo, "yes", SNAPSHOTS),
    row("rdma-bind", Mutable, Words, "", TRANSPORT),
    row(
        "rdma-completion-vector",
        Immutable,
        Integer(-1, 1024),
        "-1",
        TRANSPORT,
    ),
    row("rdma-port", Mutable, Fixed, "0", TRANSPORT),
    row(
        "rdma-rx-size",
        Immutable,
        Integer(65536, 16777216),
        "1048576",
        TRANSPORT,
    ),
    row(
        "repl-backlog-size",
        Mutable,
        Memory(1),
        "1048576",
        REPLICATION,
    ),
    row(
        "repl-backlog-ttl",
        Mutable,
        Integer(0, i64::MAX),
        "3600",
        REPLICATION,
    ),
    row(
        "repl-disable-tcp-nodelay",
        Mutable,
        YesNo,
        "no",
        REPLICATION,
    ),
    row(
        "repl-diskless-load",
        Mutable,
        Choice(&["disabled", "on-empty-db", "swapdb", "flush-before-load"]),
        "disabled",
        REPLICATION,
    ),
    row("repl-diskless-sync", Mutable, YesNo, "yes", REPLICATION),
    row(
        "repl-diskless-sync-delay",
        Mutable,
        Integer(0, INT_MAX),
        "5",
        REPLICATION,
    ),
    row(
        "repl-diskless-sync-max-replicas",
        Mutable,
        Integer(0, INT_MAX),
        "0",
        REPLICATION,
    ),
    row("repl-mptcp", Immutable, YesNo, "no", REPLICATION),
    row(
        "repl-ping-replica-period",
        Mutable,
        Integer(1, INT_MAX),
        "10",
        REPLICATION,
    ),
    row(
        "repl-timeout",
        Mutable,
        Integer(1, INT_MAX),
        "60",
        REPLICATION,
    ),
    row("replica-announce-ip", Mutable, Text, "", REPLICATION),
    row(
        "replica-announce-port",
        Mutable,
        Integer(0, 65535),
        "0",
        REPLICATION,
    ),
    row("replica-announced", Mutable, YesNo, "yes", REPLICATION),
    row(
        "replica-full-sync-buffer-limit",
        Mutable,
        Memory(0),
        "0",
        REPLICATION,
    ),
    row(
        "replica-ignore-disk-write-errors",
        Mutable,
        YesNo,
        "no",
        REPLICATION,
    ),
    row(
        "replica-ignore-maxmemory",
        Mutable,
        YesNo,
        "yes",
        REPLICATION,
    ),
    row("replica-lazy-flush", Mutable, YesNo, "no", FREEING),
    row(
        "replica-priority",
        Mutable,
        Integer(0, INT_MAX),
        "100",
        REPLICATION,
    ),
    row("replica-read-only", Mutable, YesNo, "yes", REPLICATION),
    row(
        "replica-serve-stale-data",
        Mutable,
        YesNo,
        "yes",
        REPLICATION,
    ),
    row("replicaof", Mutable, Fixed, "", REPLICATION),
    row(
        "sanitize-dump-payload",
        Mutable,
        Choice(&["no", "yes", "clients"]),
        "no",
        SNAPSHOTS,
    ),
    row("server-cpulist", Immutable, Text, "", PROCESS),
    row("set-proc-title", Immutable, YesNo, "yes", PROCESS),
    row("shutdown-on-sigint", Mutable, Fixed, "default", SIGNALS),
    row("shutdown-on-sigterm", Mutable, Fixed, "default", SIGNALS),
    row(
        "shutdown-timeout",
        Mutable,
        Integer(0, INT_MAX),
        "10",
        REPLICATION,
    ),
    row(
        "slot-migration-max-failover-repl-bytes",
        Mutable,
        Memory(-1),
        "0",
        CLUSTER,
    ),
    row(
        "slowlog-log-slower-than",
        Mutable,
        Integer(-1, i64::MAX),
        "10000",
        SLOW_LOG,
    ),
    row(
        "slowlog-max-len",
        Mutable,
        Integer(0, i64::MAX),
        "128",
        SLOW_LOG,
    ),
    row(
        "socket-mark-id",
        Immutable,
        Integer(0, UINT_MAX),
        "0",
        SOCKETS,
    ),
    row(
        "supervised",
        Immutable,
        Choice(&["upstart", "systemd", "auto", "no"]),
        "no",
        SUPERVISION,
    ),
    row("syslog-enabled", Immutable, YesNo, "no", LOGGING),
    row(
        "syslog-facility",
        Immutable,
        Choice(&[
            "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
        ]),
        "local0",
        LOGGING,
    ),
    row("syslog-ident", Immutable, Text, "redis", LOGGING),
    row(
        "tcp-keepalive-probes",
        Mutable,
        Integer(1, INT_MAX),
        "3",
        SOCKETS,
    ),
    row(
        "tls-auth-clients",
        Mutable,
        Choice(&["no", "yes", "optional"]),
        "yes",
        TLS,
    ),
    row(
        "tls-auth-clients-user",
        Mutable,
        Choice(&["CN", "URI", "off"]),
        "off",
        TLS,
    ),
    row(
        "tls-auto-reload-interval",
        Mutable,
        Integer(0, INT_MAX),
        "0",
        TLS,
    ),
    row("tls-ca-cert-dir", Mutable, Text, "", TLS),
    row("tls-ca-cert-file", Mutable, Text, "", TLS),
    row("tls-cert-file", Mutable, Text, "", TLS),
    row("tls-ciphers", Mutable, Text, "", TLS),
    row("tls-ciphersuites", Mutable, Text, "", TLS),
    row("tls-client-cert-file", Mutable, Text, "", TLS),
    row("tls-client-key-file", Mutable, Text, "", TLS),
    row("tls-client-key-file-pass", Mutable, Text, "", TLS),
    row("tls-cluster", Mutable, YesNo, "no", TLS),
    row("tls-dh-params-file", Mutable, Text, "", TLS),
    row("tls-key-file", Mutable, Text, "", TLS),
    row("tls-key-file-pass", Mutable, Text, "", TLS),
    row("tls-port", Mutable, Fixed, "0", TLS),
    row("tls-prefer-server-ciphers", Mutable, YesNo, "no", TLS),
    row("tls-protocols", Mutable, Text, "", TLS),
    row("tls-replication", Mutable, YesNo, "no", TLS),
    row(
        "tls-session-cache-size",
        Mutable,
        Integer(0, INT_MAX),
        "20480",
        TLS,
    ),
    row(
        "tls-session-cache-timeout",
        Mutable,
        Integer(0, INT_MAX),
        "300",
        TLS,
    ),
    row("tls-session-caching", Mutable, YesNo, "yes", TLS),
    row(
        "tracking-table-max-keys",
        Mutable,
        Integer(0, i64::MAX),
        "1000000",
        TRACKING,
    ),
    row("unixsocketgroup", Immutable, Text, "", SOCKETS),
    row(
        "vset-force-single-threaded-execution",
        Mutable,
        YesNo,
        "no",
        NO_VECTORS,
    ),
];
