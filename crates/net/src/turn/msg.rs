//! Messages, and the rings between CPUs.
//!
//! There is one packet ring, one ring of dead buffers and one message ring for each ordered pair of CPUs, and one
//! port per CPU for all other threads. Packets may be dropped when a ring is full; messages never are: they wait at
//! the sender for the next roll-up.
//!
//! A CPU looks only into the rings of those that have raised their flags on its board, and sends only to those that it
//! has something for: what a turn costs does not depend on how many CPUs there are.

use std::collections::VecDeque;
use std::sync::Arc;

use pkt::mpsc::{Full, Receiver, Sender};
use pkt::notify_bits::{Board, Flag, board};
use pkt::ring::{Consumer, Producer, ring};
use pkt::wake::Waker;
use pkt::{Pkt, Pool};

use crate::firewall;
use crate::ip::ip6::autoconf;
use crate::ip::{addr, group, host_cache, neigh, pmtu, snoop_io, stp_io};
use crate::link::fdb;
use crate::link::tables::IfIndex;
use crate::turn::cpu::CpuId;
use crate::turn::netisr::{Moving, Netisr};

/// A message to a CPU.
pub enum Msg {
    /// Run this there, once.
    Call(Box<dyn FnOnce(&mut Netisr) + Send>),
    /// Run this on each CPU in turn, 0 → 1 → … → N, and answer from the last.
    Broadcast(Broadcast),
    /// A device ring that is yours from now on.
    Ring(Box<Moving>),
    /// About a neighbour.
    Neigh(neigh::Msg),
    /// About one of our own addresses.
    Addr(addr::Msg),
    /// About a multicast group.
    Group(group::Msg),
    /// About what routers say.
    Autoconf(autoconf::Msg),
    /// A host on the link of an interface wants a router advertisement.
    Rtadv(IfIndex),
    /// About a destination of what is sent from here.
    Dest(host_cache::Msg),
    /// About a path MTU.
    Path(pmtu::Msg),
    /// About a learnt link address.
    Fdb(fdb::Msg),
    /// About a spanning tree.
    Stp(stp_io::Msg),
    /// About a group on the ports of a bridge.
    Snooping(snoop_io::Msg),
    /// The firewall has no room for states: end some of yours.
    Reap,
    /// A packet for a pipe that one CPU owns, or from it.
    Shape(firewall::pipe_io::Message),
    /// A packet at a rule that goes on there.
    Away(firewall::handoff::Message),
    /// About a redirected flow that two CPUs have a state of.
    Redirect(firewall::PairMessage),
}

// docs/reference/LIMITS.md says so.
const _: () = assert!(size_of::<Msg>() <= 72);

/// A message that visits all CPUs.
pub struct Broadcast {
    /// The visit to each.
    pub visit: Arc<dyn Fn(&mut Netisr) + Send + Sync>,
    /// Called by the last one: tells the sender that all are done.
    pub done: Box<dyn FnOnce() + Send>,
}

/// Packets that a hand-off ring holds: what a CPU may be handed while the system has taken it away for a moment.
pub const HANDOFF_MAX: usize = 4096;
/// Messages that a message ring holds; more wait at the sender.
const MESSAGES_MAX: usize = 256;

/// A CPU's outgoing ways to all others.
pub struct Peers {
    to: Vec<Option<PeerTx>>,
    /// CPUs with staged or waiting messages.
    busy: Vec<CpuId>,
    /// Messages of this CPU to itself.
    pub(crate) own: VecDeque<Msg>,
}

/// The sending ends towards one other CPU.
struct PeerTx {
    packets: Producer<Pkt>,
    home: Producer<Pkt>,
    messages: Producer<Msg>,
    waiting: VecDeque<Msg>,
    /// Whether it is among [`Peers::busy`].
    is_busy: bool,
    flag: Flag,
    waker: Waker,
}

/// The receiving ends from one other CPU.
pub(crate) struct PeerRx {
    pub(crate) packets: Consumer<Pkt>,
    pub(crate) home: Consumer<Pkt>,
    pub(crate) messages: Consumer<Msg>,
    /// Whether it is among [`Inbox::speaking`].
    is_speaking: bool,
}

