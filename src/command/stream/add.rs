//! XADD and XTRIM: entries come, and the oldest go.
//!
//! Redis: an XADD or XTRIM without `~` that removes millions of entries frees them at once.

use super::{NewId, now_unix_ms, parse_strict_id, reply_id};
use crate::command::dispatch::args::Args;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::stream::{ChunkLimit, Exactness, Id, References, Stream, TEXT_MAX, Trim};

/// The commands that trim.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "xadd",
        arity: -5,
        flags: flag::WRITE | flag::DENYOOM | flag::FAST | flag::OWN_EFFECT,
        categories: category::WRITE | category::STREAM | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::UPDATE)],
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(1), and O(N) for N entries that are trimmed",
        summary: "Adds an entry to a stream, and creates the stream if there is none.",
        args: &[
            Arg::key("key"),
            Arg::word("nomkstream", "NOMKSTREAM")
                .optional()
                .since("6.2.0"),
            Arg::one_of(
                "condition",
                &[
                    Arg::word("keepref", "KEEPREF"),
                    Arg::word("delref", "DELREF"),
                    Arg::word("acked", "ACKED"),
                ],
            )
            .optional(),
            Arg::block(
                "trim",
                &[
                    Arg::one_of(
                        "strategy",
                        &[
                            Arg::word("maxlen", "MAXLEN"),
                            Arg::word("minid", "MINID").since("6.2.0"),
                        ],
                    ),
                    Arg::one_of(
                        "operator",
                        &[Arg::word("equal", "="), Arg::word("approximately", "~")],
                    )
                    .optional(),
                    Arg::new("threshold", ArgKind::String),
                    Arg::new("count", ArgKind::Integer)
                        .token("LIMIT")
                        .optional()
                        .since("6.2.0"),
                ],
            )
            .optional(),
            Arg::one_of(
                "id-selector",
                &[Arg::word("auto-id", "*"), Arg::new("id", ArgKind::String)],
            ),
            Arg::block(
                "data",
                &[
                    Arg::new("field", ArgKind::String),
                    Arg::new("value", ArgKind::String),
                ],
            )
            .multiple(),
        ],
        subcommands: &[],
        handler: Data(xadd),
    },
    Row {
        name: "xtrim",
        arity: -4,
        flags: flag::WRITE | flag::LONG | flag::OWN_EFFECT,
        categories: category::WRITE | category::STREAM | category::SLOW,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::DELETE)],
        group: Group::Stream,
        since: "5.0.0",
        complexity: "O(N) with N the number of entries removed",
        summary: "Removes the oldest entries of a stream.",
        args: &[
            Arg::key("key"),
            Arg::block(
                "trim",
                &[
                    Arg::one_of(
                        "strategy",
                        &[
                            Arg::word("maxlen", "MAXLEN"),
                            Arg::word("minid", "MINID").since("6.2.0"),
                        ],
                    ),
                    Arg::one_of(
                        "operator",
                        &[Arg::word("equal", "="), Arg::word("approximately", "~")],
                    )
                    .optional(),
                    Arg::new("threshold", ArgKind::String),
                    Arg::new("count", ArgKind::Integer)
                        .token("LIMIT")
                        .optional()
                        .since("6.2.0"),
                    Arg::one_of(
                        "condition",
                        &[
                            Arg::word("keepref", "KEEPREF"),
                            Arg::word("delref", "DELREF"),
                            Arg::word("acked", "ACKED"),
                        ],
                    )
                    .optional(),
                ],
            ),
        ],
        subcommands: &[],
        handler: Data(xtrim),
    },
];

/// An entry has no more bytes: places in a chunk are numbers of 32 bits.
const ENTRY_BYTES_MAX: usize = 1 << 30;

/// So many entries XADD and XTRIM remove at once at most, if they are free to leave more.
const LIMIT_MAX: u64 = 1_000_000;

/// So many chunks' entries they remove then, if nothing is said.
const LIMIT_CHUNKS: u64 = 100;

/// So many entries that is where chunks have no limit.
const LIMIT_UNLIMITED: u64 = 10_000;

