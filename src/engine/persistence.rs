//! When snapshots are saved and loaded, and what INFO tells about it.
//!
//! BGSAVE and the save points start a job that runs in slices between requests; SAVE, SHUTDOWN and
//! DEBUG RELOAD save at once, after giving up a running job. After a failure the save points wait
//! longer and longer. Loading is a job too: the server answers -LOADING meanwhile.
//!
//! Redis: refuses writes after a failed save (`stop-writes-on-bgsave-error yes`); here the default
//! is no: a cache that stops because a disk is full helps nobody. The error is logged and shown.
//!
//! A file that could be loaded only in part stays beside the next snapshot under a name of its own.
//!
//! Invariants: while a snapshot is loaded nothing expires; a cut of the keyspace is active iff a
//! job is running.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Engine;
use crate::clock::Clock;
use crate::config::expiry_rules::ExpiryRule;
use crate::config::{Config, split_line};
use crate::resp::error::CommandError;
use crate::snapshot::loader::{self, LoadError, LoadOptions, Loaded, Loader};
use crate::snapshot::storage::{Disk, Storage};
use crate::snapshot::writer::{self, SaveError, Target};
use crate::snapshot::{CLEAN_AFTER, Cleaner, Job, Progress};
use crate::store::expiry_rules::Rules;

/// Share of the time that a save may take while requests wait, in percent.
const BUSY_SHARE_PERCENT: u64 = 20;
/// What the share may have saved up, in microseconds.
const BUSY_BURST_US: u64 = 500;
/// How often the loop looks after a disk that is busy, in ms.
pub const DISK_POLL_MS: u64 = 2;
/// First and longest wait of the save points after a failure, in ms.
const RETRY_MS: (u64, u64) = (5_000, 300_000);

/// A running save.
struct Running {
    job: Job,
    started_ms: u64,
    dirty_at_cut: u64,
    /// The file it replaces is set aside.
    keeps_old: bool,
    is_waiting: bool,
}

/// Saves and loads.
pub struct Persistence {
    /// What keeps the snapshots.
    pub storage: Arc<dyn Storage>,
    running: Option<Running>,
    cleaner: Option<Cleaner>,
    loader: Option<Loader>,
    load_started_ms: u64,
    /// BGSAVE SCHEDULE: start when possible.
    pub is_scheduled: bool,
    /// Unix seconds of the last good save, or of the start.
    pub last_save_unix: i64,
    /// The last background save succeeded.
    pub is_last_ok: bool,
    /// An interrupt did not end the server because the save before it failed; forgotten with the
    /// next save that succeeds.
    pub is_interrupt_refused: bool,
    /// How long the last background save took, in ms.
    pub last_duration_ms: Option<u64>,
    /// Saves finished since start.
    pub saves: u64,
    /// Saves that failed or were given up, since start.
    pub saves_failed: u64,
    /// Length of the snapshot that was saved last, in bytes; none before the first save.
    pub last_bytes: Option<u64>,
    /// Largest backlog of kept entries of the last save, in bytes.
    pub last_backlog_bytes: usize,
    backlog_bytes: usize,
    dirty_saved: u64,
    failures: u32,
    retry_at_ms: u64,
    started: u64,
    tokens_us: u64,
    refilled_us: u64,
    /// What the load at start did.
    pub loaded: Loaded,
    /// The file that was loaded in part and is not to be replaced.
    lossy: Option<PathBuf>,
}

impl Persistence {
    /// Nothing saved, nothing running.
    pub fn new(unix_s: i64) -> Persistence {
        Persistence {
            storage: Arc::new(Disk),
            running: None,
            cleaner: None,
            loader: None,
            load_started_ms: 0,
            is_scheduled: false,
            last_save_unix: unix_s,
            is_last_ok: true,
            is_interrupt_refused: false,
            last_duration_ms: None,
            saves: 0,
            saves_failed: 0,
            last_bytes: None,
            last_backlog_bytes: 0,
            backlog_bytes: 0,
            dirty_saved: 0,
            failures: 0,
            retry_at_ms: 0,
            started: 0,
            tokens_us: 0,
            refilled_us: 0,
            loaded: Loaded::default(),
            lossy: None,
        }
    }

    /// Whether a save is running.
    pub fn is_saving(&self) -> bool {
        self.running.is_some()
    }

    /// Whether a snapshot is being loaded.
    pub fn is_loading(&self) -> bool {
        self.loader.is_some()
    }

    /// When the running save began, in ms of monotonic time.
    pub fn saving_since_ms(&self) -> Option<u64> {
        self.running.as_ref().map(|running| running.started_ms)
    }

