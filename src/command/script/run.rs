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
use crate::engine::eviction::OUT_OF_MEMORY;
use crate::engine::scripts::{Digest, Running, hex};
use crate::engine::session::SessionKey;
use crate::resp::error::CommandError;
use crate::resp::output::Output;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::request::Source;
use crate::script::{Arguments, FunctionFlags, Host, LogLevel, ScriptId, Verdict, Words};

/// How often others are attended to while a script takes long, in microseconds.
const ATTEND_EVERY_US: u64 = 10_000;
/// A script that calls no more commands than this, and is never asked to pause, takes microseconds.
const CALLS_SHORT: u32 = 16;

/// What a script or function is called.
pub(super) enum Name<'a> {
    Script(Digest),
    Function(&'a [u8]),
}

/// What is run.
pub(super) struct Body<'a> {
    pub id: ScriptId,
    pub name: Name<'a>,
    /// What it says about itself; none of a script that says nothing.
    pub flags: Option<FunctionFlags>,
    /// It was called by a command that promises not to write.
    pub is_read_only: bool,
}

/// The number of keys, argument 2, of a command whose keys and arguments follow it.
///
/// # Errors
/// If it is no number, or none of as many keys as follow.
pub(super) fn number_of_keys(args: Args<'_>) -> Result<usize, CommandError> {
    let Ok(keys) = usize::try_from(args.integer(2)?) else {
        return Err(CommandError::text("ERR Number of keys can't be negative"));
    };
    if keys > args.len() - 3 {
        return Err(CommandError::text(
            "ERR Number of keys can't be greater than number of args",
        ));
    }
    Ok(keys)
}

/// Whether it may write, and whether there is memory for that.
///
/// # Errors
/// Why it may not run.
fn admit(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    body: &Body<'_>,
) -> Result<(bool, bool), CommandError> {
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
    let allows_oom = body
        .flags
        .is_some_and(|flags| flags.contains(FunctionFlags::ALLOW_OOM));
    let has_memory =
        !engine.has_memory_limit() || allows_oom || engine.make_room(caller.outside).is_ok();
    if !has_memory && body.flags.is_some() && may_write {
        return Err(CommandError::text(
            "OOM allow-oom flag is not set on the script, can not run it when used memory > \
             'maxmemory'",
        ));
    }
    Ok((may_write, has_memory))
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
    let keys = number_of_keys(args)?;
    let (may_write, has_memory) = admit(engine, caller, &body)?;
    // Its arguments may come to lie where something was that is remembered.
    engine.keyspace.forget();
    let mut interpreter = engine.scripts.lend();
    let started_us = engine.reading.monotonic_us;
    let mut host = RunHost {
        session: caller.session,
        db: caller.db,
        is_read_only: body.is_read_only || !may_write,
        has_memory,
        is_replicated: true,
        request: args,
        body: &body,
        started_us,
        attended_us: started_us,
        has_written: false,
        has_counted_error: false,
        calls: 0,
        pauses: 0,
        outside: &mut *caller.outside,
        engine,
    };
    let arguments = Arguments {
        all: &|at| args.get(at + 3),
        len: args.len() - 3,
        keys,
        protocol: caller.protocol,
    };
    let mark = caller.sink.mark();
    let result = interpreter.run(body.id, arguments, &mut host, caller.sink);
    let has_counted_error = host.has_counted_error;
    caller.took_long |= host.pauses > 0 || host.calls > CALLS_SHORT;
    engine.scripts.give_back(interpreter);
    engine.scripts.running = None;
    engine.busy = None;
    match result {
        Ok(()) => {
            if let Some(line) = error_line(caller.sink.since(mark)) {
                engine.scripts.has_failed = true;
                if !has_counted_error {
                    engine.metrics.error(line);
                }
            }
            Ok(())
        }
        // The error has been counted with the command that failed.
        Err(failure) if failure.is_of_command => {
            engine.scripts.has_failed = true;
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
    /// What needs memory may be called; nothing gives way while the script runs.
    has_memory: bool,
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
    /// Commands it has called.
    calls: u32,
    /// How often it was asked whether it may go on.
    pauses: u32,
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
        if entry.is(flag::NOSCRIPT) && !self.engine.scripts.allows_all {
            return refuse("ERR This Redis command is not allowed from script");
        }
        if entry.is(flag::DENYOOM) && !self.has_memory && !self.has_written {
            return Err((Some(number), OUT_OF_MEMORY));
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
            name: match self.body.name {
                Name::Script(digest) => hex(&digest).to_vec(),
                Name::Function(name) => name.to_vec(),
            },
            command: self.request.from(0).map(<[u8]>::to_vec).collect(),
            started_us: self.started_us,
            now_us: self.attended_us,
            is_function: matches!(self.body.name, Name::Function(_)),
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
    fn call(&mut self, command: &Words, protocol: Protocol, reply: &mut Output) {
        let args = Args::new(Source::from(command.bytes()), command.ranges());
        self.calls += 1;
        match self.admit(args) {
            Ok(number) => {
                self.note_written(table().entry(number));
                self.engine.keyspace.effects.mute(!self.is_replicated);
                let mut caller = Caller {
                    session: self.session,
                    db: self.db,
                    protocol,
                    may_wait: false,
                    took_long: false,
                    sink: reply,
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
                Reply::new(reply, protocol).error(&line);
            }
        }
        self.has_counted_error |= reply.front().first() == Some(&b'-');
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        level.write(text);
    }

    fn pause(&mut self) -> Verdict {
        self.pauses += 1;
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
        let text = if let Name::Function(_) = self.body.name {
            "ERR Error running script (user_function): Script killed by user with FUNCTION KILL."
        } else {
            "ERR Error running script (user_script): Script killed by user with SCRIPT KILL."
        };
        Verdict::Kill(text.as_bytes().to_vec())
    }

    fn is_allowed(&mut self, command: &Words) -> Option<bool> {
        // The one user may run everything.
        let mut words = command.iter();
        let number = table().find(words.next()?)?;
        let is_container = !table().entry(number).row.subcommands.is_empty();
        let is_there = match words.next().filter(|_| is_container) {
            Some(name) => table().find_subcommand(number, name).is_some(),
            None => true,
        };
        is_there.then_some(true)
    }

    fn set_replication(&mut self, targets: u8) {
        self.is_replicated = targets != 0;
    }
}
