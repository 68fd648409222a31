//! One client as the engine sees it: what it sent, what it is owed, and who it is.
//!
//! Input is parsed into [`Request`]s whose arguments are ranges over the input buffer; large ones
//! are received into allocations of their own, which can become values. A client that is paused
//! or killed in mid-batch keeps the rest unexecuted. Output belongs to the session from the first
//! byte, replies and pushes in order; the shell only drains it.
//!
//! Not here: sockets (`server`), what requests mean (`command`).

use std::collections::BTreeSet;
use std::net::SocketAddr;

use bytes::Bytes;

use super::blocking::Blocked;
use super::client_memory::Counted;
use crate::config::{OUTPUT_NORMAL, OUTPUT_PUBSUB};
use crate::resp::output::Output;
use crate::resp::reply::Protocol;
use crate::resp::request::{ArgRange, Limits, Parser, ProtocolError, Source, Step};
use crate::value::size_class;

/// A session's place in the engine's table. Reused after the session is gone; [`Session::id`] is
/// not.
pub type SessionKey = usize;

/// A parsed request that has not been executed yet.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    first: u32,
    args: u32,
    end: u32,
    /// Number of the command's row, once looked ahead at; see `command::lookup`.
    pub row: u16,
    /// Placement hash of its first key, if it has been looked ahead for.
    pub hash: Option<u64>,
    /// The same of its first member or field.
    pub member_hash: Option<u64>,
}

/// Row number of a request that has not been looked at.
pub const ROW_UNKNOWN: u16 = u16::MAX;
/// An empty input buffer with more room than this is given back.
const INPUT_KEPT_BYTES: usize = 64 * 1024;
/// Requests are parsed until so many wait: a parsed request takes up to 30 times the bytes it came
/// in, and the client may be made to wait before it is executed.
const WAITING_MAX: usize = 512;
/// Room for a large argument is made for so many times what has come of it,
const FILLING_GROWTH: usize = 4;
/// but for at least so many bytes,
const FILLING_BYTES_MIN: usize = 16 * 1024;
/// and for all of it once so many have come: what is not touched of so much takes no memory, and
/// moving it would hold everybody up.
const FILLING_TRUSTED_BYTES: usize = 16 * 1024 * 1024;
/// Executed requests are removed from the front of the buffer when they are half of it, or so many
/// bytes: ranges of arguments reach 4 GiB.
const EXECUTED_BYTES_MAX: usize = 1 << 30;

/// What a client has sent.
#[derive(Default)]
pub struct Input {
    /// Bytes received, parsed or not, but for large arguments.
    buffer: Vec<u8>,
    /// Large arguments of the parsed requests and of the unfinished one.
    large: Vec<Bytes>,
    /// Bytes in `large`.
    large_len: usize,
    /// A large argument of which only a part has come.
    filling: Option<Filling>,
    parser: Parser,
    /// Ranges of all parsed requests.
    args: Vec<ArgRange>,
    requests: Vec<Request>,
    next: usize,
    /// The client broke the protocol behind the parsed requests.
    pub error: Option<ProtocolError>,
    /// Parsing stopped before the end: see [`Input::parse`].
    is_unparsed: bool,
}

/// A large argument on its way.
struct Filling {
    bytes: Vec<u8>,
    /// How many bytes it will have.
    len: usize,
}

impl Input {
    /// Appends what was received, to be parsed.
    pub fn append(&mut self, bytes: &[u8]) {
        let taken = self.fill(bytes);
        self.is_unparsed |= self.filling.is_none();
        self.buffer.extend_from_slice(&bytes[taken..]);
    }

    /// Adds to the large argument that is on its way; how many bytes belonged to it.
    fn fill(&mut self, bytes: &[u8]) -> usize {
        let Some(filling) = &mut self.filling else {
            return 0;
        };
        let taken = bytes.len().min(filling.len - filling.bytes.len());
        filling.make_room(taken);
        filling.bytes.extend_from_slice(&bytes[..taken]);
        if filling.bytes.len() == filling.len {
            let bytes = Bytes::from(std::mem::take(&mut filling.bytes));
            self.filling = None;
            self.parser.give_large(self.large.len());
            self.large_len += bytes.len();
            self.large.push(bytes);
        }
        taken
    }

