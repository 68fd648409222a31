//! Snapshots without fork: the exact state of one instant, written while the server goes on.
//!
//! At the *cut* the keyspace's epoch is raised by one. From then on an entry is *pending* iff its
//! stamp is not the epoch. A [`Job`] sweeps all segments in slices and encodes pending entries;
//! a command that is about to change or remove a pending entry leaves it, as it was, in the
//! keyspace's [`Cut`](crate::store::preimages::Cut), and the job encodes it from there. Entries
//! made after the cut are born with the new stamp. So each entry is encoded exactly once, as it was
//! at the cut.
//!
//! A key whose deadline has passed when it is met is stamped and not encoded, and so is a field of
//! a hash: whoever loads the file later would drop it. (A loader whose clock shows an earlier time
//! than the cut sees the difference in the header.)
//!
//! Of a big collection the sweep takes a copy of the spine, and encodes its pieces one by one: a
//! piece that a command changes meanwhile is copied by that command, so the file shows it as it
//! was.
//!
//! ```text
//! sweep ──┐                                   bounded channel
//!         ├─> Encoder ─> chunks (256 KiB) ───────────────────> thread: checksum, write, fsync,
//! kept ───┘                                                    rename
//! ```
//!
//! The job knows what is to be saved, when, and how much of it a step may do; the
//! [`Encoder`] knows how it looks in the file.
//!
//! Crossings: SWAPDB moves tables with the number they had at the cut; a flushed database stays
//! with the keyspace until the job is done; a segment that was split or merged is walked again,
//! where stamps prevent duplicates. If kept entries take more than `snapshot-backlog-limit` the
//! job gives up and the previous file stays.
//!
//! Before the footer is written the keys are counted: those written, those left out because they
//! were due, and those removed as due before the sweep met them must be as many as there were at
//! the cut. If they are not, the file would not be whole, and the previous one stays.
//!
//! After a finished sweep every entry carries the epoch. A sweep that was given up leaves mixed
//! stamps, which are harmless until the 8-bit epoch comes round to one of them; the job therefore
//! restamps everything first when [`CLEAN_AFTER`] snapshots in a row were given up.
//!
//! Not here: when to save, and what INFO says about it (`engine::persistence`).

pub mod encoder;
pub mod format;
pub mod loader;
pub mod storage;
pub mod writer;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::clock::Reading;
use crate::config::expiry_rules::ExpiryRules;
use crate::expiry::{Deadline, is_due};
use crate::store::entry::{Form, Slot, ValueRef};
use crate::store::table::Walk;
use crate::store::{Keyspace, collection};
use crate::value::{Frozen, StringRef, Value};
use encoder::{Encoder, Extras, Head, Stream};
use writer::{SaveError, Target, Writer};

/// Snapshots given up in a row before entries are restamped.
pub const CLEAN_AFTER: u32 = 200;
/// Buckets walked between two readings of the clock,
const BUCKETS_PER_STEP: usize = 256;
/// and fewer if this many bytes have been encoded before.
const BYTES_PER_STEP: usize = 128 * 1024;
/// Kept entries encoded between two readings of the clock.
const KEPT_PER_STEP: usize = 64;

/// How a step of a job ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do at once.
    More,
    /// The disk is busy.
    Waiting,
    /// It is over: the file's length in bytes, or why there is none.
    Done(Result<u64, SaveError>),
}

/// A snapshot being taken.
pub struct Job {
    writer: Writer,
    /// Numbers at the cut of the databases still to be swept, the next one last.
    left: Vec<u16>,
    walk: Walk,
    /// Big collections that are being written, part by part.
    unfolding: VecDeque<Unfolding>,
    encoder: Encoder,
    /// Bytes copied into chunks by this step.
    step_bytes: usize,
    is_finishing: bool,
    backlog_bytes_max: usize,
    /// Keys at the cut, and how many of them have been met, due ones included.
    keys_at_cut: u64,
    keys_met: u64,
}

impl Job {
    /// Makes the cut and starts writing to `target`.
    ///
    /// # Errors
    /// If no thread can be started; nothing was changed.
    pub fn begin(
        keyspace: &mut Keyspace,
        reading: &Reading,
        target: Target,
        rules: &ExpiryRules,
        libraries: &mut dyn Iterator<Item = &[u8]>,
        backlog_bytes_max: usize,
    ) -> std::io::Result<Job> {
        let databases = keyspace.databases();
        let keys = (0..databases)
            .map(|db| keyspace.db(db).table.len() as u64)
            .sum();
        let header = encoder::header(reading.to_wall(reading.now), keys, databases);
        let writer = Writer::start(target, header)?;
        keyspace.begin_cut();
        let mut encoder = Encoder::default();
        libraries.for_each(|code| encoder.library(code));
        encoder.rules(
            &rules
                .iter()
                .map(|rule| rule.print())
                .collect::<Vec<String>>(),
        );
        Ok(Job {
            writer,
            left: keyspace.numbers_of_cut().into_iter().rev().collect(),
            walk: Walk::default(),
            unfolding: VecDeque::new(),
            encoder,
            step_bytes: 0,
            is_finishing: false,
            backlog_bytes_max,
            keys_at_cut: keys,
            keys_met: 0,
        })
    }