/// What XADD and XTRIM were asked for.
struct Options {
    trim: Option<(Trim, Exactness)>,
    references: Option<References>,
    makes_stream: bool,
    /// Index of the id of XADD.
    id_at: usize,
}

/// Whose options they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Add,
    Trim,
}

impl Options {
    fn parse(args: Args<'_>, of: Of, chunks: ChunkLimit) -> Result<Options, CommandError> {
        let (mut trim, mut limit, mut is_approximate) = (None, None, false);
        let (mut makes_stream, mut references) = (true, None);
        let mut i = 2;
        while i < args.len() {
            let more = args.len() - 1 - i;
            if of == Of::Add && args.get(i) == b"*" {
                break;
            }
            let is_by_len = args.is(i, "maxlen");
            if more > 0 && (is_by_len || args.is(i, "minid")) {
                if trim.is_some() {
                    return Err(CommandError::text(
                        "ERR syntax error, MAXLEN and MINID options at the same time are not \
                         compatible",
                    ));
                }
                is_approximate = more > 1 && args.get(i + 1) == b"~";
                i += usize::from(is_approximate || more > 1 && args.get(i + 1) == b"=") + 1;
                trim = Some(threshold(args, i, is_by_len)?);
            } else if more > 0 && args.is(i, "limit") {
                let number = u64::try_from(args.integer(i + 1)?);
                let text = "ERR The LIMIT argument must be >= 0.";
                limit = Some(number.map_err(|_| CommandError::text(text))?);
                i += 1;
            } else if let Some(choice) = choice_at(args, i).filter(|_| references.is_none()) {
                references = Some(choice);
            } else if of == Of::Add && args.is(i, "nomkstream") {
                makes_stream = false;
            } else if of == Of::Add {
                break;
            } else {
                return Err(CommandError::Syntax);
            }
            i += 1;
        }
        if of == Of::Add && i < args.len() {
            NewId::parse(args.get(i))?;
        }
        let exactness = exactness(trim, limit, is_approximate, chunks)?;
        if of == Of::Trim && trim.is_none() {
            return Err(CommandError::text(
                "ERR syntax error, XTRIM must be called with a trimming strategy",
            ));
        }
        Ok(Options {
            trim: trim.map(|trim| (trim, exactness)),
            references,
            makes_stream,
            id_at: i,
        })
    }
}

/// The word of a choice about what is pending.
fn word(choice: References) -> &'static str {
    match choice {
        References::Keep => "KEEPREF",
        References::Delete => "DELREF",
        References::Acknowledged => "ACKED",
    }
}

/// The same as an argument of an effect, if it was made.
fn choice_of(choice: Option<References>) -> Option<&'static [u8]> {
    choice.map(|choice| word(choice).as_bytes())
}

/// The choice about what is pending whose word is at an index.
pub(super) fn choice_at(args: Args<'_>, index: usize) -> Option<References> {
    let choices = [
        References::Keep,
        References::Delete,
        References::Acknowledged,
    ];
    choices
        .into_iter()
        .find(|choice| args.is(index, word(*choice)))
}

fn threshold(args: Args<'_>, index: usize, is_by_len: bool) -> Result<Trim, CommandError> {
    if !is_by_len {
        return parse_strict_id(args.get(index), 0).map(Trim::MinId);
    }
    let len = u64::try_from(args.integer(index)?);
    let text = "ERR The MAXLEN argument must be >= 0.";
    len.map(Trim::MaxLen).map_err(|_| CommandError::text(text))
}

fn exactness(
    trim: Option<Trim>,
    limit: Option<u64>,
    is_approximate: bool,
    chunks: ChunkLimit,
) -> Result<Exactness, CommandError> {
    match limit {
        Some(_) if trim.is_none() => Err(CommandError::text(
            "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
        )),
        Some(_) if !is_approximate => Err(CommandError::text(
            "ERR syntax error, LIMIT cannot be used without the special ~ option",
        )),
        Some(0) => Ok(Exactness::Chunks(None)),
        Some(limit) => Ok(Exactness::Chunks(Some(limit))),
        None if is_approximate => {
            let entries = u64::try_from(chunks.entries_max).ok();
            let limit = entries.filter(|_| chunks.entries_max < usize::MAX);
            let limit = limit.map_or(LIMIT_UNLIMITED, |max| max.saturating_mul(LIMIT_CHUNKS));
            Ok(Exactness::Chunks(Some(limit.min(LIMIT_MAX))))
        }
        None => Ok(Exactness::Exact),
    }
}

