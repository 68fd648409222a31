//! The I/O thread: writes finished chunks to a temporary file, syncs it and puts it in place.
//!
//! Chunks come through a bounded channel, so a slow disk slows the sweep and nothing else. The
//! file appears under its name only when it is whole and on disk: write, fsync, rename, fsync of
//! the directory. Whatever fails, the temporary file is removed and the previous one stays; if the
//! disk does not even remove it, the next save tries again. What is replaced is a snapshot, never
//! another file that happens to have the name; and one that was loaded only in part is set aside
//! first.
//!
//! Invariant: the thread touches nothing but its own file and the buffers it is handed; long
//! strings among them are shared with the keyspace, which does not change them.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{
    Receiver, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel,
};
use std::thread::JoinHandle;

use super::format::{self, Chunk, Footer};
use super::storage::{NewFile, Storage};

/// Bytes of chunks that may wait for the disk: from so many on no further chunk is taken.
const BYTES_WAITING_MAX: usize = 2 * 1024 * 1024;
/// How many chunks these may be: many small databases make many small chunks.
const CHUNKS_WAITING_MAX: usize = 1024;
/// Bytes written between two requests to the kernel to start writing them out, so that the last
/// sync finds little left to do.
const SYNC_EVERY_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes copied at once.
const COPY_BYTES: usize = 256 * 1024;

enum Message {
    Chunk(Chunk),
    Finish(Footer),
}

/// Where a snapshot goes.
#[derive(Clone)]
pub struct Target {
    /// What keeps the file.
    pub storage: Arc<dyn Storage>,
    /// The file's path.
    pub path: PathBuf,
    /// Number of the save among those of this process, for the temporary file's name.
    pub nth: u64,
    /// What is there already is set aside under another name.
    pub keeps_old: bool,
}

/// Why a save has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaveError {
    /// What was tried, and the reason.
    pub text: String,
    /// The new file has the name all the same; only, a crash might still undo that.
    pub has_replaced: bool,
}

impl From<String> for SaveError {
    fn from(text: String) -> SaveError {
        SaveError {
            text,
            has_replaced: false,
        }
    }
}

impl SaveError {
    /// The thread has left no result.
    fn lost_thread() -> SaveError {
        "the snapshot thread ended".to_owned().into()
    }
}

/// A snapshot file being written.
pub struct Writer {
    sender: Option<SyncSender<Message>>,
    /// Bytes of the chunks that wait.
    waiting_bytes: Arc<AtomicUsize>,
    recycled: Receiver<Vec<u8>>,
    result: Receiver<Result<u64, SaveError>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread, which opens a temporary file beside `target` and begins it with `header`.
    /// Errors come with the result.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(target: Target, header: Vec<u8>) -> io::Result<Writer> {
        let (sender, receiver) = sync_channel(CHUNKS_WAITING_MAX);
        let (recycle, recycled) = channel();
        let (report, result) = channel();
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::clone(&waiting_bytes);
        let thread = std::thread::Builder::new()
            .name("snapshot".to_owned())
            .spawn(move || {
                let temporary = temporary_path(&target);
                let queue = Queue {
                    receiver,
                    waiting_bytes: waiting,
                    recycle,
                };
                let written = save(&queue, &header, &target, &temporary);
                if written.is_err() {
                    // It may not even exist; what matters is reported.
                    let _ = target.storage.remove(&temporary);
                }
                // A receiver that is gone has given the snapshot up.
                let _ = report.send(written);
            })?;
        Ok(Writer {
            sender: Some(sender),
            waiting_bytes,
            recycled,
            result,
            thread: Some(thread),
        })
    }

    /// Hands over a finished chunk. Gives it back if too many wait already, or if the thread has
    /// failed, which [`Writer::poll`] then tells.
    pub fn try_send(&self, chunk: Chunk) -> Result<(), Chunk> {
        let Some(sender) = &self.sender else {
            return Err(chunk);
        };
        let bytes = chunk.held_bytes();
        if self.waiting_bytes.load(Ordering::Relaxed) >= BYTES_WAITING_MAX {
            return Err(chunk);
        }
        // Before it is sent, as the thread takes it off the count.
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        let sent = sender.try_send(Message::Chunk(chunk));
        if sent.is_err() {
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        match sent {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(Message::Chunk(chunk)))
            | Err(TrySendError::Disconnected(Message::Chunk(chunk))) => Err(chunk),
            Err(_) => unreachable!("a chunk was sent, so a chunk comes back"),
        }
    }

    /// Bytes of chunks that wait to be written.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// The buffer of a chunk that has been written, to be filled anew; none if none has come back.
    pub fn recycled(&self) -> Option<Vec<u8>> {
        self.recycled.try_recv().ok()
    }

    /// No more chunks follow. False if the queue is full; try again.
    pub fn finish(&mut self, footer: Footer) -> bool {
        let Some(sender) = &self.sender else {
            return true;
        };
        match sender.try_send(Message::Finish(footer)) {
            Err(TrySendError::Full(_)) => false,
            Ok(()) | Err(TrySendError::Disconnected(_)) => {
                self.sender = None;
                true
            }
        }
    }

    /// The outcome, once there is one: the file's length in bytes, or what went wrong.
    pub fn poll(&mut self) -> Option<Result<u64, SaveError>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(SaveError::lost_thread())),
        }
    }

    /// Waits for the outcome.
    pub fn wait(&mut self) -> Result<u64, SaveError> {
        let result = self.result.recv();
        result.unwrap_or_else(|_| Err(SaveError::lost_thread()))
    }
}

