//! The figures in the text format of Prometheus, version 0.0.4.
//!
//! One table says all: a metric's name, kind and help, and how its samples are written. Names end
//! in their unit, counters in `_total`; what there is no value of has no sample. `docs/metrics.md`
//! has the same list, which a test compares.

use std::fmt::{Display, Write};

use super::figures::{Database, Figures, Lag};

/// What kind of figure a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, but for CONFIG RESETSTAT and a restart.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

impl Kind {
    /// As TYPE lines name it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// A metric.
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it means, in one sentence.
    pub help: &'static str,
    write: fn(&Figures, &mut Samples<'_>),
}

/// A row of the table.
const fn metric(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    write: fn(&Figures, &mut Samples<'_>),
) -> Metric {
    Metric {
        name,
        kind,
        help,
        write,
    }
}

use Kind::{Counter, Gauge, Histogram};

/// Spans of the forecast that are metrics, in seconds, by the name of their label.
pub const WITHIN: [(&str, i64); 6] = [
    ("1s", 1),
    ("10s", 10),
    ("1m", 60),
    ("10m", 600),
    ("1h", 3_600),
    ("1d", 86_400),
];

/// All metrics, in the order in which they are printed.
pub const METRICS: &[Metric] = &[
    metric(
        "mayfly_build_info",
        Gauge,
        "Always 1; its labels say what runs, and whether it is the build that was measured.",
        |f, s| {
            let server = &f.server;
            let labels = [
                ("version", server.version),
                ("redis_version", server.redis_version),
                ("build", server.build.as_str()),
            ];
            s.labelled(&labels, 1);
        },
    ),
    metric(
        "mayfly_uptime_seconds",
        Gauge,
        "Time since the server started.",
        |f, s| {
            s.value(f.server.uptime_seconds);
        },
    ),
    metric(
        "mayfly_loading",
        Gauge,
        "1 while a snapshot is being loaded.",
        |f, s| {
            s.value(u8::from(f.server.is_loading));
        },
    ),
    metric(
        "mayfly_cpu_seconds_total",
        Counter,
        "CPU time of the process, by mode.",
        |f, s| {
            s.labelled(&[("mode", "user")], f.server.cpu_user_seconds_total);
            s.labelled(&[("mode", "system")], f.server.cpu_system_seconds_total);
        },
    ),
    metric(
        "mayfly_loop_turns_total",
        Counter,
        "Turns of the event loop.",
        |f, s| {
            s.value(f.server.loop_turns_total);
        },
    ),
    metric(
        "mayfly_loop_seconds_total",
        Counter,
        "Time the event loop was busy.",
        |f, s| {
            s.value(f.server.loop_seconds_total);
        },
    ),
    metric(
        "mayfly_loop_command_seconds_total",
        Counter,
        "Time of that in commands.",
        |f, s| s.value(f.server.loop_command_seconds_total),
    ),
    metric(
        "mayfly_wall_clock_steps_total",
        Counter,
        "Times that the wall clock was set by a second or more.",
        |f, s| s.value(f.server.wall_clock_steps_total),
    ),
    metric(
        "mayfly_connected_clients",
        Gauge,
        "Clients that are connected.",
        |f, s| {
            s.value(f.clients.connected);
        },
    ),
    metric(
        "mayfly_connected_clients_limit",
        Gauge,
        "The setting maxclients.",
        |f, s| {
            s.value(f.clients.connected_limit);
        },
    ),
    metric(
        "mayfly_blocked_clients",
        Gauge,
        "Clients that wait in a command, or are held back by CLIENT PAUSE.",
        |f, s| s.value(f.clients.blocked),
    ),
    metric(
        "mayfly_subscribed_clients",
        Gauge,
        "Clients that have subscriptions.",
        |f, s| {
            s.value(f.clients.subscribed);
        },
    ),
    metric(
        "mayfly_connections_total",
        Counter,
        "Clients accepted.",
        |f, s| {
            s.value(f.clients.connections_total);
        },
    ),
    metric(
        "mayfly_connections_rejected_total",
        Counter,
        "Clients turned away: too many, or strangers to a server without a password.",
        |f, s| s.value(f.clients.connections_rejected_total),
    ),
    metric(
        "mayfly_clients_closed_for_limits_total",
        Counter,
        "Clients closed because their buffer of input or output was over its limit.",
        |f, s| {
            s.labelled(&[("buffer", "input")], f.clients.closed_for_input_total);
            s.labelled(&[("buffer", "output")], f.clients.closed_for_output_total);
        },
    ),
    metric(
        "mayfly_clients_evicted_total",
        Counter,
        "Clients closed because all together took more than maxmemory-clients.",
        |f, s| s.value(f.clients.evicted_total),
    ),
    metric(
        "mayfly_commands_processed_total",
        Counter,
        "Commands executed.",
        |f, s| {
            s.value(f.commands.processed_total);
        },
    ),
    metric(
        "mayfly_unknown_commands_total",
        Counter,
        "Commands asked for that do not exist here.",
        |f, s| s.value(f.commands.unknown_total),
    ),
    metric(
        "mayfly_error_replies_total",
        Counter,
        "Errors sent to clients.",
        |f, s| {
            s.value(f.commands.error_replies_total);
        },
    ),
    metric(
        "mayfly_command_calls_total",
        Counter,
        "Times each command ran.",
        |f, s| s.commands(f, |command| command.calls_total),
    ),
    metric(
        "mayfly_command_failures_total",
        Counter,
        "Times each command ran and answered with an error.",
        |f, s| s.commands(f, |command| command.failed_total),
    ),
    metric(
        "mayfly_command_rejections_total",
        Counter,
        "Times each command was refused before it ran.",
        |f, s| s.commands(f, |command| command.rejected_total),
    ),
    metric(
        "mayfly_command_seconds_total",
        Counter,
        "Time that each command took.",
        |f, s| s.commands(f, |command| command.seconds_total),
    ),
    metric(
        "mayfly_keyspace_hits_total",
        Counter,
        "Reads that found a key.",
        |f, s| {
            s.value(f.keyspace.hits_total);
        },
    ),
    metric(
        "mayfly_keyspace_misses_total",
        Counter,
        "Reads that found no key.",
        |f, s| {
            s.value(f.keyspace.misses_total);
        },
    ),
    metric(
        "mayfly_evicted_keys_total",
        Counter,
        "Living keys removed because memory was full.",
        |f, s| s.value(f.keyspace.evicted_total),
    ),
    metric(
        "mayfly_keys",
        Gauge,
        "Keys of each database that has some; those of the 65th on are db=\"other\".",
        |f, s| s.databases(f, f.keyspace.keys, |db| db.keys),
    ),
    metric(
        "mayfly_volatile_keys",
        Gauge,
        "Keys that have a deadline, likewise.",
        |f, s| s.databases(f, f.keyspace.volatile_keys, |db| db.volatile_keys),
    ),
    metric(
        "mayfly_dated_collections",
        Gauge,
        "Hashes, sets and sorted sets with fields or members that have a deadline, likewise.",
        |f, s| s.databases(f, f.keyspace.dated_collections, |db| db.dated_collections),
    ),
    metric(
        "mayfly_ttl_mean_seconds",
        Gauge,
        "Mean time to live of keys that have a deadline, by database.",
        |f, s| {
            for db in &f.keyspace.databases {
                if let Some(seconds) = db.ttl_mean_seconds {
                    s.labelled(&[("db", &db.db.to_string())], seconds);
                }
            }
        },
    ),
    metric(
        "mayfly_expired_total",
        Counter,
        "What was removed after its deadline: keys, and fields and members; by the expiry job \
         (active) or because a command met it (lazy).",
        |f, s| {
            let e = &f.expiry;
            for (what, removal, count) in [
                ("keys", "active", e.keys_active_total),
                ("keys", "lazy", e.keys_lazy_total),
                ("members", "active", e.members_active_total),
                ("members", "lazy", e.members_lazy_total),
            ] {
                s.labelled(&[("what", what), ("removal", removal)], count);
            }
        },
    ),
    metric(
        "mayfly_expiry_lag_seconds",
        Histogram,
        "How late keys, fields and members were removed after their deadlines.",
        |f, s| {
            s.histogram("active", &f.expiry.lag_active);
            s.histogram("lazy", &f.expiry.lag_lazy);
        },
    ),
    metric(
        "mayfly_expiry_lag_max_seconds",
        Gauge,
        "The longest of these lags.",
        |f, s| {
            s.value(f.expiry.lag_max_seconds);
        },
    ),
    metric(
        "mayfly_expiry_lag_bound_seconds",
        Gauge,
        "What active lags stay under, but for one turn of the loop, while expiry has enough CPU.",
        |f, s| s.value(f.expiry.lag_bound_seconds),
    ),
    metric(
        "mayfly_expiry_due_keys",
        Gauge,
        "Keys that fall due within a time from now; each count includes the one before.",
        |f, s| s.forecast(f, |due| due.keys),
    ),
    metric(
        "mayfly_expiry_due_bytes",
        Gauge,
        "Memory of these keys, estimated from a sample.",
        |f, s| s.forecast(f, |due| due.bytes),
    ),
    metric(
        "mayfly_expiry_ripe_keys",
        Gauge,
        "Keys that are due and not removed yet, those of the last 8 ms left out.",
        |f, s| s.value(f.expiry.ripe_keys),
    ),
    metric(
        "mayfly_expiry_enabled",
        Gauge,
        "0 after EXPIRY PAUSE: what is due is hidden, and removed only when a command meets it.",
        |f, s| s.value(u8::from(f.expiry.is_enabled)),
    ),
    metric(
        "mayfly_expiry_seconds_total",
        Counter,
        "Time that the expiry job took.",
        |f, s| s.value(f.expiry.seconds_total),
    ),
    metric(
        "mayfly_expiry_cap_reached_total",
        Counter,
        "Slices of the expiry job that ended because its share of the CPU was used up.",
        |f, s| s.value(f.expiry.cap_reached_total),
    ),
    metric(
        "mayfly_expiry_stale_ratio",
        Gauge,
        "Estimate of expired keys among all keys that have a deadline, 0 to 1.",
        |f, s| s.value(f.expiry.stale_ratio),
    ),
    metric(
        "mayfly_expired_events_written_total",
        Counter,
        "Entries of the stream that the setting expired-event-stream names.",
        |f, s| s.value(f.expiry.events_written_total),
    ),
    metric(
        "mayfly_expired_events_lost_total",
        Counter,
        "Events that could not be written because its key held something else.",
        |f, s| s.value(f.expiry.events_lost_total),
    ),
    metric(
        "mayfly_memory_resident_bytes",
        Gauge,
        "Memory of the process, as the system counts it.",
        |f, s| s.value(f.memory.resident_bytes),
    ),
    metric(
        "mayfly_memory_limit_bytes",
        Gauge,
        "The setting maxmemory, 0 for no limit.",
        |f, s| s.value(f.memory.limit_bytes),
    ),
    metric(
        "mayfly_memory_limit_exceeded_seconds_total",
        Counter,
        "Time during which memory was over that limit.",
        |f, s| s.value(f.memory.exceeded_seconds_total),
    ),
    metric(
        "mayfly_memory_moved_total",
        Counter,
        "Allocations moved so that memory between them can be given back.",
        |f, s| s.value(f.memory.moved_total),
    ),
    metric(
        "mayfly_memory_moving_seconds_total",
        Counter,
        "Time during which there was anything to be moved.",
        |f, s| s.value(f.memory.moving_seconds_total),
    ),
    metric(
        "mayfly_memory_peak_bytes",
        Gauge,
        "Most memory that the allocator had handed out.",
        |f, s| s.value(f.memory.peak_bytes),
    ),
    metric(
        "mayfly_memory_counted_bytes",
        Gauge,
        "What Mayfly counts itself, by what it is for.",
        |f, s| {
            for part in &f.memory.parts {
                s.labelled(&[("part", part.name)], part.bytes);
            }
        },
    ),
    metric(
        "mayfly_memory_allocator_bytes",
        Gauge,
        "The allocator: handed out, in pages that hold some of it, and in memory.",
        |f, s| {
            let m = &f.memory;
            s.labelled(&[("state", "allocated")], m.allocator_allocated_bytes);
            s.labelled(&[("state", "active")], m.allocator_active_bytes);
            s.labelled(&[("state", "resident")], m.allocator_resident_bytes);
        },
    ),
    metric(
        "mayfly_snapshot_last_save_timestamp_seconds",
        Gauge,
        "Unix time of the last good save, or of the start.",
        |f, s| s.value(f.snapshots.last_save_seconds),
    ),
    metric(
        "mayfly_snapshot_last_save_ok",
        Gauge,
        "0 if the last save failed.",
        |f, s| s.value(u8::from(f.snapshots.is_last_ok)),
    ),
    metric(
        "mayfly_snapshot_last_duration_seconds",
        Gauge,
        "Time that the last background save took.",
        |f, s| s.option(f.snapshots.last_duration_seconds),
    ),
    metric(
        "mayfly_snapshot_last_size_bytes",
        Gauge,
        "Length of the snapshot that was saved last.",
        |f, s| s.option(f.snapshots.last_bytes),
    ),
    metric(
        "mayfly_snapshot_saving",
        Gauge,
        "1 while a background save runs.",
        |f, s| {
            s.value(u8::from(f.snapshots.is_saving));
        },
    ),
    metric(
        "mayfly_snapshot_saves_total",
        Counter,
        "Saves that succeeded.",
        |f, s| {
            s.value(f.snapshots.saves_total);
        },
    ),
    metric(
        "mayfly_snapshot_failures_total",
        Counter,
        "Saves that failed or were given up.",
        |f, s| s.value(f.snapshots.saves_failed_total),
    ),
    metric(
        "mayfly_snapshot_unsaved_changes",
        Gauge,
        "Changes since the last good save.",
        |f, s| s.value(f.snapshots.unsaved_changes),
    ),
    metric(
        "mayfly_network_received_bytes_total",
        Counter,
        "Bytes that clients sent.",
        |f, s| s.value(f.network.received_bytes_total),
    ),
    metric(
        "mayfly_network_sent_bytes_total",
        Counter,
        "Bytes that clients were sent.",
        |f, s| s.value(f.network.sent_bytes_total),
    ),
    metric(
        "mayfly_pubsub_topics",
        Gauge,
        "Channels, patterns and shard channels that somebody subscribes to.",
        |f, s| {
            s.labelled(&[("kind", "channel")], f.pubsub.channels);
            s.labelled(&[("kind", "pattern")], f.pubsub.patterns);
            s.labelled(&[("kind", "shard_channel")], f.pubsub.shard_channels);
        },
    ),
];

/// Where the samples of one metric go.
struct Samples<'a> {
    name: &'static str,
    text: &'a mut String,
}

impl Samples<'_> {
    fn value(&mut self, value: impl Display) {
        self.sample("", &[], value);
    }

