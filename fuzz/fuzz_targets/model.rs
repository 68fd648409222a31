//! The whole engine against the naive model: requests on a few keys, jumps of the clock, slices of
//! jobs, chosen by the bytes in groups of four. Every reply is the model's, and so is what is left.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mayfly::clock::{Clock, ManualClock, UnixMillis};
use mayfly::command::dispatch::run_ready;
use mayfly::config::Config;
use mayfly::engine::session::SessionKey;
use mayfly::engine::{Engine, Origin};

#[path = "../../tests/main/twin.rs"]
mod twin;
use twin::{KINDS, Model, Words};

const START: i64 = 1_700_000_000_000;
const KEYS: u8 = 12;

struct Pair {
    engine: Engine,
    clock: ManualClock,
    client: SessionKey,
    model: Model,
}

impl Pair {
    fn new() -> Pair {
        let mut clock = ManualClock::new(UnixMillis(START));
        let config = Config { save: Vec::new(), ..Config::default() };
        let mut engine = Engine::new(config, clock.read(), 7);
        let client = engine.connect(Origin::default());
        let model = Model { now: START, ..Model::default() };
        Pair { engine, clock, client, model }
    }

    fn run(&mut self, request: &str) -> String {
        self.engine.feed(self.client, format!("{request}\r\n").as_bytes());
        run_ready(&mut self.engine, &mut self.clock);
        let bytes = self.engine.sessions[self.client].output.take_all();
        String::from_utf8_lossy(&bytes).replace("\r\n", " ").trim_end().to_owned()
    }

    fn step(&mut self, group: &[u8; 4]) {
        let [kind, key, size, bits] = *group;
        let ms = (i64::from(size) + 1) << (bits % 40);
        let kind = usize::from(kind) % (KINDS + 2);
        if kind == KINDS {
            self.clock.advance_ms(ms as u64);
            self.model.advance(ms);
            return;
        }
        if kind > KINDS {
            self.engine.run_jobs(&mut self.clock, bits % 2 == 0);
            self.engine.keyspace.check();
            return;
        }
        let value = match bits % 4 {
            0 => size.to_string(),
            1 => "v".repeat(size.into()),
            2 => "long".repeat(usize::from(size) * 20),
            _ => format!("-{size}"),
        };
        let words = Words {
            key: format!("key{}", key % KEYS),
            to: format!("key{}", size % KEYS),
            value,
            ms,
        };
        let (request, expected) = self.model.request(kind, &words);
        assert_eq!(self.run(&request), expected, "{request}");
    }
}

fuzz_target!(|data: &[u8]| {
    let mut pair = Pair::new();
    for group in data.as_chunks().0 {
        pair.step(group);
    }
    pair.engine.keyspace.check();
    for key in (0..KEYS).map(|n| format!("key{n}")) {
        let (ttl, value) = (pair.model.ttl(&key), pair.model.get(&key));
        assert_eq!(pair.run(&format!("pttl {key}")), ttl);
        assert_eq!(pair.run(&format!("get {key}")), value);
    }
});
