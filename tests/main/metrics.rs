//! The page and metrics: requests in virtual time, bytes in and bytes out, and the port of the real
//! binary under clients that mean no good.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use mayfly::config::Config;
use mayfly::web::figures::{DATABASES_SHOWN_MAX, NEXT_KEYS_MAX, SPANS_SECONDS};
use mayfly::web::prometheus::{Kind, METRICS, WITHIN};
use mayfly::web::request::{HEAD_BYTES_MAX, HEADERS_MAX};
use mayfly::web::visitor::{READ_BYTES_MAX, Visitor};
use mayfly::web::{FRESH_US, PAGE, SCRIPT_SHA256, STYLE_SHA256, Site};
use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::Value;

use crate::process::{DEADLINE_MS, Server, mayfly, run_to_end, text_of, wait_for};
use crate::sim::{Sim, TempDir};

/// A connection to a simulated server.
struct Browser {
    site: Site,
    visitor: Visitor,
}

impl Browser {
    fn new() -> Browser {
        Browser {
            site: Site::default(),
            visitor: Visitor::default(),
        }
    }

    /// All answers that are to be had now.
    fn answers(&mut self, sim: &Sim) -> String {
        let mut text = String::new();
        loop {
            while let Some(response) = self.visitor.next_response(&mut self.site, &sim.engine) {
                text += &response.head;
                text += str::from_utf8(&response.body).expect("all that is served is text");
            }
            if !self.visitor.is_waiting() {
                return text;
            }
            while self.site.step(&sim.engine) {}
        }
    }

    /// Sends pieces, as a server reads them; what it answers.
    fn send(&mut self, sim: &Sim, pieces: &[&[u8]]) -> String {
        let mut text = String::new();
        for chunk in pieces.iter().flat_map(|piece| piece.chunks(READ_BYTES_MAX)) {
            if !self.visitor.has_room() {
                assert!(self.visitor.is_over());
                break;
            }
            self.visitor.receive(chunk);
            text += &self.answers(sim);
        }
        text
    }
}

fn ask(sim: &Sim, request: &str) -> String {
    Browser::new().send(sim, &[request.as_bytes()])
}

/// The body at a path.
#[track_caller]
fn body(sim: &Sim, path: &str) -> String {
    let answer = ask(
        sim,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    );
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    body.to_owned()
}

fn stats(sim: &Sim) -> Value {
    serde_json::from_str(&body(sim, "/stats.json")).expect("it is JSON")
}

/// Samples with their labels, and their values.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        (name.to_owned(), value.parse().expect("a number"))
    });
    pairs.collect()
}

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(name);
    std::fs::read_to_string(path).expect("the document")
}

const HOST: &str = "Host: localhost\r\n";

