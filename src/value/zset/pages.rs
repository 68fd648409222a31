//! Where the records of a big sorted set lie: slotted pages, each behind an `Rc`.
//!
//! A record is named by a number that does not change while its page lives, so that the tree and
//! the member table can hold it: page number and slot. The slot says where in the page the record
//! begins, so a page can close its holes, grow and shrink without anybody noticing.
//!
//! ```text
//! RecordId  31 ........... 10 | 9 ...... 0
//!           page              | slot
//!
//! page      [record][record][hole][record] ...free... [offset of slot 1][offset of slot 0]
//!            ^ front                      ^ records_end                          (u16) ^ back
//!
//! record    [score, 8 bytes][head, 1 byte][rest of the length][deadline, 6 bytes][member]
//!
//! head      7         6...0
//!           volatile  0..=125: the length, of which nothing follows
//!                     126: it follows, 2 bytes
//!                     127: where the member is in `large`, shared, follows: 2 bytes
//! ```
//!
//! Only a volatile record has a deadline. One that gets it later moves behind the last record of
//! its page, where it leaves a hole, or to another page ([`Pages::set_term`]). What is known of
//! the deadlines of each page stands side by side ([`Dates`]).
//!
//! The offset of a slot without a record is [`FREE`] plus the next such slot. A page is allocated
//! small, doubles up to [`PAGE_BYTES_MAX`], and is cut down when less than half of it is used. One
//! that is left with at most [`SPARSE_BYTES`] is to be emptied by the owner ([`Pages::remove`] says
//! so): only this gives records new numbers, few at a time.
//!
//! Records are added to one page, the open one. When it is full the next is one with holes worth
//! filling (it is in `roomy`), or else a new one. `roomy` may name pages that have gone or changed
//! since; a page that still deserves to be there says so itself (`is_roomy`).
//!
//! A page shared with a snapshot is copied before it is changed.

use std::rc::Rc;

use bytes::Bytes;

use crate::clock::UnixMillis;
use crate::expiry::{ALL_LIVE, Deadline, MemberTerm, is_due};
use crate::heap::{ShouldMove, relocate_bytes, relocate_rc, relocate_slice, relocate_vec};
use crate::value::dated::{self, Dates, Span, TERM_BYTES};
use crate::value::size_class;

/// Bytes of the largest page: some 600 records of 16-byte members.
const PAGE_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a new page.
const PAGE_BYTES_MIN: usize = 1024;
/// A page with this many bytes in use, or fewer, is better emptied than kept.
const SPARSE_BYTES: usize = PAGE_BYTES_MAX / 16 * 3;
/// A page with this many bytes in use, or fewer, takes new records again.
const ROOMY_BYTES: usize = PAGE_BYTES_MAX / 4 * 3;
/// Longer members have an allocation of their own, which is shared when the page is copied.
const INLINE_BYTES_MAX: usize = 1024;
const SLOT_BITS: u32 = 10;
const SLOTS_MAX: usize = 1 << SLOT_BITS;
const SLOT_BYTES: usize = 2;
/// Bit of an offset that says that the slot has no record.
const FREE: u16 = 1 << 15;
/// The end of the list of free slots; no slot's number.
const NO_SLOT: u16 = FREE - 1;
const SCORE_BYTES: usize = 8;
const VOLATILE: u8 = 1 << 7;
const LENGTH_LONG: u8 = 126;
const LENGTH_LARGE: u8 = 127;
/// Page numbers end here: 64 GiB of records in one sorted set.
const PAGES_MAX: usize = 1 << (32 - SLOT_BITS);

/// The number of a record.
pub type RecordId = u32;

fn page_of(id: RecordId) -> usize {
    (id >> SLOT_BITS) as usize
}

fn slot_of(id: RecordId) -> usize {
    id as usize & (SLOTS_MAX - 1)
}

/// A member to be written.
enum Member<'a> {
    Inline(&'a [u8]),
    Large(Bytes),
}

