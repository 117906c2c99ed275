//! Lists of packets that share one array.

use pkt::Pkt;

use crate::base::time::Instant;

/// A queued packet, its arrival time, and data for its queue's owner.
pub(crate) struct Queued<T = ()> {
    pub(crate) pkt: Pkt,
    pub(crate) since: Instant,
    pub(crate) tag: T,
}

/// Packets in the order in which they came.
#[derive(Default)]
pub(crate) struct List {
    first: Option<u32>,
    last: Option<u32>,
    len: usize,
    bytes: usize,
}

/// The packets of all lists. The array grows to the most that ever waited, and is used again.
pub(crate) struct Nodes<T = ()> {
    nodes: Vec<Node<T>>,
    free: Option<u32>,
}

struct Node<T> {
    queued: Option<Queued<T>>,
    next: Option<u32>,
}

impl List {
    pub(crate) fn push<T>(&mut self, nodes: &mut Nodes<T>, queued: Queued<T>) {
        self.len += 1;
        self.bytes += queued.pkt.len();
        let new = nodes.put(queued);
        match self.last.replace(new) {
            Some(last) => nodes.nodes[last as usize].next = Some(new),
            None => self.first = Some(new),
        }
    }

    pub(crate) fn pop<T>(&mut self, nodes: &mut Nodes<T>) -> Option<Queued<T>> {
        let (queued, next) = nodes.take(self.first?);
        self.first = next;
        if next.is_none() {
            self.last = None;
        }
        self.len -= 1;
        self.bytes -= queued.as_ref().map_or(0, |queued| queued.pkt.len());
        queued
    }

    /// The oldest packet.
    pub(crate) fn first<'a, T>(&self, nodes: &'a Nodes<T>) -> Option<&'a Queued<T>> {
        nodes.nodes[self.first? as usize].queued.as_ref()
    }

    /// The newest packet.
    pub(crate) fn last_mut<'a, T>(&self, nodes: &'a mut Nodes<T>) -> Option<&'a mut Queued<T>> {
        nodes.nodes[self.last? as usize].queued.as_mut()
    }

    /// Packets.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Their bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T> Nodes<T> {
    /// Packets that there is memory for.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.nodes.len()
    }

    fn put(&mut self, queued: Queued<T>) -> u32 {
        let node = Node { queued: Some(queued), next: None };
        let Some(at) = self.free else {
            self.nodes.push(node);
            return u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX);
        };
        self.free = core::mem::replace(&mut self.nodes[at as usize], node).next;
        at
    }

    fn take(&mut self, at: u32) -> (Option<Queued<T>>, Option<u32>) {
        let node = &mut self.nodes[at as usize];
        let next = core::mem::replace(&mut node.next, self.free);
        self.free = Some(at);
        (node.queued.take(), next)
    }
}

impl<T> Default for Nodes<T> {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: None }
    }
}
