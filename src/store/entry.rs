//! The compact entry: a key, its value and its deadline in one allocation, behind an 8-byte slot.
//!
//! ```text
//! slot    63........45 44.........................0
//!         tag (19)     address / 8
//!
//! entry   0 shape  1 epoch  2-3 access clock  4 key length  5 value length      (narrow, 6 bytes)
//!         0 shape  1 epoch  2-3 access clock  4-7 key length  8-11 value length (wide, 12 bytes)
//!         expiry, 10 bytes, or 25 if long: only of a volatile key
//!         key bytes
//!         bytes of a string or a small collection, or the 8-byte address of a boxed Value
//!
//! shape   7....4 3    2    1        0
//!         form   LONG WIDE VOLATILE BOXED
//!
//! expiry  0-5 deadline, ms: bits 45..0 of 48; 47 is set if it was given as a moment, 46 its era
//!         6-9 back-reference into the index                                      (10 bytes)
//!         0-7 deadline, ms  8-13 sliding span, ms, or zero  14 flags: 0 given as a moment, 1 soft,
//!         15-20 how far the deadline has slid, ms           2 stale, and reported, 3 era
//!         21-24 back-reference                                                   (long, 25 bytes)
//!         If soft: 8-13 how long before it the soft deadline is, 15-20 how long before it the
//!         lease ends
//! ```
//!
//! A deadline takes the long form from 2^46 ms on, which is in the year 4199, and if the key has a
//! sliding span. So what few keys have costs the others nothing.
//!
//! A key with a sliding span gets a new deadline whenever it is used. That writes the entry alone:
//! the index believes in the deadline it was told, which is as far before the real one as that has
//! slid, and finds out when the key comes up. In the same way a key with a soft deadline comes up
//! at that first.
//!
//! The access clock counts seconds and wraps after 18.2 hours: enough to tell which of two keys in
//! use was used longer ago. Its 16 bits are all there is for that: three bytes would put a 16-byte
//! key with a 32-byte value and a deadline into the next size class. A count of uses fits in there
//! as well: a logarithmic one in the low byte, and the minute of its last decay in the high one.
//!
//! A 16-byte key with a 32-byte value takes 54 bytes, with a deadline 64: jemalloc's classes of 56
//! and 64 bytes. The tag is the top 19 bits of the key's placement hash, so that a lookup touches
//! an entry only when it is almost surely the right one and a scan can order a segment without
//! touching entries at all.
//!
//! Invariants: a slot owns its allocation, whose size is the size class, computable from the header
//! alone; addresses are multiples of 8 below 2^48 (asserted at allocation); `boxed` entries own
//! exactly one `Box<Value>`.
//!
//! Not here: when a key is due (`expiry`), which entry is looked for (`table`).

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr;
use std::rc::Rc;

use crate::clock::UnixMillis;
use crate::expiry::index::{Filing, ItemRef};
use crate::expiry::{Basis, Deadline, SLIDING_MS_MAX, Soft, Term};
use crate::value::prefetch::prefetch;
use crate::value::{Kind, Value, size_class};

const BOXED: u8 = 1 << 0;
const VOLATILE: u8 = 1 << 1;
const WIDE: u8 = 1 << 2;
const LONG: u8 = 1 << 3;
const FORM_SHIFT: u32 = 4;

const NARROW_HEADER: usize = 6;
const WIDE_HEADER: usize = 12;
const ITEM_BYTES: usize = 4;
const EXPIRY_BYTES: usize = 6 + ITEM_BYTES;
const LONG_EXPIRY_BYTES: usize = 8 + 6 + 1 + 6 + ITEM_BYTES;
/// Where the sliding span, the basis and the way slid are in a long expiry.
const SPAN_AT: usize = 8;
const FLAGS_AT: usize = SPAN_AT + 6;
const SLID_AT: usize = FLAGS_AT + 1;
/// Flags of a long expiry.
const FLAG_ABSOLUTE: u8 = 1 << 0;
const FLAG_SOFT: u8 = 1 << 1;
const FLAG_TOLD: u8 = 1 << 2;
const FLAG_ERA: u8 = 1 << 3;
/// A deadline from here on, or before the epoch, takes the long form.
const FAR_MS: i64 = 1 << 46;
const DEADLINE_MASK: u64 = FAR_MS as u64 - 1;
/// In the upper two bytes of a short deadline.
const ABSOLUTE: u16 = 1 << 15;
const ERA: u16 = 1 << 14;
/// Entries are aligned to so many bytes, which is what any allocation is aligned to.
const ALIGN: usize = 8;
const ALIGN_BITS: u32 = ALIGN.trailing_zeros();
const ADDRESS_BITS: u32 = 48 - ALIGN_BITS;
const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;
/// Bits of the placement hash that a slot carries.
pub const TAG_BITS: u32 = 64 - ADDRESS_BITS;
/// A line of the cache, in bytes.
const LINE_BYTES: usize = 64;
/// So much of an entry is asked for ahead, in bytes.
const PREFETCHED_MAX: usize = 256;
/// The longest string kept inside its entry, in bytes; longer ones are shared `Bytes`.
pub const INLINE_MAX: usize = 16 * 1024 - 1;

/// The longest collection kept inside its entry, in bytes: a list of one chunk of the largest size
/// there is.
pub const SMALL_MAX: usize = 64 * 1024;

