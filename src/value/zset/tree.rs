//! The order of a big sorted set: a B+tree that knows how many records are under every node.
//!
//! ```text
//! inner   child      c0 | c1 | c2 ..   node below
//!         count      12 | 31 | 20 ..   records under it: ranks are sums of these
//!         separator   - | s1 | s2 ..   its first record: score and number
//!                    /     |     \
//! leaf   [scores][records] <-> [scores][records] <-> ..
//! ```
//!
//! Scores lie in the nodes, so that a search touches a record only where scores are equal. There
//! it asks "is this record before what is sought?", which must be yes for some first ones and no
//! for the rest.
//!
//! Every node has its own allocation, of a size that jemalloc has: nothing moves but within two
//! nodes, and memory goes back node by node. Two neighbours under one parent are merged when
//! together they fill three quarters of one; there is no other balancing. At either end of the
//! order a full leaf is not halved but left full, so that growing scores fill every leaf.
//!
//! Invariants: all leaves are at one depth, none is empty (unless it is the only node), and no
//! inner node is without children; a separator *is* the first record under its child, except that
//! of the first child, which is never looked at; counts are exact.

use super::pages::RecordId;
use crate::heap::{ShouldMove, relocate_box, relocate_vec};
use crate::value::size_class;

/// Records of a leaf: 1,536 bytes.
const LEAF_MAX: usize = 127;
const LEAF_MERGED_MAX: usize = LEAF_MAX * 3 / 4;
/// Children of an inner node: 2,048 bytes.
const INNER_MAX: usize = 102;
const INNER_MERGED_MAX: usize = INNER_MAX * 3 / 4;
/// Two thirds of these levels are enough for all 2^32 records.
const HEIGHT_MAX: usize = 12;
/// Distance of the scores that a search looks at first: two cache lines.
const STRIDE: usize = 16;
/// The number of no node.
const NONE: u32 = u32::MAX;

type NodeId = u32;

#[derive(Clone)]
struct Leaf {
    scores: [f64; LEAF_MAX],
    ids: [RecordId; LEAF_MAX],
    previous: NodeId,
    next: NodeId,
    len: u16,
}

#[derive(Clone)]
struct Inner {
    scores: [f64; INNER_MAX],
    ids: [RecordId; INNER_MAX],
    children: [NodeId; INNER_MAX],
    counts: [u32; INNER_MAX],
    len: u16,
}

/// One child of an inner node, with its separator.
#[derive(Clone, Copy)]
struct Child {
    score: f64,
    id: RecordId,
    node: NodeId,
    count: u32,
}

// Both are size classes of jemalloc.
const _: () = assert!(size_of::<Leaf>() == 1536 && size_of::<Inner>() == 2048);

fn insert_at<T: Copy>(items: &mut [T], len: usize, at: usize, item: T) {
    items.copy_within(at..len, at + 1);
    items[at] = item;
}

