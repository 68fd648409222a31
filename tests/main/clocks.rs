//! Clocks that step: deadlines follow the server's own time, or the wall clock if that is wanted.

use mayfly::clock::{Clock, Reading, UnixMillis};
use mayfly::command::dispatch::{Outside, run_ready};
use mayfly::config::{Config, NotifyFlags};
use mayfly::engine::session::SessionKey;
use mayfly::engine::{Engine, Origin};
use mayfly::store::collection::for_each_element;

use crate::sim::{START, Sim, TempDir};

const HOUR_MS: i64 = 3_600_000;

#[test]
fn a_step_of_the_wall_clock_moves_no_ttl() {
    for step_ms in [HOUR_MS, -HOUR_MS] {
        let mut sim = Sim::new();
        sim.script("set k v px 1000=>+OK\nset f v=>+OK");
        sim.expect("pexpiretime k", &format!(":{}", START + 1_000));
        sim.clock.step_wall_ms(step_ms);
        let wall = START + step_ms;
        sim.expect("pttl k", ":1000");
        sim.expect("pexpiretime k", &format!(":{}", wall + 1_000));
        assert!(
            sim.run("time")
                .starts_with(&format!("*2 $10 {} ", wall / 1000))
        );
        // Absolute times are the wall clock's.
        sim.expect(&format!("pexpireat f {}", wall + 500), ":1");
        sim.script("pttl f=>:500\n+499\nexists f=>:1\n+1\nexists f=>:0");
        sim.script("+499\nget k=>$1 v\n+1\nget k=>$-1");
        sim.engine.keyspace.check();
    }
}

/// The wall clock was set by parts of a millisecond, at any microsecond of one.
#[test]
fn no_key_has_more_time_left_than_was_asked_for_or_lives_past_its_unix_time() {
    for step_us in [
        0,
        1,
        499,
        999,
        1_000,
        1_001,
        -1,
        -999,
        -1_000,
        -1_001,
        3_600_000_500,
    ] {
        let mut sim = Sim::new();
        sim.clock.step_wall_us(step_us);
        for _ in 0..50 {
            sim.clock.advance_us(137);
            let wall_us = sim.clock.read().wall_us;
            let time = format!("*2 $10 {} ", wall_us / 1_000_000);
            let us = (wall_us % 1_000_000).to_string();
            sim.expect("time", &format!("{time}${} {us}", us.len()));
            let at_ms = wall_us.div_euclid(1_000) + 10;
            sim.expect(&format!("set k v pxat {at_ms}"), "+OK");
            sim.expect("pexpiretime k", &format!(":{at_ms}"));
            let left_ms: i64 = sim.run("pttl k")[1..].parse().expect("a number");
            let most = 10 - i64::from(step_us % 1_000 != 0);
            assert!((most..=10).contains(&left_ms), "{step_us}: {left_ms}");
            // Relative times are kept to the millisecond.
            sim.script("set r v px 10=>+OK\npttl r=>:10");
            let left_us = at_ms * 1_000 - sim.clock.read().wall_us;
            sim.clock.advance_us(left_us as u64);
            sim.expect("get k", "$-1");
        }
    }
}

/// A machine whose server's time is the wall clock: `expire-clock wall`.
struct WallClock {
    uptime_ms: i64,
    step_ms: i64,
}

impl Outside for WallClock {
    fn attend(&mut self, _: &mut Engine) {}
}

impl Clock for WallClock {
    fn read(&mut self) -> Reading {
        let now = START + self.uptime_ms + self.step_ms;
        Reading {
            now: UnixMillis(now),
            monotonic_us: 1_000_000 + self.uptime_ms as u64 * 1000,
            wall_us: now * 1000,
            wall_offset_ms: 0,
            wall_steps: 0,
            wall_step_ms: 0,
        }
    }
}

