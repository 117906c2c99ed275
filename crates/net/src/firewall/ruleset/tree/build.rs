//! Cuts trees.

use std::collections::{BTreeMap, VecDeque};

use super::boxes::Area;
use super::{DIMS, DST, Forest, LEAF, Node, SRC, Tree, VIEWS, word_of};
use crate::firewall::ruleset::Scope;

/// Rules that are not worth a cut.
const LEAF_RULES: usize = 4;
/// The largest number of slices, as a power of two.
const SLICES_BITS: u32 = 6;
/// Boxes that all slices of a cut may hold together, by those that there were.
const SPREAD: usize = 2;
/// Growth limit of a tree relative to its boxes, in nodes and in rules of leaves.
const GROWTH: usize = 8;
const GROWTH_FREE: usize = 1024;
/// Narrower than this, an address names a network and not a part of the Internet.
const NARROW: u32 = 1 << 16;
/// Number of rules that are worth a tree of their own.
const TREE_RULES: usize = 16;

/// A box, and the position of its rule.
type Boxed = (Area, u32);

/// Grows the trees of all hooks and families, from the boxes that rules have there: by position.
pub(in super::super) fn build(boxes: impl Fn(Scope) -> Vec<Boxed>) -> Forest {
    let mut forest = Forest::default();
    let mut known: Vec<(Vec<Boxed>, (u32, u32))> = Vec::new();
    for view in 0..VIEWS {
        let boxes = boxes(Scope(1 << view));
        let part = known.iter().find(|(other, _)| *other == boxes).map(|(_, part)| *part);
        forest.views[view] = part.unwrap_or_else(|| {
            let part = plant(&mut forest, &boxes);
            known.push((boxes, part));
            part
        });
    }
    forest
}

/// The trees of one view: one for all if that does not grow too large.
fn plant(forest: &mut Forest, boxes: &[Boxed]) -> (u32, u32) {
    let start = forest.trees.len();
    let marks = (forest.nodes.len(), forest.leaves.len());
    let one = TreeBuilder::new(forest, boxes).grow(true);
    match one {
        Some(tree) => forest.trees.push(tree),
        None => {
            forest.nodes.truncate(marks.0);
            forest.leaves.truncate(marks.1);
            let groups = groups(boxes);
            let grown = groups.iter().filter_map(|group| TreeBuilder::new(forest, group).grow(false));
            let mut trees: Vec<_> = grown.collect();
            trees.sort_by_key(|tree| tree.first);
            forest.trees.extend(trees);
        }
    }
    (index(start), index(forest.trees.len()))
}

/// Divides boxes by which of their addresses are narrow; few of a kind go with the wide ones.
fn groups(boxes: &[Boxed]) -> Vec<Vec<Boxed>> {
    let is_narrow = |area: &Area, dim: usize| {
        let range = |dim: usize| area[dim].1 - area[dim].0;
        // Of IPv6 the second word decides, if the first is fixed.
        range(dim) < NARROW
            && (range(dim) > 0 || range(word_of(dim, 1)) == u32::MAX || range(word_of(dim, 1)) < NARROW)
    };
    let mut kinds = vec![Vec::new(); 4];
    for (area, at) in boxes {
        let kind = usize::from(is_narrow(area, SRC)) * 2 + usize::from(is_narrow(area, DST));
        kinds[kind].push((*area, *at));
    }
    let mut wide = kinds.remove(0);
    kinds.retain_mut(|kind| {
        let is_many = kind.len() >= TREE_RULES;
        if !is_many {
            wide.append(kind);
        }
        is_many
    });
    wide.sort_by_key(|(_, at)| *at);
    kinds.push(wide);
    kinds
}

/// Grows one tree.
struct TreeBuilder<'a> {
    forest: &'a mut Forest,
    boxes: &'a [Boxed],
    /// Nodes and rules of leaves that may still come.
    left: usize,
    /// Leaves that there are already, by their rules.
    known: BTreeMap<Vec<u32>, u32>,
    /// Nodes that wait for what they will be.
    waiting: VecDeque<PendingNode>,
}

/// A node that has a place and nothing else yet.
struct PendingNode {
    at: usize,
    region: Area,
    members: Vec<u32>,
}

/// A cut that could be made.
#[derive(Clone, Copy)]
struct Cut {
    dim: usize,
    base: u32,
    shift: u32,
    slices: u32,
    /// Boxes in the fullest slice, and in all together.
    fullest: usize,
    total: usize,
}

impl<'a> TreeBuilder<'a> {
    fn new(forest: &'a mut Forest, boxes: &'a [Boxed]) -> Self {
        let left = GROWTH * boxes.len() + GROWTH_FREE;
        Self { forest, boxes, left, known: BTreeMap::new(), waiting: VecDeque::new() }
    }

    /// The tree. One that must be `small` is given up when it has used up its room; any other has longer leaves then.
    /// There is none without boxes.
    fn grow(mut self, small: bool) -> Option<Tree> {
        let first = self.boxes.iter().map(|(_, at)| *at).min()?;
        let root = self.forest.nodes.len();
        self.place(1);
        let (region, members) = ([(0, u32::MAX); DIMS], (0..index(self.boxes.len())).collect());
        self.waiting.push_back(PendingNode { at: root, region, members });
        while let Some(plot) = self.waiting.pop_front() {
            if small && self.left == 0 {
                return None;
            }
            self.settle(plot);
        }
        Some(Tree { first, root: self.forest.nodes[root] })
    }