    /// Receives the argument at the parser's position apart from now on.
    fn begin_large(&mut self, len: usize) {
        self.filling = Some(Filling {
            bytes: Vec::new(),
            len,
        });
        let received = self.buffer.split_off(self.parser.position());
        let taken = self.fill(&received);
        self.buffer.extend_from_slice(&received[taken..]);
    }

    /// Whether [`Input::parse`] may find more.
    #[inline]
    pub fn is_unparsed(&self) -> bool {
        self.is_unparsed
    }

    /// Parses what is there, until it ends or breaks or enough requests wait. A stranger's requests
    /// are parsed one at a time: the first of them may be the password, and then other limits hold
    /// for the next.
    pub fn parse(&mut self, limits: &Limits) {
        self.is_unparsed = false;
        let waiting_max = if limits.authenticated { WAITING_MAX } else { 1 };
        while self.error.is_none() {
            if self.waiting() >= waiting_max {
                self.is_unparsed = true;
                return;
            }
            let first = self.args.len() as u32;
            match self.parser.step(&mut self.buffer, limits, &mut self.args) {
                Ok(Step::Request { argc }) => self.requests.push(Request {
                    first,
                    args: argc as u32,
                    end: self.parser.position() as u32,
                    row: ROW_UNKNOWN,
                    hash: None,
                    member_hash: None,
                }),
                Ok(Step::Empty) => {}
                Ok(Step::Incomplete) => break,
                Err(error) => self.error = Some(error),
            }
        }
        if self.error.is_none()
            && let Some(len) = self.parser.large_wanted()
        {
            self.begin_large(len);
        }
    }

    /// Requests that wait to be executed.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.requests.len() - self.next
    }

    /// The requests that wait, to be looked ahead at.
    pub fn upcoming(&mut self, count: usize) -> (&mut [Request], &[ArgRange], Source<'_>) {
        let end = (self.next + count).min(self.requests.len());
        let source = Source {
            buffer: &self.buffer,
            large: &self.large,
        };
        (&mut self.requests[self.next..end], &self.args, source)
    }

    /// What the arguments are ranges of.
    #[inline]
    pub fn source(&self) -> Source<'_> {
        Source {
            buffer: &self.buffer,
            large: &self.large,
        }
    }

    /// The next request; its arguments are found with [`Input::args_of`].
    #[inline]
    pub fn peek(&self) -> Option<Request> {
        self.requests.get(self.next).copied()
    }

    /// The next request has been executed.
    #[inline]
    pub fn advance(&mut self) {
        self.next += 1;
    }

    /// The ranges of a request.
    #[inline]
    pub fn args_of(&self, request: Request) -> &[ArgRange] {
        &self.args[request.first as usize..(request.first + request.args) as usize]
    }

    /// Once everything parsed has been executed: drops it.
    pub fn compact(&mut self) {
        if self.waiting() > 0 {
            return;
        }
        self.requests.clear();
        self.args.clear();
        self.next = 0;
        let executed = self.parser.needed_from();
        let dropped = if executed == self.buffer.len() {
            self.buffer.clear();
            if self.buffer.capacity() > INPUT_KEPT_BYTES {
                self.buffer = Vec::new();
            }
            executed
        } else if executed * 2 >= self.buffer.len() || executed >= EXECUTED_BYTES_MAX {
            self.buffer.drain(..executed);
            executed
        } else {
            0
        };
        let gone = self.large.len() - self.parser.large_needed();
        self.large_len -= self.large.drain(..gone).map(|arg| arg.len()).sum::<usize>();
        self.parser.consumed(dropped);
        self.args.shrink_to(4096);
    }

    /// Gives back all memory that holds nothing.
    pub fn shrink(&mut self) {
        self.compact();
        self.buffer.shrink_to_fit();
        self.large.shrink_to_fit();
        self.args.shrink_to_fit();
        self.requests.shrink_to_fit();
        self.parser.shrink();
        if let Some(filling) = &mut self.filling
            && filling.bytes.len() < FILLING_TRUSTED_BYTES
        {
            filling.bytes.shrink_to_fit();
        }
    }

    /// Drops everything unexecuted: the client is being closed.
    pub fn discard(&mut self) {
        *self = Input::default();
    }

    /// Bytes received and not yet dropped.
    pub fn len(&self) -> usize {
        let filling = self
            .filling
            .as_ref()
            .map_or(0, |filling| filling.bytes.len());
        self.buffer.len() + self.large_len + filling
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes received, and those that the ranges of their arguments take.
    pub fn held_bytes(&self) -> usize {
        self.len() + self.args.len() * size_of::<ArgRange>() + self.parser.pending_bytes()
    }

    /// Bytes of memory held.
    pub fn capacity_bytes(&self) -> usize {
        let filling = self.filling.as_ref();
        self.buffer.capacity()
            + self.large_len
            + filling.map_or(0, |filling| filling.bytes.capacity())
            + self.large.capacity() * size_of::<Bytes>()
            + self.args.capacity() * size_of::<ArgRange>()
            + self.requests.capacity() * size_of::<Request>()
            + self.parser.pending_bytes()
    }
}

