//! SORT and SORT_RO: the elements of a list, a set or a sorted set, in an order of their own or of
//! what other keys hold.
//!
//! Each element has a weight: itself or, with BY, what the key or field named after it holds; a
//! number or, with ALPHA, bytes. All weights are known before anything is answered or stored, so
//! that one which is no number is the only reply. A BY pattern without a star gives no order at
//! all: elements are taken as they lie.
//!
//! Redis: ALPHA compares by the locale it was started in; here by bytes, as in the C locale.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use crate::command::dispatch::args::Args;
use crate::command::reply_string;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::store::collection::list_of;
use crate::store::effect::ITEMS_PER_EFFECT;
use crate::value::list::ListRef;
use crate::value::number::parse_f64_saturating;
use crate::value::packed::End;
use crate::value::set::{SetMember, SetRef};
use crate::value::zset::{Direction, ZsetRef};
use crate::value::{Kind, StringRef};

/// The commands that sort.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "sort",
        arity: -2,
        flags: flag::WRITE | flag::DENYOOM | flag::MOVABLEKEYS | flag::LONG | flag::OWN_EFFECT,
        categories: category::WRITE
            | category::SET
            | category::SORTEDSET
            | category::LIST
            | category::SLOW
            | category::DANGEROUS,
        keys: &[
            KeySpec::at(1, key_flag::RO | key_flag::ACCESS),
            KeySpec::unknown(key_flag::RO | key_flag::ACCESS),
            KeySpec::unknown(key_flag::OW | key_flag::UPDATE).found_by(destination),
        ],
        group: Group::Generic,
        since: "1.0.0",
        complexity: "O(N*log(N)+M) with N the number of elements and M the number returned",
        summary: "Sorts the elements of a list, set or sorted set, and returns or stores them.",
        args: &[
            Arg::key("key"),
            BY,
            LIMIT,
            GET,
            ORDER,
            ALPHA,
            Arg::new("destination", ArgKind::Key)
                .key_spec(2)
                .token("STORE")
                .optional(),
        ],
        subcommands: &[],
        handler: Data(sort),
    },
    Row {
        name: "sort_ro",
        arity: -2,
        flags: flag::READONLY | flag::MOVABLEKEYS | flag::LONG,
        categories: category::READ
            | category::SET
            | category::SORTEDSET
            | category::LIST
            | category::SLOW
            | category::DANGEROUS,
        keys: &[
            KeySpec::at(1, key_flag::RO | key_flag::ACCESS),
            KeySpec::unknown(key_flag::RO | key_flag::ACCESS),
        ],
        group: Group::Generic,
        since: "7.0.0",
        complexity: "O(N*log(N)+M) with N the number of elements and M the number returned",
        summary: "Returns the elements of a list, set or sorted set in sorted order.",
        args: &[Arg::key("key"), BY, LIMIT, GET, ORDER, ALPHA],
        subcommands: &[],
        handler: Data(sort_ro),
    },
];

const BY: Arg = Arg::new("by-pattern", ArgKind::Pattern)
    .display("pattern")
    .key_spec(1)
    .token("BY")
    .optional();
const LIMIT: Arg = Arg::block(
    "limit",
    &[
        Arg::new("offset", ArgKind::Integer),
        Arg::new("count", ArgKind::Integer),
    ],
)
.token("LIMIT")
.optional();
const GET: Arg = Arg {
    multiple_token: true,
    ..Arg::new("get-pattern", ArgKind::Pattern)
        .display("pattern")
        .key_spec(1)
        .token("GET")
        .optional()
        .multiple()
};
const ORDER: Arg = Arg::one_of(
    "order",
    &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")],
)
.optional();
const ALPHA: Arg = Arg::word("sorting", "ALPHA").optional();

/// A name with a star in it, for which an element is put: of a key, or of a field of a hash.
struct Pattern<'a> {
    before: &'a [u8],
    after: &'a [u8],
    field: Option<&'a [u8]>,
}

