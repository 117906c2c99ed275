//! The XDP program of an interface that the kernel goes on using: it takes what is for us, and passes the rest on.
//!
//! One frame goes one way. So broadcast and multicast frames go to the kernel, and a packet socket brings a copy
//! ([`copies`]); except ARP and neighbour discovery that ask for an address of ours, which the kernel must not answer.

use core::net::IpAddr;
use core::ops::RangeInclusive;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::BpfError;
use super::asm::{Alu, Asm, AsmError, Cond, Helper, Insn, Label, Reg, Size};
use super::map::{AddressMap, XskMap};
use super::prog::{Kind, Program};
use super::redirect::NAME;

/// The frames that are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Frames to a link address that differs from the interface's own.
    LinkAddress,
    /// Frames to the interface's own link address, by their IP destinations.
    Addresses,
}

/// Addresses of both owners, and what decides where they are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Our addresses, of all interfaces.
    pub ours: Vec<IpAddr>,
    /// The kernel's, of all interfaces.
    pub kernels: Vec<IpAddr>,
    /// Protocols and ports at addresses of both that the kernel has.
    pub ports: Vec<(u8, RangeInclusive<u16>)>,
    /// Whether packets to addresses of neither are ours, as a router's are.
    pub forwards: bool,
}

/// The owners of addresses, as the program looks them up.
#[derive(Debug)]
pub struct Owners {
    map: AddressMap,
    held: Mutex<BTreeMap<Key, u32>>,
}

/// An address, those of IPv4 mapped; or a protocol and a port behind [`PORT_KEY`].
type Key = [u8; 16];

/// Entries of the map: two protocols with all ports, and addresses.
const ENTRIES_MAX: u32 = (2 << 16) + 4096;
const OURS: u32 = 1;
const KERNELS: u32 = 2;
const BOTH: u32 = OURS | KERNELS;
/// The destination that no packet has. Its owner gets what is neither's.
const OTHERS: Key = [0; 16];
/// The first byte of a key of a protocol and a port: no unicast address begins with it.
const PORT_KEY: u8 = 0xff;

impl Owners {
    /// A map without owners: everything is the kernel's.
    ///
    /// # Errors
    /// [`BpfError::Permission`].
    pub fn new() -> Result<Self, BpfError> {
        Ok(Self { map: AddressMap::new(ENTRIES_MAX)?, held: Mutex::default() })
    }

    /// Changes the map to these shares, entry by entry, while frames come.
    ///
    /// # Errors
    /// [`BpfError::Refused`] if there are too many.
    pub fn set(&self, shares: &Shares) -> Result<(), BpfError> {
        let wanted = shares.entries();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, owner) in wanted.iter().filter(|(key, owner)| held.get(*key) != Some(owner)) {
            self.map.set(key, *owner)?;
        }
        for key in held.keys().filter(|key| !wanted.contains_key(*key)) {
            self.map.remove(key)?;
        }
        *held = wanted;
        drop(held);
        Ok(())
    }
}

impl Shares {
    fn entries(&self) -> BTreeMap<Key, u32> {
        let mut entries = BTreeMap::new();
        let owned = self.ours.iter().map(|addr| (addr, OURS));
        for (addr, owner) in owned.chain(self.kernels.iter().map(|addr| (addr, KERNELS))) {
            *entries.entry(key(*addr)).or_default() |= owner;
        }
        if self.forwards {
            entries.insert(OTHERS, OURS);
        }
        for (protocol, ports) in &self.ports {
            entries.extend(ports.clone().map(|port| (port_key(*protocol, port), KERNELS)));
        }
        entries
    }
}

fn key(addr: IpAddr) -> Key {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().octets(),
        IpAddr::V6(addr) => addr.octets(),
    }
}

fn port_key(protocol: u8, port: u16) -> Key {
    let mut key = [0; 16];
    let [high, low] = port.to_be_bytes();
    (key[0], key[8], key[12], key[13]) = (PORT_KEY, protocol, high, low);
    key
}

/// Loads the program for the link address `mac`. `frags`: accept frames in several pieces.
///
/// # Errors
/// [`BpfError`].
pub fn load(
    sockets: &XskMap,
    owners: &Owners,
    claim: Claim,
    mac: [u8; 6],
    frags: bool,
) -> Result<Program, BpfError> {
    Program::load(NAME, Kind::Xdp, &assembled(sockets, owners, claim, mac)?, frags)
}

/// Assembles it.
pub(crate) fn assembled(
    sockets: &XskMap,
    owners: &Owners,
    claim: Claim,
    mac: [u8; 6],
) -> Result<Vec<Insn>, BpfError> {
    let take = |asm: &mut Asm| {
        asm.load(Size::Word, Reg::R2, CONTEXT, RX_QUEUE_INDEX).load_map(Reg::R1, sockets);
        asm.mov(Reg::R3, XDP_PASS).call(Helper::RedirectMap).exit();
    };
    program(owners, claim, mac, take).map_err(assemble)
}

