//! The layout of a snapshot file, byte by byte. All integers are little-endian.
//!
//! ```text
//! header   8  magic  8d 'M' 'A' 'Y' 0d 0a 1a 0a
//!          2  version of the layout (4)
//!          2  oldest version whose reader can read it (4)
//!          4  length of the body in bytes, at most 64 KiB
//!          .  body: bincode Header
//!          4  CRC-32 of everything before
//! chunk    1  kind: 1 strings, 2 collections, 4 and 5 the same of keys with more than a TTL, 131
//!             libraries of functions, 134 rules of expiry; bit 7 set: a reader that does not know
//!             the kind may skip it
//!          1  flags: bit 0 is reserved for compression; any other bit set is refused
//!          2  number of the database
//!          4  length of the payload in bytes, at most 4 MiB
//!          4  records in the payload
//!          4  CRC-32 of the 12 bytes before and the payload
//!          .  payload: records, one after another
//! footer   1  kind: 0
//!          3  zero
//!          4  length of the body in bytes
//!          .  body: bincode Footer
//!          4  CRC-32 of everything since the kind
//!          8  magic, last byte first
//! ```
//!
//! A record is a bincode value in the standard configuration (variable-length integers), whose
//! fields are only integers, options and byte strings, so that no length is believed before it is
//! backed by bytes. A string larger than a chunk has a chunk of its own, whose payload may then be
//! as long as the longest strings.
//!
//! In chunks of kinds 4 and 5 more about the deadline stands before each record ([`Extras`]).
//!
//! A large collection is a sequence of records with the same key, its parts, which may be spread
//! over chunks but stand in order; other records may come between them. How a collection was kept
//! in memory is not told: a reader chooses by its own settings.
//!
//! The magic contains a byte over 127, a carriage return with a line feed and an end-of-file mark,
//! as PNG's does: transfers that change text change it and are noticed.
//!
//! Compatibility: a reader refuses a file whose second version number is beyond its own, unknown
//! flags, and unknown kinds without bit 7. Files of older versions are read forever. Version 1 had
//! no collections, version 2 no deadlines of fields, version 3 no streams. Kinds 4 and 5 came
//! later, and so did parts of kinds 7 and 8: a file without such keys is read by whoever reads
//! version 4.
//!
//! bincode ended with version 2.0.1; it is used in this file alone, so that it can be replaced.

use std::fmt;
use std::marker::PhantomData;

use bincode::config::{Configuration, standard};
use bincode::{BorrowDecode, Decode, Encode};
use bytes::Bytes;

use crate::config::BULK_BYTES_MAX;
use crate::expiry::SLIDING_MS_MAX;
use crate::value::{Kind, StringRef};

/// First bytes of a snapshot.
pub const MAGIC: [u8; 8] = *b"\x8dMAY\r\n\x1a\n";
/// Version written, and the newest that is read.
pub const VERSION: u16 = 4;
/// Bytes before the header's body.
pub const HEADER_START: usize = 16;
/// Longest body of a header or footer, in bytes.
pub const BODY_MAX: usize = 64 * 1024;
/// A string of so many bytes is shared on its way into the file instead of being copied.
pub const SHARED_BYTES_MIN: usize = 64 * 1024;
/// Bytes of a chunk before its payload.
pub const CHUNK_START: usize = 16;
/// Longest payload of more than one record, in bytes.
pub const PAYLOAD_MAX: usize = 4 * 1024 * 1024;
/// Longest payload of a single record: the longest key, field and value, and their lengths.
pub const SINGLE_MAX: usize = 3 * BULK_BYTES_MAX as usize + 128;
/// A chunk is closed when its payload has this length, in bytes.
pub const PAYLOAD_GOAL: usize = 256 * 1024;
/// Kind of a chunk of strings.
pub const KIND_STRINGS: u8 = 1;
/// Kind of a chunk of parts of collections.
pub const KIND_COLLECTIONS: u8 = 2;
/// Kind of a chunk of strings, each behind its [`Extras`].
pub const KIND_EXTRA_STRINGS: u8 = 4;
/// Kind of a chunk of parts of collections, each behind the same.
pub const KIND_EXTRA_COLLECTIONS: u8 = 5;
/// Kind of a chunk of libraries. A reader that knows none skips it.
pub const KIND_LIBRARIES: u8 = KIND_SKIPPABLE | 3;
/// Kind of a chunk of rules of expiry. A reader that knows none skips it.
pub const KIND_RULES: u8 = KIND_SKIPPABLE | 6;
/// Kind of the footer.
pub const KIND_END: u8 = 0;
/// Bit of a kind that may be skipped.
pub const KIND_SKIPPABLE: u8 = 0x80;

