//! Integration tests: transcripts in virtual time, a model, snapshots, the real binary, tidiness.

// Transcripts and lists of cases are long and read from top to bottom.
#![allow(clippy::too_many_lines)]

#[path = "main/binary.rs"]
mod binary;
#[path = "main/bitmaps.rs"]
mod bitmaps;
#[path = "main/blocking.rs"]
mod blocking;
#[path = "main/client_memory.rs"]
mod client_memory;
#[path = "main/clients.rs"]
mod clients;
#[path = "main/clocks.rs"]
mod clocks;
#[path = "main/collections.rs"]
mod collections;
#[path = "main/crowd.rs"]
mod crowd;
#[path = "main/cut.rs"]
mod cut;
#[path = "main/databases.rs"]
mod databases;
#[path = "main/deaths.rs"]
mod deaths;
#[path = "main/defrag.rs"]
mod defrag;
#[path = "main/disk.rs"]
mod disk;
#[path = "main/documents.rs"]
mod documents;
#[path = "main/draws.rs"]
mod draws;
#[path = "main/effects.rs"]
mod effects;
#[path = "main/entries.rs"]
mod entries;
#[path = "main/evicting.rs"]
mod evicting;
#[path = "main/eviction.rs"]
mod eviction;
#[path = "main/expiry.rs"]
mod expiry;
#[path = "main/faults.rs"]
mod faults;
#[path = "main/fill.rs"]
mod fill;
#[path = "main/flavours.rs"]
mod flavours;
#[path = "main/geo.rs"]
mod geo;
#[path = "main/hash_fields.rs"]
mod hash_fields;
#[path = "main/hashes.rs"]
mod hashes;
#[path = "main/increx.rs"]
mod increx;
#[path = "main/ledger.rs"]
mod ledger;
#[cfg(feature = "scripting")]
#[path = "main/libraries.rs"]
mod libraries;
#[path = "main/limits.rs"]
mod limits;
#[path = "main/lists.rs"]
mod lists;
#[path = "main/loading.rs"]
mod loading;
#[path = "main/metrics.rs"]
mod metrics;
#[path = "main/model.rs"]
mod model;
#[path = "main/process.rs"]
mod process;
#[path = "main/resp3.rs"]
mod resp3;
#[path = "main/rules.rs"]
mod rules;
#[cfg(feature = "scripting")]
#[path = "main/scripts.rs"]
mod scripts;
#[path = "main/sessions.rs"]
mod sessions;
#[path = "main/set_members.rs"]
mod set_members;
#[path = "main/sets.rs"]
mod sets;
#[path = "main/settings.rs"]
mod settings;
#[path = "main/sim.rs"]
mod sim;
#[path = "main/sliding.rs"]
mod sliding;
#[path = "main/snapshot.rs"]
mod snapshot;
#[path = "main/soft.rs"]
mod soft;
#[path = "main/sort.rs"]
mod sort;
#[path = "main/storage.rs"]
mod storage;
#[path = "main/streams.rs"]
mod streams;
#[path = "main/string_compare.rs"]
mod string_compare;
#[path = "main/tidy.rs"]
mod tidy;
#[path = "main/transcripts.rs"]
mod transcripts;
#[path = "main/twin/mod.rs"]
mod twin;
#[path = "main/types.rs"]
mod types;
#[path = "main/zset_members.rs"]
mod zset_members;
#[path = "main/zsets.rs"]
mod zsets;
