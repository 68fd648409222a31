//! The three sources of settings: the file, the environment and the command line.
//!
//! All mistakes are gathered before any is reported: who moves a configuration over wants to see
//! them at once, not one at each start.

use std::fmt;
use std::io;

use super::accepted::{refusal, without_effect};
use super::expiry_rules::ExpiryRules;
use super::nearest::nearest;
use super::*;

/// How many mistakes a message lists; a file that is no configuration has one on each line.
pub const MISTAKES_SHOWN_MAX: usize = 100;

/// One mistake in a configuration: where and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// `file:line`, an environment variable or an argument.
    pub place: String,
    /// What was wrong there and what was expected.
    pub message: String,
    /// Whether it is a name that no setting has.
    pub is_unknown: bool,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Why a configuration could not be read: all mistakes, and what would have been warned about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    /// At least one mistake, in the order in which they were met.
    pub errors: Vec<ConfigError>,
    /// What is worth a warning beside them.
    pub warnings: Vec<String>,
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [error] = self.errors.as_slice() {
            return error.fmt(f);
        }
        write!(f, "{} mistakes in the configuration:", self.errors.len())?;
        for error in self.errors.iter().take(MISTAKES_SHOWN_MAX) {
            write!(f, "\n  {error}")?;
        }
        match self.errors.len().saturating_sub(MISTAKES_SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl std::error::Error for ConfigErrors {}

/// A file as its name and its bytes.
pub type NamedFile = (String, Vec<u8>);

/// Reads the files that an `include` line means, in order.
pub type ReadInclude<'a> = &'a mut dyn FnMut(&str) -> io::Result<Vec<NamedFile>>;

/// Reads the three sources, later ones winning, and returns the configuration and warnings.
///
/// `args` are the words after the program's name; a leading file argument is skipped, its content
/// is `file`, named for messages. `read_include` reads the files of `include` lines.
pub fn parse(
    file: Option<(&str, &[u8])>,
    env: impl Iterator<Item = (String, String)>,
    args: &[String],
    read_include: ReadInclude<'_>,
) -> Result<(Config, Vec<String>), ConfigErrors> {
    let mut loader = Assembler::new(read_include);
    if let Some((name, text)) = file {
        loader.file(name, text, 0);
    }
    loader.environment(env);
    loader.arguments(split_file_argument(args).1);
    loader.finish()
}

/// Parts the words of the command line into the configuration file's path, if there is one
/// (`-` is standard input), and the settings.
pub fn split_file_argument(args: &[String]) -> (Option<&str>, &[String]) {
    match args.split_first() {
        Some((first, rest)) if first == "-" || !first.starts_with('-') => (Some(first), rest),
        _ => (None, args),
    }
}

/// Splits a line into words as redis.conf and inline requests are: separated by white space,
/// `"..."` with escapes (`\n \r \t \a \b \xHH`), `'...'` where only `\'` is one.
///
/// `None` if a quote is left open or followed by anything but white space.
pub fn split_line(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let is_space = |byte: u8| byte.is_ascii_whitespace() || byte == 0x0b;
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        at += line[at..]
            .iter()
            .take_while(|byte| is_space(**byte))
            .count();
        if at == line.len() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let Some(&byte) = line.get(at).filter(|byte| !is_space(**byte)) {
            at += 1;
            if byte == b'"' || byte == b'\'' {
                at += unquote(&line[at..], byte, &mut word)?;
                if line.get(at).is_some_and(|next| !is_space(*next)) {
                    return None;
                }
            } else {
                word.push(byte);
            }
        }
        words.push(word);
    }
}

