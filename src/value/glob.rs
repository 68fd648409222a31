//! Patterns over keys, channels and settings: `*`, `?`, `[a-z]`, `[^a-z]`, `\x`.
//!
//! Every part of a pattern but `*` takes exactly one byte. So when a part does not match, only the
//! last `*` before it needs to take one byte more: whatever an earlier one could gain by giving up
//! its place, the last one reaches too. That bounds the work by the product of the two lengths,
//! where trying all stars is exponential in their number.
//!
//! What stands between two stars, a *segment*, has a length that is known, which keeps the work far
//! below that product:
//!
//! * Behind the last star there is one place only where the rest can match: the end of the text.
//! * A segment of plain text is searched for in linear time.
//! * A long segment of other parts is searched for with one bit for each part, which is set while
//!   the part and all before it match the bytes just read (Baeza-Yates and Gonnet, "A new approach
//!   to text searching", 1992): 64 parts in one step.
//! * A long class is put into a set of bytes once, so that its test costs the same however it is
//!   written.
//!
//! So a text of n bytes takes at most n times 64 steps, or n times a 64th of the longest segment.
//!
//! Odd patterns have a meaning too, the one they have in Redis: a class without `]` ends with the
//! pattern, a range may be written from high to low, a single backslash at the end is itself.

use memchr::memmem;

/// Classes of more bytes than this are put into sets. A set with its place takes about as much
/// memory, so that a prepared pattern takes little more than twice its own.
const CLASS_BYTES_SHORT: usize = 32;
/// Segments of fewer parts are tried at each place.
const SEGMENT_PARTS_SHORT: usize = 64;
/// Segments of more parts are tried at each place too: their bits, a row for each byte that occurs
/// in the text, would take more than 32 MiB.
const SEGMENT_PARTS_LONG: usize = 1 << 20;

/// Whether the whole text matches the pattern; `nocase` ignores the case of ASCII letters.
pub fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    Glob::new(pattern, nocase).matches(text)
}

/// A pattern that is ready to be matched with many texts.
#[derive(Clone, Debug)]
pub struct Glob<'p> {
    pattern: &'p [u8],
    plan: Plan,
}

impl<'p> Glob<'p> {
    /// Prepares a pattern; `nocase` ignores the case of ASCII letters.
    pub fn new(pattern: &'p [u8], nocase: bool) -> Glob<'p> {
        let plan = Plan::of(pattern, nocase);
        Glob { pattern, plan }
    }

    /// Whether the whole text matches.
    ///
    /// Redis: a `*` does not match the empty text unless something else stands before it (KEYS
    /// makes an exception for the pattern `*`); here it always does.
    pub fn matches(&self, text: &[u8]) -> bool {
        self.plan.matches(self.pattern, text)
    }
}

/// What was found out about a pattern, for whoever keeps the pattern itself.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Long classes in the order in which they stand in the pattern.
    classes: Box<[Class]>,
    /// Long segments between two stars, in order.
    segments: Box<[Stretch]>,
    /// What stands behind the last star, if there is one.
    tail: Option<Stretch>,
    /// Parts that take a byte, in all.
    parts: usize,
    nocase: bool,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    /// Where its `[` is.
    start: usize,
    /// Behind it.
    end: usize,
    set: ByteSet,
}

/// A place between two parts of the pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Gap {
    at: usize,
    /// Long classes before that.
    class: usize,
}

impl Gap {
    /// Behind a part of one byte.
    fn next(self) -> Gap {
        Gap {
            at: self.at + 1,
            ..self
        }
    }
}

/// Parts without a star among them.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    start: Gap,
    /// Behind its last byte.
    end: Gap,
    parts: usize,
    /// Every part is a byte that stands for itself.
    is_plain: bool,
}

/// A part of a pattern that takes one byte.
enum Part<'p> {
    Any,
    Literal(u8),
    Class(&'p ByteSet),
    /// A short class, whose `[` is just before this offset.
    ShortClass(usize),
}