/// The first index of `from..to` for which `is_before` is false.
#[inline]
fn partition(from: usize, to: usize, mut is_before: impl FnMut(usize) -> bool) -> usize {
    let (mut from, mut to) = (from, to);
    while from < to {
        let middle = usize::midpoint(from, to);
        if is_before(middle) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}

/// The index of the first score that is not less.
///
/// Halving would wait for one cache line after the other. Here one score in [`STRIDE`] is looked
/// at, and then those between two of them: lines that are all asked for at once, and no branches
/// to guess.
#[inline]
fn first_not_less(scores: &[f64], score: f64) -> usize {
    let samples = scores.iter().step_by(STRIDE).skip(1);
    let start = samples
        .map(|&sample| usize::from(sample < score))
        .sum::<usize>()
        * STRIDE;
    let end = scores.len().min(start + STRIDE);
    let between = scores[start..end].iter();
    start
        + between
            .map(|&other| usize::from(other < score))
            .sum::<usize>()
}

/// The index of the first record that is not before what is sought: less by score, or equal and
/// before by `is_before`.
#[inline]
fn search(
    scores: &[f64],
    ids: &[RecordId],
    score: f64,
    mut is_before: impl FnMut(RecordId) -> bool,
) -> usize {
    let start = first_not_less(scores, score);
    let is_tie = |at: usize| scores.get(at) == Some(&score);
    match (is_tie(start), is_tie(start + 1)) {
        (false, _) => start,
        (true, false) => start + usize::from(is_before(ids[start])),
        (true, true) => partition(start, scores.len(), |at| {
            scores[at] == score && is_before(ids[at])
        }),
    }
}

impl Leaf {
    fn new() -> Leaf {
        Leaf {
            scores: [0.0; LEAF_MAX],
            ids: [0; LEAF_MAX],
            previous: NONE,
            next: NONE,
            len: 0,
        }
    }

    fn len(&self) -> usize {
        self.len.into()
    }

    fn insert(&mut self, at: usize, score: f64, id: RecordId) {
        let len = self.len();
        insert_at(&mut self.scores, len, at, score);
        insert_at(&mut self.ids, len, at, id);
        self.len += 1;
    }

    fn remove(&mut self, at: usize) {
        let len = self.len();
        self.scores.copy_within(at + 1..len, at);
        self.ids.copy_within(at + 1..len, at);
        self.len -= 1;
    }

    /// Appends the records of `other` from `from` on.
    fn append(&mut self, other: &Leaf, from: usize) {
        let (start, end) = (self.len(), self.len() + other.len() - from);
        self.scores[start..end].copy_from_slice(&other.scores[from..other.len()]);
        self.ids[start..end].copy_from_slice(&other.ids[from..other.len()]);
        self.len = end as u16;
    }

    fn get(&self, at: usize) -> Option<(f64, RecordId)> {
        (at < self.len()).then(|| (self.scores[at], self.ids[at]))
    }
}

impl Inner {
    fn new() -> Inner {
        Inner {
            scores: [0.0; INNER_MAX],
            ids: [0; INNER_MAX],
            children: [0; INNER_MAX],
            counts: [0; INNER_MAX],
            len: 0,
        }
    }

    fn len(&self) -> usize {
        self.len.into()
    }

    fn child(&self, at: usize) -> Child {
        Child {
            score: self.scores[at],
            id: self.ids[at],
            node: self.children[at],
            count: self.counts[at],
        }
    }

    fn insert(&mut self, at: usize, child: Child) {
        let len = self.len();
        insert_at(&mut self.scores, len, at, child.score);
        insert_at(&mut self.ids, len, at, child.id);
        insert_at(&mut self.children, len, at, child.node);
        insert_at(&mut self.counts, len, at, child.count);
        self.len += 1;
    }

    fn remove(&mut self, at: usize) {
        let len = self.len();
        self.scores.copy_within(at + 1..len, at);
        self.ids.copy_within(at + 1..len, at);
        self.children.copy_within(at + 1..len, at);
        self.counts.copy_within(at + 1..len, at);
        self.len -= 1;
    }

    fn count(&self) -> u32 {
        self.counts[..self.len()].iter().sum()
    }
}

/// Nodes of one sort by number.
struct Nodes<T> {
    nodes: Vec<Option<Box<T>>>,
    unused: Vec<NodeId>,
    /// Nodes that are there.
    used: usize,
}

impl<T> Nodes<T> {
    fn new() -> Nodes<T> {
        Nodes {
            nodes: Vec::new(),
            unused: Vec::new(),
            used: 0,
        }
    }

    fn add(&mut self, node: Box<T>) -> NodeId {
        self.used += 1;
        match self.unused.pop() {
            Some(at) => {
                self.nodes[at as usize] = Some(node);
                at
            }
            None => {
                self.nodes.push(Some(node));
                self.nodes.len() as NodeId - 1
            }
        }
    }

    fn remove(&mut self, at: NodeId) -> Box<T> {
        let node = self.nodes[at as usize].take();
        self.unused.push(at);
        self.used -= 1;
        node.expect("a node is removed once")
    }

    /// Frees the last node; false if there is none.
    fn dismantle(&mut self) -> bool {
        let Some(node) = self.nodes.pop() else {
            return false;
        };
        self.used -= usize::from(node.is_some());
        true
    }

    fn relocate(&mut self, at: usize, should_move: ShouldMove<'_>)
    where
        T: Clone,
    {
        if at == 0 {
            relocate_vec(&mut self.nodes, should_move);
        }
        if let Some(node) = &mut self.nodes[at] {
            relocate_box(node, should_move);
        }
    }

    fn allocated_bytes(&self) -> usize {
        self.used * size_class::of(size_of::<T>())
            + size_class::of(self.nodes.capacity() * size_of::<Option<Box<T>>>())
            + size_class::of(self.unused.capacity() * size_of::<NodeId>())
    }
}

impl<T> std::ops::Index<NodeId> for Nodes<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: NodeId) -> &T {
        self.nodes[at as usize]
            .as_ref()
            .expect("a node that is named is there")
    }
}

