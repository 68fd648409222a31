//! A run of a script or a function: the server as it appears to it.
//!
//! What a script calls takes the way of every command ([`call`]), with a caller of its own: its
//! database is the script's, and nothing waits. Time stands still for all of it: the clock is read
//! only to see how long it takes. When that is longer than `busy-reply-threshold`, others are
//! attended to now and then, who may run what the table allows when the server is busy, and are
//! told so otherwise. Expiry and the other jobs wait until the script has ended.

use crate::command::dispatch::Outside;
use crate::command::dispatch::admit::{ROW_NONE, note_unknown};
use crate::command::dispatch::args::Args;
use crate::command::dispatch::call::call;
use crate::command::dispatch::caller::Caller;
use crate::command::table::row::flag;
use crate::command::table::{Entry, table};
use crate::engine::Engine;
use crate::engine::scripts::Running;
use crate::engine::session::SessionKey;
use crate::resp::error::CommandError;
use crate::resp::output::Output;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::request::{ArgRange, Source};
use crate::script::{Arguments, FunctionFlags, Host, LogLevel, ScriptId, Verdict};

/// How often others are attended to while a script takes long, in microseconds.
const ATTEND_EVERY_US: u64 = 10_000;
/// Room for the arguments of a command that is kept for the next one.
const ARGUMENTS_KEPT_BYTES: usize = 64 * 1024;

/// What is run.
pub(super) struct Body<'a> {
    pub id: ScriptId,
    /// The name of a function, the digest of a script.
    pub name: &'a [u8],
    pub is_function: bool,
    /// What it says about itself; none of a script that says nothing.
    pub flags: Option<FunctionFlags>,
    /// It was called by a command that promises not to write.
    pub is_read_only: bool,
}

type Strings<'a> = Vec<&'a [u8]>;

/// KEYS and ARGV of a command with the number of keys at argument 2.
///
/// # Errors
/// If it is no number, or none of as many keys as follow.
pub(super) fn keys_and_args<'a>(
    args: Args<'a>,
) -> Result<(Strings<'a>, Strings<'a>), CommandError> {
    let keys = args.integer(2)?;
    let Ok(keys) = usize::try_from(keys) else {
        return Err(CommandError::text("ERR Number of keys can't be negative"));
    };
    if keys > args.len() - 3 {
        return Err(CommandError::text(
            "ERR Number of keys can't be greater than number of args",
        ));
    }
    let mut all = args.from(3);
    let keys = all.by_ref().take(keys).collect();
    Ok((keys, all.collect()))
}

/// Runs it; the reply is its value.
///
/// # Errors
/// Why it may not run, or has failed.
pub(super) fn run(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    args: Args<'_>,
    body: Body<'_>,
) -> Result<(), CommandError> {
    let (keys, argv) = keys_and_args(args)?;
    let may_write = body
        .flags
        .is_none_or(|flags| !flags.contains(FunctionFlags::NO_WRITES));
    if body.is_read_only && body.flags.is_some() && may_write {
        return Err(CommandError::text(
            "ERR Can not execute a script with write flag using *_ro command.",
        ));
    }
    if body.flags.is_some() && may_write {
        engine.check_writes()?;
    }
    // Its arguments may come to lie where something was that is remembered.
    engine.keyspace.forget();
    let mut interpreter = engine.scripts.lend();
    let started_us = engine.reading.monotonic_us;
    let mut host = RunHost {
        session: caller.session,
        db: caller.db,
        is_read_only: body.is_read_only || !may_write,
        is_replicated: true,
        request: args,
        body: &body,
        started_us,
        attended_us: started_us,
        has_written: false,
        has_counted_error: false,
        buffer: Vec::new(),
        ranges: Vec::new(),
        sink: Output::default(),
        outside: &mut *caller.outside,
        engine,
    };
    let arguments = Arguments {
        keys: &keys,
        args: &argv,
        protocol: caller.protocol,
    };
    let mark = caller.sink.mark();
    let result = interpreter.run(body.id, arguments, &mut host, caller.sink);
    let has_counted_error = host.has_counted_error;
    engine.scripts.give_back(interpreter);
    engine.scripts.running = None;
    engine.busy = None;
    match result {
        Ok(()) => {
            if !has_counted_error && let Some(line) = error_line(caller.sink.since(mark)) {
                engine.metrics.error(line);
            }
            Ok(())
        }
        // The command that failed has been counted; the script is not to blame.
        Err(failure) if failure.is_of_command => {
            caller.reply().error(&failure.line);
            Ok(())
        }
        Err(failure) => Err(CommandError::owned(failure.line)),
    }
}