impl Filling {
    /// Makes room for `additional` bytes. The length is the client's claim: memory follows what has
    /// come, and no page is touched that was only announced (a huge page may be 2 MiB).
    fn make_room(&mut self, additional: usize) {
        let needed = self.bytes.len() + additional;
        if needed > self.bytes.capacity() {
            let room = match needed >= FILLING_TRUSTED_BYTES {
                true => self.len,
                false => (needed * FILLING_GROWTH).clamp(FILLING_BYTES_MIN, self.len),
            };
            self.bytes.reserve_exact(room - self.bytes.len());
        }
    }
}

impl Request {
    /// Where its arguments are.
    pub fn ranges<'a>(&self, args: &'a [ArgRange]) -> &'a [ArgRange] {
        &args[self.first as usize..(self.first + self.args) as usize]
    }

    /// Offset behind its last byte.
    pub fn end(&self) -> usize {
        self.end as usize
    }
}

/// A command waiting for EXEC: its own copy of its arguments, large ones shared.
#[derive(Default)]
pub struct Queued {
    /// Number of its row.
    pub row: u16,
    /// Where its arguments are.
    pub ranges: Vec<ArgRange>,
    /// Their bytes, one after another, but for large ones.
    buffer: Vec<u8>,
    large: Vec<Bytes>,
}

impl Queued {
    /// Copies the arguments of a command.
    pub fn new(row: u16, source: Source<'_>, ranges: &[ArgRange]) -> Queued {
        Queued::replacing(row, source, ranges, |_| None)
    }

    /// The same with other arguments in some places.
    pub fn replacing<'r>(
        row: u16,
        source: Source<'_>,
        ranges: &[ArgRange],
        replacement: impl Fn(usize) -> Option<&'r [u8]>,
    ) -> Queued {
        let small = ranges.iter().filter(|range| range.number().is_none());
        let bytes = small.map(|range| range.len as usize).sum();
        let mut queued = Queued {
            row,
            ranges: Vec::with_capacity(ranges.len()),
            buffer: Vec::with_capacity(bytes),
            large: Vec::new(),
        };
        for (index, range) in ranges.iter().enumerate() {
            let replacement = replacement(index);
            let copied = if let Some(bytes) = replacement {
                let start = queued.buffer.len() as u32;
                queued.buffer.extend_from_slice(bytes);
                let len = bytes.len() as u32;
                ArgRange { start, len }
            } else if let Some(number) = range.number() {
                queued.large.push(source.large[number].clone());
                ArgRange::large(queued.large.len() - 1)
            } else {
                let start = queued.buffer.len() as u32;
                queued.buffer.extend_from_slice(range.of(source));
                ArgRange {
                    start,
                    len: range.len,
                }
            };
            queued.ranges.push(copied);
        }
        queued
    }

    /// What the arguments are ranges of.
    pub fn source(&self) -> Source<'_> {
        Source {
            buffer: &self.buffer,
            large: &self.large,
        }
    }

    /// Bytes of memory behind it.
    pub fn allocated_bytes(&self) -> usize {
        let large = self.large.iter().map(|bytes| size_class::of(bytes.len()));
        size_class::of(self.ranges.capacity() * size_of::<ArgRange>())
            + size_class::of(self.buffer.capacity())
            + size_class::of(self.large.capacity() * size_of::<Bytes>())
            + large.sum::<usize>()
    }
}

