//! Rules on the text of the sources that no compiler checks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Every module of the crate; each uses only those before it.
const ORDER: [&str; 14] = [
    "allocator",
    "clock",
    "heap",
    "config",
    "expiry",
    "value",
    "resp",
    "script",
    "store",
    "snapshot",
    "engine",
    "command",
    "web",
    "server",
];

/// The files where `unsafe` may be written.
const UNSAFE: [&str; 6] = [
    "allocator.rs",
    "heap.rs",
    "script/exchange.rs",
    "store/entry.rs",
    "value/prefetch.rs",
    "value/wide.rs",
];

/// Modules of a folder that use each other in a circle, so that none can be read without the
/// others. There should be no more.
const CIRCLES: [&[&str]; 8] = [
    &[
        "command/dispatch",
        "command/key",
        "command/member",
        "command/server",
        "command/table",
        "command/transaction",
    ],
    &[
        "config/accepted",
        "config/read",
        "config/expiry_rules",
        "config/source",
    ],
    &["engine/blocking", "engine/client_memory", "engine/session"],
    &["script/exchange", "script/sandbox"],
    &["server/listener", "server/web"],
    &["store/entry_mut", "store/table"],
    &[
        "store/collection",
        "store/db",
        "store/deaths",
        "store/edit",
        "store/evict",
        "store/expire",
        "store/graveyard",
        "store/keyspace",
        "store/live",
        "store/members",
        "store/preimages",
        "store/restate",
        "store/clock_shift",
    ],
    &["value/segment", "value/segmented"],
];

const LINE_WIDTH: usize = 100;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
    let entries = std::fs::read_dir(dir).expect("a directory of sources");
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source");
            found.push((path, text));
        }
    }
}

fn files_in(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    rust_files(&root().join(folder), &mut found);
    assert!(!found.is_empty());
    found
}

#[test]
fn every_file_says_what_it_is_for() {
    for folder in ["src", "tests"] {
        for (path, text) in files_in(folder) {
            assert!(text.starts_with("//! "), "{}", path.display());
        }
    }
}

#[test]
fn no_line_is_too_long() {
    for folder in ["src", "tests", "benches"] {
        for (path, text) in files_in(folder) {
            for (i, line) in text.lines().enumerate() {
                let width = line.chars().count();
                // A banner is drawn in one literal.
                let is_literal = line.trim_start().starts_with('"');
                let place = format!("{}:{}", path.display(), i + 1);
                assert!(width <= LINE_WIDTH || is_literal, "{place}: {width}");
            }
        }
    }
}

#[test]
fn unsafe_code_is_in_its_six_files() {
    let src = root().join("src");
    for (path, text) in files_in("src") {
        let name = path.strip_prefix(&src).expect("it is in src");
        if text.contains("allow(unsafe_code)") {
            let is_known = UNSAFE.iter().any(|known| name == Path::new(known));
            assert!(is_known, "{}", path.display());
        }
    }
}

/// The module after each `crate::` of the code, comments aside.
fn used_modules(text: &str) -> Vec<String> {
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let mut used = Vec::new();
    for line in code {
        for rest in line.split("crate::").skip(1) {
            let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
            used.push(rest.chars().take_while(is_name).collect());
        }
    }
    used
}

#[test]
fn modules_use_only_those_above_them() {
    let src = root().join("src");
    for (path, text) in files_in("src") {
        let name = path.strip_prefix(&src).expect("it is in src");
        let top = name.iter().next().expect("a name").to_string_lossy();
        let module = top.strip_suffix(".rs").unwrap_or(&top);
        if ["lib", "main"].contains(&module) {
            continue;
        }
        let own = ORDER.iter().position(|known| *known == module);
        let own = own.unwrap_or_else(|| panic!("{module} has no place in the order"));
        for used in used_modules(&text) {
            let place = ORDER.iter().position(|known| *known == used);
            let is_above = place.is_some_and(|place| place <= own);
            assert!(is_above, "{} uses {used}", path.display());
        }
    }
}

