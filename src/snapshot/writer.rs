//! The I/O thread: writes finished chunks to a temporary file, syncs it and puts it in place.
//!
//! Chunks come through a bounded channel, so a slow disk slows the sweep and nothing else. The
//! file appears under its name only when it is whole and on disk: write, fsync, rename, fsync of
//! the directory. Whatever fails, the temporary file is removed and the previous one stays. What is
//! replaced is a snapshot, never another file that happens to have the name; and one that was
//! loaded only in part is set aside first.
//!
//! Invariant: the thread touches nothing but its own file and the buffers it is handed; long
//! strings among them are shared with the keyspace, which does not change them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{
    Receiver, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel,
};
use std::thread::JoinHandle;

use super::format::{self, Chunk, Footer, Header};
use super::loader;

/// Bytes of chunks that may wait for the disk: from so many on no further chunk is taken.
const BYTES_WAITING_MAX: usize = 2 * 1024 * 1024;
/// How many chunks these may be: many small databases make many small chunks.
const CHUNKS_WAITING_MAX: usize = 1024;
/// Bytes written between two requests to the kernel to start writing them out, so that the last
/// sync finds little left to do.
const SYNC_EVERY_BYTES: u64 = 32 * 1024 * 1024;

enum Message {
    Chunk(Chunk),
    Finish(Footer),
}

/// Where a snapshot goes.
#[derive(Clone, Debug)]
pub struct Target {
    /// The file's path.
    pub path: PathBuf,
    /// What is there already is set aside under another name.
    pub keeps_old: bool,
}

/// A snapshot file being written.
pub struct Writer {
    sender: Option<SyncSender<Message>>,
    /// Bytes of the chunks that wait.
    waiting_bytes: Arc<AtomicUsize>,
    recycled: Receiver<Vec<u8>>,
    result: Receiver<Result<u64, String>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread, which opens a temporary file beside `target`. Errors come with the
    /// result.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(target: Target, nth: u64, header: &Header) -> io::Result<Writer> {
        let (sender, receiver) = sync_channel(CHUNKS_WAITING_MAX);
        let (recycle, recycled) = channel();
        let (report, result) = channel();
        let header = format::write_header(header);
        let waiting_bytes = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::clone(&waiting_bytes);
        let thread = std::thread::Builder::new()
            .name("snapshot".to_owned())
            .spawn(move || {
                let temporary = temporary_path(&target.path, nth);
                let queue = Queue {
                    receiver,
                    waiting_bytes: waiting,
                    recycle,
                };
                let written = write_all(&queue, &header, &target, &temporary);
                if written.is_err() {
                    // It may not even exist; what matters is reported.
                    let _ = std::fs::remove_file(&temporary);
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

    /// A buffer for the next chunk, reused if one has come back.
    pub fn buffer(&self) -> Vec<u8> {
        self.recycled.try_recv().unwrap_or_default()
    }

    /// No more chunks follow. False if the queue is full; try again.
    pub fn finish(&mut self, footer: &Footer) -> bool {
        let Some(sender) = &self.sender else {
            return true;
        };
        match sender.try_send(Message::Finish(footer.clone())) {
            Err(TrySendError::Full(_)) => false,
            Ok(()) | Err(TrySendError::Disconnected(_)) => {
                self.sender = None;
                true
            }
        }
    }

    /// The outcome, once there is one: the file's length in bytes, or what went wrong.
    pub fn poll(&mut self) -> Option<Result<u64, String>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err("the snapshot thread ended".to_owned())),
        }
    }