    /// Does a small piece of the work. The caller ends the keyspace's cut when it is over.
    pub fn step(&mut self, keyspace: &mut Keyspace, reading: &Reading) -> Progress {
        if let Some(result) = self.writer.poll() {
            return Progress::Done(result);
        }
        if keyspace.cut.queued_bytes() > self.backlog_bytes_max {
            let text = format!(
                "writes changed more than snapshot-backlog-limit ({} bytes) faster than the disk \
                 took it",
                self.backlog_bytes_max
            );
            return Progress::Done(Err(text.into()));
        }
        while let Some(buffer) = self.writer.recycled() {
            self.encoder.reuse(buffer);
        }
        if !self.send_finished() {
            return Progress::Waiting;
        }
        if self.is_finishing {
            return Progress::Waiting;
        }
        self.step_bytes = 0;
        // What is kept takes memory until it is encoded. So does a big collection on its way, more
        // and more as commands change it: no others are looked for before it is written.
        if self.encode_kept(keyspace, reading)
            || self.unfold(reading)
            || self.encode_kept_big(keyspace, reading)
            || self.sweep(keyspace, reading)
        {
            // What the writer has no room for now comes first the next time.
            self.send_finished();
            return Progress::More;
        }
        self.finish(keyspace.cut.unkept)
    }

    /// Bytes that wait to be written.
    pub fn waiting_bytes(&self) -> usize {
        self.writer.waiting_bytes()
    }

    /// Hands finished chunks to the writer; false if it has no room for all of them.
    fn send_finished(&mut self) -> bool {
        while let Some(chunk) = self.encoder.next_chunk() {
            if let Err(chunk) = self.writer.try_send(chunk) {
                self.encoder.give_back(chunk);
                return false;
            }
        }
        true
    }

    /// Writes a part of a big collection; false if there is none to be written.
    fn unfold(&mut self, reading: &Reading) -> bool {
        let Some(mut unfolding) = self.unfolding.pop_front() else {
            return false;
        };
        let encoder = &mut self.encoder;
        encoder.begin_part(unfolding.frozen.is_dated);
        let is_over = unfolding.fill(encoder, reading);
        let (head, kind) = (unfolding.head(), unfolding.frozen.kind);
        if let Some(bytes) = encoder.end_part(head, kind, unfolding.part) {
            self.step_bytes += bytes;
            unfolding.part += 1;
        }
        if !is_over {
            self.unfolding.push_front(unfolding);
        }
        true
    }

    /// Encodes entries that commands have kept; false if there are none.
    fn encode_kept(&mut self, keyspace: &mut Keyspace, reading: &Reading) -> bool {
        let mut has_any = false;
        for _ in 0..KEPT_PER_STEP {
            if self.step_bytes >= BYTES_PER_STEP {
                break;
            }
            let Some((db, slot)) = keyspace.cut.take() else {
                break;
            };
            has_any = true;
            self.encode(Stream::Kept, db, &slot, reading);
        }
        has_any
    }

    /// Notes the next big collection that a command has kept; false if there is none.
    fn encode_kept_big(&mut self, keyspace: &mut Keyspace, reading: &Reading) -> bool {
        let Some((db, slot)) = keyspace.cut.take_big() else {
            return false;
        };
        self.encode(Stream::Kept, db, &slot, reading);
        true
    }

    /// Walks on; false if everything has been walked.
    fn sweep(&mut self, keyspace: &mut Keyspace, reading: &Reading) -> bool {
        let Some(&number) = self.left.last() else {
            return false;
        };
        let epoch = keyspace.cut.epoch;
        let mut walk = self.walk;
        if let Some(db) = keyspace.database_of_cut(number) {
            db.table.walk(&mut walk, BUCKETS_PER_STEP, |slot| {
                if slot.epoch() != epoch {
                    self.encode(Stream::Swept, number, slot, reading);
                    slot.set_epoch(epoch);
                }
                self.step_bytes < BYTES_PER_STEP && self.unfolding.is_empty()
            });
        }
        self.walk = walk;
        if walk.is_done() || keyspace.database_of_cut(number).is_none() {
            self.left.pop();
            self.walk = Walk::default();
        }
        true
    }

    fn encode(&mut self, stream: Stream, db: u16, slot: &Slot, reading: &Reading) {
        self.keys_met += 1;
        let deadline = slot.deadline();
        if deadline.is_some_and(|deadline| is_due(deadline, reading.now)) {
            return;
        }
        let head = Head {
            db,
            key: slot.key(),
            deadline: deadline.map(|deadline| reading.to_wall(deadline.0)),
            extras: Extras {
                sliding_ms: slot.sliding_ms(),
                soft_before_ms: slot.soft().map(|soft| soft.before_ms),
            },
        };
        let Some(value) = slot.string() else {
            return self.encode_collection(head, slot, reading);
        };
        let is_edited = slot.form() == Form::RawString;
        let share = || shared(slot);
        self.step_bytes += self.encoder.string(stream, head, value, is_edited, share);
    }

