//! Strings compared: with a value or digest the client gives (DELEX, conditions of SET), or with
//! each other (LCS).
//!
//! A digest is XXH3 of 64 bits without a seed, so that clients can work it out for themselves; it
//! tells changed values from unchanged ones and protects against nothing.

use xxhash_rust::xxh3::xxh3_64;

use crate::command::dispatch::args::Args;
use crate::command::table::row::Handler::Data;
use crate::command::table::row::*;
use crate::resp::error::CommandError;
use crate::resp::reply::Reply;
use crate::store::Live;
use crate::store::change::Event;
use crate::value::StringRef;

/// The commands that compare strings.
pub const COMMANDS: &[Row] = &[
    Row {
        name: "lcs",
        arity: -3,
        flags: flag::READONLY | flag::LONG,
        categories: category::READ | category::STRING | category::SLOW,
        keys: &[KeySpec {
            last: 1,
            ..KeySpec::at(1, key_flag::RO | key_flag::ACCESS)
        }],
        group: Group::String,
        since: "7.0.0",
        complexity: "O(N*M) with N and M the lengths of the two strings",
        summary: "Returns the longest common subsequence of two strings.",
        args: &[
            Arg::key("key1"),
            Arg::key("key2"),
            Arg::word("len", "LEN").optional(),
            Arg::word("idx", "IDX").optional(),
            Arg::new("min-match-len", ArgKind::Integer)
                .token("MINMATCHLEN")
                .optional(),
            Arg::word("withmatchlen", "WITHMATCHLEN").optional(),
        ],
        subcommands: &[],
        handler: Data(lcs),
    },
    Row {
        name: "digest",
        arity: 2,
        flags: flag::READONLY | flag::FAST | flag::LONG,
        categories: category::READ | category::STRING | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RO | key_flag::ACCESS)],
        group: Group::String,
        since: "8.4.0",
        complexity: "O(N) with N the length of the string",
        summary: "Returns the XXH3 digest of the string at a key.",
        args: &[Arg::key("key")],
        subcommands: &[],
        handler: Data(digest),
    },
    Row {
        name: "delex",
        arity: -2,
        flags: flag::WRITE | flag::FAST,
        categories: category::WRITE | category::STRING | category::FAST,
        keys: &[KeySpec::at(1, key_flag::RW | key_flag::DELETE).flags_by(delex_flags)],
        group: Group::String,
        since: "8.4.0",
        complexity: "O(1) with IFEQ and IFNE; O(N) with a digest, N being the string's length",
        summary: "Deletes a key, if wanted only when its string or digest compares as given.",
        args: &[
            Arg::key("key"),
            Arg::one_of("condition", DELEX_CONDITION).optional(),
        ],
        subcommands: &[],
        handler: Data(delex),
    },
];

/// What DELEX does with its key: without a condition it does not read the value.
fn delex_flags(args: Args<'_>, start: usize) -> u16 {
    match args.len() - start {
        2 => key_flag::RM | key_flag::DELETE,
        _ => key_flag::RW | key_flag::DELETE,
    }
}

/// When DELEX removes the key.
const DELEX_CONDITION: &[Arg] = &[
    Arg::new("ifeq-value", ArgKind::String).token("IFEQ"),
    Arg::new("ifne-value", ArgKind::String).token("IFNE"),
    Arg::new("ifdeq-digest", ArgKind::String).token("IFDEQ"),
    Arg::new("ifdne-digest", ArgKind::String).token("IFDNE"),
];

/// Hexadecimal digits of a digest.
const DIGEST_LEN: usize = 16;

fn digest_of(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

/// A condition on the string at a key: equal to, or different from, a value or a digest.
#[derive(Clone, Copy)]
pub struct Comparison<'a> {
    with: &'a [u8],
    is_digest: bool,
    wants_equal: bool,
}

