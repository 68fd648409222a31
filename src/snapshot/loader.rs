//! Reading snapshots: a reader for hostile input, and the job that loads one.
//!
//! Nothing in a file is believed before it is checked: lengths against the format's limits and the
//! file's size before anything is allocated, checksums before records are decoded, totals at the
//! end. Errors name the chunk and the offset. A key that appears twice is not an error; the last
//! one stays and it is counted.
//!
//! Keys already due are skipped and counted unless `load-expired` says to keep them; fields already
//! due are skipped as well, and with its last field the hash.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::format::{
    self, CHUNK_START, ChunkStart, DATED_HASH, DATED_SET, DATED_ZSET, Extras, Fault, Footer,
    HEADER_START, Header, KIND_COLLECTIONS, KIND_END, KIND_EXTRA_COLLECTIONS, KIND_EXTRA_STRINGS,
    KIND_LIBRARIES, KIND_RULES, KIND_STRINGS, LibraryRecord, PartRecord, RuleRecord, STREAM,
    Stated, StringRecord, Strings,
};
use super::storage::Storage;
use crate::clock::{Reading, UnixMillis};
use crate::expiry::{Basis, Deadline, Soft, Term, is_due};
use crate::store::Keyspace;
use crate::store::entry::{Form, INLINE_MAX, NewValue};
use crate::store::members::strings_of;
use crate::value::{Value, stream};

/// Records inserted together, after the places they go to have been asked for.
const BATCH: usize = 32;

/// Why a snapshot was not loaded.
#[derive(Debug)]
pub enum LoadError {
    /// The file could not be read.
    Io(io::Error),
    /// It is damaged, at this chunk (the header is chunk 0) and offset.
    Damaged {
        /// Number of the chunk, from 1; 0 is the header.
        chunk: u64,
        /// Offset of the chunk's first byte.
        offset: u64,
        /// What is wrong.
        fault: Fault,
    },
}

/// Whether a file is a snapshot of Redis or Valkey, by its first bytes.
pub fn is_rdb(storage: &dyn Storage, path: &Path) -> bool {
    let mut start = [0; HEADER_START];
    let read = storage
        .open(path)
        .and_then(|(mut file, _)| file.read_exact(&mut start));
    read.is_ok() && format::is_rdb(&start)
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Io(error) => write!(f, "{error}"),
            LoadError::Damaged {
                chunk: 0, fault, ..
            } => write!(f, "header: {fault}"),
            LoadError::Damaged {
                chunk,
                offset,
                fault,
            } => {
                write!(f, "chunk {chunk} at offset {offset}: {fault}")
            }
        }
    }
}

impl LoadError {
    /// Whether the file may be whole, but does not fit the settings.
    pub fn is_misfit(&self) -> bool {
        let LoadError::Damaged { fault, .. } = self else {
            return false;
        };
        matches!(fault, Fault::NoSuchDatabase(_))
    }
}

impl std::error::Error for LoadError {}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> LoadError {
        LoadError::Io(error)
    }
}

