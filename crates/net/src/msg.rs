//! Messages, and the rings between CPUs.
//!
//! There is one packet ring, one ring of dead buffers and one message ring for each ordered pair of CPUs, and one
//! port per CPU for all other threads. Packets may be dropped when a ring is full; messages never are: they wait at
//! the sender for the next roll-up.

use std::collections::VecDeque;
use std::sync::Arc;

use pkt::port::{Full, Receiver, Sender};
use pkt::ring::{Consumer, Producer, ring};
use pkt::wake::Waker;
use pkt::{Pkt, Pool};

use crate::cpu::CpuId;
use crate::netisr::{Moving, Netisr};
use crate::{addr, neigh};

/// A message to a CPU.
pub enum Msg {
    /// Run this there, once.
    Call(Box<dyn FnOnce(&mut Netisr) + Send>),
    /// Run this on each CPU in turn, 0 → 1 → … → N, and answer from the last.
    Tour(Tour),
    /// A device ring that is yours from now on.
    Ring(Box<Moving>),
    /// About a neighbour.
    Neigh(neigh::Msg),
    /// About one of our own addresses.
    Addr(addr::Msg),
}

/// A message that visits all CPUs.
pub struct Tour {
    /// What to do on each.
    pub visit: Arc<dyn Fn(&mut Netisr) + Send + Sync>,
    /// What the last one does then: how the sender learns that all have done it.
    pub done: Box<dyn FnOnce() + Send>,
}

/// Packets that a hand-off ring holds: what a CPU may be handed while the system has taken it away for a moment.
pub const HANDOFF_MAX: usize = 4096;
/// Messages that a message ring holds; more wait at the sender.
const MESSAGES_MAX: usize = 256;

/// A CPU's outgoing ways to all others.
pub struct Peers {
    to: Vec<Option<Way>>,
    /// Whether anything was staged, or waits, for any of them.
    is_busy: bool,
    /// Messages of this CPU to itself.
    pub(crate) own: VecDeque<Msg>,
}

/// The sending ends towards one other CPU.
struct Way {
    packets: Producer<Pkt>,
    home: Producer<Pkt>,
    messages: Producer<Msg>,
    waiting: VecDeque<Msg>,
    waker: Waker,
}

/// The receiving ends from one other CPU.
pub(crate) struct From {
    pub(crate) packets: Consumer<Pkt>,
    pub(crate) home: Consumer<Pkt>,
    pub(crate) messages: Consumer<Msg>,
}

/// A CPU's incoming ways, from all others and from the control threads.
pub struct Inbox {
    pub(crate) from: Vec<From>,
    pub(crate) port: Receiver<Msg>,
}

/// Any thread's way to a CPU.
#[derive(Clone)]
pub struct Remote {
    port: Sender<Msg>,
    waker: Waker,
}

/// Joins all CPUs to each other: for each `waker`, what its CPU sends by, receives by, and is reached by.
#[must_use]
pub fn mesh(wakers: &[Waker]) -> Vec<(Peers, Inbox, Remote)> {
    let mut ends: Vec<_> = wakers.iter().map(|waker| ends(wakers.len(), waker)).collect();
    for from in 0..wakers.len() {
        for (to, waker) in wakers.iter().enumerate().filter(|(to, _)| *to != from) {
            let (way, end) = pair(waker);
            ends[from].0.to[to] = Some(way);
            ends[to].1.from.push(end);
        }
    }
    ends
}

fn ends(cpus: usize, waker: &Waker) -> (Peers, Inbox, Remote) {
    let (sender, receiver) = pkt::port::port(MESSAGES_MAX);
    let peers = Peers { to: (0..cpus).map(|_| None).collect(), is_busy: false, own: VecDeque::new() };
    let inbox = Inbox { from: Vec::new(), port: receiver };
    (peers, inbox, Remote { port: sender, waker: waker.clone() })
}

