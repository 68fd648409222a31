//! From entries to the bytes of the file: which records they make, and in which chunks these go.
//!
//! The job that takes a snapshot says what is written and when: a string at once, a collection
//! element by element in parts, with deadlines in Unix time. It takes chunks from here as they are
//! finished, and in the end the footer.
//!
//! ```text
//! string ────────────────────────────┐
//! begin_part, element ..., end_part ─┴─> open chunks ──> finished chunks ──> next_chunk
//! finish: the open ones too, and the footer
//! ```
//!
//! A chunk is of one database and one kind. There is an open one for the collections and one for
//! each [`Stream`] of strings: those of the sweep are of one database for long, those that commands
//! have kept come from anywhere, and would end the sweep's chunk with every entry. Keys with
//! more than a TTL have two open chunks of their own.
//!
//! Long strings are not copied; they have a chunk of their own, which shares their bytes with the
//! keyspace.
//!
//! Not here: how a record and a chunk look, byte by byte (`format`); which entries the snapshot
//! shows, what is due, and how much may be done at once (`snapshot`).

use std::collections::VecDeque;

use bytes::Bytes;

use super::format::{
    self, Chunk, ChunkWriter, Elements, Footer, Header, KIND_COLLECTIONS, KIND_EXTRA_COLLECTIONS,
    KIND_EXTRA_STRINGS, KIND_LIBRARIES, KIND_RULES, KIND_STRINGS, LibraryRecord, PartRecord,
    RuleRecord, SHARED_BYTES_MIN, StringRecord,
};
use crate::value::{Kind, StringRef};

pub use super::format::Extras;

/// A part of a collection is full when its elements take so many bytes.
const PART_BYTES_GOAL: usize = 64 * 1024;

/// The bytes that a snapshot begins with. `keys` are those of all databases at the cut.
pub fn header(cut_unix_ms: i64, keys: u64, databases: usize) -> Vec<u8> {
    let mut version = env!("CARGO_PKG_VERSION")
        .split('.')
        .map(|part| part.parse().unwrap_or(0));
    format::write_header(&Header {
        cut_unix_ms,
        keys,
        databases: databases as u32,
        server: std::array::from_fn(|_| version.next().unwrap_or(0)),
    })
}

/// Where a string comes from.
#[derive(Clone, Copy)]
pub enum Stream {
    /// The walk through the tables.
    Swept,
    /// A command that changed or removed its entry.
    Kept,
}

/// What stands in every record of an entry.
#[derive(Clone, Copy)]
pub struct Head<'a> {
    /// Number of the database.
    pub db: u16,
    /// The key.
    pub key: &'a [u8],
    /// Its deadline in Unix ms.
    pub deadline: Option<i64>,
    /// What it has besides.
    pub extras: Extras,
}

/// Encodes the entries of one snapshot.
#[derive(Default)]
pub struct Encoder {
    /// The open chunks of strings, by [`Stream`].
    strings: [Option<ChunkWriter>; 2],
    /// The open chunk of collections.
    collections: Option<ChunkWriter>,
    /// The open chunks of strings and of collections that have more than a deadline.
    extra_strings: Option<ChunkWriter>,
    extra_collections: Option<ChunkWriter>,
    /// The elements of the part that has begun.
    elements: Elements,
    /// They have deadlines.
    is_dated: bool,
    output: Output,
}

impl Encoder {
    /// Adds a string; how many bytes were copied for it. `share` gives the same bytes in a form
    /// that another thread can read, if there is one.
    pub fn string(
        &mut self,
        stream: Stream,
        head: Head<'_>,
        value: &[u8],
        is_edited: bool,
        share: impl FnOnce() -> Option<Bytes>,
    ) -> usize {
        let Head {
            db,
            key,
            deadline,
            extras,
        } = head;
        self.output.count(deadline);
        if value.len() >= SHARED_BYTES_MIN
            && let Some(shared) = share()
        {
            let ends = (deadline, extras);
            let chunk = Chunk::of_string(db, key, ends, shared, is_edited);
            self.output.add(chunk);
            return 0;
        }
        let bytes = key.len() + value.len() + 32;
        let record = StringRecord {
            key,
            deadline,
            value,
            is_edited,
        };
        if !extras.are_none() {
            let open = &mut self.extra_strings;
            let chunk = self.output.make_room(open, KIND_EXTRA_STRINGS, db, bytes);
            chunk.push((extras, &record));
        } else {
            let open = &mut self.strings[stream as usize];
            let chunk = self.output.make_room(open, KIND_STRINGS, db, bytes);
            chunk.push(&record);
        }
        bytes
    }

    /// Adds a library of functions, in a chunk of its own.
    pub fn library(&mut self, code: &[u8]) {
        self.output.count(None);
        let buffer = self.output.spare.pop().unwrap_or_default();
        let mut chunk = ChunkWriter::new(buffer, KIND_LIBRARIES, 0);
        chunk.push(&LibraryRecord { code });
        self.output.add(chunk.finish());
    }

