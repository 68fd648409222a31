//! The big form of a list, which OBJECT ENCODING calls quicklist: a deque of bounded nodes.
//!
//! ```text
//! List    links   [ items | node ][ items | node ][ items | node ] ...       the spine
//!                             |                |                |
//!                         Rc<Node>        Rc<Node>        Rc<Node>
//!                         packed, at       one long         packed, at
//!                         most 8 KiB       item alone       most 8 KiB
//! ```
//!
//! The spine has each node's number of items, so that finding an index touches one node only.
//! Pushing and popping work on the first or last node, a change in the middle on one node or,
//! when it is full, on two halves of it. What removals leave behind is joined with its neighbour as
//! soon as both together fill no more than half a node; the other half keeps the next insertion
//! from dividing them again.
//!
//! A clone, as a snapshot takes it by [`List::freeze`], shares the nodes; whoever changes a shared
//! node copies it first. A long item is never copied after it was stored.
//!
//! A million items of 16 bytes take 18.2 bytes each, of which 2 frame the item in its node
//! (benches/collections.rs).
//!
//! Invariants ([`List::check`]): no node is empty or beyond the limit; an item is alone if and
//! only if it is too long for the limit; `items` and `len` are true sums.
//!
//! Not here: small lists ([`packed`]), and when one form becomes the other, which the commands
//! decide by [`NodeLimit::allows`] and [`List::fits_packed`].

mod node;
mod view;

pub use node::{Elements, Node, NodeLimit};
pub use view::{Items, ListRef};

use std::collections::VecDeque;
use std::rc::Rc;

use crate::heap::{ShouldMove, relocate_rc};
use crate::value::packed::{self, End};
use crate::value::{StringRef, size_class};

/// Items in order, in nodes.
#[derive(Clone, Debug)]
pub struct List {
    links: VecDeque<Link>,
    len: usize,
    /// Bytes of all nodes.
    node_bytes: usize,
    limit: NodeLimit,
}

/// A node in the spine.
#[derive(Clone, Debug)]
struct Link {
    items: usize,
    node: Rc<Node>,
}

/// Which neighbour of an item is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one before it.
    Before,
    /// The one after it.
    After,
}

impl List {
    /// A list without items, whose nodes will be as the limit says.
    pub fn new(limit: NodeLimit) -> List {
        List {
            links: VecDeque::new(),
            len: 0,
            node_bytes: 0,
            limit,
        }
    }

    /// The items of a small list.
    pub fn from_packed(packed: &[u8], limit: NodeLimit) -> List {
        let (mut list, len) = (List::new(limit), packed::len(packed));
        if len > 0 && limit.allows(packed.len(), len) {
            let link = list.link(Node::of_packed(packed));
            list.links.push_back(link);
            list.len = len;
        } else {
            for item in packed::iter(packed) {
                list.push(End::Back, item.bytes);
            }
        }
        list
    }

    /// The items as a small list, if that is within the limit.
    pub fn to_packed(&self, limit: NodeLimit) -> Option<Vec<u8>> {
        let mut packed = Vec::with_capacity(self.packed_bytes(limit)?);
        packed.extend_from_slice(packed::EMPTY);
        for link in &self.links {
            packed::extend(&mut packed, link.node.packed()?);
        }
        Some(packed)
    }

    /// Whether the list has shrunk to half the limit and should become a small one again.
    pub fn fits_packed(&self, limit: NodeLimit) -> bool {
        self.packed_bytes(limit.halved()).is_some()
    }

    /// The number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an item at an end.
    pub fn push(&mut self, end: End, item: &[u8]) {
        self.len += 1;
        let limit = self.limit;
        if let Some(link) = end_mut(&mut self.links, end)
            && link.has_room(item, limit)
        {
            return link.edit(&mut self.node_bytes, |node| match end {
                End::Front => packed::push_front(node.room(), &[item]),
                End::Back => packed::push_back(node.room(), &[item]),
            });
        }
        let link = self.link(Node::of(item, limit));
        match end {
            End::Front => self.links.push_front(link),
            End::Back => self.links.push_back(link),
        }
    }