/// Requests and how they are answered: the status, and whether that is the last answer.
fn requests() -> Vec<(String, &'static str, bool)> {
    let with = |line: &str, headers: &str| format!("{line}\r\n{headers}\r\n");
    let many = |count: usize| {
        (0..count)
            .map(|n| format!("a{n}: b\r\n"))
            .collect::<String>()
    };
    vec![
        (with("GET / HTTP/1.1", HOST), "200", false),
        (with("GET /?a=/b HTTP/1.1", HOST), "200", false),
        (with("HEAD /metrics HTTP/1.1", HOST), "200", false),
        (with("GET /stats.json HTTP/1.0", HOST), "200", true),
        (
            with(
                "GET / HTTP/1.0",
                &format!("{HOST}Connection: keep-alive\r\n"),
            ),
            "200",
            false,
        ),
        (
            with(
                "GET / HTTP/1.1",
                &format!("{HOST}Connection: x , CLOSE\r\n"),
            ),
            "200",
            true,
        ),
        (with("GET http://LOCALHOST:1/ HTTP/1.1", HOST), "200", false),
        (with("GET http://localhost HTTP/1.1", HOST), "200", false),
        (with("GET http://elsewhere/ HTTP/1.1", HOST), "421", true),
        (with("GET https://localhost/ HTTP/1.1", HOST), "400", true),
        (with("GET * HTTP/1.1", HOST), "400", true),
        (with("GET /page HTTP/1.1", HOST), "404", false),
        (with("GET /metrics/ HTTP/1.1", HOST), "404", false),
        (
            with("POST / HTTP/1.1", &format!("{HOST}Content-Length: 3\r\n")),
            "405",
            true,
        ),
        (with("DELETE /metrics HTTP/1.1", HOST), "405", true),
        (with("get / HTTP/1.1", HOST), "405", true),
        (with("OPTIONS * HTTP/1.1", HOST), "400", true),
        (
            with("GET / HTTP/1.1", &format!("{HOST}Content-Length: 0\r\n")),
            "200",
            false,
        ),
        (
            with("GET / HTTP/1.1", &format!("{HOST}Content-Length: 1\r\n")),
            "413",
            true,
        ),
        (
            with("GET / HTTP/1.1", &format!("{HOST}Content-Length: -1\r\n")),
            "400",
            true,
        ),
        (
            with(
                "GET / HTTP/1.1",
                &format!("{HOST}Transfer-Encoding: chunked\r\n"),
            ),
            "413",
            true,
        ),
        (with("GET / HTTP/1.1", ""), "400", true),
        (with("GET / HTTP/1.1", "Host:\r\n"), "400", true),
        (
            with("GET / HTTP/1.1", &format!("{HOST}{HOST}")),
            "400",
            true,
        ),
        (with("GET / HTTP/1.1", "Host: example.com\r\n"), "421", true),
        (
            with("GET / HTTP/1.1", &format!("{HOST} folded\r\n")),
            "400",
            true,
        ),
        (with("GET / HTTP/2.0", HOST), "505", true),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), "505", true),
        ("*1\r\n$4\r\nPING\r\n".into(), "400", true),
        ("\x16\x03\x01\x02\x00\n".into(), "400", true),
        (
            with(
                "GET / HTTP/1.1",
                &(HOST.to_owned() + &many(HEADERS_MAX - 1)),
            ),
            "200",
            false,
        ),
        (
            with("GET / HTTP/1.1", &(HOST.to_owned() + &many(HEADERS_MAX))),
            "431",
            true,
        ),
        (
            format!("GET /{} HTTP/1.1\r\n{HOST}\r\n", "a".repeat(HEAD_BYTES_MAX)),
            "431",
            true,
        ),
        (
            format!("GET / HTTP/1.1\r\n{HOST}a: {}\r\n\r\n", "b".repeat(9_000)),
            "431",
            true,
        ),
        ("a".repeat(HEAD_BYTES_MAX + 1), "431", true),
        (format!("\r\n\r\nGET / HTTP/1.1\n{HOST}\n"), "200", false),
    ]
}

#[test]
fn each_request_is_answered_or_refused() {
    let sim = Sim::new();
    for (request, status, is_last) in requests() {
        let mut browser = Browser::new();
        let answer = browser.send(&sim, &[request.as_bytes()]);
        let first: String = request.chars().take(60).collect();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{first}: {answer}"
        );
        assert_eq!(browser.visitor.is_over(), is_last, "{first}");
        let says_close = answer.contains("connection: close\r\n");
        assert_eq!(says_close, is_last, "{first}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{first}");
    }
}

#[test]
fn pieces_of_any_length_are_answered_as_the_whole() {
    let sim = Sim::new();
    // Figures taken once: what the process takes changes meanwhile.
    let mut browser = Browser::new();
    let mut ask = |pieces: &[&[u8]]| {
        browser.visitor = Visitor::default();
        browser.send(&sim, pieces)
    };
    for (request, ..) in requests() {
        // What follows the last answer is not looked at.
        let request = format!("{request}GET /none HTTP/1.1\r\n{HOST}\r\n");
        let whole = ask(&[request.as_bytes()]);
        let step = if request.len() > 1_000 { 997 } else { 1 };
        for length in (1..request.len()).step_by(step) {
            let pieces: Vec<&[u8]> = request.as_bytes().chunks(length).collect();
            assert!(ask(&pieces) == whole, "{length} of {request}");
        }
    }
}

#[test]
fn garbage_is_refused_alike_wherever_it_is_cut() {
    use rand::{RngExt, SeedableRng};
    let sim = Sim::new();
    let mut rng = rand::rngs::SmallRng::seed_from_u64(7);
    let words = [
        "GET",
        " ",
        "/",
        "HTTP/1.1",
        "\r\n",
        "\n",
        "Host",
        ":",
        "localhost",
        "\0",
        "\r",
        "é",
    ];
    for round in 0..5_000 {
        let count = rng.random_range(1..40);
        let text: String = (0..count)
            .map(|_| words[rng.random_range(0..words.len())])
            .collect();
        let whole = ask(&sim, &text);
        let cut = rng.random_range(0..text.len());
        let (first, rest) = text.as_bytes().split_at(cut);
        assert_eq!(
            Browser::new().send(&sim, &[first, rest]),
            whole,
            "round {round}: {text:?}"
        );
    }
}

