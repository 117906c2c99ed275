//! Lookup tables that rules ask: addresses, numbers, interfaces, link addresses, flows, and a value for each.
//!
//! A [`Lookup`] is what all CPUs read: tries of atomic words, as routes have them. [`Lookups`] is the one hand that
//! changes them, in place, while the CPUs go on reading; no ruleset is compiled for it. A lookup during a change of an entry
//! gets the value of before or after. Memory freed by a change is reused after a message has visited all
//! CPUs: [`Lookups::retire`].

mod error;
mod held;
mod writer;
mod values;

use core::hash::Hasher;
use core::net::IpAddr;
use std::sync::Arc;

use ipfw::command::{FlowPart, FlowParts, TableKind};
use ipfw::rule::TableArg;
use siphasher::sip128::{Hasher128, SipHasher13};

pub use error::Error;
pub use writer::{ENTRIES_DEFAULT, ENTRIES_MAX, Info, Lookups, TABLES_MAX};

use super::pkt_info::PktInfo;
use crate::fib::Trie;
use values::Values;

/// A table, as CPUs read it.
#[derive(Debug)]
pub struct Lookup {
    kind: TableKind,
    /// Addresses of IPv4; of tables of another kind, all keys.
    first: Trie,
    /// Addresses of IPv6.
    v6: Option<Trie>,
    values: Arc<Values>,
    /// Keys the hash that names flows.
    key: u128,
}

impl Lookup {
    /// Returns the type of its keys.
    #[must_use]
    pub const fn kind(&self) -> TableKind {
        self.kind
    }

    /// The value of the longest prefix that covers an address; IPv4's is in the lower bits.
    pub(super) fn addr(&self, is_ip4: bool, addr: u128) -> Option<TableArg> {
        let (trie, key) = match &self.v6 {
            Some(v6) if !is_ip4 => (v6, addr),
            _ => (&self.first, addr << 96),
        };
        let is_of_addresses = self.kind == TableKind::Addr;
        if is_of_addresses { self.values.get(trie.find(key)) } else { None }
    }

    /// The value of a number; of a table of interfaces, of an interface's index.
    pub(super) fn number(&self, number: u32) -> Option<TableArg> {
        let has_numbers = matches!(self.kind, TableKind::Number | TableKind::Iface);
        if has_numbers { self.values.get(self.first.find(u128::from(number) << 96)) } else { None }
    }

    /// The value of the longest prefix that covers a link address of 48 bits.
    pub(super) fn mac(&self, mac: u64) -> Option<TableArg> {
        let is_of_macs = self.kind == TableKind::Mac;
        if is_of_macs { self.values.get(self.first.find(u128::from(mac) << MAC_SHIFT)) } else { None }
    }

    /// The value of a packet's flow.
    pub(super) fn flow(&self, info: &PktInfo) -> Option<TableArg> {
        let TableKind::Flow(parts) = self.kind else { return None };
        let ports = if info.has_ports() { (info.src_port, info.dst_port) } else { (0, 0) };
        let all = [
            (parts.src_ip, FlowPart::Addr(info.src_addr())),
            (parts.proto, FlowPart::Number(info.proto.into())),
            (parts.src_port, FlowPart::Number(ports.0)),
            (parts.dst_ip, FlowPart::Addr(info.dst_addr())),
            (parts.dst_port, FlowPart::Number(ports.1)),
        ];
        let asked = all.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, part)| part);
        self.values.get(self.first.find(flow_key(self.key, asked)))
    }
}

/// Link addresses are keys of 48 bits.
const MAC_SHIFT: u32 = 128 - 48;

/// Returns the key of a flow: a keyed hash so long that no two flows collide, unless the key is known.
fn flow_key(key: u128, parts: impl Iterator<Item = FlowPart>) -> u128 {
    let mut hasher = SipHasher13::new_with_key(&key.to_le_bytes());
    for part in parts {
        match part {
            FlowPart::Addr(IpAddr::V4(addr)) => hasher.write_u32(addr.to_bits()),
            FlowPart::Addr(IpAddr::V6(addr)) => hasher.write_u128(addr.to_bits()),
            FlowPart::Number(number) => hasher.write_u16(number),
        }
    }
    hasher.finish128().as_u128()
}

/// Which of its parts are addresses, in their order.
fn shape(parts: FlowParts) -> impl Iterator<Item = bool> {
    let all = [
        (parts.src_ip, true),
        (parts.proto, false),
        (parts.src_port, false),
        (parts.dst_ip, true),
        (parts.dst_port, false),
    ];
    all.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, is_addr)| is_addr)
}

#[cfg(test)]
mod tests;
