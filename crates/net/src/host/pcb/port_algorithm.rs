//! Algorithms of RFC 6056, by which local ports are chosen.
//!
//! They number the ports that bring replies to this CPU, not all ports: each index stands for one of them, whichever the
//! addresses are. So what an algorithm promises holds among the CPU's own ports.
//!
//! # Spec
//! RFC 6056 §3.3.

use super::FourTuple;
use crate::turn::cpu::Cpu;

/// Algorithm by which the local port of a conversation is chosen: `net.inet.ip.portrange.algorithm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortAlgorithm {
    /// Each port is drawn (algorithm 2); in a narrow range the next free one behind a port that is drawn (algorithm 1).
    #[default]
    Random,
    /// One counter, from an offset that is a hash of the other three parts of the four-tuple (algorithm 3).
    Hash,
    /// A counter for each of many classes of conversations, and the offset (algorithm 4).
    DoubleHash,
    /// One counter, which grows by random increments (algorithm 5).
    RandomIncrements,
}

/// Counters of the double-hash algorithm.
//= https://www.rfc-editor.org/rfc/rfc6056#section-3.3.4
const TABLE_LENGTH: usize = 256;
/// The largest increment of a random-increments counter.
//= https://www.rfc-editor.org/rfc/rfc6056#section-3.3.5
//# N=500 is a good choice
const INCREMENT_MAX: u64 = 500;

/// The counters of the algorithms that have some.
#[derive(Debug)]
pub struct PortCounters {
    /// Keys of the offset and of the class.
    keys: [[u64; 4]; 2],
    one: u64,
    table: [u32; TABLE_LENGTH],
}

/// A way through the `count` ports of this CPU.
#[derive(Debug)]
pub(super) struct Walk {
    algorithm: PortAlgorithm,
    first: u64,
    count: u64,
}

impl Walk {
    /// Begins where the algorithm says, for a conversation whose local port is not known.
    pub(super) fn begin(cpu: &mut Cpu, ends: &FourTuple, count: u64) -> Self {
        let algorithm = cpu.sysctls.port_algorithm;
        let first = match algorithm {
            PortAlgorithm::Random => cpu.secret.below(count),
            _ => {
                let increment = 1 + cpu.secret.below(INCREMENT_MAX);
                counters(cpu).next(algorithm, ends, increment).checked_rem(count).unwrap_or(0)
            }
        };
        Self { algorithm, first, count }
    }

    /// Begins for a socket without a remote end, of which there is nothing to hash.
    pub(super) fn drawn(cpu: &mut Cpu, count: u64) -> Self {
        Self { algorithm: PortAlgorithm::Random, first: cpu.secret.below(count), count }
    }

    /// Returns the index of step `step`, the first of which is 0: one behind the other.
    pub(super) fn in_order(&self, step: u64) -> u64 {
        self.first.wrapping_add(step).checked_rem(self.count).unwrap_or(0)
    }

    /// Returns the index of step `step`, drawn anew if the algorithm is to draw.
    pub(super) fn any(&self, cpu: &mut Cpu, step: u64) -> u64 {
        match self.algorithm {
            PortAlgorithm::Random if step > 0 => cpu.secret.below(self.count),
            _ => self.in_order(step),
        }
    }

    /// Ends behind the port that step `last` has found: the next conversation begins there.
    pub(super) fn end(&self, cpu: &mut Cpu, ends: &FourTuple, last: u64) {
        if self.algorithm != PortAlgorithm::Random {
            counters(cpu).passed(self.algorithm, ends, last);
        }
    }
}

fn counters(cpu: &mut Cpu) -> &mut PortCounters {
    let Cpu { ports, secret, .. } = cpu;
    ports.get_or_insert_with(|| {
        let keys = core::array::from_fn(|_| super::secrets(secret));
        //= https://www.rfc-editor.org/rfc/rfc6056#section-3.3.4
        //# for(i = 0; i < TABLE_LENGTH; i++)
        //#     table[i] = random() % 65536;
        let table = core::array::from_fn(|_| u32::try_from(secret.below(0x1_0000)).unwrap_or(0));
        Box::new(PortCounters { keys, one: secret.below(0x1_0000), table })
    })
}

impl PortCounters {
    fn next(&mut self, algorithm: PortAlgorithm, ends: &FourTuple, increment: u64) -> u64 {
        //= https://www.rfc-editor.org/rfc/rfc6056#section-3.3.3
        //# offset = F(local_IP, remote_IP, remote_port, secret_key);
        let offset = ends.hash(&self.keys[0]) >> 32;
        match algorithm {
            PortAlgorithm::Random => 0,
            PortAlgorithm::Hash => offset.wrapping_add(self.one),
            PortAlgorithm::DoubleHash => offset.wrapping_add(u64::from(self.table[self.class(ends)])),
            //= https://www.rfc-editor.org/rfc/rfc6056#section-3.3.5
            //# next_ephemeral = next_ephemeral + (random() % N) + 1;
            PortAlgorithm::RandomIncrements => {
                self.one = self.one.wrapping_add(increment);
                self.one
            }
        }
    }

    fn passed(&mut self, algorithm: PortAlgorithm, ends: &FourTuple, last: u64) {
        match algorithm {
            PortAlgorithm::Random => {}
            PortAlgorithm::Hash => self.one = self.one.wrapping_add(last + 1),
            PortAlgorithm::DoubleHash => {
                let class = self.class(ends);
                let steps = u32::try_from(last + 1).unwrap_or(u32::MAX);
                self.table[class] = self.table[class].wrapping_add(steps);
            }
            PortAlgorithm::RandomIncrements => self.one = self.one.wrapping_add(last),
        }
    }

    //= https://www.rfc-editor.org/rfc/rfc6056#section-3.3.4
    //# index = G(local_IP, remote_IP, remote_port, secret_key2) %
    //#         TABLE_LENGTH;
    fn class(&self, ends: &FourTuple) -> usize {
        usize::try_from(ends.hash(&self.keys[1]) >> 32).unwrap_or(0) % TABLE_LENGTH
    }
}

#[cfg(test)]
mod tests;
