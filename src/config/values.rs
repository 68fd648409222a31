//! The typed values that settings have, and how each is written.

use std::fmt;

/// Position of ordinary clients in [`Config::output_limits`](super::Config::output_limits).
pub const OUTPUT_NORMAL: usize = 0;
/// Position of replicas in [`Config::output_limits`](super::Config::output_limits).
pub const OUTPUT_REPLICA: usize = 1;
/// Position of subscribers in [`Config::output_limits`](super::Config::output_limits).
pub const OUTPUT_PUBSUB: usize = 2;
pub(super) const OUTPUT_CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// Save once `changes` writes have gathered and `seconds` have passed since the last save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavePoint {
    /// Seconds, at least 1.
    pub seconds: u64,
    /// Changed keys.
    pub changes: u64,
}

/// How much unread output a client may have; 0 switches a limit off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputLimit {
    /// Close at once from this many bytes.
    pub hard_bytes: u64,
    /// Close when over this many bytes for `soft_seconds` on end.
    pub soft_bytes: u64,
    /// See `soft_bytes`.
    pub soft_seconds: u32,
}

/// Which clock deadlines follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpireClock {
    /// Time since boot: setting the wall clock moves no TTL.
    Monotonic,
    /// The wall clock, steps and all.
    Wall,
}

/// Which keys give way when memory is full: of all, or of those with a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum EvictionPolicy {
    NoEviction,
    AllkeysLru,
    AllkeysLfu,
    AllkeysLrm,
    AllkeysRandom,
    VolatileLru,
    VolatileLfu,
    VolatileLrm,
    VolatileRandom,
    VolatileTtl,
}

impl EvictionPolicy {
    /// Whether uses are counted for it.
    pub fn counts_uses(self) -> bool {
        matches!(
            self,
            EvictionPolicy::AllkeysLfu | EvictionPolicy::VolatileLfu
        )
    }

    /// Whether only writes count as uses.
    pub fn dates_writes(self) -> bool {
        matches!(
            self,
            EvictionPolicy::AllkeysLrm | EvictionPolicy::VolatileLrm
        )
    }

    /// Whether keys without a deadline stay.
    pub fn is_volatile(self) -> bool {
        use EvictionPolicy::{VolatileLfu, VolatileLrm, VolatileLru, VolatileRandom, VolatileTtl};
        matches!(
            self,
            VolatileLru | VolatileLfu | VolatileLrm | VolatileRandom | VolatileTtl
        )
    }
}

/// The policies by name.
pub(super) const EVICTION_POLICIES: &[(&str, EvictionPolicy)] = &[
    ("volatile-lru", EvictionPolicy::VolatileLru),
    ("volatile-lfu", EvictionPolicy::VolatileLfu),
    ("volatile-random", EvictionPolicy::VolatileRandom),
    ("volatile-ttl", EvictionPolicy::VolatileTtl),
    ("volatile-lrm", EvictionPolicy::VolatileLrm),
    ("allkeys-lru", EvictionPolicy::AllkeysLru),
    ("allkeys-lfu", EvictionPolicy::AllkeysLfu),
    ("allkeys-random", EvictionPolicy::AllkeysRandom),
    ("allkeys-lrm", EvictionPolicy::AllkeysLrm),
    ("noeviction", EvictionPolicy::NoEviction),
];

/// An amount of memory, or a share of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemorySize {
    /// Bytes.
    Bytes(u64),
    /// Percent of something that is told where it is used.
    Percent(u8),
}

impl MemorySize {
    /// No bytes: mostly no limit.
    pub const ZERO: MemorySize = MemorySize::Bytes(0);

    /// In bytes, if a share is one of so many.
    pub fn bytes_of(self, whole_bytes: u64) -> u64 {
        match self {
            MemorySize::Bytes(bytes) => bytes,
            MemorySize::Percent(percent) => {
                (u128::from(whole_bytes) * u128::from(percent) / 100) as u64
            }
        }
    }

    /// Whether it is a share.
    pub fn is_share(self) -> bool {
        matches!(self, MemorySize::Percent(_))
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemorySize::Bytes(bytes) => write!(f, "{bytes}"),
            MemorySize::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// A stream that gets an entry for all that expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredStream {
    /// Its key, in database 0.
    pub key: Vec<u8>,
    /// It is trimmed to about so many entries.
    pub len_max: Option<u64>,
    /// So many bytes of a string's value are told.
    pub value_bytes_max: u64,
}

/// Which event EXPIRE with a deadline in the past sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PastEvent {
    /// `del`, as Redis does.
    Del,
    /// `expired`, as Valkey does.
    Expired,
}

/// What to do with a damaged snapshot at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotLoad {
    /// Refuse to start.
    Strict,
    /// Load the chunks that are whole.
    Partial,
}

/// Least severe kind of message that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Much, without the details only developers want.
    Verbose,
    /// What an operator wants to know.
    Notice,
    /// Only what needs attention.
    Warning,
    /// Nothing at all.
    Nothing,
}

/// Who may do something dangerous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Nobody.
    No,
    /// Every client.
    Yes,
    /// Clients on this machine.
    Local,
}

impl Permission {
    /// Whether a client may, given where it sits (unix socket or loopback address).
    pub fn allows(self, client_is_local: bool) -> bool {
        self == Permission::Yes || (self == Permission::Local && client_is_local)
    }
}