/// A CPU's incoming ways, from all others and from the control threads.
pub struct Inbox {
    pub(crate) from: Vec<PeerRx>,
    pub(crate) port: Receiver<Msg>,
    board: Board,
    /// Positions in `from` of those whose messages were not all taken yet.
    pub(crate) speaking: Vec<usize>,
}

/// Any thread's way to a CPU.
#[derive(Clone)]
pub struct Remote {
    port: Sender<Msg>,
    waker: Waker,
}

/// Any thread's way to one program of a CPU: it has the program called, and says nothing.
#[derive(Clone)]
pub struct Notifier {
    flag: Flag,
    waker: Waker,
}

impl Notifier {
    /// Makes a notifier that sets the flag of an application and wakes its CPU.
    #[must_use]
    pub const fn new(flag: Flag, waker: Waker) -> Self {
        Self { flag, waker }
    }

    /// The program is called in its CPU's next turn. To be called behind what was left for it, once for all of it.
    pub fn knock(&self) {
        self.flag.raise();
        self.waker.wake_if_sleeping();
    }
}

/// Joins all CPUs to each other: for each `waker`, what its CPU sends by, receives by, and is reached by.
#[must_use]
pub fn mesh(wakers: &[Waker]) -> Vec<(Peers, Inbox, Remote)> {
    let (mut ends, mut flags): (Vec<_>, Vec<_>) =
        wakers.iter().map(|waker| ends(wakers.len(), waker)).unzip();
    for from in 0..wakers.len() {
        for (to, waker) in wakers.iter().enumerate().filter(|(to, _)| *to != from) {
            // Those of the first sender are the last.
            if let Some(flag) = flags[to].pop() {
                let (peer, end) = pair(waker, flag);
                ends[from].0.to[to] = Some(peer);
                ends[to].1.from.push(end);
            }
        }
    }
    ends
}

fn ends(cpus: usize, waker: &Waker) -> ((Peers, Inbox, Remote), Vec<Flag>) {
    let (sender, receiver) = pkt::mpsc::port(MESSAGES_MAX);
    let (board, flags) = board(cpus - 1);
    let peers = Peers { to: (0..cpus).map(|_| None).collect(), busy: Vec::new(), own: VecDeque::new() };
    let speaking = Vec::with_capacity(cpus);
    let inbox = Inbox { from: Vec::new(), port: receiver, board, speaking };
    ((peers, inbox, Remote { port: sender, waker: waker.clone() }), flags.into_iter().rev().collect())
}

fn pair(waker: &Waker, flag: Flag) -> (PeerTx, PeerRx) {
    let (packets, packets_end) = ring(HANDOFF_MAX);
    let (home, home_end) = ring(HANDOFF_MAX);
    let (messages, messages_end) = ring(MESSAGES_MAX);
    let waiting = VecDeque::new();
    let peer = PeerTx { packets, home, messages, waiting, is_busy: false, flag, waker: waker.clone() };
    (peer, PeerRx { packets: packets_end, home: home_end, messages: messages_end, is_speaking: false })
}

impl Msg {
    /// The packet that it brings, if it is one that the firewall has sent.
    pub(crate) fn into_packet(self) -> Option<Pkt> {
        match self {
            Self::Shape(message) => Some(message.into_packet()),
            Self::Away(message) => Some(message.into_packet()),
            _ => None,
        }
    }
}

impl Peers {
    /// No way to any other CPU: messages stay here.
    pub(crate) fn none(cpus: usize) -> Self {
        Self { to: (0..cpus).map(|_| None).collect(), busy: Vec::new(), own: VecDeque::new() }
    }

    /// Stages a packet for another CPU; the roll-up publishes it.
    ///
    /// # Errors
    ///
    /// Gives the packet back when the ring is full, or there is no such CPU.
    #[inline(always)]
    pub fn hand_off(&mut self, to: CpuId, pkt: Pkt) -> Result<(), Pkt> {
        match self.to.get_mut(to.index()) {
            Some(Some(peer)) => {
                peer.is_busy_with(to, &mut self.busy);
                peer.packets.push(pkt)
            }
            _ => Err(pkt),
        }
    }