/// The line of a reply that is an error.
fn error_line(reply: &[u8]) -> Option<&[u8]> {
    let rest = reply.strip_prefix(b"-")?;
    let end = memchr::memchr(b'\r', rest).unwrap_or(rest.len());
    Some(&rest[..end])
}

struct RunHost<'r> {
    engine: &'r mut Engine,
    outside: &'r mut dyn Outside,
    session: SessionKey,
    db: usize,
    is_read_only: bool,
    /// The effects of what it calls are recorded.
    is_replicated: bool,
    /// The command that runs it.
    request: Args<'r>,
    body: &'r Body<'r>,
    started_us: u64,
    /// When others were attended to last.
    attended_us: u64,
    has_written: bool,
    has_counted_error: bool,
    /// The command it calls, and its reply.
    buffer: Vec<u8>,
    ranges: Vec<ArgRange>,
    sink: Output,
}

impl RunHost<'_> {
    /// What may be called; the number of its row.
    fn admit(&mut self, args: Args<'_>) -> Result<u16, (Option<u16>, CommandError)> {
        let table = table();
        let Some(number) = table.find(args.get(0)) else {
            return Err(self.unknown(ROW_NONE, args));
        };
        let entry = table.entry(number);
        let number = if entry.row.subcommands.is_empty() || args.len() == 1 {
            number
        } else {
            let found = table.find_subcommand(number, args.get(1));
            found.ok_or_else(|| self.unknown(number, args))?
        };
        let entry = table.entry(number);
        let refuse = |text| Err((Some(number), CommandError::text(text)));
        if !entry.row.takes(args.len()) {
            return refuse("ERR Wrong number of args calling Redis command from script");
        }
        if entry.is(flag::NOSCRIPT) {
            return refuse("ERR This Redis command is not allowed from script");
        }
        if entry.is(flag::WRITE) {
            if self.is_read_only {
                return refuse("ERR Write commands are not allowed from read-only scripts.");
            }
            self.engine
                .check_writes()
                .map_err(|error| (Some(number), error))?;
        }
        Ok(number)
    }

    /// The refusal of a command that does not exist, which is counted like a client's own: programs
    /// hide it from whoever asks why they do not work.
    fn unknown(&mut self, row: u16, args: Args<'_>) -> (Option<u16>, CommandError) {
        note_unknown(self.engine, self.session, row, args);
        let text = "ERR Unknown Redis command called from script";
        (None, CommandError::text(text))
    }

    fn note_written(&mut self, entry: &Entry) {
        if entry.is(flag::WRITE) && !self.has_written {
            self.has_written = true;
            if let Some(running) = &mut self.engine.scripts.running {
                running.has_written = true;
            }
        }
    }

    /// Tells others from now on that the server is busy, and lets those in whose requests lay here
    /// already.
    fn begin_busy(&mut self) {
        self.engine.busy = Some(self.session);
        self.engine.scripts.running = Some(Running {
            name: self.body.name.to_vec(),
            command: self.request.from(0).map(<[u8]>::to_vec).collect(),
            started_us: self.started_us,
            now_us: self.attended_us,
            is_function: self.body.is_function,
            has_written: self.has_written,
            is_killed: false,
        });
        log::warn!("Slow script detected: still in execution after the busy-reply-threshold");
        let others: Vec<SessionKey> = self.engine.sessions.iter().map(|(key, _)| key).collect();
        for key in others {
            if key != self.session {
                self.engine.make_ready(key);
            }
        }
    }
}

