//! Numbered flows of UDP datagrams: what is lost, doubled or overtaken shows at the receiver.

use core::net::IpAddr;

use net::time::{Duration, Instant};

use super::Station;
use crate::builder::{self, Ip};

/// Names a flow in its world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// The parameters of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Destination.
    pub to: IpAddr,
    /// From and to.
    pub ports: [u16; 2],
    /// Datagrams in all.
    pub count: u32,
    /// Time between two of them.
    pub gap: Duration,
    /// Bytes of UDP payload; at least [`Flow::LEN_MIN`].
    pub len: usize,
    /// Datagrams may be fragmented on the way.
    pub may_fragment: bool,
    /// The two bits of explicit congestion notification.
    pub ecn: u8,
}

/// Datagrams of a flow that arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Different datagrams.
    pub received: u32,
    /// Datagrams that had arrived before.
    pub duplicates: u32,
    /// Datagrams that came behind a later one.
    pub late: u32,
    /// When datagrams came late, or once more.
    pub disorder: Vec<Instant>,
    /// Datagrams that were marked on the way, as a sign of congestion.
    pub marked: u32,
    /// Number of each datagram, and when it arrived.
    pub arrived: Vec<(u32, Instant)>,
    /// From where and to which ports the first one came.
    tuple: Option<Tuple>,
    next: u32,
    /// A bit for each number.
    seen: Vec<u64>,
}

/// Source, and ports: what tells flows to one address apart on the wire.
pub(super) type Tuple = (IpAddr, [u16; 2]);

/// A flow that is being sent.
pub(super) struct Sending {
    id: FlowId,
    flow: Flow,
    at: Instant,
    sent: u32,
}

/// First bytes of a datagram's payload: they prove that flow and number behind them are those that were sent.
/// The checksum of UDP alone does not, where a cable turns several bits at once.
fn seal(id: FlowId, number: u32) -> [u8; 4] {
    let word = u64::from(id.0) << 32 | u64::from(number);
    // Odd, and far from a power of two: each bit of the word reaches the upper half of the product.
    let mixed = (word ^ 0x676c_6964).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let [.., a, b, c, d] = mixed.to_le_bytes();
    [a, b, c, d]
}

impl Flow {
    /// Seal, flow, number.
    pub const LEN_MIN: usize = 12;

    /// Ten datagrams, a millisecond apart.
    #[must_use]
    pub const fn to(to: IpAddr) -> Self {
        let gap = Duration::from_millis(1);
        Self { to, ports: [4000, 4000], count: 10, gap, len: 64, may_fragment: false, ecn: 0 }
    }

    /// From and to these ports.
    #[must_use]
    pub const fn ports(self, from: u16, to: u16) -> Self {
        Self { ports: [from, to], ..self }
    }

    /// Sets the number of datagrams.
    #[must_use]
    pub const fn count(self, count: u32) -> Self {
        Self { count, ..self }
    }

    /// So long between two of them.
    #[must_use]
    pub const fn gap(self, gap: Duration) -> Self {
        Self { gap, ..self }
    }

    /// With so many bytes of UDP payload.
    #[must_use]
    pub const fn len(self, len: usize) -> Self {
        Self { len, ..self }
    }

    /// Datagrams may be fragmented on the way.
    #[must_use]
    pub const fn may_fragment(self) -> Self {
        Self { may_fragment: true, ..self }
    }

    /// Makes the sender ECN-capable (ECT(0)).
    #[must_use]
    pub const fn ect(self) -> Self {
        Self { ecn: 2, ..self }
    }

    /// When datagram `number` leaves, if the first one does at `start`.
    #[must_use]
    pub fn leaves(&self, start: Instant, number: u32) -> Instant {
        start + self.gap * number
    }

    fn payload(&self, id: FlowId, number: u32) -> Vec<u8> {
        let mut payload = [&seal(id, number)[..], &id.0.to_be_bytes(), &number.to_be_bytes()].concat();
        let filler = (Self::LEN_MIN..self.len.max(Self::LEN_MIN)).map(|at| filler(number, at));
        payload.extend(filler);
        payload
    }
}

/// Byte `at` of the payload of datagram `number`.
fn filler(number: u32, at: usize) -> u8 {
    (number as usize).wrapping_mul(31).wrapping_add(at).to_le_bytes()[0]
}

impl Sending {
    pub(super) const fn deadline(&self) -> Instant {
        self.at
    }
}

impl Station {
    /// Starts a flow at `at`.
    pub fn start_flow(&mut self, id: FlowId, flow: Flow, at: Instant) {
        self.sending.push(Sending { id, flow, at, sent: 0 });
    }

    /// Returns the datagrams of a flow that arrived here.
    #[must_use]
    pub fn tally(&self, id: FlowId) -> Tally {
        self.tallies.get(&id).cloned().unwrap_or_default()
    }

    pub(super) fn send_flows(&mut self) {
        let mut sending = core::mem::take(&mut self.sending);
        for one in &mut sending {
            while one.at <= self.now && one.sent < one.flow.count {
                self.send_one(one);
                one.at = one.at + one.flow.gap;
                one.sent += 1;
            }
        }
        sending.retain(|one| one.sent < one.flow.count);
        self.sending = sending;
    }

    fn send_one(&mut self, one: &Sending) {
        let ip = self.ip_to(one.flow.to);
        let ip = Ip { dont_fragment: !one.flow.may_fragment, ecn: one.flow.ecn, ..ip };
        let payload = one.flow.payload(one.id, one.sent);
        self.send(builder::udp(ip, one.flow.ports, &payload));
    }

    /// Counts a datagram if it is part of a flow.
    ///
    /// One with other ports is not, whatever it carries: a cable that turns several bits can keep the checksum right,
    /// and to everybody on the way that is another flow, which may overtake this one.
    pub(super) fn is_of_flow(&mut self, tuple: Tuple, payload: &[u8], ecn: u8) -> bool {
        let Some((&head, rest)) = payload.split_first_chunk::<{ Flow::LEN_MIN }>() else { return false };
        let [a, b, c, d, i0, i1, i2, i3, n0, n1, n2, n3] = head;
        let number = u32::from_be_bytes([n0, n1, n2, n3]);
        let id = FlowId(u32::from_be_bytes([i0, i1, i2, i3]));
        if [a, b, c, d] != seal(id, number) {
            return false;
        }
        let known = self.tallies.entry(id).or_default().tuple.get_or_insert(tuple);
        if *known != tuple {
            return false;
        }
        let intact = rest.iter().zip(Flow::LEN_MIN..).all(|(byte, at)| *byte == filler(number, at));
        if !intact {
            self.complain(format!("payload of datagram {number} was changed"));
        }
        let tally = self.tallies.entry(id).or_default();
        tally.count(number, self.now);
        tally.marked += u32::from(ecn == 3);
        tally.arrived.push((number, self.now));
        true
    }
}

impl Tally {
    /// Whether this datagram has arrived.
    #[must_use]
    pub fn has(&self, number: u32) -> bool {
        let word = self.seen.get(number as usize / 64).copied().unwrap_or(0);
        word >> (number % 64) & 1 == 1
    }

    fn count(&mut self, number: u32, now: Instant) {
        let (word, bit) = (number as usize / 64, 1_u64 << (number % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            self.duplicates += 1;
            self.disorder.push(now);
            return;
        }
        self.seen[word] |= bit;
        self.received += 1;
        if number < self.next {
            self.late += 1;
            self.disorder.push(now);
        }
        self.next = self.next.max(number + 1);
    }
}
