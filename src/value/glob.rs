//! Patterns over keys, channels and settings: `*`, `?`, `[a-z]`, `[^a-z]`, `\x`.
//!
//! Every part of a pattern but `*` takes exactly one byte. So when a part does not match, only the
//! last `*` before it needs to take one byte more: whatever an earlier one could gain by giving up
//! its place, the last one reaches too. That bounds the work by the product of the two lengths,
//! where trying all stars is exponential in their number.
//!
//! Odd patterns have a meaning too, the one they have in Redis: a class without `]` ends with the
//! pattern, a range may be written from high to low, a single backslash at the end is itself.

/// Whether the whole text matches the pattern; `nocase` ignores the case of ASCII letters.
///
/// Redis: a `*` does not match the empty text unless something else stands before it (KEYS makes an
/// exception for the pattern `*`); here it always does.
pub fn matches(pattern: &[u8], text: &[u8], nocase: bool) -> bool {
    let (mut at, mut taken) = (0, 0);
    // Behind the last star, and how much of the text was taken up to its end.
    let mut star = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            if at == pattern.len() {
                return true;
            }
            star = Some((at, taken));
            continue;
        }
        let Some(&byte) = text.get(taken) else {
            // More stars cannot make parts that take a byte match nothing.
            return at == pattern.len();
        };
        if let Some(next) = match_one(pattern, at, byte, nocase) {
            at = next;
            taken += 1;
            continue;
        }
        let Some((behind_star, taken_by_star)) = star else {
            return false;
        };
        at = behind_star;
        taken = taken_by_star + 1;
        star = Some((at, taken));
    }
}

/// Matches one byte with the part of the pattern at `at`, which is no star; gives the offset of the
/// next part.
#[inline]
fn match_one(pattern: &[u8], at: usize, byte: u8, nocase: bool) -> Option<usize> {
    match pattern[at..] {
        [] => None,
        [b'?', ..] => Some(at + 1),
        [b'[', ..] => match_class(pattern, at + 1, byte, nocase),
        [b'\\', literal, ..] => same(literal, byte, nocase).then_some(at + 2),
        [literal, ..] => same(literal, byte, nocase).then_some(at + 1),
    }
}

/// Matches one byte with the class whose `[` is just before `at`.
fn match_class(pattern: &[u8], mut at: usize, byte: u8, nocase: bool) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += negated as usize;
    let mut found = false;
    loop {
        match pattern[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                // Case counts for an escaped byte in a class, as in Redis.
                found |= literal == byte;
                at += 2;
            }
            [low, b'-', high, ..] => {
                let (low, high) = (fold(low.min(high), nocase), fold(low.max(high), nocase));
                found |= (low..=high).contains(&fold(byte, nocase));
                at += 3;
            }
            [literal, ..] => {
                found |= same(literal, byte, nocase);
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

fn same(a: u8, b: u8, nocase: bool) -> bool {
    fold(a, nocase) == fold(b, nocase)
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

    /// Tries every length for every star.
    fn matches_naively(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], text) => text.is_empty(),
            ([b'*', rest @ ..], text) => {
                (0..=text.len()).any(|len| matches_naively(rest, &text[len..]))
            }
            (_, []) => false,
            (pattern, [byte, rest @ ..]) => match_one(pattern, 0, *byte, false)
                .is_some_and(|next| matches_naively(&pattern[next..], rest)),
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

    #[test]
    fn random_patterns_agree_with_the_naive_twin() {
        let mut state = 9u64;
        let mut draw = |alphabet: &[u8], len_max: usize| {
            let mut next = |below: usize| {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                (state >> 33) as usize % below
            };
            (0..next(len_max + 1))
                .map(|_| alphabet[next(alphabet.len())])
                .collect::<Vec<u8>>()
        };
        let mut found = 0;
        for _ in 0..100_000 {
            let pattern = draw(b"aab***?[]^-\\", 9);
            let text = draw(b"aaab]-", 8);
            let expected = matches_naively(&pattern, &text);
            found += expected as u32;
            let shown = pattern.escape_ascii();
            assert_eq!(
                matches(&pattern, &text, false),
                expected,
                "{shown} {}",
                text.escape_ascii()
            );
        }
        assert!(found > 1_000);
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = [&b"a*".repeat(1_000)[..], b"b"].concat();
        assert!(!matches(&pattern, &b"a".repeat(5_000), false));
    }
}