impl<T> std::ops::IndexMut<NodeId> for Nodes<T> {
    #[inline]
    fn index_mut(&mut self, at: NodeId) -> &mut T {
        self.nodes[at as usize]
            .as_mut()
            .expect("a node that is named is there")
    }
}

/// A place in the order, and the way there from the root. Any change of the tree ends it.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// Records before it.
    pub rank: usize,
    /// An inner node of each level, and the index of the child taken.
    steps: [(NodeId, usize); HEIGHT_MAX],
    leaf: NodeId,
    at: usize,
}

/// Which way to go through the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From small scores to large ones.
    Ascending,
    /// From large scores to small ones.
    Descending,
}

/// The records of a sorted set in order.
pub struct Tree {
    leaves: Nodes<Leaf>,
    inners: Nodes<Inner>,
    root: NodeId,
    /// Levels of inner nodes.
    height: usize,
    len: usize,
}

impl Tree {
    /// Without records.
    pub fn new() -> Tree {
        let mut leaves = Nodes::new();
        let root = leaves.add(Box::new(Leaf::new()));
        Tree {
            leaves,
            inners: Nodes::new(),
            root,
            height: 0,
            len: 0,
        }
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The place of the first record that is not before what is sought: whose score is larger, or
    /// equal while `is_before` is false.
    #[inline]
    pub fn seek(&self, score: f64, mut is_before: impl FnMut(RecordId) -> bool) -> Position {
        self.descend(|scores, ids| search(scores, ids, score, &mut is_before))
    }

    /// The place of the last record that is before what is sought; there must be one.
    #[inline]
    pub fn seek_last(&self, score: f64, is_before: impl FnMut(RecordId) -> bool) -> Position {
        let mut place = self.seek(score, is_before);
        // Never over a leaf's start: its first record is a separator that was before.
        place.at -= 1;
        place.rank -= 1;
        place
    }

    /// The place of the first record for which `is_before` is false, whatever the scores.
    pub fn seek_by_record(&self, mut is_before: impl FnMut(RecordId) -> bool) -> Position {
        self.descend(|_, ids| partition(0, ids.len(), |at| is_before(ids[at])))
    }

    /// The way to where `search` leads, which tells how many of the records it is given are before
    /// what is sought.
    #[inline]
    fn descend(&self, mut search: impl FnMut(&[f64], &[RecordId]) -> usize) -> Position {
        let mut place = self.root_place();
        for level in 0..self.height {
            let inner = &self.inners[place.leaf];
            let separators = 1..inner.len();
            // The last child whose first record is before what is sought, or the first one.
            let index = search(&inner.scores[separators.clone()], &inner.ids[separators]);
            place.rank += inner.counts[..index].iter().sum::<u32>() as usize;
            place.steps[level] = (place.leaf, index);
            place.leaf = inner.children[index];
        }
        let leaf = &self.leaves[place.leaf];
        place.at = search(&leaf.scores[..leaf.len()], &leaf.ids[..leaf.len()]);
        place.rank += place.at;
        place
    }

    /// The place of the record with this rank, which must be below [`Tree::len`].
    pub fn place_of_rank(&self, rank: usize) -> Position {
        debug_assert!(rank < self.len);
        let mut place = self.root_place();
        let mut left = rank;
        for level in 0..self.height {
            let inner = &self.inners[place.leaf];
            let mut index = 0;
            while left >= inner.counts[index] as usize {
                left -= inner.counts[index] as usize;
                index += 1;
            }
            place.steps[level] = (place.leaf, index);
            place.leaf = inner.children[index];
        }
        (place.at, place.rank) = (left, rank);
        place
    }

    /// The record at a place, and its score.
    pub fn record(&self, place: &Position) -> Option<(f64, RecordId)> {
        self.leaves[place.leaf].get(place.at)
    }

    /// The records before and after the one at a place.
    pub fn neighbours(&self, place: &Position) -> [Option<(f64, RecordId)>; 2] {
        let leaf = &self.leaves[place.leaf];
        let previous = match place.at {
            0 if leaf.previous == NONE => None,
            0 => {
                let previous = &self.leaves[leaf.previous];
                previous.get(previous.len() - 1)
            }
            at => leaf.get(at - 1),
        };
        let next = match leaf.get(place.at + 1) {
            None if leaf.next != NONE => self.leaves[leaf.next].get(0),
            next => next,
        };
        [previous, next]
    }

    /// Records and scores from a rank on.
    pub fn iter(&self, rank: usize, direction: Direction) -> Iter<'_> {
        let (leaf, at) = if rank < self.len {
            let place = self.place_of_rank(rank);
            let is_after = usize::from(direction == Direction::Descending);
            (Some(&self.leaves[place.leaf]), place.at + is_after)
        } else {
            (None, 0)
        };
        Iter {
            leaves: &self.leaves,
            leaf,
            at,
            direction,
        }
    }