impl Member<'_> {
    fn new(member: &[u8]) -> Member<'_> {
        if member.len() <= INLINE_BYTES_MAX {
            Member::Inline(member)
        } else {
            Member::Large(Bytes::copy_from_slice(member))
        }
    }

    /// Bytes of a record of it.
    fn record_len(&self, term: Option<MemberTerm>) -> usize {
        let term_bytes = if term.is_some() { TERM_BYTES } else { 0 };
        SCORE_BYTES
            + term_bytes
            + match self {
                Member::Large(_) => 3,
                Member::Inline(member) if member.len() < LENGTH_LONG.into() => 1 + member.len(),
                Member::Inline(member) => 3 + member.len(),
            }
    }
}

/// The offset of a slot in the bytes of a page.
#[inline]
fn offset(page: &[u8], slot: usize) -> u16 {
    let at = page.len() - (slot + 1) * SLOT_BYTES;
    read_u16(&page[at..])
}

#[inline]
fn read_u16(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}

/// A record where it stands: what its head says, and the parts as ranges of its bytes.
#[derive(Clone, Copy)]
struct Parts {
    /// Where in `large` the member is, if it is there.
    large: Option<usize>,
    /// Where the term starts, or would.
    term: usize,
    /// Where the member starts, and the record ends.
    member: usize,
    end: usize,
}

impl Parts {
    /// Of the record at the front of `bytes`.
    #[inline]
    fn of(bytes: &[u8]) -> Parts {
        let head = bytes[SCORE_BYTES];
        let after = SCORE_BYTES + 1;
        let (large, len, term) = match head & !VOLATILE {
            LENGTH_LARGE => (Some(read_u16(&bytes[after..]).into()), 0, after + 2),
            LENGTH_LONG => (None, read_u16(&bytes[after..]).into(), after + 2),
            len => (None, usize::from(len), after),
        };
        let member = term + usize::from(head >> 7) * TERM_BYTES;
        Parts {
            large,
            term,
            member,
            end: member + len,
        }
    }

    fn is_volatile(&self) -> bool {
        self.member > self.term
    }
}

/// Some of the records of a sorted set, in no order.
#[derive(Clone, Debug)]
pub struct Page {
    bytes: Box<[u8]>,
    records_end: u16,
    /// Slots there are, those without a record included.
    slots: u16,
    free_slot: u16,
    len: u16,
    /// Bytes of the records there are.
    record_bytes: u16,
    is_roomy: bool,
    /// Members too long for the page; an empty one is a place to be used again.
    large: Vec<Bytes>,
    large_bytes: usize,
}

/// Bytes behind a page of these capacities.
fn bytes_of([bytes, large, large_bytes]: [usize; 3]) -> usize {
    size_class::of(bytes) + size_class::of(large * size_of::<Bytes>()) + large_bytes
}

impl Page {
    fn new() -> Page {
        Page {
            bytes: vec![0; PAGE_BYTES_MIN].into_boxed_slice(),
            records_end: 0,
            slots: 0,
            free_slot: NO_SLOT,
            len: 0,
            record_bytes: 0,
            is_roomy: false,
            large: Vec::new(),
            large_bytes: 0,
        }
    }

    fn relocate(&mut self, should_move: ShouldMove<'_>) {
        relocate_slice(&mut self.bytes, should_move);
        relocate_vec(&mut self.large, should_move);
        for string in &mut self.large {
            relocate_bytes(string, should_move);
        }
    }

    /// Calls `found` with every member, its score and its deadline.
    pub fn for_each(&self, mut found: impl FnMut(&[u8], f64, Option<Deadline>)) {
        for slot in self.live_slots() {
            let (member, score) = self.record(slot);
            found(member, score, self.deadline(slot));
        }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn live_slots(&self) -> impl Iterator<Item = usize> + '_ {
        (0..usize::from(self.slots)).filter(|&slot| offset(&self.bytes, slot) & FREE == 0)
    }

    fn set_offset(&mut self, slot: usize, offset: u16) {
        let at = self.bytes.len() - (slot + 1) * SLOT_BYTES;
        self.bytes[at..at + SLOT_BYTES].copy_from_slice(&offset.to_le_bytes());
    }