impl Plan {
    /// Prepares a pattern; `nocase` ignores the case of ASCII letters.
    pub fn of(pattern: &[u8], nocase: bool) -> Plan {
        let classes = long_classes(pattern, nocase);
        let mut plan = Plan {
            classes,
            nocase,
            ..Plan::default()
        };
        let mut segments = Vec::new();
        let mut place = Gap::default();
        let mut is_first = true;
        loop {
            let segment = plan.segment_at(pattern, place);
            plan.parts += segment.parts;
            if segment.end.at == pattern.len() {
                plan.tail = (!is_first).then_some(segment);
                break;
            }
            let is_long = (SEGMENT_PARTS_SHORT..=SEGMENT_PARTS_LONG).contains(&segment.parts);
            if is_long && !is_first {
                segments.push(segment);
            }
            is_first = false;
            place = segment.end;
            place.at += 1;
        }
        plan.segments = segments.into_boxed_slice();
        plan
    }

    /// The segment that begins at a place.
    fn segment_at(&self, pattern: &[u8], start: Gap) -> Stretch {
        let (mut end, mut parts, mut is_plain) = (start, 0, !self.nocase);
        while pattern.get(end.at).is_some_and(|&byte| byte != b'*') {
            is_plain &= !b"?[\\".contains(&pattern[end.at]);
            end = self.part_at(pattern, end).1;
            parts += 1;
        }
        Stretch {
            start,
            end,
            parts,
            is_plain,
        }
    }

    /// Whether the whole text matches the pattern that was prepared.
    pub fn matches(&self, pattern: &[u8], text: &[u8]) -> bool {
        if text.len() < self.parts {
            return false;
        }
        let (mut place, mut taken) = (Gap::default(), 0);
        let mut segments = self.segments.iter();
        // Behind the last star, and how much of the text was taken up to its end.
        let mut star = None;
        loop {
            if pattern.get(place.at) == Some(&b'*') {
                place.at += 1;
                if let Some(tail) = &self.tail
                    && tail.start.at == place.at
                {
                    return self.match_tail(pattern, tail, &text[taken..]);
                }
                if let Some(segment) = segments.as_slice().first()
                    && segment.start.at == place.at
                {
                    segments.next();
                    let Some(end) = self.find(pattern, segment, &text[taken..]) else {
                        return false;
                    };
                    taken += end;
                    place = segment.end;
                    continue;
                }
                star = Some((place, taken));
                continue;
            }
            let Some(&byte) = text.get(taken) else {
                // More stars cannot make parts that take a byte match nothing.
                return place.at == pattern.len();
            };
            let next = self.match_one(pattern, place, byte);
            if let Some(next) = next {
                place = next;
                taken += 1;
                continue;
            }
            let Some((behind_star, taken_by_star)) = star else {
                return false;
            };
            place = behind_star;
            taken = taken_by_star + 1;
            star = Some((place, taken));
        }
    }

    /// Whether the end of a text matches what stands behind the last star.
    fn match_tail(&self, pattern: &[u8], tail: &Stretch, text: &[u8]) -> bool {
        let Some(start) = text.len().checked_sub(tail.parts) else {
            return false;
        };
        let mut place = Some(tail.start);
        text[start..].iter().all(|&byte| {
            place = place.and_then(|place| self.match_one(pattern, place, byte));
            place.is_some()
        })
    }

