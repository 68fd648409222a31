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
    links: Rc<Block>,
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

    /// The same, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut Link> {
        let block = self.blocks.get_mut(place.block)?;
        Rc::make_mut(&mut block.links).get_mut(place.link)
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

    /// The last one, to be changed.
    #[inline]
    pub(super) fn back_mut(&mut self) -> Option<&mut Link> {
        Rc::make_mut(&mut self.blocks.back_mut()?.links).last_mut()
    }

    /// Adds a chunk behind the others for an entry of this id.
    pub(super) fn push(&mut self, id: Id, chunk: Chunk) {
        let link = Link {
            last: id,
            chunk: Rc::new(chunk),
        };
        self.len += 1;
        let last = self.blocks.back_mut();
        match last.filter(|block| block.links.len() < BLOCK_LINKS_MAX) {
            Some(block) => Rc::make_mut(&mut block.links).push(link),
            None => self.blocks.push_back(BlockLink {
                first: id,
                links: Rc::new(vec![link]),
            }),
        }
    }

    /// Removes the link at a place.
    pub(super) fn remove(&mut self, place: Place) {
        let links = &mut self.blocks[place.block].links;
        Rc::make_mut(links).remove(place.link);
        if links.is_empty() {
            self.blocks.remove(place.block);
        }
        self.len -= 1;
    }

    /// Takes so many links away from the front.
    pub(super) fn split_front(&mut self, len: usize) -> Links {
        let (mut whole, mut left) = (0, len);
        for block in &self.blocks {
            match left.checked_sub(block.links.len()) {
                Some(rest) => (whole, left) = (whole + 1, rest),
                None => break,
            }
        }
        let kept = self.blocks.split_off(whole);
        let mut blocks = std::mem::replace(&mut self.blocks, kept);
        if left > 0 {
            let block = self.blocks.front_mut().expect("it has links that are left");
            let part: Block = Rc::make_mut(&mut block.links).drain(..left).collect();
            blocks.push_back(BlockLink {
                first: block.first,
                links: Rc::new(part),
            });
        }
        self.len -= len;
        Links { blocks, len }
    }

    /// Lets go of the last link, or of a whole block that is shared; the entries that were in them,
    /// none if there was nothing left.
    pub(super) fn dismantle(&mut self) -> Option<usize> {
        let block = self.blocks.back_mut()?;
        let (links, entries) = match Rc::get_mut(&mut block.links) {
            Some(links) => (1, links.pop().map_or(0, |link| link.chunk.len())),
            None => {
                let entries = block.links.iter().map(|link| link.chunk.len());
                (block.links.len(), entries.sum())
            }
        };
        if links == block.links.len() || block.links.is_empty() {
            self.blocks.pop_back();
        }
        self.len -= links;
        Some(entries)
    }

    /// The blocks as they are now.
    pub(super) fn freeze(&self) -> impl Iterator<Item = Rc<Block>> {
        self.blocks.iter().map(|block| block.links.clone())
    }

    /// Bytes of memory behind it; asks every chunk.
    pub(super) fn allocated_bytes(&self) -> usize {
        let blocks = self
            .blocks
            .iter()
            .map(|block| allocated_bytes(&block.links));
        self.blocks.capacity() * size_of::<BlockLink>() + blocks.sum::<usize>()
    }

    /// Asserts every invariant, given what the last id of the stream is; how many entries it has.
    pub(super) fn check(&self, last_id: Id) -> usize {
        let (mut last, mut entries, mut len) = (None, 0, 0);
        for block in &self.blocks {
            assert!(!block.links.is_empty(), "a block is empty");
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

/// Bytes of memory that some links and their chunks take.
pub(super) fn allocated_bytes(links: &Block) -> usize {
    let chunks = links.iter().map(|link| link.chunk.allocated_bytes());
    // The counts and the vector of the block.
    let block = 5 * size_of::<usize>() + links.capacity() * size_of::<Link>();
    block + chunks.sum::<usize>()
}
