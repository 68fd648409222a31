//! The allocator's size classes (jemalloc: four to each doubling), so that what is asked for is
//! what is given, and memory can be told without asking.

/// The bytes an allocation of `size` bytes takes: a multiple of 16, at least 16.
pub fn of(size: usize) -> usize {
    if size <= 128 {
        return size.max(16).next_multiple_of(16);
    }
    size.next_multiple_of((size.next_power_of_two() / 8).max(16))
}
