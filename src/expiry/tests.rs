//! The strata against a naive twin, in virtual time: the twin keeps deadlines in a sorted map and
//! is always right. Random tests print their seed.

use std::collections::{BTreeSet, HashMap};

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::index::{ItemRef, Strata};
use super::pacing::{Draw, Pacer, SLICE_US};
use super::*;

const DAY: i64 = 86_400_000;
const YEAR: i64 = 366 * DAY;

fn at(ms: i64) -> Deadline {
    Deadline(UnixMillis(ms))
}

/// Index and twin, with the part of the store that settles drawn items.
struct World {
    rng: SmallRng,
    now: i64,
    strata: Strata,
    entries: HashMap<u64, (Deadline, ItemRef)>,
    by_deadline: BTreeSet<(Deadline, u64)>,
    hashes: Vec<u64>,
    next_hash: u64,
    /// The greatest age at which an item was deleted.
    late_ms_max: i64,
}

impl World {
    fn new(seed: u64, now: i64) -> World {
        World {
            rng: SmallRng::seed_from_u64(seed),
            now,
            strata: Strata::new(UnixMillis(now)),
            entries: HashMap::new(),
            by_deadline: BTreeSet::new(),
            hashes: Vec::new(),
            next_hash: 0,
            late_ms_max: 0,
        }
    }

    fn insert(&mut self, deadline: Deadline) -> u64 {
        let hash = self.next_hash << 32;
        self.next_hash += 1;
        let item = self.strata.insert(hash, deadline);
        self.entries.insert(hash, (deadline, item));
        self.by_deadline.insert((deadline, hash));
        self.hashes.push(hash);
        hash
    }

    fn remove(&mut self, hash: u64) {
        let (deadline, item) = self.entries.remove(&hash).expect("drawn items exist");
        self.strata.remove(item, deadline);
        assert!(self.by_deadline.remove(&(deadline, hash)));
    }

    fn change(&mut self, hash: u64, new: Deadline) {
        let entry = self.entries.get_mut(&hash).unwrap();
        self.by_deadline.remove(&(entry.0, hash));
        self.by_deadline.insert((new, hash));
        entry.1 = self.strata.change(entry.1, entry.0, new);
        entry.0 = new;
    }

    fn any(&mut self) -> Option<u64> {
        while !self.hashes.is_empty() {
            let i = self.rng.random_range(0..self.hashes.len());
            if self.entries.contains_key(&self.hashes[i]) {
                return Some(self.hashes[i]);
            }
            self.hashes.swap_remove(i);
        }
        None
    }

    fn advance(&mut self, to: i64) {
        self.now = to;
        self.strata.advance(UnixMillis(to));
    }

    /// What the store does with a draw. Drawn twice is an error.
    fn settle(&mut self, drawn: &[(ItemRef, u64)]) {
        for &(item, hash) in drawn {
            let (deadline, known) = self.entries[&hash];
            assert_eq!(item, known);
            if is_due(deadline, UnixMillis(self.now)) {
                self.late_ms_max = self.late_ms_max.max(self.now.saturating_sub(deadline.0.0));
                self.remove(hash);
            } else {
                self.entries.get_mut(&hash).unwrap().1 = self.strata.refile(item, deadline);
            }
        }
    }

    /// One round; false if there was nothing to do. Each item drawn must leave the ripe stratum.
    fn round(&mut self, k: usize) -> bool {
        let mut drawn = Vec::new();
        let before = self.strata.ripe_len();
        self.strata.draw_ripe(&mut self.rng, k, &mut drawn);
        assert!(drawn.len() <= k && drawn.is_empty() == (before == 0));
        self.settle(&drawn);
        // More leave if these were all that had begun of the review queue.
        assert!(self.strata.ripe_len() <= before - drawn.len());
        !drawn.is_empty()
    }

    fn drain_ripe(&mut self) {
        while self.round(50) {}
        // Whatever is still due is in the bucket in progress.
        let bucket_start = self.now.saturating_add(1) >> 4 << 4;
        if let Some((deadline, _)) = self.by_deadline.first() {
            assert!(
                deadline.0.0 >= bucket_start,
                "{deadline:?} missed at {}",
                self.now
            );
        }
    }