/// A transaction being collected.
#[derive(Default)]
pub struct Transaction {
    /// MULTI was called.
    pub is_open: bool,
    /// A command was refused while queueing: EXEC aborts.
    pub is_broken: bool,
    /// A watched key changed: EXEC answers nil.
    pub is_stale: bool,
    /// What EXEC will run.
    pub queue: Vec<Queued>,
    /// Bytes of the queue's commands, as they count toward the limit on input.
    pub queued_bytes: usize,
    /// Bytes of memory behind these commands.
    command_bytes: usize,
    /// Watched keys: database, key, and whether it was dead already when watched.
    pub watched: Vec<(u16, Box<[u8]>, bool)>,
    /// Memory that watching them takes, in bytes.
    pub watched_bytes: usize,
}

impl Transaction {
    /// Keeps a command for EXEC.
    pub fn push(&mut self, queued: Queued, bytes: usize) {
        let ranges = queued.ranges.len() * size_of::<ArgRange>();
        self.queued_bytes += bytes + ranges + size_of::<Queued>();
        self.command_bytes += queued.allocated_bytes();
        self.queue.push(queued);
    }

    /// Bytes of memory that it takes, with what the client watches.
    pub fn memory_bytes(&self) -> usize {
        self.command_bytes + self.queue.capacity() * size_of::<Queued>() + self.watched_bytes
    }
}

/// Which replies the client wants: CLIENT REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replies {
    /// All.
    On,
    /// None.
    Off,
    /// Not the one to the next command.
    SkipNext,
    /// Not the one to the command that is running.
    SkipThis,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// It goes on.
    No,
    /// When what it is owed has been written.
    AfterReply,
    /// At once.
    Now,
}

/// One client.
pub struct Session {
    /// Never reused.
    pub id: u64,
    /// The peer's address, or the unix socket's path.
    pub peer: String,
    /// The address it connected to.
    pub local: String,
    /// Its connection comes over a unix socket.
    pub is_unix: bool,
    /// File descriptor, for CLIENT LIST.
    pub fd: i32,
    /// Name given by CLIENT SETNAME or HELLO.
    pub name: Vec<u8>,
    /// Library name and version given by CLIENT SETINFO.
    pub library: (String, String),
    /// Selected database.
    pub db: usize,
    /// Protocol chosen by HELLO.
    pub protocol: Protocol,
    /// Has given the password, or none is needed.
    pub is_authenticated: bool,
    /// When it connected, in ms of monotonic time.
    pub connected_ms: u64,
    /// When bytes last came from it or went to it, or a wait of its own ended, in ms of monotonic
    /// time.
    pub active_ms: u64,
    /// What it sent.
    pub input: Input,
    /// Bytes and capacity of the input while its commands run, which borrow it.
    pub input_lent: (usize, usize),
    /// What it is owed; while its requests are answered, what is sent to it by others.
    pub output: Output,
    /// Bytes and capacity of the output while it is lent to whoever answers.
    pub output_lent: (usize, usize),
    /// Is on the engine's list of sessions with output.
    pub is_unflushed: bool,
    /// Is on the engine's list of sessions with requests.
    pub is_ready: bool,
    /// Waits until a CLIENT PAUSE ends, with requests left.
    pub is_postponed: bool,
    /// Waits for a key.
    pub blocked: Option<Box<Blocked>>,
    /// Since when its output has been over the soft limit, in ms of monotonic time.
    pub over_soft_since_ms: Option<u64>,
    /// Transaction.
    pub multi: Transaction,
    /// Channels it listens to. Ordered, so that leaving them all is the same in every run.
    pub channels: BTreeSet<Box<[u8]>>,
    /// Patterns it listens to.
    pub patterns: BTreeSet<Box<[u8]>>,
    /// Shard channels it listens to.
    pub shard_channels: BTreeSet<Box<[u8]>>,
    /// Memory that listening to them takes, in bytes.
    pub subscribed_bytes: usize,
    /// CLIENT REPLY.
    pub replies: Replies,
    /// CLIENT NO-TOUCH.
    pub is_no_touch: bool,
    /// CLIENT NO-EVICT.
    pub is_no_evict: bool,
    /// How it was counted, if there is a limit on what clients take together.
    pub counted: Option<Counted>,
    /// Whether and how it is being closed.
    pub closing: Closing,
    /// Row number of the last command, for CLIENT LIST; [`ROW_UNKNOWN`] if there was none.
    pub last_command: u16,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Commands executed.
    pub commands: u64,
}

