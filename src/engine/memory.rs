//! The allocator: what it holds, and giving back to the system what has been freed.
//!
//! jemalloc keeps freed pages for up to ten seconds and returns them along a smooth curve of 200
//! steps (`opt.dirty_decay_ms` in its manual), each of which returns little. But it looks at the
//! time only once in about a thousand of its less usual calls, and a server that has fallen silent
//! makes none. A job has it look while there is much to return.
//!
//! Not chosen: setting the decay time to zero and back, which returns everything in one go, however
//! much it is; jemalloc's own thread, a second user of a core that may be the only one.
//!
//! In tests another allocator serves, and this one holds nothing: all figures stand still.

use tikv_jemalloc_ctl::{Access, AsName, epoch, stats};

use super::Engine;
use super::huge_pages::HugePages;
use crate::clock::Clock;
use crate::heap;

/// Time between two steps, in ms: that of one step of jemalloc's curve.
const STEP_MS: u64 = 50;
/// Pages of a slab of small items, as `allocator.rs` asks for.
const SLAB_PAGES: usize = 8;
/// What its sizes are multiples of, as `.cargo/config.toml` asks for.
const QUANTUM_BYTES: usize = 8;
/// Not worth returning, in bytes.
const DIRTY_BYTES_MIN: u64 = 1 << 20;

/// Bytes as the allocator counts them.
pub struct Figures {
    /// Handed out.
    pub allocated: u64,
    /// In pages that hold something that is handed out.
    pub active: u64,
    /// In memory.
    pub resident: u64,
    /// In pages that were freed and are kept.
    pub dirty: u64,
}

/// What the allocator holds now. None of the questions fails as long as jemalloc is the allocator;
/// if one does, its figure is zero.
pub fn figures() -> Figures {
    // The figures are those of the last advance of the epoch.
    let _ = epoch::advance();
    // 4096 stands for all arenas together.
    let dirty: Result<usize, _> = b"stats.arenas.4096.pdirty\0".name().read();
    let page: Result<usize, _> = b"arenas.page\0".name().read();
    Figures {
        allocated: stats::allocated::read().unwrap_or(0) as u64,
        active: stats::active::read().unwrap_or(0) as u64,
        resident: stats::resident::read().unwrap_or(0) as u64,
        dirty: (dirty.unwrap_or(0) * page.unwrap_or(0)) as u64,
    }
}

/// Bytes handed out, without what the allocator keeps at hand for this thread, which counts as
/// handed out: after a start that is a few hundred KiB, which come back one by one later.
pub fn startup_bytes() -> u64 {
    // Becoming disabled gives all of it back. If that fails, the figure is as it was.
    let at_hand = b"thread.tcache.enabled\0".name();
    let _ = at_hand.write(false).and_then(|()| at_hand.write(true));
    figures().allocated
}

/// What makes this process another server than the one that was measured: a build without
/// optimization, or an allocator without its settings, which are part of the binary
/// (`allocator.rs`) but can be overridden from outside.
pub fn build_faults() -> Vec<&'static str> {
    let quantum_bytes: usize = b"arenas.quantum\0".name().read().unwrap_or(0);
    // The bin of 64 bytes, a key's; those below may not have so large slabs.
    let slab_bytes = match quantum_bytes {
        QUANTUM_BYTES => b"arenas.bin.7.slab_size\0".name().read(),
        _ => b"arenas.bin.4.slab_size\0".name().read(),
    };
    let slab_bytes = slab_bytes.unwrap_or(0);
    let page_bytes: usize = b"arenas.page\0".name().read().unwrap_or(0);
    // Without /sys, as in a bare chroot, jemalloc cannot tell whether the system has huge pages.
    // That is no fault of the build.
    let thp: Result<&'static str, _> = b"opt.thp\0".name().read();
    let thp = thp.unwrap_or_default().trim_end_matches('\0');
    let is_oblivious: Result<bool, _> = b"opt.cache_oblivious\0".name().read();
    let faults = [
        (
            cfg!(debug_assertions),
            "built without optimization; cargo build --release makes the fast one",
        ),
        (
            !["always", "not supported"].contains(&thp),
            "the allocator's option thp is not always",
        ),
        (
            quantum_bytes != QUANTUM_BYTES,
            "the allocator was built without JEMALLOC_SYS_WITH_LG_QUANTUM=3, and keys take more \
             memory; cargo build in the source's own folder sets it",
        ),
        (
            slab_bytes != SLAB_PAGES * page_bytes,
            "the allocator's option slab_sizes is not 1-128:8",
        ),
        (
            is_oblivious != Ok(false),
            "the allocator's option cache_oblivious is not false",
        ),
    ];
    let real = faults.into_iter().filter(|(is_real, _)| *is_real);
    real.map(|(_, text)| text).collect()
}

/// The job that keeps the allocator's clock going.
#[derive(Default)]
pub struct Reclaim {
    /// Whether what is given back may come back in huge pages.
    huge_pages: HugePages,
    /// When to make the next step, in monotonic ms; none if there is little to return.
    due_ms: Option<u64>,
}

impl Reclaim {
    /// Something has been freed: there may be something to return.
    pub fn note(&mut self, now_ms: u64) {
        self.due_ms.get_or_insert(now_ms + STEP_MS);
    }

    /// When the job wants to run next, in ms from now.
    pub fn wakeup_ms(&self, now_ms: u64) -> Option<u64> {
        self.due_ms.map(|due_ms| due_ms.saturating_sub(now_ms))
    }
}

impl Engine {
    /// Notes how much memory is in use, and whether there is some to give back.
    pub fn sample_memory(&mut self) -> Figures {
        let figures = figures();
        self.jobs.reclaim.huge_pages.follow(figures.active);
        self.metrics.memory_peak = self.metrics.memory_peak.max(figures.allocated);
        if figures.dirty >= DIRTY_BYTES_MIN {
            self.jobs.reclaim.note(self.reading.monotonic_us / 1000);
        }
        figures
    }

    /// Something has been freed: there may be something to return, now or once the rest has been
    /// moved together.
    pub(super) fn note_freed(&mut self) {
        let now_ms = self.reading.monotonic_us / 1000;
        self.jobs.reclaim.note(now_ms);
        self.jobs.defrag.note(now_ms);
    }

    /// One step, if it is time.
    pub(super) fn reclaim_slice(&mut self, clock: &mut dyn Clock) {
        let now_ms = self.reading.monotonic_us / 1000;
        let due_ms = self.jobs.reclaim.due_ms;
        if due_ms.is_none_or(|due_ms| now_ms < due_ms) {
            return;
        }
        if self.sample_memory().dirty < DIRTY_BYTES_MIN {
            self.jobs.reclaim.due_ms = None;
            return;
        }
        heap::decay();
        self.jobs.reclaim.due_ms = Some(now_ms + STEP_MS);
        self.reading = clock.read();
    }
}