/// A server that follows the wall clock, and one client that is told of deaths.
struct WallSim {
    engine: Engine,
    clock: WallClock,
    client: SessionKey,
    listener: SessionKey,
}

impl WallSim {
    fn new() -> WallSim {
        let mut clock = WallClock {
            uptime_ms: 0,
            step_ms: 0,
        };
        let config = Config {
            notify_keyspace_events: NotifyFlags::parse("Ex").expect("flags"),
            ..Config::default()
        };
        let mut engine = Engine::new(config, clock.read(), 1);
        let client = engine.connect(Origin::default());
        let listener = engine.connect(Origin::default());
        let mut sim = WallSim {
            engine,
            clock,
            client,
            listener,
        };
        sim.send(listener, "subscribe __keyevent@0__:expired");
        sim
    }

    fn send(&mut self, client: SessionKey, request: &str) -> String {
        self.engine
            .feed(client, format!("{request}\r\n").as_bytes());
        run_ready(&mut self.engine, &mut self.clock);
        self.received(client)
    }

    fn received(&mut self, client: SessionKey) -> String {
        let bytes = self.engine.sessions[client].output.take_all();
        let text = String::from_utf8(bytes).expect("text");
        text.replace("\r\n", " ").trim_end().to_owned()
    }

    #[track_caller]
    fn expect(&mut self, request: &str, reply: &str) {
        assert_eq!(self.send(self.client, request), reply, "{request}");
    }

    fn advance(&mut self, ms: i64) {
        self.clock.uptime_ms += ms;
        self.engine.run_jobs(&mut self.clock, true);
        self.engine.keyspace.check();
    }

    /// How many deaths were told since the last look.
    fn deaths(&mut self) -> usize {
        self.received(self.listener).matches("message").count()
    }
}

#[test]
fn with_the_wall_clock_a_step_forward_is_time_that_passed() {
    let mut sim = WallSim::new();
    sim.expect("set k v px 1000", "+OK");
    sim.expect("set far v ex 7200", "+OK");
    sim.clock.step_ms = HOUR_MS;
    sim.expect("get k", "$-1");
    assert_eq!(sim.deaths(), 1);
    sim.expect("pttl far", &format!(":{}", 7_200_000 - HOUR_MS));
    sim.advance(1);
    sim.expect("dbsize", ":1");
    sim.clock.step_ms += HOUR_MS;
    // Nobody asks for it; the job finds it.
    sim.advance(20);
    assert_eq!(sim.deaths(), 1);
    sim.expect("dbsize", ":0");
}

#[test]
fn with_the_wall_clock_a_step_back_lengthens_ttls() {
    let mut sim = WallSim::new();
    sim.advance(60_000);
    sim.expect("set k v px 1000", "+OK");
    sim.advance(500);
    sim.clock.step_ms = -HOUR_MS;
    sim.advance(0);
    sim.expect("pttl k", &format!(":{}", HOUR_MS + 500));
    sim.expect("dbsize", ":1");
    // A key that is made in the time that comes twice dies in time all the same.
    sim.expect("set new v px 1000", "+OK");
    for _ in 0..999 {
        sim.advance(1);
        assert_eq!(sim.deaths(), 0);
    }
    sim.expect("dbsize", ":2");
    sim.expect("get new", "$1 v");
    sim.advance(1);
    sim.expect("get new", "$-1");
    assert_eq!(sim.deaths(), 1);
    sim.expect("set idle v px 1000", "+OK");
    sim.advance(1_018);
    assert_eq!(sim.deaths(), 1, "18 ms after the deadline");
    sim.advance(HOUR_MS - 3_000);
    sim.expect("exists k", ":1");
    sim.advance(3_000);
    assert_eq!(sim.deaths(), 1);
    sim.expect("dbsize", ":0");
}