impl Session {
    /// Whether the client sits on this machine.
    pub fn is_local(&self) -> bool {
        is_local(&self.peer, self.is_unix)
    }

    /// Lends the input to whoever executes it; it must be put back.
    pub fn lend_input(&mut self) -> Input {
        self.input_lent = (self.input.len(), self.input.capacity_bytes());
        std::mem::take(&mut self.input)
    }

    /// Lends the output to whoever answers; it must be put back.
    pub fn lend_output(&mut self) -> Output {
        self.output_lent = (self.output.len(), self.output.capacity_bytes());
        let mut others = Output::default();
        others.set_limit(self.output.limit());
        std::mem::replace(&mut self.output, others)
    }

    /// Takes the output back. Its limit may have changed meanwhile.
    pub fn return_output(&mut self, mut output: Output) {
        output.set_limit(self.output.limit());
        self.output = output;
        self.output_lent = (0, 0);
    }

    /// Bytes and capacity of the output, lent or not.
    pub fn output_held(&self) -> (usize, usize) {
        let own = (self.output.len(), self.output.capacity_bytes());
        (own.0 + self.output_lent.0, own.1 + self.output_lent.1)
    }

    /// Bytes and capacity of the input, lent or not.
    pub fn input_held(&self) -> (usize, usize) {
        let own = (self.input.len(), self.input.capacity_bytes());
        (own.0 + self.input_lent.0, own.1 + self.input_lent.1)
    }

    /// Memory that the client takes, in bytes: its session, its buffers, its transaction, and what
    /// it watches and listens to.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Session>()
            + self.input_held().1
            + self.output_held().1
            + self.multi.memory_bytes()
            + self.subscribed_bytes
            + self.name.capacity()
            + self.blocked.as_ref().map_or(0, |blocked| blocked.bytes)
    }

    /// Memory of its buffers that holds nothing, in bytes. Not while its input is lent.
    pub fn spare_bytes(&self) -> usize {
        let input = self.input.capacity_bytes() - self.input.len();
        let output = match self.output.is_empty() {
            true => self.output.capacity_bytes(),
            false => 0,
        };
        input + output
    }

    /// Gives that memory back.
    pub fn shrink(&mut self) {
        self.input.shrink();
        if self.output.is_empty() {
            self.output.clear();
            self.output.shrink();
        }
    }

    /// The position of its class in the setting `client-output-buffer-limit`.
    pub fn output_class(&self) -> usize {
        match self.subscriptions() {
            0 => OUTPUT_NORMAL,
            _ => OUTPUT_PUBSUB,
        }
    }

    /// Must not go on with its requests for now: CLIENT PAUSE, or a command that waits.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.is_postponed || self.blocked.is_some()
    }

    /// Number of channels and patterns of all kinds it listens to.
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len() + self.shard_channels.len()
    }

    /// Bound by the RESP2 rule that only subscription commands are allowed.
    pub fn is_subscriber(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.subscriptions() > 0
    }
}

/// Whether this peer sits on this machine: a unix socket, or an address of the loopback interface.
pub fn is_local(peer: &str, is_unix: bool) -> bool {
    let address = peer.parse::<SocketAddr>();
    is_unix || address.is_ok_and(|address| address.ip().to_canonical().is_loopback())
}
