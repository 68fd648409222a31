//! The scripts and libraries that clients have given, and the one that takes long.
//!
//! A script is found by the SHA-1 of its text. Those that came with EVAL are forgotten again, the
//! one unused for longest first, when there are more than [`EVALUATED_MAX`] of them; those of
//! SCRIPT LOAD stay. A library is a text that registers functions, which are found by their names.
//! What of a script lives in the interpreter has a [`ScriptId`]; it is taken away together with
//! what is here.
//!
//! Not here: what a script sees (`script`), how it is called and what it may do (`command`).

use std::collections::BTreeMap;

use hashbrown::HashTable;
use sha1::{Digest as _, Sha1};
use slab::Slab;

use super::REDIS_VERSION;
use crate::resp::error::CommandError;
use crate::script::{self, FunctionFlags, Interpreter, LoadError, Registered, ScriptId, Settings};
use crate::value::size_class;

/// Scripts of EVAL that are remembered.
pub const EVALUATED_MAX: usize = 500;
/// Bytes that the interpreter may use.
const INTERPRETER_BYTES_MAX: usize = 512 * 1024 * 1024;

/// The SHA-1 of a script's text.
pub type Digest = [u8; 20];

/// Names a script in the cache.
pub type ScriptKey = usize;

/// A script that EVALSHA finds.
pub struct Script {
    /// Of its text.
    pub digest: Digest,
    /// Its text.
    pub body: Box<[u8]>,
    /// What to run.
    pub id: ScriptId,
    /// What its first line says that it does; none if it has no such line.
    pub flags: Option<FunctionFlags>,
    /// When it was used last, in uses of scripts.
    used: u64,
}

/// A library of functions.
pub struct Library {
    /// Its text, first line and all.
    pub code: Vec<u8>,
    /// What it has registered, by name.
    pub functions: Vec<Registered>,
    /// Bytes that the interpreter used more when it had been loaded.
    pub interpreter_bytes: usize,
}

/// A script or function that has run for so long that other clients are told.
pub struct Running {
    /// The name of the function; of a script its digest.
    pub name: Vec<u8>,
    /// The command that called it.
    pub command: Vec<Vec<u8>>,
    /// When it began, in microseconds of monotonic time.
    pub started_us: u64,
    /// The time now, of the same kind.
    pub now_us: u64,
    /// It is a function.
    pub is_function: bool,
    /// It has called a command that writes.
    pub has_written: bool,
    /// Somebody wants it to end.
    pub is_killed: bool,
}

impl Running {
    /// What others are told.
    pub fn refusal(&self) -> CommandError {
        CommandError::text(if self.is_function {
            "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN \
             NOSAVE."
        } else {
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
        })
    }
}

/// All of them.
#[derive(Default)]
pub struct Scripts {
    /// Made when it is needed; lent to a run.
    interpreter: Option<Box<dyn Interpreter>>,
    is_lent: bool,
    cache: Slab<Script>,
    by_digest: HashTable<ScriptKey>,
    /// Of those in the cache, those that came with EVAL.
    evaluated: Vec<ScriptKey>,
    uses: u64,
    /// The one used last, whose text need not be hashed again.
    last: Option<ScriptKey>,
    /// Bytes of texts in the cache.
    cached_bytes: usize,
    libraries: BTreeMap<Vec<u8>, Library>,
    /// Texts of libraries that a snapshot had and that could not be loaded.
    pub(super) unloadable: Vec<Vec<u8>>,
    /// The library of each function, and its place there. Names are in lower case, as they are
    /// called in any.
    functions: BTreeMap<Vec<u8>, (Vec<u8>, usize)>,
    /// Scripts may call what they otherwise may not: for tests.
    pub allows_all: bool,
    /// The script that has just run answered with an error.
    pub has_failed: bool,
    /// Scripts have run, or were forgotten, since garbage was collected.
    pub has_garbage: bool,
    /// The one that others are told of.
    pub running: Option<Running>,
    /// Scripts of EVAL that were forgotten to make room.
    pub evicted: u64,
}

fn table_hash(digest: &Digest) -> u64 {
    u64::from_le_bytes(*digest.first_chunk().expect("it has twenty bytes"))
}

/// The digest of a text.
pub fn digest_of(body: &[u8]) -> Digest {
    Sha1::digest(body).into()
}