#[test]
fn requests_of_a_pipeline_are_answered_in_order() {
    let sim = Sim::new();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\n{HOST}\r\n");
    let answer = ask(
        &sim,
        &[get("/none"), get("/metrics"), get("/"), get("/none")].concat(),
    );
    let places = ["404 Not Found", "mayfly_build_info", "<!doctype html>"];
    let at = places.map(|place| answer.find(place).expect(place));
    assert!(at.is_sorted());
    assert!(answer.trim_end().ends_with("404 Not Found"));
    let head = ask(&sim, &get("/metrics").replace("GET", "HEAD"));
    let (whole, _) = head.split_once("\r\n\r\n").expect("a head");
    assert_eq!(head.len(), whole.len() + 4, "a body after HEAD");
    let length = format!("content-length: {}\r\n", body(&sim, "/metrics").len());
    assert!(head.contains(&length), "{head}");
}

#[test]
fn only_own_names_are_answered() {
    let mut sim = Sim::new();
    let status = |sim: &Sim, host: &str| {
        let answer = ask(sim, &format!("GET /none HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        answer.split(' ').nth(1).expect("a status").to_owned()
    };
    for host in [
        "localhost",
        "LocalHost:9121",
        "127.0.0.1",
        "10.1.2.3:80",
        "[::1]",
        "[fe80::1]:1",
    ] {
        assert_eq!(status(&sim, host), "404", "{host}");
    }
    let foreign = [
        "example.com",
        "localhost.example.com",
        "127.0.0.1.nip.io",
        "[::1",
        "[x]",
        "localhost:80x",
        "[::1]x",
        "::1",
        "1.2.3",
        "user@localhost",
        "localhost:80:80",
        "é",
        "cache-1",
    ];
    for host in foreign {
        assert_eq!(status(&sim, host), "421", "{host}");
    }
    sim.expect("config set metrics-hosts Cache-1", "+OK");
    assert_eq!(
        sim.run("config get metrics-hosts"),
        "*2 $13 metrics-hosts $7 cache-1"
    );
    assert_eq!(status(&sim, "CACHE-1:80"), "404");
    assert_eq!(status(&sim, "cache-2"), "421");
    for wrong in ["a:80", "a/b", "é"] {
        let reply = sim.run(&format!("config set metrics-hosts {wrong}"));
        assert!(reply.contains("is no name of a machine"), "{reply}");
    }
}

#[test]
fn answers_say_what_they_are_and_are_kept_nowhere() {
    let sim = Sim::new();
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
        ("/stats.json", "application/json"),
        ("/none", "text/plain; charset=utf-8"),
    ] {
        let answer = ask(&sim, &format!("GET {path} HTTP/1.1\r\n{HOST}\r\n"));
        let (head, _) = answer.split_once("\r\n\r\n").expect("a head");
        let expected = [
            format!("content-type: {kind}"),
            "cache-control: no-store".into(),
            "x-content-type-options: nosniff".into(),
            "date: Tue, 14 Nov 2023 22:13:20 GMT".into(),
        ];
        for line in expected {
            assert!(
                head.lines().any(|other| other == line),
                "{path}: {line} in {head}"
            );
        }
        assert!(!head.to_lowercase().contains("access-control"), "{head}");
    }
    assert!(
        ask(&sim, "PUT / HTTP/1.1\r\nHost: [::1]\r\n\r\n").contains("\r\nallow: GET, HEAD\r\n")
    );
}

#[test]
fn the_page_is_whole_and_its_policy_names_what_is_in_it() {
    use sha2::{Digest, Sha256};
    for (name, told) in [("style", STYLE_SHA256), ("script", SCRIPT_SHA256)] {
        let parts: Vec<&str> = PAGE.split(&format!("<{name}>")).collect();
        assert_eq!(parts.len(), 2, "one {name}");
        let (text, _) = parts[1].split_once(&format!("</{name}>")).expect("its end");
        assert_eq!(
            base64(&Sha256::digest(text)),
            told,
            "the hash of the {name}"
        );
    }
    for outside in [
        "http://",
        "https://",
        " src=",
        "@import",
        "url(",
        " style=",
        " onclick=",
        "innerHTML",
    ] {
        let own = PAGE.matches("http://www.w3.org/").count();
        let count = PAGE.matches(outside).count();
        assert_eq!(
            count,
            if outside == "http://" { own } else { 0 },
            "{outside}"
        );
    }
    let sim = Sim::new();
    let answer = ask(&sim, &format!("GET / HTTP/1.1\r\n{HOST}\r\n"));
    assert!(answer.contains("content-security-policy: default-src 'none'; "));
    assert!(!answer.contains("unsafe-inline"));
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, i| {
            bits << 8 | u32::from(*group.get(i).unwrap_or(&0))
        });
        for i in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i > group.len() { '=' } else { letter.into() });
        }
    }
    text
}