/// What the bytes of a value are. A collection is dated if it has members or fields that have
/// deadlines, or had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Form {
    String = 0,
    /// A string that was edited in place (APPEND, SETRANGE): OBJECT ENCODING calls it raw.
    RawString = 1,
    List = 2,
    Set = 3,
    /// A small set of integers.
    IntegerSet = 4,
    Zset = 5,
    Hash = 6,
    Stream = 7,
    // All dated forms, and no others, have the two upper bits set.
    DatedSet = 12,
    DatedZset = 13,
    DatedHash = 14,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 11] = [
        Form::String,
        Form::RawString,
        Form::List,
        Form::Set,
        Form::IntegerSet,
        Form::Zset,
        Form::Hash,
        Form::Stream,
        Form::DatedSet,
        Form::DatedZset,
        Form::DatedHash,
    ];

    /// By discriminant; numbers that are none stand for a string.
    const OF_BITS: [Form; 16] = {
        let mut forms = [Form::String; 16];
        let mut i = 0;
        while i < Form::ALL.len() {
            forms[Form::ALL[i] as usize] = Form::ALL[i];
            i += 1;
        }
        forms
    };

    /// The type of such a value.
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        const KINDS: [Kind; 16] = {
            let mut kinds = [Kind::String; 16];
            kinds[Form::List as usize] = Kind::List;
            kinds[Form::Set as usize] = Kind::Set;
            kinds[Form::IntegerSet as usize] = Kind::Set;
            kinds[Form::DatedSet as usize] = Kind::Set;
            kinds[Form::Zset as usize] = Kind::Zset;
            kinds[Form::DatedZset as usize] = Kind::Zset;
            kinds[Form::Hash as usize] = Kind::Hash;
            kinds[Form::DatedHash as usize] = Kind::Hash;
            kinds[Form::Stream as usize] = Kind::Stream;
            kinds
        };
        KINDS[self as usize & 15]
    }

    /// The usual form of a type.
    pub const fn of(kind: Kind) -> Form {
        match kind {
            Kind::String => Form::String,
            Kind::List => Form::List,
            Kind::Set => Form::Set,
            Kind::Zset => Form::Zset,
            Kind::Hash => Form::Hash,
            Kind::Stream => Form::Stream,
        }
    }

    /// The form of such a collection with members or fields that have deadlines.
    ///
    /// # Panics
    /// If it is not of a type that can have them.
    pub fn dated(self) -> Form {
        match self.kind() {
            Kind::Set => Form::DatedSet,
            Kind::Zset => Form::DatedZset,
            Kind::Hash => Form::DatedHash,
            Kind::String | Kind::List | Kind::Stream => panic!("its elements have no deadlines"),
        }
    }
}

/// When a key dies, how it came to that, and where the index has filed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// From when on it is dead.
    pub deadline: Deadline,
    /// How far the deadline has slid since the index was told of it, in ms.
    pub slid_ms: u64,
    /// Where the index has filed it.
    pub item: ItemRef,
    /// Whether the deadline was given as a span from then on or as a moment.
    pub basis: Basis,
    /// Which of two eras of the wall clock the deadline belongs to: each begins when that is set.
    pub era: bool,
    /// The span of a key whose deadline moves when it is used, in ms: at least one, and at most
    /// [`SLIDING_MS_MAX`].
    pub sliding_ms: Option<u64>,
    /// The soft deadline of a key whose deadline does not move.
    pub soft: Option<Soft>,
}

impl Expiry {
    /// That of a key which the index has just been told of.
    pub fn new(term: Term, item: ItemRef) -> Expiry {
        Expiry {
            deadline: term.deadline,
            slid_ms: 0,
            item,
            basis: term.basis,
            era: false,
            sliding_ms: term.sliding_ms,
            soft: term.soft,
        }
    }

    /// What of it was said.
    pub fn term(&self) -> Term {
        Term {
            deadline: self.deadline,
            basis: self.basis,
            sliding_ms: self.sliding_ms,
            soft: self.soft,
        }
    }

    /// The same after the value was written anew: nobody refreshes it any more.
    pub fn without_lease(mut self) -> Expiry {
        if let Some(soft) = &mut self.soft {
            soft.lease_before_ms = 0;
        }
        self
    }

    /// What the index knows of it.
    pub fn filing(&self) -> Filing {
        let told = Filing::from(self.term());
        Filing {
            deadline: Deadline(told.deadline.0.plus(-(self.slid_ms as i64))),
            ..told
        }
    }

    fn is_long(&self) -> bool {
        self.sliding_ms.is_some()
            || self.soft.is_some()
            || !(0..FAR_MS).contains(&self.deadline.0.0)
    }
}

/// A value on its way into an entry.
pub enum NewValue<'a> {
    /// Bytes to be copied into the entry: a string of at most [`INLINE_MAX`], or a small collection
    /// of at most [`SMALL_MAX`].
    Inline(&'a [u8]),
    /// A value of its own.
    Boxed(Box<Value>),
}

/// Everything an entry is made of.
pub struct Parts<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What its value is.
    pub form: Form,
    /// Its value.
    pub value: NewValue<'a>,
    /// When it dies.
    pub expiry: Option<Expiry>,
    /// Stamp of the snapshot that need not save this entry any more.
    pub epoch: u8,
    /// Access clock.
    pub clock: u16,
}

