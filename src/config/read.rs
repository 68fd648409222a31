//! How values are read from words, with the errors in the words of Redis, and shown again.

use super::source::quote;
use super::*;

const RDB_ENDING: &str = ".rdb";

pub(super) fn one(args: &[Vec<u8>]) -> Result<&str, String> {
    match args {
        [value] => utf8(value),
        _ => Err("wrong number of arguments".to_string()),
    }
}

pub(super) fn text(args: &[Vec<u8>]) -> Result<String, String> {
    one(args).map(str::to_string)
}

/// One value of any bytes, such as a password.
pub(super) fn bytes(args: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    match args {
        [value] => Ok(value.clone()),
        _ => Err("wrong number of arguments".to_string()),
    }
}

fn utf8(value: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(value).map_err(|_| "argument must be UTF-8".to_string())
}

/// The words of a value that may be given as one argument (CONFIG SET, the environment, quoted)
/// or as several (a file's line). Split at single spaces, as Redis does; `""` is no word.
pub(super) fn many(args: &[Vec<u8>]) -> Result<Vec<&str>, String> {
    match args {
        [value] if value.is_empty() => Ok(Vec::new()),
        [value] => Ok(utf8(value)?.split(' ').collect()),
        _ => args.iter().map(|word| utf8(word)).collect(),
    }
}

pub(super) fn integer<T: TryFrom<i64>>(args: &[Vec<u8>], min: i64, max: i64) -> Result<T, String> {
    let value = one(args)?;
    // Only the shortest spelling is an integer: no plus sign, no leading zero.
    let number: i64 = (value.parse().ok())
        .filter(|number: &i64| number.to_string() == value)
        .ok_or("argument couldn't be parsed into an integer")?;
    (T::try_from(number).ok())
        .filter(|_| (min..=max).contains(&number))
        .ok_or_else(|| match max {
            i64::MAX => format!("argument must be greater or equal to {min}"),
            _ => format!("argument must be between {min} and {max} inclusive"),
        })
}

/// A size such as `64mb`, in bytes: k, m, g are powers of 1000, kb, mb, gb powers of 1024.
/// A number too large for anything saturates, so that the range check names the range.
pub(super) fn memory_bytes(value: &str) -> Option<u128> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = value.split_at_checked(digits).filter(|_| digits > 0)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1000 * 1000,
        "mb" => 1 << 20,
        "g" => 1000 * 1000 * 1000,
        "gb" => 1 << 30,
        _ => return None,
    };
    Some(number.parse().unwrap_or(u128::MAX).saturating_mul(factor))
}

pub(super) fn memory(args: &[Vec<u8>], min: u64) -> Result<u64, String> {
    memory_up_to(args, min, i64::MAX as u64)
}

pub(super) fn memory_up_to(args: &[Vec<u8>], min: u64, max: u64) -> Result<u64, String> {
    let bytes = memory_bytes(one(args)?).ok_or("argument must be a memory value")?;
    (u64::try_from(bytes).ok())
        .filter(|bytes| (min..=max).contains(bytes))
        .ok_or_else(|| format!("argument must be between {min} and {max} inclusive"))
}

/// Bytes, or a share with a percent sign; a share of nothing is 0.
pub(super) fn memory_or_percent(args: &[Vec<u8>]) -> Result<MemorySize, String> {
    const WRONG: &str = "argument must be a memory or percent value";
    let value = one(args)?;
    let Some(share) = value.strip_suffix('%') else {
        let bytes = memory_bytes(value).ok_or(WRONG)?;
        let bytes = i64::try_from(bytes).map_err(|_| WRONG)?;
        return Ok(MemorySize::Bytes(bytes as u64));
    };
    if share.is_empty() || !share.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(WRONG.to_string());
    }
    match share.parse() {
        Ok(0) => Ok(MemorySize::ZERO),
        Ok(percent) if percent <= 100 => Ok(MemorySize::Percent(percent)),
        _ => Err("percentage argument must be less or equal to 100".to_string()),
    }
}