impl Drop for Writer {
    /// Gives an unfinished snapshot up: the thread sees the end of the channel without a footer
    /// and removes its file, in its own time. One that has got its footer is waited for: it must
    /// not put its file in place after a later one.
    fn drop(&mut self) {
        let has_footer = self.sender.take().is_none();
        if let Some(thread) = self.thread.take().filter(|_| has_footer) {
            // A panic in the thread has been reported by the missing result.
            let _ = thread.join();
        }
    }
}

/// The temporary file beside a snapshot.
fn temporary_path(target: &Target) -> PathBuf {
    let mut name = target.path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tmp.{}.{}", std::process::id(), target.nth));
    target.path.with_file_name(name)
}

fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Whether files can be made in the directory of a snapshot.
///
/// # Errors
/// Why not.
pub fn check_directory(storage: &dyn Storage, path: &Path) -> io::Result<()> {
    let directory = directory_of(path);
    storage.check_writable(directory).map_err(|error| {
        let text = format!("the directory {} (dir): {error}", directory.display());
        io::Error::new(error.kind(), text)
    })
}

/// What has the name of the snapshot may be replaced only if it is one, or an empty file.
fn check_replaced(storage: &dyn Storage, path: &Path) -> Result<(), String> {
    let name = path.display();
    let mut start = Vec::new();
    let read = storage.open(path).and_then(|(file, _)| {
        let mut file = file.take(format::HEADER_START as u64);
        file.read_to_end(&mut start)
    });
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("{name} is in the way: {error}")),
        Ok(_) if start.is_empty() || start.starts_with(&format::MAGIC) => Ok(()),
        Ok(_) if format::is_rdb(&start) => Err(format!(
            "{name} is an RDB file of Redis or Valkey and is not replaced"
        )),
        Ok(_) => Err(format!(
            "{name} is no snapshot of Mayfly and is not replaced"
        )),
    }
}

/// Gives a snapshot a second name, under which it stays when the first is given to another; that
/// name, on disk, or none if there is no such snapshot.
fn set_aside(storage: &dyn Storage, path: &Path) -> io::Result<Option<PathBuf>> {
    for nth in 1.. {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".partly-loaded-{nth}"));
        let aside = path.with_file_name(name);
        let made = storage
            .link(path, &aside)
            .or_else(|error| match error.kind() {
                io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound => Err(error),
                // Not every file system has second names. The file keeps its first one meanwhile: a
                // crash must not leave the server without.
                _ => copy(storage, path, &aside),
            });
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        // Otherwise a crash might find the new file under the first name and not the second name.
        if let Err(error) = storage.sync_directory(directory_of(path)) {
            let _ = storage.remove(&aside);
            return Err(error);
        }
        return Ok(Some(aside));
    }
    Ok(None)
}

/// Copies a file to a name that is not taken, and syncs it.
fn copy(storage: &dyn Storage, from: &Path, to: &Path) -> io::Result<()> {
    let (source, _) = storage.open(from)?;
    let mut source = BufReader::with_capacity(COPY_BYTES, source);
    let mut file = storage.create(to)?;
    let copied = io::copy(&mut source, &mut file).and_then(|_| file.sync());
    if copied.is_err() {
        // The error that matters is the first one.
        let _ = storage.remove(to);
    }
    copied
}

/// Removes temporary files of this snapshot that were left by processes that are gone.
pub fn remove_stale(storage: &dyn Storage, path: &Path) {
    // One with the id of this process was left by another, as this one has not saved yet.
    remove_unfinished(storage, path, u64::MAX);
}

