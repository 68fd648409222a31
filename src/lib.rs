//! Mayfly: a single-threaded, in-memory server of the Redis protocol, built around key expiry.
//!
//! Modules in reading order; each uses only those above it.

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
