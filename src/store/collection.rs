//! Collections as commands see them: alive, of the right type, in whichever form they have. How
//! they are edited is in [`super::edit`].

use crate::clock::UnixMillis;
use crate::config::Config;
use crate::expiry::{ALL_LIVE, Deadline};
use crate::resp::error::CommandError;
use crate::store::Live;
use crate::store::entry::{self, Slot, ValueRef};
use crate::store::members;
use crate::value::dated_packed::Shape;
use crate::value::hash::{Form, HashLimits, HashRef};
use crate::value::list::{ListRef, NodeLimit};
use crate::value::packed;
use crate::value::placement::Ahead;
use crate::value::set::{SetLimits, SetRef};
use crate::value::stream::{ChunkLimit, Stream};
use crate::value::zset::{NamedRef, Small, ZsetLimits, ZsetRef};
use crate::value::{Kind, StringRef, Value};

/// When small collections become big ones.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of lists, and of the chunks of big ones.
    pub list: NodeLimit,
    /// Of sets.
    pub set: SetLimits,
    /// Of sorted sets.
    pub zset: ZsetLimits,
    /// Of hashes.
    pub hash: HashLimits,
    /// Of the chunks of streams.
    pub stream: ChunkLimit,
}

impl Limits {
    /// As the settings say.
    pub fn new(config: &Config) -> Limits {
        let usize_of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Limits {
            list: NodeLimit::from_setting(config.list_chunk),
            set: SetLimits {
                intset_entries_max: usize_of(config.set_integers_max),
                packed_entries_max: usize_of(config.set_packed_entries_max),
                packed_value_bytes_max: usize_of(config.set_packed_value_bytes_max),
            },
            zset: ZsetLimits {
                entries_max: usize_of(config.zset_packed_entries_max),
                value_bytes_max: usize_of(config.zset_packed_value_bytes_max),
            },
            hash: HashLimits {
                packed_entries_max: usize_of(config.hash_packed_entries_max),
                packed_value_bytes_max: usize_of(config.hash_packed_value_bytes_max),
            },
            stream: ChunkLimit::from_settings(
                config.stream_chunk_bytes_max,
                config.stream_chunk_entries_max,
            ),
        }
    }
}

/// The list in an entry.
///
/// # Errors
/// WRONGTYPE if it holds something else, as the four functions below.
pub fn list_of(slot: &Slot) -> Result<ListRef<'_>, CommandError> {
    match slot.value() {
        ValueRef::Inline(bytes) if slot.kind() == Kind::List => Ok(ListRef::Packed(bytes)),
        ValueRef::Boxed(Value::List(list)) => Ok(ListRef::Big(list)),
        _ => Err(CommandError::WrongType),
    }
}

/// The set in an entry, at an instant.
///
/// # Errors
/// WRONGTYPE.
#[inline]
pub fn set_of(slot: &Slot, now: UnixMillis) -> Result<SetRef<'_>, CommandError> {
    match slot.value() {
        ValueRef::Inline(bytes) => match slot.form() {
            entry::Form::IntegerSet => Ok(SetRef::Intset(bytes)),
            entry::Form::Set => Ok(SetRef::Packed(bytes)),
            entry::Form::DatedSet => Ok(SetRef::Dated(bytes, now)),
            _ => Err(CommandError::WrongType),
        },
        ValueRef::Boxed(Value::Set(members)) if slot.is_dated() => {
            Ok(SetRef::DatedBig(members, now))
        }
        ValueRef::Boxed(Value::Set(members)) => Ok(SetRef::Big(members)),
        _ => Err(CommandError::WrongType),
    }
}

/// The sorted set in an entry.
///
/// # Errors
/// WRONGTYPE.
pub fn zset_of(slot: &Slot) -> Result<ZsetRef<'_>, CommandError> {
    match slot.value() {
        ValueRef::Boxed(Value::Zset(zset)) => Ok(ZsetRef::Big(zset)),
        _ => small_zset_of(slot)
            .map(ZsetRef::Small)
            .ok_or(CommandError::WrongType),
    }
}