/// A server on which something of everything has happened.
fn busy() -> Sim {
    let mut sim = Sim::new();
    sim.script(
        "
        set a 1 px 500 => +OK
        set b 1 px 5000 => +OK
        set c 1 px 50000 => +OK
        set d 1 => +OK
        hset h f v g w => :2
        hpexpire h 700 fields 1 f => *1 :1
        get a => $1 1
        get none => $-1
        incr h => -WRONGTYPE Operation against a key holding the wrong kind of value
        frobnicate => -ERR unknown command 'frobnicate', with args beginning with:
        select 3 => +OK
        set x 1 px 1000000 => +OK
        subscribe news => *3 $9 subscribe $4 news :1
        ",
    );
    sim.advance(501);
    sim.advance(210);
    sim
}

#[test]
fn figures_are_those_of_info() {
    let mut sim = busy();
    let metrics = samples(&body(&sim, "/metrics"));
    let json = stats(&sim);
    sim.client = sim.connect();
    let info = sim.ask(&[b"info", b"everything"]);
    let info = String::from_utf8(info).expect("it is text");
    let field = |name: &str| -> f64 {
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.expect(name).parse().expect("a number")
    };
    for (metric, name) in [
        ("mayfly_connections_total", "total_connections_received"),
        ("mayfly_keyspace_hits_total", "keyspace_hits"),
        ("mayfly_keyspace_misses_total", "keyspace_misses"),
        ("mayfly_subscribed_clients", "pubsub_clients"),
        ("mayfly_error_replies_total", "total_error_replies"),
        (
            "mayfly_expired_total{what=\"keys\",removal=\"active\"}",
            "expired_keys_active",
        ),
        (
            "mayfly_expired_total{what=\"keys\",removal=\"lazy\"}",
            "expired_keys_lazy",
        ),
        (
            "mayfly_expired_total{what=\"members\",removal=\"active\"}",
            "expired_subkeys_active",
        ),
        (
            "mayfly_expiry_due_keys{within=\"1s\"}",
            "keys_due_within_1s",
        ),
        (
            "mayfly_expiry_due_keys{within=\"10s\"}",
            "keys_due_within_10s",
        ),
        (
            "mayfly_expiry_due_keys{within=\"1m\"}",
            "keys_due_within_1min",
        ),
        (
            "mayfly_expiry_due_keys{within=\"1h\"}",
            "keys_due_within_1h",
        ),
        (
            "mayfly_snapshot_unsaved_changes",
            "rdb_changes_since_last_save",
        ),
        ("mayfly_pubsub_topics{kind=\"channel\"}", "pubsub_channels"),
        (
            "mayfly_memory_counted_bytes{part=\"entries\"}",
            "mem_entries",
        ),
        ("mayfly_memory_counted_bytes{part=\"tables\"}", "mem_tables"),
        (
            "mayfly_memory_counted_bytes{part=\"deadline_indexes\"}",
            "mem_deadline_indexes",
        ),
    ] {
        // The second client is INFO's alone.
        let own = f64::from(u8::from(name == "total_connections_received"));
        assert_eq!(metrics[metric] + own, field(name), "{metric}");
    }
    let lag_ms = field("expiry_lag_ms_max");
    assert_eq!(metrics["mayfly_expiry_lag_max_seconds"], lag_ms / 1e3);
    assert!(
        info.contains("db0:keys=4,expires=2,avg_ttl=26789,subexpiry=0\r\n"),
        "{info}"
    );
    assert_eq!(metrics["mayfly_keys{db=\"0\"}"], 4.0);
    assert_eq!(metrics["mayfly_volatile_keys{db=\"0\"}"], 2.0);
    assert_eq!(metrics["mayfly_ttl_mean_seconds{db=\"0\"}"], 26.789);
    assert_eq!(metrics["mayfly_keys{db=\"3\"}"], 1.0);
    assert_eq!(metrics["mayfly_command_calls_total{command=\"set\"}"], 5.0);
    assert_eq!(
        metrics["mayfly_command_failures_total{command=\"incr\"}"],
        1.0
    );
    assert_eq!(metrics["mayfly_unknown_commands_total"], 1.0);
    assert_eq!(json["keyspace"]["keys"], 5);
    assert_eq!(json["expiry"]["keys_active_total"], 1);
    assert_eq!(json["expiry"]["due"][12]["within_seconds"], 60);
    assert_eq!(json["expiry"]["due"][12]["keys"], 2);
    assert_eq!(json["next_keys"], Value::Null);
}

