//! Mayfly: a single-threaded, in-memory server of the Redis protocol, built around key expiry.
//!
//! Modules in reading order; each uses only those above it.

// Transcripts and lists of cases are long and read from top to bottom.
#![cfg_attr(test, allow(clippy::too_many_lines))]

pub mod clock;

pub mod heap;

pub mod config;

pub mod expiry;

pub mod value;

pub mod resp;

pub mod script;

pub mod store;

pub mod snapshot;

pub mod engine;

pub mod command;

pub mod web;

pub mod server;