    /// Inserts a record before a place that [`Tree::seek`] gave.
    pub fn insert(&mut self, place: &Position, score: f64, id: RecordId) {
        self.len += 1;
        for &(node, index) in &place.steps[..self.height] {
            self.inners[node].counts[index] += 1;
        }
        let leaf = &mut self.leaves[place.leaf];
        if leaf.len() < LEAF_MAX {
            leaf.insert(place.at, score, id);
            return;
        }
        let right = self.split_leaf(place, score, id);
        let leaf = &self.leaves[right];
        let child = Child {
            score: leaf.scores[0],
            id: leaf.ids[0],
            node: right,
            count: leaf.len.into(),
        };
        self.add_child(place, child);
    }

    /// Changes score and number of the record at a place; its order must stay the same.
    pub fn set(&mut self, place: &Position, score: f64, id: RecordId) {
        let leaf = &mut self.leaves[place.leaf];
        (leaf.scores[place.at], leaf.ids[place.at]) = (score, id);
        if place.at == 0 {
            self.set_separator(place, self.height, score, id);
        }
    }

    /// Removes the record at a place.
    pub fn remove(&mut self, place: &Position) {
        self.len -= 1;
        for &(node, index) in &place.steps[..self.height] {
            self.inners[node].counts[index] -= 1;
        }
        let leaf = &mut self.leaves[place.leaf];
        leaf.remove(place.at);
        let first = leaf.get(0);
        let Some(level) = self.height.checked_sub(1) else {
            return;
        };
        match first {
            None => {
                self.remove_leaf(place.leaf);
                self.remove_child(place, place.steps[level].1);
            }
            Some((score, id)) => {
                if place.at == 0 {
                    self.set_separator(place, self.height, score, id);
                }
                self.merge_leaf(place, level);
            }
        }
    }

