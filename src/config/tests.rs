//! Tests of the table and of the three sources.

use std::io;

use super::rewrite::REWRITE_MARKER;
use super::source::quote;
use super::*;

/// File, environment, arguments, and what should come of them.
type Case = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
    &'static str,
);

fn no_files(path: &str) -> io::Result<String> {
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        format!("no {path}"),
    ))
}

fn words(text: &[&str]) -> Vec<String> {
    text.iter().map(|word| word.to_string()).collect()
}

fn load(file: &str, env: &[(&str, &str)], args: &[&str]) -> Result<Config, String> {
    let env = env.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    parse(Some(("m.conf", file)), env, &words(args), &mut no_files)
        .map(|(config, _)| config)
        .map_err(|error| error.to_string())
}

fn shown(config: &Config, name: &str) -> String {
    find(name).expect("a known name").value(config)
}

fn set(config: &mut Config, pairs: &[(&str, &str)]) -> Result<Vec<&'static str>, String> {
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(k, v)| (k.to_string(), v.to_string()))
        .collect();
    config.set(&pairs, false).map_err(|error| error.to_string())
}

#[test]
fn defaults_are_shown_as_documented_and_read_back() {
    let expected = [
        ("bind", "127.0.0.1 -::1"),
        ("port", "6379"),
        ("unixsocketperm", "0"),
        ("client-query-buffer-limit", "1073741824"),
        ("proto-max-bulk-len", "536870912"),
        ("save", "3600 1 300 100 60 10000"),
        ("snapshot-backlog-limit", "12582912"),
        ("stop-writes-on-bgsave-error", "no"),
        ("notify-keyspace-events", ""),
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
        ("appendonly", "no"),
        ("io-threads", "1"),
        (
            "client-output-buffer-limit",
            "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
        ),
    ];
    for (name, value) in expected {
        assert_eq!(shown(&Config::default(), name), value, "{name}");
    }
    for setting in SETTINGS {
        let mut config = Config::default();
        (setting.set)(&mut config, &[setting.default_value()]).expect(setting.name);
        assert_eq!(config, Config::default(), "{}", setting.name);
        assert_eq!(
            SETTINGS.iter().filter(|s| s.name == setting.name).count(),
            1
        );
        assert!(help().contains(setting.help) && setting.help.ends_with('.'));
    }
}

#[test]
fn values_are_accepted_and_shown_as_redis_does() {
    let table = [
        ("hz", "0", "1"),
        ("hz", "501", "500"),
        ("protected-mode", "NO", "no"),
        ("client-query-buffer-limit", "1MB", "1048576"),
        ("client-query-buffer-limit", "1500000b", "1500000"),
        ("proto-max-bulk-len", "2m", "2000000"),
        ("loglevel", "DEBUG", "debug"),
        ("save", "+5 07", "5 7"),
        ("save", "60 10 60 10", "60 10 60 10"),
        ("save", "1 0", "1 0"),
        ("save", "", ""),
        ("bind", "* -::*", "* -::*"),
        ("bind", "", ""),
        ("notify-keyspace-events", "KEA", "AKE"),
        ("notify-keyspace-events", "KEAmnoc", "AKEm"),
        ("notify-keyspace-events", "cKonEm", "nocKEm"),
        ("notify-keyspace-events", "Elgx$", "g$lxE"),
        ("notify-keyspace-events", "tdxe", "xetd"),
        ("notify-keyspace-events", "g$lshzxetd", "A"),
        ("notify-keyspace-events", "g$lshzxetE", "g$lshzxetE"),
        ("appendonly", "NO", "no"),
        ("maxmemory", "0mb", "0"),
        (
            "client-output-buffer-limit",
            "REPLICA 1kb 2k +3 pubsub 1gb 1g 5",
            "normal 0 0 0 slave 1024 2000 3 pubsub 1073741824 1000000000 5",
        ),
    ];
    for (name, value, expected) in table {
        let mut config = Config::default();
        set(&mut config, &[(name, value)]).expect(name);
        assert_eq!(shown(&config, name), expected, "{name} {value}");
    }
}