#[test]
fn the_histogram_counts_each_lag_once_and_up_to_each_limit() {
    let mut sim = Sim::new();
    for (ms, late) in [(100, 3), (200, 0), (300, 40)] {
        sim.expect(&format!("set k{ms} 1 px {ms}"), "+OK");
        sim.clock.advance_ms(ms + late);
        sim.expect(&format!("get k{ms}"), "$-1");
    }
    let metrics = samples(&body(&sim, "/metrics"));
    let bucket = |le: &str| {
        metrics[&format!("mayfly_expiry_lag_seconds_bucket{{removal=\"lazy\",le=\"{le}\"}}")]
    };
    let counts = ["0.001", "0.002", "0.004", "0.031", "0.063", "+Inf"].map(bucket);
    assert_eq!(counts, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
    assert_eq!(
        metrics["mayfly_expiry_lag_seconds_sum{removal=\"lazy\"}"],
        0.043
    );
    assert_eq!(
        metrics["mayfly_expiry_lag_seconds_count{removal=\"lazy\"}"],
        3.0
    );
    assert_eq!(
        metrics["mayfly_expiry_lag_seconds_count{removal=\"active\"}"],
        0.0
    );
    assert_eq!(metrics["mayfly_expiry_lag_bound_seconds"], 0.01);
}

#[test]
fn looking_changes_nothing() {
    let (mut seen, mut unseen) = (busy(), busy());
    seen.engine.config.metrics_show_keys = true;
    for sim in [&mut seen, &mut unseen] {
        sim.client = sim.connect();
        for n in 0..300 {
            sim.run(&format!("set k{n} {n} px {}", 900 + n * 10));
        }
        // Some are dead now, and nobody has removed them.
        sim.clock.advance_ms(2_000);
        sim.run("ping");
    }
    let before = seen.engine.keyspace.db(0).table.len();
    for _ in 0..5 {
        body(&seen, "/");
        body(&seen, "/metrics");
        stats(&seen);
    }
    assert_eq!(seen.engine.keyspace.db(0).table.len(), before);
    seen.engine.keyspace.check();
    let commands = [
        "randomkey",
        "info stats",
        "info expiry",
        "info keyspace",
        "dbsize",
        "debug digest",
    ];
    for command in commands.into_iter().cycle().take(60) {
        let both = [&mut seen, &mut unseen].map(|sim| sim.run(command));
        assert_eq!(both[0], both[1], "{command}");
    }
}

#[test]
fn figures_are_taken_once_a_second() {
    let mut sim = Sim::new();
    let mut browser = Browser::new();
    let mut keys = |sim: &Sim| {
        let request = format!("GET /metrics HTTP/1.1\r\n{HOST}\r\n");
        let answer = browser.send(sim, &[request.as_bytes()]);
        let line = answer
            .lines()
            .find(|line| line.starts_with("mayfly_keys{db=\"0\"}"));
        line.map(str::to_owned)
    };
    assert_eq!(keys(&sim), None);
    sim.expect("set a 1", "+OK");
    assert_eq!(keys(&sim), None);
    sim.advance(FRESH_US / 1_000 - 1);
    assert_eq!(keys(&sim), None);
    sim.advance(1);
    assert_eq!(keys(&sim).as_deref(), Some("mayfly_keys{db=\"0\"} 1"));
}

#[test]
fn many_databases_are_added_up() {
    let config = Config {
        databases: 65_536,
        save: Vec::new(),
        ..Config::default()
    };
    let mut sim = Sim::with(config, 1);
    for db in 0..100 {
        sim.expect(&format!("select {}", db * 655), "+OK");
        sim.expect("mset a 1 b 2", "+OK");
        sim.expect("set c 1 ex 100", "+OK");
    }
    let mut site = Site::default();
    let request = mayfly::web::request::Request {
        method: mayfly::web::request::Method::Get,
        path: "/metrics".into(),
        keeps_alive: true,
    };
    assert_eq!(site.answer(&sim.engine, &request), None);
    let steps = std::iter::from_fn(|| site.step(&sim.engine).then_some(())).count();
    assert!(steps > 5_000, "{steps}");
    let answer = site
        .answer(&sim.engine, &request)
        .expect("the figures are there");
    let text = String::from_utf8(answer.body.to_vec()).expect("it is text");
    let all = samples(&text);
    let keys = all
        .iter()
        .filter(|(name, _)| name.starts_with("mayfly_keys{"));
    assert_eq!(keys.clone().count(), DATABASES_SHOWN_MAX + 1);
    assert_eq!(keys.map(|(_, count)| count).sum::<f64>(), 300.0);
    let others = 100.0 - DATABASES_SHOWN_MAX as f64;
    assert_eq!(all["mayfly_keys{db=\"other\"}"], others * 3.0);
    assert_eq!(all["mayfly_volatile_keys{db=\"other\"}"], others);
    assert_eq!(all["mayfly_expiry_due_keys{within=\"1h\"}"], 100.0);
}

#[test]
fn keys_are_named_only_if_that_is_wanted() {
    let mut sim = Sim::new();
    let names: [&[u8]; 4] = [b"<b>\"&'\\", b"a\x00\xff\n", "é\u{202e}x".as_bytes(), b"zz"];
    for (n, name) in names.iter().enumerate() {
        let ms = (1_000 + n * 100).to_string();
        assert_eq!(
            sim.ask(&[b"set", name, b"1", b"px", ms.as_bytes()]),
            b"+OK\r\n"
        );
    }
    sim.expect("select 9", "+OK");
    sim.expect(&format!("set {} 1 px 1050", "l".repeat(300)), "+OK");
    assert_eq!(stats(&sim)["next_keys"], Value::Null);
    assert!(!body(&sim, "/stats.json").contains("zz"));
    sim.expect("config set metrics-show-keys yes", "+OK");
    let json = stats(&sim);
    let keys = json["next_keys"].as_array().expect("an array");
    let shown: Vec<&str> = keys
        .iter()
        .map(|key| key["name"].as_str().expect("a name"))
        .collect();
    let long = "l".repeat(256) + "...";
    let expected = [
        "<b>\"&'\\\\",
        &long,
        "a\\x00\\xff\\x0a",
        "é\\xe2\\x80\\xaex",
        "zz",
    ];
    assert_eq!(shown, expected);
    assert_eq!(keys[1]["db"], 9);
    assert_eq!(
        keys[0]["deadline_seconds"],
        (crate::sim::START + 1_000) as f64 / 1e3
    );
    for n in 0..100 {
        sim.expect(&format!("set k{n} 1 px {}", 5_000 + n), "+OK");
    }
    let json = stats(&sim);
    assert_eq!(
        json["next_keys"].as_array().map(Vec::len),
        Some(NEXT_KEYS_MAX)
    );
    // The same connection, within the second in which figures are fresh.
    let mut browser = Browser::new();
    let request = format!("GET /stats.json HTTP/1.1\r\n{HOST}\r\n");
    assert!(browser.send(&sim, &[request.as_bytes()]).contains("zz"));
    sim.expect("config set metrics-show-keys no", "+OK");
    assert!(!browser.send(&sim, &[request.as_bytes()]).contains("zz"));
}

#[test]
fn spans_of_the_metrics_are_those_of_the_forecast() {
    assert!(SPANS_SECONDS.is_sorted());
    for (label, seconds) in WITHIN {
        assert!(SPANS_SECONDS.contains(&seconds), "{label}");
    }
}

/// Names with their kinds, from the table of docs/metrics.md.
fn documented() -> Vec<(String, String)> {
    let text = document("metrics.md");
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `mayfly_")?.split(" | ");
        let name = cells.next()?.split('`').next()?;
        Some((format!("mayfly_{name}"), cells.next()?.to_owned()))
    });
    rows.collect()
}