/// A digest in hexadecimal digits.
pub fn hex(digest: &Digest) -> [u8; 40] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 40];
    for (i, byte) in digest.iter().enumerate() {
        text[2 * i] = DIGITS[usize::from(byte >> 4)];
        text[2 * i + 1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

/// What 40 hexadecimal digits of either case mean.
pub fn parse_digest(text: &[u8]) -> Option<Digest> {
    let text: &[u8; 40] = text.try_into().ok()?;
    let mut digest = [0; 20];
    for (byte, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = (high * 16 + low) as u8;
    }
    Some(digest)
}

impl Scripts {
    /// The interpreter, made if there is none yet; None if the server was built without.
    fn interpreter(&mut self) -> Option<&mut Box<dyn Interpreter>> {
        if self.interpreter.is_none() {
            let mut numbers = REDIS_VERSION
                .split('.')
                .map(|part| part.parse().unwrap_or(0));
            let version_number = (0..3).fold(0, |all, _| all << 8 | numbers.next().unwrap_or(0));
            self.interpreter = script::open(Settings {
                memory_bytes_limit: INTERPRETER_BYTES_MAX,
                version: REDIS_VERSION.to_owned(),
                version_number,
            });
        }
        self.interpreter.as_mut()
    }

    /// Lends the interpreter for a run, during which there is none here.
    ///
    /// # Panics
    /// If it is lent already: no script runs within another.
    pub fn lend(&mut self) -> Box<dyn Interpreter> {
        let interpreter = self.interpreter.take();
        self.is_lent = true;
        interpreter.expect("what is run was compiled by it")
    }

    /// Whether a script runs.
    pub fn is_lent(&self) -> bool {
        self.is_lent
    }

    /// Takes it back.
    pub fn give_back(&mut self, interpreter: Box<dyn Interpreter>) {
        self.interpreter = Some(interpreter);
        self.has_garbage = true;
    }

    /// The script with this digest.
    pub fn find(&self, digest: &Digest) -> Option<ScriptKey> {
        let hash = table_hash(digest);
        let is_it = |&key: &ScriptKey| self.cache[key].digest == *digest;
        self.by_digest.find(hash, is_it).copied()
    }

    /// The script with this text. That of the last run is compared, others are hashed.
    pub fn find_text(&self, body: &[u8]) -> Option<ScriptKey> {
        let last = self.last.filter(|&key| *self.cache[key].body == *body);
        last.or_else(|| self.find(&digest_of(body)))
    }

    /// A script in the cache.
    pub fn script(&self, key: ScriptKey) -> &Script {
        &self.cache[key]
    }

    /// Notes that a script is about to run.
    pub fn note_use(&mut self, key: ScriptKey) {
        self.uses += 1;
        self.cache[key].used = self.uses;
        self.last = Some(key);
    }

    /// Compiles a script and adds it to the cache, where it stays until it is flushed if
    /// `is_loaded`.
    ///
    /// # Errors
    /// The compiler's message.
    pub fn add(
        &mut self,
        body: &[u8],
        flags: Option<FunctionFlags>,
        is_loaded: bool,
    ) -> Result<ScriptKey, Vec<u8>> {
        let digest = digest_of(body);
        let interpreter = self.interpreter();
        let interpreter = interpreter.expect("its commands are there only if it is");
        let id = interpreter.compile(&hex(&digest), body)?;
        let key = self.cache.insert(Script {
            digest,
            body: body.into(),
            id,
            flags,
            used: self.uses,
        });
        self.cached_bytes += size_class::of(body.len());
        let Scripts {
            by_digest, cache, ..
        } = self;
        by_digest.insert_unique(table_hash(&digest), key, |&key| {
            table_hash(&cache[key].digest)
        });
        if !is_loaded {
            self.make_room();
            self.evaluated.push(key);
        }
        Ok(key)
    }

    /// Keeps a script that came with EVAL until it is flushed.
    pub fn keep(&mut self, key: ScriptKey) {
        self.evaluated.retain(|&other| other != key);
    }

    /// Forgets the script of EVAL that was not used for longest, if there are too many.
    fn make_room(&mut self) {
        if self.evaluated.len() < EVALUATED_MAX {
            return;
        }
        let oldest =
            (0..self.evaluated.len()).min_by_key(|&at| self.cache[self.evaluated[at]].used);
        if let Some(at) = oldest {
            let key = self.evaluated.swap_remove(at);
            self.remove(key);
            self.evicted += 1;
        }
    }

    fn remove(&mut self, key: ScriptKey) {
        let script = self.cache.remove(key);
        self.cached_bytes -= size_class::of(script.body.len());
        let hash = table_hash(&script.digest);
        if let Ok(found) = self.by_digest.find_entry(hash, |&other| other == key) {
            found.remove();
        }
        self.last = self.last.filter(|&last| last != key);
        if let Some(interpreter) = &mut self.interpreter {
            interpreter.forget(script.id);
        }
    }

    /// Forgets all scripts. Libraries stay, and so does the interpreter if there are any.
    pub fn flush(&mut self) {
        if let Some(interpreter) = &mut self.interpreter {
            let ids = self.cache.iter().map(|(_, script)| script.id);
            ids.for_each(|id| interpreter.forget(id));
        }
        self.cache = Slab::new();
        self.by_digest = HashTable::new();
        self.evaluated.clear();
        self.last = None;
        self.cached_bytes = 0;
        if self.libraries.is_empty() {
            self.interpreter = None;
        }
    }

    /// Scripts in the cache.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cache.is_empty()
    }

    /// Bytes that texts of scripts and what is known of them take.
    pub fn cached_bytes(&self) -> usize {
        self.cached_bytes
            + self.cache.len() * (size_of::<Script>() + size_of::<ScriptKey>())
            + self.evaluated.len() * size_of::<ScriptKey>()
    }

    /// Bytes that the interpreter uses, for scripts and functions together.
    pub fn interpreter_bytes(&self) -> usize {
        let interpreter = self.interpreter.as_ref();
        interpreter.map_or(0, |interpreter| interpreter.memory_bytes())
    }

    /// Bytes of the interpreter that came with the libraries.
    pub fn function_bytes(&self) -> usize {
        let libraries = self.libraries.values();
        let bytes: usize = libraries.map(|library| library.interpreter_bytes).sum();
        bytes.min(self.interpreter_bytes())
    }

    /// Collects garbage of scripts for a while, if there may be any.
    pub fn collect_step(&mut self) {
        if self.has_garbage {
            let interpreter = self.interpreter.as_mut();
            self.has_garbage = interpreter.is_some_and(|interpreter| !interpreter.collect_step());
        }
    }

    /// The libraries, by name.
    pub fn libraries(&self) -> impl ExactSizeIterator<Item = (&[u8], &Library)> {
        let libraries = self.libraries.iter();
        libraries.map(|(name, library)| (name.as_slice(), library))
    }

    /// The library of a name.
    pub fn library(&self, name: &[u8]) -> Option<&Library> {
        self.libraries.get(name)
    }

    /// The function of a name.
    pub fn function(&self, name: &[u8]) -> Option<&Registered> {
        let (library, at) = self.functions.get(&name.to_ascii_lowercase())?;
        Some(&self.libraries[library].functions[*at])
    }

    /// Functions in all libraries.
    pub fn functions_len(&self) -> usize {
        let libraries = self.libraries.values();
        libraries.map(|library| library.functions.len()).sum()
    }

    /// Bytes that the texts of libraries and what is known of them take.
    pub fn library_bytes(&self) -> usize {
        let of_function = |function: &Registered| {
            size_of::<Registered>()
                + 2 * function.name.len()
                + function.description.as_ref().map_or(0, Vec::len)
        };
        let of_library = |(name, library): (&Vec<u8>, &Library)| {
            size_of::<Library>()
                + name.len()
                + library.code.len()
                + library.functions.iter().map(of_function).sum::<usize>()
        };
        self.libraries.iter().map(of_library).sum()
    }

    /// Runs the code of a library, whose functions are not yet found.
    ///
    /// # Errors
    /// If it is no Lua, or fails.
    pub(super) fn load(
        &mut self,
        code: &[u8],
        host: &mut dyn script::Host,
    ) -> Result<Vec<Registered>, LoadError> {
        match self.interpreter() {
            Some(interpreter) => interpreter.load(code, host),
            None => Err(LoadError::Run(b"ERR there are no scripts".to_vec())),
        }
    }

    /// Takes back functions that were registered and are not to be found after all.
    pub fn unload(&mut self, functions: &[Registered]) {
        self.has_garbage = true;
        if let Some(interpreter) = &mut self.interpreter {
            functions
                .iter()
                .for_each(|function| interpreter.forget(function.id));
        }
    }

    /// Adds a library; none of this name is there, and no function of these names.
    pub fn add_library(&mut self, name: &[u8], library: Library) {
        for (at, function) in library.functions.iter().enumerate() {
            let place = (name.to_vec(), at);
            let key = function.name.to_ascii_lowercase();
            let old = self.functions.insert(key, place);
            // Of two in one library that differ only in case, the last one is found, as in Redis.
            let is_own = old.is_none_or(|(library, _)| library == name);
            assert!(is_own, "a function of this name was looked for");
        }
        let old = self.libraries.insert(name.to_vec(), library);
        assert!(old.is_none(), "a library of this name was looked for");
    }

    /// Takes a library away, to be put back or unloaded.
    pub fn take_library(&mut self, name: &[u8]) -> Option<Library> {
        let library = self.libraries.remove(name)?;
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        Some(library)
    }

    /// Removes a library; whether it was there.
    pub fn delete_library(&mut self, name: &[u8]) -> bool {
        let library = self.take_library(name);
        library.is_some_and(|library| {
            self.unload(&library.functions);
            true
        })
    }

    /// The texts of all libraries, those that could not be loaded included.
    pub fn library_texts(&self) -> impl Iterator<Item = &[u8]> {
        let loaded = self.libraries.values().map(|library| &library.code);
        loaded.chain(&self.unloadable).map(Vec::as_slice)
    }

    /// Takes all libraries away, to be put back or unloaded.
    pub fn take_libraries(&mut self) -> BTreeMap<Vec<u8>, Library> {
        self.functions.clear();
        self.unloadable.clear();
        std::mem::take(&mut self.libraries)
    }
}