/// What was given as a moment follows the wall clock when that is set, and what was given as a span
/// does not, however either was given.
#[test]
fn moments_follow_the_wall_clock_and_spans_do_not() {
    for step_ms in [HOUR_MS, -HOUR_MS, 1_000, -5_000] {
        let mut sim = Sim::new();
        let at = START + 2 * HOUR_MS;
        for request in [
            format!("set pxat v pxat {at}"),
            format!("set exat v exat {}", at / 1_000),
            format!("msetex 1 soft v pxat {at} soft {}", at - 10_000),
            format!("set sliding v pxat {at} sliding 5000"),
            "set ex v ex 7200".to_owned(),
            "set px v px 7200000 sliding".to_owned(),
            "set both v ex 10".to_owned(),
            format!("pexpireat both {at}"),
            "set other v".to_owned(),
            format!("expireat other {}", at / 1_000),
            "expire other 7200".to_owned(),
        ] {
            let reply = sim.run(&request);
            assert!(!reply.starts_with('-'), "{request}: {reply}");
        }
        sim.clock.step_wall_ms(step_ms);
        sim.advance(0);
        assert!(!sim.engine.keyspace.is_shifting());
        sim.engine.keyspace.check();
        let left = 2 * HOUR_MS - step_ms;
        for key in ["pxat", "exat", "soft", "sliding", "both"] {
            sim.expect(&format!("pttl {key}"), &format!(":{left}"));
            sim.expect(&format!("pexpiretime {key}"), &format!(":{at}"));
        }
        for key in ["ex", "px", "other"] {
            sim.expect(&format!("pttl {key}"), &format!(":{}", 2 * HOUR_MS));
        }
        sim.expect(
            "getsoft soft",
            &format!("*3 $1 v $5 fresh :{}", left - 10_000),
        );
        // What is given since, and what is copied, is moved no second time.
        sim.run(&format!("set new v pxat {at}"));
        sim.script("copy pxat copy => :1\nrename exat renamed => +OK");
        sim.clock.step_wall_ms(HOUR_MS / 2);
        sim.advance(0);
        for key in ["pxat", "new", "copy", "renamed"] {
            sim.expect(&format!("pexpiretime {key}"), &format!(":{at}"));
        }
        sim.engine.keyspace.check();
        let left = left - HOUR_MS / 2;
        sim.clock.advance_ms(left as u64 - 1);
        sim.script("exists pxat new copy renamed soft both => :6\n+1");
        sim.script("exists pxat new copy renamed soft both => :0");
    }
}

/// A file that was loaded while the clock was slow: when that is noticed, its keys have what they
/// should have had.
#[test]
fn what_was_loaded_by_a_slow_clock_is_put_right() {
    let dir = TempDir::new();
    let mut sim = Sim::saving_in(&dir, 1);
    sim.script(
        "
        set k v ex 10800 => +OK
        hset h f v => :1
        hexpire h 10800 fields 1 f => *1 :1
        zadd z 1 m => :1
        zexpire z 10800 members 1 m => *1 :1
        save => +OK
        ",
    );
    let config = sim.engine.config.clone();
    let mut late = Sim::with(config, 2);
    late.clock.step_wall_ms(-2 * HOUR_MS);
    late.advance(0);
    late.engine.load_now().expect("a snapshot");
    late.expect("pttl k", &format!(":{}", 5 * HOUR_MS));
    late.clock.step_wall_ms(2 * HOUR_MS);
    late.advance(0);
    late.expect("pttl k", &format!(":{}", 3 * HOUR_MS));
    late.expect("hpttl h fields 1 f", &format!("*1 :{}", 3 * HOUR_MS));
    late.expect("zpttl z members 1 m", &format!("*1 :{}", 3 * HOUR_MS));
    late.engine.keyspace.check();
}

/// Numbers below what each call says, always the same.
fn draws() -> impl FnMut(u64) -> u64 {
    let mut seed = 1_u64;
    move |below| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    }
}