#[test]
fn the_document_lists_every_metric() {
    let own: Vec<(String, String)> = METRICS
        .iter()
        .map(|metric| (metric.name.to_owned(), metric.kind.name().to_owned()))
        .collect();
    assert_eq!(documented(), own);
    let text = body(&busy(), "/metrics");
    for metric in METRICS {
        let heads = format!(
            "# HELP {} {}\n# TYPE {} ",
            metric.name, metric.help, metric.name
        );
        assert_eq!(text.matches(&heads).count(), 1, "{heads}");
        let is_total = metric.name.ends_with("_total");
        assert_eq!(is_total, metric.kind == Kind::Counter, "{}", metric.name);
    }
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let text = document("grafana.json");
    let dashboard: Value = serde_json::from_str(&text).expect("it is JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut asked = 0;
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().expect("a query");
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            for word in query
                .split(|c| !is_name(c))
                .filter(|word| word.starts_with("mayfly_"))
            {
                let is_known = METRICS.iter().any(|metric| {
                    let parts = ["_bucket", "_sum", "_count"];
                    let has_parts = metric.kind == Kind::Histogram;
                    let is_part = |part: &&str| word.strip_suffix(*part) == Some(metric.name);
                    word == metric.name || (has_parts && parts.iter().any(is_part))
                });
                assert!(is_known, "{word}");
                asked += 1;
            }
        }
    }
    assert!(asked > 15, "{asked}");
}