    fn drain_current(&mut self) {
        let mut drawn = Vec::new();
        self.strata.draw_current(usize::MAX >> 1, &mut drawn);
        self.settle(&drawn);
        let first = self.by_deadline.first();
        assert!(first.is_none_or(|(deadline, _)| !is_due(*deadline, UnixMillis(self.now))));
    }

    fn drain_coming(&mut self) {
        let mut left = None;
        loop {
            let mut drawn = Vec::new();
            let Some(coming) = self.strata.draw_coming(64, &mut drawn) else {
                break;
            };
            assert!(!drawn.is_empty() && coming.items > 0);
            if let Some(left) = left {
                assert!(coming.begins_in_ms > 70_000_000 || coming.items <= left);
            }
            left = (drawn.len() < coming.items).then(|| coming.items - drawn.len());
            self.settle(&drawn);
        }
    }

    fn check(&self) {
        assert_eq!(self.strata.len(), self.entries.len());
        let mut extended = 0;
        let mut sum = 0i128;
        for (&hash, &(deadline, item)) in &self.entries {
            extended += usize::from(self.strata.check_item(item, hash, deadline));
            sum += i128::from(deadline.0.0);
        }
        assert_eq!(self.strata.check(), extended);
        let mean = self
            .strata
            .mean_deadline()
            .map_or(0, |mean| i128::from(mean.0));
        assert_eq!(
            mean,
            sum.checked_div(self.entries.len() as i128).unwrap_or(0)
        );
    }

    fn random_deadline(&mut self) -> Deadline {
        let rng = &mut self.rng;
        let ttl = match rng.random_range(0..20) {
            0 => return at(i64::MAX - rng.random_range(0..3)),
            1 => return at(i64::MIN + rng.random_range(0..3)),
            2 => rng.random_range(-1_000..20),
            3..8 => rng.random_range(0..300),
            8..12 => rng.random_range(0..150_000),
            12..15 => rng.random_range(0..3_600_000),
            15..17 => rng.random_range(0..4 * DAY),
            17 => rng.random_range(0..30 * DAY),
            18 => rng.random_range(0..YEAR),
            _ => rng.random_range(0..20 * YEAR),
        };
        at(self.now.saturating_add(ttl))
    }

    fn random_step(&mut self, backwards: bool) {
        let rng = &mut self.rng;
        let step = match rng.random_range(0..40) {
            0..20 => rng.random_range(0..20),
            20..30 => rng.random_range(0..2_000),
            30..35 => rng.random_range(0..140_000),
            35 => rng.random_range(0..DAY),
            36 => rng.random_range(0..10 * DAY),
            37 => rng.random_range(0..YEAR),
            38 => rng.random_range(0..12 * YEAR),
            _ => 0,
        };
        let sign = if backwards && rng.random_bool(0.3) {
            -1
        } else {
            1
        };
        let to = (self.now + sign * step).clamp(0, 1_000 * YEAR);
        self.advance(to);
    }
}

/// Which of the works a run does, and how much.
fn random_run(seed: u64, backwards: bool, ops: usize) {
    let mut world = World::new(seed, 1_700_000_000_000);
    let fill = world.rng.random_range(5..60);
    for op in 0..ops {
        match world.rng.random_range(0..100) {
            0..60 if world.rng.random_range(0..60) < fill => {
                let deadline = world.random_deadline();
                for _ in 0..world.rng.random_range(1..4) {
                    world.insert(deadline);
                }
            }
            0..75 => {
                let new = world.random_deadline();
                if let Some(hash) = world.any() {
                    world.change(hash, new);
                }
            }
            75..85 => {
                if let Some(hash) = world.any() {
                    world.remove(hash);
                }
            }
            85..90 => world.random_step(backwards),
            90..93 => drop(world.round(7)),
            93..95 => world.drain_ripe(),
            95..97 => world.drain_coming(),
            _ => {
                world.drain_ripe();
                world.drain_current();
            }
        }
        if op % if ops < 1_000 { 10 } else { 200 } == 0 {
            world.check();
        }
    }
    world.check();
    world.advance(2_000 * YEAR);
    world.drain_ripe();
    // What is left, if anything, was set to the end of time.
    assert!(
        world
            .entries
            .values()
            .all(|(deadline, _)| deadline.0.0 > 2_000 * YEAR)
    );
    for hash in world.entries.keys().copied().collect::<Vec<_>>() {
        world.remove(hash);
    }
    world.check();
}

