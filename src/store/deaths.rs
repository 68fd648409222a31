//! Events of expiry that last: entries of a stream, which can be read later, again, and by a group
//! of consumers. The setting `expired-event-stream` names the stream, in database 0.
//!
//! ```text
//! a key or field is removed because it is due ──> Deaths ──> the end of the command, or round
//!                                                   ▲          ──> XADD to the stream
//! a big collection all of whose members are due     │
//!   ──> Graveyard ──> a few hundred of them at a time
//! ```
//!
//! An entry tells which key, in which database, of which type, when it was due (Unix ms) and how
//! much later it was removed (ms); of a string its value, up to a number of bytes; of a hash's
//! field the field. They stand in the order of removal, but for those of a big collection, which
//! is removed at once and whose members follow. None is lost while the server runs, unless the key
//! of the stream is made something else meanwhile, or its last id is the greatest: such events are
//! counted.
//!
//! What removes many keys without being asked for them (a round of expiry, DBSIZE, what a read
//! passed over) stops when `Deaths::are_many`: with values of a mebibyte kept, 20 keys of a round
//! took 43 ms, and INFO, which removed a thousand of them first, 785. The others stay hidden until
//! the next round. What a command removes by name, or because it asks for the order of a sorted
//! set, may be more; but entries are written a few hundred at a time, and the rest follows in
//! slices. Of 1,000 dead hashes of 1,000 fields INFO wrote half the fields at once, which took 314
//! to 475 ms; now it only has them buried, which takes a few.
//!
//! Invariant: nothing is noted while no stream is named.

use bytes::Bytes;

use super::change::Event;
use super::entry::{Slot, ValueRef};
use super::keyspace::Keyspace;
use super::members::MEMBERS_PER_STEP;
use crate::clock::{Reading, UnixMillis};
use crate::config::ExpiredStream;
use crate::expiry::{Deadline, expiretime_ms};
use crate::value::stream::{Exactness, Id, TEXT_MAX, Trim};
use crate::value::{Kind, Value};

/// With so many entries to be written, or bytes in them, nothing more is removed but what a command
/// names: as many as DBSIZE removes keys.
const ENTRIES_MAX: usize = 4096;
/// So many are written between two readings of the clock: some 0.3 ms.
const ENTRIES_PER_WRITE: usize = MEMBERS_PER_STEP;
const BYTES_MAX: usize = 256 * 1024;

/// Something that was removed because it was due.
struct Death {
    db: usize,
    kind: Kind,
    /// The bytes of the key, in [`Pending::strings`]; those of `what` follow.
    key: (usize, usize),
    deadline: Deadline,
    removed: UnixMillis,
    what: What,
}

/// What it was; an empty string for what is no string.
enum What {
    /// A key; if that was a string, so many bytes of its value.
    Key(usize),
    /// The same of a long value, which is not copied.
    LongKey(Bytes),
    /// A field of a hash or a member of a set, of so many bytes.
    Element(usize),
}

/// Deaths in order, with their strings one after another.
#[derive(Default)]
struct Pending {
    list: Vec<Death>,
    /// How many of them are written.
    written: usize,
    strings: Vec<u8>,
    /// Bytes of long values.
    long_bytes: usize,
}

/// What has been removed and stands in no stream yet.
#[derive(Default)]
pub struct Deaths {
    target: Option<ExpiredStream>,
    pending: Pending,
    /// Entries written since start or CONFIG RESETSTAT.
    pub written: u64,
    /// Events that could not be written.
    pub lost: u64,
}

impl Pending {
    fn push(&mut self, key: &[u8], last: &[u8]) -> (usize, usize) {
        let start = self.strings.len();
        self.strings.extend_from_slice(key);
        self.strings.extend_from_slice(last);
        (start, key.len())
    }

    /// Those that are not written yet.
    fn len(&self) -> usize {
        self.list.len() - self.written
    }

    /// Puts later ones behind.
    fn append(&mut self, later: Pending) {
        let start = self.strings.len();
        self.strings.extend_from_slice(&later.strings);
        self.long_bytes += later.long_bytes;
        let deaths = later.list.into_iter().skip(later.written);
        self.list.extend(deaths.map(|death| Death {
            key: (start + death.key.0, death.key.1),
            ..death
        }));
    }