const CONFIG: Configuration = standard();

/// Body of the header.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Header {
    /// Unix time in ms of the instant the snapshot shows.
    pub cut_unix_ms: i64,
    /// Keys in all databases at that instant, due ones included: a hint for the loader.
    pub keys: u64,
    /// Databases of the server.
    pub databases: u32,
    /// Version of the server, as three numbers.
    pub server: [u16; 3],
}

/// Body of the footer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Footer {
    /// Chunks before it.
    pub chunks: u64,
    /// Records in them.
    pub records: u64,
    /// Records with a deadline.
    pub volatile: u64,
    /// CRC-32 of the chunks' CRC-32s in order.
    pub crc_of_crcs: u32,
}

/// A key with a string.
#[derive(Clone, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct StringRecord<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Deadline in Unix ms.
    pub deadline: Option<i64>,
    /// The value.
    pub value: &'a [u8],
    /// The value was edited in place (OBJECT ENCODING says raw).
    pub is_edited: bool,
}

/// What a key has besides a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct Extras {
    /// The span by which the deadline slides, in ms.
    pub sliding_ms: Option<u64>,
    /// How long before the deadline the value becomes stale, in ms.
    pub soft_before_ms: Option<u64>,
}

impl Extras {
    /// Whether there is nothing.
    pub fn are_none(&self) -> bool {
        *self == Extras::default()
    }
}

/// A library of functions.
#[derive(Clone, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct LibraryRecord<'a> {
    /// Its text, first line and all.
    pub code: &'a [u8],
}

/// A rule of expiry.
#[derive(Clone, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct RuleRecord<'a> {
    /// As it is written in a configuration file, behind the name of the setting.
    pub text: &'a [u8],
}

/// A part of a collection: all of a small one.
#[derive(Clone, Debug, PartialEq, Eq, Encode, BorrowDecode)]
pub struct PartRecord<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Deadline of the key in Unix ms.
    pub deadline: Option<i64>,
    /// 1 list, 2 set, 3 sorted set, 4 hash, 5 hash with deadlines of fields, 6 stream, 7 set with
    /// deadlines of members, 8 sorted set with them.
    pub kind: u8,
    /// Number of the part, from 0.
    pub part: u32,
    /// Its elements, as [`Elements::push`] wrote their strings: items of a list in order, members
    /// of a set, members of a sorted set with the eight bytes of their scores (IEEE 754 double),
    /// fields with their values; behind each, where they have deadlines, that: nothing, or the
    /// eight bytes of a Unix time in ms. Of a stream, what
    /// [`Piece::for_each`](crate::value::stream::Piece::for_each) says.
    pub elements: &'a [u8],
}

/// [`PartRecord::kind`] of a hash with deadlines of fields.
pub const DATED_HASH: u8 = 5;
/// [`PartRecord::kind`] of a stream.
pub const STREAM: u8 = 6;

/// [`PartRecord::kind`] of a set with deadlines of members.
pub const DATED_SET: u8 = 7;

/// [`PartRecord::kind`] of a sorted set with deadlines of members.
pub const DATED_ZSET: u8 = 8;

/// [`PartRecord::kind`] of a collection.
pub fn kind_of_part(kind: Kind, is_dated: bool) -> u8 {
    match kind {
        Kind::Hash if is_dated => DATED_HASH,
        Kind::Set if is_dated => DATED_SET,
        Kind::Zset if is_dated => DATED_ZSET,
        Kind::Stream => STREAM,
        _ => kind as u8,
    }
}

/// The type of a collection; none if there is no such kind.
pub fn type_of_part(kind: u8) -> Option<Kind> {
    match kind {
        1 => Some(Kind::List),
        2 | DATED_SET => Some(Kind::Set),
        3 | DATED_ZSET => Some(Kind::Zset),
        4 | DATED_HASH => Some(Kind::Hash),
        STREAM => Some(Kind::Stream),
        _ => None,
    }
}