#[test]
fn index_agrees_with_the_naive_twin() {
    for seed in 0..100 {
        println!("seed {seed}");
        random_run(seed, false, if seed % 10 == 0 { 20_000 } else { 900 });
    }
}

#[test]
fn index_agrees_with_the_naive_twin_while_the_clock_goes_back() {
    for seed in 1_000..1_100 {
        println!("seed {seed}");
        random_run(seed, true, if seed % 10 == 0 { 20_000 } else { 900 });
    }
}

/// An idle server wakes only when `next_wakeup` says so.
#[test]
fn wakeups_alone_delete_everything_within_a_bucket() {
    for seed in 0..20 {
        println!("seed {seed}");
        let mut world = World::new(seed, 1_700_000_000_000);
        for _ in 0..3_000 {
            let ttl = 1i64 << world.rng.random_range(0..39);
            let ttl = world.rng.random_range(1..=ttl);
            world.insert(at(world.now + ttl));
        }
        let mut wakeups = 0;
        while let Some(next) = world.strata.next_wakeup() {
            assert!(next.0 > world.now, "a wakeup for nothing");
            // Keys are extended now and then.
            if world.rng.random_bool(0.001)
                && let Some(hash) = world.any()
            {
                let new = at(world.entries[&hash].0.0.0 + 100_000);
                world.change(hash, new);
            }
            world.advance(next.0);
            world.drain_ripe();
            world.drain_coming();
            wakeups += 1;
        }
        assert!(world.entries.is_empty());
        assert!(world.late_ms_max < 16, "{} ms late", world.late_ms_max);
        assert!(wakeups < 7_000, "{wakeups} wakeups for 3,000 items");
        world.check();
    }
}

/// Nobody draws the coming buckets: they count as ripe when they begin, and nothing is late.
#[test]
fn coarse_buckets_that_were_not_refiled_in_time_are_found() {
    let mut world = World::new(1, 1_700_000_000_000);
    let start = world.now;
    for i in 0..50_000 {
        world.insert(at(start + 140_000 + i * 10));
    }
    for tick in 0..45_000 {
        world.advance(start + tick * 16);
        world.drain_ripe();
    }
    assert!(world.entries.is_empty());
    assert!(world.late_ms_max < 32, "{} ms late", world.late_ms_max);
}

#[test]
fn at_the_bucket_end_an_item_becomes_ripe() {
    let mut strata = Strata::new(UnixMillis(1_600));
    let item = strata.insert(7, at(1_610));
    strata.insert(8, at(1_616));
    assert_eq!(strata.next_wakeup(), Some(UnixMillis(1_615)));
    strata.advance(UnixMillis(1_614));
    assert_eq!((strata.ripe_len(), strata.oldest_ripe()), (0, None));
    strata.advance(UnixMillis(1_615));
    assert_eq!(
        (strata.ripe_len(), strata.oldest_ripe()),
        (1, Some(UnixMillis(1_615)))
    );
    assert_eq!(strata.change(item, at(1_610), at(9_999)), item);
    assert_eq!((strata.ripe_len(), strata.ripe_extended()), (1, 1));
    let item = strata.refile(item, at(9_999));
    assert_eq!(
        (strata.ripe_len(), strata.ripe_extended(), strata.len()),
        (0, 0, 2)
    );
    strata.remove(item, at(9_999));
    assert_eq!(
        (strata.len(), strata.next_wakeup()),
        (1, Some(UnixMillis(1_623)))
    );
    strata.check();
}

/// A million-year-old deadline and one just passed are both ripe at once.
#[test]
fn past_deadlines_are_ripe_at_once() {
    let mut strata = Strata::new(UnixMillis(1_000_000));
    for ms in [i64::MIN, -1, 0, 999_000, 999_983] {
        strata.insert(1, at(ms));
    }
    assert_eq!((strata.ripe_len(), strata.ripe_extended()), (5, 0));
    assert_eq!(strata.next_wakeup(), Some(UnixMillis(1_000_000)));
    strata.check();
}

