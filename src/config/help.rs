//! What the table tells people: the settings in groups, for `--help` and as an annotated file.

use super::source::quote;
use super::{ACCEPTED, Config, Row, SETTINGS, Setting};

/// Titles of the groups, each with the first of its settings in the order of the table.
pub(super) const GROUPS: &[(&str, &str)] = &[
    ("Network", "bind"),
    ("Clients", "timeout"),
    ("Memory and encodings", "maxmemory"),
    ("Databases and snapshots", "databases"),
    ("Expiry", "active-expire-effort"),
    ("Events", "notify-keyspace-events"),
    ("Housekeeping and permissions", "hz"),
    ("Page and metrics", "metrics-port"),
    ("Logging and starting", "loglevel"),
];

/// Settings that neither Redis nor Valkey has.
const OWN: &[&str] = &[
    "snapshot-load",
    "load-expired",
    "snapshot-backlog-limit",
    "expire-clock",
    "expire-max-lag-ms",
    "expire-past-event",
    "expired-event-stream",
    "expiry-rule",
    "metrics-port",
    "metrics-bind",
    "metrics-hosts",
    "metrics-show-keys",
    "unknown-settings",
];

const MARK: &str = " (Mayfly's own)";

/// Where the lines of comments are broken.
const COMMENT_WIDTH: usize = 90;

fn mark(setting: &Setting) -> &'static str {
    if OWN.contains(&setting.name) {
        MARK
    } else {
        ""
    }
}

fn group(setting: &Setting) -> Option<&'static str> {
    let mut groups = GROUPS.iter();
    groups
        .find(|(_, first)| *first == setting.name)
        .map(|(title, _)| *title)
}

/// The list of all settings for `--help`.
pub fn help() -> String {
    let mut text = String::new();
    for setting in SETTINGS {
        if let Some(title) = group(setting) {
            text += &format!("\n{title}:\n");
        }
        let default = quote(&Row::Works(setting).default_value());
        let (name, values, help, own) = (setting.name, setting.values, setting.help, mark(setting));
        text += &format!("  --{name} {values}{own}\n      {help} Default: {default}\n");
    }
    text + &format!(
        "\nAnother {} settings of Redis and Valkey are accepted, so that their files can be used, \
         but have no\neffect; a warning at start names those that were given and says why.\n",
        ACCEPTED.len()
    )
}

/// A configuration file that reads back as `config`, with the help of each setting as a comment;
/// settings that have their default are commented out.
pub fn annotated(config: &Config) -> String {
    let mut text = String::from(
        "# Configuration of Mayfly: mayfly /path/to/this/file\n#\n\
         # A line is a setting and its value; a value with spaces stands in double quotes.\n\
         # Lines that are commented out show the defaults.\n",
    );
    for setting in SETTINGS {
        if let Some(title) = group(setting) {
            text += &format!("\n# ---- {title} ----\n");
        }
        let (values, help, own) = (setting.values, setting.help, mark(setting));
        text += &format!("\n{}# Values: {values}{own}\n", comment(help));
        let row = Row::Works(setting);
        let is_default = row.lines(config) == row.lines(&Config::default());
        for line in row.lines(config) {
            text += &format!("{}{line}\n", if is_default { "# " } else { "" });
        }
    }
    let names: Vec<&str> = ACCEPTED.iter().map(|row| row.name).collect();
    text += "\n# ---- Accepted without effect ----\n\n";
    text += &comment(&format!(
        "Settings of Redis and Valkey that are accepted but do nothing: {}.",
        names.join(", ")
    ));
    for accepted in ACCEPTED
        .iter()
        .filter(|row| config.accepted.contains_key(row.name))
    {
        text += &format!("{}\n", Row::Accepted(accepted).lines(config).join("\n"));
    }
    text
}

fn comment(text: &str) -> String {
    let mut lines = vec![String::from("#")];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is a first line");
        if last.len() + 1 + word.len() > COMMENT_WIDTH && last.len() > 1 {
            lines.push(format!("# {word}"));
        } else {
            last.push(' ');
            last.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}
