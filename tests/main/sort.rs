//! Transcripts of SORT and SORT_RO; the replies are those of Redis 8.2.3.

use crate::fill;
use crate::increx::events;
use crate::sim::Sim;

/// A server with collections of each type.
fn filled() -> Sim {
    let mut sim = Sim::new();
    fill::list(&mut sim, "l", "3 1 2 10");
    fill::list(&mut sim, "w", "c a b e d");
    fill::set(&mut sim, "s", "3 1 2 10");
    fill::set(&mut sim, "t", "b a c");
    fill::zset(&mut sim, "z", "a b c d");
    fill::hash(&mut sim, "h1", "f 5 g x");
    fill::hash(&mut sim, "h2", "f 3");
    fill::list(&mut sim, "k", "2 1");
    fill::list(&mut sim, "bad", "a 1");
    sim
}

#[test]
fn elements_are_sorted_as_numbers_or_as_bytes() {
    let mut sim = filled();
    sim.script(
        r#"
        sort l => *4 $1 1 $1 2 $1 3 $2 10
        sort l desc => *4 $2 10 $1 3 $1 2 $1 1
        sort l desc asc => *4 $1 1 $1 2 $1 3 $2 10
        sort l alpha => *4 $1 1 $2 10 $1 2 $1 3
        sort l alpha desc => *4 $1 3 $1 2 $2 10 $1 1
        sort l limit 1 2 => *2 $1 2 $1 3
        sort l limit 1 -1 => *3 $1 2 $1 3 $2 10
        sort l limit -5 2 => *2 $1 1 $1 2
        sort l limit 4 1 => *0
        sort l limit 0 0 => *0
        sort l limit 1 1 limit 3 9223372036854775807 => *1 $2 10
        sort l limit 9223372036854775807 9223372036854775807 => *0
        sort s => *4 $1 1 $1 2 $1 3 $2 10
        sort s alpha desc => *4 $1 3 $1 2 $2 10 $1 1
        sort z alpha desc => *4 $1 d $1 c $1 b $1 a
        sort missing => *0
        sort_ro l => *4 $1 1 $1 2 $1 3 $2 10
        sort_ro l alpha desc limit 0 1 => *1 $1 3
        sort bad => {One or more scores can't be converted into double}
        sort bad alpha => *2 $1 1 $1 a
        sort bad limit 0 0 => {One or more scores can't be converted into double}
        sort bad by nosort => *2 $1 a $1 1
        "#,
    );
}

#[test]
fn a_pattern_without_a_star_takes_elements_as_they_lie() {
    let mut sim = filled();
    sim.script(
        r#"
        sort w by nosort => *5 $1 c $1 a $1 b $1 e $1 d
        sort w by nosort desc => *5 $1 d $1 e $1 b $1 a $1 c
        sort w by nosort desc limit 1 2 => *2 $1 e $1 b
        sort w by nosort desc limit 1 -1 => *4 $1 e $1 b $1 a $1 c
        sort w by nosort limit 1 2 get # => *2 $1 a $1 b
        sort s by nosort desc => *4 $1 1 $1 2 $1 3 $2 10
        sort s by nosort limit 1 2 => *2 $1 2 $1 3
        sort z by nosort => *4 $1 a $1 b $1 c $1 d
        sort z by nosort desc => *4 $1 d $1 c $1 b $1 a
        sort z by nosort desc limit 1 2 => *2 $1 c $1 b
        sort z by nosort desc limit -2 2 => *2 $1 d $1 c
        sort z by nosort limit 3 5 => *1 $1 d
        sort z by nosort limit 9 5 => *0
        "#,
    );
}

#[test]
fn weights_and_answers_are_looked_up_under_other_keys() {
    let mut sim = filled();
    sim.script(
        r#"
        set weight_c 1 => +OK
        set weight_a 3 => +OK
        set weight_b 3 => +OK
        set weight_e -1.5 => +OK
        sort w by weight_* => *5 $1 e $1 d $1 c $1 a $1 b
        sort w by weight_* desc => *5 $1 b $1 a $1 c $1 d $1 e
        sort w by weight_* limit 1 3 => *3 $1 d $1 c $1 a
        sort w by weight_* limit 0 1 get # get weight_* get no get no_* => *4 $1 e $4 -1.5 $-1 $-1
        sort w by none_* => *5 $1 a $1 b $1 c $1 d $1 e
        sort w by none_* desc => *5 $1 e $1 d $1 c $1 b $1 a
        sort w by none_* alpha => *5 $1 c $1 a $1 b $1 e $1 d
        set word_c x => +OK
        set word_a x => +OK
        set word_b "" => +OK
        set word_e a => +OK
        sort w by word_* alpha => *5 $1 d $1 b $1 e $1 c $1 a
        sort w by word_* alpha desc => *5 $1 c $1 a $1 e $1 b $1 d
        sort w by word_* => {One or more scores can't be converted into double}
        set h1-> arrow => +OK
        sort k by h*->f => *2 $1 2 $1 1
        sort k by h*->f get h*->f get h*->g => *4 $1 3 $-1 $1 5 $1 x
        sort k by h*->no => *2 $1 1 $1 2
        sort k by h*-> alpha get h*-> => *2 $-1 $5 arrow
        sort k get h* get *->f => *4 $-1 $-1 $-1 $-1
        sort w by h*->f alpha limit 0 1 => *1 $1 c
        "#,
    );
}

#[test]
fn options_are_judged_before_the_key_and_the_key_before_its_elements() {
    let mut sim = filled();
    sim.script(
        r#"
        sort => {wrong number of arguments for 'sort' command}
        sort_ro => {wrong number of arguments for 'sort_ro' command}
        sort l foo => {syntax error}
        sort l by => {syntax error}
        sort l get => {syntax error}
        sort l limit 0 => {syntax error}
        sort l limit a b => {value is not an integer or out of range}
        sort l limit 0 b => {value is not an integer or out of range}
        sort l limit 0 1.5 => {value is not an integer or out of range}
        sort l store => {syntax error}
        sort_ro l store d => {syntax error}
        set str x => +OK
        sort str => -WRONGTYPE Operation against a key holding the wrong kind of value
        sort str by nosort => -WRONGTYPE Operation against a key holding the wrong kind of value
        sort h1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        sort_ro h1 => -WRONGTYPE Operation against a key holding the wrong kind of value
        sort str foo => {syntax error}
        sort str limit a b => {value is not an integer or out of range}
        sort missing limit a b => {value is not an integer or out of range}
        sort str store d => -WRONGTYPE Operation against a key holding the wrong kind of value
        sort bad store d => {One or more scores can't be converted into double}
        exists d => :0
        "#,
    );
}

#[test]
fn a_result_is_stored_as_a_list_without_a_deadline() {
    let mut sim = filled();
    sim.script(
        r#"
        set d x ex 100 => +OK
        sort l store d => :4
        ttl d => :-1
        type d => +list
        sort d by nosort => *4 $1 1 $1 2 $1 3 $2 10
        expire l 100 => :1
        sort l store l desc => :4
        ttl l => :-1
        sort l by nosort => *4 $2 10 $1 3 $1 2 $1 1
        sort w by nosort get none_* store d => :5
        sort d by nosort => *5 $0  $0  $0  $0  $0
        sort t by nosort desc limit 0 2 store d => :2
        sort d by nosort => *2 $1 c $1 b
        sort s by nosort store d => :4
        sort d by nosort => *4 $1 1 $2 10 $1 2 $1 3
        sort z by nosort desc store d => :4
        sort d by nosort => *4 $1 d $1 c $1 b $1 a
        sort l by nosort limit 5 5 store d => :0
        exists d => :0
        sort missing store l => :0
        exists l => :0
        sort missing store missing => :0
        "#,
    );
}

#[test]
fn the_keys_are_the_source_and_the_last_destination() {
    let mut sim = Sim::new();
    sim.script(
        r#"
        command getkeys sort a by b_* get c_* store d store e => *2 $1 a $1 e
        command getkeys sort_ro a by b_* get c_* => *1 $1 a
        command getkeysandflags sort a store d => *2 *2 $1 a *2 +RO +access *2 $1 d *2 +OW +update
        command getkeysandflags sort_ro a => *1 *2 $1 a *2 +RO +access
        command getkeys sort a store => *1 $1 a
        command getkeys sort a limit store b => *1 $1 a
        command getkeys sort a limit 0 store store g => *2 $1 a $1 g
        command getkeys sort a by store get store => *1 $1 a
        command getkeys sort a store store x => *2 $1 a $1 x
        command getkeys sort a get store x StorE d => *2 $1 a $1 d
        command getkeys sort => {Invalid number of arguments specified for command}
        "#,
    );
}

/// What a weight may look like, beside one of 3 in the order of both; none if it is refused.
#[test]
fn weights_are_read_as_redis_8_reads_them() {
    for (weight, order) in [
        ("", Some("1 2")),
        (" 5", None),
        ("5 ", None),
        ("1e400", Some("2 1")),
        ("-1e400", Some("1 2")),
        ("nan", None),
        ("inf", Some("2 1")),
        ("-inf", Some("1 2")),
        ("0x10", None),
        ("1e-310", Some("1 2")),
        ("1e-400", Some("1 2")),
        ("infinity", Some("2 1")),
        ("+5", Some("2 1")),
        ("1e", None),
        (".", None),
        ("5e-324", Some("1 2")),
        ("+inf", Some("2 1")),
        ("INF", Some("2 1")),
        ("5.", Some("2 1")),
        (".5", Some("1 2")),
        ("-.5e1", Some("1 2")),
        ("1_000", None),
        ("5\x00abc", Some("2 1")),
    ] {
        let mut sim = Sim::new();
        fill::list(&mut sim, "k", "2 1");
        sim.ask(&[b"set", b"w_1", weight.as_bytes()]);
        sim.run("set w_2 3");
        let expected = match order {
            Some(order) => format!("*2 $1 {}", order.replace(' ', " $1 ")),
            None => "-ERR One or more scores can't be converted into double".to_owned(),
        };
        assert_eq!(sim.run("sort k by w_*"), expected, "{weight:?}");
    }
}

#[test]
fn null_is_that_of_the_protocol_and_an_array_is_an_array() {
    let mut sim = filled();
    sim.run("hello 3");
    sim.script(
        "
        sort l get none_* limit 0 2 => *2 _ _
        sort s limit 0 2 => *2 $1 1 $1 2
        sort missing => *0
        sort l store d => :4
        ",
    );
}

#[test]
fn storing_is_reported_once_and_so_is_removing() {
    let mut sim = filled();
    for (request, expected) in [
        ("sort l store d", "sortstore d"),
        ("sort l store d", "sortstore d"),
        ("sort missing store d", "del d"),
        ("sort missing store d", ""),
        ("sort l", ""),
        ("sort bad store d", ""),
    ] {
        assert_eq!(events(&mut sim, request), expected, "{request}");
    }
}

#[test]
fn big_collections_are_sorted_like_small_ones() {
    let numbers: Vec<String> = (0..2_000).map(|i| (i * 7 % 2_000).to_string()).collect();
    let mut sim = Sim::new();
    let joined = numbers.join(" ");
    fill::list(&mut sim, "l", &joined);
    fill::set(&mut sim, "s", &joined);
    fill::zset(&mut sim, "z", &joined);
    for key in ["l", "s", "z"] {
        sim.expect(
            &format!("sort {key} limit 998 3"),
            "*3 $3 998 $3 999 $4 1000",
        );
        sim.expect(&format!("sort {key} desc limit 0 2"), "*2 $4 1999 $4 1998");
        sim.expect(
            &format!("sort {key} alpha limit 1 3"),
            "*3 $1 1 $2 10 $3 100",
        );
        sim.expect(&format!("sort {key} store d"), ":2000");
        sim.expect("sort d by nosort limit 1234 1", "*1 $4 1234");
    }
    sim.expect("sort l by nosort desc limit 1 1", "*1 $4 1986");
    sim.expect("sort z by nosort desc limit 1 1", "*1 $4 1986");
    sim.expect("sort z by nosort limit 1 1", "*1 $1 7");
}

#[test]
fn key_specifications_say_that_patterns_and_destination_are_not_at_fixed_places() {
    let mut sim = Sim::new();
    let unknown = "$12 begin_search *4 $4 type $7 unknown $4 spec *0 \
                   $9 find_keys *4 $4 type $7 unknown $4 spec *0";
    let info = sim.run("command info sort");
    let patterns = format!("*6 $5 flags *2 +RO +access {unknown}");
    let destination = format!("*6 $5 flags *2 +OW +update {unknown}");
    assert!(
        info.contains(&patterns) && info.contains(&destination),
        "{info}"
    );
    assert!(
        info.contains("*3 +write +denyoom +movablekeys :1 :1 :1"),
        "{info}"
    );
    let info = sim.run("command info sort_ro");
    assert!(
        info.contains(&patterns) && !info.contains(&destination),
        "{info}"
    );
}
