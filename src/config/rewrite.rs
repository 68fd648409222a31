//! CONFIG REWRITE: the text of a configuration file, brought up to date.

use std::collections::BTreeMap;
use std::io;

use super::source::{Assembler, ReadInclude, setting_of};
use super::{Config, Row, rows};

pub(super) const REWRITE_MARKER: &str = "# Added by CONFIG REWRITE";

impl Config {
    /// CONFIG REWRITE: the text of the file changed so that reading it gives this configuration.
    ///
    /// Comments, unknown lines, order and lines that still hold stay as they are. A setting whose
    /// lines no longer hold gets new ones in the place of its first; what then is still missing
    /// (because it stood in no line, or an included file says otherwise) is added at the end.
    pub fn rewrite(&self, old_text: &[u8], read_include: ReadInclude<'_>) -> Vec<u8> {
        let mut text = self.replace_stale_lines(old_text);
        // The file may have been edited since the start: mistakes in it are not looked at.
        let mut loader = Assembler::new(read_include);
        loader.file("", &text, 0);
        let mut added = Vec::new();
        for row in rows() {
            let lines = row.lines(self);
            if lines != row.lines(&loader.config) {
                // Without this they would add up with those further above.
                let adds_up = loader.adding_up.contains(&row.name());
                let nothing = format!("{} \"\"", row.name());
                if adds_up && lines.first() != Some(&nothing) {
                    added.push(nothing);
                }
                added.extend(lines);
            }
        }
        let is_marker = |line: &[u8]| line == REWRITE_MARKER.as_bytes();
        if !added.is_empty() && !text.split(|byte| *byte == b'\n').any(is_marker) {
            text.extend_from_slice(if text.is_empty() { b"" } else { b"\n" });
            added.insert(0, REWRITE_MARKER.to_string());
        }
        for line in added {
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
        }
        text
    }

    fn replace_stale_lines(&self, old_text: &[u8]) -> Vec<u8> {
        let lines: Vec<(&[u8], Option<Row>)> = old_text
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| (line, setting_of(line)))
            .collect();
        let is_stale = |row: Row| {
            let mut no_include = |_: &str| Err(io::Error::other("not read here"));
            let mut loader = Assembler::new(&mut no_include);
            let own = |other: Option<Row>| other.is_some_and(|other| other.name() == row.name());
            for (line, _) in lines.iter().filter(|(_, other)| own(*other)) {
                loader.file("", line, 0);
            }
            !loader.errors.is_empty() || row.lines(&loader.config) != row.lines(self)
        };
        let mut text = Vec::with_capacity(old_text.len());
        // Whether the lines of a setting are stale: judged once, as there may be thousands.
        let mut seen: BTreeMap<&str, bool> = BTreeMap::new();
        for (line, row) in &lines {
            let known = row.and_then(|row| seen.get(row.name()).copied());
            match row {
                Some(_) if known == Some(true) => continue,
                Some(row) if known.is_none() && is_stale(*row) => {
                    seen.insert(row.name(), true);
                    text.extend_from_slice(row.lines(self).join("\n").as_bytes());
                }
                _ => {
                    row.map(|row| seen.insert(row.name(), false));
                    text.extend_from_slice(line);
                }
            }
            if !text.ends_with(b"\n") {
                text.push(b'\n');
            }
        }
        text
    }
}