impl<'a> Comparison<'a> {
    /// The condition at argument `i`, if it is one and what to compare with follows.
    pub fn parse(args: Args<'a>, i: usize) -> Option<Comparison<'a>> {
        let (is_digest, wants_equal) = match args.get(i).to_ascii_lowercase().as_slice() {
            b"ifeq" => (false, true),
            b"ifne" => (false, false),
            b"ifdeq" => (true, true),
            b"ifdne" => (true, false),
            _ => return None,
        };
        args.at(i + 1).map(|with| Comparison {
            with,
            is_digest,
            wants_equal,
        })
    }

    /// Whether it holds; a missing string differs from every other.
    ///
    /// # Errors
    /// If what to compare with has not the length of a digest. A missing string is compared with
    /// nothing, so nothing is found out about it then, as in Redis.
    pub fn holds(&self, string: Option<StringRef<'_>>) -> Result<bool, CommandError> {
        let Some(string) = string.map(StringRef::as_bytes) else {
            return Ok(!self.wants_equal);
        };
        if !self.is_digest {
            return Ok((string == self.with) == self.wants_equal);
        }
        if self.with.len() != DIGEST_LEN {
            return Err(CommandError::text(
                "ERR must be exactly 16 hexadecimal characters",
            ));
        }
        let is_equal = digest_of(string).as_bytes().eq_ignore_ascii_case(self.with);
        Ok(is_equal == self.wants_equal)
    }
}

fn digest(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    match live.string(args.get(1))? {
        Some(string) => reply.bulk(digest_of(string.as_bytes()).as_bytes()),
        None => reply.null(),
    }
    Ok(())
}

fn delex(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let key = args.get(1);
    if args.len() != 2 && args.len() != 4 {
        return Err(CommandError::WrongArity("delex".to_owned()));
    }
    let removes = live.peek(key).is_some() && (args.len() == 2 || allows_removal(live, args)?);
    if removes {
        live.remove(key);
        live.changed(Event::DEL, key);
    }
    reply.integer(i64::from(removes));
    Ok(())
}

/// Whether DELEX's condition holds for a key that is there.
fn allows_removal(live: &Live<'_>, args: Args<'_>) -> Result<bool, CommandError> {
    let string = live.peek_string(args.get(1)).map_err(|_| {
        CommandError::text("ERR Key should be of string type if conditions are specified")
    })?;
    let comparison = Comparison::parse(args, 2).ok_or(CommandError::text(
        "ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE",
    ))?;
    comparison.holds(string)
}

/// What LCS answers.
#[derive(Default)]
struct LcsOptions {
    only_len: bool,
    matches: bool,
    match_len_min: usize,
    with_match_len: bool,
}

impl LcsOptions {
    fn parse(args: Args<'_>) -> Result<LcsOptions, CommandError> {
        let mut options = LcsOptions::default();
        let mut i = 3;
        while i < args.len() {
            match args.get(i).to_ascii_lowercase().as_slice() {
                b"len" => options.only_len = true,
                b"idx" => options.matches = true,
                b"withmatchlen" => options.with_match_len = true,
                b"minmatchlen" if i + 1 < args.len() => {
                    i += 1;
                    options.match_len_min = usize::try_from(args.integer(i)?).unwrap_or(0);
                }
                _ => return Err(CommandError::Syntax),
            }
            i += 1;
        }
        if options.only_len && options.matches {
            return Err(CommandError::text(
                "ERR If you want both the length and indexes, please just use IDX.",
            ));
        }
        Ok(options)
    }
}

/// Redis' cells are numbers of four bytes, and it allows as many as fit in the longest string.
/// Ours are bits, but as many of them bound the time it takes.
const CELL_BYTES: usize = 4;

/// The way back through the table of the longest common sequences of all prefixes.
///
/// Only two rows of lengths are kept while the table is filled. Of each cell there remains a bit:
/// whether dropping the first string's last byte leaves more than dropping the second's.
struct Way {
    len: u32,
    columns: usize,
    up: Vec<u64>,
}

impl Way {
    fn find(a: &[u8], b: &[u8], bytes_max: usize) -> Result<Way, CommandError> {
        let columns = b.len() + 1;
        let cells = (a.len() + 1).saturating_mul(columns);
        if cells.saturating_mul(CELL_BYTES) > bytes_max {
            return Err(CommandError::text(
                "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
            ));
        }
        let mut way = Way {
            len: 0,
            columns,
            up: vec![0; cells.div_ceil(64)],
        };
        let mut above = vec![0u32; columns];
        let mut row = vec![0u32; columns];
        for (i, byte) in a.iter().enumerate() {
            for j in 0..b.len() {
                row[j + 1] = if *byte == b[j] {
                    above[j] + 1
                } else if above[j + 1] > row[j] {
                    let cell = (i + 1) * columns + j + 1;
                    way.up[cell / 64] |= 1 << (cell % 64);
                    above[j + 1]
                } else {
                    row[j]
                };
            }
            std::mem::swap(&mut above, &mut row);
        }
        way.len = above[b.len()];
        Ok(way)
    }

