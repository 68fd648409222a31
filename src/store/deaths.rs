//! Events of expiry that last: entries of a stream, which can be read later, again, and by a group
//! of consumers. The setting `expired-event-stream` names the stream, in database 0.
//!
//! ```text
//! a key or field is removed because it is due ──> Deaths ──> the end of the command, or round
//!                                                              ──> XADD to the stream
//! ```
//!
//! An entry tells which key, in which database, of which type, when it was due (Unix ms) and how
//! much later it was removed (ms); of a string its value, up to a number of bytes; of a hash's
//! field the field. They stand in the order of removal. None is lost while the server runs, unless
//! the key of the stream is made something else meanwhile, or its last id is the greatest: such
//! events are counted.
//!
//! Invariant: nothing is noted while no stream is named.

use std::collections::VecDeque;

use super::change::Event;
use super::entry::Slot;
use super::keyspace::Keyspace;
use crate::clock::{Reading, UnixMillis};
use crate::config::ExpiredStream;
use crate::expiry::{Deadline, expiretime_ms};
use crate::value::Kind;
use crate::value::stream::{Exactness, Id, TEXT_MAX, Trim};

/// Something that was removed because it was due.
struct Death {
    db: usize,
    kind: Kind,
    key: Vec<u8>,
    deadline: Deadline,
    removed: UnixMillis,
    what: What,
}

/// What it was.
enum What {
    /// A key; if that was a string, the beginning of its value.
    Key(Vec<u8>),
    /// A field of a hash or a member of a set.
    Element(Vec<u8>),
}

/// What has been removed and stands in no stream yet.
#[derive(Default)]
pub struct Deaths {
    target: Option<ExpiredStream>,
    pending: VecDeque<Death>,
    /// Entries written since start or CONFIG RESETSTAT.
    pub written: u64,
    /// Events that could not be written.
    pub lost: u64,
}

impl Deaths {
    /// Names the stream, or none.
    pub fn set_target(&mut self, target: Option<ExpiredStream>) {
        self.target = target;
    }

    /// Whether a stream is named.
    #[inline(always)]
    pub fn are_kept(&self) -> bool {
        self.target.is_some()
    }

    /// Whether something is to be written.
    #[inline(always)]
    pub fn are_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Notes that a key is being removed.
    #[inline(always)]
    pub(super) fn note_key(&mut self, db: usize, slot: &Slot, removed: UnixMillis) {
        if self.target.is_some() {
            self.add_key(db, slot, removed);
        }
    }

    #[inline(never)]
    fn add_key(&mut self, db: usize, slot: &Slot, removed: UnixMillis) {
        let target = self.target.as_ref();
        let most = target.map_or(0, |target| target.value_bytes_max as usize);
        let value = slot.string().unwrap_or_default();
        if let Some(deadline) = slot.deadline() {
            self.pending.push_back(Death {
                db,
                kind: slot.kind(),
                key: slot.key().to_vec(),
                deadline,
                removed,
                what: What::Key(value[..value.len().min(most)].to_vec()),
            });
        }
    }

    /// Notes that a field or member is being removed.
    pub(super) fn note_element(
        &mut self,
        db: usize,
        (kind, key, element): (Kind, &[u8], &[u8]),
        deadline: Deadline,
        removed: UnixMillis,
    ) {
        if self.target.is_some() {
            self.pending.push_back(Death {
                db,
                kind,
                key: key.to_vec(),
                deadline,
                removed,
                what: What::Element(element.to_vec()),
            });
        }
    }
}

/// An entry of the stream, as its fields with their values.
fn entry_of(death: &Death, reading: &Reading) -> Vec<(&'static str, Vec<u8>)> {
    let deadline = expiretime_ms(death.deadline, reading).to_string();
    let lag = death.removed.since(death.deadline.0).to_string();
    let (kind, last) = match &death.what {
        What::Key(value) => ("key", ("value", value)),
        What::Element(field) if death.kind == Kind::Hash => ("field", ("field", field)),
        What::Element(member) => ("member", ("member", member)),
    };
    vec![
        ("key", death.key.clone()),
        ("db", death.db.to_string().into()),
        ("kind", kind.into()),
        ("type", death.kind.name().into()),
        ("deadline", deadline.into()),
        ("lag", lag.into()),
        (last.0, last.1.clone()),
    ]
}

impl Keyspace {
    /// Writes what has been removed into the stream. Called before changes are published.
    #[inline]
    pub fn write_deaths(&mut self, reading: &Reading) {
        // To write may settle a dead stream, which is one more.
        while let Some(death) = self.deaths.pending.pop_front() {
            self.write_death(&death, reading);
        }
    }

    fn write_death(&mut self, death: &Death, reading: &Reading) {
        let Some(target) = self.deaths.target.clone() else {
            return;
        };
        let entry = entry_of(death, reading);
        let strings: Vec<&[u8]> = entry
            .iter()
            .flat_map(|(name, value)| [name.as_bytes(), value])
            .collect();
        let id = self.append(&target, &strings, reading);
        let Some((id, trimmed_to)) = id else {
            self.deaths.lost += 1;
            return;
        };
        self.deaths.written += 1;
        let mut live = self.live(0, reading);
        live.changed(Event::XADD, &target.key);
        if trimmed_to.is_some() {
            live.also(Event::XTRIM, &target.key);
        }
        if live.is_followed() {
            let (len, mut text) = (trimmed_to.unwrap_or(0).to_string(), [0; TEXT_MAX]);
            let trim = [b"MAXLEN".as_slice(), b"=", len.as_bytes()];
            let trim = trim.into_iter().take(3 * usize::from(trimmed_to.is_some()));
            let command = [b"XADD".as_slice(), &target.key].into_iter().chain(trim);
            live.effect(command.chain([id.text(&mut text)]).chain(strings));
        }
        self.give_defaults(reading);
    }

    /// Adds an entry; its id, and how long the stream is if it had to be trimmed.
    fn append(
        &mut self,
        target: &ExpiredStream,
        strings: &[&[u8]],
        reading: &Reading,
    ) -> Option<(Id, Option<usize>)> {
        let mut live = self.live(0, reading);
        let mut stream = live.stream_or_new(&target.key).ok()?;
        let now = Id {
            ms: u64::try_from(reading.to_wall(reading.now)).unwrap_or(0),
            seq: 0,
        };
        let last = stream.view().facts().last_id;
        let id = if now > last { now } else { last.next()? };
        stream.push(id, strings.len() / 2, &|index: usize| strings[index]);
        let trimmed = match target.len_max {
            Some(len) => stream.trim(Trim::MaxLen(len), Exactness::Chunks(None)),
            None => 0,
        };
        Some((id, (trimmed > 0).then(|| stream.view().len())))
    }
}