    /// The item at an end.
    pub fn peek(&self, end: End) -> Option<StringRef<'_>> {
        match end {
            End::Front => self.links.front()?.node.iter().next(),
            End::Back => self.links.back()?.node.iter().next_back(),
        }
    }

    /// Removes so many items at an end, or all there are.
    pub fn remove_end(&mut self, end: End, items: usize) {
        self.cut(end, items, drop);
    }

    /// Keeps only so many items from index `start` on. The nodes that fall away as a whole are
    /// returned as a list, in no order, for whoever dismantles lists in steps.
    pub fn trim(&mut self, start: usize, kept: usize) -> List {
        let mut removed = List::new(self.limit);
        let behind = self.len.saturating_sub(start.saturating_add(kept));
        for (end, items) in [(End::Back, behind), (End::Front, start)] {
            self.cut(end, items, |link| {
                removed.len += link.items;
                removed.node_bytes += link.node.allocated_bytes();
                removed.links.push_back(link);
            });
        }
        removed
    }

    /// The item of an index.
    pub fn get(&self, index: usize) -> Option<StringRef<'_>> {
        let (link, inner) = self.locate(index)?;
        match self.links[link].node.packed() {
            Some(packed) => packed::at(packed, inner).map(|item| StringRef::Short(item.bytes)),
            None => self.links[link].node.iter().next(),
        }
    }

    /// The items from an index on, as many as `count`, from either end.
    pub fn range(&self, start: usize, count: usize) -> Range<'_> {
        let start = start.min(self.len);
        let left = count.min(self.len - start);
        Range {
            list: self,
            start,
            left,
            front: None,
            back: None,
        }
    }

    /// All items, from either end.
    pub fn iter(&self) -> Range<'_> {
        self.range(0, self.len)
    }

    /// Replaces the item of an index; false if there is none.
    pub fn set(&mut self, index: usize, item: &[u8]) -> bool {
        let Some((place, at)) = self.locate_offset(index) else {
            return false;
        };
        let limit = self.limit;
        let link = &mut self.links[place];
        if link.can_replace(at, item, limit) {
            link.edit(&mut self.node_bytes, |node| {
                packed::replace(node.room(), at, item);
            });
            self.settle_small(place);
        } else if link.items == 1 {
            self.node_bytes -= link.node.allocated_bytes();
            self.links[place] = self.link(Node::of(item, limit));
        } else {
            link.edit(&mut self.node_bytes, |node| {
                packed::remove(node.room(), at, 1);
            });
            self.len -= 1;
            self.place(place, at, item);
        }
        true
    }

    /// Inserts an item beside the first one that equals `pivot`; false if none does.
    pub fn insert(&mut self, side: Side, pivot: &[u8], item: &[u8]) -> bool {
        let mut found = self.links.iter().enumerate();
        let found = found.find_map(|(place, link)| Some((place, link.node.find(pivot)?)));
        let Some((place, at)) = found else {
            return false;
        };
        let at = match side {
            Side::Before => at,
            Side::After => self.links[place].offset_after(at),
        };
        self.place(place, at, item);
        true
    }

    /// Removes the item of an index; false if there is none.
    pub fn remove(&mut self, index: usize) -> bool {
        let Some((place, at)) = self.locate_offset(index) else {
            return false;
        };
        self.len -= 1;
        let link = &mut self.links[place];
        if link.items == 1 {
            link.items = 0;
        } else {
            link.edit(&mut self.node_bytes, |node| {
                packed::remove(node.room(), at, 1);
            });
        }
        self.settle_small(place);
        true
    }

    /// Removes the items that equal `unwanted`, as many as `limit` and those nearest to an end
    /// first, and tells how many.
    pub fn remove_equal(&mut self, unwanted: &[u8], limit: usize, end: End) -> usize {
        let mut removed = 0;
        let mut changed: Option<(usize, usize)> = None;
        for step in 0..self.links.len() {
            if removed == limit {
                break;
            }
            let place = match end {
                End::Front => step,
                End::Back => self.links.len() - 1 - step,
            };
            let bytes = &mut self.node_bytes;
            let here = self.links[place].remove_equal(bytes, unwanted, limit - removed, end);
            if here > 0 {
                removed += here;
                let (first, last) = changed.unwrap_or((place, place));
                changed = Some((first.min(place), last.max(place)));
            }
        }
        self.len -= removed;
        if let Some((first, last)) = changed {
            self.settle(first, last);
        }
        removed
    }

    /// The nodes in order, shared: they stay as they are while the list goes on changing.
    pub fn freeze(&self) -> Vec<Rc<Node>> {
        self.links.iter().map(|link| link.node.clone()).collect()
    }

    /// Moves what `should_move` says of the node with this number; false if there is no such.
    pub fn relocate(&mut self, node: usize, should_move: ShouldMove<'_>) -> bool {
        let Some(link) = self.links.get_mut(node) else {
            return false;
        };
        if let Some(node) = relocate_rc(&mut link.node, Node::vacant, should_move) {
            node.relocate(should_move);
        }
        true
    }

    /// Frees one node; false if there was none left.
    pub fn dismantle(&mut self) -> bool {
        match self.links.pop_back() {
            Some(link) => {
                self.len -= link.items;
                self.node_bytes -= link.node.allocated_bytes();
            }
            None => return false,
        }
        true
    }

    /// Bytes of memory behind it, shared nodes included.
    pub fn allocated_bytes(&self) -> usize {
        size_class::of(self.links.capacity() * size_of::<Link>()) + self.node_bytes
    }

    /// Asserts every invariant.
    pub fn check(&self) {
        for link in &self.links {
            assert_eq!(link.items, link.node.len(), "the spine counts wrongly");
            link.node.check(self.limit);
        }
        let items = self.links.iter().map(|link| link.items).sum::<usize>();
        assert_eq!(self.len, items, "the list counts wrongly");
        let bytes = self.links.iter().map(|link| link.node.allocated_bytes());
        assert_eq!(self.node_bytes, bytes.sum::<usize>());
    }

    /// A link of a new node.
    fn link(&mut self, node: Node) -> Link {
        self.node_bytes += node.allocated_bytes();
        Link {
            items: node.len(),
            node: Rc::new(node),
        }
    }

    /// The size of all items as one packed string, if that is within the limit. Looks at few
    /// nodes: two neighbours fill half a node, other than at the ends.
    fn packed_bytes(&self, limit: NodeLimit) -> Option<usize> {
        let mut bytes = packed::HEADER;
        if !limit.allows(bytes, self.len) {
            return None;
        }
        for link in &self.links {
            bytes += link.node.packed()?.len() - packed::HEADER;
            if !limit.allows(bytes, self.len) {
                return None;
            }
        }
        Some(bytes)
    }

    /// Removes items at an end, handing over whole nodes.
    fn cut(&mut self, end: End, mut items: usize, mut hand_over: impl FnMut(Link)) {
        while items > 0
            && let Some(link) = end_mut(&mut self.links, end)
        {
            if link.items > items {
                link.edit(&mut self.node_bytes, |node| node.remove_end(end, items));
                self.len -= items;
                break;
            }
            let link = match end {
                End::Front => self.links.pop_front(),
                End::Back => self.links.pop_back(),
            };
            let link = link.expect("was just looked at");
            (items, self.len) = (items - link.items, self.len - link.items);
            self.node_bytes -= link.node.allocated_bytes();
            hand_over(link);
        }
        self.shrink_spine();
    }

    /// The link that has an index, and the index within it; counted from the nearer end.
    fn locate(&self, index: usize) -> Option<(usize, usize)> {
        if index >= self.len {
            return None;
        }
        if index < self.len / 2 {
            let mut left = index;
            for (place, link) in self.links.iter().enumerate() {
                if left < link.items {
                    return Some((place, left));
                }
                left -= link.items;
            }
        }
        let mut before = self.len;
        for (place, link) in self.links.iter().enumerate().rev() {
            before -= link.items;
            if before <= index {
                return Some((place, index - before));
            }
        }
        None
    }

    /// The link that has an index, and the item's offset in its node.
    fn locate_offset(&self, index: usize) -> Option<(usize, usize)> {
        let (place, inner) = self.locate(index)?;
        let at = match self.links[place].node.packed() {
            Some(packed) => packed::at(packed, inner)?.at,
            None => packed::HEADER,
        };
        Some((place, at))
    }

    /// Puts an item before what is at an offset of a node, or behind all of it.
    fn place(&mut self, place: usize, at: usize, item: &[u8]) {
        self.len += 1;
        let limit = self.limit;
        let at_start = at == packed::HEADER;
        let at_end = at == self.links[place].end_offset();
        if self.links[place].has_room(item, limit) {
            self.edit(place, |node| {
                packed::insert_before(node.room(), at, &[item])
            });
        } else if at_start && place > 0 && self.links[place - 1].has_room(item, limit) {
            self.edit(place - 1, |node| packed::push_back(node.room(), &[item]));
        } else if at_start {
            let link = self.link(Node::of(item, limit));
            self.links.insert(place, link);
        } else if at_end {
            self.place_behind(place, item);
        } else {
            let rest = self.edit(place, |node| node.split_off(at));
            let rest = self.link(rest);
            self.links.insert(place + 1, rest);
            self.place_behind(place, item);
            self.settle(place, place + 2);
        }
    }

    /// Puts an item behind a node: at its end, at the start of the next, or between them.
    fn place_behind(&mut self, place: usize, item: &[u8]) {
        let limit = self.limit;
        if self.links[place].has_room(item, limit) {
            self.edit(place, |node| packed::push_back(node.room(), &[item]));
        } else if let Some(next) = self.links.get(place + 1)
            && next.has_room(item, limit)
        {
            self.edit(place + 1, |node| packed::push_front(node.room(), &[item]));
        } else {
            let link = self.link(Node::of(item, limit));
            self.links.insert(place + 1, link);
        }
    }

    fn edit<R>(&mut self, place: usize, change: impl FnOnce(&mut Node) -> R) -> R {
        self.links[place].edit(&mut self.node_bytes, change)
    }

    /// After a removal from one link: as it has to be, unless it alone fills half a node.
    fn settle_small(&mut self, place: usize) {
        let link = &self.links[place];
        let bytes = link.node.packed().map_or(0, <[u8]>::len);
        if link.items == 0 || self.limit.halved().allows(bytes, link.items) {
            self.settle(place, place);
        }
    }

    /// After changes to the links of these places: joins small neighbours and drops empty links.
    fn settle(&mut self, first: usize, last: usize) {
        let mut kept = first.saturating_sub(1);
        let stop = (last + 1).min(self.links.len() - 1);
        for place in kept + 1..=stop {
            if !self.join(kept, place) {
                kept += 1;
                self.links.swap(kept, place);
            }
        }
        if self.links[kept].items > 0 {
            kept += 1;
        }
        for link in self.links.drain(kept..=stop) {
            self.node_bytes -= link.node.allocated_bytes();
        }
        self.shrink_spine();
    }

    /// Empties a link into an earlier one, if that makes half a node at most.
    fn join(&mut self, into: usize, from: usize) -> bool {
        let limit = self.limit.halved();
        let (a, b) = (&self.links[into], &self.links[from]);
        if b.items == 0 {
            return true;
        }
        if a.items == 0 {
            self.links.swap(into, from);
            return true;
        }
        let (Some(a_packed), Some(b_packed)) = (a.node.packed(), b.node.packed()) else {
            return false;
        };
        let bytes = a_packed.len() + b_packed.len() - packed::HEADER;
        if !limit.allows(bytes, a.items + b.items) {
            return false;
        }
        let from = b.node.clone();
        let from = from.packed().expect("just seen");
        self.edit(into, |node| packed::extend(node.room(), from));
        true
    }

    fn shrink_spine(&mut self) {
        if self.links.capacity() / 4 > self.links.len().max(4) {
            self.links.shrink_to(self.links.len() * 2);
        }
    }
}

