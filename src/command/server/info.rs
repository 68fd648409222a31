//! INFO: the server's state and counters, in sections of lines `name:value`.
//!
//! Names and order are those of Redis where a figure exists there and is true here; what would have
//! to be invented is left out, and a constant stands only where it is a fact (no replicas, no
//! evictions). The sections Expiry and Unknowncommands are our own. Figures of keys are exact: up
//! to a limit, keys that are due are removed before they are counted.
//!
//! Memory comes from the allocator and CPU time from the system, the only questions asked outside
//! the engine.

use std::fmt::{Display, Write};
use std::fs;

use crate::clock::UnixMillis;
use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::table::row::Handler::Engine as OnEngine;
use crate::command::table::row::*;
use crate::command::table::table;
use crate::config::ExpireClock;
use crate::engine::Engine;
use crate::engine::REDIS_VERSION;
use crate::engine::ledger::Ledger;
use crate::engine::memory::{Figures, build_faults};
use crate::engine::pubsub::Topic;
use crate::engine::scripts::Scripts;
use crate::resp::error::CommandError;
use crate::store::db::Db;
use crate::store::expire::SETTLE_MAX;

/// The command on figures.
pub const COMMANDS: &[Row] = &[Row {
    name: "info",
    arity: -1,
    flags: flag::LOADING | flag::STALE,
    categories: category::SLOW | category::DANGEROUS,
    keys: &[],
    group: Group::Server,
    since: "1.0.0",
    complexity: "O(1)",
    summary: "Returns the server's state and counters, by section.",
    args: &[Arg::new("section", ArgKind::String).optional().multiple()],
    subcommands: &[],
    handler: OnEngine(info),
}];

/// The version of this server.
pub const MAYFLY_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Ticks a second in which Linux counts CPU time for user space, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// One section.
struct Section {
    name: &'static str,
    /// Part of a plain INFO.
    is_default: bool,
    print: fn(&mut Engine, &mut Lines),
}

/// All sections in order.
const SECTIONS: &[Section] = &[
    section("Server", server),
    section("Clients", clients),
    section("Memory", memory),
    section("Persistence", persistence),
    section("Stats", stats),
    section("Expiry", expiry),
    section("Replication", replication),
    section("CPU", cpu),
    section("Modules", |_, _| {}),
    Section {
        is_default: false,
        ..section("Commandstats", commandstats)
    },
    Section {
        is_default: false,
        ..section("Unknowncommands", unknown_commands)
    },
    section("Errorstats", errorstats),
    section("Cluster", |_, lines| lines.add("cluster_enabled", 0)),
    section("Keyspace", keyspace),
];

const fn section(name: &'static str, print: fn(&mut Engine, &mut Lines)) -> Section {
    Section {
        name,
        is_default: true,
        print,
    }
}

/// Lines of INFO.
#[derive(Default)]
pub struct Lines {
    text: String,
}

impl Lines {
    fn begin(&mut self, section: &str) {
        let gap = if self.text.is_empty() { "" } else { "\r\n" };
        self.push(format_args!("{gap}# {section}"));
    }

    /// One line.
    pub fn add(&mut self, name: &str, value: impl Display) {
        self.push(format_args!("{name}:{value}"));
    }

    /// A number of bytes, and the same for people.
    pub fn add_bytes(&mut self, name: &str, bytes: u64) {
        self.add(name, bytes);
        self.push(format_args!("{name}_human:{}", human(bytes)));
    }

    fn add_ratio(&mut self, name: &str, dividend: u64, divisor: u64) {
        let ratio = dividend as f64 / divisor.max(1) as f64;
        self.push(format_args!("{name}:{ratio:.2}"));
    }

    fn add_percent(&mut self, name: &str, part: u64, whole: u64) {
        let percent = part as f64 * 100.0 / whole.max(1) as f64;
        self.push(format_args!("{name}:{percent:.2}%"));
    }

