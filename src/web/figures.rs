//! The figures: gathered from the engine, which stays as it is, into one struct.
//!
//! No key expires, is touched or is counted as a read because somebody looks. So, other than INFO,
//! nothing that is due is removed before it is counted; keys whose bucket of the index has ended
//! are left out, those of the last 8 ms are not.
//!
//! What there may be many of, databases and clients, is walked in steps of some microseconds
//! (`Survey`), and so is the forecast; all else is read at the end. What changes between two steps
//! may be counted or not.
//!
//! Units: seconds and bytes, as names say; sizes of what falls due are estimates from a sample.

use serde::Serialize;

use crate::clock::UnixMillis;
use crate::command::server::info::{MAYFLY_VERSION, cpu_seconds, resident_bytes};
use crate::command::table::table;
use crate::config;
use crate::engine::ledger::Ledger;
use crate::engine::pubsub::Topic;
use crate::engine::{Engine, REDIS_VERSION, memory};
use crate::expiry::expiretime_ms;
use crate::store::db::Db;
use crate::store::forecast::{Effort, Forecaster, Mortal};
use crate::store::lag::{LagFigures, Removal};

/// Databases that are shown apart, those of the lowest numbers; the others are added up.
pub const DATABASES_SHOWN_MAX: usize = 64;
/// Keys that are named, if they may be.
pub const NEXT_KEYS_MAX: usize = 16;
/// Bytes of a key's name that are shown.
pub const NAME_BYTES_MAX: usize = 256;
/// How late keys may be removed while expiry has enough of the CPU, without the length of the turn
/// of the loop that comes between: the width of a bucket of the index and the rounding of the poll
/// (docs/events.md).
const LAG_BOUND_MS: u64 = 10;
/// What the forecast looks up: less than for a command, as it is asked for again and again, and
/// finely divided, so that few keys lie where a range is cut off.
const EFFORT: Effort = Effort {
    lookups: 1_024,
    sized: 512,
    sized_in_range: 8,
};
/// Databases and clients that a step walks.
const DATABASES_PER_STEP: usize = 16;
const CLIENTS_PER_STEP: usize = 64;

/// The limits that lags are counted up to, in ms: where the counts are exact.
pub const LAG_LIMITS_MS: [u64; 15] = [
    1, 2, 4, 6, 8, 10, 12, 15, 31, 63, 127, 255, 1_023, 8_191, 65_535,
];

/// How far ahead the forecast looks, in seconds: one, then a minute, an hour and a day by twelfths.
pub const SPANS_SECONDS: [i64; 37] = [
    1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 300, 600, 900, 1_200, 1_500, 1_800, 2_100,
    2_400, 2_700, 3_000, 3_300, 3_600, 7_200, 14_400, 21_600, 28_800, 36_000, 43_200, 50_400,
    57_600, 64_800, 72_000, 79_200, 86_400,
];

/// All figures of one moment.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Figures {
    pub server: Server,
    pub clients: Clients,
    pub commands: Commands,
    pub keyspace: Keys,
    pub expiry: Expiry,
    pub memory: Memory,
    pub snapshots: Snapshots,
    pub network: Network,
    pub pubsub: Subscriptions,
    /// The keys that expire next, if they may be named.
    pub next_keys: Option<Vec<NextKey>>,
}

/// The process.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Server {
    pub version: &'static str,
    pub redis_version: &'static str,
    pub build: String,
    /// Unix time at which these figures were taken.
    pub time_seconds: f64,
    pub uptime_seconds: f64,
    pub is_loading: bool,
    pub loop_turns_total: u64,
    pub loop_seconds_total: f64,
    pub loop_command_seconds_total: f64,
    pub cpu_user_seconds_total: f64,
    pub cpu_system_seconds_total: f64,
    pub wall_clock_steps_total: u64,
}

/// Clients of the Redis protocol.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Clients {
    pub connected: usize,
    pub connected_limit: u32,
    pub blocked: usize,
    pub subscribed: usize,
    pub connections_total: u64,
    pub connections_rejected_total: u64,
    pub closed_for_input_total: u64,
    pub closed_for_output_total: u64,
    pub evicted_total: u64,
}

/// What clients asked for.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Commands {
    pub processed_total: u64,
    pub unknown_total: u64,
    pub error_replies_total: u64,
    /// Those that were called since start or CONFIG RESETSTAT.
    pub each: Vec<Command>,
}

