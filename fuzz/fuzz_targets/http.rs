//! Requests to the port of metrics: the same bytes get the same answers wherever they are cut, and what a
//! connection holds is bounded.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use mayfly::clock::{Clock, ManualClock, UnixMillis};
use mayfly::config::Config;
use mayfly::engine::Engine;
use mayfly::web::Site;
use mayfly::web::request::HEAD_BYTES_MAX;
use mayfly::web::visitor::{READ_BYTES_MAX, Visitor};

thread_local! {
    /// One server for all inputs: nothing they do changes it, and its figures are taken once.
    static SERVER: RefCell<(Engine, Site)> = {
        let reading = ManualClock::new(UnixMillis(1_700_000_000_000)).read();
        let config = Config { metrics_hosts: vec!["a.b".to_owned()], ..Config::default() };
        RefCell::new((Engine::new(config, reading, 1), Site::default()))
    };
}

/// The heads of the answers, and which is the last.
fn answers(pieces: &[&[u8]]) -> Vec<(String, bool)> {
    SERVER.with_borrow_mut(|(engine, site)| {
        let (mut visitor, mut answers) = (Visitor::default(), Vec::new());
        for piece in pieces.iter().flat_map(|piece| piece.chunks(READ_BYTES_MAX)) {
            if !visitor.has_room() {
                assert!(visitor.is_over());
                break;
            }
            visitor.receive(piece);
            loop {
                while let Some(response) = visitor.next_response(site, engine) {
                    answers.push((response.head, response.closes));
                }
                if !visitor.is_waiting() {
                    break;
                }
                while site.step(engine) {}
            }
            assert!(visitor.memory_bytes() <= 4 * (HEAD_BYTES_MAX + READ_BYTES_MAX));
        }
        answers
    })
}

fuzz_target!(|data: &[u8]| {
    let whole = answers(&[data]);
    // Nothing is answered behind the last answer.
    assert!(whole.iter().rev().skip(1).all(|(_, closes)| !closes));
    let cut = data.first().map_or(0, |&byte| byte as usize % data.len());
    assert_eq!(whole, answers(&[&data[..cut], &data[cut..]]));
    let bytes: Vec<&[u8]> = data.chunks(1).collect();
    assert_eq!(whole, answers(&bytes));
});