    /// The bytes from a record's start on.
    #[inline]
    fn bytes_of(&self, slot: usize) -> &[u8] {
        &self.bytes[usize::from(offset(&self.bytes, slot))..]
    }

    #[inline]
    fn record(&self, slot: usize) -> (&[u8], f64) {
        let bytes = self.bytes_of(slot);
        let score = bytes[..SCORE_BYTES].try_into();
        let parts = Parts::of(bytes);
        let member = match parts.large {
            Some(at) => &self.large[at],
            None => &bytes[parts.member..parts.end],
        };
        let score = f64::from_le_bytes(score.expect("a score has eight bytes"));
        (member, score)
    }

    #[inline]
    fn term(&self, slot: usize) -> Option<MemberTerm> {
        let bytes = self.bytes_of(slot);
        let parts = Parts::of(bytes);
        dated::from_bytes(&bytes[parts.term..parts.member])
    }

    fn deadline(&self, slot: usize) -> Option<Deadline> {
        self.term(slot).map(|term| term.deadline)
    }

    /// Whether a deadline was given as a moment in the other era of the wall clock.
    fn has_moments_before(&self, era: bool) -> bool {
        let mut terms = self.live_slots().filter_map(|slot| self.term(slot));
        terms.any(|term| term.is_before(era))
    }

    /// Moves such deadlines by so much into this era.
    fn shift(&mut self, era: bool, later_ms: i64) {
        for slot in 0..usize::from(self.slots) {
            let at = offset(&self.bytes, slot);
            if at & FREE == 0 {
                let Parts { term, member, .. } = Parts::of(self.bytes_of(slot));
                let at = usize::from(at);
                dated::shift(&mut self.bytes[at + term..at + member], era, later_ms);
            }
        }
    }

    /// How many members are due, and the deadlines of the others.
    fn survey(&self, now: UnixMillis) -> (usize, Span) {
        let (mut dead, mut span) = (0, Span::EMPTY);
        for deadline in self.live_slots().filter_map(|slot| self.deadline(slot)) {
            if is_due(deadline, now) {
                dead += 1;
            } else {
                span.add(deadline);
            }
        }
        (dead, span)
    }

