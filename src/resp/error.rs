//! Errors that a client's command can have, with their texts in one place. The texts are bytes, as
//! what a client sent is quoted as it was sent.

use std::borrow::Cow;

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The arguments do not fit the command's grammar.
    Syntax,
    /// The key holds a value of another type.
    WrongType,
    /// An argument or a stored string is no integer of 64 bits.
    NotAnInteger,
    /// An argument or a stored string is no number.
    NotAFloat,
    /// INCR and kin left the range of 64 bits.
    Overflow,
    /// INCRBYFLOAT left the range of numbers.
    NanOrInfinity,
    /// A TTL that cannot be: zero or less where that is refused, or beyond the range of 64 bits.
    InvalidExpire(&'static str),
    /// Too few or too many arguments; the command's full name, lower case.
    WrongArity(String),
    /// A string would grow beyond `proto-max-bulk-len`.
    StringTooLong,
    /// A key that must be there is not.
    NoSuchKey,
    /// A database that does not exist.
    DbIndexOutOfRange,
    /// The keys are not all there yet.
    Loading,
    /// Any other, with its code word.
    Text(Cow<'static, [u8]>),
}

impl CommandError {
    /// An error with a text of its own, code word included.
    pub const fn text(text: &'static str) -> CommandError {
        CommandError::Text(Cow::Borrowed(text.as_bytes()))
    }

    /// The same with a text made at run time.
    pub fn owned(text: impl Into<Vec<u8>>) -> CommandError {
        CommandError::Text(Cow::Owned(text.into()))
    }

    /// The same with what a client sent between two pieces of text.
    pub fn quoting(before: &str, quoted: &[u8], after: &str) -> CommandError {
        CommandError::owned([before.as_bytes(), quoted, after.as_bytes()].concat())
    }

    /// The error line: code word and text, without the leading dash.
    pub fn line(&self) -> Cow<'_, [u8]> {
        let text = match self {
            CommandError::Syntax => "ERR syntax error",
            CommandError::WrongType => {
                "WRONGTYPE Operation against a key holding the wrong kind of value"
            }
            CommandError::NotAnInteger => "ERR value is not an integer or out of range",
            CommandError::NotAFloat => "ERR value is not a valid float",
            CommandError::Overflow => "ERR increment or decrement would overflow",
            CommandError::NanOrInfinity => "ERR increment would produce NaN or Infinity",
            CommandError::InvalidExpire(command) => {
                let text = format!("ERR invalid expire time in '{command}' command");
                return Cow::Owned(text.into_bytes());
            }
            CommandError::WrongArity(command) => {
                let text = format!("ERR wrong number of arguments for '{command}' command");
                return Cow::Owned(text.into_bytes());
            }
            CommandError::StringTooLong => {
                "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
            }
            CommandError::NoSuchKey => "ERR no such key",
            CommandError::Loading => "LOADING Redis is loading the dataset in memory",
            CommandError::DbIndexOutOfRange => "ERR DB index is out of range",
            CommandError::Text(text) => return Cow::Borrowed(text),
        };
        Cow::Borrowed(text.as_bytes())
    }
}
