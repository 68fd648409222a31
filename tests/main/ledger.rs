//! The ledger of memory beside what the allocator has handed out, for data and clients of many
//! shapes.

use std::fmt::Write as _;

use crate::process::{Server, ask, info};
use crate::sim::TempDir;

/// How far the ledger may be from the allocator: so many bytes,
const APART_BYTES_MAX: f64 = 1_048_576.0;
/// and such a part of all.
const APART_PART_MAX: f64 = 0.05;
/// Requests sent before replies are read.
const BATCH: usize = 500;

/// Requests with the number of lines of their replies.
type Shape = (&'static str, Box<dyn Iterator<Item = (String, usize)>>);

fn shape<I>(name: &'static str, requests: I) -> Shape
where
    I: Iterator<Item = String> + 'static,
{
    (name, Box::new(requests.map(|request| (request, 1))))
}

/// `count` items as `text` makes them, `each` of them to a request that starts with `head`.
fn grouped(
    head: &'static str,
    count: usize,
    each: usize,
    text: impl Fn(usize) -> String + 'static,
) -> impl Iterator<Item = String> {
    (0..count).step_by(each).map(move |first| {
        let items = (first..first + each).map(&text);
        items.fold(head.to_owned(), |request, item| request + " " + &item)
    })
}

/// `keys` requests, each with ten small items of a key of its own.
fn small(
    command: &'static str,
    keys: usize,
    item: impl Fn(usize) -> String + 'static,
) -> impl Iterator<Item = String> {
    (0..keys).map(move |key| {
        let mut request = format!("{command} {command}:{key}");
        for number in 0..10 {
            write!(request, " {}", item(key + number)).expect("a string takes all");
        }
        request
    })
}

fn strings() -> Vec<Shape> {
    let long = "v".repeat(50_000);
    let grown = "g".repeat(7_000);
    let growing = move |number: usize| format!("append grown:{} {grown}", number % 300);
    vec![
        shape("nothing", std::iter::empty()),
        shape(
            "small strings",
            (0..150_000).map(|number| format!("set key:{number:010} {number:032}")),
        ),
        shape(
            "volatile strings",
            (0..150_000).map(|n| format!("set key:{n:010} {n:032} px {}", 3_600_000 + n * 977)),
        ),
        shape(
            "long strings",
            (0..400).map(move |number| format!("set long:{number} {long}")),
        ),
        shape("growable strings", (0..2_400).map(growing)),
    ]
}

fn collections() -> Vec<Shape> {
    let pair = |n: usize| format!("field:{n} value:{n:020}");
    let scored = |n: usize| format!("{} member:{n:08}", (n * 7_919) % 100_003);
    let dated = |n: usize| format!("hsetex dated ex {} fields 1 field:{n} {n:020}", 100 + n);
    let dated_small = |n: usize| {
        format!(
            "hsetex dated:{n} ex {} fields 2 a {n:010} b {n:010}",
            5_000 + n
        )
    };
    vec![
        shape(
            "small lists",
            small("rpush", 30_000, |n| format!("item:{n:08}")),
        ),
        shape(
            "a big list",
            grouped("rpush l", 300_000, 100, |n| format!("item:{n:012}")),
        ),
        shape("small hashes", small("hset", 20_000, pair)),
        shape("a big hash", grouped("hset h", 200_000, 100, pair)),
        shape("small dated hashes", (0..50_000).map(dated_small)),
        shape("a big dated hash", (0..100_000).map(dated)),
        shape(
            "small sets of integers",
            small("sadd", 40_000, |n| n.to_string()),
        ),
        shape("small sets", small("sadd", 30_000, |n| format!("m{n}"))),
        shape(
            "a big set",
            grouped("sadd s", 300_000, 100, |n| format!("member:{n:08}")),
        ),
        shape("small sorted sets", small("zadd", 20_000, scored)),
        shape("a big sorted set", grouped("zadd z", 200_000, 100, scored)),
        shape(
            "a sorted set of long members",
            (0..20_000).map(|n| format!("zadd long {n} {n:0500}")),
        ),
    ]
}

fn streams() -> Vec<Shape> {
    let entry = |n: usize| format!("xadd x {n}-1 temperature {n} place {n:010}");
    let taken = ["xgroup create x g 0".to_owned()]
        .into_iter()
        .chain((0..500).map(|n| {
        format!(
            "eval \"redis.call('xreadgroup','group','g','c{n}','count','100','streams','x','>')\" 0"
        )
    }));
    vec![
        shape(
            "small streams",
            (0..10_000).map(|n| format!("xadd x:{n} * field {n:020}")),
        ),
        shape(
            "a stream with what is pending",
            (1..=100_000).map(entry).chain(taken),
        ),
    ]
}

fn others() -> Vec<Shape> {
    let body = |n: usize| format!("script load \"return '{n:01500}'\"");
    let channels = (0..30_000).map(|n| (format!("subscribe news:{:08}", n * 7_919 % 30_011), 6));
    let patterns = (0..30_000).map(|n| (format!("psubscribe news:{:08}*", n * 7_919 % 30_011), 6));
    vec![
        shape("scripts", (0..3_000).map(body)),
        ("channels", Box::new(channels)),
        ("patterns", Box::new(patterns)),
        shape(
            "a transaction",
            ["multi".to_owned()]
                .into_iter()
                .chain((0..50_000).map(|n| format!("set key:{n} {n:050}"))),
        ),
        shape(
            "watched keys",
            (0..30_000).map(|n| format!("watch key:{n:020}")),
        ),
    ]
}

/// Loads a shape into a server of its own; what is wrong with its ledger.
fn difference((name, mut requests): Shape) -> Option<String> {
    let dir = TempDir::new();
    let server = Server::start(&dir);
    let mut stream = server.connect();
    loop {
        let (mut text, mut lines) = (String::new(), 0);
        for (request, replies) in requests.by_ref().take(BATCH) {
            text += &request;
            text += "\r\n";
            lines += replies;
        }
        if lines == 0 {
            break;
        }
        let replies = ask(&mut stream, &text, lines).expect("replies");
        let error = replies.lines().find(|line| line.starts_with('-'));
        assert_eq!(error, None, "{name}");
    }
    // Another client asks: this one may be a subscriber.
    let mut stream_of_info = server.connect();
    let mut number = |field: &str| {
        let text = info(&mut stream_of_info, field);
        text.parse::<f64>().expect("a number")
    };
    let (used, counted) = (number("used_memory"), number("mem_counted"));
    let apart = counted - used;
    println!(
        "{name}: used {used}, counted {counted}, {:+.2} %",
        apart / used * 100.0
    );
    (apart.abs() > APART_BYTES_MAX + used * APART_PART_MAX)
        .then(|| format!("{name}: used {used}, counted {counted}"))
}

#[test]
fn the_ledger_says_what_the_allocator_says() {
    let shapes = strings().into_iter().chain(collections());
    let shapes = shapes.chain(streams()).chain(others());
    let faults: Vec<String> = shapes.filter_map(difference).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}