fn end_mut(links: &mut VecDeque<Link>, end: End) -> Option<&mut Link> {
    match end {
        End::Front => links.front_mut(),
        End::Back => links.back_mut(),
    }
}

impl Link {
    /// Changes the node, or a copy of its own if others have it too, and the list's sum of bytes.
    #[inline]
    fn edit<R>(&mut self, bytes: &mut usize, change: impl FnOnce(&mut Node) -> R) -> R {
        // Before a copy is made: that may be smaller than the original.
        let before = self.node.capacity();
        let node = Rc::make_mut(&mut self.node);
        let result = change(node);
        self.items = node.len();
        let after = node.capacity();
        if after != before {
            *bytes = *bytes + size_class::of(after) - size_class::of(before);
        }
        result
    }

    /// Whether an item can be added.
    #[inline]
    fn has_room(&self, item: &[u8], limit: NodeLimit) -> bool {
        let more = packed::item_bytes(item.len());
        let packed = self.node.packed();
        packed.is_some_and(|packed| limit.allows(packed.len() + more, self.items + 1))
    }

    /// Whether an item can take the place of the one at an offset.
    fn can_replace(&self, at: usize, item: &[u8], limit: NodeLimit) -> bool {
        self.node.packed().is_some_and(|packed| {
            let old = packed::item_at(packed, at).map_or(0, |old| old.end() - at);
            let bytes = packed.len() - old + packed::item_bytes(item.len());
            limit.allows(bytes, self.items)
        })
    }

