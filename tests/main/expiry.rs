//! EXPIRY: what the index knows of coming deadlines, against deadlines that the tests keep
//! themselves.

use mayfly::clock::UnixMillis;
use mayfly::store::forecast::LOOKUPS_MAX;

use crate::sim::{START, Sim};

/// The integers of a reply, in order.
fn integers(reply: &str) -> Vec<i64> {
    let words = reply.split(' ').filter_map(|word| word.strip_prefix(':'));
    words.map(|word| word.parse().expect("a number")).collect()
}

/// Keys and bytes of each range of a forecast.
fn forecast(sim: &mut Sim, request: &str) -> Vec<(i64, i64)> {
    let reply = sim.run(request);
    let tail = |range: &str| {
        let found = integers(range);
        (found[found.len() - 2], found[found.len() - 1])
    };
    reply.split("after_ms").skip(1).map(tail).collect()
}

#[test]
fn a_forecast_counts_each_key_once() {
    let mut sim = Sim::new();
    let none = "$8 after_ms :4000 $9 within_ms $-1 $4 keys :0 $5 bytes :0";
    let ranges: Vec<String> = [(0, 1000), (1000, 2000), (2000, 4000)]
        .map(|(after, within)| {
            format!("*8 $8 after_ms :{after} $9 within_ms :{within} $4 keys :0 $5 bytes :0")
        })
        .into();
    let empty = format!("*4 {} *8 {none}", ranges.join(" "));
    sim.expect("expiry forecast buckets 3", &empty);
    for (ms, value) in [
        (1, "v"),
        (1_000, "v"),
        (1_001, "vv"),
        (4_001, "v"),
        (9_000_000_000_i64, "v"),
    ] {
        sim.expect(&format!("set k{ms} {value} px {ms}"), "+OK");
    }
    sim.script("set lasting v=>+OK\nselect 9=>+OK\nset other v px 1500=>+OK\nselect 0=>+OK");
    let keys = |ranges: Vec<(i64, i64)>| ranges.iter().map(|range| range.0).collect::<Vec<i64>>();
    assert_eq!(
        keys(forecast(&mut sim, "expiry forecast buckets 3")),
        [2, 2, 0, 2]
    );
    assert_eq!(
        keys(forecast(&mut sim, "expiry forecast db 0 buckets 3")),
        [2, 1, 0, 2]
    );
    assert_eq!(
        keys(forecast(&mut sim, "EXPIRY FORECAST DB 9 BUCKETS 1")),
        [0, 1]
    );
    assert_eq!(forecast(&mut sim, "expiry forecast").len(), 21);
    // A range that only few keys fall in is sized as well as one of many.
    sim.script("select 9=>+OK\nflushdb=>+OK");
    for i in 0..3_000 {
        sim.run(&format!("set small{i:04} {} px 100000", "x".repeat(10)));
    }
    sim.run(&format!("set large {} px 900", "x".repeat(10_000)));
    let ranges = forecast(&mut sim, "expiry forecast db 9 buckets 8");
    assert_eq!(keys(ranges.clone()), [1, 0, 0, 0, 0, 0, 0, 3_000, 0]);
    let large = integers(&sim.run("memory usage large"))[0];
    let small = integers(&sim.run("memory usage small0007"))[0];
    assert_eq!(ranges[0].1, large);
    assert_eq!(ranges[7].1, 3_000 * small);
}