    fn push(&mut self, line: impl Display) {
        write!(self.text, "{line}\r\n").expect("appending to memory does not fail");
    }
}

/// Bytes as people read them: `1.50M`.
fn human(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut units = "KMGTP".chars();
    let mut unit = units.next().expect("there are five units");
    for next in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.2}{unit}")
}

fn info(engine: &mut Engine, caller: &mut Caller<'_>, args: Args<'_>) -> Result<(), CommandError> {
    let is_plain = args.len() == 1;
    let (mut has_default, mut has_all) = (is_plain, false);
    for i in 1..args.len() {
        has_default |= args.is(i, "default");
        has_all |= args.is(i, "all") || args.is(i, "everything");
    }
    settle(engine);
    let mut lines = Lines::default();
    for section in SECTIONS {
        let is_named = (1..args.len()).any(|i| args.is(i, section.name));
        if has_all || is_named || (has_default && section.is_default) {
            lines.begin(section.name);
            (section.print)(engine, &mut lines);
        }
    }
    caller.reply().verbatim(lines.text);
    Ok(())
}

/// Removes keys that are due, so that what follows need not count them, if they are not so many
/// that it takes long.
fn settle(engine: &mut Engine) {
    if engine.is_expiry_paused() {
        return;
    }
    let reading = engine.reading;
    let mut left = SETTLE_MAX;
    for db in 0..engine.keyspace.databases() {
        let Db {
            index,
            members: fields,
            ..
        } = engine.keyspace.db(db);
        if index.is_empty() && fields.is_empty() {
            continue;
        }
        left -= engine.keyspace.settle_due(db, &reading, left);
    }
}

fn server(engine: &mut Engine, lines: &mut Lines) {
    let (reading, config, identity) = (&engine.reading, &engine.config, &engine.identity);
    let uptime_seconds = reading.monotonic_us.saturating_sub(identity.started_us) / 1_000_000;
    lines.add("redis_version", REDIS_VERSION);
    lines.add("mayfly_version", MAYFLY_VERSION);
    let faults = build_faults();
    let build = if faults.is_empty() {
        "as measured".to_owned()
    } else {
        faults.join("; ")
    };
    lines.add("mayfly_build", build);
    lines.add("redis_mode", "standalone");
    lines.add("os", &identity.os);
    lines.add("arch_bits", usize::BITS);
    lines.add("monotonic_clock", "POSIX clock_gettime");
    lines.add("multiplexing_api", "epoll");
    lines.add("process_id", identity.pid);
    lines.add("run_id", &identity.run_id);
    lines.add("tcp_port", config.port);
    lines.add("server_time_usec", reading.wall_us);
    lines.add("uptime_in_seconds", uptime_seconds);
    lines.add("uptime_in_days", uptime_seconds / 86_400);
    lines.add("hz", config.hz);
    lines.add("configured_hz", config.hz);
    lines.add("executable", &identity.executable);
    lines.add("config_file", &identity.config_file);
    lines.add("io_threads_active", 0);
    let mut listeners = Vec::new();
    if config.port > 0 {
        let binds = config.bind.iter().map(|address| format!("bind={address},"));
        let binds: String = binds.collect();
        listeners.push(format!("name=tcp,{binds}port={}", config.port));
    }
    if !config.unixsocket.is_empty() {
        listeners.push(format!("name=unix,bind={}", config.unixsocket));
    }
    for (number, listener) in listeners.iter().enumerate() {
        lines.add(&format!("listener{number}"), listener);
    }
}