    /// Removes the records for which `keep` is false, by making the tree anew of the others.
    pub fn retain(&mut self, keep: impl Fn(RecordId) -> bool) {
        let mut kept = Tree::new();
        let mut end = kept.root_place();
        for (score, id) in self
            .iter(0, Direction::Ascending)
            .filter(|&(_, id)| keep(id))
        {
            kept.insert(&end, score, id);
            (end.at, end.rank) = (end.at + 1, end.rank + 1);
            // Else it has gone to a leaf of its own, as this one was full.
            if end.at != kept.leaves[end.leaf].len() {
                end = kept.seek(f64::INFINITY, |_| true);
            }
        }
        *self = kept;
    }

    /// Numbers of leaves and of inner nodes, those not in use included.
    pub fn nodes(&self) -> (usize, usize) {
        (self.leaves.nodes.len(), self.inners.nodes.len())
    }

    /// Moves the node with this number, leaves first, if `should_move` says so.
    pub fn relocate(&mut self, at: usize, should_move: ShouldMove<'_>) {
        match at.checked_sub(self.leaves.nodes.len()) {
            None => self.leaves.relocate(at, should_move),
            Some(at) => self.inners.relocate(at, should_move),
        }
    }

    /// Frees a few nodes; false if there is none. The tree is of no use afterwards.
    pub fn dismantle(&mut self) -> bool {
        for _ in 0..8 {
            if !self.leaves.dismantle() && !self.inners.dismantle() {
                return false;
            }
        }
        true
    }

    /// Bytes of memory taken.
    pub fn allocated_bytes(&self) -> usize {
        self.leaves.allocated_bytes() + self.inners.allocated_bytes()
    }

    fn root_place(&self) -> Position {
        Position {
            rank: 0,
            steps: [(NONE, 0); HEIGHT_MAX],
            leaf: self.root,
            at: 0,
        }
    }

    /// Splits the leaf of a place and inserts the record there; gives the right one of the two.
    fn split_leaf(&mut self, place: &Position, score: f64, id: RecordId) -> NodeId {
        let left = &mut self.leaves[place.leaf];
        let is_last = left.next == NONE && place.at == LEAF_MAX;
        let is_first = left.previous == NONE && place.at == 0;
        let keep = match (is_first, is_last) {
            (true, _) => 0,
            (_, true) => LEAF_MAX,
            _ => LEAF_MAX / 2,
        };
        let mut right = Box::new(Leaf::new());
        right.append(left, keep);
        left.len = keep as u16;
        if place.at > keep || is_last {
            right.insert(place.at - keep, score, id);
        } else {
            left.insert(place.at, score, id);
        }
        (right.previous, right.next) = (place.leaf, left.next);
        let next = left.next;
        let right = self.leaves.add(right);
        self.leaves[place.leaf].next = right;
        if next != NONE {
            self.leaves[next].previous = right;
        }
        right
    }

    /// Adds a node right of the one that the last step of `place` leads to and that it was split
    /// from, and splits the nodes above that are full.
    fn add_child(&mut self, place: &Position, mut child: Child) {
        for &(node, index) in place.steps[..self.height].iter().rev() {
            let inner = &mut self.inners[node];
            inner.counts[index] -= child.count;
            if inner.len() < INNER_MAX {
                inner.insert(index + 1, child);
                return;
            }
            let keep = INNER_MAX / 2;
            let mut right = Box::new(Inner::new());
            (keep..INNER_MAX).for_each(|at| right.insert(at - keep, inner.child(at)));
            inner.len = keep as u16;
            if index < keep {
                inner.insert(index + 1, child);
            } else {
                right.insert(index + 1 - keep, child);
            }
            child = Child {
                count: right.count(),
                ..right.child(0)
            };
            child.node = self.inners.add(right);
        }
        let first = Child {
            node: self.root,
            count: self.len as u32 - child.count,
            ..child
        };
        let mut root = Box::new(Inner::new());
        root.insert(0, first);
        root.insert(1, child);
        self.root = self.inners.add(root);
        self.height += 1;
    }