/// Deadlines are moved in steps; those of keys that change meanwhile, too, and none twice.
#[test]
fn keys_that_change_while_deadlines_move() {
    let mut sim = Sim::new();
    let at = START + 10 * HOUR_MS;
    for i in 0..20_000 {
        sim.run(&format!("set k{i} v pxat {at}"));
    }
    sim.clock.cost_us = 100;
    let mut random = draws();
    let mut steps = 0;
    for step_ms in [HOUR_MS, -2 * HOUR_MS, 3 * HOUR_MS] {
        sim.clock.step_wall_ms(step_ms);
        for round in 0..10_000 {
            sim.engine.run_jobs(&mut sim.clock, false);
            if !sim.engine.keyspace.is_shifting() && round > 0 {
                break;
            }
            steps += 1;
            let (one, other) = (random(20_000), random(20_000));
            sim.run(&format!("set k{one} v pxat {at}"));
            sim.run(&format!("copy k{other} k{} replace", random(20_000)));
            sim.run(&format!("rename k{} k{other}", random(20_000)));
            sim.run(&format!("append k{} x", random(20_000)));
            sim.run(&format!("del k{}", random(20_000)));
        }
        sim.engine.keyspace.check();
    }
    assert!(steps > 10, "{steps}");
    sim.clock.cost_us = 0;
    let offset_ms = sim.clock.read().wall_offset_ms;
    assert!(sim.engine.keyspace.db(0).index.len() > 10_000);
    sim.engine.keyspace.db(0).table.for_each(|slot| {
        if let Some(deadline) = slot.deadline() {
            assert_eq!(deadline.0.0 + offset_ms, at);
        }
    });
}

/// Small collections, and big ones.
fn collections_of_both_sizes() -> [Sim; 2] {
    [128, 0].map(|entries| {
        let mut sim = Sim::new();
        for kind in ["hash", "set", "zset"] {
            let request = format!("config set {kind}-max-listpack-entries {entries}");
            sim.expect(&request, "+OK");
        }
        sim
    })
}

/// Fields and members know as keys do how their deadlines were given.
#[test]
fn moments_of_members_follow_the_wall_clock_and_spans_do_not() {
    for (mut sim, step_ms) in [HOUR_MS, -HOUR_MS, 1_000, -5_000]
        .into_iter()
        .flat_map(|step_ms| collections_of_both_sizes().map(|sim| (sim, step_ms)))
    {
        let at = START + 2 * HOUR_MS;
        let seconds = at / 1_000;
        for request in [
            "hset h a 1 b 1 c 1 e 1 f 1 s 1 t 1".to_owned(),
            format!("hpexpireat h {at} fields 1 a"),
            format!("hexpireat h {seconds} fields 1 b"),
            format!("hgetex h pxat {at} fields 1 c"),
            format!("hsetex h exat {seconds} fields 1 d 1"),
            "hexpire h 10 fields 1 e".to_owned(),
            format!("hpexpireat h {at} fields 1 e"),
            "hpexpire h 7200000 fields 1 s".to_owned(),
            format!("hpexpireat h {at} fields 1 t"),
            "hgetex h ex 7200 fields 1 t".to_owned(),
            "zadd z 1 a 2 b 3 s 4 n".to_owned(),
            format!("zpexpireat z {at} members 1 a"),
            format!("zexpireat z {seconds} members 1 b"),
            "zexpire z 7200 members 1 s".to_owned(),
            "sadd set a b s m n".to_owned(),
            format!("spexpireat set {at} members 2 a m"),
            format!("sexpireat set {seconds} members 1 b"),
            "sexpire set 7200 members 1 s".to_owned(),
        ] {
            let reply = sim.run(&request);
            assert!(!reply.starts_with('-'), "{request}: {reply}");
        }
        sim.clock.step_wall_ms(step_ms);
        sim.advance(0);
        assert!(!sim.engine.keyspace.is_shifting());
        sim.engine.keyspace.check();
        let until = |n: usize| format!("*{n}{}", format!(" :{at}").repeat(n));
        let span = |n: usize| format!("*{n}{}", format!(" :{}", 2 * HOUR_MS).repeat(n));
        sim.expect("hpexpiretime h fields 5 a b c d e", &until(5));
        sim.expect("hpttl h fields 2 s t", &span(2));
        sim.expect("zpexpiretime z members 2 a b", &until(2));
        sim.expect("zpttl z members 1 s", &span(1));
        sim.expect("spexpiretime set members 3 a b m", &until(3));
        sim.expect("spttl set members 1 s", &span(1));
        // What is given since, and what is copied or moved, is moved no second time.
        sim.expect(&format!("zpexpireat z {at} members 1 n"), "*1 :1");
        sim.script(
            "
            copy h copy => :1
            rename set renamed => +OK
            smove renamed other m => :1
            move z 1 => :1
            ",
        );
        sim.clock.step_wall_ms(HOUR_MS / 2);
        sim.advance(0);
        sim.expect("hpexpiretime copy fields 5 a b c d e", &until(5));
        sim.expect("spexpiretime renamed members 2 a b", &until(2));
        sim.expect("spexpiretime other members 1 m", &until(1));
        sim.script("select 1 => +OK");
        sim.expect("zpexpiretime z members 3 a b n", &until(3));
        sim.engine.keyspace.check();
        let left = 2 * HOUR_MS - step_ms - HOUR_MS / 2;
        sim.clock.advance_ms(left as u64 - 1);
        sim.script("zscore z a => $1 1\nselect 0 => +OK\nhget copy a => $1 1\nscard other => :1");
        sim.script("+1\nhget copy a => $-1\nhget h e => $-1\nscard other => :0\nselect 1 => +OK");
        sim.script("zscore z a => $-1\nzscore z n => $-1");
    }
}