/// Appends the text up to the closing quote to `word` and returns the length read.
fn unquote(text: &[u8], quote: u8, word: &mut Vec<u8>) -> Option<usize> {
    let hex = |at: usize| {
        text.get(at)
            .and_then(|digit| char::from(*digit).to_digit(16))
    };
    let mut at = 0;
    loop {
        let byte = *text.get(at)?;
        at += 1;
        if byte == quote {
            return Some(at);
        }
        let escaped = text.get(at).copied().filter(|_| byte == b'\\');
        match (quote, escaped) {
            (b'"', Some(letter)) => {
                at += 1;
                word.push(match (letter, hex(at), hex(at + 1)) {
                    (b'x', Some(high), Some(low)) => {
                        at += 2;
                        (high * 16 + low) as u8
                    }
                    (b'n', ..) => b'\n',
                    (b'r', ..) => b'\r',
                    (b't', ..) => b'\t',
                    (b'a', ..) => 0x07,
                    (b'b', ..) => 0x08,
                    _ => letter,
                });
            }
            (b'\'', Some(b'\'')) => {
                at += 1;
                word.push(b'\'');
            }
            _ => word.push(byte),
        }
    }
}

/// A value as it must stand in a file: bare where that is safe, else in double quotes.
pub(super) fn quote(value: &[u8]) -> String {
    let is_bare = |c: char| !c.is_whitespace() && !c.is_control() && !"\"'\\#".contains(c);
    let text = std::str::from_utf8(value);
    if let Ok(text) = text
        && !text.is_empty()
        && text.chars().all(is_bare)
    {
        return text.to_string();
    }
    let mut out = String::from("\"");
    for chunk in value.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('"');
    out
}

/// A line of a file as words; none for a comment or an empty line.
fn line_words(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    if line.trim_ascii_start().starts_with(b"#") {
        return Ok(Vec::new());
    }
    let words = split_line(line);
    Ok(words
        .ok_or("unbalanced quotes: expected the closing one, then a space or the line's end")?)
}

/// The setting that a line of a file gives, even if the line is broken.
pub(super) fn setting_of(line: &[u8]) -> Option<Row> {
    let name = match line_words(line) {
        Ok(words) => words.into_iter().next()?,
        Err(_) => line
            .trim_ascii_start()
            .split(u8::is_ascii_whitespace)
            .next()?
            .to_vec(),
    };
    find(std::str::from_utf8(&name).ok()?)
}

/// Whether a variable is one of those that container platforms set for a service of the name
/// `mayfly`: `MAYFLY_PORT=tcp://10.0.0.1:6379`, `MAYFLY_SERVICE_HOST`, `MAYFLY_PORT_6379_TCP_ADDR`.
fn is_of_a_service(key: &str, value: &str) -> bool {
    let Some(name) = key.strip_prefix(ENV_PREFIX) else {
        return false;
    };
    let is_address = ["tcp://", "udp://", "sctp://"]
        .iter()
        .any(|p| value.starts_with(p));
    let is_service = ["SERVICE_HOST", "SERVICE_PORT"].contains(&name);
    let is_port = (name.strip_prefix("PORT_"))
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    is_address || is_service || is_port || name.starts_with("SERVICE_PORT_")
}

/// Settings that may have several lines.
pub(super) const ADDING_UP: [&str; 2] = ["save", "expiry-rule"];

/// Applies the sources one after another to the defaults.
pub(super) struct Assembler<'a> {
    pub(super) config: Config,
    read_include: ReadInclude<'a>,
    /// Which of [`ADDING_UP`] this source has given: its lines add up, those of a later source
    /// replace them.
    pub(super) adding_up: Vec<&'static str>,
    includes: usize,
    pub(super) errors: Vec<ConfigError>,
    warnings: Vec<String>,
    /// Names of the settings given.
    given: Vec<&'static str>,
}

impl<'a> Assembler<'a> {
    pub(super) fn new(read_include: ReadInclude<'a>) -> Self {
        Assembler {
            config: Config::default(),
            read_include,
            adding_up: Vec::new(),
            includes: 0,
            errors: Vec::new(),
            warnings: Vec::new(),
            given: Vec::new(),
        }
    }

