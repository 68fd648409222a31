//! Numbers as C's `%.Ng` prints them, which is how Lua and its libraries print theirs.

/// Prints `value` with at most `precision` (1 to 17) significant digits.
pub(super) fn format_g(value: f64, precision: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() {
            "-nan"
        } else {
            "nan"
        }
        .into();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.into();
    }
    let scientific = format!("{value:.*e}", precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("it has an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        let digits = without_zeros(mantissa);
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

/// The text of a decimal fraction without zeros at its end.
fn without_zeros(text: &str) -> &str {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_does() {
        for (value, precision, text) in [
            (0.0, 14, "0"),
            (-0.0, 14, "-0"),
            (0.1, 14, "0.1"),
            (0.1, 17, "0.10000000000000001"),
            (1e20, 17, "1e+20"),
            (1e300, 14, "1e+300"),
            (1e-5, 14, "1e-05"),
            (0.0001, 14, "0.0001"),
            (123456789012345.0, 14, "1.2345678901234e+14"),
            (12345678901234.0, 14, "12345678901234"),
            (2.71449, 3, "2.71"),
            (9.99, 1, "1e+01"),
            (100.0, 3, "100"),
            (f64::INFINITY, 14, "inf"),
            (f64::NEG_INFINITY, 14, "-inf"),
            (-f64::NAN, 14, "-nan"),
        ] {
            assert_eq!(format_g(value, precision), text);
        }
    }
}