/// One command.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Command {
    pub name: String,
    pub calls_total: u64,
    pub failed_total: u64,
    pub rejected_total: u64,
    pub seconds_total: f64,
}

/// What there is.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Keys {
    pub hits_total: u64,
    pub misses_total: u64,
    pub evicted_total: u64,
    /// Of all databases.
    pub keys: usize,
    pub volatile_keys: usize,
    pub dated_collections: usize,
    pub databases_used: usize,
    /// Those with keys, up to [`DATABASES_SHOWN_MAX`] of them.
    pub databases: Vec<Database>,
}

/// One database with keys.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Database {
    pub db: usize,
    pub keys: usize,
    pub volatile_keys: usize,
    pub dated_collections: usize,
    pub ttl_mean_seconds: Option<f64>,
}

/// How expiry is doing.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Expiry {
    pub is_enabled: bool,
    pub keys_active_total: u64,
    pub keys_lazy_total: u64,
    /// Fields of hashes, and members of sets and sorted sets.
    pub members_active_total: u64,
    pub members_lazy_total: u64,
    pub lag_active: Lag,
    pub lag_lazy: Lag,
    pub lag_max_seconds: f64,
    pub lag_bound_seconds: f64,
    /// Of the last minute, by the expiry job.
    pub lag_recent: RecentLag,
    /// What falls due within each span from now; each has the one before in it.
    pub due: Vec<Due>,
    /// Keys that are due and not removed yet.
    pub ripe_keys: usize,
    pub seconds_total: f64,
    pub cap_reached_total: u64,
    pub stale_ratio: f64,
    pub events_written_total: u64,
    pub events_lost_total: u64,
}

/// How late what was due has been removed.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct Lag {
    pub removals_total: u64,
    pub sum_seconds: f64,
    pub limits: Vec<LagLimit>,
}

/// How many removals were at most so late.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct LagLimit {
    pub seconds: f64,
    pub removals_total: u64,
}

/// The same of a short time.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs)]
pub struct RecentLag {
    pub removals: u64,
    pub p50_seconds: f64,
    pub p99_seconds: f64,
    pub max_seconds: f64,
}

/// What falls due within a span from now.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Due {
    pub within_seconds: i64,
    pub keys: usize,
    pub bytes: usize,
}

/// Memory in bytes.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Memory {
    pub limit_bytes: u64,
    pub policy: String,
    pub exceeded_seconds_total: f64,
    pub moved_total: u64,
    pub moving_seconds_total: f64,
    pub resident_bytes: u64,
    pub allocator_allocated_bytes: u64,
    pub allocator_active_bytes: u64,
    pub allocator_resident_bytes: u64,
    pub peak_bytes: u64,
    pub counted_bytes: usize,
    pub parts: Vec<Part>,
}

/// What is counted of one kind.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Part {
    pub name: &'static str,
    pub bytes: usize,
}

/// Saves.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Snapshots {
    /// Unix time of the last good one, or of the start.
    pub last_save_seconds: i64,
    pub is_last_ok: bool,
    pub is_saving: bool,
    pub last_duration_seconds: Option<f64>,
    pub last_bytes: Option<u64>,
    pub saves_total: u64,
    pub saves_failed_total: u64,
    pub unsaved_changes: u64,
}

/// Bytes over the network, of clients of the Redis protocol.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Network {
    pub received_bytes_total: u64,
    pub sent_bytes_total: u64,
}

/// What is subscribed to.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Subscriptions {
    pub channels: usize,
    pub patterns: usize,
    pub shard_channels: usize,
}

/// A key that expires soon.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct NextKey {
    pub db: usize,
    /// What is neither a letter or digit nor printable ASCII as `\xNN`; cut off with `...`.
    pub name: String,
    /// When, Unix time.
    pub deadline_seconds: f64,
}

/// Figures being taken.
pub struct Survey {
    ledger: Ledger,
    keys: Keys,
    clients: Clients,
    ripe_keys: usize,
    /// The next database, the next place of a client, the next database to name keys of.
    at_db: usize,
    at_client: usize,
    at_next: usize,
    began: UnixMillis,
    forecaster: Forecaster,
    next_keys: Option<Vec<Mortal>>,
}

