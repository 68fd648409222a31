//! Where the allocator has put things, whether they would better lie elsewhere, and the return of
//! what is free.
//!
//! jemalloc cuts *slabs* of some pages into regions of one size, and a slab's memory is given back
//! only when all its regions are free. So what dies among things that live on leaves holes: memory
//! that can be used again but is not given back. New regions come from the oldest slab that has
//! room. So whoever allocates anew what lies in a sparse slab and frees it there fills the old
//! slabs and empties the others.
//!
//! A thread's cache hands out first what was freed last, however sparse its slab is. So it is off
//! while things are moved ([`Moving`]); that takes a few microseconds.
//!
//! How full a slab is jemalloc tells through a control, `experimental.utilization.batch_query`,
//! which takes any address: one that it does not know is in no slab. So with another allocator, as
//! in unit tests, nothing is sparse.
//!
//! Not here: what is moved and when (`engine::defrag`).

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;

use bytes::Bytes;
use hashbrown::HashTable;
use tikv_jemalloc_ctl::raw;
use tikv_jemalloc_sys::mallctlbymib;

const UTILIZATION: &[u8] = b"experimental.utilization.batch_query\0";
const CACHE: &[u8] = b"thread.tcache.enabled\0";
/// Of all arenas.
const DECAY: &[u8] = b"arena.4096.decay\0";

/// A slab is sparse if more than one in so many of its regions is free. With fewer, the emptied
/// slabs would not be worth the copying.
const SPARSE_SHARE: usize = 4;

/// What the allocator says of an address, as it lays it out.
#[repr(C)]
#[derive(Default)]
struct Utilization {
    free: usize,
    regions: usize,
    slab_bytes: usize,
}

/// The allocator, to be asked where things lie.
pub struct Heap {
    /// Where jemalloc keeps the control; none if it has no such.
    utilization: Option<[usize; 3]>,
    /// For tests of what moves: all of it.
    moves_everything: bool,
}

/// Decides whether an allocation at an address, of so many bytes, is to be moved.
pub type ShouldMove<'a> = &'a mut dyn FnMut(usize, usize) -> bool;

/// While it lives, memory is taken from the fullest slabs there are.
pub struct Moving {
    was_cached: bool,
}

impl Default for Heap {
    fn default() -> Heap {
        let mut control = [0; 3];
        let has_it = raw::name_to_mib(UTILIZATION, &mut control).is_ok();
        Heap {
            utilization: has_it.then_some(control),
            moves_everything: false,
        }
    }
}

impl Heap {
    /// From now on everything is sparse: for tests.
    pub fn move_everything(&mut self) {
        self.moves_everything = true;
    }

    /// Whether that is so.
    pub fn moves_everything(&self) -> bool {
        self.moves_everything
    }

    /// Whether what lies at this address is in a sparse slab. It may be any address.
    pub fn is_sparse(&self, address: usize) -> bool {
        if self.moves_everything {
            return true;
        }
        let Some(control) = &self.utilization else {
            return false;
        };
        let mut asked: *const c_void = ptr::without_provenance(address);
        let mut told = Utilization::default();
        let mut told_bytes = size_of::<Utilization>();
        // SAFETY: the control reads one pointer from `asked`, which it looks up and never follows,
        // and writes one answer of the size that it checks `told_bytes` to be.
        let failed = unsafe {
            mallctlbymib(
                control.as_ptr(),
                control.len(),
                ptr::from_mut(&mut told).cast(),
                &mut told_bytes,
                ptr::from_mut(&mut asked).cast(),
                size_of::<*const c_void>(),
            )
        };
        failed == 0 && told.free * SPARSE_SHARE > told.regions
    }
}

impl Moving {
    /// Turns the thread's cache off until it is dropped.
    pub fn begin() -> Moving {
        Moving {
            was_cached: set_cached(false),
        }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        if self.was_cached {
            set_cached(true);
        }
    }
}

/// Moves the memory of a vector, with the room it has to spare.
pub fn relocate_vec<T>(vec: &mut Vec<T>, should_move: ShouldMove<'_>) {
    let bytes = vec.capacity() * size_of::<T>();
    if bytes > 0 && should_move(vec.as_ptr().addr(), bytes) {
        let mut moved = Vec::with_capacity(vec.capacity());
        moved.append(vec);
        *vec = moved;
    }
}

/// Moves what a box holds.
pub fn relocate_box<T: Clone>(boxed: &mut Box<T>, should_move: ShouldMove<'_>) {
    if should_move(ptr::from_ref(&**boxed).addr(), size_of::<T>()) {
        *boxed = boxed.clone();
    }
}

/// Moves a slice of plain numbers or bytes.
pub fn relocate_slice<T: Copy>(slice: &mut Box<[T]>, should_move: ShouldMove<'_>) {
    let bytes = size_of_val(&**slice);
    if bytes > 0 && should_move(slice.as_ptr().addr(), bytes) {
        *slice = slice.clone();
    }
}

/// Moves a hash table, with the room it has to spare.
pub fn relocate_table<T: Copy>(table: &mut HashTable<T>, should_move: ShouldMove<'_>) {
    // Any address inside will do.
    let first = table.iter().next().map(|item| ptr::from_ref(item).addr());
    if first.is_some_and(|address| should_move(address, table.allocation_size())) {
        *table = table.clone();
    }
}

/// Moves a string that nobody shares.
pub fn relocate_bytes(string: &mut Bytes, should_move: ShouldMove<'_>) {
    if string.is_unique() && should_move(string.as_ptr().addr(), string.len()) {
        *string = Bytes::copy_from_slice(string);
    }
}

/// Moves what an `Rc` holds that nobody shares; something `empty` takes its place in between. To be
/// moved further: none if it is shared.
pub fn relocate_rc<'a, T>(
    counted: &'a mut Rc<T>,
    empty: impl FnOnce() -> T,
    should_move: ShouldMove<'_>,
) -> Option<&'a mut T> {
    Rc::get_mut(counted)?;
    let bytes = 2 * size_of::<usize>() + size_of::<T>();
    if should_move(Rc::as_ptr(counted).addr(), bytes) {
        let mut moved = Rc::new(empty());
        if let (Some(from), Some(to)) = (Rc::get_mut(counted), Rc::get_mut(&mut moved)) {
            std::mem::swap(from, to);
        }
        *counted = moved;
    }
    Rc::get_mut(counted)
}

/// Returns what of the freed pages is to be returned by now, along the allocator's curve.
pub fn decay() {
    let mut control = [0; 3];
    if raw::name_to_mib(DECAY, &mut control).is_ok() {
        let (control, len) = (control.as_ptr(), control.len());
        // SAFETY: the control takes nothing and gives nothing (jemalloc's manual).
        unsafe {
            mallctlbymib(
                control,
                len,
                ptr::null_mut(),
                ptr::null_mut(),
                ptr::null_mut(),
                0,
            );
        }
    }
}

/// Whether the thread's cache was on before. A thread that cannot have one goes on without.
fn set_cached(is_on: bool) -> bool {
    // SAFETY: the control is a `bool` (jemalloc's manual), both ways.
    unsafe { raw::update(CACHE, is_on) }.unwrap_or(false)
}