/// Which modules of a folder, as `folder/module`, each of them uses. Their tests do not count.
fn uses_in_folders() -> BTreeMap<String, BTreeSet<String>> {
    let src = root().join("src");
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in files_in("src") {
        let name = path.strip_prefix(&src).expect("it is in src");
        let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
        let [folder, module, inner @ ..] = &parts[..] else {
            continue;
        };
        let module = module.trim_end_matches(".rs");
        if ["mod", "tests"].contains(&module) {
            continue;
        }
        // Of files below a module only its mod.rs has the folder's modules beside it.
        let is_beside = inner.is_empty() || inner == ["mod.rs"];
        let code = text.split("#[cfg(test)]\nmod tests").next();
        let own = uses.entry(format!("{folder}/{module}")).or_default();
        let code = code.unwrap_or_default().lines();
        for line in code.filter(|line| !line.trim_start().starts_with("//")) {
            let here = format!("crate::{folder}::");
            let beside = if is_beside { "super::" } else { &here };
            for rest in [&*here, beside]
                .iter()
                .flat_map(|by| line.split(by).skip(1))
            {
                let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
                let used: String = rest.chars().take_while(is_name).collect();
                own.insert(format!("{folder}/{used}"));
            }
        }
    }
    uses
}

/// All modules that one uses, and those that these use.
fn reached<'a>(
    uses: &'a BTreeMap<String, BTreeSet<String>>,
    from: &'a String,
) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut left = vec![from];
    while let Some(module) = left.pop() {
        let used = uses.get(module).into_iter().flatten();
        left.extend(used.filter(|used| reached.insert(*used)));
    }
    reached
}

#[test]
fn the_modules_of_a_folder_use_each_other_in_known_circles_alone() {
    let uses = uses_in_folders();
    let all: BTreeMap<_, _> = uses
        .keys()
        .map(|module| (module, reached(&uses, module)))
        .collect();
    for (one, reached) in &all {
        for other in reached.iter().filter(|other| *other != one) {
            let is_circle = all.get(other).is_some_and(|back| back.contains(one));
            let is_known = CIRCLES.iter().any(|circle| {
                [one, other]
                    .iter()
                    .all(|name| circle.contains(&name.as_str()))
            });
            assert!(!is_circle || is_known, "{one} and {other}");
        }
    }
}

/// What goes past the storage cannot be made to fail by a test.
#[test]
fn snapshots_reach_the_file_system_through_their_storage() {
    let storage = root().join("src/snapshot/storage.rs");
    let mut asked = Vec::new();
    for folder in ["src/snapshot", "src/engine"] {
        let files = files_in(folder).into_iter();
        asked.extend(files.filter(|(_, text)| text.contains("fs::")));
    }
    let names: Vec<PathBuf> = asked.into_iter().map(|(path, _)| path).collect();
    assert_eq!(names, [storage]);
}

/// Other encodings can be put beside it, and other jobs can use it.
#[test]
fn the_encoder_of_snapshots_and_the_job_know_little_of_each_other() {
    let read = |name: &str| {
        let path = root().join("src/snapshot").join(name);
        std::fs::read_to_string(path).expect("a source")
    };
    assert_eq!(used_modules(&read("encoder.rs")), ["value"]);
    let job = read("mod.rs");
    let mut code = job.lines().filter(|line| !line.starts_with("//"));
    assert!(code.all(|line| !line.contains("format::") && !line.contains("Record")));
}

/// `cargo bench -- --save-baseline NAME` hands the flag to every bench target, and the harness of
/// unit tests refuses it.
#[test]
fn only_criterion_is_given_the_flags_of_cargo_bench() {
    let text = std::fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    for table in ["[lib]", "[[bin]]"] {
        let (_, rest) = text.split_once(table).expect(table);
        let keys = rest.split("\n[").next().expect("the table's keys");
        assert!(keys.contains("bench = false"), "{table}");
    }
}