#[test]
fn draws_are_distinct_and_even() {
    let mut world = World::new(3, 0);
    for _ in 0..300 {
        world.insert(at(20));
    }
    for _ in 0..700 {
        world.insert(at(50_000_000));
    }
    world.advance(31);
    let mut seen = HashMap::new();
    for _ in 0..10_000 {
        let mut drawn = Vec::new();
        world.strata.draw_all(&mut world.rng, 5, &mut drawn);
        assert_eq!(drawn.len(), 5);
        drawn
            .iter()
            .for_each(|&(_, hash)| *seen.entry(hash).or_insert(0) += 1);
    }
    assert_eq!(seen.len(), 1_000);
    assert!(
        seen.values().all(|&n| (15..110).contains(&n)),
        "50 expected of each: {seen:?}"
    );
    for k in [1, 5, 63, 64, 100, 300, 400] {
        let mut drawn = Vec::new();
        world.strata.draw_ripe(&mut world.rng, k, &mut drawn);
        let distinct: BTreeSet<_> = drawn.iter().map(|(_, hash)| hash).collect();
        assert_eq!((drawn.len(), distinct.len()), (k.min(300), k.min(300)));
        drawn.clear();
        world.strata.draw_soonest(&mut world.rng, k, &mut drawn);
        assert!(drawn.iter().all(|(_, hash)| *hash >> 32 < 300));
    }
}

/// Forecasts of this world until each of these spans from now, with about `k` items looked up; and
/// the truth.
fn forecasts(world: &mut World, spans: &[i64], k: usize) -> Vec<(usize, usize)> {
    let moments: Vec<UnixMillis> = spans
        .iter()
        .map(|span| UnixMillis(world.now + span))
        .collect();
    let mut forecast = world.strata.forecast(&moments);
    let mut samples = Vec::new();
    world
        .strata
        .draw_uncertain(&mut world.rng, &forecast, k, &mut samples);
    assert!(samples.len() <= k + 4_096);
    for sample in &samples {
        let (deadline, item) = world.entries[&sample.hash];
        assert_eq!(item, sample.item);
        forecast.note(sample, deadline.into(), deadline);
    }
    let by = |at: &UnixMillis| {
        let all = world.by_deadline.iter();
        all.take_while(|(deadline, _)| deadline.0 <= *at).count()
    };
    forecast.due().zip(moments.iter().map(by)).collect()
}

#[test]
fn forecasts_of_few_are_exact_and_of_many_to_one_percent() {
    let spans = [1, 1_000, 10_000, 60_000, 600_000, 3_600_000, DAY, 20 * YEAR];
    for (seed, items, ttl_ms, extended) in [
        // Spread over all rings, and half of them moved to later times.
        (4, 2_000, 0, 0),
        (5, 2_000, 0, 1_000),
        // All in a few buckets, one of which a span cuts in two.
        (6, 4_000, 3_600_000, 0),
        (7, 60_000, 3_600_000, 0),
        (8, 600_000, 3_600_000, 0),
        // Sessions that are used all the time, few or many.
        (9, 300_000, 0, 100_000),
        (10, 300_000, 3_000_000, 300_000),
        (11, 600_000, 0, 2_000),
    ] {
        let mut world = World::new(seed, 1_700_000_000_000);
        for i in 0..items {
            let spread = if ttl_ms == 0 {
                1i64 << world.rng.random_range(0..39)
            } else {
                30_000
            };
            let ttl = ttl_ms + world.rng.random_range(1..=spread);
            let hash = world.insert(at(world.now + ttl));
            if i < extended {
                let more = world.rng.random_range(1..=2_000_000);
                world.change(hash, at(world.now + ttl + more));
            }
        }
        // Some are dead, some of those whose time seems to have come are not.
        world.advance(world.now + 100);
        let is_small = items <= 4_096;
        for ((estimate, truth), span) in forecasts(&mut world, &spans, 4_096).into_iter().zip(spans)
        {
            let off = estimate.abs_diff(truth);
            let most = if is_small { 0 } else { items / 100 };
            assert!(off <= most, "{seed}: {estimate} for {truth} within {span}");
        }
        let sorted: Vec<i64> = world.strata.soonest().map(|b| b.start().0).collect();
        assert!(sorted.is_sorted());
        let len: usize = world.strata.soonest().map(|b| b.len()).sum();
        assert_eq!(len, items);
    }
}

