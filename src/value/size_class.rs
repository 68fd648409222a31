//! The allocator's size classes, so that what is asked for is what is given, and memory can be told
//! without asking: multiples of 8 up to 64 bytes, then four to each doubling, and whole pages for
//! what is too large for slabs (jemalloc's, with the quantum that `.cargo/config.toml` asks for).

/// Larger allocations are whole pages.
const SLAB_BYTES_MAX: usize = 14_336;
const PAGE_BYTES: usize = 4_096;

/// The bytes an allocation of `size` bytes takes; of none, none.
#[inline]
pub const fn of(size: usize) -> usize {
    // A power of two, so that rounding up is no division.
    let step = match size.next_power_of_two() / 8 {
        _ if size > SLAB_BYTES_MAX => PAGE_BYTES,
        0..8 => 8,
        eighth => eighth,
    };
    (size + step - 1) & !(step - 1)
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn four_classes_to_each_doubling() {
        let mut classes: Vec<usize> = (0..=1024).map(of).collect();
        classes.dedup();
        let expected = [
            0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448,
            512, 640, 768, 896, 1024,
        ];
        assert_eq!(classes, expected);
        assert!((0..=1024).all(|size| size <= of(size) && of(of(size)) == of(size)));
    }
}