/// Reads a snapshot chunk by chunk.
pub struct Reader<R> {
    source: R,
    /// Bytes the source has in all.
    size: u64,
    offset: u64,
    chunk: u64,
    chunk_offset: u64,
    header: Header,
    /// Records of the current chunk, as announced by its start.
    announced: u32,
    totals: Footer,
    crcs: crc32fast::Hasher,
    payload: Vec<u8>,
    is_at_end: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header. `size` is the length of the source in bytes.
    ///
    /// # Errors
    /// If it is no snapshot this version can read.
    pub fn new(mut source: R, size: u64) -> Result<Reader<R>, LoadError> {
        let damaged = |fault| LoadError::Damaged {
            chunk: 0,
            offset: 0,
            fault,
        };
        let mut start = [0; HEADER_START];
        read_exactly(&mut source, &mut start).map_err(|error| match error {
            LoadError::Damaged { .. } if size == 0 => damaged(Fault::Empty),
            LoadError::Damaged { .. } => damaged(Fault::NotASnapshot),
            other => other,
        })?;
        let len = format::read_header_start(&start).map_err(damaged)?;
        if (HEADER_START + len) as u64 > size {
            return Err(damaged(Fault::Truncated));
        }
        let mut rest = vec![0; len];
        read_exactly(&mut source, &mut rest)?;
        let header = format::read_header(&start, &rest).map_err(damaged)?;
        let offset = (HEADER_START + len) as u64;
        Ok(Reader {
            source,
            size,
            offset,
            chunk: 0,
            chunk_offset: offset,
            header,
            announced: 0,
            totals: Footer::default(),
            crcs: crc32fast::Hasher::new(),
            payload: Vec::new(),
            is_at_end: false,
        })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// An error at the current chunk.
    pub fn damaged(&self, fault: Fault) -> LoadError {
        LoadError::Damaged {
            chunk: self.chunk,
            offset: self.chunk_offset,
            fault,
        }
    }

    /// Counts a record of the current chunk towards the totals.
    pub fn count(&mut self, records: u64, volatile: u64) {
        self.totals.records += records;
        self.totals.volatile += volatile;
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), LoadError> {
        if self.offset + bytes.len() as u64 > self.size {
            return Err(self.damaged(Fault::Truncated));
        }
        match read_exactly(&mut self.source, bytes) {
            Err(LoadError::Damaged { fault, .. }) => Err(self.damaged(fault)),
            other => {
                self.offset += bytes.len() as u64;
                other
            }
        }
    }

    /// The next chunk with its payload, checked; none at the end of a whole file.
    ///
    /// # Errors
    /// What is damaged, and where.
    pub fn next_chunk(&mut self) -> Result<Option<(ChunkStart, &[u8])>, LoadError> {
        if self.is_at_end {
            return Ok(None);
        }
        self.chunk += 1;
        self.chunk_offset = self.offset;
        self.announced = 0;
        let mut start = [0; CHUNK_START];
        self.read(&mut start[..1])?;
        if start[0] == KIND_END {
            self.read_end()?;
            return Ok(None);
        }
        self.read(&mut start[1..])?;
        let chunk = format::read_chunk_start(&start).map_err(|fault| self.damaged(fault))?;
        self.announced = chunk.records;
        if u64::from(chunk.len) > self.size - self.offset {
            return Err(self.damaged(Fault::Truncated));
        }
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        payload.resize(chunk.len as usize, 0);
        let result = self.read(&mut payload);
        self.payload = payload;
        result?;
        format::check_payload(&start, &self.payload).map_err(|fault| self.damaged(fault))?;
        self.totals.chunks += 1;
        self.crcs.update(&chunk.crc.to_le_bytes());
        Ok(Some((chunk, &self.payload)))
    }

    fn read_end(&mut self) -> Result<(), LoadError> {
        let left = self.size - self.offset;
        if left > (format::BODY_MAX + 64) as u64 {
            return Err(self.damaged(Fault::TooLong));
        }
        let mut bytes = vec![KIND_END; 1 + left as usize];
        self.read(&mut bytes[1..])?;
        let footer = format::read_footer(&bytes).map_err(|fault| self.damaged(fault))?;
        self.totals.crc_of_crcs = std::mem::take(&mut self.crcs).finalize();
        if footer != self.totals {
            return Err(self.damaged(Fault::WrongTotals));
        }
        self.is_at_end = true;
        Ok(())
    }
}

fn read_exactly(source: &mut impl Read, bytes: &mut [u8]) -> Result<(), LoadError> {
    source
        .read_exact(bytes)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => LoadError::Damaged {
                chunk: 0,
                offset: 0,
                fault: Fault::Truncated,
            },
            _ => LoadError::Io(error),
        })
}

/// What a load did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Keys loaded.
    pub keys: u64,
    /// Keys skipped because they were due.
    pub expired: u64,
    /// Keys that appeared more than once.
    pub duplicates: u64,
    /// Chunks skipped because they were damaged; only with `snapshot-load partial`.
    pub lost_chunks: u64,
    /// Records that these held, as far as the file tells.
    pub lost_records: u64,
    /// How far the server's wall clock is behind the snapshot's, in ms; 0 if it is not.
    pub clock_behind_ms: i64,
}