/// The id of an entry to be added to a stream.
fn choose_id(new: NewId, stream: &Stream, now_ms: i64) -> Result<Id, CommandError> {
    let last = stream.facts().last_id;
    if last == Id::MAX {
        return Err(CommandError::text(
            "ERR The stream has exhausted the last possible ID, unable to add more items",
        ));
    }
    let now = Id {
        ms: u64::try_from(now_ms).unwrap_or(0),
        seq: 0,
    };
    let id = match new {
        NewId::Auto if now.ms > last.ms => Some(now),
        NewId::Auto => last.next(),
        NewId::At(ms) if ms == last.ms => {
            let seq = last.seq.checked_add(1);
            seq.map(|seq| Id { ms, seq })
        }
        NewId::At(ms) => Some(Id { ms, seq: 0 }),
        NewId::Given(id) => Some(id),
    };
    id.filter(|id| *id > last).ok_or(CommandError::text(
        "ERR The ID specified in XADD is equal or smaller than the target stream top item",
    ))
}

fn xadd(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let options = Options::parse(args, Of::Add, live.stream_chunk_limit())?;
    let first = options.id_at + 1;
    let strings = args.len().saturating_sub(first);
    if strings < 2 || !strings.is_multiple_of(2) {
        return Err(CommandError::WrongArity("xadd".to_owned()));
    }
    let references = options.references.unwrap_or_default();
    let new = NewId::parse(args.get(options.id_at))?;
    if matches!(new, NewId::Given(Id::MIN)) {
        return Err(CommandError::text(
            "ERR The ID specified in XADD must be greater than 0-0",
        ));
    }
    let now_ms = now_unix_ms(live);
    if !options.makes_stream && live.stream_mut(key)?.is_none() {
        reply.null();
        return Ok(());
    }
    if args.from(first).map(<[u8]>::len).sum::<usize>() > ENTRY_BYTES_MAX {
        return Err(CommandError::text(
            "ERR Elements are too large to be stored",
        ));
    }
    // A stream that is made here takes any id, so none is left behind by an error.
    let mut stream = live.stream_or_new(key)?;
    let id = choose_id(new, stream.view(), now_ms)?;
    stream.push(id, strings / 2, &|index: usize| args.get(first + index));
    let trimmed = match options.trim {
        Some((trim, exactness)) => stream.trim_as(trim, exactness, references),
        None => 0,
    };
    let len = stream.view().len();
    live.changed(Event::XADD, key);
    if trimmed > 0 {
        live.also(Event::XTRIM, key);
    }
    if live.is_followed() {
        let (len, mut text) = (len.to_string(), [0; TEXT_MAX]);
        let trim = [b"MAXLEN".as_slice(), b"=", len.as_bytes()];
        let trim = trim.into_iter().take(3 * usize::from(trimmed > 0));
        let choice = choice_of(options.references);
        let id = id.text(&mut text);
        let entry = std::iter::once(id).chain(args.from(first));
        let command = [b"XADD".as_slice(), key].into_iter();
        live.effect(command.chain(choice).chain(trim).chain(entry));
    }
    reply_id(reply, id);
    Ok(())
}

fn xtrim(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    let options = Options::parse(args, Of::Trim, live.stream_chunk_limit())?;
    let Some(((trim, exactness), mut stream)) = options.trim.zip(live.stream_mut(key)?) else {
        reply.integer(0);
        return Ok(());
    };
    let references = options.references.unwrap_or_default();
    let trimmed = stream.trim_as(trim, exactness, references);
    let len = stream.view().len();
    if trimmed > 0 {
        live.changed_by(Event::XTRIM, key, trimmed);
        if live.is_followed() {
            let len = len.to_string();
            let command = [b"XTRIM".as_slice(), key, b"MAXLEN", b"=", len.as_bytes()];
            live.effect(command.into_iter().chain(choice_of(options.references)));
        }
    }
    reply.integer(trimmed as i64);
    Ok(())
}
