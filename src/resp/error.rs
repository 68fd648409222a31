//! Errors that a client's command can have, with their texts in one place.

use std::borrow::Cow;
use std::fmt;

/// Why a command was refused. Its `Display` is the error line without the leading dash.
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
    /// An unknown subcommand; container in upper case and what was asked.
    UnknownSubcommand(String, String),
    /// Any other, with its code word.
    Text(Cow<'static, str>),
}

impl CommandError {
    /// An error with a text of its own, code word included.
    pub const fn text(text: &'static str) -> CommandError {
        CommandError::Text(Cow::Borrowed(text))
    }

    /// The same with a text made at run time.
    pub fn owned(text: String) -> CommandError {
        CommandError::Text(Cow::Owned(text))
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
                return write!(f, "ERR invalid expire time in '{command}' command");
            }
            CommandError::WrongArity(command) => {
                return write!(f, "ERR wrong number of arguments for '{command}' command");
            }
            CommandError::StringTooLong => {
                "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
            }
            CommandError::NoSuchKey => "ERR no such key",
            CommandError::DbIndexOutOfRange => "ERR DB index is out of range",
            CommandError::UnknownSubcommand(container, asked) => {
                return write!(f, "ERR unknown subcommand '{asked}'. Try {container} HELP.");
            }
            CommandError::Text(text) => text,
        };
        f.write_str(text)
    }
}

impl std::error::Error for CommandError {}