    /// Bytes that a running save has given to its thread and that are not written yet.
    pub fn waiting_bytes(&self) -> usize {
        let running = self.running.as_ref();
        running.map_or(0, |running| running.job.waiting_bytes())
    }

    /// Changes up to the last save.
    pub fn dirty_saved(&self) -> u64 {
        self.dirty_saved
    }

    /// While loading: bytes of the file, bytes read, and when it began, in ms of monotonic time.
    pub fn load_progress(&self) -> Option<(u64, u64, u64)> {
        let (size, read) = self.loader.as_ref()?.progress();
        Some((size, read, self.load_started_ms))
    }

    /// How long the loop may sleep for the sake of saving or loading.
    pub fn wakeup_ms(&self) -> Option<u64> {
        if self.loader.is_some() || self.cleaner.is_some() {
            return Some(0);
        }
        self.running
            .as_ref()
            .map(|running| if running.is_waiting { DISK_POLL_MS } else { 0 })
    }
}

impl Engine {
    /// Records effects by which all that was there is replaced by all that is here now.
    pub fn restate(&mut self) {
        self.keyspace.restate(&self.reading);
        let effects = &mut self.keyspace.effects;
        effects.record(0, [b"FUNCTION".as_slice(), b"FLUSH"]);
        for (_, library) in self.scripts.libraries() {
            effects.record(0, [b"FUNCTION".as_slice(), b"LOAD", &library.code]);
        }
    }

    /// Whether data may be changed now.
    ///
    /// # Errors
    /// If not, because saves fail and `stop-writes-on-bgsave-error` is on.
    pub fn check_writes(&self) -> Result<(), CommandError> {
        let config = &self.config;
        let is_failing = !self.jobs.persistence.is_last_ok && !config.save.is_empty();
        if !config.stop_writes_on_save_error || !is_failing {
            return Ok(());
        }
        Err(CommandError::text(
            "MISCONF Errors writing the snapshot to disk; writes are refused because \
             stop-writes-on-bgsave-error is on. See the log and INFO persistence.",
        ))
    }

    /// Where the snapshot is.
    pub fn snapshot_path(&self) -> PathBuf {
        PathBuf::from(&self.config.dir).join(&self.config.dbfilename)
    }

    /// Where the next save goes, and whether what is there now is set aside.
    fn next_target(&mut self) -> Target {
        let path = self.snapshot_path();
        let persistence = &mut self.jobs.persistence;
        persistence.started += 1;
        Target {
            storage: Arc::clone(&persistence.storage),
            nth: persistence.started,
            keeps_old: persistence.lossy.as_ref() == Some(&path),
            path,
        }
    }

    /// FLUSHALL: what was flushed must not come back with the next start if the server is set up to
    /// save by itself. As in Redis an error is only logged.
    pub fn save_flushed(&mut self) {
        if !self.config.save.is_empty() {
            // It has been logged and shows in INFO.
            let _ = self.save_now();
        }
    }

    /// Changes since the last save.
    pub fn unsaved_changes(&self) -> u64 {
        self.keyspace
            .changes
            .dirty()
            .saturating_sub(self.jobs.persistence.dirty_saved)
    }

    /// Starts a background save. False if one is running already (or stamps are being cleaned).
    ///
    /// # Errors
    /// If the operating system has no thread for it.
    pub fn begin_save(&mut self) -> std::io::Result<bool> {
        let persistence = &self.jobs.persistence;
        if persistence.running.is_some() || persistence.cleaner.is_some() {
            return Ok(false);
        }
        let limit = self.config.snapshot_backlog_bytes_limit as usize;
        let target = self.next_target();
        let keeps_old = target.keeps_old;
        let job = Job::begin(
            &mut self.keyspace,
            &self.reading,
            target,
            &self.config.expiry_rules,
            &mut self.scripts.library_texts(),
            limit,
        )?;
        let persistence = &mut self.jobs.persistence;
        persistence.is_scheduled = false;
        persistence.backlog_bytes = 0;
        persistence.running = Some(Running {
            job,
            started_ms: self.reading.monotonic_us / 1000,
            dirty_at_cut: self.keyspace.changes.dirty(),
            keeps_old,
            is_waiting: false,
        });
        log::info!("Background saving started");
        Ok(true)
    }

    /// Gives a running background save up.
    pub fn abort_save(&mut self) {
        if self.jobs.persistence.running.take().is_some() {
            self.keyspace.end_cut();
            self.jobs.persistence.failures += 1;
            self.jobs.persistence.saves_failed += 1;
            self.clean_after_failures();
            log::info!("Background saving was given up");
        }
    }

