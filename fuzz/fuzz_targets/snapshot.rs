//! The snapshot reader on hostile files: an error or a summary, never a panic, memory bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mayfly::snapshot::loader;

fuzz_target!(|data: &[u8]| {
    if let Ok(summary) = loader::check(data, data.len() as u64, 0) {
        assert_eq!(summary.size, data.len() as u64);
    }
});
