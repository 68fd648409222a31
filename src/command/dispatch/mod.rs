//! The only way to a handler.
//!
//! ```text
//! ready clients ─> batch ─> look_ahead ─> admit ─> call ─> reply, effect, changes
//!                                           │        └───> wait: tried again when a key changes
//!                                           └─> queued, or refused
//! ```
//!
//! Requests of all ready clients are executed in batches of at most [`BATCH_MAX`], of one pipeline
//! or of many clients, and the order within a client is always kept. Before a batch runs, its keys
//! are looked ahead for.
//!
//! The clock is read before each batch and when the kind of command changes; within a command, and
//! within EXEC, time stands still. The same readings tell how long each kind of command took.
//!
//! Each request gets exactly one reply (but for CLIENT REPLY, and subscriptions, which get one per
//! channel): refusals included, in Redis' order of checks.

pub mod caller;

pub mod args;

mod look_ahead;

pub(super) mod admit;

pub mod call;

pub mod wait;

use crate::clock::{Clock, ManualClock};
use crate::command::dispatch::args::Args;
use crate::command::dispatch::caller::Caller;
use crate::command::table::row::{MEMBER_AT, flag};
use crate::command::table::table;
use crate::engine::Engine;
use crate::engine::session::{Closing, Input, ROW_UNKNOWN, Replies, SessionKey};
use crate::resp::output::{Mark, Output};
use crate::resp::reply::QUEUED;
use admit::{ROW_NONE, admit, is_from_a_browser, is_held_back, note_unknown, refuse, resolve};
use call::call;
use look_ahead::look_ahead;
use wait::serve_waiting;

/// Requests executed between two readings of the clock, and looked ahead at together.
pub const BATCH_MAX: usize = 32;
/// Requests one client may have executed in one turn of the loop while others wait.
const QUOTA_PER_TURN: usize = 1024;
/// How long one turn executes requests before the loop looks at its sockets again.
const TURN_US_MAX: u64 = 5_000;

/// A command with at most this many arguments and at most this long a reply takes microseconds, so
/// a batch of them shares one clock reading.
const ARGUMENTS_SHORT: usize = 64;
/// The length of a short reply, in bytes (see above).
const REPLY_BYTES_SHORT: u64 = 16 * 1024;

/// What is around the engine: the time, and clients who want something while a command takes long.
pub trait Outside: Clock {
    /// Lets clients in, runs what they may have run meanwhile, and answers the others that the
    /// server is busy.
    fn attend(&mut self, engine: &mut Engine);
}

/// A simulation's clients are in the engine already.
impl Outside for ManualClock {
    fn attend(&mut self, engine: &mut Engine) {
        run_ready(engine, self);
    }
}

/// Executes what ready clients have sent, within quotas; what remains stays on the ready list.
pub fn run_ready(engine: &mut Engine, outside: &mut dyn Outside) {
    let mut batch: Vec<(SessionKey, usize)> = Vec::with_capacity(BATCH_MAX);
    let mut timer = Timer {
        row: ROW_UNKNOWN,
        since_us: 0,
        has_begun: false,
    };
    engine.tell_time(outside);
    serve_waiting(engine, outside);
    engine.tell_time(outside);
    let start_us = engine.reading.monotonic_us;
    let mut used: Vec<(SessionKey, usize)> = Vec::new();
    while !engine.ready.is_empty() {
        collect_batch(engine, &mut batch);
        look_ahead(engine, &batch);
        engine.tell_time(outside);
        timer.begin(engine.reading.monotonic_us);
        // The first command runs however long it took to come here.
        let until_us = (start_us + TURN_US_MAX).max(engine.reading.monotonic_us);
        let mut sessions = batch.iter();
        for &(key, count) in sessions.by_ref() {
            // Some may leave during a command that takes very long.
            if engine.sessions.contains(key) {
                run_session(engine, outside, (key, count), until_us, &mut timer);
            }
            if engine.reading.monotonic_us > until_us {
                break;
            }
        }
        // The others keep their places.
        for &(key, _) in sessions.rev() {
            engine.make_ready_first(key);
        }
        engine.tell_time(outside);
        timer.end(engine);
        let is_over_quota = account(&mut used, &batch);
        if is_over_quota || engine.reading.monotonic_us - start_us > TURN_US_MAX {
            break;
        }
    }
    engine.jobs.commands_us = engine.reading.monotonic_us - start_us;
}

