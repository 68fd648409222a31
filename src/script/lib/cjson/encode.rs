//! Lua values to JSON.

use mlua::{Table, Value};

use super::super::super::decimal::format_g;
use super::super::super::native::{
    OUTPUT_BYTES_MAX, Refusal, number_of, pairs, too_large, type_name,
};
use super::{Config, DEPTH_MAX};

pub(super) fn encode(value: &Value, config: &Config) -> Result<Vec<u8>, Refusal> {
    let mut encoder = Encoder {
        config,
        out: Vec::new(),
    };
    encoder.value(value, 0)?;
    Ok(encoder.out)
}

struct Encoder<'a> {
    config: &'a Config,
    out: Vec<u8>,
}

impl Encoder<'_> {
    fn value(&mut self, value: &Value, depth: u32) -> Result<(), Refusal> {
        // Small tables that hold each other can stand for endless text.
        if self.out.len() > OUTPUT_BYTES_MAX {
            return Err(too_large());
        }
        match value {
            Value::Nil => self.out.extend(b"null"),
            Value::LightUserData(p) if p.0.is_null() => self.out.extend(b"null"),
            Value::Boolean(true) => self.out.extend(b"true"),
            Value::Boolean(false) => self.out.extend(b"false"),
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Table(table) => self.table(table, depth + 1)?,
            other => match number_of(other) {
                Some(n) => self.number(n)?,
                None => return Err(refuse(other, "type not supported")),
            },
        }
        Ok(())
    }

    fn number(&mut self, n: f64) -> Result<(), Refusal> {
        if n.is_finite() {
            let precision = self.config.precision as usize;
            self.out.extend(format_g(n, precision).as_bytes());
            return Ok(());
        }
        match self.config.encode_invalid_numbers {
            0 => return Err(refuse(&Value::Number(n), "must not be NaN or Inf")),
            1 if n.is_nan() => self.out.extend(b"nan"),
            1 => self.out.extend(format_g(n, 14).as_bytes()),
            _ => self.out.extend(b"null"),
        }
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.reserve(text.len() + 2);
        self.out.push(b'"');
        for &byte in text {
            let short = match byte {
                b'"' | b'\\' | b'/' => byte,
                b'\x08' => b'b',
                b'\t' => b't',
                b'\n' => b'n',
                b'\x0c' => b'f',
                b'\r' => b'r',
                0..0x20 | 0x7f => {
                    self.out.extend(format!("\\u{byte:04x}").as_bytes());
                    continue;
                }
                _ => {
                    self.out.push(byte);
                    continue;
                }
            };
            self.out.extend([b'\\', short]);
        }
        self.out.push(b'"');
    }

    fn table(&mut self, table: &Table, depth: u32) -> Result<(), Refusal> {
        if depth > self.config.encode_depth_max.min(DEPTH_MAX) {
            let text = format!("Cannot serialise, excessive nesting ({depth})");
            return Err(Refusal::message(text));
        }
        match self.array_len(table)? {
            Some(len) => self.array(table, len, depth),
            None => self.object(table, depth),
        }
    }

    /// The largest index of a table that is an array and not empty.
    fn array_len(&self, table: &Table) -> Result<Option<u64>, Refusal> {
        let (mut max, mut count) = (0_f64, 0_u64);
        let mut is_array = true;
        table.for_each(|key: Value, _: Value| {
            match number_of(&key).filter(|n| *n >= 1.0 && n.trunc() == *n) {
                Some(n) => max = max.max(n),
                None => is_array = false,
            }
            count += 1;
            Ok(())
        })?;
        if !is_array || count == 0 || max > f64::from(i32::MAX) {
            return Ok(None);
        }
        let max = max as u64;
        let sparse = self.config.sparse;
        let is_sparse = sparse.ratio > 0
            && max > count * u64::from(sparse.ratio)
            && max > u64::from(sparse.safe);
        if is_sparse && !sparse.convert {
            return Err(Refusal::message(
                "Cannot serialise table: excessively sparse array",
            ));
        }
        Ok((!is_sparse).then_some(max))
    }

    fn array(&mut self, table: &Table, len: u64, depth: u32) -> Result<(), Refusal> {
        self.out.push(b'[');
        for at in 1..=len {
            if at > 1 {
                self.out.push(b',');
            }
            self.value(&table.raw_get(at)?, depth)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: u32) -> Result<(), Refusal> {
        self.out.push(b'{');
        for (at, pair) in pairs(table).enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            let (key, value) = pair?;
            self.member(&key, &value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn member(&mut self, key: &Value, value: &Value, depth: u32) -> Result<(), Refusal> {
        if let Value::String(text) = key {
            self.string(&text.as_bytes());
        } else if let Some(n) = number_of(key) {
            self.out.push(b'"');
            self.number(n)?;
            self.out.push(b'"');
        } else {
            return Err(refuse(key, "table key must be a number or string"));
        }
        self.out.push(b':');
        self.value(value, depth)
    }
}

fn refuse(value: &Value, why: &str) -> Refusal {
    let kind = type_name(Some(value));
    Refusal::message(format!("Cannot serialise {kind}: {why}"))
}