fn clients(engine: &mut Engine, lines: &mut Lines) {
    let sessions = || engine.sessions.iter().map(|(_, session)| session);
    let subscribers = sessions().filter(|session| session.subscriptions() > 0);
    let watching = sessions().filter(|session| !session.multi.watched.is_empty());
    lines.add("connected_clients", engine.sessions.len());
    lines.add("cluster_connections", 0);
    lines.add("maxclients", engine.config.clients_max);
    let metrics = &engine.metrics;
    lines.add("client_recent_max_input_buffer", metrics.input_buffer_max);
    lines.add("client_recent_max_output_buffer", metrics.output_buffer_max);
    // Those that CLIENT PAUSE holds back among them, as in Redis.
    let blocked = engine.sessions.iter().filter(|(_, s)| s.is_held());
    lines.add("blocked_clients", blocked.count());
    lines.add("tracking_clients", 0);
    lines.add("pubsub_clients", subscribers.count());
    lines.add("watching_clients", watching.count());
    lines.add("clients_in_timeout_table", engine.blocking.timeouts());
    lines.add("total_watched_keys", engine.watch.len());
    lines.add("total_blocking_keys", engine.blocking.keys());
    lines.add("total_blocking_keys_on_nokey", 0);
}

fn allocator_version() -> &'static str {
    let full = tikv_jemalloc_ctl::version::read().unwrap_or("unknown");
    full.split('-').next().unwrap_or(full)
}

/// Resident bytes of the process.
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

/// What scripts and functions take. They share one interpreter: what it used more when libraries
/// had been loaded is told as that of functions, the rest as that of EVAL.
fn script_memory(scripts: &Scripts, ledger: &Ledger, lines: &mut Lines) {
    lines.add("used_memory_lua", ledger.interpreter);
    let functions = scripts.function_bytes().min(ledger.interpreter);
    lines.add("used_memory_vm_eval", ledger.interpreter - functions);
    lines.add("used_memory_scripts_eval", ledger.scripts);
    lines.add("number_of_cached_scripts", scripts.len());
    lines.add("number_of_functions", scripts.functions_len());
    lines.add("number_of_libraries", scripts.libraries().len());
    lines.add("used_memory_vm_functions", functions);
    lines.add_bytes("used_memory_vm_total", ledger.interpreter as u64);
    lines.add("used_memory_functions", ledger.libraries);
    let texts = ledger.scripts + ledger.libraries;
    lines.add_bytes("used_memory_scripts", texts as u64);
}

/// What the ledger says, part by part. Redis has no such lines.
fn counted_memory(ledger: &Ledger, lines: &mut Lines) {
    lines.add("mem_counted", ledger.sum());
    lines.add("mem_entries", ledger.entries);
    lines.add("mem_tables", ledger.tables);
    lines.add("mem_deadline_indexes", ledger.indexes);
    lines.add("mem_graveyard", ledger.graveyard);
    lines.add("mem_snapshot", ledger.snapshot);
    lines.add("mem_vacancies", ledger.vacancies);
    lines.add("mem_web", ledger.web);
}

