//! CONFIG REWRITE: the text of a configuration file, brought up to date.

use std::io;

use super::source::{Loader, setting_of};
use super::{Config, SETTINGS, Setting};

pub(super) const REWRITE_MARKER: &str = "# Added by CONFIG REWRITE";

impl Config {
    /// CONFIG REWRITE: the text of the file changed so that reading it gives this configuration.
    ///
    /// Comments, unknown lines, order and lines that still hold stay as they are. A setting whose
    /// lines no longer hold gets new ones in the place of its first; what then is still missing
    /// (because it stood in no line, or an included file says otherwise) is added at the end.
    pub fn rewrite(
        &self,
        old_text: &str,
        read_include: &mut dyn FnMut(&str) -> io::Result<String>,
    ) -> String {
        let mut text = self.replace_stale_lines(old_text);
        let mut loader = Loader::new(read_include);
        loader.is_lenient = true;
        // A lenient loader skips what is wrong, so there is no error to see.
        let _ = loader.file("", &text, 0);
        let mut added = Vec::new();
        for setting in SETTINGS {
            let lines = setting.lines(self);
            if lines != setting.lines(&loader.config) {
                // Without this the points would add up with those further above.
                if setting.name == "save" && loader.save_seen && !self.save.is_empty() {
                    added.push("save \"\"".to_string());
                }
                added.extend(lines);
            }
        }
        if !added.is_empty() && !text.lines().any(|line| line == REWRITE_MARKER) {
            text.push_str(if text.is_empty() { "" } else { "\n" });
            added.insert(0, REWRITE_MARKER.to_string());
        }
        for line in added {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    fn replace_stale_lines(&self, old_text: &str) -> String {
        let lines: Vec<(&str, Option<&Setting>)> = old_text
            .split_inclusive('\n')
            .map(|line| (line, setting_of(line)))
            .collect();
        let is_stale = |setting: &Setting| {
            let mut no_include = |_: &str| Err(io::Error::other("not read here"));
            let mut loader = Loader::new(&mut no_include);
            let own = lines
                .iter()
                .filter(|(_, s)| s.is_some_and(|s| s.name == setting.name));
            let is_bad = own
                .map(|(line, _)| loader.file("", line, 0))
                .any(|r| r.is_err());
            is_bad || setting.lines(&loader.config) != setting.lines(self)
        };
        let mut text = String::with_capacity(old_text.len());
        let mut replaced: Vec<&str> = Vec::new();
        for (line, setting) in &lines {
            match setting {
                Some(s) if replaced.contains(&s.name) => continue,
                Some(s) if is_stale(s) => {
                    replaced.push(s.name);
                    text.push_str(&s.lines(self).join("\n"));
                }
                _ => text.push_str(line),
            }
            if !text.ends_with('\n') {
                text.push('\n');
            }
        }
        text
    }
}