/// The small sorted set in an entry.
pub fn small_zset_of(slot: &Slot) -> Option<Small<'_>> {
    match (slot.value(), slot.form()) {
        (ValueRef::Inline(bytes), entry::Form::Zset) => Some(Small::new(bytes, Shape::Packed)),
        (ValueRef::Inline(bytes), entry::Form::DatedZset) => Some(Small::new(bytes, Shape::Dated)),
        _ => None,
    }
}

/// The hash in an entry, at an instant.
///
/// # Errors
/// WRONGTYPE.
pub fn hash_of(slot: &Slot, now: UnixMillis) -> Result<HashRef<'_>, CommandError> {
    let form = match slot.value() {
        ValueRef::Inline(bytes) => match slot.form() {
            entry::Form::DatedHash => Form::Dated(bytes),
            entry::Form::Hash => Form::Packed(bytes),
            _ => return Err(CommandError::WrongType),
        },
        ValueRef::Boxed(Value::Hash(members)) => Form::Big(members),
        _ => return Err(CommandError::WrongType),
    };
    Ok(HashRef::new(form, now))
}

/// The stream in an entry.
///
/// # Errors
/// WRONGTYPE.
pub fn stream_of(slot: &Slot) -> Result<&Stream, CommandError> {
    match slot.value() {
        ValueRef::Boxed(Value::Stream(stream)) => Ok(stream),
        _ => Err(CommandError::WrongType),
    }
}

/// How many elements the collection in an entry has, dead or alive; none for a string, and for a
/// stream, which goes on living when it is empty.
pub fn len_of(slot: &Slot) -> Option<usize> {
    match slot.kind() {
        Kind::String | Kind::Stream => None,
        Kind::List => list_of(slot).ok().map(ListRef::len),
        Kind::Set => set_of(slot, ALL_LIVE).ok().map(SetRef::len),
        Kind::Zset => zset_of(slot).ok().map(ZsetRef::len),
        Kind::Hash => hash_of(slot, ALL_LIVE).ok().map(HashRef::len),
    }
}