    /// Sets what separates the node that the step of level `below` - 1 leads to from what is left
    /// of it: that is in the lowest node where the way is not by the first child.
    fn set_separator(&mut self, place: &Position, below: usize, score: f64, id: RecordId) {
        let step = place.steps[..below]
            .iter()
            .rev()
            .find(|(_, index)| *index > 0);
        if let Some(&(node, index)) = step {
            let inner = &mut self.inners[node];
            (inner.scores[index], inner.ids[index]) = (score, id);
        }
    }

    /// Takes a leaf out of the chain.
    fn remove_leaf(&mut self, node: NodeId) -> Box<Leaf> {
        let leaf = self.leaves.remove(node);
        if leaf.previous != NONE {
            self.leaves[leaf.previous].next = leaf.next;
        }
        if leaf.next != NONE {
            self.leaves[leaf.next].previous = leaf.previous;
        }
        leaf
    }

    /// Merges the leaf of a place with a neighbour, if they fit.
    fn merge_leaf(&mut self, place: &Position, level: usize) {
        let (node, index) = place.steps[level];
        let inner = &mut self.inners[node];
        let fits = |right: &usize| {
            let count = inner.counts[right - 1] + inner.counts[*right];
            count as usize <= LEAF_MERGED_MAX
        };
        let Some(right) = neighbour_pairs(index, inner.len()).find(fits) else {
            return;
        };
        inner.counts[right - 1] += inner.counts[right];
        let (left_node, right_node) = (inner.children[right - 1], inner.children[right]);
        let leaf = self.remove_leaf(right_node);
        self.leaves[left_node].append(&leaf, 0);
        self.remove_child(place, right);
    }

    /// Removes the child at `index` from the lowest inner node of a place, and what that leaves to
    /// do above: nodes that are empty or can be merged.
    fn remove_child(&mut self, place: &Position, mut index: usize) {
        for level in (0..self.height).rev() {
            let node = place.steps[level].0;
            let inner = &mut self.inners[node];
            inner.remove(index);
            if inner.len == 0 {
                self.inners.remove(node);
                if level == 0 {
                    *self = Tree::new();
                    return;
                }
                index = place.steps[level - 1].1;
                continue;
            }
            if index == 0 {
                let first = inner.child(0);
                self.set_separator(place, level, first.score, first.id);
            }
            match level
                .checked_sub(1)
                .and_then(|above| self.merge_inner(place, above))
            {
                Some(right) => index = right,
                None => break,
            }
        }
        while self.height > 0 && self.inners[self.root].len == 1 {
            let root = self.inners.remove(self.root);
            self.root = root.children[0];
            self.height -= 1;
        }
    }

    /// Merges the inner node that the step of this level leads to with a neighbour, if they fit.
    /// Gives the index of the one that is gone.
    fn merge_inner(&mut self, place: &Position, level: usize) -> Option<usize> {
        let (node, index) = place.steps[level];
        let parent = &self.inners[node];
        let right = neighbour_pairs(index, parent.len()).find(|&right| {
            let len_of = |at: usize| self.inners[parent.children[at]].len();
            len_of(right - 1) + len_of(right) <= INNER_MERGED_MAX
        })?;
        let (left_node, gone) = (parent.children[right - 1], parent.child(right));
        self.inners[node].counts[right - 1] += gone.count;
        let mut inner = self.inners.remove(gone.node);
        // Its first child gets a left neighbour, and so a separator that counts.
        (inner.scores[0], inner.ids[0]) = (gone.score, gone.id);
        let left = &mut self.inners[left_node];
        for at in 0..inner.len() {
            left.insert(left.len(), inner.child(at));
        }
        Some(right)
    }
}

/// The right ones of the pairs of neighbours that the child at `index` of `len` is in.
fn neighbour_pairs(index: usize, len: usize) -> impl Iterator<Item = usize> {
    (index.max(1)..=index + 1).filter(move |&right| right < len)
}

/// Records in order, with their scores.
pub struct Iter<'a> {
    leaves: &'a Nodes<Leaf>,
    leaf: Option<&'a Leaf>,
    /// Of the next record; of the one after it, if descending.
    at: usize,
    direction: Direction,
}