fn memory(engine: &mut Engine, lines: &mut Lines) {
    let Figures {
        allocated: used,
        active,
        resident,
        ..
    } = engine.sample_memory();
    let rss = resident_bytes();
    let peak = engine.metrics.memory_peak;
    let ledger = engine.ledger();
    let overhead = (ledger.overhead() as u64).min(used);
    let startup = engine.identity.startup_bytes;
    let total = rustix::system::sysinfo();
    let total_bytes = total.totalram as u64 * u64::from(total.mem_unit);
    lines.add_bytes("used_memory", used);
    lines.add_bytes("used_memory_rss", rss);
    lines.add_bytes("used_memory_peak", peak);
    lines.add_percent("used_memory_peak_perc", used, peak);
    lines.add("used_memory_overhead", overhead);
    lines.add("used_memory_startup", startup);
    lines.add("used_memory_dataset", used - overhead);
    let above_startup = used.saturating_sub(startup);
    lines.add_percent("used_memory_dataset_perc", used - overhead, above_startup);
    lines.add("allocator_allocated", used);
    lines.add("allocator_active", active);
    lines.add("allocator_resident", resident);
    lines.add_bytes("total_system_memory", total_bytes);
    script_memory(&engine.scripts, &ledger, lines);
    lines.add_bytes("maxmemory", engine.memory_limit_bytes());
    let policy = crate::config::find("maxmemory-policy").expect("there is this setting");
    let policy = policy.value(&engine.config);
    lines.add("maxmemory_policy", String::from_utf8_lossy(&policy));
    lines.add_ratio("allocator_frag_ratio", active, used);
    lines.add("allocator_frag_bytes", active.saturating_sub(used));
    lines.add_ratio("allocator_rss_ratio", resident, active);
    lines.add("allocator_rss_bytes", resident as i64 - active as i64);
    lines.add_ratio("rss_overhead_ratio", rss, resident);
    lines.add("rss_overhead_bytes", rss as i64 - resident as i64);
    lines.add_ratio("mem_fragmentation_ratio", rss, used);
    lines.add("mem_fragmentation_bytes", rss as i64 - used as i64);
    lines.add("mem_not_counted_for_evict", 0);
    lines.add("mem_replication_backlog", 0);
    lines.add("mem_clients_slaves", 0);
    lines.add("mem_clients_normal", ledger.clients);
    lines.add("mem_aof_buffer", 0);
    lines.add(
        "mem_allocator",
        format_args!("jemalloc-{}", allocator_version()),
    );
    let defrag = &engine.jobs.defrag;
    lines.add("active_defrag_running", defrag.running_percent());
    counted_memory(&ledger, lines);
    let graveyard = &engine.keyspace.graveyard;
    lines.add("lazyfree_pending_objects", graveyard.pending());
    lines.add("lazyfreed_objects", graveyard.freed());
}

/// What is known about loading and saving.
fn persistence(engine: &mut Engine, lines: &mut Lines) {
    lines.add("loading", u8::from(engine.jobs.is_loading()));
    lines.add("async_loading", 0);
    let now_ms = engine.reading.monotonic_us / 1000;
    let saves = &engine.jobs.persistence;
    if let Some((size, read, began_ms)) = saves.load_progress() {
        let took_ms = now_ms.saturating_sub(began_ms);
        let left = size.saturating_sub(read);
        lines.add("loading_total_bytes", size);
        lines.add("loading_loaded_bytes", read);
        let percent = read as f64 * 100.0 / size.max(1) as f64;
        lines.add("loading_loaded_perc", format!("{percent:.2}"));
        let eta_ms = u128::from(took_ms) * u128::from(left) / u128::from(read.max(1));
        lines.add("loading_eta_seconds", eta_ms.div_ceil(1000));
    }
    let seconds = |ms: Option<u64>| ms.map_or(-1, |ms| (ms / 1000) as i64);
    lines.add("rdb_changes_since_last_save", engine.unsaved_changes());
    lines.add("rdb_bgsave_in_progress", u8::from(saves.is_saving()));
    lines.add("rdb_last_save_time", saves.last_save_unix);
    lines.add(
        "rdb_last_bgsave_status",
        if saves.is_last_ok { "ok" } else { "err" },
    );
    lines.add("rdb_last_bgsave_time_sec", seconds(saves.last_duration_ms));
    let current_ms = saves
        .saving_since_ms()
        .map(|since| now_ms.saturating_sub(since));
    lines.add("rdb_current_bgsave_time_sec", seconds(current_ms));
    lines.add("rdb_saves", saves.saves);
    lines.add("rdb_last_cow_size", saves.last_backlog_bytes);
    lines.add("rdb_last_load_keys_expired", saves.loaded.expired);
    lines.add("rdb_last_load_keys_loaded", saves.loaded.keys);
    lines.add("snapshot_last_load_duplicate_keys", saves.loaded.duplicates);
    lines.add("snapshot_last_load_lost_chunks", saves.loaded.lost_chunks);
    lines.add("snapshot_last_load_lost_records", saves.loaded.lost_records);
    lines.add("snapshot_clock_skew_ms", saves.loaded.clock_behind_ms);
    lines.add("aof_enabled", 0);
    lines.add("aof_rewrite_in_progress", 0);
    lines.add("aof_rewrite_scheduled", 0);
}