    /// Encodes a small collection, or notes a big one as it is now, to be written in parts.
    fn encode_collection(&mut self, head: Head<'_>, slot: &Slot, reading: &Reading) {
        if let ValueRef::Boxed(value) = slot.value() {
            let unfolding = value.freeze().map(|frozen| Unfolding {
                db: head.db,
                key: head.key.into(),
                deadline: head.deadline,
                extras: head.extras,
                frozen,
                part: 0,
                element: 0,
            });
            self.unfolding.extend(unfolding);
            return;
        }
        let encoder = &mut self.encoder;
        encoder.begin_part(slot.is_dated());
        collection::for_each_small(slot, |strings, deadline| {
            encode_element(encoder, strings, deadline, reading);
        });
        let bytes = encoder.end_part(head, slot.kind(), 0);
        self.step_bytes += bytes.unwrap_or(0);
    }

    /// Ends the file, given how many due keys of the cut were removed unmet.
    fn finish(&mut self, unkept: u64) -> Progress {
        let keys = self.keys_met + unkept;
        if keys != self.keys_at_cut {
            let text = format!(
                "{} keys at the cut, but {keys} were written or due: this is a bug in Mayfly",
                self.keys_at_cut
            );
            return Progress::Done(Err(text.into()));
        }
        let footer = self.encoder.finish();
        if self.send_finished() && self.writer.finish(footer) {
            self.is_finishing = true;
        }
        Progress::Waiting
    }

    /// Does all that is left at once, waiting for the disk.
    pub fn complete(
        mut self,
        keyspace: &mut Keyspace,
        reading: &Reading,
    ) -> Result<u64, SaveError> {
        loop {
            match self.step(keyspace, reading) {
                Progress::More => {}
                Progress::Done(result) => return result,
                Progress::Waiting if self.is_finishing => return self.writer.wait(),
                Progress::Waiting => std::thread::yield_now(),
            }
        }
    }
}

/// A big collection on its way into the file.
struct Unfolding {
    db: u16,
    key: Box<[u8]>,
    /// Unix ms.
    deadline: Option<i64>,
    extras: Extras,
    frozen: Frozen,
    /// Number of the next part.
    part: u32,
    /// Elements of the next piece that are in earlier parts.
    element: usize,
}

impl Unfolding {
    /// What stands in the record of each part.
    fn head(&self) -> Head<'_> {
        Head {
            db: self.db,
            key: &self.key,
            deadline: self.deadline,
            extras: self.extras,
        }
    }

    /// Adds elements of the next piece until a part is full; true if nothing is left.
    fn fill(&mut self, encoder: &mut Encoder, reading: &Reading) -> bool {
        let stopped = self.frozen.walk(self.element, |strings, deadline| {
            encode_element(encoder, strings, deadline, reading);
            !encoder.is_part_full()
        });
        match stopped {
            Some(count) => self.element += count,
            None => {
                self.frozen.dismantle();
                self.element = 0;
            }
        }
        self.frozen.pieces.is_empty()
    }
}

/// The string in an entry, to be read by another thread while this one goes on; none if it lies in
/// the entry itself.
fn shared(slot: &Slot) -> Option<Bytes> {
    struct Grown(Arc<Vec<u8>>);
    impl AsRef<[u8]> for Grown {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    match slot.value() {
        ValueRef::Boxed(Value::Long(long)) => Some(long.clone()),
        ValueRef::Boxed(Value::Growable(grown)) => Some(Bytes::from_owner(Grown(grown.clone()))),
        _ => None,
    }
}

/// Adds an element to the part that has begun, unless it is due: like a due key, nobody would load
/// it.
fn encode_element(
    encoder: &mut Encoder,
    strings: &[StringRef<'_>],
    deadline: Option<Deadline>,
    reading: &Reading,
) {
    if !deadline.is_some_and(|deadline| is_due(deadline, reading.now)) {
        encoder.element(
            strings,
            deadline.map(|deadline| reading.to_wall(deadline.0)),
        );
    }
}

/// Restamps every entry after many snapshots were given up, in slices.
pub struct Cleaner {
    left: Vec<u16>,
    walk: Walk,
}

impl Cleaner {
    /// Marks all tables for the walk.
    pub fn begin(keyspace: &mut Keyspace) -> Cleaner {
        keyspace.number_tables();
        Cleaner {
            left: keyspace.numbers_of_cut(),
            walk: Walk::default(),
        }
    }

    /// Restamps a few entries; false if all are done.
    pub fn step(&mut self, keyspace: &mut Keyspace) -> bool {
        let Some(&number) = self.left.last() else {
            return false;
        };
        let epoch = keyspace.cut.epoch;
        let found = keyspace.database_of_cut(number);
        if let Some(db) = found {
            db.table.walk(&mut self.walk, BUCKETS_PER_STEP, |slot| {
                slot.set_epoch(epoch);
                true
            });
        }
        if found.is_none() || self.walk.is_done() {
            self.left.pop();
            self.walk = Walk::default();
        }
        true
    }
}