/// A value as it stands in an entry.
#[derive(Clone, Copy)]
pub enum ValueRef<'a> {
    /// The bytes of a string or of a small collection.
    Inline(&'a [u8]),
    /// A value of its own.
    Boxed(&'a Value),
}

/// Owns one entry. It stays on its thread, as values share pieces without locks:
///
/// ```compile_fail
/// fn may_be_sent<T: Send>() {}
/// may_be_sent::<mayfly::store::entry::Slot>();
/// ```
///
/// (It is `Send` that is missing here, not the name:)
///
/// ```
/// fn is_there<T>() {}
/// is_there::<mayfly::store::entry::Slot>();
/// ```
pub struct Slot(u64, PhantomData<Rc<Value>>);

#[derive(Clone, Copy)]
struct Layouted {
    shape: u8,
    header: usize,
    expiry: usize,
    key: usize,
    value: usize,
}

impl Layouted {
    fn new(shape: u8, key: usize, value: usize) -> Layouted {
        let header = header_bytes(shape);
        let expiry = match (shape & VOLATILE != 0, shape & LONG != 0) {
            (false, _) => 0,
            (true, false) => EXPIRY_BYTES,
            (true, true) => LONG_EXPIRY_BYTES,
        };
        let value = if shape & BOXED != 0 { 8 } else { value };
        Layouted {
            shape,
            header,
            expiry,
            key,
            value,
        }
    }

    fn of(parts: &Parts<'_>) -> Layouted {
        let (mut shape, value) = match &parts.value {
            NewValue::Inline(bytes) => (0, bytes.len()),
            NewValue::Boxed(value) => {
                debug_assert_eq!(value.kind(), parts.form.kind());
                (BOXED, 0)
            }
        };
        shape |= (parts.form as u8) << FORM_SHIFT;
        if let Some(expiry) = parts.expiry {
            shape |= VOLATILE;
            if expiry.is_long() {
                shape |= LONG;
            }
        }
        if parts.key.len() > 255 || value > 255 {
            shape |= WIDE;
        }
        assert!(parts.key.len() <= u32::MAX as usize && value <= SMALL_MAX);
        Layouted::new(shape, parts.key.len(), value)
    }

    fn key_at(&self) -> usize {
        self.header + self.expiry
    }

    fn value_at(&self) -> usize {
        self.key_at() + self.key
    }

    /// The size of the allocation: two sizes of one class may share it, and its deallocation.
    #[inline]
    fn class(&self) -> usize {
        size_class::of(self.value_at() + self.value)
    }

    /// By how many bytes it is larger than another.
    fn growth(&self, other: &Layouted) -> isize {
        self.class() as isize - other.class() as isize
    }
}

#[inline(always)]
fn header_bytes(shape: u8) -> usize {
    if shape & WIDE != 0 {
        WIDE_HEADER
    } else {
        NARROW_HEADER
    }
}

fn layout(class: usize) -> Layout {
    Layout::from_size_align(class, ALIGN).expect("a class is far below isize::MAX")
}

fn allocate(class: usize) -> *mut u8 {
    // SAFETY: the layout's size is at least 8.
    let at = unsafe { alloc(layout(class)) };
    if at.is_null() {
        handle_alloc_error(layout(class));
    }
    let address = at.expose_provenance() as u64;
    assert!(
        address.is_multiple_of(ALIGN as u64) && address >> (ADDRESS_BITS + ALIGN_BITS) == 0,
        "an address beyond 48 bits"
    );
    at
}

/// Writes a whole entry. The key and the value must not lie inside the allocation at `at`.
///
/// SAFETY: `at` is valid for writes of `form.class()` bytes.
unsafe fn write(at: *mut u8, form: Layouted, parts: Parts<'_>) {
    // SAFETY: each write stays within `form.class()` bytes, see Layouted's offsets.
    unsafe {
        at.write(form.shape);
        at.add(1).write(parts.epoch);
        at.add(2).cast::<u16>().write_unaligned(parts.clock);
        write_lengths(at, form);
        if let Some(expiry) = parts.expiry {
            write_expiry(at.add(form.header), form.shape, expiry);
        }
        ptr::copy_nonoverlapping(parts.key.as_ptr(), at.add(form.key_at()), form.key);
        let value_at = at.add(form.value_at());
        match parts.value {
            NewValue::Inline(bytes) => {
                ptr::copy_nonoverlapping(bytes.as_ptr(), value_at, bytes.len());
            }
            NewValue::Boxed(value) => {
                value_at
                    .cast::<*mut Value>()
                    .write_unaligned(Box::into_raw(value));
            }
        }
    }
}

/// SAFETY: `at` is valid for writes of a header of this form.
unsafe fn write_lengths(at: *mut u8, form: Layouted) {
    // SAFETY: the caller's promise.
    unsafe {
        if form.shape & WIDE != 0 {
            at.add(4).cast::<u32>().write_unaligned(form.key as u32);
            at.add(8).cast::<u32>().write_unaligned(form.value as u32);
        } else {
            at.add(4).write(form.key as u8);
            at.add(5).write(form.value as u8);
        }
    }
}

/// Writes the parts one after another.
///
/// SAFETY: `at` is valid for writes of as many bytes as they have together, none of them theirs.
unsafe fn fill(mut at: *mut u8, parts: &[&[u8]]) {
    for part in parts {
        // SAFETY: the caller's promise.
        unsafe {
            ptr::copy_nonoverlapping(part.as_ptr(), at, part.len());
            at = at.add(part.len());
        }
    }
}

/// SAFETY: `at` is valid for writes of the bytes of an expiry of this shape.
#[inline(always)]
unsafe fn write_expiry(at: *mut u8, shape: u8, expiry: Expiry) {
    let ms = expiry.deadline.0.0 as u64;
    let is_absolute = expiry.basis == Basis::Absolute;
    // SAFETY: the caller's promise.
    unsafe {
        if shape & LONG != 0 {
            at.cast::<u64>().write_unaligned(ms);
            let mut flags = if is_absolute { FLAG_ABSOLUTE } else { 0 };
            flags |= if expiry.era { FLAG_ERA } else { 0 };
            let (mut span, mut way) = (expiry.sliding_ms.unwrap_or(0), expiry.slid_ms);
            if let Some(soft) = expiry.soft {
                assert!(expiry.sliding_ms.is_none() && soft.before_ms > 0);
                flags |= FLAG_SOFT | if soft.is_told { FLAG_TOLD } else { 0 };
                (span, way) = (soft.before_ms, soft.lease_before_ms);
            }
            assert!(span <= SLIDING_MS_MAX && expiry.sliding_ms != Some(0));
            write_u48(at.add(SPAN_AT), span);
            at.add(FLAGS_AT).write(flags);
            write_u48(at.add(SLID_AT), way);
        } else {
            let flags = if is_absolute { ABSOLUTE } else { 0 } | if expiry.era { ERA } else { 0 };
            write_u48(at, ms | u64::from(flags) << 32);
        }
        at.add(item_at(shape))
            .cast::<u32>()
            .write_unaligned(expiry.item.0);
    }
}

/// Where the back-reference is in an expiry.
#[inline(always)]
fn item_at(shape: u8) -> usize {
    let bytes = if shape & LONG != 0 {
        LONG_EXPIRY_BYTES
    } else {
        EXPIRY_BYTES
    };
    bytes - ITEM_BYTES
}

/// SAFETY: `at` is valid for writes of 6 bytes.
#[inline(always)]
unsafe fn write_u48(at: *mut u8, number: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        at.cast::<u32>().write_unaligned(number as u32);
        at.add(4)
            .cast::<u16>()
            .write_unaligned((number >> 32) as u16);
    }
}