#[test]
fn config_set_refuses_in_the_words_of_redis() {
    let not_integer = "argument couldn't be parsed into an integer";
    let not_memory = "argument must be a memory value";
    let is_immutable = "can't set immutable config";
    let is_protected = "can't set protected config";
    let event_class = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
    let one_mb = "argument must be between 1048576 and 9223372036854775807 inclusive";
    let limits = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
    let levels = "argument(s) must be one of the following: \
                  debug, verbose, notice, warning, nothing";
    let limit_count = "Wrong number of arguments in buffer limit configuration.";
    let table = [
        ("port", "x", not_integer),
        (
            "port",
            "70000",
            "argument must be between 0 and 65535 inclusive",
        ),
        ("timeout", "010", not_integer),
        ("timeout", "+1", not_integer),
        ("timeout", "-0", not_integer),
        ("timeout", "", not_integer),
        (
            "timeout",
            "-1",
            "argument must be between 0 and 2147483647 inclusive",
        ),
        (
            "hz",
            "-1",
            "argument must be between 0 and 2147483647 inclusive",
        ),
        (
            "maxclients",
            "0",
            "argument must be between 1 and 4294967295 inclusive",
        ),
        (
            "active-expire-effort",
            "11",
            "argument must be between 1 and 10 inclusive",
        ),
        ("dynamic-hz", "maybe", "argument must be 'yes' or 'no'"),
        ("client-query-buffer-limit", "1.5mb", not_memory),
        ("client-query-buffer-limit", "-1", not_memory),
        ("client-query-buffer-limit", "1", one_mb),
        (
            "proto-max-bulk-len",
            "99999999999999999999999999999999999999999gb",
            "argument must be between 1048576 and 536870912 inclusive",
        ),
        ("save", "3600", "Invalid save parameters"),
        ("save", "0 1", "Invalid save parameters"),
        ("save", "1 -1", "Invalid save parameters"),
        ("save", " 60 10", "Invalid save parameters"),
        ("notify-keyspace-events", "Kq", event_class),
        ("client-output-buffer-limit", "normal 1 2", limit_count),
        ("client-output-buffer-limit", "normal 1% 2 3", limits),
        ("client-output-buffer-limit", "normal 1 2 -3", limits),
        (
            "client-output-buffer-limit",
            "normal 1 2 3 master 1 2 3",
            "Invalid client class specified in buffer limit configuration.",
        ),
        ("loglevel", "foo", levels),
        ("databases", "3", is_immutable),
        ("enable-debug-command", "yes", is_immutable),
        ("expire-clock", "wall", is_immutable),
        ("dbfilename", "a", is_protected),
        ("dir", "/tmp", is_protected),
        (
            "bind",
            &["::1"; 17].join(" "),
            "Too many bind addresses specified.",
        ),
        ("bind", "  ::1", "Failed to bind to specified addresses."),
    ];
    for (name, value, why) in table {
        let mut config = Config::default();
        let error = set(&mut config, &[("tcp-keepalive", "7"), (name, value)]);
        let head = format!("ERR CONFIG SET failed (possibly related to argument '{name}')");
        assert_eq!(error, Err(format!("{head} - {why}")), "{name} {value}");
        assert_eq!(config, Config::default(), "{name}: all or nothing");
    }
}

