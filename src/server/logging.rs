//! The log, in Redis' line shape: `pid:role day month year time level message`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use crate::config::LogLevel;
use log::{Level, LevelFilter, Log, Metadata, Record};

/// Writes lines to a file or to standard output.
struct Writer {
    pid: u32,
    /// Path, empty for standard output. Opened for each line, so that it can be rotated.
    path: String,
}

static WRITER: std::sync::OnceLock<Writer> = std::sync::OnceLock::new();

/// Starts logging, to standard output if the path is empty.
///
/// # Errors
/// If the file cannot be opened.
pub fn start(path: &str, level: LevelFilter) -> io::Result<()> {
    if !path.is_empty() {
        open(path)?;
    }
    let writer = WRITER.get_or_init(|| Writer {
        pid: std::process::id(),
        path: path.to_owned(),
    });
    // Only the first call can succeed, and only it needs to.
    let _ = log::set_logger(writer);
    log::set_max_level(level);
    Ok(())
}

/// Whether the log goes to a file. Before it is started it does not.
pub fn is_to_file() -> bool {
    WRITER.get().is_some_and(|writer| !writer.path.is_empty())
}

fn open(path: &str) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

impl Log for Writer {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let mark = match record.level() {
            Level::Error | Level::Warn => '#',
            Level::Info => '*',
            Level::Debug => '-',
            Level::Trace => '.',
        };
        let time = crate::clock::log_time_text();
        let line = format!("{}:M {time} {mark} {}\n", self.pid, record.args());
        // A log that cannot be written must not stop the server.
        let _ = if self.path.is_empty() {
            io::stdout().write_all(line.as_bytes())
        } else {
            open(&self.path).and_then(|mut file| file.write_all(line.as_bytes()))
        };
    }

    fn flush(&self) {}
}

/// The setting `loglevel` in terms of the log's own levels.
pub fn level(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::Trace,
        LogLevel::Verbose => LevelFilter::Debug,
        LogLevel::Notice => LevelFilter::Info,
        LogLevel::Warning => LevelFilter::Warn,
        LogLevel::Nothing => LevelFilter::Off,
    }
}