/// A new index allocates nothing, an emptied one gives back its chunks at once and its rings when
/// it stays empty.
#[test]
fn memory_follows_the_items() {
    for (spread, bytes_max) in [(131_000, 12), (3_600_000, 12), (1, 12), (DAY, 12)] {
        let mut world = World::new(5, 1_700_000_000_000);
        assert_eq!(world.strata.allocated_bytes(), 0);
        let (start, n) = (world.now, 1_000_000);
        let mut items = Vec::new();
        for hash in 0..n {
            let deadline = at(start + 1 + world.rng.random_range(0..spread));
            items.push((world.strata.insert(hash, deadline), deadline));
        }
        let bytes = world.strata.allocated_bytes() as f64 / n as f64;
        println!("spread over {spread} ms: {bytes:.2} bytes per item");
        assert!(bytes <= f64::from(bytes_max));
        for (item, deadline) in items {
            world.strata.remove(item, deadline);
        }
        assert!(world.strata.allocated_bytes() < 256 * 1_024);
        world.strata.check();
        world.advance(start + 131_073);
        assert_eq!(world.strata.allocated_bytes(), 0);
        world.strata.insert(1, at(start + YEAR));
        world.strata.check();
    }
}

/// Keys that come and go with the same bucket reuse the holes.
#[test]
fn churn_does_not_grow() {
    let mut world = World::new(6, 1_700_000_000_000);
    for _ in 0..10_000 {
        let deadline = at(world.now + world.rng.random_range(4_000_000..5_000_000));
        world.insert(deadline);
    }
    let before = world.strata.allocated_bytes();
    for _ in 0..200_000 {
        let hash = world.any().unwrap();
        world.remove(hash);
        let deadline = at(world.now + world.rng.random_range(4_000_000..5_000_000));
        world.insert(deadline);
    }
    assert!(world.strata.allocated_bytes() < before * 13 / 10);
    world.check();
}

#[test]
fn clearing_hands_the_chunks_over() {
    let mut world = World::new(7, 0);
    for i in 0..100_000 {
        world.strata.insert(i, at(i as i64 + 1));
    }
    let mut remains = world.strata.clear();
    assert!(world.strata.is_empty());
    assert_eq!(
        (world.strata.next_wakeup(), world.strata.allocated_bytes()),
        (None, 0)
    );
    let mut steps = 1;
    while remains.free_step() {
        steps += 1;
    }
    assert!((6..200).contains(&steps), "{steps} steps");
    world.strata.check();
}

/// A wall clock that was years ahead at start is set right: nothing is late and nothing spins.
#[test]
fn a_clock_set_back_by_years_is_harmless() {
    for back in [
        1,
        17,
        500,
        70_000,
        200_000,
        DAY,
        20 * DAY,
        YEAR,
        5 * YEAR,
        20 * YEAR,
    ] {
        let mut world = World::new(8, 50 * YEAR);
        for _ in 0..2_000 {
            let deadline = world.random_deadline();
            world.insert(deadline);
        }
        world.advance(world.now + 5_000);
        world.advance(world.now - back);
        world.check();
        for _ in 0..500 {
            let deadline = world.random_deadline();
            world.insert(deadline);
        }
        world.drain_ripe();
        world.drain_coming();
        world.drain_current();
        world.check();
        assert_eq!(world.strata.ripe_len(), 0);
        world.late_ms_max = 0;
        let end = world.now + 200_000;
        while let Some(next) = world.strata.next_wakeup().filter(|next| next.0 < end) {
            assert!(next.0 > world.now);
            world.advance(next.0);
            world.drain_ripe();
            world.drain_coming();
        }
        assert!(world.late_ms_max < 16, "{} ms late", world.late_ms_max);
        world.check();
    }
}

fn reading(now: i64, offset: i64) -> Reading {
    Reading {
        now: UnixMillis(now),
        wall_offset_ms: offset,
        ..Reading::default()
    }
}