impl Host for RunHost<'_> {
    fn call(&mut self, args: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>) {
        let (mut buffer, mut ranges) = (
            std::mem::take(&mut self.buffer),
            std::mem::take(&mut self.ranges),
        );
        for arg in args {
            ranges.push(ArgRange {
                start: buffer.len() as u32,
                len: arg.len() as u32,
            });
            buffer.extend_from_slice(arg);
        }
        let args = Args::new(Source::from(buffer.as_slice()), &ranges);
        match self.admit(args) {
            Ok(number) => {
                self.note_written(table().entry(number));
                self.engine.keyspace.effects.mute(!self.is_replicated);
                let mut caller = Caller {
                    session: self.session,
                    db: self.db,
                    protocol,
                    may_wait: false,
                    sink: &mut self.sink,
                    outside: &mut *self.outside,
                };
                call(self.engine, &mut caller, number, args);
                self.db = caller.db;
                self.engine.keyspace.effects.mute(false);
            }
            Err((number, error)) => {
                let line = error.line();
                if let Some(number) = number {
                    self.engine.metrics.command(number).rejected += 1;
                }
                self.engine.metrics.error(&line);
                Reply::new(&mut self.sink, protocol).error(&line);
            }
        }
        self.has_counted_error |= self.sink.front().first() == Some(&b'-');
        self.sink.move_to(reply);
        buffer.clear();
        buffer.shrink_to(ARGUMENTS_KEPT_BYTES);
        ranges.clear();
        (self.buffer, self.ranges) = (buffer, ranges);
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        log_line(level, text);
    }

    fn pause(&mut self) -> Verdict {
        let now_us = self.outside.read().monotonic_us;
        let threshold_us = self
            .engine
            .config
            .busy_reply_threshold_ms
            .saturating_mul(1000);
        let is_soon = now_us.saturating_sub(self.started_us) < threshold_us
            || now_us.saturating_sub(self.attended_us) < ATTEND_EVERY_US;
        if is_soon || threshold_us == 0 {
            return Verdict::Continue;
        }
        self.attended_us = now_us;
        if self.engine.busy.is_none() {
            self.begin_busy();
        }
        if let Some(running) = &mut self.engine.scripts.running {
            running.now_us = now_us;
        }
        self.outside.attend(self.engine);
        let running = self.engine.scripts.running.as_ref();
        let is_killed = running.is_some_and(|running| running.is_killed);
        if !is_killed && self.engine.exit.is_none() {
            return Verdict::Continue;
        }
        let text = if self.body.is_function {
            "ERR Error running script (user_function): Script killed by user with FUNCTION KILL."
        } else {
            "ERR Error running script (user_script): Script killed by user with SCRIPT KILL."
        };
        Verdict::Kill(text.as_bytes().to_vec())
    }

    fn is_allowed(&mut self, args: &[&[u8]]) -> Option<bool> {
        // The one user may run everything.
        let number = table().find(args.first()?)?;
        let is_there = table().entry(number).row.subcommands.is_empty()
            || args.len() == 1
            || table().find_subcommand(number, args[1]).is_some();
        is_there.then_some(true)
    }

    fn set_replication(&mut self, targets: u8) {
        self.is_replicated = targets != 0;
    }
}

/// Longest that the code of a library may run when it is loaded, in microseconds.
const LOAD_US_MAX: u64 = 500_000;

/// The server as it appears to a library that is loaded: it can do nothing but log.
pub(super) struct LoadHost<'r> {
    outside: &'r mut dyn Outside,
    until_us: u64,
}

impl<'r> LoadHost<'r> {
    pub(super) fn new(outside: &'r mut dyn Outside) -> LoadHost<'r> {
        let until_us = outside.read().monotonic_us.saturating_add(LOAD_US_MAX);
        LoadHost { outside, until_us }
    }
}

impl Host for LoadHost<'_> {
    fn call(&mut self, _: &[&[u8]], _: Protocol, reply: &mut Vec<u8>) {
        reply.extend(b"-ERR redis.call can not be called while a library is loaded\r\n");
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        log_line(level, text);
    }

    fn pause(&mut self) -> Verdict {
        if self.outside.read().monotonic_us < self.until_us {
            Verdict::Continue
        } else {
            Verdict::Kill(b"ERR FUNCTION LOAD timeout".to_vec())
        }
    }

    fn is_allowed(&mut self, _: &[&[u8]]) -> Option<bool> {
        Some(false)
    }

    fn set_replication(&mut self, _: u8) {}
}

fn log_line(level: LogLevel, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    match level {
        LogLevel::Debug => log::debug!("{text}"),
        LogLevel::Verbose | LogLevel::Notice => log::info!("{text}"),
        LogLevel::Warning => log::warn!("{text}"),
    }
}