/// The elements of a [`PartRecord`] while they are gathered. Long strings among them are shared
/// with the keyspace: copying one would take as long as it is.
#[derive(Default)]
pub struct Elements {
    /// All but the shared strings.
    bytes: Vec<u8>,
    /// The shared strings, and how many of `bytes` come before each.
    shared: Vec<(usize, Bytes)>,
    shared_bytes: usize,
}

impl Elements {
    /// Bytes they take in the file.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.shared_bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Forgets all, to be used again.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.shared.clear();
        self.shared_bytes = 0;
    }

    /// Appends a string: its length and its bytes.
    pub fn push(&mut self, string: StringRef<'_>) {
        match string {
            StringRef::Long(long) if long.len() >= SHARED_BYTES_MIN => {
                encode(long.len() as u64, &mut self.bytes);
                self.shared.push((self.bytes.len(), long.clone()));
                self.shared_bytes += long.len();
            }
            _ => encode(&*string, &mut self.bytes),
        }
    }

    /// Their bytes, if none are shared.
    pub fn copied(&self) -> Option<&[u8]> {
        self.shared.is_empty().then_some(&self.bytes)
    }
}

/// The strings of the elements of a [`PartRecord`].
pub struct Strings<'a>(pub &'a [u8]);

impl<'a> Iterator for Strings<'a> {
    type Item = Result<&'a [u8], Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        match bincode::borrow_decode_from_slice(self.0, CONFIG) {
            Ok((string, used)) => {
                self.0 = &self.0[used..];
                Some(Ok(string))
            }
            Err(_) => {
                self.0 = &[];
                Some(Err(Fault::BadRecord))
            }
        }
    }
}

/// What is wrong with a file, without the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin with [`MAGIC`].
    NotASnapshot,
    /// An RDB file.
    Rdb,
    /// It needs a newer reader; the version it asks for.
    TooNew(u16),
    /// It ends too early.
    Truncated,
    /// A checksum does not match.
    BadChecksum,
    /// A length beyond what the layout allows.
    TooLong,
    /// Flags that this version does not know.
    UnknownFlags(u8),
    /// A kind of chunk that this version does not know.
    UnknownKind(u8),
    /// A database beyond the configured number.
    NoSuchDatabase(u16),
    /// A record that is none.
    BadRecord,
    /// The file has no bytes.
    Empty,
    /// The numbers in the footer are not those of the chunks.
    WrongTotals,
    /// Bytes behind the end.
    TrailingBytes,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Rdb => f.write_str("an RDB file of Redis or Valkey, which Mayfly cannot read"),
            Fault::Empty => {
                f.write_str("the file is empty; without it the server starts with no keys")
            }
            Fault::NotASnapshot => f.write_str("not a Mayfly snapshot (wrong magic)"),
            Fault::TooNew(version) => {
                write!(
                    f,
                    "written for readers of version {version} or newer, this is {VERSION}"
                )
            }
            Fault::Truncated => f.write_str("the file ends here, too early"),
            Fault::BadChecksum => f.write_str("checksum mismatch"),
            Fault::TooLong => f.write_str("a length is beyond what the format allows"),
            Fault::UnknownFlags(flags) => write!(f, "unknown flags {flags:#04x}"),
            Fault::UnknownKind(kind) => write!(f, "unknown kind of chunk {kind}"),
            Fault::NoSuchDatabase(db) => {
                write!(
                    f,
                    "it has keys in database {db}, so the setting `databases` must be {} or more",
                    u32::from(*db) + 1
                )
            }
            Fault::BadRecord => f.write_str("a record cannot be decoded"),
            Fault::WrongTotals => f.write_str("the footer's totals do not match the chunks"),
            Fault::TrailingBytes => f.write_str("bytes behind the end of the snapshot"),
        }
    }
}

fn encode(value: impl Encode, out: &mut Vec<u8>) {
    bincode::encode_into_std_write(value, out, CONFIG)
        .expect("writing into a vector cannot fail, and no field is unencodable");
}