    /// Saves at once, holding everybody up.
    ///
    /// # Errors
    /// Why there is no new snapshot.
    pub fn save_now(&mut self) -> Result<(), String> {
        self.abort_save();
        // The stamps a cleaner has not reached belong to saves that never were.
        if let Some(mut cleaner) = self.jobs.persistence.cleaner.take() {
            while cleaner.step(&mut self.keyspace) {}
        }
        let target = self.next_target();
        let keeps_old = target.keeps_old;
        let job = Job::begin(
            &mut self.keyspace,
            &self.reading,
            target,
            &self.config.expiry_rules,
            &mut self.scripts.library_texts(),
            usize::MAX,
        )
        .map_err(|error| error.to_string())?;
        let dirty = self.keyspace.changes.dirty();
        let result = job.complete(&mut self.keyspace, &self.reading);
        self.keyspace.end_cut();
        self.note_saved(result, dirty, keeps_old)
    }

    /// Notes how a save ended: how many changes it holds, and whether it set aside the file that
    /// was loaded in part, which only the first one does.
    fn note_saved(
        &mut self,
        result: Result<u64, SaveError>,
        dirty: u64,
        keeps_old: bool,
    ) -> Result<(), String> {
        let wall_s = self.reading.wall_us.div_euclid(1_000_000);
        let now_ms = self.reading.monotonic_us / 1000;
        let persistence = &mut self.jobs.persistence;
        match &result {
            &Ok(bytes) => {
                persistence.last_bytes = Some(bytes);
                persistence.last_save_unix = wall_s;
                persistence.dirty_saved = dirty;
                persistence.saves += 1;
                persistence.failures = 0;
                persistence.is_interrupt_refused = false;
                if keeps_old {
                    persistence.lossy = None;
                }
                log::info!("DB saved on disk");
            }
            Err(error) => {
                let wait_ms = RETRY_MS.0 << persistence.failures.min(10);
                persistence.retry_at_ms = now_ms + wait_ms.min(RETRY_MS.1);
                persistence.failures += 1;
                persistence.saves_failed += 1;
                if keeps_old && error.has_replaced {
                    persistence.lossy = None;
                }
                log::warn!("Saving the snapshot failed: {}", error.text);
            }
        }
        persistence.is_last_ok = result.is_ok();
        self.clean_after_failures();
        result.map(drop).map_err(|error| error.text)
    }

    /// Starts restamping before the stamps of saves that were given up come round.
    fn clean_after_failures(&mut self) {
        let persistence = &mut self.jobs.persistence;
        if persistence.failures >= CLEAN_AFTER && persistence.cleaner.is_none() {
            persistence.failures = 0;
            persistence.cleaner = Some(Cleaner::begin(&mut self.keyspace));
        }
    }

    /// One slice of saving or loading, until `until_us` at the latest.
    pub(super) fn persist_slice(&mut self, clock: &mut dyn Clock, until_us: u64, is_idle: bool) {
        if self.jobs.persistence.loader.is_some() {
            self.load_slice(clock, until_us);
        }
        if self.jobs.persistence.is_scheduled && !self.jobs.persistence.is_saving() {
            // Without a thread there is no save now; the schedule stays.
            if let Err(error) = self.begin_save() {
                log::warn!("Background saving could not start: {error}");
            }
        }
        if let Some(mut cleaner) = self.jobs.persistence.cleaner.take()
            && cleaner.step(&mut self.keyspace)
        {
            self.jobs.persistence.cleaner = Some(cleaner);
        }
        let Some(mut running) = self.jobs.persistence.running.take() else {
            return;
        };
        let start_us = self.reading.monotonic_us;
        let end_us = until_us.min(start_us + self.saving_budget_us(start_us, is_idle));
        let backlog = self.keyspace.cut.queued_bytes();
        self.jobs.persistence.backlog_bytes = self.jobs.persistence.backlog_bytes.max(backlog);
        let result = loop {
            let progress = running.job.step(&mut self.keyspace, &self.reading);
            self.reading = clock.read();
            running.is_waiting = progress == Progress::Waiting;
            match progress {
                Progress::Done(result) => break Some(result),
                Progress::Waiting => break None,
                Progress::More if self.reading.monotonic_us >= end_us => break None,
                Progress::More => {}
            }
        };
        let spent_us = self.reading.monotonic_us - start_us;
        let persistence = &mut self.jobs.persistence;
        persistence.tokens_us = persistence.tokens_us.saturating_sub(spent_us);
        let Some(result) = result else {
            persistence.running = Some(running);
            return;
        };
        let took_ms = self.reading.monotonic_us / 1000 - running.started_ms;
        persistence.last_duration_ms = Some(took_ms);
        persistence.last_backlog_bytes = persistence.backlog_bytes;
        self.keyspace.end_cut();
        let (dirty, keeps_old) = (running.dirty_at_cut, running.keeps_old);
        let noted = self.note_saved(result, dirty, keeps_old);
        if noted.is_ok() {
            log::info!("Background saving terminated with success");
        }
    }

