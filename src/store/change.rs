//! The stream of changes: what a command, an expiry or an eviction did to which key.
//!
//! Whoever changes a key leaves a [`Change`] here; notifications and WATCH read them after every
//! command. When nobody listens to a class of events only counters move, so the stream costs
//! nothing on the usual path. The arena is reused: keys lie one after another in one buffer.

use crate::config::NotifyFlags;
use crate::value::Kind;

/// An event: its class (bits of [`NotifyFlags`]) and its name in a keyspace notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Bits of [`NotifyFlags`].
    pub class: u32,
    /// The name subscribers see.
    pub name: &'static str,
}

macro_rules! events {
    ($($constant:ident $class:ident $name:literal;)*) => {
        #[allow(missing_docs)]
        impl Event {
            $(pub const $constant: Event = Event { class: NotifyFlags::$class.0, name: $name };)*
        }
    };
}

events! {
    SET STRING "set";
    APPEND STRING "append";
    SETRANGE STRING "setrange";
    SETBIT STRING "setbit";
    PFADD STRING "pfadd";
    INCRBY STRING "incrby";
    INCRBYFLOAT STRING "incrbyfloat";
    DEL GENERIC "del";
    EXPIRE GENERIC "expire";
    PERSIST GENERIC "persist";
    RENAME_FROM GENERIC "rename_from";
    RENAME_TO GENERIC "rename_to";
    COPY_TO GENERIC "copy_to";
    MOVE_FROM GENERIC "move_from";
    MOVE_TO GENERIC "move_to";
    SORT_STORE LIST "sortstore";
    LPUSH LIST "lpush";
    RPUSH LIST "rpush";
    LPOP LIST "lpop";
    RPOP LIST "rpop";
    LINSERT LIST "linsert";
    LSET LIST "lset";
    LREM LIST "lrem";
    LTRIM LIST "ltrim";
    SADD SET "sadd";
    SREM SET "srem";
    SEXPIRE SET "sexpire";
    SEXPIRED SET "sexpired";
    SPERSIST SET "spersist";
    SPOP SET "spop";
    SINTERSTORE SET "sinterstore";
    SUNIONSTORE SET "sunionstore";
    SDIFFSTORE SET "sdiffstore";
    ZADD ZSET "zadd";
    ZINCR ZSET "zincr";
    ZREM ZSET "zrem";
    ZEXPIRE ZSET "zexpire";
    ZEXPIRED ZSET "zexpired";
    ZPERSIST ZSET "zpersist";
    ZREMRANGEBYSCORE ZSET "zremrangebyscore";
    ZREMRANGEBYRANK ZSET "zremrangebyrank";
    ZREMRANGEBYLEX ZSET "zremrangebylex";
    ZPOPMIN ZSET "zpopmin";
    ZPOPMAX ZSET "zpopmax";
    ZRANGESTORE ZSET "zrangestore";
    ZUNIONSTORE ZSET "zunionstore";
    ZINTERSTORE ZSET "zinterstore";
    ZDIFFSTORE ZSET "zdiffstore";
    GEOSEARCHSTORE ZSET "geosearchstore";
    GEORADIUSSTORE ZSET "georadiusstore";
    HSET HASH "hset";
    HINCRBY HASH "hincrby";
    HINCRBYFLOAT HASH "hincrbyfloat";
    HDEL HASH "hdel";
    HEXPIRE HASH "hexpire";
    HEXPIRED HASH "hexpired";
    HPERSIST HASH "hpersist";
    XADD STREAM "xadd";
    XTRIM STREAM "xtrim";
    XDEL STREAM "xdel";
    XSETID STREAM "xsetid";
    REDELIVERED REDELIVERED "redelivered";
    XGROUP_CREATE STREAM "xgroup-create";
    XGROUP_SETID STREAM "xgroup-setid";
    XGROUP_DESTROY STREAM "xgroup-destroy";
    XGROUP_CREATECONSUMER STREAM "xgroup-createconsumer";
    XGROUP_DELCONSUMER STREAM "xgroup-delconsumer";
    EXPIRED EXPIRED "expired";
    EVICTED EVICTED "evicted";
    SOFT_EXPIRED EXPIRED "softexpired";
    KEY_MISS KEY_MISS "keymiss";
    NEW NEW "new";
    OVERWRITTEN OVERWRITTEN "overwritten";
    TYPE_CHANGED TYPE_CHANGED "type_changed";
}

/// One change.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The database it happened in.
    pub db: u16,
    /// What happened.
    pub event: Event,
    start: u32,
    len: u32,
}

/// The changes since they were last taken.
#[derive(Default)]
pub struct Changes {
    list: Vec<Change>,
    keys: Vec<u8>,
    /// Classes of events somebody listens to; all bits while any key is watched.
    listening: u32,
    dirty: u64,
}

/// A key buffer larger than this is given back after use.
const KEYS_KEPT_BYTES: usize = 64 * 1024;

impl Changes {
    /// Sets which classes of events are recorded.
    pub fn listen(&mut self, classes: u32) {
        self.listening = classes;
    }

    /// Whether anything of this class would be recorded.
    #[inline(always)]
    pub fn is_heard(&self, event: Event) -> bool {
        self.listening & event.class != 0
    }

    /// Records an event.
    #[inline]
    pub fn record(&mut self, db: u16, event: Event, key: &[u8]) {
        if self.is_heard(event) {
            let start = self.keys.len() as u32;
            self.keys.extend_from_slice(key);
            self.list.push(Change {
                db,
                event,
                start,
                len: key.len() as u32,
            });
        }
    }

    /// Records that a value of one type took the place of another.
    pub fn record_overwrite(&mut self, db: u16, key: &[u8], old: Kind, new: Kind) {
        self.record(db, Event::OVERWRITTEN, key);
        if old != new {
            self.record(db, Event::TYPE_CHANGED, key);
        }
    }

    /// Counts changes of the data set, for the save points.
    #[inline(always)]
    pub fn count(&mut self, changes: u64) {
        self.dirty += changes;
    }

    /// Changes of the data set since start.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }

    /// Whether nothing is waiting to be read.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The recorded changes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Change, &[u8])> {
        self.list.iter().map(|change| {
            let start = change.start as usize;
            (*change, &self.keys[start..start + change.len as usize])
        })
    }

    /// Forgets the recorded changes, keeping the room they took.
    pub fn clear(&mut self) {
        self.list.clear();
        self.keys.clear();
        self.keys.shrink_to(KEYS_KEPT_BYTES);
        self.list.shrink_to(KEYS_KEPT_BYTES / size_of::<Change>());
    }
}
