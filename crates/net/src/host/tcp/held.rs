//! Connections that hold back what they have to say, because the queue of their interface is crowded.
//!
//! A packet that this host makes should wait where it costs nothing: as state of its connection, not as a buffer in a queue that
//! drops it when it is full. So connections send only while few packets wait for the ring, and go on in the order in which they
//! came. Forwarded packets may keep a queue full for long; a few connections go on all the same whenever the ring takes something,
//! and the discipline of the queue is fair to them.

use std::collections::VecDeque;

use super::input::send_touched;
use super::pcbs::{Conn, Id};
use crate::base::count::Count;
use crate::ip::cached_route;
use crate::link::tables::IfIndex;
use crate::turn::cpu::Cpu;

/// Connections that go on although the queue of their interface is crowded, in a turn in which its ring takes packets.
const LEAST: usize = 16;
/// Held connections of one interface that go on in one pass at the most.
const GO_ON_MAX: usize = 256;

/// A connection is fetched while so many others go on: what was held for long has left the cache.
const AHEAD: usize = 4;

/// Held connections of one CPU, by the interface that they wait for. Each is held once at the most.
#[derive(Default)]
pub(super) struct Held {
    queues: Vec<(IfIndex, VecDeque<Id>)>,
    /// Connections in all queues.
    len: usize,
    /// Whether some went on in the last pass: others may in the next turn.
    pub(super) goes_on: bool,
}

impl Held {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    fn push(&mut self, index: IfIndex, id: Id) {
        let at = self.queues.iter().position(|queue| queue.0 == index).unwrap_or_else(|| {
            self.queues.push((index, VecDeque::new()));
            self.queues.len() - 1
        });
        self.queues[at].1.push_back(id);
        self.len += 1;
    }

    /// Whether connections wait for this interface already: later ones stand behind them.
    fn has(&self, index: IfIndex) -> bool {
        self.len > 0 && self.queues.iter().any(|queue| queue.0 == index && !queue.1.is_empty())
    }

    fn pop(&mut self, at: usize) -> Option<Id> {
        let id = self.queues.get_mut(at)?.1.pop_front()?;
        self.len -= 1;
        Some(id)
    }

    /// The connection that goes on after so many others.
    fn behind(&self, at: usize, others: usize) -> Option<Id> {
        self.queues.get(at)?.1.get(others).copied()
    }
}

/// Holds a touched connection if the queue of its interface is crowded; else gives it back.
#[cold]
#[inline(never)]
pub(super) fn hold(cpu: &mut Cpu, conn: Box<Conn>) -> Option<Box<Conn>> {
    let Some(index) = cached_route::outif(cpu, &conn.ends, conn.tx_params) else { return Some(conn) };
    let is_crowded = cpu.ifqs.is_crowded(index);
    let Some(pcbs) = cpu.tcp.as_mut().filter(|pcbs| is_crowded || pcbs.held.has(index)) else {
        return Some(conn);
    };
    pcbs.held.push(index, conn.id);
    pcbs.put_untouched(conn);
    cpu.count(Count::TcpHeld);
    None
}

/// Lets connections that were held send while the queues of their interfaces are not crowded, and answers how many did.
/// `is_first`: of this turn, so that some may go on all the same.
#[cold]
#[inline(never)]
pub(crate) fn go_on(cpu: &mut Cpu, is_first: bool) -> usize {
    let (mut done, mut at) = (0, 0);
    while let Some(index) = cpu.tcp.as_ref().and_then(|pcbs| Some(pcbs.held.queues.get(at)?.0)) {
        at += 1;
        let owed = if is_first && cpu.ifqs.took(index) { LEAST } else { 0 };
        for own in 0..GO_ON_MAX {
            if own >= owed && cpu.ifqs.is_crowded(index) {
                break;
            }
            let Some(pcbs) = &mut cpu.tcp else { return done };
            let Some(id) = pcbs.held.pop(at - 1) else { break };
            pcbs.held.behind(at - 1, AHEAD).inspect(|id| pcbs.fetch(*id));
            if let Some(conn) = pcbs.take(id) {
                send_touched(cpu, conn);
                done += 1;
            }
        }
    }
    if let Some(pcbs) = &mut cpu.tcp {
        pcbs.held.goes_on = done > 0 && pcbs.held.len > 0;
    }
    done
}
