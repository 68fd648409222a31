//! A disk in memory that fails when it is told to, and a log to be looked at.
//!
//! As on a real one, what was written is certain to outlast a crash only after the file was synced,
//! and a name only after its directory was. Each call of the storage is an *operation*; they are
//! counted from 1.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use mayfly::snapshot::storage::{NewFile, Storage};

/// Most bytes that a read gives at once.
const READ_BYTES_MAX: usize = 64 * 1024;

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Number of the operation that fails.
    pub nth: usize,
    /// With which error of the operating system.
    pub errno: i32,
    /// So do all after it.
    pub lasts: bool,
    /// If a write comes just before it, it takes half of its bytes.
    pub shortens: bool,
}

impl Fault {
    /// One operation fails.
    pub fn once(nth: usize, errno: i32) -> Fault {
        Fault {
            nth,
            errno,
            lasts: false,
            shortens: false,
        }
    }

    /// All operations from this one on fail.
    pub fn lasting(nth: usize, errno: i32) -> Fault {
        Fault {
            lasts: true,
            ..Fault::once(nth, errno)
        }
    }
}

#[derive(Clone, Default)]
struct Content {
    written: Vec<u8>,
    synced: Vec<u8>,
}

#[derive(Clone, Default)]
struct State {
    files: Vec<Content>,
    /// Names and the files that have them.
    names: BTreeMap<PathBuf, usize>,
    synced_names: BTreeMap<PathBuf, usize>,
    operations: Vec<&'static str>,
    fault: Option<Fault>,
    /// Second names are refused.
    is_without_links: bool,
}

impl State {
    fn operation(&mut self, name: &'static str) -> io::Result<()> {
        self.operations.push(name);
        let number = self.operations.len();
        match self.fault {
            Some(fault) if number == fault.nth || (fault.lasts && number > fault.nth) => {
                Err(io::Error::from_raw_os_error(fault.errno))
            }
            _ => Ok(()),
        }
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        let found = self.names.get(path).copied();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn make(&mut self, path: &Path, file: usize) -> io::Result<()> {
        if self.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.names.insert(path.to_owned(), file);
        Ok(())
    }
}

/// The disk. Clones are the same disk.
#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<State>>);

impl MemoryDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics within")
    }

    /// Another disk with the same files, on which nothing goes wrong.
    pub fn copy(&self) -> MemoryDisk {
        let state = State {
            operations: Vec::new(),
            fault: None,
            ..self.state().clone()
        };
        MemoryDisk(Arc::new(Mutex::new(state)))
    }

    /// Counts operations anew, with this fault among those to come.
    pub fn fail(&self, fault: Fault) {
        let mut state = self.state();
        state.operations.clear();
        state.fault = Some(fault);
    }

    /// Nothing goes wrong any more; the operations since the last [`MemoryDisk::fail`] by name.
    pub fn heal(&self) -> Vec<&'static str> {
        let mut state = self.state();
        state.fault = None;
        std::mem::take(&mut state.operations)
    }

    /// Second names are refused, as on some file systems.
    pub fn refuse_links(&self) {
        self.state().is_without_links = true;
    }

    /// The bytes of a file.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let file = *state.names.get(Path::new(path))?;
        Some(state.files[file].written.clone())
    }

    /// Puts a file there, synced.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let mut state = self.state();
        let file = state.files.len();
        state.files.push(Content {
            written: bytes.to_vec(),
            synced: bytes.to_vec(),
        });
        state.names.insert(path.into(), file);
        state.synced_names.insert(path.into(), file);
    }

    /// Names that contain this.
    pub fn names_with(&self, part: &str) -> Vec<String> {
        let state = self.state();
        let names = state.names.keys().map(|path| path.display().to_string());
        names.filter(|name| name.contains(part)).collect()
    }

    /// What may be found after a crash at this moment: each name as it is or as it was synced, and
    /// of all files either everything or only what was synced.
    pub fn images(&self) -> Vec<MemoryDisk> {
        let state = self.state();
        let all: BTreeSet<&PathBuf> = state
            .names
            .keys()
            .chain(state.synced_names.keys())
            .collect();
        let changed: Vec<&PathBuf> = all
            .into_iter()
            .filter(|name| state.names.get(*name) != state.synced_names.get(*name))
            .collect();
        let mut images = Vec::new();
        for which in 0..1_u32 << changed.len() {
            let mut names = state.synced_names.clone();
            for (bit, name) in changed.iter().enumerate() {
                if which & (1 << bit) != 0 {
                    match state.names.get(*name) {
                        Some(file) => names.insert((*name).clone(), *file),
                        None => names.remove(*name),
                    };
                }
            }
            for loses_content in [false, true] {
                let mut files = state.files.clone();
                for file in &mut files {
                    if loses_content {
                        file.written = file.synced.clone();
                    }
                    file.synced = file.written.clone();
                }
                images.push(MemoryDisk(Arc::new(Mutex::new(State {
                    files,
                    names: names.clone(),
                    synced_names: names.clone(),
                    ..State::default()
                }))));
            }
        }
        images
    }
}