    /// The end of the first occurrence of a long segment in a text.
    #[cold]
    fn find(&self, pattern: &[u8], segment: &Stretch, text: &[u8]) -> Option<usize> {
        if segment.is_plain {
            let plain = &pattern[segment.start.at..segment.end.at];
            return memmem::find(text, plain).map(|start| start + plain.len());
        }
        let words = segment.parts.div_ceil(64);
        // For each byte that occurs, which parts it matches.
        let mut rows: [Option<Box<[u64]>>; 256] = [const { None }; 256];
        // Which parts match the byte just read while all before them match those before it.
        let mut state = vec![0u64; words];
        let last = 1u64 << ((segment.parts - 1) % 64);
        for (at, &byte) in text.iter().enumerate() {
            let row = rows[usize::from(byte)]
                .get_or_insert_with(|| self.row(pattern, segment, byte, words));
            let mut carry = 1;
            for (state, row) in state.iter_mut().zip(row) {
                let next = (*state << 1 | carry) & *row;
                carry = *state >> 63;
                *state = next;
            }
            if state[words - 1] & last != 0 {
                return Some(at + 1);
            }
        }
        None
    }

    /// A bit for each part of a segment that a byte matches.
    fn row(&self, pattern: &[u8], segment: &Stretch, byte: u8, words: usize) -> Box<[u64]> {
        let mut row = vec![0u64; words].into_boxed_slice();
        let mut place = segment.start;
        for number in 0..segment.parts {
            let (part, next) = self.part_at(pattern, place);
            if self.accepts(pattern, &part, byte) {
                row[number / 64] |= 1 << (number % 64);
            }
            place = next;
        }
        row
    }

    /// The part of the pattern at a place, where there is one and no star, and the place behind it.
    #[inline]
    fn part_at(&self, pattern: &[u8], Gap { at, class }: Gap) -> (Part<'_>, Gap) {
        let (part, len) = match pattern[at..] {
            [b'?', ..] => (Part::Any, 1),
            [b'[', ..] => {
                if let Some(long) = self.classes.get(class).filter(|long| long.start == at) {
                    let next = Gap {
                        at: long.end,
                        class: class + 1,
                    };
                    return (Part::Class(&long.set), next);
                }
                let (end, _) = parse_class(pattern, at + 1, |_| {});
                (Part::ShortClass(at + 1), end - at)
            }
            [b'\\', literal, ..] => (Part::Literal(literal), 2),
            _ => (Part::Literal(pattern[at]), 1),
        };
        let at = at + len;
        (part, Gap { at, class })
    }

    #[inline]
    fn accepts(&self, pattern: &[u8], part: &Part<'_>, byte: u8) -> bool {
        match *part {
            Part::Any => true,
            Part::Literal(literal) => fold(literal, self.nocase) == fold(byte, self.nocase),
            Part::Class(set) => set.contains(byte),
            Part::ShortClass(at) => match_class(pattern, at, byte, self.nocase),
        }
    }

    /// Matches one byte with the part of the pattern at a place, which is no star; gives the place
    /// of the next part.
    #[inline]
    fn match_one(&self, pattern: &[u8], place: Gap, byte: u8) -> Option<Gap> {
        match pattern.get(place.at)? {
            b'[' | b'\\' => {
                let (part, next) = self.part_at(pattern, place);
                self.accepts(pattern, &part, byte).then_some(next)
            }
            b'?' => Some(place.next()),
            &literal => {
                let is_same = fold(literal, self.nocase) == fold(byte, self.nocase);
                is_same.then_some(place.next())
            }
        }
    }
}

/// The long classes of a pattern, in order.
fn long_classes(pattern: &[u8], nocase: bool) -> Box<[Class]> {
    let mut classes = Vec::new();
    let mut at = 0;
    while at < pattern.len() {
        let start = at;
        at += match pattern[at] {
            b'[' => {
                let (end, _) = parse_class(pattern, at + 1, |_| {});
                if end - start > CLASS_BYTES_SHORT {
                    let set = ByteSet::of_class(pattern, at + 1, nocase);
                    classes.push(Class { start, end, set });
                }
                end - start
            }
            b'\\' => 2,
            _ => 1,
        };
    }
    classes.into_boxed_slice()
}

/// What stands in a class.
#[derive(Clone, Copy)]
enum Item {
    /// A byte whose case counts: an escaped one, as in Redis.
    Exact(u8),
    /// From the lower to the higher byte.
    Range(u8, u8),
}

