//! The binary: arguments, signals, run, exit code.

use mayfly::clock::{Clock, Source, SystemClock};
use mayfly::config::Config;
use mayfly::engine::Engine;
use mayfly::server::{Server, listener, logging};
use signal_hook_mio::v1_0::Signals;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    let mut config = Config::default();
    if let Some(p) = std::env::args().nth(2) {
        config.port = p.parse().unwrap();
    }
    logging::start("", log::LevelFilter::Info);
    let mut clock = SystemClock::new(Source::Monotonic);
    let reading = clock.read();
    let listeners = listener::open(&config).unwrap();
    let engine = Engine::new(config, reading, 42);
    let signals =
        Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT]).unwrap();
    let mut server = Server::new(engine, &mut clock, listeners, signals).unwrap();
    server.run().unwrap();
}
