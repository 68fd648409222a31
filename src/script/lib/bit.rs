//! `bit`: operations on the low 32 bits of numbers.

use mlua::{Lua, Table, Value};

use super::super::native::{Outcome, Refusal, number, register};

/// Added to a double, this leaves the number modulo 2^32 in its low 32 bits, rounded half to even.
const BIAS: f64 = 6_755_399_441_055_744.0;

/// The library's table.
pub(in super::super) fn open(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    register(lua, &table, "tobit", |lua, args| {
        signed(bits(lua, args, 0)?)
    })?;
    register(lua, &table, "bnot", |lua, args| {
        signed(!bits(lua, args, 0)?)
    })?;
    register(lua, &table, "bswap", |lua, args| {
        signed(bits(lua, args, 0)?.swap_bytes())
    })?;
    register(lua, &table, "tohex", to_hex)?;
    type Combine = fn(u32, u32) -> u32;
    let folds: [(&str, Combine); 3] = [
        ("band", |a, b| a & b),
        ("bor", |a, b| a | b),
        ("bxor", |a, b| a ^ b),
    ];
    for (name, combine) in folds {
        register(lua, &table, name, move |lua, args| {
            // From the last one on, which is the one that an error names.
            let mut all = bits(lua, args, 0)?;
            for at in (1..args.len()).rev() {
                all = combine(all, bits(lua, args, at)?);
            }
            signed(all)
        })?;
    }
    // The count of a shift is taken modulo 32.
    let shifts: [(&str, Combine); 5] = [
        ("lshift", u32::wrapping_shl),
        ("rshift", u32::wrapping_shr),
        ("arshift", |a, n| (a as i32).wrapping_shr(n) as u32),
        ("rol", |a, n| a.rotate_left(n & 31)),
        ("ror", |a, n| a.rotate_right(n & 31)),
    ];
    for (name, shift) in shifts {
        register(lua, &table, name, move |lua, args| {
            signed(shift(bits(lua, args, 0)?, bits(lua, args, 1)?))
        })?;
    }
    Ok(table)
}

fn bits(lua: &Lua, args: &[Value], at: usize) -> Result<u32, Refusal> {
    Ok((number(lua, args, at)? + BIAS).to_bits() as u32)
}

fn signed(bits: u32) -> Outcome {
    Ok(vec![Value::Integer(bits as i32 as i64)])
}

/// Hexadecimal digits, 8 or as many as asked for; upper case if that number is negative.
fn to_hex(lua: &Lua, args: &[Value]) -> Outcome {
    let value = bits(lua, args, 0)?;
    let wanted = match args.get(1) {
        None => 8,
        Some(_) => bits(lua, args, 1)? as i32,
    };
    let len = wanted.unsigned_abs().min(8) as usize;
    let text = if wanted < 0 {
        format!("{value:08X}")
    } else {
        format!("{value:08x}")
    };
    Ok(vec![Value::String(lua.create_string(&text[8 - len..])?)])
}
