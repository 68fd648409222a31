//! The three sources of settings: the file, the environment and the command line.

use std::fmt;
use std::io;

use super::*;

/// Why a configuration could not be read: where and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// `file:line`, an environment variable or an argument.
    pub place: String,
    /// What was wrong there and what was expected.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for ConfigError {}
/// Reads the three sources, later ones winning, and returns the configuration and warnings.
///
/// `args` are the words after the program's name; a leading file argument is skipped, its content
/// is `file`, named for messages. `read_include` reads the files of `include` lines.
pub fn parse(
    file: Option<(&str, &str)>,
    env: impl Iterator<Item = (String, String)>,
    args: &[String],
    read_include: &mut dyn FnMut(&str) -> io::Result<String>,
) -> Result<(Config, Vec<String>), ConfigError> {
    let mut loader = Loader::new(read_include);
    if let Some((name, text)) = file {
        loader.file(name, text, 0)?;
    }
    let warnings = loader.environment(env)?;
    loader.arguments(split_file_argument(args).1)?;
    Ok((loader.config, warnings))
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
pub(super) fn quote(value: &str) -> String {
    let is_bare = |c: char| !c.is_whitespace() && !c.is_control() && !"\"'\\#".contains(c);
    if !value.is_empty() && value.chars().all(is_bare) {
        return value.to_string();
    }
    let mut out = String::from("\"");
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A line of a file as words; none for a comment or an empty line.
fn line_words(line: &str) -> Result<Vec<String>, String> {
    if line.trim_start().starts_with('#') {
        return Ok(Vec::new());
    }
    let words = split_line(line.as_bytes())
        .ok_or("unbalanced quotes: expected the closing one, then a space or the line's end")?;
    let text = |word| String::from_utf8(word).map_err(|_| "expected UTF-8".to_string());
    words.into_iter().map(text).collect()
}

/// The setting that a line of a file gives, even if the line is broken.
pub(super) fn setting_of(line: &str) -> Option<&'static Setting> {
    match line_words(line) {
        Ok(words) => find(words.first()?),
        Err(_) => find(line.split_whitespace().next()?),
    }
}

/// Applies the sources one after another to the defaults.
pub(super) struct Loader<'a> {
    pub(super) config: Config,
    read_include: &'a mut dyn FnMut(&str) -> io::Result<String>,
    /// Save points of one source add up, those of a later source replace them.
    pub(super) save_seen: bool,
    includes: usize,
    /// Goes on after a bad line: CONFIG REWRITE must cope with a file edited since the start.
    pub(super) is_lenient: bool,
}

impl<'a> Loader<'a> {
    pub(super) fn new(read_include: &'a mut dyn FnMut(&str) -> io::Result<String>) -> Self {
        let config = Config::default();
        Loader {
            config,
            read_include,
            save_seen: false,
            includes: 0,
            is_lenient: false,
        }
    }

    pub(super) fn file(&mut self, name: &str, text: &str, depth: usize) -> Result<(), ConfigError> {
        for (index, line) in text.lines().enumerate() {
            let place = format!("{name}:{}", index + 1);
            let result = match line_words(line) {
                Ok(words) => self.words(place, &words, depth),
                Err(message) => Err(ConfigError { place, message }),
            };
            if !self.is_lenient {
                result?;
            }
        }
        Ok(())
    }

    fn environment(
        &mut self,
        env: impl Iterator<Item = (String, String)>,
    ) -> Result<Vec<String>, ConfigError> {
        self.save_seen = false;
        let mut warnings = Vec::new();
        for (key, value) in env.filter(|(key, _)| key.starts_with(ENV_PREFIX)) {
            match SETTINGS.iter().find(|setting| setting.env_name() == key) {
                Some(setting) => self.apply(key, setting, &[value])?,
                None => warnings.push(format!("{key}: names no setting and is ignored")),
            }
        }
        Ok(warnings)
    }

    /// Redis: adds save points of the command line to those of the file; here they replace them.
    fn arguments(&mut self, args: &[String]) -> Result<(), ConfigError> {
        self.save_seen = false;
        let mut rest = args;
        while let Some((first, after)) = rest.split_first() {
            let error = |message: &str| ConfigError {
                place: format!("argument '{first}'"),
                message: message.to_string(),
            };
            let Some(line) = first.strip_prefix("--").filter(|line| !line.is_empty()) else {
                return Err(error("expected --name and its value"));
            };
            let values = after
                .iter()
                .take_while(|word| !word.starts_with("--"))
                .count();
            // `"--port 7000"` in one word is a whole line; elsewhere the shell did the quoting.
            let mut words = if line.contains(char::is_whitespace) {
                line_words(line).map_err(|message| error(&message))?
            } else {
                vec![line.to_string()]
            };
            words.extend_from_slice(&after[..values]);
            self.words("command line".to_string(), &words, 0)?;
            rest = &after[values..];
        }
        Ok(())
    }

    fn words(&mut self, place: String, words: &[String], depth: usize) -> Result<(), ConfigError> {
        let Some((name, values)) = words.split_first() else {
            return Ok(());
        };
        if name.eq_ignore_ascii_case("include") {
            return self.include(place, values, depth);
        }
        match find(name) {
            Some(setting) => self.apply(format!("{place}: {}", setting.name), setting, values),
            None => Err(ConfigError {
                place,
                message: format!("unknown setting '{name}', expected one listed by --help"),
            }),
        }
    }

    fn include(
        &mut self,
        place: String,
        values: &[String],
        depth: usize,
    ) -> Result<(), ConfigError> {
        let place = format!("{place}: include");
        let error = |message: String| Err(ConfigError { place, message });
        let [path] = values else {
            return error(format!("expected one path, got {}", values.len()));
        };
        self.includes += 1;
        if depth == INCLUDE_DEPTH_MAX || self.includes > INCLUDES_MAX {
            return error(format!(
                "expected at most {INCLUDE_DEPTH_MAX} levels and {INCLUDES_MAX} files in all"
            ));
        }
        match (self.read_include)(path) {
            Ok(text) => self.file(path, &text, depth + 1),
            Err(why) => error(format!("can't read '{path}': {why}")),
        }
    }

    fn apply(
        &mut self,
        place: String,
        setting: &Setting,
        values: &[String],
    ) -> Result<(), ConfigError> {
        let is_save = setting.name == "save";
        let before = (is_save && self.save_seen).then(|| self.config.save.clone());
        let result = (setting.set)(&mut self.config, values);
        self.save_seen |= is_save && result.is_ok();
        // An empty value takes back the points before it, any other adds to them.
        if let (Ok(()), Some(mut points)) = (&result, before)
            && !self.config.save.is_empty()
        {
            points.append(&mut self.config.save);
            self.config.save = points;
        }
        result.map_err(|why| {
            // A password must not end up in the log.
            let got = match setting.name {
                "requirepass" => String::new(),
                _ => format!(", got '{}'", values.join(" ")),
            };
            ConfigError {
                place,
                message: format!("{why}{got} (expected {})", setting.values),
            }
        })
    }
}