    /// The record to be written elsewhere; a large member is shared and not copied.
    fn member(&self, slot: usize) -> Member<'_> {
        match Parts::of(self.bytes_of(slot)).large {
            Some(at) => Member::Large(self.large[at].clone()),
            None => Member::Inline(self.record(slot).0),
        }
    }

    /// Bytes in use: records and slots.
    fn used_bytes(&self) -> usize {
        usize::from(self.record_bytes) + usize::from(self.slots) * SLOT_BYTES
    }

    /// Bytes of memory it takes, with the counts of those who share it.
    pub fn allocated_bytes(&self) -> usize {
        // The `Rc` puts two counts before it.
        size_class::of(2 * size_of::<usize>() + size_of::<Page>()) + bytes_of(self.capacities())
    }

    /// What its memory follows from: without a change of these it stays as it is.
    #[inline]
    fn capacities(&self) -> [usize; 3] {
        [self.bytes.len(), self.large.capacity(), self.large_bytes]
    }

    /// Bytes that a record of `len` bytes takes here.
    fn need(&self, len: usize) -> usize {
        len + usize::from(self.free_slot == NO_SLOT) * SLOT_BYTES
    }

    /// Whether there are so many bytes behind the last record.
    fn has_behind(&self, bytes: usize) -> bool {
        let slots_start = self.bytes.len() - usize::from(self.slots) * SLOT_BYTES;
        usize::from(self.records_end) + bytes <= slots_start
    }

    /// Whether so many more bytes find room, at most after a rebuild that pays: at full size only
    /// if it gains a quarter of the page.
    fn has_room(&self, bytes: usize) -> bool {
        let used = self.used_bytes() + bytes;
        let may_grow = self.bytes.len() < PAGE_BYTES_MAX && used <= PAGE_BYTES_MAX;
        self.has_behind(bytes) || may_grow || used <= ROOMY_BYTES
    }

    /// Has so many bytes, for which there [is room](Page::has_room), behind the last record.
    fn make_room(&mut self, bytes: usize) {
        if !self.has_behind(bytes) {
            let (used, size) = (self.used_bytes() + bytes, self.bytes.len());
            let is_size_enough = used <= size / 4 * 3;
            self.rebuild(if is_size_enough {
                size
            } else {
                used.max(size * 2)
            });
        }
    }

    /// Whether a record of `len` bytes finds room.
    fn takes(&self, len: usize) -> bool {
        let has_slot = self.free_slot != NO_SLOT || usize::from(self.slots) < SLOTS_MAX;
        has_slot && self.has_room(self.need(len))
    }

    /// Adds a record that [`Page::takes`].
    fn insert(&mut self, member: Member<'_>, score: f64, term: Option<MemberTerm>) -> usize {
        let len = member.record_len(term);
        self.make_room(self.need(len));
        let slot = match self.free_slot {
            NO_SLOT => {
                self.slots += 1;
                usize::from(self.slots) - 1
            }
            slot => {
                self.free_slot = offset(&self.bytes, slot.into()) & !FREE;
                slot.into()
            }
        };
        self.set_offset(slot, self.records_end);
        self.write(self.records_end.into(), member, score, term);
        self.records_end += len as u16;
        self.record_bytes += len as u16;
        self.len += 1;
        slot
    }

    fn write(&mut self, at: usize, member: Member<'_>, score: f64, term: Option<MemberTerm>) {
        let (head, bytes): (u8, &[u8]) = match &member {
            Member::Inline(member) if member.len() < LENGTH_LONG.into() => {
                (member.len() as u8, member)
            }
            Member::Inline(member) => (LENGTH_LONG, member),
            Member::Large(_) => (LENGTH_LARGE, b""),
        };
        let mut end = at;
        let mut put = |bytes: &[u8]| {
            self.bytes[end..end + bytes.len()].copy_from_slice(bytes);
            end += bytes.len();
        };
        put(&score.to_le_bytes());
        put(&[head | if term.is_some() { VOLATILE } else { 0 }]);
        match head {
            LENGTH_LARGE => {
                let place = self.large.iter().position(Bytes::is_empty);
                put(&(place.unwrap_or(self.large.len()) as u16).to_le_bytes());
            }
            LENGTH_LONG => put(&(bytes.len() as u16).to_le_bytes()),
            _ => {}
        }
        if let Some(term) = term {
            put(&dated::to_bytes(term));
        }
        put(bytes);
        if let Member::Large(member) = member {
            self.large_bytes += size_class::of(member.len());
            match self.large.iter_mut().find(|place| place.is_empty()) {
                Some(place) => *place = member,
                None => self.large.push(member),
            }
        }
    }

    /// Gives a record a deadline, or takes it away; false if there is no room for it, and then
    /// nothing is changed.
    fn set_term(&mut self, slot: usize, term: Option<MemberTerm>) -> bool {
        let parts = Parts::of(self.bytes_of(slot));
        let mut at = usize::from(offset(&self.bytes, slot));
        let bytes = term.map(dated::to_bytes);
        let is_volatile = parts.is_volatile();
        match bytes {
            Some(_) if is_volatile => {}
            Some(_) => {
                // The last record grows where it is, any other moves behind it.
                let grows =
                    at + parts.end == usize::from(self.records_end) && self.has_behind(TERM_BYTES);
                if !grows {
                    if !self.has_room(parts.end + TERM_BYTES) {
                        return false;
                    }
                    self.make_room(parts.end + TERM_BYTES);
                    at = offset(&self.bytes, slot).into();
                }
                let target = if grows { at } else { self.records_end.into() };
                let member = at + parts.term..at + parts.end;
                self.bytes
                    .copy_within(member, target + parts.term + TERM_BYTES);
                self.bytes.copy_within(at..at + parts.term, target);
                self.records_end = (target + parts.end + TERM_BYTES) as u16;
                self.record_bytes += TERM_BYTES as u16;
                self.set_offset(slot, target as u16);
                at = target;
            }
            None if is_volatile => {
                let member = at + parts.member..at + parts.end;
                self.bytes.copy_within(member, at + parts.term);
                self.record_bytes -= TERM_BYTES as u16;
            }
            None => {}
        }
        let head = &mut self.bytes[at + SCORE_BYTES];
        *head &= !VOLATILE;
        if let Some(bytes) = bytes {
            *head |= VOLATILE;
            self.bytes[at + parts.term..][..TERM_BYTES].copy_from_slice(&bytes);
        }
        true
    }

    fn set_score(&mut self, slot: usize, score: f64) {
        let at = usize::from(offset(&self.bytes, slot));
        self.bytes[at..at + SCORE_BYTES].copy_from_slice(&score.to_le_bytes());
    }

    fn remove(&mut self, slot: usize) {
        let Parts {
            large, end: len, ..
        } = Parts::of(self.bytes_of(slot));
        if let Some(at) = large {
            self.large_bytes -= size_class::of(self.large[at].len());
            self.large[at] = Bytes::new();
        }
        self.set_offset(slot, FREE | self.free_slot);
        self.free_slot = slot as u16;
        self.record_bytes -= len as u16;
        self.len -= 1;
        // What is cut down has a quarter of room, so the next time is far.
        let used = self.used_bytes();
        if used < self.bytes.len() / 2 && self.bytes.len() > PAGE_BYTES_MIN {
            self.rebuild(used + used / 4);
        }
    }

    /// Moves the records to `size` bytes, or as near as the limits allow, without holes, and
    /// forgets the free slots behind the last one in use.
    fn rebuild(&mut self, size: usize) {
        let size = size
            .next_multiple_of(256)
            .clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX);
        let old = std::mem::replace(&mut self.bytes, vec![0; size].into_boxed_slice());
        let last = (0..self.slots)
            .rev()
            .find(|&slot| offset(&old, slot.into()) & FREE == 0);
        self.slots = last.map_or(0, |slot| slot + 1);
        (self.free_slot, self.records_end) = (NO_SLOT, 0);
        for slot in (0..usize::from(self.slots)).rev() {
            let from = offset(&old, slot);
            if from & FREE != 0 {
                self.set_offset(slot, FREE | self.free_slot);
                self.free_slot = slot as u16;
                continue;
            }
            let record = &old[usize::from(from)..];
            let len = Parts::of(record).end;
            let at = usize::from(self.records_end);
            self.bytes[at..at + len].copy_from_slice(&record[..len]);
            self.set_offset(slot, self.records_end);
            self.records_end += len as u16;
        }
        if self.large_bytes == 0 {
            self.large = Vec::new();
        }
    }

    fn check(&self) {
        let records: usize = self
            .live_slots()
            .map(|slot| Parts::of(self.bytes_of(slot)).end)
            .sum();
        assert_eq!(records, usize::from(self.record_bytes));
        assert_eq!(self.live_slots().count(), self.len());
        let large = self.large.iter().map(|bytes| size_class::of(bytes.len()));
        assert_eq!(large.sum::<usize>(), self.large_bytes);
        let (mut free, mut next) = (0, self.free_slot);
        while next != NO_SLOT {
            free += 1;
            assert!(offset(&self.bytes, next.into()) & FREE != 0);
            next = offset(&self.bytes, next.into()) & !FREE;
        }
        assert_eq!(free + self.len(), usize::from(self.slots));
        let slots_bytes = usize::from(self.slots) * SLOT_BYTES;
        assert!(usize::from(self.records_end) + slots_bytes <= self.bytes.len());
    }
}