fn pair(waker: &Waker) -> (Way, From) {
    let (packets, packets_end) = ring(HANDOFF_MAX);
    let (home, home_end) = ring(HANDOFF_MAX);
    let (messages, messages_end) = ring(MESSAGES_MAX);
    let way = Way { packets, home, messages, waiting: VecDeque::new(), waker: waker.clone() };
    (way, From { packets: packets_end, home: home_end, messages: messages_end })
}

impl Peers {
    /// Stages a packet for another CPU; the roll-up publishes it.
    ///
    /// # Errors
    ///
    /// Gives the packet back when the ring is full, or there is no such CPU.
    pub fn hand_off(&mut self, to: CpuId, pkt: Pkt) -> Result<(), Pkt> {
        self.is_busy = true;
        match self.to.get_mut(to.index()) {
            Some(Some(way)) => way.packets.push(pkt),
            _ => Err(pkt),
        }
    }

    /// Packets that another CPU's ring has room for.
    pub(crate) fn room(&mut self, to: CpuId) -> usize {
        match self.to.get_mut(to.index()) {
            Some(Some(way)) => way.packets.free(),
            _ => 0,
        }
    }

    /// Sends a message to any CPU, this one included; it is handled in that CPU's next turn.
    pub fn send(&mut self, to: CpuId, msg: Msg) {
        self.is_busy = true;
        match self.to.get_mut(to.index()) {
            Some(Some(way)) => way.send(msg),
            _ => self.own.push_back(msg),
        }
    }

    /// Publishes what was staged, sends dead buffers home, and wakes the CPUs that sleep and got something. A turn in
    /// which nothing was sent costs the same with however many CPUs.
    pub(crate) fn roll_up(&mut self, pool: &mut Pool) {
        if !self.is_busy && pool.foreign() == 0 {
            return;
        }
        for (to, way) in self.to.iter_mut().enumerate() {
            if let Some(way) = way {
                pool.outgoing(to).send_each(|pkt| way.home.push(pkt));
                way.roll_up();
            }
        }
        self.is_busy = self.to.iter().flatten().any(|way| !way.waiting.is_empty());
    }

    /// Whether a message waits because its ring is full.
    pub(crate) fn is_backlogged(&self) -> bool {
        self.is_busy && self.to.iter().flatten().any(|way| !way.waiting.is_empty())
    }
}

impl Way {
    fn send(&mut self, msg: Msg) {
        if !self.waiting.is_empty() {
            self.waiting.push_back(msg);
        } else if let Err(back) = self.messages.push(msg) {
            self.waiting.push_back(back);
        }
    }

    #[cold]
    fn send_waiting(&mut self) {
        while let Some(msg) = self.waiting.pop_front() {
            if let Err(back) = self.messages.push(msg) {
                self.waiting.push_front(back);
                break;
            }
        }
    }

    /// Dead buffers alone are no reason to wake anybody.
    #[inline]
    fn roll_up(&mut self) {
        if !self.waiting.is_empty() {
            self.send_waiting();
        }
        self.home.publish();
        if self.packets.publish() + self.messages.publish() > 0 {
            self.waker.wake_if_sleeping();
        }
    }
}

impl From {
    /// Whether neither packets nor dead buffers have come: of many CPUs, few have sent something since the last turn.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.packets.is_empty() && self.home.is_empty()
    }
}

impl Inbox {
    /// Whether nothing waits: what a netisr asks once more before it sleeps.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.port.is_empty()
            && self.from.iter_mut().all(|from| from.packets.is_empty() && from.messages.is_empty())
    }
}

impl Remote {
    /// Sends a message from any thread.
    ///
    /// # Errors
    ///
    /// [`Full`] gives it back when the CPU's port is full: try again later.
    pub fn send(&self, msg: Msg) -> Result<(), Full<Msg>> {
        self.port.try_send(msg)?;
        self.waker.wake_if_sleeping();
        Ok(())
    }
}