    /// Time a slice of saving may take: all of it when nobody waits, else a share.
    fn saving_budget_us(&mut self, now_us: u64, is_idle: bool) -> u64 {
        let persistence = &mut self.jobs.persistence;
        let elapsed_us = now_us - persistence.refilled_us.min(now_us);
        persistence.refilled_us = now_us;
        let earned_us = elapsed_us.min(1_000_000) * BUSY_SHARE_PERCENT / 100;
        persistence.tokens_us = (persistence.tokens_us + earned_us).min(BUSY_BURST_US);
        if is_idle {
            u64::MAX / 2
        } else {
            persistence.tokens_us
        }
    }

    /// Starts a save if a save point says so.
    pub(super) fn check_save_points(&mut self, now_ms: u64) {
        let persistence = &self.jobs.persistence;
        if persistence.is_saving() || persistence.is_loading() {
            return;
        }
        let may_retry = persistence.is_last_ok || now_ms >= persistence.retry_at_ms;
        let since_s = self.reading.wall_us.div_euclid(1_000_000) - persistence.last_save_unix;
        let changes = self.unsaved_changes();
        let point = self.config.save.iter().find(|point| {
            changes >= point.changes.max(1) && since_s > 0 && since_s as u64 > point.seconds
        });
        let Some(point) = point.filter(|_| may_retry) else {
            return;
        };
        log::info!(
            "{} changes in {} seconds. Saving...",
            point.changes,
            point.seconds
        );
        if let Err(error) = self.begin_save() {
            log::warn!("Background saving could not start: {error}");
        }
    }

    /// When a save point may come due, in ms from now: with unsaved changes at most a second.
    pub(super) fn save_point_wakeup_ms(&self) -> Option<u64> {
        (self.unsaved_changes() > 0 && !self.config.save.is_empty()).then_some(1000)
    }

    fn load_options(&self) -> LoadOptions {
        LoadOptions {
            keeps_expired: self.config.load_keeps_expired,
            is_partial: self.config.snapshot_load == crate::config::SnapshotLoad::Partial,
        }
    }

    /// Starts loading the snapshot, if there is one; until it is loaded, commands that need keys
    /// are refused.
    ///
    /// # Errors
    /// If the file is there but is no snapshot that can be read.
    pub fn begin_load(&mut self) -> Result<bool, LoadError> {
        let path = self.snapshot_path();
        let storage = Arc::clone(&self.jobs.persistence.storage);
        writer::remove_stale(&*storage, &path);
        let loader = Loader::open(&*storage, &path, &self.reading, self.load_options())?;
        let persistence = &mut self.jobs.persistence;
        persistence.load_started_ms = self.reading.monotonic_us / 1000;
        persistence.loader = loader;
        self.refreeze();
        if !self.jobs.is_loading() {
            warn_of_rdb(&*storage, &path);
        }
        if let Err(error) = writer::check_directory(&*storage, &path) {
            log::warn!("Snapshots cannot be saved: {error}");
        }
        Ok(self.jobs.is_loading())
    }

    fn load_slice(&mut self, clock: &mut dyn Clock, until_us: u64) {
        let Some(mut loader) = self.jobs.persistence.loader.take() else {
            return;
        };
        loop {
            match loader.step(&mut self.keyspace, &self.reading) {
                Ok(false) => {}
                Ok(true) => {
                    self.reading = clock.read();
                    self.finish_load(&loader);
                    self.scripts.restore_libraries(loader.into_libraries());
                    let started_ms = self.jobs.persistence.load_started_ms;
                    let took_ms = self.reading.monotonic_us / 1000 - started_ms;
                    log::info!(
                        "DB loaded from disk: {}.{:03} seconds",
                        took_ms / 1000,
                        took_ms % 1000
                    );
                    return;
                }
                Err(error) => {
                    report_failed_load(&self.snapshot_path(), &error);
                    self.exit = Some(1);
                    return;
                }
            }
            self.reading = clock.read();
            if self.reading.monotonic_us >= until_us {
                self.jobs.persistence.loader = Some(loader);
                return;
            }
        }
    }