/// Some records, as a bit for each number there is.
pub struct Marks(Vec<u64>);

impl Marks {
    /// None of the records of so many pages.
    fn new(pages: usize) -> Marks {
        Marks(vec![0; pages * SLOTS_MAX / 64])
    }

    fn add(&mut self, id: RecordId) {
        self.0[id as usize / 64] |= 1 << (id % 64);
    }

    /// Whether a record is among them.
    #[inline]
    pub fn contains(&self, id: RecordId) -> bool {
        self.0[id as usize / 64] >> (id % 64) & 1 == 1
    }
}

/// All records of a sorted set.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    pages: Vec<Option<Rc<Page>>>,
    /// Numbers without a page.
    unused: Vec<u32>,
    roomy: Vec<u32>,
    open: Option<usize>,
    allocated_bytes: usize,
    /// None until a record gets a deadline.
    dated: Option<Box<Dates>>,
}

impl Pages {
    /// A record's member and score.
    #[inline]
    pub fn record(&self, id: RecordId) -> (&[u8], f64) {
        self.page(page_of(id)).record(slot_of(id))
    }

    /// When a record's member dies.
    pub fn term(&self, id: RecordId) -> Option<MemberTerm> {
        self.page(page_of(id)).term(slot_of(id))
    }

    /// Adds a record without a deadline.
    pub fn insert(&mut self, member: &[u8], score: f64) -> RecordId {
        self.add(Member::new(member), score, None)
    }