#[test]
fn config_set_checks_names_before_values() {
    let mut config = Config::default();
    let unknown = "ERR Unknown option or number of arguments for CONFIG SET - 'Foo'";
    assert_eq!(
        set(&mut config, &[("port", "x"), ("Foo", "1")]),
        Err(unknown.into())
    );
    let twice = set(&mut config, &[("timeout", "1"), ("TIMEOUT", "2")]).unwrap_err();
    assert!(
        twice.ends_with("argument 'TIMEOUT') - duplicate parameter"),
        "{twice}"
    );
    for fixed in [
        ("appendonly", "yes"),
        ("maxmemory", "1gb"),
        ("maxmemory-policy", "x"),
    ] {
        assert!(
            set(&mut config, &[fixed])
                .unwrap_err()
                .contains("not supported yet")
        );
    }
    assert!(
        load("enable-protected-configs local", &[], &[]).is_ok_and(|mut config| {
            let pair = [("dbfilename".to_string(), "a/b".to_string())];
            let remote = config.set(&pair, false).unwrap_err().to_string();
            let local = config.set(&pair, true).unwrap_err().to_string();
            remote.ends_with("can't set protected config")
                && local.ends_with("dbfilename can't be a path, just a filename")
        })
    );
    let changed = set(&mut config, &[("hz", "10"), ("Port", "7"), ("save", "1 1")]);
    assert_eq!(changed, Ok(vec!["port", "save"]));
    let hidden = [("notify-keyspace-events", "An")];
    assert_eq!(
        set(&mut config, &[("notify-keyspace-events", "A")]).map(|c| c.len()),
        Ok(1)
    );
    assert_eq!(
        set(&mut config, &hidden).map(|changed| changed.len()),
        Ok(1)
    );
}

#[test]
fn later_sources_win_and_save_points_add_up_within_one() {
    let file = "# c\n\n \t TIMEOUT\t1\r\nport 1\nhz 1\nsave 1 2\nsave 3 4 5 6\n";
    let env = [("MAYFLY_PORT", "2"), ("MAYFLY_HZ", "2"), ("HOME", "x")];
    let config = load(file, &env, &["x.conf", "--hz", "3"]).expect("it is well formed");
    assert_eq!((config.timeout_seconds, config.port, config.hz), (1, 2, 3));
    assert_eq!(shown(&config, "save"), "1 2 3 4 5 6");
    let table: [Case; 8] = [
        ("save 1 2\nsave \"\"\nsave 3 4", &[], &[], "3 4"),
        ("save \"\"", &[], &[], ""),
        ("save \"1 2\"", &[], &[], "1 2"),
        ("save 1 2", &[("MAYFLY_SAVE", "5 6")], &[], "5 6"),
        ("save 1 2", &[("MAYFLY_SAVE", "")], &[], ""),
        (
            "save 1 2",
            &[],
            &["--save", "5", "6", "--save", "7 8"],
            "5 6 7 8",
        ),
        ("save 1 2", &[], &["--save", "--port", "7000"], ""),
        ("save 1 2", &[], &["--save", ""], ""),
    ];
    for (file, env, args, expected) in table {
        assert_eq!(
            shown(&load(file, env, args).expect("it is well formed"), "save"),
            expected,
            "{file} {args:?}"
        );
    }
    let args = [
        "--bind",
        "127.0.0.1",
        "-::1",
        "--requirepass",
        "a b",
        "--port 7000",
    ];
    let config = load("", &[], &args).expect("it is well formed");
    assert_eq!(
        (config.bind.len(), config.port, &*config.requirepass),
        (2, 7000, "a b")
    );
    let config =
        load("client-output-buffer-limit normal 1 2 3\n", &[], &[]).expect("it is well formed");
    assert!(shown(&config, "client-output-buffer-limit").starts_with("normal 1 2 3 slave 2684"));
    assert_eq!(
        load("unixsocketperm 0777", &[], &[])
            .expect("it is well formed")
            .unixsocket_permissions,
        0o777
    );
}

