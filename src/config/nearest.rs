//! The setting that a misspelt name was meant to be.

use super::{OLD_NAMES, rows};

/// Longer names are not compared: no setting has one, and the comparison is quadratic.
const NAME_CHARS_MAX: usize = 64;

/// The known name that takes the fewest edits to get from `name`, if they are few for its length.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let name: Vec<char> = name.to_lowercase().replace('_', "-").chars().collect();
    if name.len() > NAME_CHARS_MAX {
        return None;
    }
    let old_names = OLD_NAMES.iter().map(|(old, _)| *old);
    let names = rows()
        .map(|row| row.name())
        .chain(["include"])
        .chain(old_names);
    let with_edits = names.map(|known| (edits(&name, known), known));
    // The first of several that are equally near, so that a setting goes before its old names.
    let (edits, known) = with_edits.min_by_key(|(edits, _)| *edits)?;
    (edits <= 1.max(name.len() / 4)).then_some(known)
}

/// How many characters must be put in, left out, replaced or swapped with their neighbour to get
/// from one text to the other (optimal string alignment), row by row of the usual table.
fn edits(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replaced = last[j] + usize::from(a != b);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                least = least.min(before_last[j - 1] + 1);
            }
            row.push(least);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        let table = [
            ("prot", Some("port")),
            ("max_clients", Some("maxclients")),
            ("Max-Memory", Some("maxmemory")),
            ("appendonyl", Some("appendonly")),
            ("dbfile-name", Some("dbfilename")),
            ("inclde", Some("include")),
            ("", None),
            ("frobnicate", None),
            ("xyz", None),
        ];
        for (name, expected) in table {
            assert_eq!(nearest(name), expected, "{name}");
        }
        assert_eq!(nearest(&"port".repeat(1000)), None);
        let chars = |text: &str| text.chars().collect::<Vec<char>>();
        assert_eq!(edits(&chars("kitten"), "sitting"), 3);
        assert_eq!(edits(&chars("ab"), "ba"), 1);
        assert_eq!((edits(&[], "abc"), edits(&chars("abc"), "")), (3, 3));
    }
}
