//! The unsafe leaf under the address sanitizer: one entry beside a plain twin, or a table of
//! entries beside a map. An even first byte stands for the entry.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/main/entries.rs"]
mod entries;
use entries::Bytewise;

fuzz_target!(|data: &[u8]| {
    let mut input = Bytewise::new(data);
    if input.byte().is_multiple_of(2) {
        entries::entry(&mut input);
    } else {
        entries::table(&mut input);
    }
});
