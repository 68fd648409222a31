//! What snapshots ask of the file system, and the disk that does it.
//!
//! Every access to a snapshot, to its temporary files and to their directory goes through a
//! [`Storage`]. The server has the [`Disk`]; tests put a disk of their own in its place that fails
//! at a chosen operation, or forgets what was not synced.
//!
//! The operations are those of POSIX, and so is what they promise: what was written is safe once
//! the file was synced, and a name is safe once its directory was. A rename replaces the file of
//! that name in one step.
//!
//! Not here: which operations make up a save (`writer`).

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A place that keeps files. It is used by the thread that writes and the one that loads.
pub trait Storage: Send + Sync {
    /// Opens a file for reading; with its length in bytes.
    ///
    /// # Errors
    /// If that is impossible, or if it is no regular file.
    fn open(&self, path: &Path) -> io::Result<(Box<dyn Read>, u64)>;

    /// Makes a file that only its owner may read.
    ///
    /// # Errors
    /// If that is impossible, or if the name is taken.
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;

    /// Gives a file another name, instead of whatever had it.
    ///
    /// # Errors
    /// If that is impossible.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name.
    ///
    /// # Errors
    /// If that is impossible, or if the name is taken. Not every file system has second names.
    fn link(&self, path: &Path, second: &Path) -> io::Result<()>;

    /// Removes a name, and with its last name the file.
    ///
    /// # Errors
    /// If that is impossible.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The regular files in a directory.
    ///
    /// # Errors
    /// If it cannot be read.
    fn files(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;

    /// Waits until the names in a directory are on disk.
    ///
    /// # Errors
    /// If they may not be.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Whether files can be made in a directory.
    ///
    /// # Errors
    /// Why not.
    fn check_writable(&self, directory: &Path) -> io::Result<()>;
}

/// A file being written.
pub trait NewFile: Write + Send {
    /// Waits until what was written is on disk.
    ///
    /// # Errors
    /// If it may not be, whatever a later call says.
    fn sync(&mut self) -> io::Result<()>;
}

/// The file system of the machine.
pub struct Disk;

impl Storage for Disk {
    fn open(&self, path: &Path) -> io::Result<(Box<dyn Read>, u64)> {
        // Before it is opened: opening a pipe would wait for its other end.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok((Box::new(file), len))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        Ok(Box::new(options.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, path: &Path, second: &Path) -> io::Result<()> {
        fs::hard_link(path, second)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn files(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(directory)?.flatten();
        let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        Ok(files.map(|entry| entry.path()).collect())
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    fn check_writable(&self, directory: &Path) -> io::Result<()> {
        let needed = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        Ok(rustix::fs::access(directory, needed)?)
    }
}

impl NewFile for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}