    fn option(&mut self, value: Option<impl Display>) {
        if let Some(value) = value {
            self.value(value);
        }
    }

    fn labelled(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.sample("", labels, value);
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        for (at, (name, value)) in labels.iter().enumerate() {
            self.text.push(if at == 0 { '{' } else { ',' });
            self.text.push_str(name);
            self.text.push_str("=\"");
            push_escaped(self.text, value);
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        writeln!(self.text, " {value}").expect("appending to memory does not fail");
    }

    fn commands<T: Display>(
        &mut self,
        figures: &Figures,
        value: fn(&super::figures::Command) -> T,
    ) {
        for command in &figures.commands.each {
            self.labelled(&[("command", &command.name)], value(command));
        }
    }

    fn databases(&mut self, figures: &Figures, sum: usize, value: fn(&Database) -> usize) {
        let mut others = sum;
        for db in &figures.keyspace.databases {
            self.labelled(&[("db", &db.db.to_string())], value(db));
            others -= value(db);
        }
        if figures.keyspace.databases_used > figures.keyspace.databases.len() {
            self.labelled(&[("db", "other")], others);
        }
    }

    fn forecast(&mut self, figures: &Figures, value: fn(&super::figures::Due) -> usize) {
        for (label, seconds) in WITHIN {
            let mut spans = figures.expiry.due.iter();
            let due = spans.find(|due| due.within_seconds == seconds);
            let due = due.expect("the forecast has all these spans");
            self.labelled(&[("within", label)], value(due));
        }
    }

    fn histogram(&mut self, removal: &str, lag: &Lag) {
        let removal = ("removal", removal);
        for limit in &lag.limits {
            let seconds = limit.seconds.to_string();
            self.sample(
                "_bucket",
                &[removal, ("le", &seconds)],
                limit.removals_total,
            );
        }
        self.sample("_bucket", &[removal, ("le", "+Inf")], lag.removals_total);
        self.sample("_sum", &[removal], lag.sum_seconds);
        self.sample("_count", &[removal], lag.removals_total);
    }
}

/// A label's value. What means something in the format is escaped.
fn push_escaped(text: &mut String, value: &str) {
    for char in value.chars() {
        match char {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            _ => text.push(char),
        }
    }
}

/// The text of `/metrics`.
pub fn text(figures: &Figures) -> String {
    let mut text = String::new();
    for Metric {
        name,
        kind,
        help,
        write,
    } in METRICS
    {
        let kind = kind.name();
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")
            .expect("appending to memory does not fail");
        let text = &mut text;
        write(figures, &mut Samples { name, text });
    }
    text
}