    /// The configuration, if there were no mistakes but those that `unknown-settings` forgives.
    fn finish(mut self) -> Result<(Config, Vec<String>), ConfigErrors> {
        self.warnings.extend(without_effect(&self.given));
        if let Err(why) = expiry_rules::check_databases(&self.config) {
            self.mistake("expiry-rule", why);
        }
        if !self.config.refuses_unknown {
            let (unknown, errors) = self.errors.into_iter().partition(|error| error.is_unknown);
            let unknown: Vec<ConfigError> = unknown;
            self.warnings
                .extend(unknown.iter().map(ConfigError::to_string));
            self.errors = errors;
        }
        if self.errors.is_empty() {
            Ok((self.config, self.warnings))
        } else {
            let (errors, warnings) = (self.errors, self.warnings);
            Err(ConfigErrors { errors, warnings })
        }
    }

    fn mistake(&mut self, place: impl Into<String>, message: impl Into<String>) {
        let (place, message) = (place.into(), message.into());
        self.errors.push(ConfigError {
            place,
            message,
            is_unknown: false,
        });
    }

    pub(super) fn file(&mut self, name: &str, text: &[u8], depth: usize) {
        // Some editors begin a file with a byte order mark, which nobody sees.
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let place = format!("{name}:{}", index + 1);
            match line_words(line) {
                Ok(words) => self.words(place, &words, depth),
                Err(message) => self.mistake(place, message),
            }
        }
    }

    fn environment(&mut self, env: impl Iterator<Item = (String, String)>) {
        self.adding_up.clear();
        let mut of_a_service = Vec::new();
        for (key, value) in env.filter(|(key, _)| key.starts_with(ENV_PREFIX)) {
            if is_of_a_service(&key, &value) {
                of_a_service.push(key);
                continue;
            }
            match rows().find(|row| row.env_name() == key) {
                Some(row) => self.apply(key, row, &[value.into_bytes()]),
                None => self
                    .warnings
                    .push(format!("{key}: names no setting and is ignored")),
            }
        }
        if !of_a_service.is_empty() {
            of_a_service.sort();
            self.warnings.push(format!(
                "{}: ignored, as set by the platform for a service named mayfly",
                of_a_service.join(", ")
            ));
        }
    }

    /// Redis: adds save points of the command line to those of the file; here they replace them.
    fn arguments(&mut self, args: &[String]) {
        self.adding_up.clear();
        let mut rest = args;
        while let Some((first, after)) = rest.split_first() {
            let values = match first.strip_prefix("--").filter(|line| !line.is_empty()) {
                Some(line) => self.argument(line, after),
                None => {
                    let place = format!("argument '{first}'");
                    self.mistake(place, "expected --name and its value");
                    // One mistake, not another for each of the words that belong to it.
                    after
                        .iter()
                        .take_while(|word| !word.starts_with('-'))
                        .count()
                }
            };
            rest = &after[values..];
        }
    }

    /// One `--name value ...` or `--name=value`; gives how many of the words `after` it were its
    /// values.
    fn argument(&mut self, line: &str, after: &[String]) -> usize {
        let place = "command line".to_string();
        let name = line
            .split_once('=')
            .filter(|(name, _)| !name.contains(char::is_whitespace));
        if let Some((name, value)) = name {
            self.words(place, &[name.into(), value.into()], 0);
            return 0;
        }
        // `"--port 7000"` in one word is a whole line; elsewhere the shell did the quoting.
        let words = if line.contains(char::is_whitespace) {
            line_words(line.as_bytes())
        } else {
            Ok(vec![line.into()])
        };
        let values = after
            .iter()
            .take_while(|word| !word.starts_with("--"))
            .count();
        match words {
            Ok(mut words) => {
                words.extend(after[..values].iter().map(|word| word.clone().into_bytes()));
                self.words(place, &words, 0);
            }
            Err(message) => self.mistake(format!("argument '--{line}'"), message),
        }
        values
    }

    fn words(&mut self, place: String, words: &[Vec<u8>], depth: usize) {
        let Some((name, values)) = words.split_first() else {
            return;
        };
        let name = String::from_utf8_lossy(name);
        if name.eq_ignore_ascii_case("include") {
            return self.include(place, values, depth);
        }
        if let Some(row) = find(&name) {
            return self.apply(format!("{place}: {}", row.name()), row, values);
        }
        match refusal(&name, values) {
            Some(Ok(())) => {}
            Some(Err(why)) => self.mistake(format!("{place}: {name}"), why),
            None => {
                let hint = match nearest(&name) {
                    Some(known) => format!("did you mean '{known}'?"),
                    None => "expected one listed by --help".to_string(),
                };
                let message = format!("unknown setting '{name}', {hint}");
                self.errors.push(ConfigError {
                    place,
                    message,
                    is_unknown: true,
                });
            }
        }
    }

    fn include(&mut self, place: String, values: &[Vec<u8>], depth: usize) {
        let place = format!("{place}: include");
        let [path] = values else {
            return self.mistake(place, format!("expected one path, got {}", values.len()));
        };
        let Ok(path) = std::str::from_utf8(path) else {
            return self.mistake(place, "expected UTF-8");
        };
        if depth == INCLUDE_DEPTH_MAX {
            let message = format!("expected at most {INCLUDE_DEPTH_MAX} levels");
            return self.mistake(place, message);
        }
        let files = match (self.read_include)(path) {
            Ok(files) => files,
            Err(why) => return self.mistake(place, format!("can't read '{path}': {why}")),
        };
        for (name, text) in files {
            if self.includes == INCLUDES_MAX {
                return self.mistake(
                    place,
                    format!("expected at most {INCLUDES_MAX} files in all"),
                );
            }
            self.includes += 1;
            self.file(&name, &text, depth + 1);
        }
    }

    fn apply(&mut self, place: String, row: Row, values: &[Vec<u8>]) {
        let adds_up = ADDING_UP.contains(&row.name());
        let is_further = adds_up && self.adding_up.contains(&row.name());
        let (mut points, mut rules) = (Vec::new(), ExpiryRules::default());
        if is_further {
            points = self.config.save.clone();
            rules = self.config.expiry_rules.clone();
        }
        let mut result = row.set(&mut self.config, values);
        if adds_up && result.is_ok() && !is_further {
            self.adding_up.push(row.name());
        }
        // An empty value takes back what is before it, any other adds to that.
        let is_added = is_further && result.is_ok();
        if is_added && row.name() == "save" && !self.config.save.is_empty() {
            points.append(&mut self.config.save);
            self.config.save = points;
        } else if is_added && row.name() != "save" && !self.config.expiry_rules.is_empty() {
            let added = std::mem::replace(&mut self.config.expiry_rules, rules);
            let rules = &mut self.config.expiry_rules;
            result = added.iter().try_for_each(|rule| rules.add(rule.clone()));
        }
        match result {
            Ok(()) => {
                if !self.given.contains(&row.name()) {
                    self.given.push(row.name());
                }
                self.warnings
                    .extend(snapshot_note(row.name(), values, &self.config));
            }
            Err(why) => {
                // A password must not end up in the log.
                let got = match row.is_secret() {
                    true => String::new(),
                    false => format!(", got '{}'", String::from_utf8_lossy(&values.join(&b' '))),
                };
                // A reason with the only value that there is has said it.
                let expected = match why.contains("the only value is") {
                    true => String::new(),
                    false => format!(" (expected {})", row.values()),
                };
                self.mistake(place, format!("{why}{got}{expected}"));
            }
        }
    }
}

/// A warning if the snapshot is not called what `dbfilename` was given as.
pub fn snapshot_note(name: &str, values: &[Vec<u8>], config: &Config) -> Option<String> {
    let used = &config.dbfilename;
    let [given] = values else {
        return None;
    };
    let is_other = name == "dbfilename" && given != used.as_bytes();
    is_other.then(|| {
        format!(
            "dbfilename: the snapshot is called {used}, not {}, because Mayfly does not read or \
             write RDB files",
            String::from_utf8_lossy(given)
        )
    })
}
