//! Random draws are even: every element, or key, is as likely as any other, however unevenly the
//! segments are filled in which it lies.

use std::collections::HashMap;

use crate::sim::Sim;

/// Draws for each element there is.
const DRAWS_EACH: usize = 30;
/// Standard deviations by which the statistic may exceed its mean. Even draws next to never do (and
/// a run is the same every time); a draw of a segment first, and then of an element of it, does so
/// by hundreds.
const DEVIATIONS_MAX: f64 = 6.0;

/// Elements of a collection of some ten segments, and of a small one.
const LARGE: usize = 4_000;
const SMALL: usize = 100;
/// Keys of some eight segments.
const KEYS: usize = 8_000;

/// What the element of a number is.
type Text = fn(usize) -> String;

/// The strings of a reply, which have no spaces in them.
fn strings(reply: &str) -> Vec<String> {
    let words = reply.split(' ').filter(|word| !word.starts_with('*'));
    words.skip(1).step_by(2).map(str::to_owned).collect()
}

/// Everything that a scan meets, in the order of hashes.
fn scanned(sim: &mut Sim, scan: &str, options: &str) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let reply = sim.run(&format!("{scan} {cursor} count 100 {options}"));
        let mut strings = strings(&reply).into_iter();
        cursor = strings.next().expect("a cursor");
        found.extend(strings);
        if cursor == "0" {
            return found;
        }
    }
}

/// Removes seven in eight of those that come first by their hashes. The others of them share
/// segments with hardly anything, and the rest lies in full ones.
fn thin_out(sim: &mut Sim, in_order: Vec<String>, remove: &str) -> Vec<String> {
    let half = in_order.len() / 2;
    let is_left = |place: usize| place >= half || place.is_multiple_of(8);
    for (place, element) in in_order.iter().enumerate() {
        if !is_left(place) {
            sim.expect(&format!("{remove} {element}"), ":1");
        }
    }
    let places = in_order.into_iter().enumerate();
    let left = places.filter(|(place, _)| is_left(*place));
    left.map(|(_, element)| element).collect()
}

/// Pearson's statistic, in standard deviations from the mean it has if draws are even.
fn deviations(counts: &HashMap<String, usize>, elements: &[String]) -> f64 {
    let draws: usize = counts.values().sum();
    let expected = draws as f64 / elements.len() as f64;
    let mut statistic = 0.0;
    for element in elements {
        let count = counts.get(element).copied().unwrap_or(0);
        statistic += (count as f64 - expected).powi(2) / expected;
    }
    let freedom = (elements.len() - 1) as f64;
    (statistic - freedom) / (2.0 * freedom).sqrt()
}

/// Repeats a request until it has drawn each of the elements often, and puts back what it took if
/// `put_back` says how.
#[track_caller]
fn assert_even(sim: &mut Sim, elements: &[String], draw: &str, put_back: Option<&str>) {
    let mut counts: HashMap<String, usize> = elements
        .iter()
        .map(|element| (element.clone(), 0))
        .collect();
    let mut draws = 0;
    while draws < elements.len() * DRAWS_EACH {
        let drawn = strings(&sim.run(draw));
        assert!(!drawn.is_empty(), "{draw}");
        if let Some(command) = put_back {
            let request = format!("{command} {}", drawn.join(" "));
            sim.expect(&request, &format!(":{}", drawn.len()));
        }
        draws += drawn.len();
        for element in drawn {
            *counts.get_mut(&element).expect("an element that was left") += 1;
        }
    }
    let deviations = deviations(&counts, elements);
    assert!(deviations < DEVIATIONS_MAX, "{draw}: {deviations}");
}

/// One at a time; many with repetition; few without; and so many without that they are found by
/// walking.
#[track_caller]
fn assert_all_even(sim: &mut Sim, elements: &[String], command: &str) {
    let (few, many) = (elements.len() / 50, elements.len() / 2);
    for draw in [
        "".to_owned(),
        "-500".to_owned(),
        few.to_string(),
        many.to_string(),
    ] {
        assert_even(sim, elements, &format!("{command} {draw}"), None);
    }
}

/// Adds elements by a command that takes each as `text` of its number, a few at a time.
fn fill(sim: &mut Sim, command: &str, numbers: std::ops::Range<usize>, text: Text) {
    for number in numbers {
        sim.expect(&format!("{command} {}", text(number)), ":1");
    }
}