/// Adds a batch to what each client has used; true if one has used up its quota.
fn account(used: &mut Vec<(SessionKey, usize)>, batch: &[(SessionKey, usize)]) -> bool {
    let mut is_over = false;
    for &(key, count) in batch {
        if let Some((_, sum)) = used.iter_mut().find(|(other, _)| *other == key) {
            *sum += count;
            is_over |= *sum >= QUOTA_PER_TURN;
        } else if used.len() < BATCH_MAX {
            // One batch's worth of clients is remembered: with more, nobody comes near a quota.
            used.push((key, count));
        }
    }
    is_over
}

/// Takes clients from the ready list until a batch is full; they are put back after it.
fn collect_batch(engine: &mut Engine, batch: &mut Vec<(SessionKey, usize)>) {
    batch.clear();
    let mut room = BATCH_MAX;
    while room > 0
        && let Some(key) = engine.ready.pop_front()
    {
        let session = &mut engine.sessions[key];
        session.is_ready = false;
        let count = session.input.waiting().min(room);
        room -= count;
        batch.push((key, count));
        if count == 0 && session.input.error.is_none() {
            batch.pop();
        }
    }
}

/// Attributes time to kinds of commands: one reading per run of the same command.
struct Timer {
    row: u16,
    since_us: u64,
    /// One of this kind has begun since.
    has_begun: bool,
}

impl Timer {
    fn begin(&mut self, now_us: u64) {
        *self = Timer {
            row: ROW_UNKNOWN,
            since_us: now_us,
            has_begun: false,
        };
    }

    fn end(&mut self, engine: &mut Engine) {
        if self.has_begun {
            let us = engine.reading.monotonic_us - self.since_us;
            engine.metrics.command(self.row).us += us;
            engine.metrics.command_us += us;
        }
        self.since_us = engine.reading.monotonic_us;
        self.has_begun = false;
    }

    /// A command of this kind is about to run.
    #[inline]
    fn next(&mut self, row: u16, engine: &mut Engine, outside: &mut dyn Outside) {
        if row != self.row {
            if self.has_begun {
                engine.tell_time(outside);
                self.end(engine);
            }
            self.row = row;
        }
        self.has_begun = true;
    }
}

/// Executes up to `count` requests of one client; after a long one only until that time.
fn run_session(
    engine: &mut Engine,
    outside: &mut dyn Outside,
    (key, count): (SessionKey, usize),
    until_us: u64,
    timer: &mut Timer,
) {
    let mut input = engine.sessions[key].lend_input();
    let mut output = engine.sessions[key].lend_output();
    let now_ms = engine.reading.monotonic_us / 1000;
    engine.sessions[key].active_ms = now_ms;
    for _ in 0..count {
        let session = &engine.sessions[key];
        let is_late = engine.reading.monotonic_us > until_us;
        if session.closing != Closing::No || session.is_held() || is_late {
            break;
        }
        let Some(request) = input.peek() else { break };
        let args = Args::new(input.source(), input.args_of(request));
        if engine.pause.is_some() && is_held_back(engine, outside, key, request.row, args) {
            engine.sessions[key].is_postponed = true;
            break;
        }
        // What the last request had may lie where this one makes something else.
        engine.keyspace.forget();
        if let Some(hash) = request.hash {
            let spec = table().entry(request.row).row.keys[0];
            engine.keyspace.remember(args.get(spec.first_key()), hash);
        }
        if let Some(hash) = request.member_hash {
            engine.keyspace.remember_member(args.get(MEMBER_AT), hash);
        }
        let mut caller = Caller::new(key, &engine.sessions[key], &mut output, outside);
        execute(engine, &mut caller, request.row, args, timer);
        engine.sessions[key].db = caller.db;
        engine.add_pushes(key, &mut output);
        if engine.has_client_limit() {
            engine.sessions[key].output_lent = (output.len(), output.capacity_bytes());
            engine.count_client(key);
            engine.evict_clients();
        }
        input.advance();
        if output.has_dropped() {
            break;
        }
    }
    engine.keyspace.forget();
    engine.return_output(key, output);
    finish_session(engine, key, input);
}

/// Puts the input back, or drops it if the client is being closed, and sees what comes next.
fn finish_session(engine: &mut Engine, key: SessionKey, mut input: Input) {
    if engine.sessions[key].closing != Closing::No {
        return;
    }
    input.compact();
    let session = &mut engine.sessions[key];
    session.input = input;
    session.input_lent = (0, 0);
    // What a client that waits has sent behind its request is not looked at yet.
    if session.input.waiting() == 0
        && !session.is_held()
        && let Some(error) = session.input.error
    {
        let text = format!("ERR {error}");
        let wants_reply = !matches!(session.replies, Replies::Off | Replies::SkipThis);
        engine.metrics.error(text.as_bytes());
        if wants_reply {
            engine.reply(key).error(text.as_bytes());
        }
        engine.close(key, Closing::AfterReply);
    } else {
        engine.make_ready(key);
    }
    engine.count_client(key);
}

