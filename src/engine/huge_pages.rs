//! Huge pages while memory grows, and none while it is given back.
//!
//! The heap asks the kernel for huge pages (`allocator.rs`). A thread of the kernel also makes them
//! of small ones afterwards, and to that end fills up what has been given back in between: 16 MiB
//! every ten seconds, as Linux is set up. Measured when 95 % of 1.5 M keys had expired and the rest
//! had been moved together: 77 MiB of resident memory became 109 within 20 s (benches/peers.py,
//! holes). So when what is in use has fallen well below its peak the process asks for no more huge
//! pages; those it has, it keeps. When use grows again, it does.
//!
//! Where huge pages were turned off from outside, they stay so.

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

/// Use has fallen or grown when it has done so by an eighth and so many bytes.
const STEP_SHARE: u64 = 8;
const STEP_BYTES_MIN: u64 = 16 << 20;

/// What the kernel has been asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// Nothing that could be taken back.
    Never,
    /// Huge pages; the most bytes in use since then.
    On { high: u64 },
    /// None; the fewest bytes in use since then.
    Off { low: u64 },
}

/// Follows the use of memory.
#[derive(Debug)]
pub struct HugePages(Asked);

impl Default for HugePages {
    fn default() -> HugePages {
        // Not to be found out: then nothing can be set either.
        let are_off = transparent_huge_pages_are_disabled().unwrap_or(true);
        HugePages(if are_off {
            Asked::Never
        } else {
            Asked::On { high: 0 }
        })
    }
}

impl Asked {
    /// What to ask for when so many bytes are in use.
    fn follow(self, active: u64) -> Asked {
        let step = |from: u64| (from / STEP_SHARE).max(STEP_BYTES_MIN);
        match self {
            Asked::Never => Asked::Never,
            Asked::On { high } if active + step(high) < high => Asked::Off { low: active },
            Asked::On { high } => Asked::On {
                high: high.max(active),
            },
            Asked::Off { low } if active > low + step(low) => Asked::On { high: active },
            Asked::Off { low } => Asked::Off {
                low: low.min(active),
            },
        }
    }

    fn is_off(self) -> bool {
        matches!(self, Asked::Off { .. })
    }
}

impl HugePages {
    /// So many bytes are in pages in use.
    pub fn follow(&mut self, active: u64) {
        let next = self.0.follow(active);
        let is_changed = next.is_off() != self.0.is_off();
        self.0 = next;
        if is_changed && disable_transparent_huge_pages(next.is_off()).is_err() {
            self.0 = Asked::Never;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Asked;

    const MIB: u64 = 1 << 20;

    fn after(uses: &[u64]) -> Asked {
        let mut asked = Asked::On { high: 0 };
        for &active in uses {
            asked = asked.follow(active * MIB);
        }
        asked
    }

    #[test]
    fn huge_pages_end_when_use_falls_and_come_back_when_it_grows() {
        assert_eq!(after(&[100, 800]), Asked::On { high: 800 * MIB });
        assert_eq!(after(&[800, 700]), Asked::On { high: 800 * MIB });
        assert_eq!(after(&[800, 699]), Asked::Off { low: 699 * MIB });
        assert_eq!(after(&[800, 699, 400, 450]), Asked::Off { low: 400 * MIB });
        assert_eq!(after(&[800, 699, 400, 451]), Asked::On { high: 451 * MIB });
    }

    #[test]
    fn little_use_may_come_and_go() {
        assert_eq!(after(&[16, 1]), Asked::On { high: 16 * MIB });
        assert_eq!(after(&[18, 1]), Asked::Off { low: MIB });
        assert_eq!(after(&[18, 1, 17]), Asked::Off { low: MIB });
        assert_eq!(after(&[18, 1, 18]), Asked::On { high: 18 * MIB });
    }

    #[test]
    fn what_is_off_from_outside_stays_off() {
        assert_eq!(Asked::Never.follow(800 * MIB), Asked::Never);
    }
}