/// What has been moved to give back memory in between.
fn moved(engine: &Engine, lines: &mut Lines) {
    let defrag = &engine.jobs.defrag;
    let done = defrag.done();
    let (in_all_ms, current_ms) = defrag.active_ms(engine.reading.monotonic_us);
    lines.add("active_defrag_hits", done.moved);
    lines.add("active_defrag_misses", done.left);
    lines.add("active_defrag_key_hits", done.keys_moved);
    lines.add("active_defrag_key_misses", done.keys_left);
    lines.add("total_active_defrag_time", in_all_ms);
    lines.add("current_active_defrag_time", current_ms);
}

fn stats(engine: &mut Engine, lines: &mut Lines) {
    let now_ms = engine.reading.monotonic_us / 1000;
    let (metrics, jobs, space) = (&engine.metrics, &engine.jobs, &engine.keyspace);
    let [commands, input, output] = metrics.rates(now_ms);
    let kilo = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    let topics = |topic| engine.pubsub.topics(topic).len();
    lines.add("total_connections_received", metrics.connections_received);
    lines.add("total_commands_processed", metrics.commands_processed);
    lines.add("instantaneous_ops_per_sec", commands);
    lines.add("total_net_input_bytes", metrics.input_bytes);
    lines.add("total_net_output_bytes", metrics.output_bytes);
    lines.add("instantaneous_input_kbps", kilo(input));
    lines.add("instantaneous_output_kbps", kilo(output));
    lines.add("rejected_connections", metrics.connections_rejected);
    lines.add("sync_full", 0);
    lines.add("sync_partial_ok", 0);
    lines.add("sync_partial_err", 0);
    let stats = &space.stats;
    let fields = stats.members_expired_lazily + stats.members_expired_actively;
    lines.add("expired_subkeys", fields);
    let expired = space.stats.expired_lazily + space.stats.expired_actively;
    lines.add("expired_keys", expired);
    let stale = jobs.pacer.stale_percent(engine.reading.monotonic_us);
    lines.add("expired_stale_perc", format_args!("{stale:.2}"));
    lines.add("expired_time_cap_reached_count", jobs.pacer.cap_hits());
    lines.add("expire_cycle_cpu_milliseconds", jobs.expiry_us / 1000);
    lines.add("evicted_keys", space.stats.evicted);
    lines.add("evicted_clients", metrics.clients_evicted);
    moved(engine, lines);
    let (exceeded_ms, exceeded_in_all_ms) = engine.exceeded_ms();
    lines.add("total_eviction_exceeded_time", exceeded_in_all_ms);
    lines.add("current_eviction_exceeded_time", exceeded_ms);
    lines.add("evicted_scripts", engine.scripts.evicted);
    lines.add("keyspace_hits", space.stats.hits());
    lines.add("keyspace_misses", space.stats.misses());
    lines.add("pubsub_channels", topics(Topic::Channel));
    lines.add("pubsub_patterns", topics(Topic::Pattern));
    lines.add("pubsubshard_channels", topics(Topic::Shard));
    lines.add("latest_fork_usec", 0);
    lines.add("total_forks", 0);
    lines.add("slave_expires_tracked_keys", 0);
    lines.add("unexpected_error_replies", 0);
    lines.add("total_error_replies", metrics.error_replies);
    let closed_for_input = metrics.query_buffer_disconnections;
    let closed_for_output = metrics.output_buffer_disconnections;
    lines.add("client_query_buffer_limit_disconnections", closed_for_input);
    lines.add(
        "client_output_buffer_limit_disconnections",
        closed_for_output,
    );
    lines.add("eventloop_cycles", metrics.turns);
    lines.add("eventloop_duration_sum", metrics.busy_us);
    lines.add("eventloop_duration_cmd_sum", metrics.command_us);
    lines.add("acl_access_denied_auth", metrics.auth_denied);
    lines.add("acl_access_denied_cmd", 0);
    lines.add("acl_access_denied_key", 0);
    lines.add("acl_access_denied_channel", 0);
}