#[test]
fn deadline_arithmetic_and_its_limits() {
    use Basis::{Absolute, Relative};
    use Unit::{Millis, Seconds};
    let now = 1_700_000_000_123;
    let r = reading(now, 0);
    let ask = |amount, unit, basis| deadline(amount, unit, basis, &r).map(|d| d.0.0);
    assert_eq!(ask(10, Seconds, Relative), Some(now + 10_000));
    assert_eq!(ask(-1, Millis, Relative), Some(now - 1));
    assert_eq!(ask(5, Seconds, Absolute), Some(5_000));
    let most = (i64::MAX - now) / 1_000;
    assert!(ask(most, Seconds, Relative).is_some());
    assert_eq!(ask(most + 1, Seconds, Relative), None);
    assert_eq!(ask(i64::MAX - now, Millis, Relative), Some(i64::MAX));
    assert_eq!(ask(i64::MAX - now + 1, Millis, Relative), None);
    assert_eq!(ask(i64::MIN / 1_000 - 1, Seconds, Relative), None);
    assert_eq!(ask(i64::MAX / 1_000 + 1, Seconds, Absolute), None);
    assert!(ask(i64::MIN, Millis, Relative).is_some_and(|d| is_due(at(d), r.now)));
    assert!(ask(i64::MIN, Millis, Absolute).is_some_and(|d| is_due(at(d), r.now)));
}

#[test]
fn absolute_deadlines_are_echoed() {
    for offset in [0, 1, -1, 86_400_000, -86_400_000] {
        let r = reading(1_700_000_000_123, offset);
        for ms in [
            i64::MAX,
            1,
            1_700_000_000_500,
            i64::MAX / 1_000 * 1_000 - 86_400_000,
        ] {
            let d = deadline(ms, Unit::Millis, Basis::Absolute, &r).unwrap();
            assert_eq!(expiretime_ms(d, &r), ms);
        }
        let d = deadline(1_501, Unit::Millis, Basis::Absolute, &r).unwrap();
        assert_eq!(expiretime_seconds(d, &r), 2);
    }
    let r = reading(1_000, 0);
    assert_eq!(expiretime_seconds(at(i64::MAX), &r), 9_223_372_036_854_776);
}

#[test]
fn ttls_round_to_the_nearest_second() {
    for (left, seconds) in [
        (1, 0),
        (400, 0),
        (499, 0),
        (500, 1),
        (1_001, 1),
        (1_499, 1),
        (1_500, 2),
    ] {
        assert_eq!(ttl_seconds(at(7_000 + left), UnixMillis(7_000)), seconds);
        assert_eq!(ttl_ms(at(7_000 + left), UnixMillis(7_000)), left);
    }
    assert_eq!(ttl_ms(at(i64::MIN), UnixMillis(7_000)), 0);
    assert!(is_due(at(5), UnixMillis(5)) && !is_due(at(6), UnixMillis(5)));
}

#[test]
fn times_of_fields_round_seconds_up() {
    for (ms, seconds) in [
        (0, 0),
        (1, 1),
        (999, 1),
        (1_000, 1),
        (1_001, 2),
        (70_368_744_177_663, 70_368_744_178),
    ] {
        assert_eq!(seconds_up(ms), seconds);
    }
    // Whatever a clock says, there is no overflow.
    assert_eq!(seconds_up(i64::MAX), i64::MAX / 1_000 + 1);
    assert_eq!(seconds_up(i64::MIN), i64::MIN / 1_000);
}

/// Runs a saturated pacer for a second and returns how many milliseconds it took of it.
fn busy_second(pacer: &mut Pacer, turn_us: u64, late_ms: i64) -> u64 {
    let (mut used, mut elapsed) = (0, 0);
    while elapsed < 1_000_000 {
        let allowed = pacer.allow_us(turn_us, false, late_ms, 100);
        assert!(allowed <= SLICE_US);
        // A round is never cut short: it overruns by up to 20 us.
        let slice = if allowed > 0 { allowed + 20 } else { 0 };
        pacer.spent(slice, false, slice > 0);
        used += slice;
        elapsed += turn_us;
    }
    used / 1_000
}