    /// The key of a death, and its value, field or member.
    fn strings_of<'a>(&'a self, death: &'a Death) -> (&'a [u8], &'a [u8]) {
        let (start, len) = death.key;
        let behind = &self.strings[start + len..];
        let last = match &death.what {
            What::Key(len) | What::Element(len) => &behind[..*len],
            What::LongKey(value) => value,
        };
        (&self.strings[start..start + len], last)
    }
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
        self.pending.len() > 0
    }

    /// Whether so much is to be written that no more should be removed before.
    #[inline]
    pub(super) fn are_many(&self) -> bool {
        let Pending {
            strings,
            long_bytes,
            ..
        } = &self.pending;
        self.pending.len() >= ENTRIES_MAX || strings.len() + long_bytes >= BYTES_MAX
    }

    /// The same between two collections of one round.
    #[inline]
    pub(super) fn are_a_step(&self) -> bool {
        self.pending.len() >= MEMBERS_PER_STEP || self.are_many()
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
        let Some(deadline) = slot.deadline() else {
            return;
        };
        let (what, short) = match slot.value() {
            ValueRef::Boxed(Value::Long(bytes)) if bytes.len() <= most => {
                self.pending.long_bytes += bytes.len();
                (What::LongKey(bytes.clone()), [].as_slice())
            }
            _ => {
                let value = slot.string().unwrap_or_default();
                let kept = &value[..value.len().min(most)];
                (What::Key(kept.len()), kept)
            }
        };
        let key = self.pending.push(slot.key(), short);
        self.pending.list.push(Death {
            db,
            kind: slot.kind(),
            key,
            deadline,
            removed,
            what,
        });
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
            let key = self.pending.push(key, element);
            self.pending.list.push(Death {
                db,
                kind,
                key,
                deadline,
                removed,
                what: What::Element(element.len()),
            });
        }
    }
}

impl Keyspace {
    /// Writes what has been removed into the stream, or the first part of it. Called before changes
    /// are published.
    pub fn write_deaths(&mut self, reading: &Reading) {
        let mut pending = std::mem::take(&mut self.deaths.pending);
        let Some(target) = self.deaths.target.clone() else {
            return;
        };
        let (mut entries, mut bytes) = (0, 0);
        while let Some(death) = pending.list.get(pending.written) {
            if entries == ENTRIES_PER_WRITE || bytes >= BYTES_MAX {
                break;
            }
            let (key, last) = pending.strings_of(death);
            self.write_death(&target, death, (key, last), reading);
            (entries, bytes) = (entries + 1, bytes + key.len() + last.len());
            pending.written += 1;
        }
        // To write may settle a dead stream, which is one more.
        if pending.len() > 0 {
            let later = std::mem::replace(&mut self.deaths.pending, pending);
            self.deaths.pending.append(later);
        }
    }

    /// Notes the next members of the big collections that were removed because all of them are due;
    /// false if there are none.
    pub fn settle_estates(&mut self) -> bool {
        let Keyspace {
            graveyard, deaths, ..
        } = self;
        graveyard.settle_estate(MEMBERS_PER_STEP, |owner, member, deadline| {
            let what = (owner.kind, &*owner.key, member);
            deaths.note_element(owner.db, what, deadline, owner.removed);
        })
    }

    fn write_death(
        &mut self,
        target: &ExpiredStream,
        death: &Death,
        (key, last): (&[u8], &[u8]),
        reading: &Reading,
    ) {
        let (kind, name) = match &death.what {
            What::Key(_) | What::LongKey(_) => ("key", "value"),
            What::Element(_) if death.kind == Kind::Hash => ("field", "field"),
            What::Element(_) => ("member", "member"),
        };
        let [mut db, mut deadline, mut lag] = [itoa::Buffer::new(); 3];
        let strings: [&[u8]; 14] = [
            b"key",
            key,
            b"db",
            db.format(death.db).as_bytes(),
            b"kind",
            kind.as_bytes(),
            b"type",
            death.kind.name().as_bytes(),
            b"deadline",
            deadline
                .format(expiretime_ms(death.deadline, reading))
                .as_bytes(),
            b"lag",
            lag.format(death.removed.since(death.deadline.0)).as_bytes(),
            name.as_bytes(),
            last,
        ];
        let id = self.append(target, &strings, reading);
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
