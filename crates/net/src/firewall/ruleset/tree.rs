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

use super::{VIEWS, view};
use ipfw::rule::Hook;

use crate::firewall::pkt_info::PktInfo;

pub(super) use boxes::{Area, area};
pub(super) use build::build;

/// Dimensions: four words of each address (IPv4 has the first alone), ports, protocol, interfaces.
const DIMS: usize = 14;
/// The first word of each; the other three of IPv6 follow together.
const SRC: usize = 0;
const DST: usize = 1;
const SRC_PORT: usize = 2;
const DST_PORT: usize = 3;
const PROTO: usize = 4;
const RECV: usize = 5;
const XMIT: usize = 6;
const VIA: usize = 7;
const SRC_REST: usize = 8;
const DST_REST: usize = 11;

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

impl Tree {
    /// Whether it is a list of rules and nothing else.
    #[inline]
    pub(super) const fn is_leaf(&self) -> bool {
        self.root.dim == LEAF
    }
}

impl Point {
    /// No packet's.
    pub(super) const NOWHERE: Self = Self([0; 16]);

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "addresses are taken apart")]
    pub(super) fn of(info: &PktInfo) -> Self {
        let PktInfo { src, dst, is_ip4, .. } = *info;
        let first = |addr: u128| if is_ip4 { addr as u32 } else { (addr >> 96) as u32 };
        let (src_port, dst_port) = (u32::from(info.src_port), u32::from(info.dst_port));
        let (recv, xmit) = (u32::from(info.recv), u32::from(info.xmit));
        let (proto, via) = (info.proto.into(), info.via().into());
        let mut point =
            [first(src), first(dst), src_port, dst_port, proto, recv, xmit, via, 0, 0, 0, 0, 0, 0, 0, 0];
        if !is_ip4 {
            for (word, shift) in [64, 32, 0].into_iter().enumerate() {
                point[SRC_REST + word] = (src >> shift) as u32;
                point[DST_REST + word] = (dst >> shift) as u32;
            }
        }
        Self(point)
    }
}

/// The dimension of word `n` of an address whose first is `first`.
const fn word_of(first: usize, n: usize) -> usize {
    match (first, n) {
        (_, 0) => first,
        (SRC, _) => SRC_REST + n - 1,
        _ => DST_REST + n - 1,
    }
}

impl Forest {
    /// The trees for a hook and a family; those that lead to earlier rules come first.
    #[inline]
    pub(super) fn trees(&self, hook: Hook, is_ip4: bool) -> &[Tree] {
        let (start, end) = self.views[view(hook, is_ip4)];
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