/// Spans of the forecast, with their names, ascending.
const SPANS: [(&str, i64); 4] = [
    ("1s", 1_000),
    ("10s", 10_000),
    ("1min", 60_000),
    ("1h", 3_600_000),
];

/// How expiry is doing.
///
/// * `expiry_lag_ms_p50`, `_p99`, `_max`: how late keys and fields were removed after their
///   deadlines, since start or CONFIG RESETSTAT; the first two to an eighth, rounded up.
/// * `expired_keys_active`, `_lazy`, and the same of fields (`subkeys`): how many were removed by
///   the expiry job, and how many because a command met them.
/// * `dead_keys_resident`: keys whose deadline has passed and that are still there; exact unless
///   more than [`SETTLE_MAX`] are, then those in buckets that have ended, to 8 ms.
/// * `keys_due_within_*`: keys whose deadline comes within that time or has passed; exact, unless
///   more than some thousands have to be looked up: then an estimate, to 1 % (`store/forecast.rs`).
/// * `next_deadline_in_ms_min`, `_max`: between which bounds the next key dies, from now; equal,
///   and exact, unless more than a thousand keys come into question; -1 if none will die.
pub fn expiry_figures(engine: &mut Engine) -> Vec<(String, String)> {
    let now = engine.reading.now;
    let moments = SPANS.map(|(_, ms)| now.plus(ms));
    let dbs = 0..engine.keyspace.databases();
    let due = engine.keyspace.due_until(dbs, &moments);
    let mut figures = Vec::new();
    let mut add = |name: &str, value: &dyn Display| {
        figures.push((name.to_owned(), value.to_string()));
    };
    let space = &engine.keyspace;
    let clock = match engine.config.expire_clock {
        ExpireClock::Monotonic => "monotonic",
        ExpireClock::Wall => "wall",
    };
    add("expire_clock", &clock);
    add("wall_clock_steps", &engine.reading.wall_steps);
    add(
        "active_expire_enabled",
        &u8::from(!engine.is_expiry_paused()),
    );
    let lag = space.lag.of_both();
    add("expiry_lag_ms_p50", &lag.quantile_ms(0.50));
    add("expiry_lag_ms_p99", &lag.quantile_ms(0.99));
    add("expiry_lag_ms_max", &lag.max_ms());
    let stats = &space.stats;
    add("expired_keys_active", &stats.expired_actively);
    add("expired_keys_lazy", &stats.expired_lazily);
    add("expired_subkeys_active", &stats.members_expired_actively);
    add("expired_subkeys_lazy", &stats.members_expired_lazily);
    let indexes = (0..space.databases()).map(|db| &space.db(db).index);
    let dead = indexes.map(|index| index.ripe_len().saturating_sub(index.ripe_extended()));
    add("dead_keys_resident", &dead.sum::<usize>());
    for ((name, _), count) in SPANS.iter().zip(due) {
        add(&format!("keys_due_within_{name}"), &count);
    }
    add("expired_events_written", &space.deaths.written);
    add("expired_events_lost", &space.deaths.lost);
    let nearest = space.nearest_deadline(now);
    let in_ms = |at: Option<UnixMillis>| at.map_or(-1, |at| at.since(now));
    add(
        "next_deadline_in_ms_min",
        &in_ms(nearest.map(|nearest| nearest.min)),
    );
    add(
        "next_deadline_in_ms_max",
        &in_ms(nearest.map(|nearest| nearest.max)),
    );
    figures
}