impl<'a> Pattern<'a> {
    /// None if the text has no star.
    fn parse(text: &'a [u8]) -> Option<Pattern<'a>> {
        let star = memchr::memchr(b'*', text)?;
        let (before, after) = (&text[..star], &text[star + 1..]);
        // An arrow at the very end is part of the key's name.
        let arrow = memchr::memmem::find(after, b"->").filter(|at| at + 2 < after.len());
        let (after, field) = match arrow {
            Some(at) => (&after[..at], Some(&after[at + 2..])),
            None => (after, None),
        };
        Some(Pattern {
            before,
            after,
            field,
        })
    }

    /// The string there is for an element. Keys of other types count as missing.
    fn find<'l>(&self, live: &'l Live<'_>, element: &[u8]) -> Option<StringRef<'l>> {
        let key = [self.before, element, self.after].concat();
        match self.field {
            Some(field) => live.hash(&key).ok()??.get(field),
            None => live.string(&key).ok()?,
        }
    }
}

/// What is answered for an element.
enum Get<'a> {
    Element,
    Found(Pattern<'a>),
    Nothing,
}

impl<'a> Get<'a> {
    fn parse(text: &'a [u8]) -> Get<'a> {
        if text == b"#" {
            return Get::Element;
        }
        Pattern::parse(text).map_or(Get::Nothing, Get::Found)
    }

    fn find<'l>(&self, live: &'l Live<'_>, element: &'l [u8]) -> Option<StringRef<'l>> {
        match self {
            Get::Element => Some(StringRef::Short(element)),
            Get::Found(pattern) => pattern.find(live, element),
            Get::Nothing => None,
        }
    }
}

/// What gives the order.
enum By<'a> {
    Element,
    Found(Pattern<'a>),
    Nothing,
}

/// What SORT was asked for.
struct Options<'a> {
    by: By<'a>,
    gets: Vec<Get<'a>>,
    offset: i64,
    count: i64,
    descends: bool,
    is_alpha: bool,
    destination: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>, may_store: bool) -> Result<Options<'a>, CommandError> {
        let mut options = Options {
            by: By::Element,
            gets: Vec::new(),
            offset: 0,
            count: -1,
            descends: false,
            is_alpha: false,
            destination: None,
        };
        let mut i = 2;
        while i < args.len() {
            let value = args.at(i + 1);
            match (args.get(i).to_ascii_lowercase().as_slice(), value) {
                (b"asc", _) => options.descends = false,
                (b"desc", _) => options.descends = true,
                (b"alpha", _) => options.is_alpha = true,
                (b"limit", Some(_)) if i + 2 < args.len() => {
                    options.offset = args.integer(i + 1)?;
                    options.count = args.integer(i + 2)?;
                }
                (b"store", Some(key)) if may_store => options.destination = Some(key),
                (b"by", Some(text)) => {
                    options.by = Pattern::parse(text).map_or(By::Nothing, By::Found);
                }
                (b"get", Some(text)) => options.gets.push(Get::parse(text)),
                _ => return Err(CommandError::Syntax),
            }
            i += values_of(args.get(i)) + 1;
        }
        if options.gets.is_empty() {
            options.gets.push(Get::Element);
        }
        Ok(options)
    }

    /// The places LIMIT leaves of `len`.
    fn range(&self, len: usize) -> Range<usize> {
        let bounded = |number: i64| usize::try_from(number).map_or(len, |n| n.min(len));
        let start = bounded(self.offset.max(0));
        let count = bounded(self.count);
        start..len.min(start + count)
    }
}

/// How many arguments belong to an option.
fn values_of(option: &[u8]) -> usize {
    match option.to_ascii_lowercase().as_slice() {
        b"limit" => 2,
        b"store" | b"by" | b"get" => 1,
        _ => 0,
    }
}