#[test]
fn mistakes_are_named_with_their_place() {
    let table: [Case; 15] = [
        (
            "\nport 70000",
            &[],
            &[],
            "m.conf:2: port: argument must be between 0 and 65535 \
          inclusive, got '70000' (expected 0 to 65535)",
        ),
        (
            "foo 1",
            &[],
            &[],
            "m.conf:1: unknown setting 'foo', expected one listed by --help",
        ),
        (
            "daemonize no",
            &[],
            &[],
            "m.conf:1: unknown setting 'daemonize'",
        ),
        ("dir \"x", &[], &[], "m.conf:1: unbalanced quotes"),
        (
            "timeout 5 # five",
            &[],
            &[],
            "m.conf:1: timeout: wrong number of arguments, got",
        ),
        (
            "timeout",
            &[],
            &[],
            "m.conf:1: timeout: wrong number of arguments, got ''",
        ),
        (
            "requirepass se cret",
            &[],
            &[],
            "m.conf:1: requirepass: wrong number of arguments (ex",
        ),
        (
            "unixsocketperm 789",
            &[],
            &[],
            "m.conf:1: unixsocketperm: argument couldn't be parsed as",
        ),
        (
            "unixsocketperm 1000",
            &[],
            &[],
            "m.conf:1: unixsocketperm: argument must be between 0 and 777",
        ),
        (
            "include x",
            &[],
            &[],
            "m.conf:1: include: can't read 'x': no x",
        ),
        (
            "dbfilename ..",
            &[],
            &[],
            "m.conf:1: dbfilename: dbfilename can't be a path",
        ),
        (
            "appendonly yes",
            &[],
            &[],
            "m.conf:1: appendonly: an append-only file is not supported",
        ),
        (
            "",
            &[("MAYFLY_PORT", "x")],
            &[],
            "MAYFLY_PORT: argument couldn't be parsed into an",
        ),
        (
            "",
            &[],
            &["--foo", "1"],
            "command line: unknown setting 'foo'",
        ),
        (
            "",
            &[],
            &["-p", "1"],
            "argument '-p': expected --name and its value",
        ),
    ];
    for (file, env, args, expected) in table {
        let error = load(file, env, args).unwrap_err();
        assert!(error.starts_with(expected), "{error}\n{expected}");
    }
    let env = [("MAYFLY_FOO".to_string(), "1".to_string())].into_iter();
    let (_, warnings) = parse(None, env, &[], &mut no_files).expect("it is well formed");
    assert_eq!(warnings, ["MAYFLY_FOO: names no setting and is ignored"]);
}

#[test]
fn included_files_are_read_in_place_and_only_so_deep() {
    let mut files = |path: &str| match path {
        "a" => Ok("timeout 9\nport 2\n".to_string()),
        "bad" => Ok("\nhz x".to_string()),
        "loop" => Ok("include loop\n".to_string()),
        _ => no_files(path),
    };
    let mut read = |text| parse(Some(("m", text)), [].into_iter(), &[], &mut files);
    let (config, _) = read("timeout 1\ninclude a\nport 3").expect("it is well formed");
    assert_eq!((config.timeout_seconds, config.port), (9, 3));
    assert!(
        read("include bad")
            .unwrap_err()
            .to_string()
            .starts_with("bad:2: hz: ")
    );
    let error = read("include loop").unwrap_err();
    assert_eq!(
        error.to_string(),
        "loop:1: include: expected at most 16 levels and 256 files in all"
    );
}