/// A server with a port for metrics, and that port.
fn serving(dir: &TempDir) -> (Server, u16) {
    // Somebody else may take the port between two lines; then the next one is tried.
    for _ in 0..20 {
        let probe = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let port = probe.local_addr().expect("an address").port();
        drop(probe);
        let text = port.to_string();
        let checked = run_to_end(&["--check-config", "--metrics-port", &text]);
        assert!(checked.status.success(), "{}", text_of(&checked));
        let mut command = mayfly();
        command.args(["--metrics-port", &text]);
        let server = Server::launch(dir, command);
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return (server, port);
        }
    }
    panic!("no port was free twice");
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let timeout = Some(Duration::from_millis(DEADLINE_MS));
    stream.set_read_timeout(timeout).expect("a timeout");
    stream
}

/// Reads until the server closes; what came.
fn rest_of(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("not closed: {error}"),
        _ => bytes,
    }
}

fn get(port: u16, path: &str) -> String {
    let mut stream = connect(port);
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is read");
    String::from_utf8(rest_of(&mut stream)).expect("it is text")
}

#[test]
fn the_port_serves_page_metrics_and_figures() {
    let dir = TempDir::new();
    let (server, port) = serving(&dir);
    server.run("SET a 1 PX 3600000", 1);
    let metrics = get(port, "/metrics");
    assert!(metrics.contains("\nmayfly_keys{db=\"0\"} 1\n"), "{metrics}");
    let page = get(port, "/");
    assert!(page.ends_with(PAGE));
    assert!(get(port, "/stats.json").contains("\"volatile_keys\":1"));
    // One connection, many requests.
    let mut stream = connect(port);
    for _ in 0..50 {
        let request = b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request).expect("it is read");
        let mut answer = [0; 1024];
        let length = stream.read(&mut answer).expect("an answer");
        assert!(answer[..length].ends_with(b"404 Not Found\n"));
    }
    // They are not clients, and their memory is counted.
    assert_eq!(server.info("connected_clients"), "1");
    let held: usize = server.info("mem_web").parse().expect("a number");
    assert!((1..100_000).contains(&held), "{held}");
    assert!(
        server
            .log()
            .contains(&format!("Page and metrics on http://127.0.0.1:{port}/"))
    );
}