impl Survey {
    /// Begins.
    pub fn new(engine: &Engine) -> Survey {
        let began = engine.reading.now;
        let moments = SPANS_SECONDS.map(|seconds| began.plus(seconds * 1_000));
        let dbs = 0..engine.keyspace.databases();
        Survey {
            ledger: Ledger::default(),
            keys: Keys::default(),
            clients: Clients::default(),
            ripe_keys: 0,
            at_db: 0,
            at_client: 0,
            at_next: 0,
            began,
            forecaster: Forecaster::new(&engine.keyspace, dbs, &moments, EFFORT),
            next_keys: engine.config.metrics_show_keys.then(Vec::new),
        }
    }

    /// Goes on; false if all has been walked.
    pub fn step(&mut self, engine: &Engine) -> bool {
        self.walk_databases(engine)
            || self.walk_clients(engine)
            || self.forecaster.step(&engine.keyspace)
            || self.walk_next(engine)
    }

    fn walk_databases(&mut self, engine: &Engine) -> bool {
        let databases = engine.keyspace.all_databases().skip(self.at_db);
        let before = self.at_db;
        for db in databases.take(DATABASES_PER_STEP) {
            let has_number = self.at_db < engine.keyspace.databases();
            if !has_number || engine.keyspace.is_used(self.at_db) {
                self.ledger.add_database(db);
            }
            if has_number {
                self.count_keys(engine, db);
            }
            self.at_db += 1;
        }
        self.at_db > before
    }

    fn count_keys(&mut self, engine: &Engine, db: &Db) {
        if db.table.is_empty() {
            return;
        }
        let (number, space) = (self.at_db, &engine.keyspace);
        let ripe = db.index.ripe_len();
        self.ripe_keys += ripe.saturating_sub(db.index.ripe_extended());
        let (keys, volatile_keys) = match engine.is_expiry_paused() {
            true => (db.table.len(), db.index.len()),
            false => (space.live_len(number), space.volatile_len(number)),
        };
        let dated_collections = space.dated_len(number);
        self.keys.keys += keys;
        self.keys.volatile_keys += volatile_keys;
        self.keys.dated_collections += dated_collections;
        if keys == 0 {
            return;
        }
        self.keys.databases_used += 1;
        if self.keys.databases.len() < DATABASES_SHOWN_MAX {
            let mean = db.index.mean_deadline();
            let ttl_ms = mean.map(|mean| mean.since(engine.reading.now).max(0));
            self.keys.databases.push(Database {
                db: number,
                keys,
                volatile_keys,
                dated_collections,
                ttl_mean_seconds: ttl_ms.map(|ms| ms as f64 / 1e3),
            });
        }
    }

    fn walk_clients(&mut self, engine: &Engine) -> bool {
        let places = engine.sessions.capacity();
        if self.at_client >= places {
            return false;
        }
        for key in self.at_client..places.min(self.at_client + CLIENTS_PER_STEP) {
            if let Some(session) = engine.sessions.get(key) {
                self.ledger.clients += session.memory_bytes();
                self.clients.blocked += usize::from(session.is_held());
                self.clients.subscribed += usize::from(session.subscriptions() > 0);
            }
        }
        self.at_client += CLIENTS_PER_STEP;
        true
    }

    /// Adds the keys of one database that expire before those that are known.
    fn walk_next(&mut self, engine: &Engine) -> bool {
        let Some(known) = &mut self.next_keys else {
            return false;
        };
        if self.at_next >= engine.keyspace.databases() {
            return false;
        }
        let db = self.at_next;
        self.at_next += 1;
        let last = known.get(NEXT_KEYS_MAX - 1).map(|key| key.deadline.0);
        let to = last.unwrap_or(UnixMillis(i64::MAX));
        let window = (self.began.plus(1), to);
        let space = &engine.keyspace;
        let listing = space.due_in(db..db + 1, window, NEXT_KEYS_MAX, |_| true);
        known.extend(listing.keys);
        known.sort();
        known.truncate(NEXT_KEYS_MAX);
        true
    }

