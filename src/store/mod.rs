//! The only place where keys live and die.
//!
//! ```text
//! Keyspace ── Db 0..n ── Table (segments of slots ──> entries)
//!    │           └────── Strata (index of deadlines; entries point back into it)
//!    ├── Changes    what happened, for notifications and WATCH
//!    ├── Cut        entries kept for the running snapshot
//!    └── Graveyard  what is gone but not yet freed
//! Live = Keyspace + one database + one instant: what commands get
//! ```
//!
//! **Live.** Commands never see a [`db::Db`]. In a [`Live`] a key whose deadline has come does not
//! exist, so no command can forget to check. Methods that take `&mut self` settle such a key
//! (remove it, report `expired`) before their own change; methods that take `&self` hide it and
//! note it, and [`Keyspace::settle_noted`] removes it when the command ends.
//!
//! Invariants: every change of a key goes through this folder and leaves its [`change::Change`];
//! the only interior mutability is `Live`'s notes and the hit counters, which belong to this
//! module alone.
//!
//! Not here: what a command means (`command`), when jobs run (`engine`).

pub mod entry;
pub mod entry_mut;
pub mod schedule;
pub mod table;

pub mod preimages;

pub mod db;

pub mod change;
pub mod effect;
pub mod graveyard;

pub mod keyspace;

pub mod live;

pub mod deaths;
pub mod defrag;
pub mod evict;
pub mod expire;
pub mod leases;
pub mod members;

pub mod clock_shift;
pub mod collection;
pub mod edit;
pub mod expiry_rules;
pub mod restate;

pub mod forecast;
pub mod lag;

pub use keyspace::Keyspace;
pub use live::Live;