#[test]
fn the_port_is_set_at_run_time_like_that_of_clients() {
    let dir = TempDir::new();
    let (server, port) = serving(&dir);
    let mut stream = connect(port);
    assert_eq!(server.run("CONFIG SET metrics-port 0", 1), "+OK\r\n");
    assert_eq!(rest_of(&mut stream), b"");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(
        server.run(&format!("CONFIG SET metrics-port {port}"), 1),
        "+OK\r\n"
    );
    assert!(get(port, "/none").starts_with("HTTP/1.1 404 "));
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let other = taken.local_addr().expect("an address").port();
    let reply = server.run(&format!("CONFIG SET metrics-port {other}"), 1);
    let why = "Unable to listen on this port. Check server logs.";
    assert!(
        reply.contains("'metrics-port'") && reply.contains(why),
        "{reply}"
    );
    assert!(get(port, "/none").starts_with("HTTP/1.1 404 "));
    // Both ports or none.
    let probe = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let free = probe.local_addr().expect("an address").port();
    drop(probe);
    let both = format!("CONFIG SET port {free} metrics-port {other}");
    let reply = server.run(&both, 1);
    assert!(reply.contains("'metrics-port'"), "{reply}");
    assert!(TcpStream::connect(("127.0.0.1", free)).is_err());
    assert!(get(port, "/none").starts_with("HTTP/1.1 404 "));
    let other = other.to_string();
    let output = run_to_end(&[
        "--port",
        "0",
        "--unixsocket",
        "/nowhere/s",
        "--metrics-port",
        &other,
    ]);
    assert!(!output.status.success());
    let socket = dir.file("second.sock").display().to_string();
    let output = run_to_end(&[
        "--port",
        "0",
        "--unixsocket",
        &socket,
        "--metrics-port",
        &other,
    ]);
    let text = text_of(&output);
    assert!(text.contains(&format!("127.0.0.1:{other}")), "{text}");
    assert!(
        text.contains("another one can be chosen with --metrics-port"),
        "{text}"
    );
}

#[test]
fn descriptors_are_kept_free_for_the_port() {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let limit = Rlimit {
        current: Some(300),
        maximum: Some(300),
    };
    prlimit(Some(server.pid()), Resource::Nofile, limit).expect("the limit of a child");
    assert_eq!(server.run("CONFIG SET maxclients 268", 1), "+OK\r\n");
    let probe = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let port = probe.local_addr().expect("an address").port();
    drop(probe);
    let reply = server.run(&format!("CONFIG SET metrics-port {port}"), 1);
    assert!(reply.contains("'metrics-port'"), "{reply}");
    assert!(reply.ends_with("try with 188\r\n"), "{reply}");
    let both = format!("CONFIG SET metrics-port {port} maxclients 188");
    assert_eq!(server.run(&both, 1), "+OK\r\n");
    assert!(get(port, "/none").starts_with("HTTP/1.1 404 "));
}

#[test]
fn guests_that_mean_no_good_are_closed_and_disturb_nobody() {
    let dir = TempDir::new();
    let (server, port) = serving(&dir);
    let mut client = server.connect();
    let mut ping = || crate::process::expect(&mut client, "PING", "+PONG");
    // A head that comes slowly, one that does not come, and answers that nobody reads.
    let mut slow = connect(port);
    slow.write_all(b"GET / HTTP/1.1\r\n").expect("it is read");
    let mut silent = connect(port);
    let mut deaf = connect(port);
    deaf.set_nonblocking(true).expect("an option");
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let mut asked = 0;
    while let Ok(sent) = deaf.write(&request) {
        asked += sent;
        ping();
    }
    assert!(asked > 100_000, "{asked}");
    // More than there may be: those too many are closed at once.
    let mut many: Vec<TcpStream> = (0..200).map(|_| connect(port)).collect();
    let closed = many.iter_mut().filter_map(|stream| {
        stream
            .write_all(b"GET /none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .ok()?;
        Some(rest_of(stream).is_empty())
    });
    let closed = closed.filter(|&is_closed| is_closed).count();
    assert!((100..200).contains(&closed), "{closed}");
    ping();
    drop(many);
    // Bytes that are no request, and a body that nobody wants.
    for (bytes, status) in [
        (&b"*1\r\n$4\r\nPING\r\n"[..], "400"),
        (&b"\x16\x03\x01\x00\xf4\x01\x00\n"[..], "400"),
        (
            &[
                b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
                vec![b'x'; 300_000],
            ]
            .concat(),
            "405",
        ),
        (&vec![b'x'; 300_000], "431"),
    ] {
        let answer = wait_for("a place", || {
            let mut stream = connect(port);
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(Shutdown::Write);
            let answer = rest_of(&mut stream);
            answer.starts_with(b"HTTP/1.1 ").then_some(answer)
        });
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
        ping();
    }
    let held: usize = server.info("mem_web").parse().expect("a number");
    assert!(held < 2_000_000, "{held}");
    assert_eq!(rest_of(&mut slow), b"");
    assert_eq!(rest_of(&mut silent), b"");
    wait_for("the deaf one's end", || {
        let end = deaf.write(b"x").err()?.kind();
        (end != ErrorKind::WouldBlock).then_some(())
    });
    ping();
    wait_for("no guest", || (server.info("mem_web") == "0").then_some(()));
}