/// Loads the filter of a packet socket: what the program passes on that is ours too.
///
/// # Errors
/// [`BpfError`].
pub fn copies() -> Result<Program, BpfError> {
    let insns = copies_program().map_err(assemble)?;
    Program::load("pantala_copies", Kind::SocketFilter, &insns, false)
}

fn assemble(why: AsmError) -> BpfError {
    BpfError::Refused { doing: "assemble a program", source: std::io::Error::other(why) }
}

/// The parts of the program that others jump to.
struct Labels {
    take: Label,
    pass: Label,
    /// The key is on the stack; `PROTOCOL` and `PORT_AT` say what decides between two owners.
    owner: Label,
}

fn program(
    owners: &Owners,
    claim: Claim,
    mac: [u8; 6],
    take: impl FnOnce(&mut Asm),
) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Asm::new();
    let [taken, pass, owner, group] = [(); 4].map(|()| asm.label());
    let labels = Labels { take: taken, pass, owner };
    asm.mov(CONTEXT, Reg::R1).load(Size::Word, FRAME, CONTEXT, DATA).load(Size::Word, END, CONTEXT, DATA_END);
    need(&mut asm, ETHER_HEADER, pass);
    asm.load(Size::Byte, Reg::R2, FRAME, 0).jump_if(Cond::AnySet, Reg::R2, 1, group);
    for (at, half) in (0..).step_by(2).zip(mac.chunks_exact(2)) {
        asm.load(Size::Half, Reg::R2, FRAME, at);
        asm.jump_if(Cond::Ne, Reg::R2, i32::from(in_memory([half[0], half[1]])), pass);
    }
    if claim == Claim::LinkAddress {
        asm.jump(taken).place(group).place(owner);
    } else {
        unicast(&mut asm, &labels);
        asm.place(group);
        asked_for(&mut asm, &labels);
        asm.place(owner);
        decide(&mut asm, owners, &labels);
    }
    asm.place(pass).mov(Reg::R0, XDP_PASS).exit();
    asm.place(taken);
    take(&mut asm);
    asm.finish()
}

/// Frames to our link address: by the IP destination, or the target of ARP.
fn unicast(asm: &mut Asm, labels: &Labels) {
    let [ip4, ip6] = [(); 2].map(|()| asm.label());
    ether_type(asm, labels.pass);
    asm.jump_if(Cond::Eq, TYPE, in_memory_i(IP4), ip4).jump_if(Cond::Eq, TYPE, in_memory_i(IP6), ip6);
    asm.jump_if(Cond::Ne, TYPE, in_memory_i(ARP), labels.pass);
    need(asm, ARP_END, labels.pass);
    // An answer to a question that either may have asked.
    asm.load(Size::Half, Reg::R2, FRAME, ARP_OPERATION).mov(PROTOCOL, 0).mov(PORT, 0);
    let request = asm.label();
    asm.jump_if(Cond::Ne, Reg::R2, in_memory_i(ARP_REPLY), request).mov(PROTOCOL, REPLY).place(request);
    key4(asm, ARP_TARGET);
    asm.jump(labels.owner);

    asm.place(ip4);
    need(asm, ETHER_HEADER + 20, labels.pass);
    asm.load(Size::Byte, PROTOCOL, FRAME, 14 + 9).mov(PORT, 0);
    key4(asm, 14 + 16);
    // Ports are where they are only behind a header without options, in a first fragment.
    let [rest, ports] = [(); 2].map(|()| asm.label());
    asm.load(Size::Byte, Reg::R2, FRAME, 14).jump_if(Cond::Ne, Reg::R2, 0x45, rest);
    asm.load(Size::Half, Reg::R2, FRAME, 14 + 6);
    asm.jump_if(Cond::AnySet, Reg::R2, in_memory_i(0x1fff), rest).jump(ports);
    asm.place(rest).jump(labels.owner);
    asm.place(ports);
    need(asm, ETHER_HEADER + 20 + 4, labels.owner);
    asm.load(Size::Half, PORT, FRAME, 14 + 20 + 2).jump(labels.owner);

    asm.place(ip6);
    need(asm, ETHER_HEADER + 40, labels.pass);
    asm.load(Size::Byte, PROTOCOL, FRAME, 14 + 6).mov(PORT, 0);
    key6(asm, 14 + 24);
    need(asm, ETHER_HEADER + 40 + 4, labels.owner);
    let transport = asm.label();
    asm.jump_if(Cond::Ne, PROTOCOL, ICMP6, transport);
    asm.load(Size::Byte, Reg::R2, FRAME, 14 + 40);
    for reply in [ND_ROUTER_ADVERTISEMENT, ND_ADVERTISEMENT] {
        let other = asm.label();
        asm.jump_if(Cond::Ne, Reg::R2, reply, other).mov(PROTOCOL, REPLY).place(other);
    }
    asm.jump(labels.owner);
    asm.place(transport).load(Size::Half, PORT, FRAME, 14 + 40 + 2).jump(labels.owner);
}