    /// All figures.
    pub fn finish(self, engine: &Engine) -> Figures {
        let metrics = &engine.metrics;
        let reading = &engine.reading;
        let name = |key: Mortal| NextKey {
            db: key.db,
            name: shown_name(&key.key),
            deadline_seconds: expiretime_ms(key.deadline, reading) as f64 / 1e3,
        };
        let topics = |topic| engine.pubsub.topics(topic).len();
        let stats = &engine.keyspace.stats;
        Figures {
            server: server(engine),
            clients: Clients {
                connected: engine.sessions.len(),
                connected_limit: engine.config.clients_max,
                connections_total: metrics.connections_received,
                connections_rejected_total: metrics.connections_rejected,
                closed_for_input_total: metrics.query_buffer_disconnections,
                closed_for_output_total: metrics.output_buffer_disconnections,
                evicted_total: metrics.clients_evicted,
                ..self.clients
            },
            commands: commands(engine),
            keyspace: Keys {
                hits_total: stats.hits(),
                misses_total: stats.misses(),
                evicted_total: stats.evicted,
                ..self.keys
            },
            expiry: expiry(engine, &self.forecaster, self.ripe_keys),
            memory: memory(engine, &self.ledger),
            snapshots: snapshots(engine),
            network: Network {
                received_bytes_total: metrics.input_bytes,
                sent_bytes_total: metrics.output_bytes,
            },
            pubsub: Subscriptions {
                channels: topics(Topic::Channel),
                patterns: topics(Topic::Pattern),
                shard_channels: topics(Topic::Shard),
            },
            next_keys: self
                .next_keys
                .map(|keys| keys.into_iter().map(name).collect()),
        }
    }
}

fn micros(us: u64) -> f64 {
    us as f64 / 1e6
}

fn millis(ms: u64) -> f64 {
    ms as f64 / 1e3
}

/// A name as text, whatever bytes it has, and however many.
fn shown_name(name: &[u8]) -> String {
    let shown = &name[..name.len().min(NAME_BYTES_MAX)];
    let mut text = String::new();
    for chunk in shown.utf8_chunks() {
        for char in chunk.valid().chars() {
            // What is not seen could make a name look like another.
            match char {
                '\\' => text.push_str("\\\\"),
                '!'..='~' | ' ' => text.push(char),
                _ if char.is_alphanumeric() => text.push(char),
                _ => char
                    .encode_utf8(&mut [0; 4])
                    .bytes()
                    .for_each(|byte| text += &format!("\\x{byte:02x}")),
            }
        }
        let invalid = chunk.invalid().iter();
        invalid.for_each(|byte| text += &format!("\\x{byte:02x}"));
    }
    if shown.len() < name.len() {
        text += "...";
    }
    text
}

fn server(engine: &Engine) -> Server {
    let (metrics, reading) = (&engine.metrics, &engine.reading);
    let faults = memory::build_faults();
    let uptime_us = reading
        .monotonic_us
        .saturating_sub(engine.identity.started_us);
    let [user, system, ..] = cpu_seconds("/proc/self/stat");
    Server {
        version: MAYFLY_VERSION,
        redis_version: REDIS_VERSION,
        build: match faults.is_empty() {
            true => "as measured".to_owned(),
            false => faults.join("; "),
        },
        time_seconds: reading.wall_us as f64 / 1e6,
        uptime_seconds: micros(uptime_us),
        is_loading: engine.jobs.is_loading(),
        loop_turns_total: metrics.turns,
        loop_seconds_total: micros(metrics.busy_us),
        loop_command_seconds_total: micros(metrics.command_us),
        cpu_user_seconds_total: user,
        cpu_system_seconds_total: system,
        wall_clock_steps_total: reading.wall_steps,
    }
}

fn commands(engine: &Engine) -> Commands {
    let metrics = &engine.metrics;
    let counted = metrics.commands.iter().enumerate();
    let called = counted.filter(|(_, stat)| stat.calls + stat.rejected + stat.failed > 0);
    let unknown: u64 = metrics.unknown.calls.values().sum();
    Commands {
        processed_total: metrics.commands_processed,
        unknown_total: unknown + metrics.unknown.other_calls,
        error_replies_total: metrics.error_replies,
        each: called
            .map(|(row, stat)| Command {
                name: table().entry(row as u16).full_name(),
                calls_total: stat.calls,
                failed_total: stat.failed,
                rejected_total: stat.rejected,
                seconds_total: micros(stat.us),
            })
            .collect(),
    }
}

fn lag(figures: &LagFigures) -> Lag {
    let counts = figures.at_most(&LAG_LIMITS_MS);
    let limits = LAG_LIMITS_MS.iter().zip(counts);
    Lag {
        removals_total: figures.removals(),
        sum_seconds: figures.sum_ms() as f64 / 1e3,
        limits: limits
            .map(|(&ms, removals_total)| LagLimit {
                seconds: millis(ms),
                removals_total,
            })
            .collect(),
    }
}