/// SAFETY: `at` is valid for reads of 6 bytes.
#[inline(always)]
unsafe fn read_u48(at: *const u8) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        u64::from(at.cast::<u32>().read_unaligned())
            | u64::from(at.add(4).cast::<u16>().read_unaligned()) << 32
    }
}

impl Slot {
    /// Makes an entry for the key whose placement hash is `hash`.
    pub fn new(hash: u64, parts: Parts<'_>) -> Slot {
        let form = Layouted::of(&parts);
        let at = allocate(form.class());
        // SAFETY: freshly allocated with `form.class()` bytes.
        unsafe { write(at, form, parts) };
        Slot::pack(at, tag(hash))
    }

    fn pack(at: *mut u8, tag: u32) -> Slot {
        let address = at.expose_provenance() as u64 >> ALIGN_BITS;
        Slot((u64::from(tag) << ADDRESS_BITS) | address, PhantomData)
    }

    /// Top bits of the key's placement hash.
    #[inline(always)]
    pub fn tag(&self) -> u32 {
        (self.0 >> ADDRESS_BITS) as u32
    }

    /// Where the entry is, for prefetching.
    #[inline(always)]
    pub fn address(&self) -> usize {
        ((self.0 & ADDRESS_MASK) << ALIGN_BITS) as usize
    }

    /// Look-ahead, pass 3: asks for the cache lines of the entry behind its first. What follows
    /// `PREFETCHED_MAX` the processor brings in by itself as it is copied.
    #[inline]
    pub fn prefetch_rest(&self) {
        let form = self.laid_out();
        let end = self.address() + (form.value_at() + form.value).min(PREFETCHED_MAX);
        let mut line = (self.address() | (LINE_BYTES - 1)) + 1;
        while line < end {
            prefetch(line);
            line += LINE_BYTES;
        }
    }