/// Where the key stands that a SORT beginning at argument `start` would store to; the last STORE
/// counts.
fn destination(args: Args<'_>, start: usize) -> Option<usize> {
    let mut found = None;
    let mut i = start + 2;
    while i < args.len() {
        let is_store = args.is(i, "store");
        if is_store && i + 1 < args.len() {
            found = Some(i + 1);
        }
        // COMMAND GETKEYS goes on with the destination itself, which may be named like an option.
        i += if is_store {
            1
        } else {
            values_of(args.get(i)) + 1
        };
    }
    found
}

/// What is sorted.
enum Source<'a> {
    Missing,
    List(ListRef<'a>),
    Set(SetRef<'a>),
    Zset(ZsetRef<'a>),
}

type Element<'a> = Cow<'a, [u8]>;

impl<'a> Source<'a> {
    fn at(live: &'a Live<'_>, key: &[u8]) -> Result<Source<'a>, CommandError> {
        let Some(slot) = live.get(key) else {
            return Ok(Source::Missing);
        };
        match slot.kind() {
            Kind::List => list_of(slot).map(Source::List),
            Kind::Set => live.set_in(key, slot).map(Source::Set),
            Kind::Zset => live.zset_in(slot).map(Source::Zset),
            Kind::String | Kind::Hash | Kind::Stream => Err(CommandError::WrongType),
        }
    }

    fn len(&self) -> usize {
        match self {
            Source::Missing => 0,
            Source::List(list) => list.len(),
            Source::Set(set) => set.len(),
            Source::Zset(zset) => zset.len(),
        }
    }

    /// Elements as they lie; lists and sorted sets from the other end if `descends`.
    fn slice(&self, range: Range<usize>, descends: bool) -> Vec<Element<'a>> {
        let (start, count) = (range.start, range.len());
        match self {
            Source::Missing => Vec::new(),
            Source::List(list) if descends => {
                let items = list.range(list.len() - range.end, count);
                items
                    .rev()
                    .map(|item| Cow::Borrowed(item.as_bytes()))
                    .collect()
            }
            Source::List(list) => {
                let items = list.range(start, count);
                items.map(|item| Cow::Borrowed(item.as_bytes())).collect()
            }
            Source::Set(set) => set.iter().skip(start).take(count).map(element).collect(),
            Source::Zset(zset) => {
                let (rank, direction) = if descends {
                    let rank = zset.len().saturating_sub(start + 1);
                    (rank, Direction::Descending)
                } else {
                    (start, Direction::Ascending)
                };
                let members = zset.iter(rank, direction).take(count);
                members.map(|(member, _)| Cow::Borrowed(member)).collect()
            }
        }
    }
}

fn element(member: SetMember<'_>) -> Element<'_> {
    match member {
        SetMember::String(string) => Cow::Borrowed(string.as_bytes()),
        integer @ SetMember::Integer { .. } => Cow::Owned(integer.to_vec()),
    }
}

/// A weight of Redis 8: read up to a zero byte, nothing is zero, and size does not matter.
fn number(text: &[u8]) -> Result<f64, CommandError> {
    let end = memchr::memchr(0, text).unwrap_or(text.len());
    let text = &text[..end];
    let is_hex = text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'x'));
    match text {
        b"" => Some(0.0),
        _ if is_hex => None,
        _ => parse_f64_saturating(text),
    }
    .ok_or(CommandError::text(
        "ERR One or more scores can't be converted into double",
    ))
}

/// Sorts elements by weights; those of equal weight stay as they lie unless `compare` knows better.
fn by_weight<'a, W>(
    elements: Vec<Element<'a>>,
    weigh: impl Fn(&[u8]) -> Result<W, CommandError>,
    compare: impl Fn(&(W, Element<'a>), &(W, Element<'a>)) -> Ordering,
    descends: bool,
) -> Result<Vec<Element<'a>>, CommandError> {
    let mut weighed = Vec::with_capacity(elements.len());
    for element in elements {
        weighed.push((weigh(&element)?, element));
    }
    if descends {
        weighed.sort_by(|a, b| compare(b, a));
    } else {
        weighed.sort_by(compare);
    }
    Ok(weighed.into_iter().map(|(_, element)| element).collect())
}