    fn goes_up(&self, i: usize, j: usize) -> bool {
        let cell = i * self.columns + j;
        self.up[cell / 64] >> (cell % 64) & 1 == 1
    }

    /// Calls `found` with the indexes of each byte in common, from the last to the first.
    fn walk(&self, a: &[u8], b: &[u8], mut found: impl FnMut(usize, usize)) {
        let (mut i, mut j) = (a.len(), b.len());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                found(i, j);
            } else if self.goes_up(i, j) {
                i -= 1;
            } else {
                j -= 1;
            }
        }
    }
}

/// Bytes in a row that two strings have in common: where they start in each, and how many.
struct Match {
    a: usize,
    b: usize,
    len: usize,
}

/// The matches of at least `len_min` bytes, from the last to the first.
fn matches(way: &Way, a: &[u8], b: &[u8], len_min: usize) -> Vec<Match> {
    let mut found: Vec<Match> = Vec::new();
    way.walk(a, b, |i, j| match found.last_mut() {
        Some(last) if last.a == i + 1 && last.b == j + 1 => {
            *last = Match {
                a: i,
                b: j,
                len: last.len + 1,
            };
        }
        _ => {
            if found.last().is_some_and(|last| last.len < len_min) {
                found.pop();
            }
            found.push(Match { a: i, b: j, len: 1 });
        }
    });
    if found.last().is_some_and(|last| last.len < len_min) {
        found.pop();
    }
    found
}

fn reply_matches(reply: &mut Reply<'_>, found: &[Match], len: u32, with_match_len: bool) {
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(found.len());
    for part in found {
        reply.array(2 + usize::from(with_match_len));
        for start in [part.a, part.b] {
            reply.array(2);
            reply.integer(start as i64);
            reply.integer((start + part.len - 1) as i64);
        }
        if with_match_len {
            reply.integer(part.len as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(len.into());
}

fn lcs(live: &mut Live<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    // Both keys are read before either is judged, so both count as hits or misses.
    let (a, b) = (live.string(args.get(1)), live.string(args.get(2)));
    let (Ok(a), Ok(b)) = (a, b) else {
        return Err(CommandError::text(
            "ERR The specified keys must contain string values",
        ));
    };
    let options = LcsOptions::parse(args)?;
    let a = a.map_or(b"".as_slice(), StringRef::as_bytes);
    let b = b.map_or(b"".as_slice(), StringRef::as_bytes);
    let way = Way::find(a, b, live.string_bytes_max())?;
    if options.only_len {
        reply.integer(way.len.into());
    } else if options.matches {
        let found = matches(&way, a, b, options.match_len_min);
        reply_matches(reply, &found, way.len, options.with_match_len);
    } else {
        let mut common = Vec::with_capacity(way.len as usize);
        way.walk(a, b, |i, _| common.push(a[i]));
        common.reverse();
        reply.bulk(&common);
    }
    Ok(())
}