/// Checks a request and runs it, queues it or refuses it. Leaves exactly one reply, or none if
/// the client wants none.
fn execute(
    engine: &mut Engine,
    caller: &mut Caller<'_>,
    row: u16,
    args: Args<'_>,
    timer: &mut Timer,
) {
    let key = caller.session;
    if row == ROW_NONE && is_from_a_browser(args) {
        log::warn!("Possible SECURITY ATTACK: a client sent POST or Host: commands; closing it");
        engine.close(key, Closing::Now);
        return;
    }
    let mark = caller.sink.mark();
    if matches!(
        engine.sessions[key].replies,
        Replies::Off | Replies::SkipThis
    ) {
        caller.sink.withhold(Some(mark));
    }
    match admit(engine, caller.outside, key, row, args) {
        Err(error) => {
            let number = resolve(row, args).unwrap_or(ROW_UNKNOWN);
            engine.sessions[key].last_command = number;
            if number == ROW_UNKNOWN {
                note_unknown(engine, key, row, args);
            }
            refuse(engine, caller, number, error);
        }
        Ok(number) => {
            let session = &mut engine.sessions[key];
            session.last_command = number;
            let entry = table().entry(number);
            if session.multi.is_open && !entry.is(flag::NO_MULTI | flag::NOT_QUEUED) {
                queue(engine, caller, number, args);
            } else {
                timer.next(number, engine, caller.outside);
                call(engine, caller, number, args);
                let written = caller.sink.len_since(mark);
                if entry.is(flag::LONG)
                    || caller.took_long
                    || args.len() > ARGUMENTS_SHORT
                    || written > REPLY_BYTES_SHORT
                {
                    // Later commands must see the time it may have taken.
                    engine.tell_time(caller.outside);
                    timer.end(engine);
                }
            }
        }
    }
    let session = &mut engine.sessions[key];
    if session.replies != Replies::On {
        session.replies = withhold_reply(session.replies, caller.sink, mark);
    }
    serve_waiting(engine, caller.outside);
}

/// Takes a reply back that the client does not want; what it wants of the next.
#[cold]
fn withhold_reply(replies: Replies, sink: &mut Output, mark: Mark) -> Replies {
    sink.withhold(None);
    if matches!(replies, Replies::Off | Replies::SkipThis) {
        sink.truncate_to(mark);
    }
    match replies {
        Replies::SkipNext => Replies::SkipThis,
        Replies::SkipThis => Replies::On,
        other => other,
    }
}