/// Numbers, and elements where those are equal.
fn by_number(a: &(f64, Element<'_>), b: &(f64, Element<'_>)) -> Ordering {
    let by_weight = a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal);
    by_weight.then_with(|| a.1.cmp(&b.1))
}

/// The elements that LIMIT leaves, in order.
fn ordered<'a>(
    live: &'a Live<'_>,
    source: &Source<'a>,
    options: &Options<'_>,
) -> Result<Vec<Element<'a>>, CommandError> {
    let len = source.len();
    let range = options.range(len);
    let is_set = matches!(source, Source::Set(_));
    // What lies in no order would be stored in another every time, or decide what a script does.
    let must_sort = is_set && (options.destination.is_some() || live.is_for_script);
    if matches!(options.by, By::Nothing) && !must_sort {
        return Ok(source.slice(range, options.descends));
    }
    let elements = source.slice(0..len, false);
    let descends = options.descends;
    let by_element = |_: &[u8]| Ok(());
    let mut sorted = match &options.by {
        By::Found(pattern) if options.is_alpha => by_weight(
            elements,
            |element| Ok(pattern.find(live, element).map(StringRef::as_bytes)),
            |a, b| a.0.cmp(&b.0),
            descends,
        ),
        By::Found(pattern) => by_weight(
            elements,
            |element| match pattern.find(live, element) {
                Some(text) => number(text.as_bytes()),
                None => Ok(0.0),
            },
            by_number,
            descends,
        ),
        By::Element if !options.is_alpha => by_weight(elements, number, by_number, descends),
        By::Element | By::Nothing => {
            by_weight(elements, by_element, |a, b| a.1.cmp(&b.1), descends)
        }
    }?;
    sorted.truncate(range.end);
    sorted.drain(..range.start);
    Ok(sorted)
}

fn run(
    live: &mut Live<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    may_store: bool,
) -> Result<(), CommandError> {
    let options = Options::parse(args, may_store)?;
    live.settle_all_members(args.get(1));
    let source = Source::at(live, args.get(1))?;
    let elements = ordered(live, &source, &options)?;
    let found = elements
        .iter()
        .flat_map(|element| options.gets.iter().map(|get| get.find(live, element)));
    let Some(destination) = options.destination else {
        reply.array(elements.len() * options.gets.len());
        found.for_each(|string| reply_string(reply, string));
        return Ok(());
    };
    // The destination may be among the sources, so nothing borrowed from them may last.
    let items: Vec<Vec<u8>> = found
        .map(|string| string.map_or(Vec::new(), |string| string.as_bytes().to_vec()))
        .collect();
    store(live, destination, &items)?;
    reply.integer(items.len() as i64);
    Ok(())
}

/// Makes the destination a list of these items, or removes it if there are none.
fn store(live: &mut Live<'_>, key: &[u8], items: &[Vec<u8>]) -> Result<(), CommandError> {
    if items.is_empty() {
        if live.remove(key) {
            live.effect([b"DEL".as_slice(), key]);
            live.changed(Event::DEL, key);
        }
        return Ok(());
    }
    live.effect([b"DEL".as_slice(), key]);
    for items in items.chunks(ITEMS_PER_EFFECT) {
        let head = [b"RPUSH".as_slice(), key];
        live.effect(head.into_iter().chain(items.iter().map(Vec::as_slice)));
    }
    live.vacate(key, Kind::List);
    let mut list = live.list_or_new(key)?;
    for item in items {
        list.push(End::Back, item);
    }
    live.changed_by(Event::SORT_STORE, key, items.len());
    Ok(())
}

fn sort(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    run(live, args, reply, true)
}

fn sort_ro(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    run(live, args, reply, false)
}