impl Iter<'_> {
    /// The same as taking `count` records one by one, but leaf by leaf: for ranges, where a step of
    /// the iterator costs more than what is done with the record.
    #[inline]
    pub fn visit(mut self, count: usize, mut found: impl FnMut(RecordId)) {
        let mut left = count;
        while left > 0
            && let Some(leaf) = self.leaf
        {
            let (met, next) = match self.direction {
                Direction::Ascending => {
                    let end = leaf.len().min(self.at.saturating_add(left));
                    leaf.ids[self.at..end].iter().for_each(|&id| found(id));
                    (end - self.at, leaf.next)
                }
                Direction::Descending => {
                    let start = self.at.saturating_sub(left);
                    let ids = leaf.ids[start..self.at].iter();
                    ids.rev().for_each(|&id| found(id));
                    (self.at - start, leaf.previous)
                }
            };
            left -= met;
            self.enter(next);
        }
    }

    /// Goes to the first record of another leaf, or to the end.
    #[inline]
    fn enter(&mut self, leaf: NodeId) {
        self.leaf = (leaf != NONE).then(|| &self.leaves[leaf]);
        self.at = match self.direction {
            Direction::Ascending => 0,
            Direction::Descending => self.leaf.map_or(0, Leaf::len),
        };
    }
}

impl Iterator for Iter<'_> {
    type Item = (f64, RecordId);

    #[inline]
    fn next(&mut self) -> Option<(f64, RecordId)> {
        let leaf = self.leaf?;
        match self.direction {
            Direction::Ascending => {
                let record = leaf.get(self.at)?;
                self.at += 1;
                if self.at == leaf.len() {
                    self.enter(leaf.next);
                }
                Some(record)
            }
            Direction::Descending => {
                self.at -= 1;
                let record = leaf.get(self.at)?;
                if self.at == 0 {
                    self.enter(leaf.previous);
                }
                Some(record)
            }
        }
    }
}

impl Tree {
    /// Checks every invariant; for tests.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn check(&self, mut is_in_order: impl FnMut((f64, RecordId), (f64, RecordId)) -> bool) {
        let mut leaves = Vec::new();
        self.check_node(self.root, 0, &mut leaves);
        assert_eq!(
            leaves.len() + self.leaves.unused.len(),
            self.leaves.nodes.len()
        );
        let inners = self.inners.nodes.iter().flatten().count();
        assert_eq!(inners + self.inners.unused.len(), self.inners.nodes.len());
        let (mut previous, mut len, mut last) = (NONE, 0, None);
        for (at, &node) in leaves.iter().enumerate() {
            let leaf = &self.leaves[node];
            assert!(leaf.len > 0 || leaves.len() == 1);
            assert_eq!(leaf.previous, previous);
            assert_eq!(leaf.next, leaves.get(at + 1).copied().unwrap_or(NONE));
            for record in (0..leaf.len()).filter_map(|at| leaf.get(at)) {
                assert!(last.is_none_or(|last| is_in_order(last, record)));
                last = Some(record);
            }
            previous = node;
            len += leaf.len();
        }
        assert_eq!(len, self.len);
    }

    /// Checks the nodes from one on down; gives its records and the first of them.
    fn check_node(
        &self,
        node: NodeId,
        level: usize,
        leaves: &mut Vec<NodeId>,
    ) -> (usize, Option<(f64, RecordId)>) {
        if level == self.height {
            leaves.push(node);
            let leaf = &self.leaves[node];
            return (leaf.len(), leaf.get(0));
        }
        let inner = &self.inners[node];
        assert!(inner.len > 1 || level > 0 && inner.len == 1);
        let (mut len, mut first) = (0, None);
        for at in 0..inner.len() {
            let child = inner.child(at);
            let (child_len, child_first) = self.check_node(child.node, level + 1, leaves);
            assert_eq!(child.count as usize, child_len);
            if at > 0 {
                assert_eq!(child_first, Some((child.score, child.id)));
            } else {
                first = child_first;
            }
            len += child_len;
        }
        (len, first)
    }
}