#[test]
fn a_range_lists_the_keys_of_a_window_soonest_first() {
    let mut sim = Sim::new();
    let at = |ms: i64| START + ms;
    for ms in [3, 10, 10_000, 20_000, 40_000] {
        sim.expect(&format!("set k{ms} v px {ms}"), "+OK");
    }
    let row = |ms: i64| {
        let key = format!("k{ms}");
        format!("*3 :0 ${} {key} :{}", key.len(), at(ms))
    };
    let listing = |until: Option<i64>, rows: &[i64]| {
        let until = until.map_or("$-1".to_owned(), |until| format!(":{until}"));
        let rows: Vec<String> = rows.iter().map(|&ms| row(ms)).collect();
        let keys = format!("*{} {}", rows.len(), rows.join(" "));
        format!("*4 $14 complete_until {until} $4 keys {}", keys.trim_end())
    };
    for (window, until, rows) in [
        ("- +", None, vec![3, 10, 10_000, 20_000, 40_000]),
        ("+10 +20000", None, vec![10, 10_000, 20_000]),
        ("+11 +19999", None, vec![10_000]),
        (&format!("{} {}", at(10), at(10)), None, vec![10]),
        ("- + count 2", Some(at(10_000)), vec![3, 10]),
        ("- + count 5", None, vec![3, 10, 10_000, 20_000, 40_000]),
        ("- + match k?0* COUNT 2", Some(at(20_000)), vec![10, 10_000]),
        ("- + match k9*", None, vec![]),
        ("- + db 1", None, vec![]),
        ("+50000 +", None, vec![]),
    ] {
        sim.expect(&format!("expiry range {window}"), &listing(until, &rows));
    }
    // What is dead is no key, whether it was removed or not.
    sim.script("expiry pause=>+OK\n+10");
    let rest = listing(None, &[10_000, 20_000, 40_000]);
    sim.expect("expiry range - +", &rest);
    sim.expect("expiry range - +", &rest);
    // A deadline that was moved is where it is now.
    sim.script("pexpire k10000 100000=>:1\npexpire k40000 1=>:1");
    let moved = format!(
        "*4 $14 complete_until $-1 $4 keys *2 *3 :0 $6 k40000 :{} *3 :0 $6 k20000 :{}",
        at(11),
        at(20_000)
    );
    sim.expect("expiry range - +50000", &moved);
}

#[test]
fn the_next_keys_are_those_of_all_databases() {
    let mut sim = Sim::new();
    sim.expect("expiry next", "*4 $14 complete_until $-1 $4 keys *0");
    sim.script("set c v px 30=>+OK\nset a v px 10=>+OK\nset never v=>+OK\nselect 5=>+OK");
    sim.script("set b v px 20=>+OK\nset d v px 40=>+OK");
    let row = |db: i64, key: &str, ms: i64| format!("*3 :{db} $1 {key} :{}", START + ms);
    let (a, b, c) = (row(0, "a", 10), row(5, "b", 20), row(0, "c", 30));
    let until = |ms: i64| format!("*4 $14 complete_until :{} $4 keys", START + ms);
    sim.expect("expiry next", &format!("{} *1 {a}", until(20)));
    sim.expect(
        "expiry next count 3",
        &format!("{} *3 {a} {b} {c}", until(40)),
    );
    sim.advance(10);
    sim.expect("expiry next count 2", &format!("{} *2 {b} {c}", until(40)));
}

/// However many keys there are, some thousands are looked up, and the reply says up to when it is
/// complete.
#[test]
fn a_listing_of_many_keys_says_how_far_it_is_complete() {
    let mut sim = Sim::new();
    let count = 3 * LOOKUPS_MAX;
    for i in 0..count {
        sim.run(&format!("set k{i} v px {}", 5_000_000 + i));
    }
    let mut from = START;
    let mut seen = Vec::new();
    // From where one listing ends to the next, until all have been seen.
    for _ in 0..10 {
        let reply = sim.run(&format!("expiry range {from} + count {count}"));
        let is_complete = reply.contains("complete_until $-1");
        let found = integers(&reply);
        let (until, rows) = match is_complete {
            true => (i64::MAX, &found[..]),
            false => (found[0], &found[1..]),
        };
        let deadlines = rows.chunks(2).map(|row| row[1]);
        seen.extend(deadlines.filter(|&at| at < until));
        from = until;
        if is_complete {
            break;
        }
    }
    let all: Vec<i64> = (0..count as i64).map(|i| START + 5_000_000 + i).collect();
    assert_eq!(seen, all);
    // With a small count none is promised that was not looked at.
    let reply = sim.run("expiry range - + count 10");
    let found = integers(&reply);
    assert!(found[0] <= START + 5_000_000, "{}", found[0]);
    assert_eq!(found.len(), 1 + 20);
}