/// Calls `each` for what stands in the class whose `[` is just before `at`. Where it ends, and
/// whether it is negated.
#[inline]
fn parse_class(pattern: &[u8], mut at: usize, mut each: impl FnMut(Item)) -> (usize, bool) {
    let is_negated = pattern.get(at) == Some(&b'^');
    at += usize::from(is_negated);
    loop {
        match pattern[at..] {
            [] => return (at, is_negated),
            [b']', ..] => return (at + 1, is_negated),
            [b'\\', literal, ..] => {
                each(Item::Exact(literal));
                at += 2;
            }
            [low, b'-', high, ..] => {
                each(Item::Range(low.min(high), low.max(high)));
                at += 3;
            }
            [literal, ..] => {
                each(Item::Range(literal, literal));
                at += 1;
            }
        }
    }
}

/// Whether a byte matches the class whose `[` is just before `at`.
fn match_class(pattern: &[u8], at: usize, byte: u8, nocase: bool) -> bool {
    let mut found = false;
    let (_, is_negated) = parse_class(pattern, at, |item| {
        found |= match item {
            Item::Exact(literal) => literal == byte,
            Item::Range(low, high) => {
                (fold(low, nocase)..=fold(high, nocase)).contains(&fold(byte, nocase))
            }
        };
    });
    found != is_negated
}

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default)]
struct ByteSet([u64; 4]);

impl ByteSet {
    /// The bytes that match the class whose `[` is just before `at`.
    fn of_class(pattern: &[u8], at: usize, nocase: bool) -> ByteSet {
        let (mut exact, mut folded) = (ByteSet::default(), ByteSet::default());
        let (_, is_negated) = parse_class(pattern, at, |item| match item {
            Item::Exact(byte) => exact.insert(byte, byte),
            Item::Range(low, high) => folded.insert(fold(low, nocase), fold(high, nocase)),
        });
        let mut set = ByteSet::default();
        for byte in 0..=u8::MAX {
            let is_in = exact.contains(byte) || folded.contains(fold(byte, nocase));
            if is_in != is_negated {
                set.insert(byte, byte);
            }
        }
        set
    }

    /// Adds a range, whose cost is the same however wide it is; none if the ends are crossed.
    fn insert(&mut self, low: u8, high: u8) {
        for (word, bits) in self.0.iter_mut().enumerate() {
            let first = usize::from(low).saturating_sub(word * 64);
            let Some(last) = usize::from(high).checked_sub(word * 64) else {
                continue;
            };
            if first < 64 && low <= high {
                *bits |= u64::MAX << first & u64::MAX >> (63 - last.min(63));
            }
        }
    }

    #[inline]
    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }
}