/// Decodes a whole body; trailing bytes are an error.
fn decode<T: Decode<()>>(body: &[u8]) -> Result<T, Fault> {
    let (value, used) = bincode::decode_from_slice(body, CONFIG).map_err(|_| Fault::BadRecord)?;
    if used == body.len() {
        Ok(value)
    } else {
        Err(Fault::BadRecord)
    }
}

/// The bytes of a header.
pub fn write_header(header: &Header) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&VERSION.to_le_bytes());
    let mut body = Vec::new();
    encode(header, &mut body);
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.append(&mut body);
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Whether these are the first bytes of an RDB file, as Redis and Valkey write.
pub fn is_rdb(start: &[u8]) -> bool {
    start.starts_with(b"REDIS") || start.starts_with(b"VALKEY")
}

/// Checks the first [`HEADER_START`] bytes; the length of what follows (body and checksum).
///
/// # Errors
/// If it is no snapshot, or one for a newer reader.
pub fn read_header_start(start: &[u8; HEADER_START]) -> Result<usize, Fault> {
    if is_rdb(start) {
        return Err(Fault::Rdb);
    }
    if start[..8] != MAGIC {
        return Err(Fault::NotASnapshot);
    }
    let oldest_reader = u16_at(start, 10);
    if oldest_reader > VERSION {
        return Err(Fault::TooNew(oldest_reader));
    }
    let len = u32_at(start, 12) as usize;
    if len > BODY_MAX {
        return Err(Fault::TooLong);
    }
    Ok(len + 4)
}

/// Decodes a header, given its start and the rest.
///
/// # Errors
/// A wrong checksum or body.
pub fn read_header(start: &[u8; HEADER_START], rest: &[u8]) -> Result<Header, Fault> {
    let body = &rest[..rest.len() - 4];
    let mut crc = crc32fast::Hasher::new();
    crc.update(start);
    crc.update(body);
    if crc.finalize() != u32_at(rest, body.len()) {
        return Err(Fault::BadChecksum);
    }
    decode(body)
}

/// What stands before a chunk's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkStart {
    /// Kind of its records.
    pub kind: u8,
    /// Number of the database.
    pub db: u16,
    /// Length of the payload.
    pub len: u32,
    /// Number of records.
    pub records: u32,
    /// Checksum.
    pub crc: u32,
}

/// Reads what stands before a payload. For [`KIND_END`] only `kind` and `len` mean anything.
///
/// # Errors
/// Flags, kinds or lengths that this version does not know.
pub fn read_chunk_start(start: &[u8; CHUNK_START]) -> Result<ChunkStart, Fault> {
    let chunk = ChunkStart {
        kind: start[0],
        db: u16_at(start, 2),
        len: u32_at(start, 4),
        records: u32_at(start, 8),
        crc: u32_at(start, 12),
    };
    let is_known = matches!(
        chunk.kind,
        KIND_STRINGS | KIND_COLLECTIONS | KIND_EXTRA_STRINGS | KIND_EXTRA_COLLECTIONS
    );
    if !is_known && chunk.kind & KIND_SKIPPABLE == 0 {
        return Err(Fault::UnknownKind(chunk.kind));
    }
    if start[1] != 0 {
        return Err(Fault::UnknownFlags(start[1]));
    }
    let longest = if chunk.records == 1 {
        SINGLE_MAX
    } else {
        PAYLOAD_MAX
    };
    if chunk.len as usize > longest || chunk.records > chunk.len {
        return Err(Fault::TooLong);
    }
    Ok(chunk)
}

/// Checks a payload against its start.
///
/// # Errors
/// A wrong checksum.
pub fn check_payload(start: &[u8; CHUNK_START], payload: &[u8]) -> Result<(), Fault> {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&start[..12]);
    crc.update(payload);
    if crc.finalize() == u32_at(start, 12) {
        Ok(())
    } else {
        Err(Fault::BadChecksum)
    }
}

/// The records of a payload: [`StringRecord`]s of [`KIND_STRINGS`], [`PartRecord`]s of
/// [`KIND_COLLECTIONS`], [`LibraryRecord`]s of [`KIND_LIBRARIES`]; pairs of [`Extras`] and such a
/// record of [`KIND_EXTRA_STRINGS`] and [`KIND_EXTRA_COLLECTIONS`].
pub struct Records<'a, T> {
    payload: &'a [u8],
    left: u32,
    records: PhantomData<T>,
}

