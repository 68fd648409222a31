//! The widest vectors and the instructions for bits that the processor has, where a plain loop over
//! many bytes gains from them: the safe face of functions that are compiled for such a processor.
//!
//! The program is compiled for any x86-64, whose vectors are of 16 bytes and which cannot count
//! bits. [`wide`] compiles the work it is given a second time, for AVX2 with POPCNT and BMI, and
//! chooses when it is called. Nothing in the work itself is unsafe or names an instruction.
//! Measured (benches/peers.py, bitmaps and sketches; us): BITCOUNT of 1 MiB 28.6 -> 17.1, BITPOS
//! 12.7 -> 8.7, BITOP of 3 x 1 MiB 51 -> 44, PFCOUNT of 10 16.1 -> 10.0, PFMERGE of 10 14.8 -> 7.9.

/// A loop over many bytes.
pub trait Work {
    /// What comes of it.
    type Result;

    /// Does it. Must always be inlined, with all that it calls: else it is not compiled anew.
    fn run(self) -> Self::Result;
}

/// Does the work with what the processor has. Worth it from some hundred bytes on.
#[inline(always)]
#[allow(unsafe_code)]
pub fn wide<W: Work>(work: W) -> W::Result {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("popcnt") && has!("bmi1") && has!("bmi2") {
            // SAFETY: the processor has all that the function is compiled for.
            return unsafe { with_avx2(work) };
        }
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
fn with_avx2<W: Work>(work: W) -> W::Result {
    work.run()
}
