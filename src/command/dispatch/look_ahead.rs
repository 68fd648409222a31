//! The passes before a batch. The first keys of its requests are hashed and the cache lines of
//! their probes, then of their entries, are asked for, so that the misses of up to 32 lookups
//! overlap. (At a million keys: 0.95 us per GET without these passes, 0.26 with them.) A look-ahead
//! is a hint: a wrong guess costs time, never correctness. Names and keys that follow each other
//! are looked up and hashed once.
//!
//! How many lines an entry has is known when its first is there, which a pass of its own waits for.
//! A GET of a value of 100 bytes took 365 ns of processor time without that pass and takes 234, one
//! of 32 bytes of a sliding key, whose entry has two lines, 251 and 229; an entry of one line costs
//! 3 % more.
//!
//! Then the first members or fields of those commands that have one are hashed, their segments and
//! their records asked for, and the hashes kept for the commands; in a set or hash of a million
//! that takes a fifth to a quarter from SADD, HSET and HGET in pipelines of 64, and as much from
//! SADD in pipelines of 16. (Asking for each entry only eight requests ahead of its own, to have
//! fewer misses in flight, gained nothing in runs of redis-benchmark side by side.)

use super::BATCH_MAX;
use super::admit::ROW_NONE;
use crate::command::table::row::{MEMBER_AT, flag};
use crate::command::table::table;
use crate::engine::Engine;
use crate::engine::session::SessionKey;
use crate::store::entry::Slot;
use crate::value::segmented::Segmented;

/// Keys, members and fields that are longer, in bytes, are not looked at ahead: hashing them takes
/// longer than the misses do, and the batch that waits for that could be of any length.
const LOOKED_AT_BYTES_MAX: usize = 1024;

/// The look-ahead passes over a batch: three over the first keys, two over the first members of
/// those commands that have one.
pub(super) fn look_ahead(engine: &mut Engine, batch: &[(SessionKey, usize)]) {
    let Engine {
        sessions, keyspace, ..
    } = engine;
    let table = table();
    let mut has_members = false;
    for &(key, count) in batch {
        let session = &mut sessions[key];
        let db = session.db;
        let (requests, args, source) = session.input.upcoming(count);
        let mut last_name: (&[u8], u16) = (b"", ROW_NONE);
        let mut last_key: Option<(&[u8], u64)> = None;
        for request in requests {
            let ranges = request.ranges(args);
            let name = ranges[0].of(source);
            if name != last_name.0 {
                last_name = (name, table.find(name).unwrap_or(ROW_NONE));
            }
            let row = last_name.1;
            request.row = row;
            request.hash = None;
            request.member_hash = None;
            if row != ROW_NONE {
                let entry = table.entry(row);
                has_members |= entry.is(flag::ON_MEMBER);
                if let Some(spec) = entry.row.keys.first()
                    && let Some(range) = ranges.get(spec.first_key())
                    && let key = range.of(source)
                    && key.len() <= LOOKED_AT_BYTES_MAX
                {
                    // The last byte first: keys that differ do so near their end.
                    let same =
                        last_key.filter(|(last, _)| key.last() == last.last() && key == *last);
                    last_key = same.or_else(|| Some((key, keyspace.look_ahead(db, key))));
                    request.hash = last_key.map(|(_, hash)| hash);
                }
            }
        }
    }
    let mut entries: [Option<&Slot>; BATCH_MAX] = [None; BATCH_MAX];
    let mut free = entries.iter_mut();
    for &(key, count) in batch {
        let session = &mut sessions[key];
        let db = session.db;
        let (requests, _, _) = session.input.upcoming(count);
        for (hash, entry) in requests.iter().filter_map(|r| r.hash).zip(&mut free) {
            *entry = keyspace.look_at_entry(db, hash);
        }
    }
    entries.into_iter().flatten().for_each(Slot::prefetch_rest);
    if has_members {
        look_at_members(engine, batch);
    }
}

/// The last two passes: over the first members of those commands that have one.
fn look_at_members(engine: &mut Engine, batch: &[(SessionKey, usize)]) {
    let Engine {
        sessions, keyspace, ..
    } = engine;
    let mut looks: [Option<(&Segmented, u64)>; BATCH_MAX] = [None; BATCH_MAX];
    let mut free = looks.iter_mut();
    for &(key, count) in batch {
        let session = &mut sessions[key];
        let db = session.db;
        let (requests, args, source) = session.input.upcoming(count);
        // Often many members of one collection follow each other.
        let mut last = (None, None);
        for request in requests {
            let Some(hash) = request.hash else { continue };
            if !table().entry(request.row).is(flag::ON_MEMBER) {
                continue;
            }
            if last.0 != Some(hash) {
                last = (Some(hash), keyspace.probable_members(db, hash));
            }
            if let Some(members) = last.1
                && let Some(range) = request.ranges(args).get(MEMBER_AT)
                && let member = range.of(source)
                && member.len() <= LOOKED_AT_BYTES_MAX
                && let Some(look) = free.next()
            {
                let hash = members.hash(member);
                request.member_hash = Some(hash);
                members.prefetch_segment(hash);
                *look = Some((members, hash));
            }
        }
    }
    for (members, hash) in looks.into_iter().flatten() {
        members.prefetch_record(hash);
    }
}
