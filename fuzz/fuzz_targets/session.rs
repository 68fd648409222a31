//! Arbitrary bytes from a client of a simulated server: nothing panics, index and table agree, and
//! what is owed stays bounded. The first byte of each piece says how far time moves before it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mayfly::clock::{Clock, ManualClock, UnixMillis};
use mayfly::command::dispatch;
use mayfly::config::Config;
use mayfly::engine::{Engine, Origin};

/// Commands that would touch the disk are left out: what they do is tested elsewhere.
fn touches_disk(data: &[u8]) -> bool {
    let lower = data.to_ascii_lowercase();
    ["save", "shutdown", "config", "debug"]
        .iter()
        .any(|word| lower.windows(word.len()).any(|window| window == word.as_bytes()))
}

fuzz_target!(|data: &[u8]| {
    if touches_disk(data) {
        return;
    }
    let mut clock = ManualClock::new(UnixMillis(1_700_000_000_000));
    let config = Config { save: Vec::new(), ..Config::default() };
    let mut engine = Engine::new(config, clock.read(), 7);
    let key = engine.connect(Origin::default());
    for piece in data.split(|&byte| byte == 0xff) {
        let (ahead, bytes) = piece.split_first().map_or((0, piece), |(&n, rest)| (n, rest));
        clock.advance_ms(u64::from(ahead) * 7);
        engine.reading = clock.read();
        if !engine.sessions.contains(key) {
            return;
        }
        engine.feed(key, bytes);
        for _ in 0..64 {
            if engine.ready.is_empty() {
                break;
            }
            dispatch::run_ready(&mut engine, &mut clock);
        }
        engine.run_jobs(&mut clock, true);
        assert!(engine.sessions[key].output.len() < 64 << 20, "a small input owes too much");
        engine.sessions[key].output.take_all();
    }
    engine.keyspace.check();
});
