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

#![allow(
    unsafe_code,
    reason = "jemalloc finds its settings by the name of a symbol"
)]

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What jemalloc looks for under this name: a pointer to a string that ends with a zero byte.
// SAFETY: jemalloc declares the symbol as `const char *` and only reads it. A reference to an array
// is such a pointer, it is never null, and the array lives for ever and holds a zero byte.
#[used]
#[unsafe(export_name = "_rjem_malloc_conf")]
static MALLOC_CONF: &[u8; 52] = b"thp:always,slab_sizes:1-128:8,cache_oblivious:false\0";
