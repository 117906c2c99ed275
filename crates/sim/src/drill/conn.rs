//! Which numbers of a script stand for which on the wire.

use core::net::IpAddr;
use std::collections::BTreeMap;

use drill::packet::{Flags, Ports};

/// How far a connection has come, as a script's packets and calls show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It listens.
    Listening,
    /// A packet was sent to it from outside.
    Asked,
    /// It has answered with a SYN.
    Answered,
    /// Its SYN was acknowledged.
    Stands,
    /// The program has asked it to connect.
    Connecting,
    /// It should have sent its SYN.
    SynSent,
}

/// A connection, or what may become one.
#[derive(Clone, Debug)]
pub(super) struct Conn {
    /// How far it has come.
    pub(super) phase: Phase,
    /// The host's port; 0 is none.
    pub(super) local_port: u16,
    /// The other end's port; 0 is none.
    pub(super) remote_port: u16,
    /// Where the host's sequence numbers begin: in the script, and on the wire.
    pub(super) local_isn: (u32, u32),
    /// Where those of the other end begin.
    pub(super) remote_isn: u32,
    /// Time stamps that the script expected, and those that came.
    stamps: BTreeMap<u32, u32>,
    /// The first of them.
    first_stamp: Option<(u32, u32)>,
}

impl Conn {
    /// One that nothing is known of.
    pub(super) const fn new(phase: Phase) -> Self {
        Self {
            phase,
            local_port: 0,
            remote_port: 0,
            local_isn: (0, 0),
            remote_isn: 0,
            stamps: BTreeMap::new(),
            first_stamp: None,
        }
    }

    /// The same between these ports.
    pub(super) const fn between(mut self, local_port: u16, remote_port: u16) -> Self {
        (self.local_port, self.remote_port) = (local_port, remote_port);
        self
    }

    /// Whether a packet from the host with these ports is of this connection.
    pub(super) const fn sends(&self, ports: Ports) -> bool {
        self.local_port == ports.src && self.remote_port == ports.dst
    }

    /// What is added to a sequence number of the other end.
    pub(super) const fn remote_offset(&self, flags: Flags) -> u32 {
        if flags.contains(Flags::SYN) { 0 } else { self.remote_isn }
    }

    /// What is added to a sequence number of the host, in a segment with these flags.
    ///
    /// Segments with a SYN have absolute numbers in a script, all others count from it.
    pub(super) const fn local_offset(&self, flags: Flags) -> u32 {
        let (script, live) = self.local_isn;
        if flags.contains(Flags::SYN) { live.wrapping_sub(script) } else { live }
    }

    /// What stands on the wire for the time stamp that a script echoes; `None` if the script expected no such stamp.
    pub(super) fn live_stamp(&self, script: u32) -> Option<u32> {
        self.stamps.get(&script).copied()
    }

    /// A time stamp came where the script expected one.
    pub(super) fn learn_stamp(&mut self, script: u32, live: u32) {
        self.stamps.insert(script, live);
        self.first_stamp.get_or_insert((script, live));
    }

    /// The script's time stamp for one on the wire.
    pub(super) fn script_stamp(&self, live: u32) -> u32 {
        let (script, first) = self.first_stamp.unwrap_or((live, live));
        script.wrapping_add(live.wrapping_sub(first))
    }
}

/// Who sends a packet, and to whom: addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// The sender.
    pub(super) src: (IpAddr, u16),
    /// The receiver.
    pub(super) dst: (IpAddr, u16),
}

impl Way {
    /// The way back.
    pub(super) const fn back(self) -> Self {
        Self { src: self.dst, dst: self.src }
    }
}