#[test]
fn the_share_of_the_cpu_is_kept() {
    for (effort, late, share) in [(1, 0, 250), (10, 100, 430), (1, 101, 750), (10, 5_000, 750)] {
        for turn_us in [50, 300, 600] {
            let mut pacer = Pacer::new(effort);
            let used = busy_second(&mut pacer, turn_us, late);
            assert!(
                used.abs_diff(share) <= 3,
                "effort {effort}: {used} of {share}"
            );
            assert!(pacer.cap_hits() > 0);
        }
    }
    // Turns so long that the burst is the limit.
    assert_eq!(busy_second(&mut Pacer::new(1), 100_000, 0), 5);
}

#[test]
fn idle_time_is_free_and_overruns_are_paid_back() {
    let mut pacer = Pacer::new(1);
    assert_eq!(pacer.allow_us(0, true, 0, 100), SLICE_US);
    pacer.spent(SLICE_US, true, true);
    assert_eq!(
        (pacer.allow_us(0, false, 0, 100), pacer.cap_hits()),
        (SLICE_US, 0)
    );
    pacer.spent(5_500, false, true);
    assert_eq!(pacer.allow_us(20_000, false, 0, 100), 0);
    assert_eq!(pacer.allow_us(400, false, 0, 100), 100);
    pacer.spent(u64::MAX, false, true);
    assert_eq!(pacer.allow_us(u64::MAX, false, 0, 100), SLICE_US);
}

#[test]
fn sample_sizes_follow_the_effort() {
    assert_eq!(Pacer::new(1).draw(), Draw { ripe: 19, audit: 1 });
    assert_eq!(Pacer::new(10).draw(), Draw { ripe: 62, audit: 3 });
    assert_eq!(Pacer::new(0).draw(), Pacer::new(1).draw());
    let mut pacer = Pacer::new(5);
    assert!(!pacer.audited(0, 0, 7) && !pacer.audited(10, 1, 7) && pacer.audited(9, 1, 7));
    for _ in 0..500 {
        pacer.audited(20, 5, 7);
    }
    assert!((pacer.stale_percent(7) - 25.0).abs() < 0.01);
    // Nothing was due for a while.
    assert!((pacer.stale_percent(100_007) - 25.0 * 0.95).abs() < 0.01);
    assert!(pacer.stale_percent(20_000_007) < 0.005);
    pacer.audited(20, 20, 20_000_007);
    assert!((pacer.stale_percent(20_000_007) - 5.0).abs() < 0.01);
}

#[test]
fn a_coming_bucket_is_refiled_before_it_begins() {
    let pacer = Pacer::new(1);
    for all in [1, 64, 65, 5_000, 1_000_000] {
        let (mut items, mut left_ms, mut steps, mut most) = (all, 65_536, 0, 0);
        while items > 0 {
            let coming = super::index::Coming {
                items,
                begins_in_ms: left_ms,
            };
            let count = pacer.refile_count(&coming);
            assert!((1..=items).contains(&count));
            (items, steps, most) = (items - count, steps + 1, most.max(count));
            left_ms -= pacing::REFILE_MS as i64;
        }
        assert!(most <= 300, "{most} at once of {all}");
        assert!(steps <= all.div_ceil(64), "{steps} steps for {all}");
        assert!(left_ms > 8_000, "{left_ms} ms left");
    }
}

#[test]
fn bitmap_finds_the_next_member() {
    let mut rng = SmallRng::seed_from_u64(9);
    let (mut bitmap, mut twin) = (super::bitmap::Bitmap::default(), BTreeSet::new());
    assert_eq!(bitmap.first_from(0), None);
    for _ in 0..20_000 {
        let len = [64, 1_000, 4_096, 8_192, 20_000][rng.random_range(0..5)];
        bitmap.grow(len);
        let n = rng.random_range(0..len);
        if rng.random_bool(0.3) && twin.len() < 50 {
            bitmap.set(n);
            twin.insert(n);
        } else if let Some(&n) = twin.range(n..).next() {
            bitmap.clear(n);
            twin.remove(&n);
        }
        assert_eq!(bitmap.first_from(n), twin.range(n..).next().copied());
        assert_eq!(bitmap.contains(n), twin.contains(&n));
    }
}