impl Storage for MemoryDisk {
    fn open(&self, path: &Path) -> io::Result<(Box<dyn Read>, u64)> {
        let mut state = self.state();
        state.operation("open")?;
        let file = state.find(path)?;
        let len = state.files[file].written.len();
        let opened = OpenFile {
            disk: self.clone(),
            file,
            offset: 0,
        };
        Ok((Box::new(opened), len as u64))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let mut state = self.state();
        state.operation("create")?;
        let file = state.files.len();
        state.make(path, file)?;
        state.files.push(Content::default());
        Ok(Box::new(OpenFile {
            disk: self.clone(),
            file,
            offset: 0,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.operation("rename")?;
        let file = state.find(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn link(&self, path: &Path, second: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.operation("link")?;
        if state.is_without_links {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let file = state.find(path)?;
        state.make(second, file)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.operation("remove")?;
        state.find(path)?;
        state.names.remove(path);
        Ok(())
    }

    fn files(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let mut state = self.state();
        state.operation("files")?;
        let names = state.names.keys();
        let names = names.filter(|name| name.parent() == Some(directory));
        Ok(names.cloned().collect())
    }

    fn sync_directory(&self, _directory: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.operation("sync_directory")?;
        state.synced_names = state.names.clone();
        Ok(())
    }

    fn check_writable(&self, _directory: &Path) -> io::Result<()> {
        self.state().operation("check_writable")
    }
}

struct OpenFile {
    disk: MemoryDisk,
    file: usize,
    offset: usize,
}

impl Read for OpenFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.operation("read")?;
        let len = buffer.len().min(READ_BYTES_MAX);
        let read = (&state.files[self.file].written[self.offset..]).read(&mut buffer[..len])?;
        self.offset += read;
        Ok(read)
    }
}

impl Write for OpenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.operation("write")?;
        let number = state.operations.len();
        let is_short = state
            .fault
            .is_some_and(|fault| fault.shortens && number + 1 == fault.nth);
        let len = if is_short {
            bytes.len().div_ceil(2)
        } else {
            bytes.len()
        };
        state.files[self.file]
            .written
            .extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewFile for OpenFile {
    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.operation("sync")?;
        let file = &mut state.files[self.file];
        file.synced = file.written.clone();
        Ok(())
    }
}

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

struct ThreadLog;

impl log::Log for ThreadLog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        LINES.with_borrow_mut(|lines| lines.push(record.args().to_string()));
    }

    fn flush(&self) {}
}

/// What this thread has logged since the last call, which only the first call begins to note.
pub fn logged() -> String {
    // Another test may have done so.
    let _ = log::set_logger(&ThreadLog);
    log::set_max_level(log::LevelFilter::Info);
    LINES.take().join("\n")
}