    /// Gives a record a deadline, or takes it away. False if its page has no room for it: then
    /// nothing has changed, and the record must be [copied](Pages::copy) and removed.
    pub fn set_term(&mut self, id: RecordId, term: Option<MemberTerm>) -> bool {
        let (at, old) = (page_of(id), self.term(id));
        if !self.change(at, |page| page.set_term(slot_of(id), term)) {
            return false;
        }
        // Added first: a later deadline spares the survey.
        if let Some(term) = term {
            self.dates_mut().add(at, term.deadline);
        }
        if let Some(old) = old {
            self.leave_out(at, old.deadline);
        }
        true
    }

    /// Moves deadlines that were given as moments in the other era of the wall clock by so much
    /// into this era.
    pub fn shift(&mut self, era: bool, later_ms: i64) {
        if self.dated.is_none() {
            return;
        }
        for at in 0..self.pages.len() {
            // Looked for first, so that what a snapshot holds is not copied in vain.
            let page = self.pages[at].as_ref();
            if page.is_some_and(|page| page.has_moments_before(era)) {
                self.change(at, |page| page.shift(era, later_ms));
                let (_, span) = self.survey(at, ALL_LIVE);
                self.dates_mut().moved(at, span);
            }
        }
        self.dates_mut().measure();
    }

    /// A record of a page has this deadline no more.
    fn leave_out(&mut self, at: usize, deadline: Deadline) {
        let page = self.pages[at].as_ref().expect("a record's page is there");
        if let Some(dated) = &mut self.dated {
            dated.leave_out(at, deadline, || page.survey(ALL_LIVE).1);
        }
    }

    /// What is known of the deadlines; none until a record has got one.
    pub fn dates(&self) -> Option<&Dates> {
        self.dated.as_deref()
    }

    /// The same, to be changed; of no deadlines if there are none.
    pub fn dates_mut(&mut self) -> &mut Dates {
        let pages = self.pages.len();
        self.dated
            .get_or_insert_with(|| Box::new(Dates::new(pages)))
    }

    /// How many records are due; see [`Dates::dead`].
    pub fn dead(&self, now: UnixMillis) -> usize {
        let dated = self.dated.as_ref();
        dated.map_or(0, |dated| dated.dead(now, |at| self.survey(at, now)))
    }

    /// How many records of a page are due, and the deadlines of the others.
    fn survey(&self, at: usize, now: UnixMillis) -> (usize, Span) {
        let page = self.pages[at].as_ref();
        page.map_or((0, Span::EMPTY), |page| page.survey(now))
    }

    /// The exact soonest deadline; looks at all records.
    pub fn soonest(&self) -> Option<Deadline> {
        let pages = self.pages.iter().flatten();
        let spans = pages.map(|page| page.survey(ALL_LIVE).1);
        spans
            .filter(|span| span.volatile > 0)
            .map(|span| span.soonest)
            .min()
    }

    /// Due records, at most so many and of one page; none if there are none anywhere. Those of a
    /// page that turns out to have none are looked for no more.
    pub fn due(&mut self, now: UnixMillis, limit: usize) -> Vec<RecordId> {
        let mut due = Vec::new();
        while let Some(dated) = &mut self.dated
            && let Some(at) = dated.next_due(now)
        {
            let page = self.pages[at].as_ref().expect("it has records");
            let is_due = |slot: &usize| page.deadline(*slot).is_some_and(|it| is_due(it, now));
            let slots = page.live_slots().filter(is_due).take(limit);
            due.extend(slots.map(|slot| (at << SLOT_BITS | slot) as RecordId));
            if !due.is_empty() {
                break;
            }
            dated.set_span(at, page.survey(now).1);
        }
        due
    }