    /// Waits for the outcome.
    pub fn wait(&mut self) -> Result<u64, String> {
        self.result
            .recv()
            .unwrap_or_else(|_| Err("the snapshot thread ended".to_owned()))
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

/// The name of the temporary file beside a snapshot.
fn temporary_path(target: &Path, nth: u64) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tmp.{}.{nth}", std::process::id()));
    target.with_file_name(name)
}

fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Whether files can be made in the directory of a snapshot.
///
/// # Errors
/// Why not.
pub fn check_directory(target: &Path) -> io::Result<()> {
    let directory = directory_of(target);
    let needed = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(directory, needed).map_err(|error| {
        let error = io::Error::from(error);
        let text = format!("the directory {} (dir): {error}", directory.display());
        io::Error::new(error.kind(), text)
    })
}

/// What has the name of the snapshot may be replaced only if it is one, or an empty file.
fn check_replaced(target: &Path) -> Result<(), String> {
    let name = target.display();
    let mut start = Vec::new();
    let read = loader::open_file(target).and_then(|(file, _)| {
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

/// Gives a snapshot a second name, under which it stays when the first is given to another.
fn set_aside(target: &Path) -> io::Result<()> {
    for nth in 1.. {
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".partly-loaded-{nth}"));
        let aside = target.with_file_name(name);
        match std::fs::hard_link(target, &aside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Not every file system has second names.
            Err(_) => std::fs::rename(target, &aside)?,
            Ok(()) => {}
        }
        log::warn!(
            "The snapshot that was loaded in part is kept as {}",
            aside.display()
        );
        return Ok(());
    }
    Ok(())
}

/// Removes temporary files of this snapshot that were left by processes that are gone.
pub fn remove_stale(target: &Path) {
    let Some(name) = target.file_name().and_then(|name| name.to_str()) else {
        return;
    };
    let prefix = format!("{name}.tmp.");
    let Ok(entries) = std::fs::read_dir(directory_of(target)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(&prefix))
            .and_then(|rest| rest.split('.').next())
            .and_then(|pid| pid.parse::<u32>().ok());
        let Some(pid) = pid else { continue };
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let is_gone = pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists();
        if is_gone {
            log::warn!(
                "Removing the unfinished snapshot {}",
                entry.path().display()
            );
            if let Err(error) = std::fs::remove_file(entry.path()) {
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

fn write_all(
    queue: &Queue,
    header: &[u8],
    target: &Target,
    temporary: &Path,
) -> Result<u64, String> {
    let at = |action: &str, path: &Path, error: io::Error| {
        format!("{action} {}: {error}", path.display())
    };
    check_replaced(&target.path)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(temporary)
        .map_err(|error| at("opening", temporary, error))?;
    let write = |file: &mut File, bytes: &[u8]| {
        file.write_all(bytes)
            .map_err(|error| at("writing", temporary, error))
    };
    write(&mut file, header)?;
    let mut len = header.len() as u64;
    let mut synced = 0;
    let mut crcs = crc32fast::Hasher::new();
    loop {
        match queue.next() {
            Some(Message::Chunk(mut chunk)) => {
                crcs.update(&chunk.seal().to_le_bytes());
                for part in chunk.parts() {
                    write(&mut file, part)?;
                    len += part.len() as u64;
                }
                if let Some(buffer) = chunk.into_buffer() {
                    // The engine may have stopped asking for buffers.
                    let _ = queue.recycle.send(buffer);
                }
                if len - synced >= SYNC_EVERY_BYTES {
                    file.sync_data()
                        .map_err(|error| at("syncing", temporary, error))?;
                    synced = len;
                }
            }
            Some(Message::Finish(mut footer)) => {
                footer.crc_of_crcs = crcs.finalize();
                let footer = format::write_footer(&footer);
                write(&mut file, &footer)?;
                len += footer.len() as u64;
                break;
            }
            None => return Err("the snapshot was given up".to_owned()),
        }
    }
    file.sync_all()
        .map_err(|error| at("syncing", temporary, error))?;
    drop(file);
    // Somebody may have put something there since the start.
    check_replaced(&target.path)?;
    if target.keeps_old {
        set_aside(&target.path).map_err(|error| at("setting aside", &target.path, error))?;
    }
    let path = &target.path;
    std::fs::rename(temporary, path).map_err(|error| at("renaming to", path, error))?;
    let directory = directory_of(path);
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| at("syncing the directory", directory, error))?;
    Ok(len)
}