    /// Adds rules of expiry, in a chunk of their own.
    pub fn rules(&mut self, texts: &[String]) {
        if texts.is_empty() {
            return;
        }
        let buffer = self.output.spare.pop().unwrap_or_default();
        let mut chunk = ChunkWriter::new(buffer, KIND_RULES, 0);
        for text in texts {
            self.output.count(None);
            let text = text.as_bytes();
            chunk.push(&RuleRecord { text });
        }
        self.output.add(chunk.finish());
    }

    /// Begins a part of a collection, whose elements may have deadlines.
    pub fn begin_part(&mut self, is_dated: bool) {
        self.elements.clear();
        self.is_dated = is_dated;
    }

    /// Adds an element to the part: its strings, and its deadline in Unix ms if it has one.
    pub fn element(&mut self, strings: &[StringRef<'_>], deadline: Option<i64>) {
        strings
            .iter()
            .for_each(|&string| self.elements.push(string));
        if self.is_dated {
            let unix_ms = deadline.map(i64::to_le_bytes);
            self.elements.push(StringRef::Short(
                unix_ms.as_ref().map_or(b"", |bytes| bytes),
            ));
        }
    }

    /// Whether the part should be ended.
    pub fn is_part_full(&self) -> bool {
        self.elements.len() >= PART_BYTES_GOAL
    }

    /// Ends the part, the `nth` of its collection from 0; how many bytes were copied. A part
    /// without elements makes no record, and is none.
    pub fn end_part(&mut self, head: Head<'_>, kind: Kind, nth: u32) -> Option<usize> {
        if self.elements.is_empty() {
            return None;
        }
        self.output.count(head.deadline);
        let record = PartRecord {
            key: head.key,
            deadline: head.deadline,
            kind: format::kind_of_part(kind, self.is_dated),
            part: nth,
            elements: self.elements.copied().unwrap_or_default(),
        };
        if self.elements.copied().is_none() {
            // After those before it: parts stand in order.
            let open = if head.extras.are_none() {
                &mut self.collections
            } else {
                &mut self.extra_collections
            };
            self.output.close(open.take());
            let chunk = Chunk::of_part(head.db, &record, head.extras, &self.elements);
            self.output.add(chunk);
            return Some(0);
        }
        let bytes = record.key.len() + record.elements.len() + 48;
        let output = &mut self.output;
        if !head.extras.are_none() {
            let (open, kind) = (&mut self.extra_collections, KIND_EXTRA_COLLECTIONS);
            let chunk = output.make_room(open, kind, head.db, bytes);
            chunk.push((head.extras, record));
        } else {
            let open = &mut self.collections;
            let chunk = output.make_room(open, KIND_COLLECTIONS, head.db, bytes);
            chunk.push(record);
        }
        Some(bytes)
    }

    /// The next finished chunk, in the order of the file.
    pub fn next_chunk(&mut self) -> Option<Chunk> {
        self.output.finished.pop_front()
    }

    /// Takes back what [`Encoder::next_chunk`] gave last; it will be the next again.
    pub fn give_back(&mut self, chunk: Chunk) {
        self.output.finished.push_front(chunk);
    }

    /// Takes a buffer that is not needed any more, for a chunk to come.
    pub fn reuse(&mut self, buffer: Vec<u8>) {
        self.output.spare.push(buffer);
    }

    /// Finishes the open chunks; the footer, which comes after all chunks.
    pub fn finish(&mut self) -> Footer {
        let [swept, kept] = &mut self.strings;
        for open in [
            swept,
            kept,
            &mut self.collections,
            &mut self.extra_strings,
            &mut self.extra_collections,
        ] {
            self.output.close(open.take());
        }
        self.output.footer.clone()
    }
}

/// Finished chunks, and what is known of all of them.
#[derive(Default)]
struct Output {
    finished: VecDeque<Chunk>,
    spare: Vec<Vec<u8>>,
    footer: Footer,
}

impl Output {
    /// Counts a record.
    fn count(&mut self, deadline: Option<i64>) {
        self.footer.records += 1;
        self.footer.volatile += u64::from(deadline.is_some());
    }

    fn add(&mut self, chunk: Chunk) {
        self.footer.chunks += 1;
        self.finished.push_back(chunk);
    }

    fn close(&mut self, chunk: Option<ChunkWriter>) {
        if let Some(chunk) = chunk.filter(|chunk| chunk.records() > 0) {
            self.add(chunk.finish());
        }
    }

    /// A chunk of this kind and database with room for a record: the open one, or a new one.
    fn make_room<'c>(
        &mut self,
        open: &'c mut Option<ChunkWriter>,
        kind: u8,
        db: u16,
        bytes: usize,
    ) -> &'c mut ChunkWriter {
        let must_close = open
            .as_ref()
            .is_some_and(|chunk| chunk.db() != db || chunk.is_full_for(bytes));
        if must_close {
            self.close(open.take());
        }
        open.get_or_insert_with(|| {
            let buffer = self.spare.pop().unwrap_or_default();
            ChunkWriter::new(buffer, kind, db)
        })
    }
}