#[test]
fn lags_of_the_job_and_of_commands_are_told_apart() {
    let mut sim = Sim::new();
    let empty =
        "$8 removals :0 $6 p50_ms :0 $6 p99_ms :0 $7 p999_ms :0 $6 max_ms :0 $9 histogram *0";
    let pair = |first: &str, second: &str| {
        format!("*4 $11 since_start *12 {first} $11 last_minute *12 {second}")
    };
    let lag = |active: &str, lazy: &str| {
        format!("*6 $17 expire-max-lag-ms :100 $6 active {active} $4 lazy {lazy}")
    };
    let none = pair(empty, empty);
    sim.expect("expiry lag", &lag(&none, &none));
    sim.script("set a v px 10=>+OK\nset b v px 10=>+OK\nexpiry pause=>+OK\n+15\nget a=>$-1");
    let figures = |ms: i64| {
        format!(
            "$8 removals :1 $6 p50_ms :{ms} $6 p99_ms :{ms} $7 p999_ms :{ms} $6 max_ms :{ms} \
             $9 histogram *2 :{ms} :1"
        )
    };
    let five = pair(&figures(5), &figures(5));
    sim.expect("expiry lag", &lag(&none, &five));
    sim.expect("expiry resume", "+OK");
    sim.advance(2);
    let seven = pair(&figures(7), &figures(7));
    sim.expect("expiry lag", &lag(&seven, &five));
    sim.advance(70_000);
    let (five, seven) = (pair(&figures(5), empty), pair(&figures(7), empty));
    sim.expect("expiry lag", &lag(&seven, &five));
    sim.expect("config resetstat", "+OK");
    sim.expect("expiry lag", &lag(&none, &none));
}

#[test]
fn a_pause_ends_by_itself_or_when_it_is_ended() {
    let mut sim = Sim::new();
    let removed = |sim: &Sim| sim.engine.keyspace.stats.expired_actively;
    sim.script("set a v px 10=>+OK\nset b v px 10=>+OK\nexpiry pause 100=>+OK");
    sim.advance(99);
    assert_eq!(removed(&sim), 0);
    sim.script("get a=>$-1\nexists b=>:0\ndbsize=>:0");
    assert_eq!(sim.engine.next_wakeup_ms(), Some(1));
    sim.advance(1);
    assert!(!sim.engine.is_expiry_paused());
    sim.script("set c v px 10=>+OK\nexpiry pause=>+OK");
    sim.advance(1_000_000);
    assert_eq!(removed(&sim), 0);
    assert_eq!(sim.engine.keyspace.db(0).index.len(), 1);
    sim.expect("expiry resume", "+OK");
    sim.advance(1);
    assert_eq!(removed(&sim), 1);
    // One replaces the other.
    sim.script("expiry pause 1000000=>+OK\nexpiry pause 5=>+OK");
    sim.advance(5);
    assert!(!sim.engine.is_expiry_paused());
    sim.script("expiry pause=>+OK\nexpiry pause 0=>+OK");
    sim.advance(1);
    assert!(!sim.engine.is_expiry_paused());
}

#[test]
fn what_expiry_refuses() {
    Sim::new().script(
        "expiry => {wrong number of arguments for 'expiry' command}
        expiry foo => {unknown subcommand 'foo'. Try EXPIRY HELP.}
        expiry forecast db => {syntax error}
        expiry forecast db x => {value is not an integer or out of range}
        expiry forecast db 16 => {DB index is out of range}
        expiry forecast db -1 => {DB index is out of range}
        expiry forecast buckets 0 => {buckets must be between 1 and 40 inclusive}
        expiry forecast buckets 41 => {buckets must be between 1 and 40 inclusive}
        expiry forecast count 3 => {syntax error}
        expiry range - => {wrong number of arguments for 'expiry|range' command}
        expiry range x + => {value is not an integer or out of range}
        expiry range - +x => {value is not an integer or out of range}
        expiry range - +9223372036854775807 => {value is not an integer or out of range}
        expiry range + - => {the window ends before it begins}
        expiry range +10 +9 => {the window ends before it begins}
        expiry range - + count 0 => {count should be greater than 0}
        expiry range - + count -1 => {count should be greater than 0}
        expiry range - + count 1.5 => {value is not an integer or out of range}
        expiry range - + match => {syntax error}
        expiry range - + buckets 3 => {syntax error}
        expiry next count 0 => {count should be greater than 0}
        expiry next db 0 => {syntax error}
        expiry lag now => {wrong number of arguments for 'expiry|lag' command}
        expiry pause -1 => {timeout is negative}
        expiry pause 9223372036854775807 => {timeout is out of range}
        expiry pause x => {timeout is not an integer or out of range}
        expiry resume 1 => {wrong number of arguments for 'expiry|resume' command}",
    );
}