    /// Packets that another CPU's ring has room for.
    pub(crate) fn room(&mut self, to: CpuId) -> usize {
        match self.to.get_mut(to.index()) {
            Some(Some(peer)) => peer.packets.free(),
            _ => 0,
        }
    }

    /// Sends a message to any CPU, this one included; it is handled in that CPU's next turn.
    pub fn send(&mut self, to: CpuId, msg: Msg) {
        match self.to.get_mut(to.index()) {
            Some(Some(peer)) => {
                peer.is_busy_with(to, &mut self.busy);
                peer.send(msg);
            }
            _ => self.own.push_back(msg),
        }
    }

    /// Publishes what was staged, sends dead buffers home, and wakes the CPUs that sleep and got something.
    #[inline]
    pub(crate) fn roll_up(&mut self, pool: &mut Pool) {
        if pool.foreign() > 0 {
            self.send_home(pool);
        }
        if !self.busy.is_empty() {
            let Self { to, busy, .. } = self;
            busy.retain(|to_whom| to[to_whom.index()].as_mut().is_some_and(PeerTx::roll_up));
        }
    }

    #[inline(never)]
    fn send_home(&mut self, pool: &mut Pool) {
        for (to, peer) in (0..).map(CpuId).zip(&mut self.to) {
            let dead = pool.outgoing(to.index());
            if let Some(peer) = peer
                && !dead.is_empty()
            {
                peer.is_busy_with(to, &mut self.busy);
                dead.send_each(|pkt| peer.home.push(pkt));
            }
        }
    }

    /// Messages that have not left yet, for the end.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Msg> {
        let waiting = self.to.iter_mut().flatten().flat_map(|peer| peer.waiting.drain(..));
        self.own.drain(..).chain(waiting)
    }

    /// Whether a message waits because its ring is full.
    pub(crate) fn is_backlogged(&self) -> bool {
        let mut busy = self.busy.iter().filter_map(|to| self.to[to.index()].as_ref());
        busy.any(|peer| !peer.waiting.is_empty())
    }
}

impl PeerTx {
    #[inline]
    fn is_busy_with(&mut self, to: CpuId, busy: &mut Vec<CpuId>) {
        if !self.is_busy {
            self.is_busy = true;
            busy.push(to);
        }
    }

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

    /// Publishes what was staged; answers whether something waits still. Dead buffers alone are no reason to wake a CPU.
    #[inline]
    fn roll_up(&mut self) -> bool {
        if !self.waiting.is_empty() {
            self.send_waiting();
        }
        let dead = self.home.publish();
        let live = self.packets.publish() + self.messages.publish();
        if dead + live > 0 {
            self.flag.raise();
        }
        if live > 0 {
            self.waker.wake_if_sleeping();
        }
        self.is_busy = !self.waiting.is_empty();
        self.is_busy
    }
}

impl PeerRx {
    /// Whether something waits here still, at the beginning of another turn.
    fn still_speaks(&mut self) -> bool {
        self.is_speaking = !(self.packets.is_empty() && self.home.is_empty() && self.messages.is_empty());
        self.is_speaking
    }
}

impl Inbox {
    /// Looks for CPUs that have sent something since the last turn.
    #[inline]
    pub(crate) fn listen(&mut self) {
        let Self { from, board, speaking, .. } = self;
        speaking.retain(|&peer| from[peer].still_speaks());
        board.take_down(|peer| {
            if !core::mem::replace(&mut from[peer].is_speaking, true) {
                speaking.push(peer);
            }
        });
    }

    /// Returns the oldest message of those that have sent something.
    #[inline]
    pub(crate) fn message_of_peer(&mut self) -> Option<Msg> {
        self.speaking.iter().find_map(|&peer| self.from[peer].messages.pop())
    }

    /// Whether nothing waits: what a netisr asks once more before it sleeps.
    pub(crate) fn is_empty(&mut self) -> bool {
        self.port.is_empty()
            && self.from.iter_mut().all(|from| from.packets.is_empty() && from.messages.is_empty())
    }
}

impl Remote {
    /// Returns a notifier of the application with this flag, on this CPU ([`Netisr::open`]).
    #[must_use]
    pub fn notifier(&self, flag: Flag) -> Notifier {
        Notifier::new(flag, self.waker.clone())
    }

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