    /// The offset behind the item at an offset.
    fn offset_after(&self, at: usize) -> usize {
        match self.node.packed() {
            Some(packed) => packed::item_at(packed, at).map_or(packed.len(), |item| item.end()),
            None => self.end_offset(),
        }
    }

    /// The offset behind all items; of a long item alone, any but the first will do.
    fn end_offset(&self) -> usize {
        self.node.packed().map_or(packed::HEADER + 1, <[u8]>::len)
    }

    /// Removes what equals an item; the link may become empty.
    fn remove_equal(
        &mut self,
        bytes: &mut usize,
        unwanted: &[u8],
        limit: usize,
        end: End,
    ) -> usize {
        if self.node.find(unwanted).is_none() {
            return 0;
        }
        if self.node.packed().is_none() {
            self.items = 0;
            return 1;
        }
        self.edit(bytes, |node| node.remove_equal(unwanted, limit, end))
    }
}

/// Items of a list, from either end.
#[derive(Clone, Debug)]
pub struct Range<'a> {
    list: &'a List,
    /// Index of the next item from the front.
    start: usize,
    left: usize,
    front: Option<Cursor<'a>>,
    back: Option<Cursor<'a>>,
}

/// Where one end of a range is; found when the first item is asked for from that end.
#[derive(Clone, Debug)]
struct Cursor<'a> {
    place: usize,
    elements: Elements<'a>,
}