#[test]
fn lines_are_split_as_redis_splits_them() {
    let table: [(&str, Option<&[&str]>); 11] = [
        ("", Some(&[])),
        (" a\t b\r\n", Some(&["a", "b"])),
        (r#"a "b c" 'd e'"#, Some(&["a", "b c", "d e"])),
        (r#""" ''"#, Some(&["", ""])),
        (r#""a\x41\n\"\q\xZ""#, Some(&["aA\n\"qxZ"])),
        (r"'a\'b\n'", Some(&["a'b\\n"])),
        (r#"a"b c""#, Some(&["ab c"])),
        (r#"a"b"c"#, None),
        (r#"a "b"#, None),
        (r#""b\"#, None),
        ("'a\\'", None),
    ];
    for (line, expected) in table {
        let expected = expected.map(|e| e.iter().map(|w| w.as_bytes().to_vec()).collect());
        assert_eq!(split_line(line.as_bytes()), expected, "{line}");
    }
    for value in ["a", "", "a b", "\"\\'\n\r\t\u{7}é#", "é"] {
        let back = split_line(quote(value).as_bytes()).expect("it is well formed");
        assert_eq!(back, [value.as_bytes()]);
    }
    let args = words(&["-", "--port", "1"]);
    assert_eq!(split_file_argument(&args), (Some("-"), &args[1..]));
    assert_eq!(split_file_argument(&args[1..]), (None, &args[1..]));
}

#[test]
fn config_get_takes_names_and_patterns_in_any_case() {
    let prefix = |pattern: &[u8], name: &[u8]| name.starts_with(&pattern[..pattern.len() - 1]);
    let config = Config::default();
    let get = |patterns: &[&[u8]]| -> Vec<String> {
        config
            .get(patterns, &prefix)
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    };
    assert_eq!(
        get(&[b"TIMEOUT", b"timeout", b"nope", b"\xff"]),
        ["TIMEOUT"]
    );
    assert_eq!(
        get(&[b"TC*", b"tcp-backlog", b"Hz"]),
        ["tcp-backlog", "tcp-keepalive", "Hz"]
    );
    assert_eq!(get(&[b"*"]).len(), SETTINGS.len() + OLD_NAMES.len());
}

#[test]
fn rewrite_changes_only_what_no_longer_holds() {
    let old = "# head\nport 1\n\ntimeout 5\nsave 1 2\n# mid\nsave 3 4\nhz  10\n\
               client-query-buffer-limit 10mb\nfrobnicate 1\ntimeout 6";
    let mut config = load(&old.replace("frobnicate 1", ""), &[], &[]).expect("it is well formed");
    assert_eq!(config.rewrite(old, &mut no_files), format!("{old}\n"));
    let pairs = [
        ("save", "8 8 9 9"),
        ("timeout", "7"),
        ("notify-keyspace-events", "AKn"),
    ];
    set(&mut config, &pairs).expect("it is well formed");
    set(&mut config, &[("requirepass", "x y\"\n")]).expect("it is well formed");
    let new = config.rewrite(old, &mut no_files);
    let expected = "# head\nport 1\n\ntimeout 7\nsave 8 8\nsave 9 9\n# mid\nhz  10\n\
                    client-query-buffer-limit 10mb\nfrobnicate 1\n\n# Added by CONFIG REWRITE\n\
                    requirepass \"x y\\\"\\n\"\nnotify-keyspace-events AnK\n";
    assert_eq!(new, expected);
    assert_eq!(config.rewrite(&new, &mut no_files), new);
    assert_eq!(load(&new.replace("frobnicate 1", ""), &[], &[]), Ok(config));
}

#[test]
fn rewrite_holds_against_included_files_and_broken_lines() {
    let mut files = |_: &str| Ok("timeout 9\nhz 20\nsave 9 9\nbind ::1\n".to_string());
    let old = "timeout 1\ninclude a\nsave 1 1\ndir \"x\nport x\n";
    let mut config = Config::default();
    for save in ["", "7 7 8 8"] {
        set(
            &mut config,
            &[("save", save), ("timeout", "3"), ("bind", "")],
        )
        .expect("it is well formed");
        let new = config.rewrite(old, &mut files);
        let read = parse(Some(("m", &new)), [].into_iter(), &[], &mut files);
        assert_eq!(read.map(|(read, _)| read), Ok(config.clone()), "{new}");
        assert_eq!(config.rewrite(&new, &mut files), new);
    }
    let everything = Config {
        bind: vec!["*".into()],
        unixsocket: "/run/my sock".into(),
        unixsocket_permissions: 0o770,
        output_limits: [OutputLimit {
            hard_bytes: 3,
            soft_bytes: 2,
            soft_seconds: 1,
        }; 3],
        save: vec![],
        expire_clock: ExpireClock::Wall,
        load_keeps_expired: true,
        debug_command: Permission::Local,
        ..Config::default()
    };
    let new = everything.rewrite("", &mut no_files);
    assert!(new.starts_with(REWRITE_MARKER));
    assert_eq!(load(&new, &[], &[]), Ok(everything));
}
