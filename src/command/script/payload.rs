//! The payload of FUNCTION DUMP, which servers of the Redis family exchange: the texts of all
//! libraries as an RDB file would have them.
//!
//! ```text
//! for each library   1  245
//!                    .  a string: its length, and that many bytes
//! footer             2  version of RDB, little-endian
//!                    8  CRC-64 (of Jones, as in Redis) of everything before, little-endian
//! ```
//!
//! A length is a byte with two bits 0 and six bits of length, or 1 and six, a further byte having
//! the rest, or the byte 128 with four bytes, or 129 with eight, most significant first. A string
//! may be compressed by LZF, which is said by the byte 195 and followed by the compressed and the
//! true length. Nothing is compressed here.

use crc::{CRC_64_REDIS, Crc, Table};

/// What a library begins with.
const LIBRARY: u8 = 245;
/// The version written: that of Redis 7.0, the first with libraries.
const VERSION: u16 = 10;
/// Versions that are read: those of Redis up to 8.2, and that of Valkey 9.
const VERSIONS: [std::ops::RangeInclusive<u16>; 2] = [1..=12, 80..=80];
const FOOTER_BYTES: usize = 10;
const COMPRESSED: u8 = 195;
/// A text may become so many times as long as it is compressed: a reference of three bytes stands
/// for at most 264.
const EXPANSION_MAX: usize = 88;

static CRC: Crc<u64, Table<1>> = Crc::<u64, Table<1>>::new(&CRC_64_REDIS);

/// The payload of libraries with these texts.
pub fn write<'a>(libraries: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for code in libraries {
        payload.push(LIBRARY);
        payload.push(0x80);
        payload.extend((code.len() as u32).to_be_bytes());
        payload.extend(code);
    }
    payload.extend(VERSION.to_le_bytes());
    payload.extend(CRC.checksum(&payload).to_le_bytes());
    payload
}

/// Why a payload is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its version is unknown, or its checksum is not that of its bytes.
    Footer,
    /// It holds something else than libraries.
    Content,
}

/// The texts of the libraries in a payload.
///
/// # Errors
/// If it is none.
pub fn read(payload: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
    let end = payload
        .len()
        .checked_sub(FOOTER_BYTES)
        .ok_or(Fault::Footer)?;
    let (mut body, footer) = payload.split_at(end);
    let (version, crc) = footer.split_at(2);
    let version = u16::from_le_bytes([version[0], version[1]]);
    let crc = u64::from_le_bytes(crc.try_into().expect("eight bytes"));
    let is_known = VERSIONS.iter().any(|versions| versions.contains(&version));
    if !is_known || crc != CRC.checksum(&payload[..end + 2]) {
        return Err(Fault::Footer);
    }
    let mut libraries = Vec::new();
    while let Some((&kind, rest)) = body.split_first() {
        if kind != LIBRARY {
            return Err(Fault::Content);
        }
        body = rest;
        libraries.push(string(&mut body).ok_or(Fault::Content)?);
    }
    Ok(libraries)
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

fn number<const N: usize>(bytes: &mut &[u8]) -> Option<usize> {
    let bytes = take(bytes, N)?;
    let number = bytes
        .iter()
        .fold(0u64, |all, &byte| all << 8 | u64::from(byte));
    usize::try_from(number).ok()
}

fn length(bytes: &mut &[u8]) -> Option<usize> {
    let first = take(bytes, 1)?[0];
    let low = usize::from(first & 63);
    match first >> 6 {
        0 => Some(low),
        1 => Some(low << 8 | number::<1>(bytes)?),
        _ if first == 128 => number::<4>(bytes),
        _ if first == 129 => number::<8>(bytes),
        _ => None,
    }
}

fn string(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    if bytes.first() == Some(&COMPRESSED) {
        take(bytes, 1)?;
        let compressed = length(bytes)?;
        let len = length(bytes)?;
        let compressed = take(bytes, compressed)?;
        return expand(compressed, len);
    }
    let len = length(bytes)?;
    take(bytes, len).map(<[u8]>::to_vec)
}

/// Expands what LZF has compressed: literals, and references to what came before.
///
/// A byte below 32 is followed by one literal more than it says. Otherwise its upper three bits
/// are the length of a reference less two, or 7 if a byte with the rest follows; its lower five
/// and the byte after that are how far back it begins, less one.
fn expand(mut compressed: &[u8], len: usize) -> Option<Vec<u8>> {
    if len > compressed.len().saturating_mul(EXPANSION_MAX) {
        return None;
    }
    let mut text = Vec::with_capacity(len);
    while let Some(control) = take(&mut compressed, 1) {
        let control = usize::from(control[0]);
        if control < 32 {
            text.extend(take(&mut compressed, control + 1)?);
        } else {
            let mut copied = (control >> 5) + 2;
            if copied == 9 {
                copied += number::<1>(&mut compressed)?;
            }
            let back = ((control & 31) << 8 | number::<1>(&mut compressed)?) + 1;
            let from = text.len().checked_sub(back)?;
            // What is copied may overlap what it makes.
            (from..from + copied).for_each(|at| text.push(text[at]));
        }
        if text.len() > len {
            return None;
        }
    }
    (text.len() == len).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &[u8] = b"#!lua name=ab\nredis.register_function('f', function() return 1 end)";

    #[test]
    fn what_is_written_is_read() {
        let payload = write([CODE, b"", &[7; 70_000]].into_iter());
        let read = read(&payload).expect("it was written so");
        assert_eq!(read, [CODE.to_vec(), Vec::new(), vec![7; 70_000]]);
        assert_eq!(super::read(&write([].into_iter())), Ok(Vec::new()));
    }

    #[test]
    fn any_change_is_noticed() {
        let payload = write([CODE].into_iter());
        for at in 0..payload.len() {
            let mut changed = payload.clone();
            changed[at] ^= 1;
            assert_eq!(read(&changed), Err(Fault::Footer), "byte {at}");
            assert_eq!(read(&payload[..at]), Err(Fault::Footer), "{at} bytes");
        }
    }

    /// With a right checksum.
    fn sealed(body: &[u8]) -> Vec<u8> {
        let mut payload = [body, &VERSION.to_le_bytes()].concat();
        payload.extend(CRC.checksum(&payload).to_le_bytes());
        payload
    }

    #[test]
    fn what_is_no_library_is_refused() {
        for body in [
            b"\xf6\x01a".as_slice(),
            b"\xf5",
            b"\xf5\x02a",
            b"\xf5\x80\xff\xff\xff\xff",
            b"\xf5\x81\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xf5\xc0\x01",
            b"\xf5\xc3\x02\x7f\x00a",
            b"\xf5\xc3\x02\x05\x20\x00",
            b"\xf5\xc3\x03\x01\x01ab",
        ] {
            assert_eq!(read(&sealed(body)), Err(Fault::Content), "{body:?}");
        }
    }

    #[test]
    fn compressed_texts_are_read() {
        let body = b"\xf5\xc3\x06\x0a\x01ab\xc0\x01\x00";
        assert_eq!(read(&sealed(&body[..])), Err(Fault::Content));
        // Two literals, then eight bytes from two back.
        let body = b"\xf5\xc3\x05\x0a\x01ab\xc0\x01";
        assert_eq!(read(&sealed(&body[..])), Ok(vec![b"ababababab".to_vec()]));
        let body = b"\xf5\xc3\x06\x0c\x01ab\xe0\x01\x01";
        assert_eq!(read(&sealed(&body[..])), Ok(vec![b"ab".repeat(6)]));
    }
}