/// Frames to groups: ARP requests and neighbour solicitations have one that they ask for.
fn asked_for(asm: &mut Asm, labels: &Labels) {
    let ip6 = asm.label();
    asm.mov(PROTOCOL, 0).mov(PORT, 0);
    ether_type(asm, labels.pass);
    asm.jump_if(Cond::Eq, TYPE, in_memory_i(IP6), ip6).jump_if(Cond::Ne, TYPE, in_memory_i(ARP), labels.pass);
    need(asm, ARP_END, labels.pass);
    asm.load(Size::Half, Reg::R2, FRAME, ARP_OPERATION);
    asm.jump_if(Cond::Ne, Reg::R2, in_memory_i(ARP_REQUEST), labels.pass);
    // One that tells an address, or probes for it by its own: news for both.
    asm.load(Size::Word, Reg::R2, FRAME, ARP_SENDER).load(Size::Word, Reg::R3, FRAME, ARP_TARGET);
    asm.jump_if(Cond::Eq, Reg::R2, Reg::R3, labels.pass);
    key4(asm, ARP_TARGET);
    asm.mov(PROTOCOL, QUESTION).jump(labels.owner);

    asm.place(ip6);
    need(asm, ETHER_HEADER + 40 + 24, labels.pass);
    asm.load(Size::Byte, Reg::R2, FRAME, 14 + 6).jump_if(Cond::Ne, Reg::R2, ICMP6, labels.pass);
    asm.load(Size::Byte, Reg::R2, FRAME, 14 + 40).jump_if(Cond::Ne, Reg::R2, ND_SOLICITATION, labels.pass);
    key6(asm, 14 + 40 + 8);
    asm.mov(PROTOCOL, QUESTION).jump(labels.owner);
}

/// By the owner of the key on the stack. What is both's is ours, but for the kernel's ports, and answers.
fn decide(asm: &mut Asm, owners: &Owners, labels: &Labels) {
    let [found, both] = [(); 2].map(|()| asm.label());
    look_up(asm, owners);
    asm.jump_if(Cond::Ne, Reg::R0, 0, found);
    // A question for an address of neither is no packet to be forwarded.
    asm.jump_if(Cond::Eq, PROTOCOL, QUESTION, labels.pass);
    asm.store(Size::Double, Reg::R10, KEY_AT, 0).store(Size::Double, Reg::R10, KEY_AT + 8, 0);
    look_up(asm, owners);
    asm.jump_if(Cond::Eq, Reg::R0, 0, labels.pass).jump(labels.take);

    asm.place(found).load(Size::Word, Reg::R2, Reg::R0, 0);
    asm.jump_if(Cond::Eq, Reg::R2, number(OURS), labels.take);
    asm.jump_if(Cond::Eq, Reg::R2, number(BOTH), both).jump(labels.pass);
    asm.place(both).jump_if(Cond::Eq, PROTOCOL, QUESTION, labels.take);
    asm.jump_if(Cond::Eq, PROTOCOL, REPLY, labels.pass);
    asm.store(Size::Double, Reg::R10, KEY_AT, 0).store(Size::Byte, Reg::R10, KEY_AT, i32::from(PORT_KEY));
    asm.store(Size::Double, Reg::R10, KEY_AT + 8, 0).store(Size::Byte, Reg::R10, KEY_AT + 8, PROTOCOL);
    asm.store(Size::Half, Reg::R10, KEY_AT + 12, PORT);
    look_up(asm, owners);
    asm.jump_if(Cond::Eq, Reg::R0, 0, labels.take);
}

/// `r0 =` the value of the key on the stack, or 0.
fn look_up(asm: &mut Asm, owners: &Owners) {
    asm.load_map(Reg::R1, &owners.map).mov(Reg::R2, Reg::R10).alu(Alu::Add, Reg::R2, i32::from(KEY_AT));
    asm.call(Helper::MapLookup);
}

/// Loads the type of the frame, behind a tag if it has one; the frame then begins behind the tag.
fn ether_type(asm: &mut Asm, pass: Label) {
    let untagged = asm.label();
    asm.load(Size::Half, TYPE, FRAME, 12).jump_if(Cond::Ne, TYPE, in_memory_i(VLAN), untagged);
    need(asm, ETHER_HEADER + 4, pass);
    asm.alu(Alu::Add, FRAME, 4).load(Size::Half, TYPE, FRAME, 12).place(untagged);
}

