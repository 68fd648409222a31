//! The chunks of a stream in the order of their entries.
//!
//! ```text
//! Links    blocks   [ first id | block ][ first id | block ] ...
//!                              |                   |
//!                    [ last id | chunk ][ last id | chunk ] ...     at most 16 links a block
//! ```
//!
//! Blocks are shared with snapshots: of a stream of ten million entries, which has a hundred
//! thousand chunks, a snapshot copies six thousand pointers at once, which takes less than half a
//! millisecond; copying one for each chunk took twenty. Whoever changes a shared block copies it
//! first, and so does whoever changes one of its chunks.
//!
//! Invariants ([`Links::check`]): no block is empty; no entry of a block is before its first id,
//! and none of the blocks before it is behind that.

use std::collections::VecDeque;
use std::rc::Rc;

use super::chunk::Chunk;
use super::id::Id;
use crate::heap::{ShouldMove, relocate_rc, relocate_vec};
use crate::value::size_class;

/// Links of a block. With as many entries as they may have, a snapshot encodes a block in about a
/// quarter of a millisecond.
const BLOCK_LINKS_MAX: usize = 16;

/// A chunk, and what is known of its entries without looking at it.
#[derive(Clone, Debug)]
pub struct Link {
    /// No entry of the chunk has a greater id.
    pub(super) last: Id,
    pub(super) chunk: Rc<Chunk>,
}

impl Link {
    /// Its chunk.
    pub fn chunk(&self) -> &Chunk {
        &self.chunk
    }
}

/// Consecutive links, as snapshots share them.
pub type Block = Vec<Link>;

#[derive(Clone, Debug)]
struct BlockLink {
    /// The id of the first entry that was put into it.
    first: Id,
    /// Bytes that the block and its chunks take.
    bytes: usize,
    links: Rc<Block>,
}

impl BlockLink {
    fn new(first: Id, links: Block) -> BlockLink {
        BlockLink {
            first,
            bytes: allocated_bytes(&links),
            links: Rc::new(links),
        }
    }
}

/// Where a link is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    block: usize,
    link: usize,
}

/// The chunks in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    blocks: VecDeque<BlockLink>,
    len: usize,
    /// Bytes that all blocks and their chunks take.
    bytes: usize,
}

impl Links {
    /// The number of chunks.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The first link whose entries are not all before an id.
    pub(super) fn find(&self, id: Id) -> Place {
        let begun = self.blocks.partition_point(|block| block.first <= id);
        let block = begun.saturating_sub(1);
        let Some(found) = self.blocks.get(block) else {
            return Place::default();
        };
        match found.links.partition_point(|link| link.last < id) {
            link if link < found.links.len() => Place { block, link },
            _ => Place {
                block: block + 1,
                link: 0,
            },
        }
    }

    /// The link at a place, which may be behind the last.
    #[inline]
    pub(super) fn get(&self, place: Place) -> Option<&Link> {
        self.blocks.get(place.block)?.links.get(place.link)
    }

    /// Changes a block, or a copy of its own if a snapshot has it too; `change` also says by how
    /// many bytes the chunks have become larger.
    fn edit_block<R>(
        &mut self,
        at: usize,
        change: impl FnOnce(&mut Block) -> (R, isize),
    ) -> Option<R> {
        let block = self.blocks.get_mut(at)?;
        let before = own_bytes(&block.links);
        let (result, grown) = change(Rc::make_mut(&mut block.links));
        let grown = grown + own_bytes(&block.links) as isize - before as isize;
        block.bytes = block.bytes.wrapping_add_signed(grown);
        self.bytes = self.bytes.wrapping_add_signed(grown);
        Some(result)
    }

    /// Changes the link at a place and its chunk; none if there is none.
    #[inline]
    pub(super) fn edit<R>(
        &mut self,
        place: Place,
        change: impl FnOnce(&mut Id, &mut Chunk) -> R,
    ) -> Option<R> {
        self.get(place)?;
        self.edit_block(place.block, |links| {
            let link = &mut links[place.link];
            // Before a copy is made: that may be smaller than the original.
            let before = link.chunk.allocated_bytes() as isize;
            let chunk = Rc::make_mut(&mut link.chunk);
            let result = change(&mut link.last, chunk);
            (result, chunk.allocated_bytes() as isize - before)
        })
    }