impl<'a, T> Records<'a, T> {
    /// `records` records that must fill `payload` exactly.
    pub fn new(payload: &'a [u8], records: u32) -> Records<'a, T> {
        Records {
            payload,
            left: records,
            records: PhantomData,
        }
    }
}

impl<'a, T: BorrowDecode<'a, ()>> Iterator for Records<'a, T> {
    type Item = Result<T, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let is_used_up = std::mem::take(&mut self.payload).is_empty();
            return if is_used_up {
                None
            } else {
                Some(Err(Fault::BadRecord))
            };
        }
        self.left -= 1;
        match bincode::borrow_decode_from_slice(self.payload, CONFIG) {
            Ok((record, used)) => {
                self.payload = &self.payload[used..];
                Some(Ok(record))
            }
            Err(_) => {
                (self.left, self.payload) = (0, &[]);
                Some(Err(Fault::BadRecord))
            }
        }
    }
}

/// The texts of a chunk of libraries or of rules.
///
/// # Errors
/// Anything that is not exactly such records.
pub fn texts<'a, T: BorrowDecode<'a, ()>>(
    chunk: ChunkStart,
    payload: &'a [u8],
    text: fn(T) -> &'a [u8],
) -> Result<Vec<&'a [u8]>, Fault> {
    let records = Records::<T>::new(payload, chunk.records);
    records.map(|record| record.map(text)).collect()
}

/// A record with what its key has besides a deadline.
pub type Stated<T> = (Extras, T);

/// The records of strings or of parts, of whichever kind their chunk is. `deadline` is that of a
/// record, in Unix ms.
fn stated<'a, T: BorrowDecode<'a, ()> + 'a>(
    chunk: ChunkStart,
    payload: &'a [u8],
    deadline: fn(&T) -> Option<i64>,
) -> Box<dyn Iterator<Item = Result<Stated<T>, Fault>> + 'a> {
    if !matches!(chunk.kind, KIND_EXTRA_STRINGS | KIND_EXTRA_COLLECTIONS) {
        let records = Records::<T>::new(payload, chunk.records);
        return Box::new(records.map(|record| record.map(|record| (Extras::default(), record))));
    }
    let records = Records::<(Extras, T)>::new(payload, chunk.records);
    Box::new(records.map(move |record| {
        let (extras, record) = record?;
        let spans = [extras.sliding_ms, extras.soft_before_ms];
        let are_good = match spans {
            [Some(ms), None] | [None, Some(ms)] => (1..=SLIDING_MS_MAX).contains(&ms),
            _ => false,
        };
        if !are_good || deadline(&record).is_none() {
            return Err(Fault::BadRecord);
        }
        Ok((extras, record))
    }))
}

/// The strings of a chunk of [`KIND_STRINGS`] or [`KIND_EXTRA_STRINGS`].
pub fn strings<'a>(
    chunk: ChunkStart,
    payload: &'a [u8],
) -> impl Iterator<Item = Result<Stated<StringRecord<'a>>, Fault>> {
    stated(chunk, payload, |record: &StringRecord<'_>| record.deadline)
}

/// The parts of a chunk of [`KIND_COLLECTIONS`] or [`KIND_EXTRA_COLLECTIONS`].
pub fn parts<'a>(
    chunk: ChunkStart,
    payload: &'a [u8],
) -> impl Iterator<Item = Result<Stated<PartRecord<'a>>, Fault>> {
    stated(chunk, payload, |record: &PartRecord<'_>| record.deadline)
}

/// A chunk being filled, header included.
pub struct ChunkWriter {
    /// Its bytes so far; the first [`CHUNK_START`] are filled in at the end.
    buffer: Vec<u8>,
    kind: u8,
    db: u16,
    records: u32,
}

impl ChunkWriter {
    /// An empty chunk of this kind for a database, in a buffer that is reused.
    pub fn new(mut buffer: Vec<u8>, kind: u8, db: u16) -> ChunkWriter {
        buffer.clear();
        buffer.resize(CHUNK_START, 0);
        ChunkWriter {
            buffer,
            kind,
            db,
            records: 0,
        }
    }