    /// Changes the score of a record.
    pub fn set_score(&mut self, id: RecordId, score: f64) {
        self.change(page_of(id), |page| page.set_score(slot_of(id), score));
    }

    /// Removes a record. Gives its page if that should now be emptied: [`Pages::retire`], then
    /// [`Pages::copy`] every record, then [`Pages::free`].
    pub fn remove(&mut self, id: RecordId) -> Option<usize> {
        let (at, term) = (page_of(id), self.term(id));
        self.change(at, |page| page.remove(slot_of(id)));
        if let Some(term) = term {
            self.leave_out(at, term.deadline);
        }
        self.tidy(at)
    }

    /// Removes records that [`Pages::due`] gave; gives their page as [`Pages::remove`] does.
    pub fn remove_due(&mut self, due: &[RecordId]) -> Option<usize> {
        let at = page_of(*due.first()?);
        self.change(at, |page| {
            due.iter().for_each(|&id| page.remove(slot_of(id)));
        });
        let (_, span) = self.survey(at, ALL_LIVE);
        self.dates_mut().expired(at, due.len(), span);
        self.tidy(at)
    }

    /// After removals from a page.
    fn tidy(&mut self, at: usize) -> Option<usize> {
        let (len, used) = (self.page(at).len(), self.page(at).used_bytes());
        if len == 0 {
            self.free(at);
            return None;
        }
        if self.open == Some(at) {
            return None;
        }
        if used <= SPARSE_BYTES {
            return Some(at);
        }
        if used <= ROOMY_BYTES && !self.page(at).is_roomy {
            self.change(at, |page| page.is_roomy = true);
            self.roomy.push(at as u32);
        }
        None
    }

    /// Removes all due records, handing them and their deadlines to `gone`; tells which they were,
    /// and the pages that should now be emptied.
    pub fn purge(
        &mut self,
        now: UnixMillis,
        mut gone: impl FnMut(&[u8], Deadline),
    ) -> (Marks, Vec<usize>) {
        let (mut marks, mut sparse) = (Marks::new(self.pages.len()), Vec::new());
        loop {
            let due = self.due(now, SLOTS_MAX);
            if due.is_empty() {
                return (marks, sparse);
            }
            for &id in &due {
                marks.add(id);
                if let Some(term) = self.term(id) {
                    gone(self.record(id).0, term.deadline);
                }
            }
            sparse.extend(self.remove_due(&due));
        }
    }

    /// Takes a page out of those that get new records, and tells the records it has.
    pub fn retire(&mut self, at: usize) -> Vec<RecordId> {
        self.change(at, |page| page.is_roomy = false);
        let slots = self.page(at).live_slots();
        slots
            .map(|slot| (at << SLOT_BITS | slot) as RecordId)
            .collect()
    }

    /// Adds a copy of a record with this deadline; tells its number.
    pub fn copy(&mut self, id: RecordId, term: Option<MemberTerm>) -> RecordId {
        let page = self.pages[page_of(id)]
            .clone()
            .expect("a record's page is there");
        let (_, score) = page.record(slot_of(id));
        self.add(page.member(slot_of(id)), score, term)
    }

    /// Drops a page, with what is in it.
    pub fn free(&mut self, at: usize) {
        let page = self.pages[at].take().expect("a page is freed once");
        self.allocated_bytes -= page.allocated_bytes();
        self.unused.push(at as u32);
        if let Some(dated) = &mut self.dated {
            dated.forget(at);
        }
        if self.open == Some(at) {
            self.open = None;
        }
    }

    /// The pages there are, shared.
    pub fn freeze(&self) -> Vec<Rc<Page>> {
        self.pages.iter().flatten().cloned().collect()
    }