    /// The same of the last link.
    #[inline]
    pub(super) fn edit_back<R>(
        &mut self,
        change: impl FnOnce(&mut Id, &mut Chunk) -> R,
    ) -> Option<R> {
        let block = self.blocks.len().checked_sub(1)?;
        let link = self.blocks[block].links.len() - 1;
        self.edit(Place { block, link }, change)
    }

    /// The place behind one.
    #[inline]
    pub(super) fn after(&self, place: Place) -> Place {
        let Place { block, link } = place;
        match self.blocks.get(block) {
            Some(found) if link + 1 < found.links.len() => Place {
                block,
                link: link + 1,
            },
            _ => Place {
                block: block + 1,
                link: 0,
            },
        }
    }

    /// The place before one, which may be behind the last; none before the first.
    pub(super) fn before(&self, place: Place) -> Option<Place> {
        let Place { block, link } = place;
        if let Some(link) = link.checked_sub(1) {
            return Some(Place { block, link });
        }
        let block = block.min(self.blocks.len()).checked_sub(1)?;
        let link = self.blocks[block].links.len() - 1;
        Some(Place { block, link })
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.blocks.iter().flat_map(|block| block.links.iter())
    }

    /// The last one.
    #[inline]
    pub(super) fn back(&self) -> Option<&Link> {
        self.blocks.back()?.links.last()
    }

    /// Whether the last chunk is no snapshot's too.
    pub(super) fn owns_back(&self) -> bool {
        let block = self.blocks.back();
        block.is_some_and(|block| {
            let link = block.links.last();
            Rc::strong_count(&block.links) == 1
                && link.is_some_and(|link| Rc::strong_count(&link.chunk) == 1)
        })
    }

    /// Adds a chunk behind the others for an entry of this id.
    pub(super) fn push(&mut self, id: Id, chunk: Chunk) {
        let bytes = chunk.allocated_bytes() as isize;
        let link = Link {
            last: id,
            chunk: Rc::new(chunk),
        };
        self.len += 1;
        let last = self.blocks.back();
        if last.is_some_and(|block| block.links.len() < BLOCK_LINKS_MAX) {
            self.edit_block(self.blocks.len() - 1, |links| (links.push(link), bytes));
        } else {
            let block = BlockLink::new(id, vec![link]);
            self.bytes += block.bytes;
            self.blocks.push_back(block);
        }
    }

    /// Removes the link at a place.
    pub(super) fn remove(&mut self, place: Place) {
        self.edit_block(place.block, |links| {
            let link = links.remove(place.link);
            ((), -(link.chunk.allocated_bytes() as isize))
        });
        if self.blocks[place.block].links.is_empty() {
            let block = self.blocks.remove(place.block);
            self.bytes -= block.map_or(0, |block| block.bytes);
        }
        self.len -= 1;
    }

    /// Takes so many links away from the front.
    pub(super) fn split_front(&mut self, len: usize) -> Links {
        let (mut whole, mut left, mut bytes) = (0, len, 0);
        for block in &self.blocks {
            match left.checked_sub(block.links.len()) {
                Some(rest) => (whole, left, bytes) = (whole + 1, rest, bytes + block.bytes),
                None => break,
            }
        }
        // Few are moved: those that go, of a stream that is trimmed with every addition, or those
        // that stay, of one that is cut down, and which must not keep the room of all.
        let mut blocks: VecDeque<BlockLink> = if whole < self.blocks.len() / 2 {
            self.blocks.drain(..whole).collect()
        } else {
            let kept = self.blocks.split_off(whole);
            std::mem::replace(&mut self.blocks, kept)
        };
        self.bytes -= bytes;
        self.len -= len;
        if left > 0 {
            let part = self.edit_block(0, |links| {
                let part: Block = links.drain(..left).collect();
                let chunks = part.iter().map(|link| link.chunk.allocated_bytes());
                let taken = chunks.sum::<usize>() as isize;
                (part, -taken)
            });
            let first = self.blocks[0].first;
            let part = BlockLink::new(first, part.expect("it has links that are left"));
            bytes += part.bytes;
            blocks.push_back(part);
        }
        Links { blocks, len, bytes }
    }