    /// A chunk for a single record, most of which is elsewhere.
    fn small(kind: u8, db: u16, key_bytes: usize) -> ChunkWriter {
        let mut buffer = Vec::with_capacity(CHUNK_START + key_bytes + 48);
        buffer.resize(CHUNK_START, 0);
        ChunkWriter {
            buffer,
            kind,
            db,
            records: 1,
        }
    }

    /// The database of its records.
    pub fn db(&self) -> u16 {
        self.db
    }

    /// Records so far.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Whether it should be closed before another record of `bytes` bytes.
    pub fn is_full_for(&self, bytes: usize) -> bool {
        self.records > 0 && self.buffer.len() + bytes > PAYLOAD_GOAL
    }

    /// Appends a record of the chunk's kind.
    pub fn push(&mut self, record: impl Encode) {
        encode(record, &mut self.buffer);
        self.records += 1;
    }

    /// The finished chunk but for its checksum, which [`Chunk::seal`] adds.
    pub fn finish(self) -> Chunk {
        self.finish_with(Vec::new())
    }

    /// The same with more payload.
    fn finish_with(mut self, rest: Vec<Bytes>) -> Chunk {
        let len = self.buffer.len() - CHUNK_START + rest.iter().map(Bytes::len).sum::<usize>();
        self.buffer[0] = self.kind;
        self.buffer[2..4].copy_from_slice(&self.db.to_le_bytes());
        self.buffer[4..8].copy_from_slice(&(len as u32).to_le_bytes());
        self.buffer[8..12].copy_from_slice(&self.records.to_le_bytes());
        Chunk {
            head: self.buffer,
            rest,
        }
    }
}

/// A chunk on its way into the file. Long strings in it are shared with the keyspace.
pub struct Chunk {
    /// All of it, or what is before the first long string.
    head: Vec<u8>,
    /// Long strings, and what is between and behind them.
    rest: Vec<Bytes>,
}

impl Chunk {
    /// Bytes of memory it holds or shares.
    pub fn held_bytes(&self) -> usize {
        self.head.capacity() + self.rest.iter().map(Bytes::len).sum::<usize>()
    }

    /// A chunk of a single string, as [`ChunkWriter::push`] would write its record.
    pub fn of_string(
        db: u16,
        key: &[u8],
        (deadline, extras): (Option<i64>, Extras),
        value: Bytes,
        is_edited: bool,
    ) -> Chunk {
        let kind = if extras.are_none() {
            KIND_STRINGS
        } else {
            KIND_EXTRA_STRINGS
        };
        let mut writer = ChunkWriter::small(kind, db, key.len());
        let buffer = &mut writer.buffer;
        if !extras.are_none() {
            encode(extras, buffer);
        }
        encode(key, buffer);
        encode(deadline, buffer);
        encode(value.len() as u64, buffer);
        let mut tail = Vec::new();
        encode(is_edited, &mut tail);
        writer.finish_with(vec![value, tail.into()])
    }

    /// A chunk of a single part of a collection, as [`ChunkWriter::push`] would write its record;
    /// with these elements in the place of the record's.
    pub fn of_part(db: u16, record: &PartRecord<'_>, extras: Extras, elements: &Elements) -> Chunk {
        let kind = if extras.are_none() {
            KIND_COLLECTIONS
        } else {
            KIND_EXTRA_COLLECTIONS
        };
        let mut writer = ChunkWriter::small(kind, db, record.key.len());
        let buffer = &mut writer.buffer;
        if !extras.are_none() {
            encode(extras, buffer);
        }
        encode(record.key, buffer);
        encode(record.deadline, buffer);
        encode(record.kind, buffer);
        encode(record.part, buffer);
        encode(elements.len() as u64, buffer);
        let mut rest = Vec::new();
        let mut from = 0;
        for (at, shared) in &elements.shared {
            rest.push(Bytes::copy_from_slice(&elements.bytes[from..*at]));
            rest.push(shared.clone());
            from = *at;
        }
        rest.push(Bytes::copy_from_slice(&elements.bytes[from..]));
        writer.finish_with(rest)
    }