impl<'a> Range<'a> {
    /// A cursor whose next item from the front has this index.
    fn front_cursor(list: &'a List, index: usize) -> Option<Cursor<'a>> {
        let (place, inner) = list.locate(index)?;
        let mut elements = list.links[place].node.iter();
        if inner > 0 {
            elements.nth(inner - 1);
        }
        Some(Cursor { place, elements })
    }

    /// A cursor whose next item from the back has this index.
    fn back_cursor(list: &'a List, index: usize) -> Option<Cursor<'a>> {
        let (place, inner) = list.locate(index)?;
        let link = &list.links[place];
        let mut elements = link.node.iter();
        if link.items - 1 > inner {
            elements.nth_back(link.items - 2 - inner);
        }
        Some(Cursor { place, elements })
    }
}

impl<'a> Iterator for Range<'a> {
    type Item = StringRef<'a>;

    fn next(&mut self) -> Option<StringRef<'a>> {
        self.left = self.left.checked_sub(1)?;
        if self.front.is_none() {
            self.front = Range::front_cursor(self.list, self.start);
        }
        self.start += 1;
        let cursor = self.front.as_mut()?;
        if let Some(element) = cursor.elements.next() {
            return Some(element);
        }
        cursor.place += 1;
        cursor.elements = self.list.links.get(cursor.place)?.node.iter();
        cursor.elements.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        if self.back.is_none() {
            self.back = Range::back_cursor(self.list, self.start + self.left);
        }
        let cursor = self.back.as_mut()?;
        if let Some(element) = cursor.elements.next_back() {
            return Some(element);
        }
        cursor.place = cursor.place.checked_sub(1)?;
        cursor.elements = self.list.links[cursor.place].node.iter();
        cursor.elements.next_back()
    }
}

impl ExactSizeIterator for Range<'_> {}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;

    type Twin = Vec<Vec<u8>>;

    const ENDS: [End; 2] = [End::Front, End::Back];

    fn random_item(rng: &mut SmallRng) -> Vec<u8> {
        let len = match rng.random_range(0..60) {
            0 => rng.random_range(4_000..9_000),
            1..4 => rng.random_range(50..600),
            _ => rng.random_range(0..12),
        };
        vec![rng.random_range(0..5); len]
    }