    /// Numbers of pages, those not in use included.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Moves what `should_move` says of the page with this number, if there is one.
    pub fn relocate_page(&mut self, at: usize, should_move: ShouldMove<'_>) {
        if at == 0 {
            relocate_vec(&mut self.pages, should_move);
            if let Some(dated) = &mut self.dated {
                dated.relocate(should_move);
            }
        }
        let page = self.pages[at].as_mut();
        let owned = page.and_then(|page| relocate_rc(page, Page::new, should_move));
        if owned.is_some() {
            self.change(at, |page| page.relocate(should_move));
        }
    }

    /// Frees the last page; false if there is none.
    pub fn dismantle(&mut self) -> bool {
        let Some(page) = self.pages.pop() else {
            return false;
        };
        self.allocated_bytes -= page.map_or(0, |page| page.allocated_bytes());
        true
    }

    /// Bytes of memory taken.
    pub fn allocated_bytes(&self) -> usize {
        self.allocated_bytes
            + size_class::of(self.pages.capacity() * size_of::<Option<Rc<Page>>>())
            + size_class::of(self.unused.capacity() * size_of::<u32>())
            + size_class::of(self.roomy.capacity() * size_of::<u32>())
            + self
                .dated
                .as_ref()
                .map_or(0, |dated| dated.allocated_bytes())
    }

    #[inline]
    fn page(&self, at: usize) -> &Page {
        self.pages[at].as_ref().expect("a record's page is there")
    }

    fn change<R>(&mut self, at: usize, change: impl FnOnce(&mut Page) -> R) -> R {
        let page = self.pages[at].as_mut().expect("a record's page is there");
        // Before a copy is made: that may be smaller than the original.
        let before = page.capacities();
        let page = Rc::make_mut(page);
        let result = change(page);
        let after = page.capacities();
        if after != before {
            self.allocated_bytes = self.allocated_bytes + bytes_of(after) - bytes_of(before);
        }
        result
    }

    fn add(&mut self, member: Member<'_>, score: f64, term: Option<MemberTerm>) -> RecordId {
        let at = self.open_for(member.record_len(term));
        let slot = self.change(at, |page| page.insert(member, score, term));
        if let Some(term) = term {
            self.dates_mut().add(at, term.deadline);
        }
        (at << SLOT_BITS | slot) as RecordId
    }

    /// A page that takes a record of `len` bytes; it is the open one from now on.
    fn open_for(&mut self, len: usize) -> usize {
        if let Some(at) = self.open
            && self.page(at).takes(len)
        {
            return at;
        }
        while let Some(at) = self.roomy.pop() {
            let at = at as usize;
            if self.pages[at].as_ref().is_some_and(|page| page.is_roomy) {
                self.change(at, |page| page.is_roomy = false);
                if self.page(at).takes(len) {
                    self.open = Some(at);
                    return at;
                }
            }
        }
        let page = Page::new();
        self.allocated_bytes += page.allocated_bytes();
        let page = Some(Rc::new(page));
        let at = match self.unused.pop() {
            Some(at) => {
                self.pages[at as usize] = page;
                at as usize
            }
            None => {
                assert!(
                    self.pages.len() < PAGES_MAX,
                    "a sorted set has at most 64 GiB of records"
                );
                self.pages.push(page);
                if let Some(dated) = &mut self.dated {
                    dated.push(Span::EMPTY);
                }
                self.pages.len() - 1
            }
        };
        self.open = Some(at);
        at
    }

    /// Checks every invariant; for tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self) {
        let pages = || self.pages.iter().flatten();
        pages().for_each(|page| page.check());
        assert_eq!(self.pages.len(), pages().count() + self.unused.len());
        let bytes: usize = pages().map(|page| page.allocated_bytes()).sum();
        assert_eq!(bytes, self.allocated_bytes);
        assert!(self.open.is_none_or(|at| !self.page(at).is_roomy));
        let surveys = 0..self.pages.len();
        let mut surveys = surveys.map(|at| self.survey(at, ALL_LIVE).1);
        match &self.dated {
            Some(dated) => dated.check(surveys),
            None => assert!(surveys.all(|span| span == Span::EMPTY)),
        }
    }
}