/// As with keys: what is copied, renamed and moved while deadlines move is moved once.
#[test]
fn collections_that_change_while_deadlines_move() {
    for mut sim in collections_of_both_sizes() {
        let at = START + 10 * HOUR_MS;
        for i in 0..3_000 {
            sim.run(&format!("hset h{i} a 1 b 1 c 1"));
            sim.run(&format!("hpexpireat h{i} {at} fields 2 a b"));
            sim.run(&format!("sadd s{i} a b c{i}"));
            sim.run(&format!("spexpireat s{i} {at} members 2 a c{i}"));
        }
        sim.clock.cost_us = 100;
        let mut random = draws();
        let mut steps = 0;
        for step_ms in [HOUR_MS, -2 * HOUR_MS, 3 * HOUR_MS] {
            sim.clock.step_wall_ms(step_ms);
            for round in 0..10_000 {
                sim.engine.run_jobs(&mut sim.clock, false);
                if !sim.engine.keyspace.is_shifting() && round > 0 {
                    break;
                }
                steps += 1;
                let [one, other, third] = [random(3_000), random(3_000), random(3_000)];
                sim.run(&format!("copy h{one} h{other} replace"));
                sim.run(&format!("rename h{third} h{one}"));
                sim.run(&format!("rename s{third} s{other}"));
                sim.run(&format!("smove s{one} s{third} c{one}"));
                sim.run(&format!("hset h{other} a 2"));
                sim.run(&format!("hpexpireat h{other} {at} fields 2 a c"));
                sim.run(&format!("hdel h{one} b"));
            }
            sim.engine.keyspace.check();
        }
        assert!(steps > 10, "{steps}");
        sim.clock.cost_us = 0;
        let offset_ms = sim.clock.read().wall_offset_ms;
        let mut dated = 0;
        sim.engine.keyspace.db(0).table.for_each(|slot| {
            for_each_element(slot, |_, deadline| {
                if let Some(deadline) = deadline {
                    dated += 1;
                    assert_eq!(deadline.0.0 + offset_ms, at);
                }
            });
        });
        assert!(dated > 5_000, "{dated}");
    }
}