    #[inline(always)]
    fn at(&self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.address())
    }

    #[inline(always)]
    fn laid_out(&self) -> Layouted {
        let at = self.at();
        // SAFETY: a slot's allocation starts with a header of the form its shape tells.
        unsafe {
            let shape = at.read();
            if shape & WIDE == 0 {
                return Layouted::new(shape, at.add(4).read().into(), at.add(5).read().into());
            }
            let key = at.add(4).cast::<u32>().read_unaligned();
            let value = at.add(8).cast::<u32>().read_unaligned();
            Layouted::new(shape, key as usize, value as usize)
        }
    }

    #[inline(always)]
    fn shape(&self) -> u8 {
        // SAFETY: the first byte of a header.
        unsafe { self.at().read() }
    }

    /// The key.
    #[inline(always)]
    pub fn key(&self) -> &[u8] {
        let form = self.laid_out();
        // SAFETY: the key's bytes lie inside the allocation and change only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.at().add(form.key_at()), form.key) }
    }

    /// The value.
    #[inline(always)]
    pub fn value(&self) -> ValueRef<'_> {
        let form = self.laid_out();
        // SAFETY: the value's bytes lie inside the allocation; a boxed entry holds a live Box.
        unsafe {
            let at = self.at().add(form.value_at());
            if form.shape & BOXED != 0 {
                return ValueRef::Boxed(&*at.cast::<*mut Value>().read_unaligned());
            }
            ValueRef::Inline(std::slice::from_raw_parts(at, form.value))
        }
    }

    /// The boxed value, to be changed in place.
    pub fn value_mut(&mut self) -> Option<&mut Value> {
        let form = self.laid_out();
        if form.shape & BOXED == 0 {
            return None;
        }
        // SAFETY: a boxed entry holds a live Box, borrowed here for as long as `self`.
        unsafe {
            Some(
                &mut *self
                    .at()
                    .add(form.value_at())
                    .cast::<*mut Value>()
                    .read_unaligned(),
            )
        }
    }

    /// The bytes of a value inside the entry.
    ///
    /// # Panics
    /// If the value is boxed.
    #[inline]
    pub fn inline(&self) -> &[u8] {
        match self.value() {
            ValueRef::Inline(bytes) => bytes,
            ValueRef::Boxed(_) => panic!("the value is boxed"),
        }
    }

    /// The bytes of a string; none for another type.
    #[inline]
    pub fn string(&self) -> Option<&[u8]> {
        match self.value() {
            ValueRef::Inline(bytes) => (self.kind() == Kind::String).then_some(bytes),
            ValueRef::Boxed(value) => value.string(),
        }
    }

    /// The value's type.
    #[inline(always)]
    pub fn kind(&self) -> Kind {
        self.form().kind()
    }

    /// What the value is.
    #[inline(always)]
    pub fn form(&self) -> Form {
        Form::OF_BITS[usize::from(self.shape() >> FORM_SHIFT)]
    }

    /// Whether the value is a collection with members or fields that have deadlines, or had.
    #[inline(always)]
    pub fn is_dated(&self) -> bool {
        self.shape() >= (Form::DatedSet as u8) << FORM_SHIFT
    }

    /// Notes that a boxed collection has a member or field with a deadline.
    pub fn set_dated(&mut self) {
        let shape = self.shape();
        assert!(shape & BOXED != 0, "the bytes of a small one would change");
        let form = (self.form().dated() as u8) << FORM_SHIFT;
        // SAFETY: the first byte of a header; how an entry is laid out does not depend on the form.
        unsafe { self.at().write(shape & !(0xff << FORM_SHIFT) | form) }
    }

    /// The deadline of a volatile key.
    #[inline(always)]
    pub fn deadline(&self) -> Option<Deadline> {
        let shape = self.shape();
        if shape & VOLATILE == 0 {
            return None;
        }
        // SAFETY: a volatile entry has its expiry just behind the header, the deadline first.
        let ms = unsafe {
            let at = self.at().add(header_bytes(shape));
            if shape & LONG != 0 {
                at.cast::<u64>().read_unaligned()
            } else {
                read_u48(at) & DEADLINE_MASK
            }
        };
        Some(Deadline(UnixMillis(ms as i64)))
    }

    /// Where the index has filed a volatile key.
    pub fn item(&self) -> Option<ItemRef> {
        let shape = self.shape();
        if shape & VOLATILE == 0 {
            return None;
        }
        // SAFETY: a volatile entry has its expiry just behind the header.
        let at = unsafe {
            self.at()
                .add(header_bytes(shape) + item_at(shape))
                .cast::<u32>()
                .read_unaligned()
        };
        Some(ItemRef(at))
    }

    /// What the index knows of the deadline, and the back-reference.
    #[inline]
    pub fn filed(&self) -> Option<(Filing, ItemRef)> {
        if self.shape() & LONG != 0 {
            let expiry = self.expiry()?;
            return Some((expiry.filing(), expiry.item));
        }
        Some((self.deadline()?.into(), self.item()?))
    }

    /// Whether the deadline of a volatile key was given as a span or as a moment.
    pub fn basis(&self) -> Option<Basis> {
        let shape = self.shape();
        if shape & VOLATILE == 0 {
            return None;
        }
        // SAFETY: a volatile entry has its expiry just behind the header.
        let is_absolute = unsafe {
            let at = self.at().add(header_bytes(shape));
            if shape & LONG != 0 {
                at.add(FLAGS_AT).read() & FLAG_ABSOLUTE != 0
            } else {
                at.add(4).cast::<u16>().read_unaligned() & ABSOLUTE != 0
            }
        };
        Some(if is_absolute {
            Basis::Absolute
        } else {
            Basis::Relative
        })
    }

    /// The era of the wall clock that the deadline of a volatile key belongs to.
    pub fn era(&self) -> bool {
        let shape = self.shape();
        if shape & VOLATILE == 0 {
            return false;
        }
        // SAFETY: a volatile entry has its expiry just behind the header.
        unsafe {
            let at = self.at().add(header_bytes(shape));
            if shape & LONG != 0 {
                at.add(FLAGS_AT).read() & FLAG_ERA != 0
            } else {
                at.add(4).cast::<u16>().read_unaligned() & ERA != 0
            }
        }
    }

    /// The span of a key whose deadline moves when it is used, in ms.
    pub fn sliding_ms(&self) -> Option<u64> {
        const BOTH: u8 = VOLATILE | LONG;
        let shape = self.shape();
        if shape & BOTH != BOTH {
            return None;
        }
        // SAFETY: a volatile entry has its expiry just behind the header, here the long one.
        let (span, flags) = unsafe {
            let at = self.at().add(header_bytes(shape));
            (read_u48(at.add(SPAN_AT)), at.add(FLAGS_AT).read())
        };
        Some(span).filter(|&span| span > 0 && flags & FLAG_SOFT == 0)
    }

    /// The soft deadline of a key.
    pub fn soft(&self) -> Option<Soft> {
        const BOTH: u8 = VOLATILE | LONG;
        let shape = self.shape();
        if shape & BOTH != BOTH {
            return None;
        }
        // SAFETY: a volatile entry has its expiry just behind the header, here the long one.
        let (before_ms, flags, lease_before_ms) = unsafe {
            let at = self.at().add(header_bytes(shape));
            let flags = at.add(FLAGS_AT).read();
            (read_u48(at.add(SPAN_AT)), flags, read_u48(at.add(SLID_AT)))
        };
        (flags & FLAG_SOFT != 0).then_some(Soft {
            before_ms,
            is_told: flags & FLAG_TOLD != 0,
            lease_before_ms,
        })
    }

    /// Moves the deadline of a key that has a sliding span to one span from `now`, if that is
    /// later; reads do this too. True if it moved.
    #[inline(always)]
    pub fn slide(&self, now: UnixMillis) -> bool {
        const BOTH: u8 = VOLATILE | LONG;
        self.shape() & BOTH == BOTH && self.slide_from(now)
    }

    #[inline]
    fn slide_from(&self, now: UnixMillis) -> bool {
        let shape = self.shape();
        // SAFETY: an entry of this shape has a long expiry behind its header, which no reference
        // covers; slots are not Sync.
        unsafe {
            let at = self.at().add(header_bytes(shape));
            let span_ms = read_u48(at.add(SPAN_AT)) as i64;
            let old = at.cast::<i64>().read_unaligned();
            let new = now.plus(span_ms).0;
            let is_soft = at.add(FLAGS_AT).read() & FLAG_SOFT != 0;
            if span_ms == 0 || new <= old || is_soft {
                return false;
            }
            at.cast::<i64>().write_unaligned(new);
            let slid_ms = read_u48(at.add(SLID_AT)) + (new - old) as u64;
            write_u48(at.add(SLID_AT), slid_ms);
        }
        true
    }

    fn slid_ms(&self) -> u64 {
        const BOTH: u8 = VOLATILE | LONG;
        let shape = self.shape();
        if shape & BOTH != BOTH {
            return 0;
        }
        // SAFETY: a volatile entry has its expiry just behind the header, here the long one.
        unsafe {
            let at = self.at().add(header_bytes(shape));
            if at.add(FLAGS_AT).read() & FLAG_SOFT != 0 {
                return 0;
            }
            read_u48(at.add(SLID_AT))
        }
    }

    /// All that is known of the expiry of a volatile key.
    pub fn expiry(&self) -> Option<Expiry> {
        Some(Expiry {
            deadline: self.deadline()?,
            slid_ms: self.slid_ms(),
            item: self.item()?,
            basis: self.basis()?,
            era: self.era(),
            sliding_ms: self.sliding_ms(),
            soft: self.soft(),
        })
    }

    /// Gives the entry another expiry, or none: where it stands if its shape stays. By how many
    /// bytes its allocation has grown.
    pub fn set_expiry(&mut self, expiry: Option<Expiry>) -> isize {
        let shape = self.shape();
        match expiry {
            Some(new) if shape & VOLATILE != 0 && (shape & LONG != 0) == new.is_long() => {
                // SAFETY: a volatile entry of this shape has room for such an expiry behind its
                // header.
                unsafe { write_expiry(self.at().add(header_bytes(shape)), shape, new) }
                0
            }
            _ => self.reshape(expiry),
        }
    }

    /// Notes where the index has filed a volatile key.
    ///
    /// # Panics
    /// If the key is not volatile.
    pub fn set_item(&mut self, item: ItemRef) {
        let shape = self.shape();
        assert!(shape & VOLATILE != 0, "only volatile keys are filed");
        // SAFETY: a volatile entry has its expiry just behind the header.
        unsafe {
            self.at()
                .add(header_bytes(shape) + item_at(shape))
                .cast::<u32>()
                .write_unaligned(item.0);
        }
    }

    /// The stamp of the last snapshot that saved or skipped this entry.
    #[inline(always)]
    pub fn epoch(&self) -> u8 {
        // SAFETY: the second byte of a header.
        unsafe { self.at().add(1).read() }
    }

    /// Stamps the entry. Takes `&self` as the sweep does; no reference to the byte ever exists.
    #[inline(always)]
    pub fn set_epoch(&self, epoch: u8) {
        // SAFETY: the second byte of a header, which no reference covers; slots are not Sync.
        unsafe { self.at().add(1).write(epoch) }
    }

    /// The access clock.
    #[inline(always)]
    pub fn clock(&self) -> u16 {
        // SAFETY: bytes 2 and 3 of a header.
        unsafe { self.at().add(2).cast::<u16>().read_unaligned() }
    }

    /// Sets the access clock; reads do this too.
    #[inline(always)]
    pub fn set_clock(&self, clock: u16) {
        if self.clock() != clock {
            // SAFETY: bytes 2 and 3 of a header, which no reference covers; slots are not Sync.
            unsafe { self.at().add(2).cast::<u16>().write_unaligned(clock) }
        }
    }

    /// Whether the value has an allocation of its own.
    #[inline(always)]
    pub fn is_boxed(&self) -> bool {
        self.shape() & BOXED != 0
    }

    /// Bytes of memory of the entry without a value of its own.
    pub fn own_bytes(&self) -> usize {
        self.laid_out().class()
    }

    /// Whether the value is a big collection, made of pieces.
    pub fn is_big(&self) -> bool {
        matches!(self.value(), ValueRef::Boxed(value) if value.is_collection())
    }

    /// Bytes of memory of the entry and its value.
    #[inline]
    pub fn allocated_bytes(&self) -> usize {
        self.laid_out().class() + self.boxed_bytes()
    }

    /// Bytes of memory of a value of its own.
    #[inline]
    pub fn boxed_bytes(&self) -> usize {
        if !self.is_boxed() {
            return 0;
        }
        match self.value() {
            ValueRef::Inline(_) => 0,
            ValueRef::Boxed(value) => value.allocated_bytes(),
        }
    }

    /// Replaces everything but the slot's tag, in place if the size class stays. Gives back a
    /// boxed value that was replaced, so that the caller decides when to free it, and tells by how
    /// many bytes the entry's allocation has grown.
    pub fn replace(&mut self, parts: Parts<'_>) -> (Option<Box<Value>>, isize) {
        let old = self.laid_out();
        let boxed = self.take_box();
        let new = Layouted::of(&parts);
        let at = self.at();
        if new.class() == old.class() {
            // SAFETY: same class, so the allocation has `new.class()` bytes; `parts` cannot borrow
            // from it, as `self` is borrowed mutably.
            unsafe { write(at, new, parts) };
            return (boxed, 0);
        }
        let moved = allocate(new.class());
        // SAFETY: freshly allocated; the old allocation is freed once, with its own layout.
        unsafe {
            write(moved, new, parts);
            dealloc(at, layout(old.class()));
        }
        let tag = self.tag();
        self.0 = Slot::pack(moved, tag).into_bits();
        (boxed, new.growth(&old))
    }

    /// Gives the entry another value; all else stays. The same as of [`Slot::replace`].
    pub fn set_value(&mut self, form: Form, value: NewValue<'_>) -> (Option<Box<Value>>, isize) {
        let key = self.key().to_vec();
        self.replace(Parts {
            key: &key,
            form,
            value,
            expiry: self.expiry(),
            epoch: self.epoch(),
            clock: self.clock(),
        })
    }

    /// Gives the entry another expiry, or none, whatever that does to its shape.
    #[cold]
    fn reshape(&mut self, expiry: Option<Expiry>) -> isize {
        let key = self.key().to_vec();
        let inline;
        let boxed = self.take_box();
        let value = match boxed {
            Some(value) => NewValue::Boxed(value),
            None => {
                inline = self.inline().to_vec();
                NewValue::Inline(&inline)
            }
        };
        let parts = Parts {
            key: &key,
            form: self.form(),
            value,
            expiry,
            epoch: self.epoch(),
            clock: self.clock(),
        };
        let (left, grown) = self.replace(parts);
        debug_assert!(left.is_none(), "the box was taken before");
        grown
    }

    /// Takes a big collection out, so that it can be freed later; the entry can only be dropped.
    pub fn take_collection(&mut self) -> Option<Box<Value>> {
        match self.value() {
            ValueRef::Boxed(value) if value.is_collection() => self.take_box(),
            _ => None,
        }
    }

    /// Takes the boxed value out; the entry is left with an empty inline string.
    fn take_box(&mut self) -> Option<Box<Value>> {
        let form = self.laid_out();
        if form.shape & BOXED == 0 {
            return None;
        }
        // SAFETY: a boxed entry owns the Box behind this address. The shape is rewritten to an
        // inline value of the same size class (8 bytes), so that it is not freed again.
        unsafe {
            let at = self.at();
            let value = at
                .add(form.value_at())
                .cast::<*mut Value>()
                .read_unaligned();
            at.write(form.shape & !BOXED);
            if form.shape & WIDE != 0 {
                at.add(8).cast::<u32>().write_unaligned(8);
            } else {
                at.add(5).write(8);
            }
            Some(Box::from_raw(value))
        }
    }

    /// The same value under another key.
    pub fn renamed(mut self, hash: u64, key: &[u8], expiry: Option<Expiry>, epoch: u8) -> Slot {
        let boxed = self.take_box();
        let value = match boxed {
            Some(value) => NewValue::Boxed(value),
            None => NewValue::Inline(self.inline()),
        };
        let (form, clock) = (self.form(), self.clock());
        Slot::new(
            hash,
            Parts {
                key,
                form,
                value,
                expiry,
                epoch,
                clock,
            },
        )
    }

    /// A copy of the entry (key, value, deadline, stamps).
    pub fn duplicate(&self) -> Slot {
        self.copied(Value::clone)
    }

    /// A copy of the entry for a snapshot: of a big collection, the pieces as they are now.
    pub fn frozen(&self) -> Slot {
        self.copied(|value| value.freeze().map_or_else(|| value.clone(), Value::Frozen))
    }

    fn copied(&self, copy: impl FnOnce(&Value) -> Value) -> Slot {
        let value = match self.value() {
            ValueRef::Inline(bytes) => NewValue::Inline(bytes),
            ValueRef::Boxed(value) => NewValue::Boxed(Box::new(copy(value))),
        };
        let parts = Parts {
            key: self.key(),
            form: self.form(),
            value,
            expiry: self.expiry(),
            epoch: self.epoch(),
            clock: self.clock(),
        };
        Slot::new(u64::from(self.tag()) << ADDRESS_BITS, parts)
    }

    /// Moves the entry to another allocation of its size.
    pub fn relocate(&mut self) {
        let class = self.laid_out().class();
        let (from, to) = (self.at(), allocate(class));
        // SAFETY: both have `class` bytes; the old allocation is freed once, by its own layout, and
        // what it owned is the new one's.
        unsafe {
            ptr::copy_nonoverlapping(from, to, class);
            dealloc(from, layout(class));
        }
        self.0 = Slot::pack(to, self.tag()).into_bits();
    }

    /// Where the box of a boxed value is.
    pub fn box_address(&self) -> Option<usize> {
        match self.value() {
            ValueRef::Inline(_) => None,
            ValueRef::Boxed(value) => Some(ptr::from_ref(value).addr()),
        }
    }

    /// Moves the box of a boxed value to another allocation.
    pub fn relocate_box(&mut self) {
        let form = self.laid_out();
        if form.shape & BOXED == 0 {
            return;
        }
        // SAFETY: a boxed entry owns the Box behind this address; it is put back before anything
        // can see that it was taken.
        unsafe {
            let at = self.at().add(form.value_at()).cast::<*mut Value>();
            let value = Box::from_raw(at.read_unaligned());
            at.write_unaligned(Box::into_raw(Box::new(*value)));
        }
    }

    /// Puts the concatenation of `inserted` in the place of the `removed` bytes at `at` of a value
    /// inside the entry: where it stands if the size class stays. By how many bytes the entry's
    /// allocation has grown.
    pub fn splice(&mut self, at: usize, removed: usize, inserted: &[&[u8]]) -> isize {
        let old = self.laid_out();
        let added = inserted.iter().map(|part| part.len()).sum::<usize>();
        let end = at + removed;
        assert!(old.shape & BOXED == 0 && at <= end && end <= old.value);
        let len = old.value - removed + added;
        assert!(len <= SMALL_MAX);
        let is_wide = old.key > 255 || len > 255;
        let new = Layouted::new(old.shape, old.key, len);
        let value_at = old.value_at();
        let from = self.at();
        if (old.shape & WIDE != 0 || !is_wide) && new.class() == old.class() {
            // SAFETY: old and new value lie within the allocation, whose class stays; the parts
            // cannot borrow from it, as `self` is borrowed mutably.
            unsafe {
                let value = from.add(value_at);
                ptr::copy(value.add(end), value.add(at + added), old.value - end);
                fill(value.add(at), inserted);
                write_lengths(from, new);
            }
            return 0;
        }
        let shape = if is_wide {
            old.shape | WIDE
        } else {
            old.shape & !WIDE
        };
        let new = Layouted::new(shape, old.key, len);
        let to = allocate(new.class());
        // SAFETY: `to` is freshly allocated with `new.class()` bytes, `from` is valid for
        // `old.class()`; expiry and key lie side by side in both, behind headers of their own
        // length. The old allocation is freed once, with its own layout.
        unsafe {
            ptr::copy_nonoverlapping(from, to, 4);
            to.write(shape);
            write_lengths(to, new);
            ptr::copy_nonoverlapping(
                from.add(old.header),
                to.add(new.header),
                old.expiry + old.key,
            );
            let (old_value, value) = (from.add(value_at), to.add(new.value_at()));
            ptr::copy_nonoverlapping(old_value, value, at);
            fill(value.add(at), inserted);
            ptr::copy_nonoverlapping(old_value.add(end), value.add(at + added), old.value - end);
            dealloc(from, layout(old.class()));
        }
        let tag = self.tag();
        self.0 = Slot::pack(to, tag).into_bits();
        new.growth(&old)
    }

    fn into_bits(self) -> u64 {
        let bits = self.0;
        std::mem::forget(self);
        bits
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        drop(self.take_box());
        // SAFETY: the slot owns the allocation, made with this layout; taking the box keeps the
        // size class, as an inline value of 8 bytes has the size of a box's address.
        unsafe { dealloc(self.at(), layout(self.laid_out().class())) }
    }
}

/// The part of a placement hash that a slot carries.
#[inline(always)]
pub fn tag(hash: u64) -> u32 {
    (hash >> ADDRESS_BITS) as u32
}