/// Three forms: members, those that are left, and what OBJECT ENCODING calls it.
fn sets() -> Vec<(Sim, Vec<String>, &'static str)> {
    let text = |number: usize| format!("member:{number:08}");
    let integer = |number: usize| (number * 7).to_string();
    let forms: [(usize, Text, _); 3] = [
        (LARGE, text, "hashtable"),
        (SMALL, text, "listpack"),
        (SMALL, integer, "intset"),
    ];
    let forms = forms.into_iter().map(|(len, text, form)| {
        let mut sim = Sim::new();
        fill(&mut sim, "sadd s", 0..len, text);
        let members = scanned(&mut sim, "sscan s", "");
        let left = thin_out(&mut sim, members, "srem s");
        sim.expect("object encoding s", &format!("${} {form}", form.len()));
        sim.expect("scard s", &format!(":{}", left.len()));
        (sim, left, form)
    });
    forms.collect()
}

#[test]
fn members_of_sets_are_drawn_evenly() {
    for (mut sim, left, _) in sets() {
        assert_all_even(&mut sim, &left, "srandmember s");
    }
}

#[test]
fn members_of_sets_are_popped_evenly() {
    for (mut sim, left, form) in sets() {
        // Popped and put back, singly and by tens.
        assert_even(&mut sim, &left, "spop s", Some("sadd s"));
        assert_even(&mut sim, &left, "spop s 10", Some("sadd s"));
        sim.expect("object encoding s", &format!("${} {form}", form.len()));
    }
}

#[test]
fn fields_of_hashes_are_drawn_evenly() {
    for (len, form) in [(LARGE, "hashtable"), (SMALL, "listpack")] {
        let mut sim = Sim::new();
        fill(&mut sim, "hset h", 0..len, |n| format!("field:{n:08} {n}"));
        let fields = scanned(&mut sim, "hscan h", "novalues");
        let left = thin_out(&mut sim, fields, "hdel h");
        sim.expect("object encoding h", &format!("${} {form}", form.len()));
        assert_all_even(&mut sim, &left, "hrandfield h");
    }
}

#[test]
fn members_of_sorted_sets_are_drawn_evenly() {
    for (len, form) in [(LARGE, "skiplist"), (SMALL, "listpack")] {
        let mut sim = Sim::new();
        fill(&mut sim, "zadd z", 0..len, |n| {
            format!("{} member:{n:08}", n % 50)
        });
        let members: Vec<String> = scanned(&mut sim, "zscan z", "")
            .into_iter()
            .step_by(2)
            .collect();
        let left = thin_out(&mut sim, members, "zrem z");
        sim.expect("object encoding z", &format!("${} {form}", form.len()));
        assert_all_even(&mut sim, &left, "zrandmember z");
    }
}

#[test]
fn keys_are_drawn_evenly() {
    for len in [KEYS, SMALL] {
        let mut sim = Sim::new();
        for number in 0..len {
            sim.expect(&format!("set key:{number:08} v"), "+OK");
        }
        let keys = scanned(&mut sim, "scan", "");
        let left = thin_out(&mut sim, keys, "del");
        assert_even(&mut sim, &left, "randomkey", None);
    }
}

/// Dead keys are met and passed over; who lies beside many of them is not drawn more often.
#[test]
fn keys_among_dead_ones_are_drawn_evenly() {
    let mut sim = Sim::new();
    for number in 0..KEYS {
        let ttl = if number % 3 == 0 { "px 50" } else { "px 50000" };
        sim.expect(&format!("set key:{number:08} v {ttl}"), "+OK");
    }
    let keys = scanned(&mut sim, "scan", "");
    let keys = thin_out(&mut sim, keys, "del");
    sim.clock.advance_ms(100);
    let is_alive = |key: &String| key["key:".len()..].parse::<usize>().expect("a number") % 3 > 0;
    let left: Vec<String> = keys.into_iter().filter(is_alive).collect();
    assert_even(&mut sim, &left, "randomkey", None);
}

#[test]
fn a_reply_of_repeated_draws_has_a_limit_in_bytes() {
    let mut sim = Sim::new();
    for size in [1, 1000] {
        // Small collections and big ones.
        let names: Vec<String> = (0..size)
            .map(|n| format!("{n}:{}", "m".repeat(2_000)))
            .collect();
        for name in &names {
            sim.run(&format!("sadd s {name}"));
            sim.run(&format!("hset h {name} v"));
            sim.run(&format!("zadd z 1 {name}"));
        }
        for command in ["srandmember s", "hrandfield h", "zrandmember z"] {
            let all = sim.run(&format!("{command} -100"));
            assert!(all.starts_with("*100 "), "{command}");
            let refused = "-ERR value is out of range";
            sim.expect(&format!("{command} -70000"), refused);
            assert_eq!(sim.run("ping"), "+PONG");
        }
    }
}
