//! Clients that complete their handshakes amid a flood, whatever is translated between the ends.

use core::net::IpAddr;

use sim::station::{Content, ReceivedPacket};
use sim::world::StationId;
use wire::tcp::Flags;

use super::scripted_ends::{STEP, segment};
use crate::common::Pair;

/// The first sequence number of call 0; the others follow, so that each is known wherever it is heard.
const MARK: u32 = 0x7000_0000;
const SERVER: u32 = 5000;
const SYN_ACK: Flags = Flags(Flags::SYN.0 | Flags::ACK.0);
const DATA: Flags = Flags(Flags::PSH.0 | Flags::ACK.0);

/// A connection from the first station, as that one names its ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    /// Which of all calls: its number makes its port, and its sequence numbers.
    pub(crate) number: u16,
    pub(crate) port: u16,
    /// Bytes that have been said.
    pub(crate) said: u32,
}

impl Call {
    pub(crate) fn new(from: IpAddr, to: IpAddr, number: u16) -> Self {
        Self { from, to, number, port: 80, said: 0 }
    }

    const fn seq(&self) -> u32 {
        MARK + ((self.number as u32) << 8)
    }

    /// Whether both ends hear all of a handshake, while `flood` sends what it sends before each step of it.
    pub(crate) fn gets_in(&self, pair: &mut Pair, mut flood: impl FnMut(&mut Pair)) -> bool {
        self.say(pair, Flags::SYN, self.seq(), 0);
        flood(pair);
        let Some(syn) = hears(pair, pair.b, |_, numbers| numbers[0] == self.seq()) else { return false };
        let Content::Tcp { ports: [from, to], .. } = syn.what else { return false };
        let answer = segment(syn.to, syn.from, [to, from], SYN_ACK, SERVER, self.seq() + 1);
        pair.world.at(pair.b).send(answer);
        flood(pair);
        let is_answer = |flags, numbers: [u32; 2]| flags == SYN_ACK.0 && numbers[1] == self.seq() + 1;
        if hears(pair, pair.a, is_answer).is_none() {
            return false;
        }
        self.say(pair, Flags::ACK, self.seq() + 1, SERVER + 1);
        flood(pair);
        hears(pair, pair.b, |_, numbers| numbers[0] == self.seq() + 1).is_some()
    }

    /// Whether the server hears another byte of an open connection, and the client that it did.
    pub(crate) fn goes_on(&mut self, pair: &mut Pair) -> bool {
        let seq = self.seq() + 1 + self.said;
        self.said += 1;
        self.say(pair, DATA, seq, SERVER + 1);
        let Some(byte) = hears(pair, pair.b, |_, numbers| numbers[0] == seq) else { return false };
        let Content::Tcp { ports: [from, to], .. } = byte.what else { return false };
        let answer = segment(byte.to, byte.from, [to, from], Flags::ACK, SERVER + 1, seq + 1);
        pair.world.at(pair.b).send(answer);
        hears(pair, pair.a, |flags, numbers| flags == Flags::ACK.0 && numbers[1] == seq + 1).is_some()
    }

    fn say(&self, pair: &mut Pair, flags: Flags, seq: u32, ack: u32) {
        let packet = segment(self.from, self.to, [4000 + self.number, self.port], flags, seq, ack);
        pair.world.at(pair.a).send(packet);
    }
}

/// The segment that a station hears within a few steps; all else is forgotten.
fn hears(
    pair: &mut Pair,
    station: StationId,
    is_it: impl Fn(u8, [u32; 2]) -> bool,
) -> Option<ReceivedPacket> {
    for _ in 0..8 {
        pair.world.run_for(STEP);
        let mut heard = core::mem::take(&mut pair.world.at(station).heard).into_iter();
        let found = heard.find(|heard| match heard.what {
            Content::Tcp { flags, numbers, .. } => is_it(flags, numbers),
            _ => false,
        });
        if found.is_some() {
            return found;
        }
    }
    None
}

/// SYNs of connections without clients: each from another source and port.
#[derive(Default)]
pub(crate) struct Syns {
    pub(crate) sent: u32,
}

impl Syns {
    /// Sends so many, to one of the ends that `to` names, and lets a step pass.
    pub(crate) fn send(&mut self, pair: &mut Pair, count: u32, to: &[(IpAddr, u16)]) {
        for _ in 0..count {
            self.sent += 1;
            let [_, host, high, low] = self.sent.wrapping_mul(0x9e37_79b9).to_be_bytes();
            let (dst, port) = to[self.sent as usize % to.len()];
            let src = match dst {
                IpAddr::V4(_) => sim::plan::Family::V4,
                IpAddr::V6(_) => sim::plan::Family::V6,
            }
            .addr(1, host.max(3));
            let ports = [u16::from_be_bytes([high, low]), port];
            pair.world.at(pair.a).send(segment(src, dst, ports, Flags::SYN, self.sent, 0));
        }
        pair.world.run_for(STEP);
    }

    /// Sends so many hundreds of them, without a receiver.
    pub(crate) fn pour(&mut self, pair: &mut Pair, hundreds: u32, to: &[(IpAddr, u16)]) {
        for _ in 0..hundreds {
            self.send(pair, 100, to);
            [pair.a, pair.b].into_iter().for_each(|station| pair.world.at(station).heard.clear());
        }
    }
}
