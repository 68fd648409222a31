//! The list of settings for `--help`.

use super::SETTINGS;
use super::source::quote;
use super::table::Setting;

/// The list of all settings for `--help`.
pub fn help() -> String {
    let entry = |s: &Setting| {
        let (name, values, default) = (s.name, s.values, quote(&s.default_value()));
        format!("  --{name} {values}\n      {} Default: {default}\n", s.help)
    };
    SETTINGS.iter().map(entry).collect()
}
