//! Cache hints: the safe face of the processor's prefetch instruction.
//!
//! A hint names an address and changes nothing but timing, so any number is allowed, a stale or
//! invalid address included. Where there is no such instruction it does nothing.

/// Asks for the cache line that holds `address`.
#[inline(always)]
#[allow(unsafe_code)]
pub fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: PREFETCHT0 never faults and has no architectural effect, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