fn expiry(engine: &mut Engine, lines: &mut Lines) {
    for (name, value) in expiry_figures(engine) {
        lines.add(&name, value);
    }
}

/// There is no replication.
fn replication(_engine: &mut Engine, lines: &mut Lines) {
    lines.add("role", "master");
    lines.add("connected_slaves", 0);
    lines.add("master_failover_state", "no-failover");
    lines.add("master_repl_offset", 0);
    lines.add("second_repl_offset", -1);
    lines.add("repl_backlog_active", 0);
    lines.add("repl_backlog_size", 0);
    lines.add("repl_backlog_first_byte_offset", 0);
    lines.add("repl_backlog_histlen", 0);
}

/// Seconds of CPU time from a `stat` file: user, system, and both of ended children.
pub fn cpu_seconds(path: &str) -> [f64; 4] {
    let text = fs::read_to_string(path).unwrap_or_default();
    // The second field is the program's name, in parentheses, with whatever it may contain.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut ticks = fields.split_whitespace().skip(11);
    std::array::from_fn(|_| {
        let field = ticks.next().and_then(|field| field.parse::<f64>().ok());
        field.unwrap_or(0.0) / TICKS_PER_SECOND
    })
}

fn cpu(_engine: &mut Engine, lines: &mut Lines) {
    let [user, sys, child_user, child_sys] = cpu_seconds("/proc/self/stat");
    let [thread_user, thread_sys, ..] = cpu_seconds("/proc/thread-self/stat");
    for (name, seconds) in [
        ("sys", sys),
        ("user", user),
        ("sys_children", child_sys),
        ("user_children", child_user),
        ("sys_main_thread", thread_sys),
        ("user_main_thread", thread_user),
    ] {
        lines.add(&format!("used_cpu_{name}"), format_args!("{seconds:.6}"));
    }
}

fn commandstats(engine: &mut Engine, lines: &mut Lines) {
    for (number, stat) in engine.metrics.commands.iter().enumerate() {
        if stat.calls + stat.rejected + stat.failed == 0 {
            continue;
        }
        let name = table().entry(number as u16).full_name();
        lines.push(format_args!(
            "cmdstat_{name}:calls={},usec={},usec_per_call={:.2},rejected_calls={},failed_calls={}",
            stat.calls,
            stat.us,
            stat.us as f64 / stat.calls.max(1) as f64,
            stat.rejected,
            stat.failed,
        ));
    }
}

/// What clients asked for that does not exist here, by name in lower case.
fn unknown_commands(engine: &mut Engine, lines: &mut Lines) {
    let unknown = &engine.metrics.unknown;
    for (name, calls) in &unknown.calls {
        lines.push(format_args!("unknown_command_{name}:calls={calls}"));
    }
    if unknown.other_calls > 0 {
        let calls = unknown.other_calls;
        lines.push(format_args!("unknown_commands_other:calls={calls}"));
    }
}

fn errorstats(engine: &mut Engine, lines: &mut Lines) {
    for (code, count) in &engine.metrics.errors {
        lines.push(format_args!("errorstat_{code}:count={count}"));
    }
}

/// Databases with keys in them. An empty one is not shown: Datadog divides by its number of keys.
fn keyspace(engine: &mut Engine, lines: &mut Lines) {
    let (space, now) = (&engine.keyspace, engine.reading.now);
    for number in 0..space.databases() {
        let db = space.db(number);
        let (keys, expires) = if engine.is_expiry_paused() {
            (db.table.len(), db.index.len())
        } else {
            (space.live_len(number), space.volatile_len(number))
        };
        if keys == 0 {
            continue;
        }
        let mean = db.index.mean_deadline();
        let avg_ttl_ms = mean.map_or(0, |mean| mean.since(now).max(0));
        lines.push(format_args!(
            "db{number}:keys={keys},expires={expires},avg_ttl={avg_ttl_ms},subexpiry={}",
            space.dated_len(number)
        ));
    }
}