    /// Its bytes in order.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&*self.head).chain(self.rest.iter().map(|part| &**part))
    }

    /// Adds the checksum; gives it back for the footer.
    pub fn seal(&mut self) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(&self.head[..12]);
        crc.update(&self.head[CHUNK_START..]);
        self.rest.iter().for_each(|part| crc.update(part));
        let crc = crc.finalize();
        self.head[12..CHUNK_START].copy_from_slice(&crc.to_le_bytes());
        crc
    }

    /// Its buffer, to be filled anew; none if it was only what is before a long string.
    pub fn into_buffer(self) -> Option<Vec<u8>> {
        self.rest.is_empty().then_some(self.head)
    }
}

/// The bytes of a footer.
pub fn write_footer(footer: &Footer) -> Vec<u8> {
    let mut body = Vec::new();
    encode(footer, &mut body);
    let mut out = vec![KIND_END, 0, 0, 0];
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.append(&mut body);
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend(MAGIC.iter().rev());
    out
}

/// Decodes a footer that is given from its kind to the end of the file.
///
/// # Errors
/// Anything that is not exactly a footer.
pub fn read_footer(bytes: &[u8]) -> Result<Footer, Fault> {
    if bytes.len() < 8 {
        return Err(Fault::Truncated);
    }
    let len = u32_at(bytes, 4) as usize;
    if bytes[1..4] != [0, 0, 0] || len > BODY_MAX {
        return Err(Fault::TooLong);
    }
    let end = 8 + len + 4 + MAGIC.len();
    if bytes.len() < end {
        return Err(Fault::Truncated);
    }
    if crc32fast::hash(&bytes[..8 + len]) != u32_at(bytes, 8 + len) {
        return Err(Fault::BadChecksum);
    }
    if !bytes[8 + len + 4..end].iter().eq(MAGIC.iter().rev()) {
        return Err(Fault::BadChecksum);
    }
    if bytes.len() > end {
        return Err(Fault::TrailingBytes);
    }
    decode(&bytes[8..8 + len])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a sealed chunk.
    fn bytes_of(mut chunk: Chunk) -> Vec<u8> {
        chunk.seal();
        chunk.parts().collect::<Vec<_>>().concat()
    }

    #[test]
    fn a_shared_string_is_written_as_a_copied_one() {
        for len in [0, 1, 250, 251, 65_535, 65_536, 1 << 20] {
            for (deadline, is_edited) in [(None, false), (Some(-1), true), (Some(1 << 50), false)] {
                let value = Bytes::from(vec![b'v'; len]);
                let record = StringRecord {
                    key: b"key",
                    deadline,
                    value: &value,
                    is_edited,
                };
                let mut writer = ChunkWriter::new(Vec::new(), KIND_STRINGS, 3);
                writer.push(&record);
                let copied = bytes_of(writer.finish());
                let shared = bytes_of(Chunk::of_string(
                    3,
                    b"key",
                    (deadline, Extras::default()),
                    value.clone(),
                    is_edited,
                ));
                assert!(copied == shared, "{len} bytes");
                let (start, payload) = copied.split_at(CHUNK_START);
                let start = start.try_into().expect("a chunk has a start");
                assert_eq!(check_payload(start, payload), Ok(()));
            }
        }
    }

    #[test]
    fn shared_elements_are_written_as_copied_ones() {
        for lens in [
            vec![0],
            vec![70_000],
            vec![3, 65_536, 70_000, 9],
            vec![65_536, 1, 65_535],
        ] {
            let strings: Vec<Bytes> = lens.iter().map(|&len| vec![b'e'; len].into()).collect();
            let (mut copied, mut shared) = (Elements::default(), Elements::default());
            for string in &strings {
                copied.push(StringRef::Short(string));
                shared.push(StringRef::Long(string));
            }
            assert_eq!(copied.len(), shared.len());
            let record = PartRecord {
                key: b"key",
                deadline: Some(1 << 50),
                kind: 1,
                part: 7,
                elements: copied.copied().expect("nothing is shared"),
            };
            let mut writer = ChunkWriter::new(Vec::new(), KIND_COLLECTIONS, 3);
            writer.push(&record);
            let copied = bytes_of(writer.finish());
            assert!(
                copied == bytes_of(Chunk::of_part(3, &record, Extras::default(), &shared)),
                "{lens:?}"
            );
        }
    }
}