#[test]
fn figures_are_those_of_info() {
    let mut sim = Sim::new();
    sim.expect("set a v px 5000", "+OK");
    let info = sim.run("info expiry");
    let stats = sim.run("expiry stats");
    let figures = info.split_once("Expiry ").expect("a section").1;
    for line in figures.split(' ').filter(|line| line.contains(':')) {
        let (name, value) = line.split_once(':').expect("a colon");
        let shown = match value.parse::<i64>() {
            Ok(number) => format!("${} {name} :{number}", name.len()),
            Err(_) => format!("${} {name} ${} {value}", name.len(), value.len()),
        };
        assert!(stats.contains(&shown), "{shown} in {stats}");
    }
    assert!(stats.contains("keys_due_within_10s :1"));
}

/// Sums of a forecast are the keys there are, and each is where a walk over all keys finds it, with
/// deadlines that were moved, keys that were removed, and time that goes on.
#[test]
fn forecasts_agree_with_a_walk_over_all_keys() {
    let mut sim = Sim::new();
    let mut seed = 7_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for round in 0..40 {
        for _ in 0..50 {
            let (key, exponent) = (random(400), random(26));
            let ms = 1 + random(1 << exponent);
            match random(4) {
                0 => sim.run(&format!("pexpire k{key} {ms}")),
                1 => sim.run(&format!("del k{key}")),
                _ => sim.run(&format!("set k{key} v px {ms}")),
            };
        }
        sim.advance(random(1 << (round % 18)));
        let now = sim.engine.reading.now;
        let mut deadlines: Vec<UnixMillis> = Vec::new();
        sim.engine.keyspace.db(0).table.for_each(|slot| {
            deadlines.extend(slot.deadline().map(|deadline| deadline.0));
        });
        let ranges = forecast(&mut sim, "expiry forecast buckets 26");
        for (range, &(keys, bytes)) in ranges.iter().enumerate() {
            let end = |range: usize| now.plus(1_000 << range);
            let is_in = |at: &&UnixMillis| {
                (range == 0 || **at > end(range - 1)) && (range == 26 || **at <= end(range))
            };
            let expected = deadlines.iter().filter(is_in).count() as i64;
            assert_eq!(keys, expected, "range {range} of {ranges:?}");
            assert_eq!(bytes > 0, keys > 0);
        }
        let mut sorted: Vec<i64> = deadlines
            .iter()
            .filter(|&&at| at > now)
            .map(|at| at.0)
            .collect();
        sorted.sort_unstable();
        let listed = integers(&sim.run("expiry range - + count 1000"));
        let listed: Vec<i64> = listed.chunks(2).map(|row| row[1]).collect();
        assert_eq!(listed, sorted);
    }
}

/// It is removed late after its deadline, but not after it was given that.
#[test]
fn a_deadline_in_the_past_is_no_lag() {
    let mut sim = Sim::new();
    sim.script("set k v pxat 1 => +OK\nget k => $-1\nset l v exat 5 => +OK");
    sim.advance(20);
    assert!(sim.engine.keyspace.lag.of_both().max_ms() <= 20);
    assert_eq!(sim.engine.keyspace.lag.of_both().removals(), 2);
}