    /// Room for nodes.
    fn place(&mut self, count: usize) -> usize {
        let at = self.forest.nodes.len();
        let none = Node { base: 0, child: 0, slices: 0, shift: 0, dim: LEAF };
        self.forest.nodes.resize(at + count, none);
        self.left = self.left.saturating_sub(count);
        at
    }

    /// Makes a cut or a leaf of a node.
    fn settle(&mut self, plot: PendingNode) {
        let cut = if self.left == 0 || plot.members.len() <= LEAF_RULES { None } else { self.best(&plot) };
        self.forest.nodes[plot.at] = match cut {
            Some(cut) => self.cut(&plot, cut),
            None => self.leaf(&plot),
        };
    }

    fn leaf(&mut self, plot: &PendingNode) -> Node {
        let mut rules: Vec<_> = plot.members.iter().map(|member| self.boxes[*member as usize].1).collect();
        rules.sort_unstable();
        rules.dedup();
        let child = index(rules.len());
        let leaves = &mut self.forest.leaves;
        let base = match self.known.get(&rules) {
            Some(base) => *base,
            None => {
                let base = index(leaves.len());
                leaves.extend(&rules);
                self.left = self.left.saturating_sub(rules.len());
                self.known.insert(rules, base);
                base
            }
        };
        Node { base, child, slices: 0, shift: 0, dim: LEAF }
    }

    fn cut(&mut self, plot: &PendingNode, cut: Cut) -> Node {
        let slices = cut.slices as usize;
        let child = self.place(slices + 1);
        for slice in 0..=cut.slices {
            let mut region = plot.region;
            if slice < cut.slices {
                let from = cut.base + (slice << cut.shift);
                let to = from + ((1 << cut.shift) - 1);
                region[cut.dim] = (from.max(region[cut.dim].0), to.min(region[cut.dim].1));
            }
            let (from, to) = region[cut.dim];
            // What lies in no slice is in the last node's region, and so are the boxes that go all through it.
            let whole = plot.region[cut.dim];
            let is_in = |member: &u32| {
                let range = self.boxes[*member as usize].0[cut.dim];
                if slice < cut.slices {
                    range.0 <= to && range.1 >= from
                } else {
                    range.0 <= whole.0 && range.1 >= whole.1
                }
            };
            let members = plot.members.iter().copied().filter(is_in).collect();
            self.waiting.push_back(PendingNode { at: child + slice as usize, region, members });
        }
        let shift = u8::try_from(cut.shift).unwrap_or(31);
        let (slices, dim) = (u16::try_from(slices).unwrap_or(0), u8::try_from(cut.dim).unwrap_or(LEAF));
        Node { base: cut.base, child: index(child), slices, shift, dim }
    }

    /// The cut whose fullest slice holds the fewest; `None` if none leaves fewer than there are.
    fn best(&self, plot: &PendingNode) -> Option<Cut> {
        let cuts = (0..DIMS).filter_map(|dim| self.best_of(plot, dim));
        let best = cuts.min_by_key(|cut| (cut.fullest, cut.total))?;
        (best.fullest < plot.members.len()).then_some(best)
    }

    /// The finest cut of a dimension that does not spread boxes too much.
    fn best_of(&self, plot: &PendingNode, dim: usize) -> Option<Cut> {
        let whole = plot.region[dim];
        let ranges = plot.members.iter().map(|member| self.boxes[*member as usize].0[dim]);
        let partly = |range: &(u32, u32)| range.0 > whole.0 || range.1 < whole.1;
        let partly: Vec<_> = ranges.filter(partly).map(|(a, b)| (a.max(whole.0), b.min(whole.1))).collect();
        let from = partly.iter().map(|range| range.0).min()?;
        let to = partly.iter().map(|range| range.1).max()?;
        let wholly = plot.members.len() - partly.len();
        let most = SPREAD * plot.members.len() + GROWTH;
        let cut = |bits| Cut::of(dim, (from, to), bits, &partly, wholly);
        (0..=SLICES_BITS).rev().map(cut).find(|cut| cut.total <= most + cut.slices as usize)
    }
}

impl Cut {
    /// The cut of what lies between two values into about 2^`bits` slices, aligned to their width.
    fn of(dim: usize, (from, to): (u32, u32), bits: u32, partly: &[(u32, u32)], wholly: usize) -> Self {
        let shift = (u32::BITS - (to - from).leading_zeros()).saturating_sub(bits).min(31);
        let base = from >> shift << shift;
        let slices = ((to - base) >> shift) + 1;
        let mut steps = vec![0i64; slices as usize + 1];
        for (from, to) in partly {
            steps[((from - base) >> shift) as usize] += 1;
            steps[((to - base) >> shift) as usize + 1] -= 1;
        }
        let sizes = steps.iter().scan(0i64, |size, step| {
            *size += step;
            Some(usize::try_from(*size).unwrap_or(0) + wholly)
        });
        let (fullest, total) = sizes.fold((0, 0), |(fullest, total), size| (size.max(fullest), total + size));
        Self { dim, base, shift, slices, fullest, total }
    }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