    fn owned<'a>(elements: impl Iterator<Item = StringRef<'a>>) -> Twin {
        elements.map(|element| element.to_vec()).collect()
    }

    fn remove_from_twin(twin: &mut Twin, item: &[u8], limit: usize, end: End) -> usize {
        let len = twin.len();
        for _ in 0..limit.min(len) {
            let place = match end {
                End::Front => twin.iter().position(|other| other == item),
                End::Back => twin.iter().rposition(|other| other == item),
            };
            place.map(|index| twin.remove(index));
        }
        len - twin.len()
    }

    fn edit(list: &mut List, twin: &mut Twin, rng: &mut SmallRng) {
        let (item, end) = (random_item(rng), ENDS[rng.random_range(0..2)]);
        let index = rng.random_range(0..=twin.len());
        match rng.random_range(0..100) {
            0..40 => {
                list.push(end, &item);
                let place = if end == End::Front { 0 } else { twin.len() };
                twin.insert(place, item);
            }
            40..60 => {
                let (side, pivot) = match twin.get(index) {
                    Some(pivot) if index % 2 == 0 => (Side::Before, pivot.clone()),
                    Some(pivot) => (Side::After, pivot.clone()),
                    None => (Side::Before, b"not there".to_vec()),
                };
                let found = twin.iter().position(|other| *other == pivot);
                assert_eq!(list.insert(side, &pivot, &item), found.is_some());
                if let Some(found) = found {
                    twin.insert(found + usize::from(side == Side::After), item);
                }
            }
            60..75 => {
                assert_eq!(list.set(index, &item), index < twin.len());
                if let Some(old) = twin.get_mut(index) {
                    *old = item;
                }
            }
            75..83 => {
                assert_eq!(list.remove(index), index < twin.len());
                twin.drain(index..(index + 1).min(twin.len()));
            }
            83..93 => {
                let count = rng.random_range(0..4);
                list.remove_end(end, count);
                let (len, count) = (twin.len(), count.min(twin.len()));
                twin.drain(if end == End::Front {
                    0..count
                } else {
                    len - count..len
                });
            }
            93..98 => {
                let limit = [1, 2, 5, usize::MAX][rng.random_range(0..4)];
                let removed = list.remove_equal(&item, limit, end);
                assert_eq!(removed, remove_from_twin(twin, &item, limit, end));
            }
            98 => {
                let kept = rng.random_range(0..=twin.len());
                let (start, kept) = (index / 4, kept.max(twin.len() * 3 / 4));
                list.trim(start, kept).check();
                *twin = twin.iter().skip(start).take(kept).cloned().collect();
            }
            _ => {
                let limit = list.limit;
                if let Some(packed) = list.to_packed(limit) {
                    assert!(packed::is_valid(&packed) && limit.allows(packed.len(), list.len()));
                    *list = List::from_packed(&packed, limit);
                }
            }
        }
    }

    fn agree(list: &List, twin: &Twin, rng: &mut SmallRng) {
        list.check();
        assert_eq!((list.len(), list.is_empty()), (twin.len(), twin.is_empty()));
        assert_eq!(owned(list.iter()), *twin);
        for (end, expected) in [(End::Front, twin.first()), (End::Back, twin.last())] {
            assert_eq!(list.peek(end).as_deref(), expected.map(Vec::as_slice));
        }
        let (start, count) = (
            rng.random_range(0..twin.len() + 2),
            rng.random_range(0..twin.len() + 2),
        );
        assert_eq!(
            list.get(start).as_deref(),
            twin.get(start).map(Vec::as_slice)
        );
        let expected: Twin = twin.iter().skip(start).take(count).cloned().collect();
        assert_eq!(owned(list.range(start, count)), expected);
        let mut backwards = owned(list.range(start, count).rev());
        backwards.reverse();
        assert_eq!(backwards, expected);
        let (mut range, mut expected) = (list.range(start, count), expected.iter());
        while range.len() > 0 {
            let (ours, theirs) = match rng.random() {
                true => (range.next(), expected.next()),
                false => (range.next_back(), expected.next_back()),
            };
            assert_eq!(ours.as_deref(), theirs.map(Vec::as_slice));
        }
    }

    #[test]
    fn random_edits_agree_with_a_vector() {
        let limits = [
            NodeLimit::Bytes(64),
            NodeLimit::Bytes(512),
            NodeLimit::from_setting(-1),
            NodeLimit::Items(1),
            NodeLimit::Items(7),
        ];
        for seed in 0..25 {
            println!("seed {seed}");
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut list = List::new(limits[seed as usize % limits.len()]);
            let mut twin = Twin::new();
            let (mut frozen, mut frozen_twin) = (list.freeze(), twin.clone());
            for step in 0..600 {
                edit(&mut list, &mut twin, &mut rng);
                list.check();
                if step % 8 == 0 {
                    agree(&list, &twin, &mut rng);
                }
                if step % 50 == 0 {
                    let elements = frozen.iter().flat_map(|node| node.iter());
                    assert_eq!(owned(elements), frozen_twin, "a frozen list has changed");
                    (frozen, frozen_twin) = (list.freeze(), twin.clone());
                }
            }
            let nodes = list.links.len();
            assert_eq!((0..).take_while(|_| list.dismantle()).count(), nodes);
            list.check();
        }
    }

    fn numbered(count: usize) -> List {
        let mut list = List::new(NodeLimit::from_setting(-2));
        for number in 0..count {
            list.push(End::Back, format!("member:{number:09}").as_bytes());
        }
        list
    }

    #[test]
    fn a_big_list_takes_little_more_than_its_items() {
        let list = numbered(100_000);
        assert_eq!(list.links[0].node.allocated_bytes(), 8192 + 56);
        let bytes = list.allocated_bytes() as f64 / 100_000.0;
        assert!(bytes < 18.5, "{bytes} bytes an item");
        let mut list = List::new(NodeLimit::from_setting(-2));
        for _ in 0..100_000 {
            list.push(End::Front, b"member:123456789");
        }
        let bytes = list.allocated_bytes() as f64 / 100_000.0;
        assert!(bytes < 18.5, "{bytes} bytes an item, pushed at the front");
    }

    #[test]
    fn memory_goes_back_with_the_items() {
        let most_go = |list: &mut List, at_once: bool| {
            for index in (0..20_000).rev().filter(|index| index % 10 > 0) {
                if at_once {
                    list.set(index, b"unwanted");
                } else {
                    list.remove(index);
                }
            }
            list.remove_equal(b"unwanted", usize::MAX, End::Back);
        };
        for (at_once, waste_max) in [(false, 2.0), (true, 1.4)] {
            let mut list = numbered(20_000);
            most_go(&mut list, at_once);
            list.check();
            assert_eq!(list.len(), 2_000);
            let waste = list.allocated_bytes() as f64 / (2_000.0 * 18.0);
            assert!(waste < waste_max, "{waste} times the items");
        }
        let mut list = numbered(20_000);
        let removed = list.trim(9_000, 2_000);
        assert!(removed.len() > 17_000, "whole nodes are handed over");
        assert!(list.allocated_bytes() < 5 * 8192 + 8192);
        list.remove_end(End::Front, 1_900);
        assert!(list.fits_packed(list.limit));
        assert!(list.allocated_bytes() < 8192);
    }

    #[test]
    fn a_long_item_is_never_copied() {
        let address = |list: &List| list.get(1).map(|item| item.as_ptr());
        let mut list = numbered(1);
        list.push(End::Back, &vec![b'x'; 100_000]);
        let before = address(&list);
        let frozen = list.freeze();
        list.push(End::Back, b"behind it");
        list.set(0, b"before it");
        assert_eq!(address(&list), before);
        assert_eq!(frozen.len(), 2);
        assert!(matches!(list.get(1), Some(StringRef::Long(_))));
        assert!(list.to_packed(list.limit).is_none());
        list.check();
    }

    #[test]
    fn the_setting_means_what_it_means_in_redis() {
        for (setting, limit) in [
            (-1, NodeLimit::Bytes(4096)),
            (-2, NodeLimit::Bytes(8192)),
            (-5, NodeLimit::Bytes(65_536)),
            (i64::MIN, NodeLimit::Bytes(65_536)),
            (0, NodeLimit::Items(1)),
            (128, NodeLimit::Items(128)),
        ] {
            assert_eq!(NodeLimit::from_setting(setting), limit);
        }
    }
}