/// Goes to `to` if the frame has fewer bytes.
fn need(asm: &mut Asm, bytes: i32, to: Label) {
    asm.mov(Reg::R2, FRAME).alu(Alu::Add, Reg::R2, bytes).jump_if(Cond::Gt, Reg::R2, END, to);
}

/// Puts the IPv4 address at `at` onto the stack as a key.
fn key4(asm: &mut Asm, at: i16) {
    asm.store(Size::Double, Reg::R10, KEY_AT, 0);
    asm.store(Size::Word, Reg::R10, KEY_AT + 8, i32::from_ne_bytes([0, 0, 0xff, 0xff]));
    asm.load(Size::Word, Reg::R2, FRAME, at).store(Size::Word, Reg::R10, KEY_AT + 12, Reg::R2);
}

/// Puts the IPv6 address at `at` onto the stack as a key.
fn key6(asm: &mut Asm, at: i16) {
    for offset in [0, 4, 8, 12] {
        asm.load(Size::Word, Reg::R2, FRAME, at + offset).store(
            Size::Word,
            Reg::R10,
            KEY_AT + offset,
            Reg::R2,
        );
    }
}

/// Frames to groups, and answers about neighbours.
fn copies_program() -> Result<Vec<Insn>, AsmError> {
    let mut asm = Asm::new();
    let [copy, none] = [(); 2].map(|()| asm.label());
    asm.mov(CONTEXT, Reg::R1).mov(FRAME, 0);
    asm.load_packet(Size::Byte, FRAME, 0).jump_if(Cond::AnySet, Reg::R0, 1, copy);
    asm.load_packet(Size::Half, FRAME, 12).jump_if(Cond::Eq, Reg::R0, i32::from(ARP), copy);
    asm.jump_if(Cond::Ne, Reg::R0, i32::from(IP6), none);
    asm.load_packet(Size::Byte, FRAME, 14 + 6).jump_if(Cond::Ne, Reg::R0, ICMP6, none);
    asm.load_packet(Size::Byte, FRAME, 14 + 40);
    for kind in [ND_ROUTER_ADVERTISEMENT, ND_ADVERTISEMENT] {
        asm.jump_if(Cond::Eq, Reg::R0, kind, copy);
    }
    asm.place(none).mov(Reg::R0, 0).exit();
    asm.place(copy).mov(Reg::R0, i32::from(u16::MAX)).exit();
    asm.finish()
}

/// Two bytes of a frame as the number that the processor reads.
fn in_memory(bytes: [u8; 2]) -> u16 {
    u16::from_ne_bytes(bytes)
}

fn in_memory_i(word: u16) -> i32 {
    i32::from(in_memory(word.to_be_bytes()))
}

fn number(owner: u32) -> i32 {
    owner.cast_signed()
}

/// The context, where [`Asm::load_packet`] looks for it too.
const CONTEXT: Reg = Reg::R6;
const FRAME: Reg = Reg::R7;
const END: Reg = Reg::R5;
const TYPE: Reg = Reg::R4;
const PROTOCOL: Reg = Reg::R8;
const PORT: Reg = Reg::R9;
/// In place of a protocol: an answer about a neighbour, or a question for one.
const REPLY: i32 = 0x100;
const QUESTION: i32 = 0x101;
/// Offset of the key on the stack.
const KEY_AT: i16 = -16;
/// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const RX_QUEUE_INDEX: i16 = 16;
const XDP_PASS: i32 = 2;
const ETHER_HEADER: i32 = 14;
const VLAN: u16 = 0x8100;
const IP4: u16 = 0x0800;
const IP6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
const ARP_REQUEST: u16 = 1;
const ARP_REPLY: u16 = 2;
const ARP_OPERATION: i16 = 20;
const ARP_SENDER: i16 = 28;
const ARP_TARGET: i16 = 38;
const ARP_END: i32 = 42;
const ICMP6: i32 = 58;
const ND_ROUTER_ADVERTISEMENT: i32 = 134;
const ND_SOLICITATION: i32 = 135;
const ND_ADVERTISEMENT: i32 = 136;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_two_owners_has_both_and_only_routers_get_what_is_neithers() {
        let both = "192.0.2.1".parse().unwrap();
        let shares = Shares {
            ours: vec![both, "2001:db8::1".parse().unwrap()],
            kernels: vec![both, "::1".parse().unwrap()],
            ports: vec![(6, 22..=23)],
            forwards: false,
        };
        let entries = shares.entries();
        assert_eq!(entries[&key(both)], BOTH);
        assert_eq!(entries[&key("::1".parse().unwrap())], KERNELS);
        assert_eq!(entries[&port_key(6, 23)], KERNELS);
        assert_eq!((entries.len(), entries.get(&OTHERS)), (5, None));
        assert_eq!(Shares { forwards: true, ..shares }.entries()[&OTHERS], OURS);
    }
}