/// Keeps a command for EXEC.
fn queue(engine: &mut Engine, caller: &mut Caller<'_>, row: u16, args: Args<'_>) {
    let multi = &mut engine.sessions[caller.session].multi;
    if !multi.is_broken {
        let bytes = args.from(0).map(<[u8]>::len).sum();
        multi.push(args.queued(row), bytes);
    }
    caller.sink.extend(QUEUED);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{ManualClock, UnixMillis};
    use crate::config::{Config, NotifyFlags};
    use crate::engine::Origin;

    /// A server in virtual time.
    struct Server {
        engine: Engine,
        clock: ManualClock,
    }

    impl Server {
        fn new(config: Config) -> Server {
            let mut clock = ManualClock::new(UnixMillis(1_700_000_000_000));
            let reading = clock.read();
            let engine = Engine::new(config, reading, 1);
            Server { engine, clock }
        }

        fn connect(&mut self) -> SessionKey {
            self.engine.connect(Origin::default())
        }

        /// Sends inline requests as one packet; everything the client gets, one line ending each.
        fn send(&mut self, key: SessionKey, requests: &str) -> String {
            self.engine
                .feed(key, requests.replace('|', "\r\n").as_bytes());
            self.engine.feed(key, b"\r\n");
            self.turn();
            self.received(key)
        }

        fn turn(&mut self) {
            run_ready(&mut self.engine, &mut self.clock);
            self.engine.run_jobs(&mut self.clock, true);
            run_ready(&mut self.engine, &mut self.clock);
        }

        fn received(&mut self, key: SessionKey) -> String {
            let bytes = self.engine.sessions[key].output.take_all();
            let text = String::from_utf8(bytes).expect("the tests write text");
            text.replace("\r\n", " ").trim_end().to_owned()
        }
    }

    fn server() -> Server {
        Server::new(Config::default())
    }

    #[test]
    fn a_key_that_dies_after_watch_fails_exec() {
        let mut server = server();
        let (a, b) = (server.connect(), server.connect());
        server.send(a, "set k v px 10|watch k");
        server.clock.advance_ms(9);
        assert_eq!(server.send(a, "multi|exec|watch k|multi"), "+OK *0 +OK +OK");
        server.clock.advance_ms(1);
        assert_eq!(server.send(b, "get k"), "$-1");
        assert_eq!(server.send(a, "exec"), "*-1");
        assert!(server.engine.watch.is_empty());
    }

    #[test]
    fn removing_a_key_that_was_dead_when_watched_is_no_change() {
        let mut server = server();
        let (a, b) = (server.connect(), server.connect());
        server.send(a, "set k v px 10");
        server.clock.advance_ms(10);
        assert_eq!(server.send(a, "watch k|multi|ping"), "+OK +OK +QUEUED");
        assert_eq!(server.send(b, "get k"), "$-1");
        assert_eq!(server.send(a, "exec"), "*1 +PONG");
        server.send(a, "watch k|multi|ping");
        server.send(b, "set k v");
        assert_eq!(server.send(a, "exec"), "*-1");
    }

    #[test]
    fn own_pushes_follow_the_reply() {
        let config = Config {
            notify_keyspace_events: NotifyFlags(NotifyFlags::KEYEVENT.0 | NotifyFlags::ALL.0),
            ..Config::default()
        };
        let mut server = Server::new(config);
        let a = server.connect();
        server.send(a, "hello 3|subscribe __keyevent@0__:set c");
        let event = ">3 $7 message $18 __keyevent@0__:set $1 k";
        assert_eq!(server.send(a, "set k v"), format!("+OK {event}"));
        assert_eq!(
            server.send(a, "multi|set k v|publish c x|exec|ping"),
            format!("+OK +QUEUED +QUEUED *2 +OK :1 {event} >3 $7 message $1 c $1 x +PONG")
        );
        assert_eq!(
            server.send(a, "client reply skip|set k v|ping"),
            format!("{event} +PONG")
        );
    }

    #[test]
    fn what_follows_auth_in_a_pipeline_is_read_with_its_limits() {
        let config = Config {
            requirepass: b"pw".to_vec(),
            ..Config::default()
        };
        let mut server = Server::new(config);
        let a = server.connect();
        let mut mset = String::from("*13\r\n$4\r\nmset\r\n");
        (0..12).for_each(|_| mset.push_str("$1\r\nk\r\n"));
        let refused = "-WRONGPASS invalid username-password pair or user is disabled.";
        assert_eq!(
            server.send(a, &format!("auth no|auth pw|ping|{mset}ping")),
            format!("{refused} +OK +PONG +OK +PONG")
        );
        let b = server.connect();
        let answer = server.send(b, &format!("ping|{mset}ping"));
        assert_eq!(
            answer,
            "-NOAUTH Authentication required. -ERR Protocol error: unauthenticated multibulk length"
        );
    }

    #[test]
    fn a_pause_holds_writes_back_and_lets_them_go() {
        let mut server = server();
        let (a, b) = (server.connect(), server.connect());
        assert_eq!(server.send(a, "client pause 100 write"), "+OK");
        assert_eq!(server.send(b, "get k|set k v|get k"), "$-1");
        assert_eq!(
            server.send(a, "nope x|get|multi"),
            concat!(
                "-ERR unknown command 'nope', with args beginning with: 'x'  ",
                "-ERR wrong number of arguments for 'get' command +OK"
            )
        );
        server.clock.advance_ms(99);
        server.turn();
        assert_eq!(server.received(b), "");
        server.clock.advance_ms(1);
        server.turn();
        assert_eq!(server.received(b), "+OK $1 v");
    }

    #[test]
    fn a_killed_client_runs_nothing_more() {
        let mut server = server();
        let (a, b) = (server.connect(), server.connect());
        server.send(b, "subscribe c");
        server
            .engine
            .feed(a, b"client kill type pubsub\r\npublish c x\r\n");
        server.engine.feed(b, b"unsubscribe\r\n");
        server.turn();
        assert_eq!(server.received(a), ":1 :0");
        assert_eq!(server.received(b), "");
        assert_eq!(server.send(a, "quit|set k v"), "+OK");
        let c = server.connect();
        assert_eq!(server.send(c, "get k"), "$-1");
    }

    #[test]
    fn exec_is_whole_or_withheld() {
        let mut server = server();
        let a = server.connect();
        server.send(a, "multi|client reply skip|ping");
        assert_eq!(server.send(a, "exec|ping|ping"), "*2 +OK +PONG +PONG");
        server.send(a, "multi|client reply off|ping");
        assert_eq!(server.send(a, "exec|ping|client reply on"), "+OK");
        assert_eq!(
            server.send(a, "multi|exec x|exec"),
            "+OK -EXECABORT Transaction discarded because of: wrong number of arguments for \
             'exec' command -ERR EXEC without MULTI"
        );
    }
}
