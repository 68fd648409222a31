//! The allocator and its settings, which are part of the binary: wherever and however it is built,
//! it is the same server.
//!
//! jemalloc reads the string that `malloc_conf` points to when it starts, after what its own build
//! was given and before the environment (`_RJEM_MALLOC_CONF`), so that an operator has the last
//! word. [`mayfly::engine::memory::build_faults`] reads back what came of it.
//!
//! **Huge pages for the heap.** A lookup in a large keyspace misses the TLB at every step, most of
//! all inside a virtual machine. Redis turns them off because its forked snapshots would copy them;
//! there is no fork here. Measured at 1,000,000 keys, pipeline 64: GET 0.66 -> 0.57 us, same RSS
//! per key. What it costs: the first touch of a fresh 2 MiB page takes 3 ms in a virtual machine
//! whose host takes unused memory back, and a read that waits behind it as long (benches/peers.py,
//! growth). Tried: another thread that touches memory ahead, which took most of these faults from
//! the loop (growth, 99.9th percentile of reads: 3.0 -> 2.6 ms) and needed 2 to 4 MiB for it, more
//! than 2 bytes a key: not kept.
//!
//! **Slabs of eight pages** for small sizes need an eighth of the headers, and a segment of the
//! keyspace does not need to begin in the middle of a page of its own (`cache_oblivious`). Measured
//! at 1,000,000 keys (RSS per key without and with a TTL, bytes): 85.0 and 95.8 -> 83.3 and 94.1 ->
//! 81.4 and 90.0.
//!
//! **Size classes 8 bytes apart** up to 64 bytes instead of 16: a key of 16 bytes with a value of
//! 32 takes 56 bytes and not 64. That is decided when jemalloc is built (`.cargo/config.toml`). It
//! then aligns what it hands out to 8 bytes only, while its bindings believe in 16 and ask for
//! nothing when 16 will do. So what must be aligned to 16 is asked for here in multiples of 16: the
//! classes of such sizes are aligned by themselves, because a slab begins with a page. Measured at
//! 1,000,000 keys: 82.3 bytes of RSS per key without a TTL -> 75.0.

#![allow(
    unsafe_code,
    reason = "an allocator is unsafe, and jemalloc finds its settings by the name of a symbol"
)]

use std::alloc::{GlobalAlloc, Layout};

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Aligned = Aligned;

/// What the bindings take for granted of whatever jemalloc hands out, in bytes.
const ASSUMED_ALIGN: usize = 16;

/// jemalloc built with a quantum of 8 bytes.
struct Aligned;

/// The layout to ask jemalloc for. The same layout always gives the same, so that what is freed is
/// what was allocated.
#[inline(always)]
fn widened(layout: Layout) -> Layout {
    if layout.align() != ASSUMED_ALIGN {
        return layout;
    }
    layout.pad_to_align()
}

// SAFETY: jemalloc is asked for the same or, where the alignment needs it, for more bytes, and by
// the same layout whenever an allocation comes back.
unsafe impl GlobalAlloc for Aligned {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise; padding leaves a size above zero above zero.
        unsafe { Jemalloc.alloc(widened(layout)) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { Jemalloc.alloc_zeroed(widened(layout)) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: allocated with the same layout, and so widened to the same.
        unsafe { Jemalloc.dealloc(at, widened(layout)) }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let size = if layout.align() == ASSUMED_ALIGN {
            size.next_multiple_of(ASSUMED_ALIGN)
        } else {
            size
        };
        // SAFETY: the caller's promise: the size, rounded up to the alignment, does not overflow.
        unsafe { Jemalloc.realloc(at, widened(layout), size) }
    }
}

/// What jemalloc looks for under this name: a pointer to a string that ends with a zero byte.
// SAFETY: jemalloc declares the symbol as `const char *` and only reads it. A reference to an array
// is such a pointer, it is never null, and the array lives for ever and holds a zero byte.
#[used]
#[unsafe(export_name = "_rjem_malloc_conf")]
static MALLOC_CONF: &[u8; 52] = b"thp:always,slab_sizes:1-128:8,cache_oblivious:false\0";

#[cfg(test)]
#[allow(
    dead_code,
    unused_imports,
    reason = "benches/collections.rs has this file as a module, and no tests"
)]
mod tests {
    use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};

    use mayfly::value::size_class;
    use tikv_jemalloc_ctl::{Access, AsName};

    const ALIGNMENTS: [usize; 5] = [1, 8, 16, 32, 64];
    const SIZE_MAX: usize = 4096;

    /// So many of each size that its addresses lie everywhere in a slab.
    const COPIES: usize = 8;

    fn layouts() -> impl Iterator<Item = Layout> {
        let sizes = (1..=SIZE_MAX).flat_map(|size| ALIGNMENTS.map(|align| (size, align)));
        sizes.map(|(size, align)| {
            Layout::from_size_align(size, align).expect("a power of two and a small size")
        })
    }

    #[test]
    fn every_layout_gets_its_alignment() {
        for layout in layouts() {
            let mut held = Vec::new();
            for copy in 0..COPIES {
                // SAFETY: the size is not zero. What is allocated is written within its size, grown
                // by the layout it has, and freed once by the one it has then.
                unsafe {
                    let at = if copy % 2 == 0 {
                        alloc(layout)
                    } else {
                        alloc_zeroed(layout)
                    };
                    assert!(at.addr().is_multiple_of(layout.align()), "{layout:?}");
                    at.write_bytes(1, layout.size());
                    let size = layout.size() + copy;
                    let at = realloc(at, layout, size);
                    assert!(at.addr().is_multiple_of(layout.align()), "{layout:?}");
                    let grown = Layout::from_size_align(size, layout.align());
                    held.push((at, grown.expect("a small size")));
                }
            }
            for (at, layout) in held {
                // SAFETY: as above.
                unsafe { dealloc(at, layout) }
            }
        }
    }

    #[test]
    fn size_classes_are_those_the_allocator_has() {
        let bins: u32 = b"arenas.nbins\0".name().read().expect("a figure");
        let classes = (0..bins).map(|bin| {
            let name = format!("arenas.bin.{bin}.size\0");
            let size: usize = name.as_bytes().name().read().expect("a figure");
            size
        });
        let classes: Vec<usize> = classes.collect();
        let largest = *classes.last().expect("there are bins");
        let mut expected: Vec<usize> = (1..=largest).map(size_class::of).collect();
        expected.dedup();
        assert_eq!(classes, expected);
        for size in [largest + 1, 16_384, 16_385, 50_000, 1_000_000] {
            let layout = Layout::from_size_align(size, 1).expect("a size");
            // SAFETY: the size is not zero, and what comes is freed by the same layout.
            let usable = unsafe {
                let at = alloc(layout);
                let usable = tikv_jemallocator::usable_size(at);
                dealloc(at, layout);
                usable
            };
            assert_eq!(usable, size_class::of(size), "{size}");
        }
    }

    #[test]
    fn nothing_is_wrong_with_the_allocator() {
        let faults = mayfly::engine::memory::build_faults();
        let is_about_it = |fault: &&str| fault.contains("allocator");
        assert!(!faults.iter().any(is_about_it), "{faults:?}");
    }
}