pub(super) const YES_NO: &[(&str, bool)] = &[("yes", true), ("no", false)];
pub(super) const EXPIRE_CLOCKS: &[(&str, ExpireClock)] = &[
    ("monotonic", ExpireClock::Monotonic),
    ("wall", ExpireClock::Wall),
];
pub(super) const PAST_EVENTS: &[(&str, PastEvent)] =
    &[("del", PastEvent::Del), ("expired", PastEvent::Expired)];
pub(super) const SNAPSHOT_LOADS: &[(&str, SnapshotLoad)] = &[
    ("strict", SnapshotLoad::Strict),
    ("partial", SnapshotLoad::Partial),
];
pub(super) const LOAD_EXPIRED: &[(&str, bool)] = &[("no", false), ("keep", true)];
pub(super) const UNKNOWN_SETTINGS: &[(&str, bool)] = &[("refuse", true), ("warn", false)];
pub(super) const PERMISSIONS: &[(&str, Permission)] = &[
    ("no", Permission::No),
    ("yes", Permission::Yes),
    ("local", Permission::Local),
];
pub(super) const LOG_LEVELS: &[(&str, LogLevel)] = &[
    ("debug", LogLevel::Debug),
    ("verbose", LogLevel::Verbose),
    ("notice", LogLevel::Notice),
    ("warning", LogLevel::Warning),
    ("nothing", LogLevel::Nothing),
];

/// A set of classes of keyspace events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NotifyFlags(pub u32);

/// Letters in the order in which they are printed.
pub(super) const NOTIFY_LETTERS: [(char, NotifyFlags); 16] = [
    ('g', NotifyFlags::GENERIC),
    ('$', NotifyFlags::STRING),
    ('l', NotifyFlags::LIST),
    ('s', NotifyFlags::SET),
    ('h', NotifyFlags::HASH),
    ('z', NotifyFlags::ZSET),
    ('x', NotifyFlags::EXPIRED),
    ('e', NotifyFlags::EVICTED),
    ('t', NotifyFlags::STREAM),
    ('d', NotifyFlags::MODULE),
    ('n', NotifyFlags::NEW),
    ('o', NotifyFlags::OVERWRITTEN),
    ('c', NotifyFlags::TYPE_CHANGED),
    ('K', NotifyFlags::KEYSPACE),
    ('E', NotifyFlags::KEYEVENT),
    ('m', NotifyFlags::KEY_MISS),
];

impl NotifyFlags {
    /// No events.
    pub const NONE: Self = Self(0);
    /// `K`: publish on `__keyspace@db__:key`.
    pub const KEYSPACE: Self = Self(1);
    /// `E`: publish on `__keyevent@db__:event`.
    pub const KEYEVENT: Self = Self(1 << 1);
    /// `g`: commands of no particular type, such as DEL and EXPIRE.
    pub const GENERIC: Self = Self(1 << 2);
    /// `$`: strings.
    pub const STRING: Self = Self(1 << 3);
    /// `l`: lists.
    pub const LIST: Self = Self(1 << 4);
    /// `s`: sets.
    pub const SET: Self = Self(1 << 5);
    /// `h`: hashes.
    pub const HASH: Self = Self(1 << 6);
    /// `z`: sorted sets.
    pub const ZSET: Self = Self(1 << 7);
    /// `x`: a key expired.
    pub const EXPIRED: Self = Self(1 << 8);
    /// `e`: a key was evicted.
    pub const EVICTED: Self = Self(1 << 9);
    /// `t`: streams.
    pub const STREAM: Self = Self(1 << 10);
    /// `m`: a read found no key; not in `A`.
    pub const KEY_MISS: Self = Self(1 << 11);
    /// `d`: types of modules.
    pub const MODULE: Self = Self(1 << 12);
    /// `n`: a key came into being; not in `A`.
    pub const NEW: Self = Self(1 << 13);
    /// `o`: a key was overwritten; not in `A`.
    pub const OVERWRITTEN: Self = Self(1 << 14);
    /// `c`: a key changed its type; not in `A`.
    pub const TYPE_CHANGED: Self = Self(1 << 15);
    /// No letter asks for it: pending entries of a stream were delivered at another time, which
    /// concerns clients that wait for idle ones, and nobody else.
    pub const REDELIVERED: Self = Self(1 << 16);
    /// `A`: g, $, l, s, h, z, x, e, t and d.
    pub const ALL: Self = Self(0b1_0111_1111_1100);

    /// Whether all classes of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Reads letters, in any order; `None` at one that names no class.
    pub fn parse(letters: &str) -> Option<Self> {
        letters.chars().try_fold(Self::NONE, |flags, letter| {
            let class = match letter {
                'A' => Self::ALL,
                _ => NOTIFY_LETTERS.iter().find(|(known, _)| *known == letter)?.1,
            };
            Some(Self(flags.0 | class.0))
        })
    }

    /// The letters as CONFIG GET shows them in Redis 8.2, which leaves out n, o and c beside `A`.
    pub fn print(self) -> String {
        let hidden = if self.contains(Self::ALL) {
            Self::NEW.0 | Self::OVERWRITTEN.0 | Self::TYPE_CHANGED.0
        } else {
            0
        };
        Self(self.0 & !hidden).print_whole()
    }

    /// All letters, so that [`NotifyFlags::parse`] gives the same set back.
    pub fn print_whole(self) -> String {
        let (start, inside) = if self.contains(Self::ALL) {
            ("A", Self::ALL.0)
        } else {
            ("", 0)
        };
        let rest = Self(self.0 & !inside);
        let letters = NOTIFY_LETTERS
            .iter()
            .filter(|(_, class)| rest.contains(*class));
        start
            .chars()
            .chain(letters.map(|(letter, _)| *letter))
            .collect()
    }
}