fn expiry(engine: &Engine, forecaster: &Forecaster, ripe_keys: usize) -> Expiry {
    let (space, reading) = (&engine.keyspace, &engine.reading);
    let stats = &space.stats;
    let (active, lazy) = (space.lag.of(Removal::Active), space.lag.of(Removal::Lazy));
    let recent = space.lag.of_last_minute(Removal::Active, reading.now);
    let (mut keys, mut bytes) = (0, 0);
    let due = SPANS_SECONDS.iter().zip(forecaster.due());
    let due = due.map(|(&within_seconds, range)| {
        keys += range.keys;
        bytes += range.bytes;
        Due {
            within_seconds,
            keys,
            bytes,
        }
    });
    Expiry {
        is_enabled: !engine.is_expiry_paused(),
        keys_active_total: stats.expired_actively,
        keys_lazy_total: stats.expired_lazily,
        members_active_total: stats.members_expired_actively,
        members_lazy_total: stats.members_expired_lazily,
        lag_active: lag(active),
        lag_lazy: lag(lazy),
        lag_max_seconds: millis(active.max_ms().max(lazy.max_ms())),
        lag_bound_seconds: millis(LAG_BOUND_MS),
        lag_recent: RecentLag {
            removals: recent.removals(),
            p50_seconds: millis(recent.quantile_ms(0.50)),
            p99_seconds: millis(recent.quantile_ms(0.99)),
            max_seconds: millis(recent.max_ms()),
        },
        due: due.collect(),
        ripe_keys,
        seconds_total: micros(engine.jobs.expiry_us),
        cap_reached_total: engine.jobs.pacer.cap_hits(),
        stale_ratio: engine.jobs.pacer.stale_percent(reading.monotonic_us) / 100.0,
        events_written_total: space.deaths.written,
        events_lost_total: space.deaths.lost,
    }
}

fn memory(engine: &Engine, walked: &Ledger) -> Memory {
    let allocator = memory::figures();
    let ledger = Ledger {
        entries: walked.entries,
        tables: walked.tables,
        indexes: walked.indexes,
        clients: walked.clients,
        ..engine.ledger_without_many()
    };
    let policy = config::find("maxmemory-policy").expect("there is this setting");
    let now_us = engine.reading.monotonic_us;
    let (moving_ms, _) = engine.jobs.defrag.active_ms(now_us);
    let parts = [
        ("startup", ledger.startup),
        ("entries", ledger.entries),
        ("tables", ledger.tables),
        ("deadline_indexes", ledger.indexes),
        ("graveyard", ledger.graveyard),
        ("snapshot", ledger.snapshot),
        ("clients", ledger.clients),
        ("vacancies", ledger.vacancies),
        ("web", ledger.web),
        ("interpreter", ledger.interpreter),
        ("scripts", ledger.scripts),
        ("libraries", ledger.libraries),
    ];
    Memory {
        limit_bytes: engine.memory_limit_bytes(),
        policy: String::from_utf8_lossy(&policy.value(&engine.config)).into_owned(),
        exceeded_seconds_total: millis(engine.exceeded_ms().1),
        moved_total: engine.jobs.defrag.done().moved,
        moving_seconds_total: millis(moving_ms),
        resident_bytes: resident_bytes(),
        allocator_allocated_bytes: allocator.allocated,
        allocator_active_bytes: allocator.active,
        allocator_resident_bytes: allocator.resident,
        peak_bytes: engine.metrics.memory_peak.max(allocator.allocated),
        counted_bytes: ledger.sum(),
        parts: parts.map(|(name, bytes)| Part { name, bytes }).into(),
    }
}

fn snapshots(engine: &Engine) -> Snapshots {
    let saves = &engine.jobs.persistence;
    Snapshots {
        last_save_seconds: saves.last_save_unix,
        is_last_ok: saves.is_last_ok,
        is_saving: saves.is_saving(),
        last_duration_seconds: saves.last_duration_ms.map(millis),
        last_bytes: saves.last_bytes,
        saves_total: saves.saves,
        saves_failed_total: saves.saves_failed,
        unsaved_changes: engine.unsaved_changes(),
    }
}