fn fold(byte: u8, nocase: bool) -> u8 {
    if nocase {
        byte.to_ascii_lowercase()
    } else {
        byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries every length for every star, and reads every class anew for every byte.
    fn matches_naively(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
        let fold = |byte: u8| match nocase {
            true => byte.to_ascii_lowercase(),
            false => byte,
        };
        match (pattern, text) {
            ([], text) => text.is_empty(),
            ([b'*', rest @ ..], text) => {
                (0..=text.len()).any(|len| matches_naively(rest, &text[len..], nocase))
            }
            (_, []) => false,
            ([b'?', rest @ ..], [_, text @ ..]) => matches_naively(rest, text, nocase),
            ([b'[', class @ ..], [byte, text @ ..]) => {
                let (found, rest) = match_class_naively(class, *byte, fold);
                found && matches_naively(rest, text, nocase)
            }
            ([b'\\', literal, rest @ ..] | [literal, rest @ ..], [byte, text @ ..]) => {
                fold(*literal) == fold(*byte) && matches_naively(rest, text, nocase)
            }
        }
    }

    fn match_class_naively(class: &[u8], byte: u8, fold: impl Fn(u8) -> u8) -> (bool, &[u8]) {
        let (mut class, negated) = match class {
            [b'^', class @ ..] => (class, true),
            class => (class, false),
        };
        let mut found = false;
        loop {
            class = match class {
                [] => return (found != negated, &[]),
                [b']', rest @ ..] => return (found != negated, rest),
                [b'\\', literal, rest @ ..] => {
                    found |= *literal == byte;
                    rest
                }
                [one, b'-', other, rest @ ..] => {
                    let (low, high) = (fold(*one.min(other)), fold(*one.max(other)));
                    found |= low <= fold(byte) && fold(byte) <= high;
                    rest
                }
                [literal, rest @ ..] => {
                    found |= fold(*literal) == fold(byte);
                    rest
                }
            };
        }
    }

    /// Measured on Redis 8.2.3 with KEYS.
    #[test]
    fn patterns() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("", &[""], &["a"]),
            ("*", &["", "a", "ab"], &[]),
            ("a*", &["a", "ab"], &["", "ba"]),
            ("*a*b*", &["ab", "xaxbx", "aab"], &["ba", "a"]),
            ("?", &["a", "?"], &["", "ab"]),
            ("**a**", &["a", "bab"], &["b"]),
            ("h?llo", &["hello", "h?llo"], &["hllo"]),
            ("[ab]", &["a", "b"], &["c", "", "ab"]),
            ("[^ab]", &["c", "^"], &["a", "b", ""]),
            ("[a-c]", &["a", "b", "c"], &["d", "-"]),
            ("[c-a]", &["a", "b", "c"], &["d"]),
            ("[^a-b]c", &["cc"], &["ac", "c"]),
            ("[a\\-c]", &["a", "-", "c"], &["b", "\\"]),
            ("[\\]]", &["]"], &["\\"]),
            ("[a-\\]", &["a", "\\", "]", "_"], &["-"]),
            ("[a^]", &["a", "^"], &["b"]),
            // A class may be empty, and need not end.
            ("[]", &[], &["", "a", "]", "[]"]),
            ("[]a]", &[], &["a", "]a]", "a]"]),
            ("[^]", &["a", "^", "]"], &["", "ab"]),
            ("[", &[], &["", "["]),
            ("[^", &["a", "["], &["", "ab"]),
            ("[a", &["a"], &["[a", "b"]),
            ("[a-", &["a", "-"], &["b"]),
            ("[a-c", &["b"], &["-"]),
            // Escapes.
            ("\\*", &["*"], &["a", "\\*"]),
            ("\\a", &["a"], &["\\a"]),
            ("a\\", &["a\\"], &["a"]),
            ("\\[a]", &["[a]"], &["a"]),
        ];
        for (pattern, matching, others) in cases {
            for text in *matching {
                assert!(
                    matches(pattern.as_bytes(), text.as_bytes(), false),
                    "{pattern} {text}"
                );
            }
            for text in *others {
                assert!(
                    !matches(pattern.as_bytes(), text.as_bytes(), false),
                    "{pattern} {text}"
                );
            }
        }
    }

    #[test]
    fn case_may_be_ignored() {
        for (pattern, text, found) in [
            ("SAVE", "save", true),
            ("SAV[E]", "save", true),
            ("sav[A-G]", "save", true),
            ("sav[a-g]", "savE", true),
            ("SAV[a-G]", "save", false),
            ("SAV[^E]", "save", false),
            ("SAV[\\E]", "save", false),
            ("SAV\\E", "save", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes(), true),
                found,
                "{pattern}"
            );
        }
        assert!(!matches(b"SAVE", b"save", false));
    }

    /// A source of random numbers below a bound, the same in every run.
    fn random(mut state: u64) -> impl FnMut(usize) -> usize {
        move |below| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        }
    }

    #[test]
    fn random_patterns_agree_with_the_naive_twin() {
        let mut next = random(9);
        let mut draw = |alphabet: &[u8], len_max: usize| {
            let len = next(len_max + 1);
            let letters = (0..len).map(|_| alphabet[next(alphabet.len())]);
            letters.collect::<Vec<u8>>()
        };
        let mut found = 0;
        for round in 0..200_000 {
            let pattern = draw(b"aaBb***?[]^-\\", 9);
            let text = draw(b"aaaAbB]-", 8);
            let nocase = round % 2 == 0;
            let expected = matches_naively(&pattern, &text, nocase);
            found += expected as u32;
            let shown = pattern.escape_ascii();
            assert_eq!(
                matches(&pattern, &text, nocase),
                expected,
                "{shown} {}",
                text.escape_ascii()
            );
        }
        assert!(found > 1_000);
    }

    /// Of parts that are treated apart: long classes, and long segments, plain and other.
    #[test]
    fn long_parts_agree_with_the_naive_twin() {
        let mut next = random(10);
        let mut found = 0;
        for round in 0..20_000 {
            let (mut pattern, mut text) = (Vec::new(), Vec::new());
            for _ in 0..next(6) {
                match next(6) {
                    0 => pattern.push(b'*'),
                    1 => {
                        pattern.push(b'[');
                        let len = next(60);
                        pattern.extend((0..len).map(|_| b"abcdxyzAZ0-9^\\-"[next(15)]));
                        if next(8) > 0 {
                            pattern.push(b']');
                        }
                        text.push(b"abcxzAZ059^\\-"[next(13)]);
                    }
                    2 => {
                        let plain: Vec<u8> = (0..next(200)).map(|_| b"ab"[next(2)]).collect();
                        text.extend((0..next(5)).map(|_| b"ab"[next(2)]));
                        text.extend(&plain);
                        pattern.extend(plain);
                    }
                    3 => {
                        let mixed: Vec<u8> = (0..next(200)).map(|_| b"ab"[next(2)]).collect();
                        text.extend((0..next(5)).map(|_| b"ab"[next(2)]));
                        text.extend(&mixed);
                        for byte in mixed {
                            match next(4) {
                                0 => pattern.push(b'?'),
                                1 => pattern.extend_from_slice(b"[ab]"),
                                2 => pattern.extend_from_slice(&[b'\\', byte]),
                                _ => pattern.push(byte),
                            }
                        }
                    }
                    4 => pattern.extend_from_slice(b"\\*"),
                    _ => text.extend((0..next(40)).map(|_| b"ab*"[next(3)])),
                }
            }
            let nocase = round % 2 == 0;
            let expected = matches_naively(&pattern, &text, nocase);
            found += expected as u32;
            let got = Glob::new(&pattern, nocase).matches(&text);
            let (pattern, text) = (pattern.escape_ascii(), text.escape_ascii());
            assert_eq!(got, expected, "{pattern} {text} {nocase}");
        }
        assert!(found > 1_000, "{found}");
    }

    /// What took a second and more each: steps must not grow with the product of both lengths.
    #[test]
    fn long_patterns_are_matched_with_long_texts_in_a_moment() {
        let text = b"a".repeat(200_000);
        let long = |before: &[u8], part: &[u8], times: usize, after: &[u8]| {
            [before, &part.repeat(times), after].concat()
        };
        for pattern in [
            long(b"*[", b"bcdefgh", 150_000, b"]"),
            long(b"*[", b"bcdefgh", 150_000, b"]*"),
            long(b"*", b"a", 100_000, b"b*"),
            long(b"*", b"a", 100_000, b"b"),
            long(b"*", b"[ab]", 100_000, b"b"),
            long(b"*", b"[ab]?", 10_000, b"b*"),
            long(b"*", b"[ab]?*", 10_000, b"b*"),
        ] {
            assert!(!matches(&pattern, &text, false));
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = [&b"a*".repeat(1_000)[..], b"b"].concat();
        assert!(!matches(&pattern, &b"a".repeat(5_000), false));
    }
}