pub(super) fn lookup<T: Copy>(args: &[Vec<u8>], table: &[(&str, T)]) -> Result<Option<T>, String> {
    let value = one(args)?;
    let row = table
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(value));
    Ok(row.map(|(_, choice)| *choice))
}

pub(super) fn choice<T: Copy>(args: &[Vec<u8>], table: &[(&str, T)]) -> Result<T, String> {
    lookup(args, table)?.ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        format!(
            "argument(s) must be one of the following: {}",
            names.join(", ")
        )
    })
}

pub(super) fn yes_no(args: &[Vec<u8>]) -> Result<bool, String> {
    lookup(args, YES_NO)?.ok_or_else(|| "argument must be 'yes' or 'no'".to_string())
}

pub(super) fn name_of<T: PartialEq>(value: T, table: &[(&'static str, T)]) -> String {
    let row = table.iter().find(|(_, choice)| *choice == value);
    row.expect("each table names every variant").0.to_string()
}

/// For facts other tools ask for: the one value there is is fine, any other is refused.
pub(super) fn only(is_fact: bool, message: &str) -> Result<(), String> {
    if is_fact {
        Ok(())
    } else {
        Err(message.to_string())
    }
}

pub(super) fn addresses(args: &[Vec<u8>]) -> Result<Vec<String>, String> {
    let words = many(args)?;
    if words.len() > BIND_ADDRESSES_MAX {
        return Err("Too many bind addresses specified.".to_string());
    }
    if words
        .iter()
        .any(|word| word.trim_start_matches('-').is_empty())
    {
        return Err("Failed to bind to specified addresses.".to_string());
    }
    Ok(words.into_iter().map(str::to_string).collect())
}

/// Names of machines as the Domain Name System has them, in lower case.
pub(super) fn host_names(args: &[Vec<u8>]) -> Result<Vec<String>, String> {
    let words = many(args)?;
    if words.len() > METRICS_HOSTS_MAX {
        return Err(format!("there may be at most {METRICS_HOSTS_MAX} names"));
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = |word: &&str| !word.is_empty() && word.bytes().all(is_plain);
    match words.iter().find(|word| !is_name(word)) {
        Some(word) => Err(format!("'{word}' is no name of a machine, without a port")),
        None => Ok(words.iter().map(|word| word.to_ascii_lowercase()).collect()),
    }
}

pub(super) fn octal(args: &[Vec<u8>], max: u32) -> Result<u32, String> {
    let value = u32::from_str_radix(one(args)?, 8)
        .map_err(|_| "argument couldn't be parsed as an octal number".to_string())?;
    if value > max {
        return Err(format!("argument must be between 0 and {max:o} inclusive"));
    }
    Ok(value)
}

pub(super) fn file_name(args: &[Vec<u8>]) -> Result<String, String> {
    match one(args)? {
        "" => Err("dbfilename can't be empty".to_string()),
        "." | ".." => Err("dbfilename can't be a path, just a filename".to_string()),
        name if name.contains(['/', '\\']) => {
            Err("dbfilename can't be a path, just a filename".to_string())
        }
        name => Ok(snapshot_name(name)),
    }
}

/// The name a snapshot gets. Mayfly does not write RDB files: under a name that ends in `.rdb` its
/// snapshot would take the place of a real one, and tools would mistake it for one.
fn snapshot_name(name: &str) -> String {
    match name.len().checked_sub(RDB_ENDING.len()) {
        Some(end) if name.is_char_boundary(end) && name[end..].eq_ignore_ascii_case(RDB_ENDING) => {
            format!("{}.mayfly", &name[..end])
        }
        _ => name.to_string(),
    }
}

pub(super) fn save_points(args: &[Vec<u8>]) -> Result<Vec<SavePoint>, String> {
    let words = many(args)?;
    let point = |pair: &[&str]| {
        let [seconds, changes] = pair else {
            return None;
        };
        let (seconds, changes): (i64, i64) = (seconds.parse().ok()?, changes.parse().ok()?);
        let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)?;
        Some(SavePoint {
            seconds,
            changes: u64::try_from(changes).ok()?,
        })
    };
    let points: Option<_> = words.chunks(2).map(point).collect();
    points.ok_or_else(|| "Invalid save parameters".to_string())
}

pub(super) fn print_save_point(point: &SavePoint) -> String {
    format!("{} {}", point.seconds, point.changes)
}

/// Classes that are not named keep the limits they had.
pub(super) fn set_output_limits(
    limits: &mut [OutputLimit; 3],
    args: &[Vec<u8>],
) -> Result<(), String> {
    let words = many(args)?;
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_string());
    }
    for group in words.chunks_exact(4) {
        let class = match group[0].to_ascii_lowercase().as_str() {
            "normal" => OUTPUT_NORMAL,
            "slave" | "replica" => OUTPUT_REPLICA,
            "pubsub" => OUTPUT_PUBSUB,
            _ => {
                return Err("Invalid client class specified in buffer limit configuration.".into());
            }
        };
        let bytes = |word| memory_bytes(word).and_then(|bytes| i64::try_from(bytes).ok());
        let (hard, soft, seconds) = (bytes(group[1]), bytes(group[2]), group[3].parse::<i32>());
        let (Some(hard), Some(soft), Ok(seconds @ 0..)) = (hard, soft, seconds) else {
            let what = "Error in hard, soft or soft_seconds setting";
            return Err(format!("{what} in buffer limit configuration."));
        };
        limits[class] = OutputLimit {
            hard_bytes: hard.unsigned_abs(),
            soft_bytes: soft.unsigned_abs(),
            soft_seconds: seconds.unsigned_abs(),
        };
    }
    Ok(())
}

