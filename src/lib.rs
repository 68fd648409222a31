//! Mayfly: a single-threaded, in-memory server of the Redis protocol, built around key expiry.
//!
//! Modules in reading order; each uses only those above it.

pub mod clock;
