//! The unsafe leaf under the address sanitizer: one entry beside a plain twin, or a table of
//! entries beside a map. An even first byte stands for the entry.
//!
//! Spans of thousands of keys, which split segments, take 20 ms; if each input might ask for them, a short
//! run would try next to nothing else. One table in [`BIG_EVERY`] may, whichever its bytes add up to.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/main/entries.rs"]
mod entries;
use entries::Bytewise;

/// One table in so many is big, so that on average it costs no more than the others.
const BIG_EVERY: u32 = 64;
/// Keys that the spans of the other tables touch.
const SMALL_TOUCHED_MAX: u32 = 100;

/// Chosen by all bytes: descendants of a big input are no likelier to be big than any other.
fn touched_max(data: &[u8]) -> u32 {
    let sum = data.iter().fold(0u32, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    if (sum >> 8).is_multiple_of(BIG_EVERY) { entries::TOUCHED_MAX } else { SMALL_TOUCHED_MAX }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Bytewise::new(data);
    if input.byte().is_multiple_of(2) {
        entries::entry(&mut input);
    } else {
        entries::table(&mut input, touched_max(data));
    }
});