    fn finish_load(&mut self, loader: &Loader) {
        let loaded = loader.loaded();
        let path = self.snapshot_path();
        let persistence = &mut self.jobs.persistence;
        persistence.loaded = loaded;
        persistence.dirty_saved = self.keyspace.changes.dirty();
        self.refreeze();
        self.add_rules(loader.rules());
        log::info!(
            "Done loading the snapshot, keys loaded: {}, keys expired: {}.",
            loaded.keys,
            loaded.expired
        );
        if loaded.lost_chunks > 0 {
            log::warn!(
                "{} chunks of the snapshot with {} records were NOT loaded. The next save leaves \
                 {} as it is, under another name beside it.",
                loaded.lost_chunks,
                loaded.lost_records,
                path.display()
            );
            self.jobs.persistence.lossy = Some(path);
        }
        if loaded.clock_behind_ms > 1_000 {
            log::warn!(
                "The clock is {} ms behind the time of the snapshot; deadlines stay as they are",
                loaded.clock_behind_ms
            );
        }
    }

    /// Adds the rules of expiry of a snapshot to those that are there. One of the same name, or for
    /// the same prefix, stays as it is: it is from the configuration, or newer.
    fn add_rules(&mut self, texts: &[Vec<u8>]) {
        let Config {
            expiry_rules: rules,
            databases,
            ..
        } = &mut self.config;
        let mut add = |text: &[u8]| {
            let words = split_line(text).ok_or("unbalanced quotes")?;
            let rule = ExpiryRule::parse(&words)?;
            if rule.db.is_some_and(|db| db >= *databases) {
                return Err("there is no such database".to_owned());
            }
            match rules.get(&rule.name) {
                Some(_) => Ok(()),
                None => rules.add(rule.into()),
            }
        };
        for text in texts {
            if let Err(why) = add(text) {
                log::warn!(
                    "A rule of expiry in the snapshot was left out ({}): {why}",
                    String::from_utf8_lossy(text)
                );
            }
        }
        self.keyspace.rules = Rules::new(&self.config.expiry_rules);
    }

    /// Loads the snapshot at once, over what is there: DEBUG RELOAD.
    ///
    /// # Errors
    /// What is damaged; some keys may have been loaded.
    pub fn load_now(&mut self) -> Result<(), LoadError> {
        let libraries = self.load_keys_now()?;
        self.scripts.restore_libraries(libraries);
        self.restate();
        Ok(())
    }

    /// The same of the keys alone; the texts of the libraries of functions. Whoever loads these has
    /// all restated.
    ///
    /// # Errors
    /// What is damaged; some keys may have been loaded.
    pub fn load_keys_now(&mut self) -> Result<Vec<Vec<u8>>, LoadError> {
        let path = self.snapshot_path();
        let storage = &*self.jobs.persistence.storage;
        let loader = Loader::open(storage, &path, &self.reading, self.load_options())?;
        let Some(mut loader) = loader else {
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound).into());
        };
        while !loader.step(&mut self.keyspace, &self.reading)? {}
        self.finish_load(&loader);
        log::warn!("DB reloaded by DEBUG RELOAD");
        Ok(loader.into_libraries())
    }
}

/// Says why a snapshot was not loaded to its end.
fn report_failed_load(path: &Path, error: &LoadError) {
    let path = path.display();
    match error {
        LoadError::Io(error) => log::error!(
            "Fatal: the snapshot {path} cannot be read: {error}. It was left as it is. Exiting."
        ),
        _ if error.is_misfit() => log::error!(
            "Fatal: the snapshot {path} does not fit the settings: {error}. It was left as it is. \
             Exiting."
        ),
        _ => log::error!(
            "Fatal: the snapshot {path} is damaged: {error}. It was left as it is. \
             `mayfly check FILE` examines it, --snapshot-load partial loads what is whole. Exiting."
        ),
    }
}

/// Says that a file which only Redis or Valkey can read lies where somebody may expect it to be
/// loaded.
fn warn_of_rdb(storage: &dyn Storage, path: &Path) {
    let rdb = path.with_extension("rdb");
    if loader::is_rdb(storage, &rdb) {
        log::warn!(
            "{} is an RDB file of Redis or Valkey. Mayfly cannot read it, leaves it as it is and \
             starts empty.",
            rdb.display()
        );
    }
}