pub(super) fn print_output_limit(limits: &[OutputLimit; 3], class: usize) -> String {
    let OutputLimit {
        hard_bytes,
        soft_bytes,
        soft_seconds,
    } = limits[class];
    format!(
        "{} {hard_bytes} {soft_bytes} {soft_seconds}",
        OUTPUT_CLASSES[class]
    )
}

/// Bytes of a value that the stream of what has expired tells if nothing else is said.
const EXPIRED_VALUE_BYTES: u64 = 256;
/// The most.
const EXPIRED_VALUE_BYTES_MAX: u64 = 1024 * 1024;

/// `KEY [MAXLEN N] [VALUE BYTES]`, as several words or as one.
pub(super) fn expired_stream(args: &[Vec<u8>]) -> Result<Option<ExpiredStream>, String> {
    let split;
    let words = match args {
        [one] => {
            split = split_line(one).ok_or("unbalanced quotes")?;
            &split
        }
        words => words,
    };
    let Some((key, mut options)) = words.split_first() else {
        return Ok(None);
    };
    let mut stream = ExpiredStream {
        key: key.clone(),
        len_max: None,
        value_bytes_max: EXPIRED_VALUE_BYTES,
    };
    while let Some((word, rest)) = options.split_first() {
        let (number, rest) = rest.split_first().ok_or("syntax error")?;
        let number = str::from_utf8(number)
            .ok()
            .and_then(|text| text.parse().ok());
        let number: u64 = number.ok_or("value is not an integer or out of range")?;
        match word.to_ascii_lowercase().as_slice() {
            b"maxlen" => stream.len_max = Some(number),
            b"value" if number <= EXPIRED_VALUE_BYTES_MAX => stream.value_bytes_max = number,
            b"value" => return Err("value is not an integer or out of range".to_owned()),
            _ => return Err("syntax error".to_owned()),
        }
        options = rest;
    }
    Ok(Some(stream))
}

pub(super) fn print_expired_stream(stream: Option<&ExpiredStream>) -> String {
    let Some(stream) = stream else {
        return String::new();
    };
    let mut text = quote(&stream.key);
    if let Some(len) = stream.len_max {
        text += &format!(" MAXLEN {len}");
    }
    if stream.value_bytes_max != EXPIRED_VALUE_BYTES {
        text += &format!(" VALUE {}", stream.value_bytes_max);
    }
    text
}