/// Hands out the elements of a small collection as their strings (a field and its value, a member
/// and the eight bytes of its score) and deadlines.
pub fn for_each_small(slot: &Slot, mut each: impl FnMut(&[StringRef<'_>], Option<Deadline>)) {
    if let Ok(set) = set_of(slot, ALL_LIVE) {
        set.for_each_dated(|member, term| {
            let deadline = term.map(|term| term.deadline);
            each(&[StringRef::Short(&member)], deadline);
        });
        return;
    }
    if let Ok(hash) = hash_of(slot, ALL_LIVE) {
        hash.iter()
            .for_each(|field| each(&[field.member, field.value], field.deadline()));
        return;
    }
    if let Some(zset) = small_zset_of(slot) {
        zset.for_each(|member, score, deadline| {
            let score = score.to_le_bytes();
            each(
                &[StringRef::Short(member), StringRef::Short(&score)],
                deadline,
            );
        });
        return;
    }
    packed::iter(slot.inline()).for_each(|item| each(&[StringRef::Short(item.bytes)], None));
}

/// The same of a collection of any size. Big ones are frozen for it.
pub fn for_each_element(slot: &Slot, mut each: impl FnMut(&[StringRef<'_>], Option<Deadline>)) {
    let ValueRef::Boxed(value) = slot.value() else {
        return for_each_small(slot, each);
    };
    let Some(mut frozen) = value.freeze() else {
        return;
    };
    while !frozen.pieces.is_empty() {
        frozen.walk(0, |strings, deadline| {
            each(strings, deadline);
            true
        });
        frozen.dismantle();
    }
}

/// Bytes of the strings a value is made of, without what keeps them together; looks at all of it.
pub fn payload_bytes(slot: &Slot) -> usize {
    if let Some(string) = slot.string() {
        return string.len();
    }
    let mut bytes = 0;
    for_each_element(slot, |strings, _| {
        bytes += strings.iter().map(|s| s.len()).sum::<usize>();
    });
    bytes
}

/// A collection whose members may have deadlines, to be read.
#[derive(Clone, Copy)]
pub enum AnyRef<'a> {
    /// A hash.
    Hash(HashRef<'a>),
    /// A set.
    Set(SetRef<'a>),
    /// A sorted set.
    Zset(NamedRef<'a>),
}

impl AnyRef<'_> {
    /// The deadline of a member: none if there is no such member, `Some(None)` if it has none.
    pub fn deadline(self, member: &[u8]) -> Option<Option<Deadline>> {
        let term = match self {
            AnyRef::Hash(hash) => hash.term(member),
            AnyRef::Set(set) => set.term(member),
            AnyRef::Zset(zset) => zset.term(member),
        };
        term.map(|term| term.map(|term| term.deadline))
    }
}

/// Reading: counts a hit or a miss and sets the access clock, as [`Live::get`] does.
impl Live<'_> {
    /// The list at a key.
    ///
    /// # Errors
    /// WRONGTYPE if the key holds something else, as the four methods below.
    pub fn list(&self, key: &[u8]) -> Result<Option<ListRef<'_>>, CommandError> {
        self.get(key).map(list_of).transpose()
    }

    /// The set at a key. Some of its expired members are removed when the command ends.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn set(&self, key: &[u8]) -> Result<Option<SetRef<'_>>, CommandError> {
        self.get(key).map(|slot| self.set_in(key, slot)).transpose()
    }

    /// The set in the entry of a key.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn set_in<'s>(&self, key: &[u8], slot: &'s Slot) -> Result<SetRef<'s>, CommandError> {
        self.note_due_members(key, slot);
        set_of(slot, self.reading.now)
    }

    /// The sorted set at a key, of which all due members are removed first.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn zset(&mut self, key: &[u8]) -> Result<Option<ZsetRef<'_>>, CommandError> {
        self.settle_all_members(key);
        self.get(key).map(|slot| self.zset_in(slot)).transpose()
    }

    /// The sorted set at a key, for questions about members by name. Some of its expired members
    /// are removed when the command ends.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn zset_by_name(&self, key: &[u8]) -> Result<Option<NamedRef<'_>>, CommandError> {
        let Some(slot) = self.get(key) else {
            return Ok(None);
        };
        self.note_due_members(key, slot);
        Ok(Some(NamedRef::new(zset_of(slot)?, self.reading.now)))
    }

    /// The sorted set in an entry, of which [`Live::settle_all_members`] has removed all due
    /// members.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn zset_in<'s>(&self, slot: &'s Slot) -> Result<ZsetRef<'s>, CommandError> {
        let zset = zset_of(slot)?;
        assert!(
            !members::may_be_due(slot, self.reading.now),
            "due members were not removed"
        );
        Ok(zset)
    }

    /// The stream at a key.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn stream(&self, key: &[u8]) -> Result<Option<&Stream>, CommandError> {
        self.get(key).map(stream_of).transpose()
    }

    /// The hash at a key. Some of its expired fields are removed when the command ends.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn hash(&self, key: &[u8]) -> Result<Option<HashRef<'_>>, CommandError> {
        self.get(key)
            .map(|slot| self.hash_in(key, slot))
            .transpose()
    }

    /// The collection at a key, which must be of this type, for questions about deadlines of its
    /// members.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn members(&self, key: &[u8], kind: Kind) -> Result<Option<AnyRef<'_>>, CommandError> {
        match kind {
            Kind::Set => Ok(self.set(key)?.map(AnyRef::Set)),
            Kind::Zset => Ok(self.zset_by_name(key)?.map(AnyRef::Zset)),
            _ => Ok(self.hash(key)?.map(AnyRef::Hash)),
        }
    }

    /// The hash at a key, without counting a hit or a miss (see [`Live::peek`]).
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn peek_hash(&self, key: &[u8]) -> Result<Option<HashRef<'_>>, CommandError> {
        self.peek(key)
            .map(|slot| self.hash_in(key, slot))
            .transpose()
    }

    fn hash_in<'s>(&self, key: &[u8], slot: &'s Slot) -> Result<HashRef<'s>, CommandError> {
        self.note_due_members(key, slot);
        Ok(hash_of(slot, self.reading.now)?.with(self.member_ahead()))
    }

    /// Notes that members of the collection at a key may be due.
    #[inline]
    fn note_due_members(&self, key: &[u8], slot: &Slot) {
        if members::may_be_due(slot, self.reading.now) {
            self.note(self.space.hash(key), slot);
        }
    }

    /// The hash of a member that was worked out ahead, for [`SetRef::contains_with`].
    pub fn member_ahead(&self) -> Ahead {
        self.space.member_ahead.get()
    }
}