/// How to load.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Keep keys that are due: the setting `load-expired keep`.
    pub keeps_expired: bool,
    /// Skip damaged chunks: the setting `snapshot-load partial`.
    pub is_partial: bool,
}

/// A snapshot being loaded, chunk by chunk.
pub struct Loader {
    reader: Reader<BufReader<Box<dyn Read>>>,
    size: u64,
    options: LoadOptions,
    loaded: Loaded,
    libraries: Vec<Vec<u8>>,
    rules: Vec<Vec<u8>>,
}

impl Loader {
    /// Opens a snapshot; none if there is no such file.
    ///
    /// # Errors
    /// If it cannot be read or is no snapshot.
    pub fn open(
        storage: &dyn Storage,
        path: &Path,
        reading: &Reading,
        options: LoadOptions,
    ) -> Result<Option<Loader>, LoadError> {
        let (file, size) = match storage.open(path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let reader = Reader::new(BufReader::with_capacity(1024 * 1024, file), size)?;
        let behind_ms = reader.header().cut_unix_ms - reading.to_wall(reading.now);
        let loaded = Loaded {
            clock_behind_ms: behind_ms.max(0),
            ..Loaded::default()
        };
        Ok(Some(Loader {
            reader,
            size,
            options,
            loaded,
            libraries: Vec::new(),
            rules: Vec::new(),
        }))
    }

    /// Bytes of the file, and how many have been read.
    pub fn progress(&self) -> (u64, u64) {
        (self.size, self.reader.offset())
    }

    /// The texts of the rules of expiry that were met.
    pub fn rules(&self) -> &[Vec<u8>] {
        &self.rules
    }

    /// The texts of the libraries of functions that were met.
    pub fn into_libraries(self) -> Vec<Vec<u8>> {
        self.libraries
    }

    /// The counts so far.
    pub fn loaded(&self) -> Loaded {
        self.loaded
    }

    /// The header.
    pub fn header(&self) -> &Header {
        self.reader.header()
    }

    /// Loads one chunk; true if that was the last.
    ///
    /// # Errors
    /// What is damaged, and where. Some keys may have been loaded already.
    pub fn step(&mut self, keyspace: &mut Keyspace, reading: &Reading) -> Result<bool, LoadError> {
        let has_lost = self.loaded.lost_chunks > 0;
        match self.load_chunk(keyspace, reading) {
            // The totals count what was lost as well; the end is here all the same.
            Err(LoadError::Damaged {
                fault: Fault::WrongTotals,
                ..
            }) if has_lost => Ok(true),
            Err(error @ LoadError::Damaged { .. }) if self.options.is_partial => {
                log::warn!("Skipping a damaged part of the snapshot: {error}");
                self.loaded.lost_chunks += 1;
                self.loaded.lost_records += u64::from(self.reader.announced);
                // These leave the reader behind the chunk; anything else has lost its place in the
                // file.
                Ok(!matches!(
                    error,
                    LoadError::Damaged {
                        fault: Fault::BadChecksum | Fault::BadRecord | Fault::NoSuchDatabase(_),
                        ..
                    }
                ) || self.reader.offset() >= self.size)
            }
            other => other,
        }
    }

    fn load_chunk(
        &mut self,
        keyspace: &mut Keyspace,
        reading: &Reading,
    ) -> Result<bool, LoadError> {
        let Some((chunk, payload)) = self.reader.next_chunk()? else {
            return Ok(true);
        };
        let has_keys = matches!(chunk.kind, KIND_STRINGS | KIND_COLLECTIONS);
        if has_keys && chunk.db as usize >= keyspace.databases() {
            return Err(self.reader.damaged(Fault::NoSuchDatabase(chunk.db)));
        }
        let mut target = Target {
            keyspace,
            db: chunk.db as usize,
            reading,
            options: self.options,
            loaded: &mut self.loaded,
        };
        let (volatile, fault) = match chunk.kind {
            KIND_STRINGS | KIND_EXTRA_STRINGS => target.strings(chunk, payload),
            KIND_COLLECTIONS | KIND_EXTRA_COLLECTIONS => target.collections(chunk, payload),
            KIND_LIBRARIES => {
                let texts = format::texts(chunk, payload, |record: LibraryRecord<'_>| record.code);
                (0, keep(texts, &mut self.libraries))
            }
            KIND_RULES => {
                let texts = format::texts(chunk, payload, |record: RuleRecord<'_>| record.text);
                (0, keep(texts, &mut self.rules))
            }
            _ => (0, None),
        };
        self.reader.count(u64::from(chunk.records), volatile);
        match fault {
            Some(fault) => Err(self.reader.damaged(fault)),
            None => Ok(false),
        }
    }
}

/// Adds texts to those that were met; what was wrong with them.
fn keep(texts: Result<Vec<&[u8]>, Fault>, met: &mut Vec<Vec<u8>>) -> Option<Fault> {
    match texts {
        Ok(texts) => {
            met.extend(texts.into_iter().map(<[u8]>::to_vec));
            None
        }
        Err(fault) => Some(fault),
    }
}

/// Where the records of a chunk go.
struct Target<'a> {
    keyspace: &'a mut Keyspace,
    db: usize,
    reading: &'a Reading,
    options: LoadOptions,
    loaded: &'a mut Loaded,
}

impl Target<'_> {
    /// Loads strings; how many have a deadline, and what was wrong.
    fn strings(&mut self, chunk: ChunkStart, payload: &[u8]) -> (u64, Option<Fault>) {
        let (mut volatile, mut fault) = (0, None);
        let mut batch: Vec<(u64, Stated<StringRecord<'_>>)> = Vec::with_capacity(BATCH);
        for record in format::strings(chunk, payload) {
            match record {
                Ok((extras, record)) => {
                    volatile += u64::from(record.deadline.is_some());
                    let hash = self.keyspace.look_ahead(self.db, record.key);
                    batch.push((hash, (extras, record)));
                }
                Err(error) => fault = Some(error),
            }
            if batch.len() == BATCH {
                batch
                    .drain(..)
                    .for_each(|(hash, record)| self.string(hash, &record));
            }
        }
        batch
            .drain(..)
            .for_each(|(hash, record)| self.string(hash, &record));
        (volatile, fault)
    }

    /// Loads parts of collections; how many have a deadline, and what was wrong.
    fn collections(&mut self, chunk: ChunkStart, payload: &[u8]) -> (u64, Option<Fault>) {
        let (mut volatile, mut fault) = (0, None);
        for record in format::parts(chunk, payload) {
            let result = record.and_then(|record| {
                volatile += u64::from(record.1.deadline.is_some());
                self.part(&record)
            });
            if let Err(error) = result {
                fault = Some(error);
            }
        }
        (volatile, fault)
    }

    /// The deadline in the server's own time; none if the key is dead and not to be loaded.
    fn deadline(&self, unix_ms: Option<i64>) -> Option<Option<Deadline>> {
        let deadline = unix_ms.map(|unix_ms| Deadline(self.reading.from_wall(unix_ms)));
        let is_dead = deadline.is_some_and(|deadline| is_due(deadline, self.reading.now));
        (self.options.keeps_expired || !is_dead).then_some(deadline)
    }

    /// The terms of a key; none if it is dead and not to be loaded. What stands in a file is a
    /// moment.
    fn term(&self, unix_ms: Option<i64>, extras: Extras) -> Option<Option<Term>> {
        let Some(deadline) = self.deadline(unix_ms)? else {
            return Some(None);
        };
        let mut term = Term {
            sliding_ms: extras.sliding_ms,
            soft: extras.soft_before_ms.map(Soft::new),
            ..Term::new(deadline, Basis::Absolute)
        };
        let soft_deadline = term.soft_deadline();
        if let Some(soft) = &mut term.soft {
            soft.is_told = soft_deadline.is_some_and(|soft| is_due(soft, self.reading.now));
        }
        Some(Some(term))
    }

    fn part(&mut self, (extras, record): &Stated<PartRecord<'_>>) -> Result<(), Fault> {
        let Some(term) = self.term(record.deadline, *extras) else {
            self.loaded.expired += u64::from(record.part == 0);
            return Ok(());
        };
        let is_dated = matches!(record.kind, DATED_HASH | DATED_SET | DATED_ZSET);
        let kind = format::type_of_part(record.kind).ok_or(Fault::BadRecord)?;
        let mut strings = Strings(record.elements).collect::<Result<Vec<&[u8]>, Fault>>()?;
        let mut deadlines = Vec::new();
        if is_dated && !strings.is_empty() {
            (strings, deadlines) = self.members(&strings, strings_of(kind))?;
            if strings.is_empty() {
                return Ok(());
            }
        }
        let hash = self.keyspace.look_ahead(self.db, record.key);
        let key = (hash, record.key);
        // Of parts with deadlines the first that has a living member makes the collection.
        if record.part == 0 || (is_dated && !self.keyspace.has(self.db, key)) {
            let was_there = self
                .keyspace
                .begin_collection(self.db, key, kind, term, self.reading);
            self.loaded.keys += 1;
            self.loaded.duplicates += u64::from(was_there);
        }
        let keyspace = &mut self.keyspace;
        if keyspace.load_elements(self.db, key, kind, &strings, &deadlines) {
            Ok(())
        } else {
            Err(Fault::BadRecord)
        }
    }

    /// The members, of so many strings, and deadlines of a dated collection, less those that are
    /// dead and not to be loaded.
    #[allow(clippy::type_complexity, reason = "two lists that belong together")]
    fn members<'r>(
        &self,
        strings: &[&'r [u8]],
        of_member: usize,
    ) -> Result<(Vec<&'r [u8]>, Vec<Option<Deadline>>), Fault> {
        let (mut kept, mut deadlines) = (Vec::new(), Vec::new());
        for member in strings.chunks(of_member + 1) {
            let Some((unix_ms, member)) = member.split_last().filter(|_| member.len() > of_member)
            else {
                return Err(Fault::BadRecord);
            };
            let unix_ms = match unix_ms.len() {
                0 => None,
                _ => {
                    let bytes = (*unix_ms).try_into().map_err(|_| Fault::BadRecord)?;
                    Some(i64::from_le_bytes(bytes))
                }
            };
            if let Some(deadline) = self.deadline(unix_ms) {
                kept.extend_from_slice(member);
                deadlines.push(deadline);
            }
        }
        Ok((kept, deadlines))
    }

    fn string(&mut self, hash: u64, (extras, record): &Stated<StringRecord<'_>>) {
        let Some(term) = self.term(record.deadline, *extras) else {
            self.loaded.expired += 1;
            return;
        };
        let form = if record.is_edited {
            Form::RawString
        } else {
            Form::String
        };
        let value = if record.is_edited && record.value.len() >= crate::store::live::GROWABLE_MIN {
            NewValue::Boxed(Box::new(Value::Growable(Arc::new(record.value.to_vec()))))
        } else if record.value.len() > INLINE_MAX {
            NewValue::Boxed(Box::new(Value::Long(Bytes::copy_from_slice(record.value))))
        } else {
            NewValue::Inline(record.value)
        };
        let was_there = self.keyspace.load(
            self.db,
            (hash, record.key),
            (form, value),
            term,
            self.reading,
        );
        self.loaded.keys += 1;
        self.loaded.duplicates += u64::from(was_there);
    }
}

/// What `mayfly check` found in a whole file.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Libraries of functions.
    pub libraries: u64,
    /// Rules of expiry.
    pub rules: u64,
    /// The header.
    pub header: Header,
    /// Chunks.
    pub chunks: u64,
    /// By database: keys, keys with a deadline, keys due at the given time.
    pub databases: Vec<(u16, u64, u64, u64)>,
    /// Bytes of the file.
    pub size: u64,
}

/// What a chunk holds.
#[derive(Default)]
struct Counts {
    keys: u64,
    volatile: u64,
    due: u64,
    volatile_records: u64,
}

/// Whether the elements of a part are such that they could be loaded.
fn check_part(record: &PartRecord<'_>) -> Result<(), Fault> {
    let strings = Strings(record.elements).collect::<Result<Vec<&[u8]>, Fault>>()?;
    let is_good = match record.kind {
        1 | 2 => true,
        3 => {
            strings.len().is_multiple_of(2)
                && strings.iter().skip(1).step_by(2).all(|s| s.len() == 8)
        }
        4 => strings.len().is_multiple_of(2),
        DATED_HASH => are_dated(&strings, 3),
        DATED_SET => are_dated(&strings, 2),
        DATED_ZSET => {
            let mut scores = strings.iter().skip(1).step_by(3);
            are_dated(&strings, 3) && scores.all(|score| score.len() == 8)
        }
        STREAM => stream::are_elements(&strings),
        _ => false,
    };
    if is_good && !strings.is_empty() {
        Ok(())
    } else {
        Err(Fault::BadRecord)
    }
}

/// Whether each member has so many strings, the last of which is that of a deadline.
fn are_dated(strings: &[&[u8]], of_member: usize) -> bool {
    let mut deadlines = strings.iter().skip(of_member - 1).step_by(of_member);
    strings.len().is_multiple_of(of_member) && deadlines.all(|s| matches!(s.len(), 0 | 8))
}

/// Counts the keys of a chunk and verifies its records.
fn count(chunk: ChunkStart, payload: &[u8], now: UnixMillis) -> Result<Counts, Fault> {
    let mut counts = Counts::default();
    let mut count = |deadline: Option<i64>, is_first: bool| {
        let is_dead = deadline.is_some_and(|at| is_due(Deadline(UnixMillis(at)), now));
        counts.volatile_records += u64::from(deadline.is_some());
        if is_first {
            counts.keys += 1;
            counts.volatile += u64::from(deadline.is_some());
            counts.due += u64::from(is_dead);
        }
    };
    match chunk.kind {
        KIND_STRINGS | KIND_EXTRA_STRINGS => {
            for record in format::strings(chunk, payload) {
                count(record?.1.deadline, true);
            }
        }
        KIND_COLLECTIONS | KIND_EXTRA_COLLECTIONS => {
            for record in format::parts(chunk, payload) {
                let (_, record) = record?;
                check_part(&record)?;
                count(record.deadline, record.part == 0);
            }
        }
        _ => {}
    }
    Ok(counts)
}

/// Verifies a snapshot without loading it. `unix_ms` is the time to judge deadlines by.
///
/// # Errors
/// What is damaged, and where.
pub fn check<R: Read>(source: R, size: u64, unix_ms: i64) -> Result<Summary, LoadError> {
    let mut reader = Reader::new(source, size)?;
    let mut databases: Vec<(u16, u64, u64, u64)> = Vec::new();
    let (mut chunks, mut libraries, mut rules) = (0, 0, 0);
    while let Some((chunk, payload)) = reader.next_chunk()? {
        chunks += 1;
        let texts = match chunk.kind {
            KIND_LIBRARIES => Some((
                format::texts(chunk, payload, |record: LibraryRecord<'_>| record.code),
                &mut libraries,
            )),
            KIND_RULES => Some((
                format::texts(chunk, payload, |record: RuleRecord<'_>| record.text),
                &mut rules,
            )),
            _ => None,
        };
        if let Some((texts, count)) = texts {
            match texts.map(|texts| texts.len()) {
                Ok(met) => *count += met as u64,
                Err(fault) => return Err(reader.damaged(fault)),
            }
            reader.count(u64::from(chunk.records), 0);
            continue;
        }
        let counts = match count(chunk, payload, UnixMillis(unix_ms)) {
            Ok(counts) => counts,
            Err(fault) => return Err(reader.damaged(fault)),
        };
        let sums = match databases.iter_mut().find(|(db, ..)| *db == chunk.db) {
            Some(sums) => sums,
            None => databases.push_mut((chunk.db, 0, 0, 0)),
        };
        sums.1 += counts.keys;
        sums.2 += counts.volatile;
        sums.3 += counts.due;
        reader.count(u64::from(chunk.records), counts.volatile_records);
    }
    databases.sort_unstable();
    Ok(Summary {
        header: reader.header.clone(),
        libraries,
        rules,
        chunks,
        databases,
        size,
    })
}
