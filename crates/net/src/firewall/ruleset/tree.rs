//! Which rules a packet can match at all: a tree of cuts, so that thousands of rules do not cost thousands of steps.
//!
//! Each rule lies in one or a few boxes: ranges of addresses, ports, protocols and interfaces. A node cuts one of these
//! dimensions, where the boxes in its region lie, into up to 64 slices of the same width, and a packet goes down to the
//! slice that it falls into (P. Gupta, N. McKeown, "Classifying packets with hierarchical intelligent cuttings", 2000).
//! A leaf is a short list of rules, in their order, which are then asked one by one: boxes only exclude.
//!
//! Boxes that are wide where others are narrow would end in many leaves. Where that gets out of hand, rules are
//! divided into a few trees by which of their addresses are narrow (B. Vamanan, "EffiCuts", 2010), and where even that
//! does not help, leaves get longer.

mod boxes;
mod build;

use super::Scope;
use crate::firewall::subject::Subject;

pub(super) use boxes::{Area, area};
pub(super) use build::build;

/// Dimensions: four words of each address (IPv4 has the first alone), ports, protocol, interfaces.
const DIMS: usize = 14;
const SRC: usize = 0;
const DST: usize = 4;
const SRC_PORT: usize = 8;
const DST_PORT: usize = 9;
const PROTO: usize = 10;
const RECV: usize = 11;
const XMIT: usize = 12;
const VIA: usize = 13;
/// Hooks by families.
const VIEWS: usize = 10;

/// The trees of all hooks and families.
#[derive(Clone, Debug, Default)]
pub(super) struct Forest {
    nodes: Vec<Node>,
    /// Positions of rules: the leaves, one behind the other.
    leaves: Vec<u32>,
    trees: Vec<Tree>,
    /// For each hook and family its part of `trees`.
    views: [(u32, u32); VIEWS],
}

/// A tree, and the first rule that it leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) first: u32,
    root: Node,
}

/// A cut, or a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    /// Where the first slice begins; of a leaf, where its rules begin.
    base: u32,
    /// The node of the first slice; of a leaf, how many rules it has.
    child: u32,
    /// Slices. One more node follows them, for all that is in none.
    slices: u16,
    /// Width of a slice: so many bits.
    shift: u8,
    /// The dimension that is cut; [`LEAF`] for none.
    dim: u8,
}

const LEAF: u8 = u8::MAX;

/// Where a packet is in all dimensions.
pub(super) struct Point([u32; 16]);

impl Point {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "addresses are taken apart")]
    pub(super) fn of(subject: &Subject) -> Self {
        let mut point = [0; 16];
        let Subject { src, dst, .. } = *subject;
        if subject.is_ip4 {
            (point[SRC], point[DST]) = (src as u32, dst as u32);
        } else {
            for word in 0..4 {
                let shift = 96 - 32 * word;
                (point[SRC + word], point[DST + word]) = ((src >> shift) as u32, (dst >> shift) as u32);
            }
        }
        point[SRC_PORT] = subject.src_port.into();
        point[DST_PORT] = subject.dst_port.into();
        point[PROTO] = subject.proto.into();
        point[RECV] = subject.recv.into();
        point[XMIT] = subject.xmit.into();
        point[VIA] = subject.via().into();
        Self(point)
    }
}

impl Forest {
    /// The trees for a hook and a family; those that lead to earlier rules come first.
    #[inline]
    pub(super) fn trees(&self, scope: Scope) -> &[Tree] {
        let (start, end) = self.views[scope.index() % VIEWS];
        self.trees.get(start as usize..end as usize).unwrap_or_default()
    }

    /// The rules of a tree that a packet can match.
    #[inline]
    pub(super) fn rules(&self, tree: &Tree, point: &Point) -> &[u32] {
        let mut node = &tree.root;
        while node.dim != LEAF {
            let offset = point.0[usize::from(node.dim & 15)].wrapping_sub(node.base);
            let slice = (offset >> (node.shift & 31)).min(node.slices.into());
            let Some(next) = self.nodes.get((node.child + slice) as usize) else { return &[] };
            node = next;
        }
        let start = node.base as usize;
        self.leaves.get(start..start + node.child as usize).unwrap_or_default()
    }

    /// Bytes of all trees.
    pub(super) const fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node>() + self.leaves.len() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests;