/// Removes temporary files of this snapshot that were left by processes that are gone, and by the
/// saves of this one before the `nth`: those are over or given up.
fn remove_unfinished(storage: &dyn Storage, path: &Path, nth: u64) {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return;
    };
    let prefix = format!("{name}.tmp.");
    for file in storage.files(directory_of(path)).unwrap_or_default() {
        let numbers = file
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_prefix(&prefix))
            .and_then(|rest| rest.split_once('.'))
            .and_then(|(pid, nth)| Some((pid.parse().ok()?, nth.parse().ok()?)));
        let Some((pid, other)): Option<(u32, u64)> = numbers else {
            continue;
        };
        let is_gone = if pid == std::process::id() {
            other < nth
        } else {
            !Path::new(&format!("/proc/{pid}")).exists()
        };
        if is_gone {
            log::warn!("Removing the unfinished snapshot {}", file.display());
            if let Err(error) = storage.remove(&file) {
                log::warn!("It could not be removed: {error}");
            }
        }
    }
}

/// The thread's end of the channels.
struct Queue {
    receiver: Receiver<Message>,
    waiting_bytes: Arc<AtomicUsize>,
    recycle: Sender<Vec<u8>>,
}

impl Queue {
    /// The next message; none if the snapshot was given up.
    fn next(&self) -> Option<Message> {
        let message = self.receiver.recv().ok()?;
        if let Message::Chunk(chunk) = &message {
            let bytes = chunk.held_bytes();
            self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        Some(message)
    }
}

/// What was tried with a file, and why it failed.
fn failure(action: &str, path: &Path, error: &io::Error) -> String {
    format!("{action} {}: {error}", path.display())
}

/// Writes what comes through the queue into the temporary file and puts that in place; its length
/// in bytes.
fn save(queue: &Queue, header: &[u8], target: &Target, temporary: &Path) -> Result<u64, SaveError> {
    let storage = &*target.storage;
    check_replaced(storage, &target.path)?;
    // A disk that failed may not even have removed what it had.
    remove_unfinished(storage, &target.path, target.nth);
    let mut file = storage
        .create(temporary)
        .map_err(|error| failure("opening", temporary, &error))?;
    let len = write_all(queue, header, &mut *file, temporary)?;
    file.sync()
        .map_err(|error| failure("syncing", temporary, &error))?;
    drop(file);
    put_in_place(target, temporary)?;
    Ok(len)
}

/// Writes header, chunks and footer; their length in bytes.
fn write_all(
    queue: &Queue,
    header: &[u8],
    file: &mut dyn NewFile,
    path: &Path,
) -> Result<u64, String> {
    let write = |file: &mut dyn NewFile, bytes: &[u8]| {
        file.write_all(bytes)
            .map_err(|error| failure("writing", path, &error))
    };
    write(file, header)?;
    let mut len = header.len() as u64;
    let mut synced = 0;
    let mut crcs = crc32fast::Hasher::new();
    loop {
        match queue.next() {
            Some(Message::Chunk(mut chunk)) => {
                crcs.update(&chunk.seal().to_le_bytes());
                for part in chunk.parts() {
                    write(file, part)?;
                    len += part.len() as u64;
                }
                if let Some(buffer) = chunk.into_buffer() {
                    // The engine may have stopped asking for buffers.
                    let _ = queue.recycle.send(buffer);
                }
                if len - synced >= SYNC_EVERY_BYTES {
                    file.sync()
                        .map_err(|error| failure("syncing", path, &error))?;
                    synced = len;
                }
            }
            Some(Message::Finish(mut footer)) => {
                footer.crc_of_crcs = crcs.finalize();
                let footer = format::write_footer(&footer);
                write(file, &footer)?;
                return Ok(len + footer.len() as u64);
            }
            None => return Err("the snapshot was given up".to_owned()),
        }
    }
}

/// Gives the whole and synced file the name of the snapshot.
fn put_in_place(target: &Target, temporary: &Path) -> Result<(), SaveError> {
    let (storage, path) = (&*target.storage, &target.path);
    // Somebody may have put something there since the start.
    check_replaced(storage, path)?;
    let aside = if target.keeps_old {
        set_aside(storage, path).map_err(|error| failure("setting aside", path, &error))?
    } else {
        None
    };
    if let Err(error) = storage.rename(temporary, path) {
        if let Some(aside) = aside {
            // The old file still has its first name, and the next save would add a third.
            let _ = storage.remove(&aside);
        }
        return Err(failure("renaming to", path, &error).into());
    }
    if let Some(aside) = aside {
        log::warn!(
            "The snapshot that was loaded in part is kept as {}",
            aside.display()
        );
    }
    let directory = directory_of(path);
    storage
        .sync_directory(directory)
        .map_err(|error| SaveError {
            text: failure("syncing the directory", directory, &error),
            has_replaced: true,
        })
}