    /// Moves what `should_move` says of the block with this number and its chunks, but for what a
    /// snapshot has too; false if there is no such block.
    pub(super) fn relocate(&mut self, block: usize, should_move: ShouldMove<'_>) -> bool {
        let Some(block) = self.blocks.get_mut(block) else {
            return false;
        };
        let Some(links) = relocate_rc(&mut block.links, Block::new, should_move) else {
            return true;
        };
        relocate_vec(links, should_move);
        for link in links {
            if let Some(chunk) = relocate_rc(&mut link.chunk, Chunk::vacant, should_move) {
                chunk.relocate(should_move);
            }
        }
        true
    }

    /// Lets go of the last link, or of a whole block that is shared; the entries that were in them,
    /// none if there was nothing left.
    pub(super) fn dismantle(&mut self) -> Option<usize> {
        let block = self.blocks.back_mut()?;
        let is_shared = Rc::get_mut(&mut block.links).is_none();
        let (links, entries) = if is_shared || block.links.len() == 1 {
            let entries = block.links.iter().map(|link| link.chunk.len());
            let gone = (block.links.len(), entries.sum());
            self.bytes -= block.bytes;
            self.blocks.pop_back();
            gone
        } else {
            let last = self.blocks.len() - 1;
            let entries = self.edit_block(last, |links| {
                let chunk = links.pop().expect("there are two or more").chunk;
                (chunk.len(), -(chunk.allocated_bytes() as isize))
            });
            (1, entries.expect("there is this block"))
        };
        self.len -= links;
        Some(entries)
    }

    /// The blocks as they are now.
    pub(super) fn freeze(&self) -> impl Iterator<Item = Rc<Block>> {
        self.blocks.iter().map(|block| block.links.clone())
    }

    /// Bytes of memory behind it.
    pub(super) fn allocated_bytes(&self) -> usize {
        size_class::of(self.blocks.capacity() * size_of::<BlockLink>()) + self.bytes
    }

    /// Asserts every invariant, given what the last id of the stream is; how many entries it has.
    pub(super) fn check(&self, last_id: Id) -> usize {
        let (mut last, mut entries, mut len) = (None, 0, 0);
        let bytes = self.blocks.iter().map(|block| block.bytes);
        assert_eq!(self.bytes, bytes.sum::<usize>());
        for block in &self.blocks {
            assert!(!block.links.is_empty(), "a block is empty");
            assert_eq!(block.bytes, allocated_bytes(&block.links));
            assert!(last.is_none_or(|last| last < block.first));
            for (nth, link) in block.links.iter().enumerate() {
                let chunk_last = link.chunk.check(last);
                assert!(chunk_last <= link.last, "a link ends too early");
                let first = link.chunk.iter().next().map(|entry| entry.id);
                assert!(nth > 0 || first.is_some_and(|first| first >= block.first));
                last = Some(link.last);
                (entries, len) = (entries + link.chunk.len(), len + 1);
            }
        }
        assert_eq!(len, self.len, "the links are counted wrongly");
        assert!(last.is_none_or(|last| last <= last_id));
        entries
    }
}

/// Bytes of memory that a block takes without its chunks: the counts and the vector, and that one's
/// links.
fn own_bytes(links: &Block) -> usize {
    size_class::of(5 * size_of::<usize>()) + size_class::of(links.capacity() * size_of::<Link>())
}

/// Bytes of memory that a block and its chunks take; asks every chunk.
pub(super) fn allocated_bytes(links: &Block) -> usize {
    let chunks = links.iter().map(|link| link.chunk.allocated_bytes());
    own_bytes(links) + chunks.sum::<usize>()
}
