//! The program that chooses the TAP queue of a frame by our placement hash, so that the kernel delivers each
//! frame to the CPU that owns its flow.
//!
//! The hash is the symmetric Toeplitz one, whose key repeats two bytes. All 16-bit words of the input then
//! meet the same part of the key, so the hash of a tuple is that of the XOR of its words, and for 16 bits it
//! is linear: the XOR of one 16-bit window of the key per bit that is set.
//!
//! What is hashed is what [`net::rss`] hashes, and a test compares the two:
//!
//! | frame | hashed |
//! |---|---|
//! | TCP and UDP, neither fragmented nor behind IPv6 extension headers | addresses and ports |
//! | other IP, any fragment | addresses |
//! | ARP, neighbour discovery | the address that it is about |
//! | anything else, or cut short | nothing: queue 0 |
//!
//! One 802.1Q tag is looked through. From the hash follows the ring as in [`net::ringmap::RingMap::ring`]: computed,
//! because a program of this kind with a table would need a map. The kernel takes the result modulo the number of queues
//! attached, which changes nothing.

use super::BpfError;
use super::asm::{Alu, Asm, AsmError, Cond, Insn, Label, Reg, Size};
use super::prog::{Kind, Program};
use net::ringmap::{RingMap, Spread};

/// The two bytes that the key repeats.
pub const KEY: u16 = 0x6d5a;

/// The function of the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steer {
    /// Number of hash buckets, a power of two (128 by default).
    pub buckets: u16,
    /// Mapping of buckets to rings; `None` for the bucket itself.
    pub spread: Option<Spread>,
    /// Where packets begin.
    pub link: Link,
}

/// The link header of what is steered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Ethernet.
    Ethernet,
    /// None: IP packets, as a TUN device has them.
    None,
}

impl Steer {
    /// As the stack would have it.
    #[must_use]
    pub fn by(map: &RingMap, link: Link) -> Self {
        Self { buckets: map.buckets(), spread: Some(map.spread()), link }
    }
}

/// Loads the program.
///
/// # Errors
/// [`BpfError`].
pub fn load(steer: Steer) -> Result<Program, BpfError> {
    load_as(Kind::SocketFilter, steer)
}

/// Loads it as another kind; [`Kind::Classifier`] can be given Ethernet frames in a test run.
///
/// # Errors
/// [`BpfError`].
pub fn load_as(kind: Kind, steer: Steer) -> Result<Program, BpfError> {
    let insns = program(steer).map_err(|e| BpfError::Refused {
        doing: "assemble the steering program",
        source: std::io::Error::other(e),
    })?;
    Program::load("pantala_steer", kind, &insns, false)
}

fn program(steer: Steer) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Asm::new();
    let hash = asm.label();
    asm.mov(PACKET, Reg::R1).mov(FOLD, 0).mov(ANY, 0);
    match steer.link {
        Link::Ethernet => ether_type(&mut asm, hash),
        Link::None => ip_version(&mut asm, hash),
    }
    asm.place(hash);
    toeplitz(&mut asm, i32::from(steer.buckets.saturating_sub(1)));
    if let Some(spread) = steer.spread {
        ring(&mut asm, spread);
    }
    asm.exit();
    asm.finish()
}

/// Looks through a VLAN tag and folds what the frame's type asks for, then goes to `hash`.
fn ether_type(asm: &mut Asm, hash: Label) {
    let [untagged, ip4, ip6, arp] = [(); 4].map(|()| asm.label());
    asm.mov(L2_END, ETHER_HEADER);
    asm.load_packet(Size::Half, L2_END, -2).jump_if(Cond::Ne, Reg::R0, VLAN, untagged);
    asm.alu(Alu::Add, L2_END, VLAN_TAG).load_packet(Size::Half, L2_END, -2).place(untagged);
    asm.jump_if(Cond::Eq, Reg::R0, IP4, ip4).jump_if(Cond::Eq, Reg::R0, IP6, ip6);
    asm.jump_if(Cond::Eq, Reg::R0, ARP, arp).jump(hash);
    fold_ip4(asm, ip4, hash);
    fold_ip6(asm, ip6, hash);
    fold_arp(asm, arp, hash);
}

/// Folds what a packet without a link header asks for, then goes to `hash`.
fn ip_version(asm: &mut Asm, hash: Label) {
    let [ip4, ip6] = [(); 2].map(|()| asm.label());
    asm.mov(L2_END, 0).load_packet(Size::Byte, L2_END, 0).alu(Alu::Shr, Reg::R0, 4);
    asm.jump_if(Cond::Eq, Reg::R0, 4, ip4).jump_if(Cond::Eq, Reg::R0, 6, ip6).jump(hash);
    fold_ip4(asm, ip4, hash);
    fold_ip6(asm, ip6, hash);
}

//= https://www.rfc-editor.org/rfc/rfc791#section-3.1
fn fold_ip4(asm: &mut Asm, entry: Label, hash: Label) {
    const FRAGMENT: i32 = 0x3fff; // more fragments, or an offset
    const IHL_WORDS: i32 = 0x0f;
    let ports = asm.label();
    asm.place(entry);
    fold_words(asm, [12, 16]);
    asm.load_packet(Size::Half, L2_END, 6).jump_if(Cond::AnySet, Reg::R0, FRAGMENT, hash);
    asm.load_packet(Size::Byte, L2_END, 9);
    asm.jump_if(Cond::Eq, Reg::R0, TCP, ports).jump_if(Cond::Ne, Reg::R0, UDP, hash).place(ports);
    asm.load_packet(Size::Byte, L2_END, 0).alu(Alu::And, Reg::R0, IHL_WORDS).alu(Alu::Shl, Reg::R0, 2);
    asm.alu(Alu::Add, L2_END, Reg::R0);
    fold_words(asm, [0]);
    asm.jump(hash);
}

//= https://www.rfc-editor.org/rfc/rfc8200#section-3
fn fold_ip6(asm: &mut Asm, entry: Label, hash: Label) {
    let [ports, pair, icmp] = [(); 3].map(|()| asm.label());
    asm.place(entry).load_packet(Size::Byte, L2_END, 6).jump_if(Cond::Eq, Reg::R0, ICMP6, icmp);
    asm.jump_if(Cond::Eq, Reg::R0, TCP, ports).jump_if(Cond::Ne, Reg::R0, UDP, pair).place(ports);
    fold_words(asm, [40]);
    asm.jump(pair);
    fold_icmp6(asm, icmp, pair, hash);
    asm.place(pair);
    fold_words(asm, SRC6);
    fold_words(asm, DST6);
    asm.jump(hash);
}

/// Neighbour discovery goes by the address that it is about: the target of an advertisement, the source of
/// the rest, or its target where there is no source yet. Other ICMPv6 goes to `pair`.
//= https://www.rfc-editor.org/rfc/rfc4861#section-4
fn fold_icmp6(asm: &mut Asm, entry: Label, pair: Label, hash: Label) {
    let target = asm.label();
    asm.place(entry).load_packet(Size::Byte, L2_END, 40);
    asm.jump_if(Cond::Eq, Reg::R0, ND_ADVERTISEMENT, target);
    asm.alu(Alu::Sub, Reg::R0, ND_FIRST);
    asm.jump_if(Cond::Gt, Reg::R0, ND_LAST - ND_FIRST, pair); // unsigned: below the first is far above
    fold_words(asm, SRC6);
    asm.jump_if(Cond::Ne, ANY, 0, hash).place(target);
    fold_words(asm, TARGET6);
    asm.jump(hash);
}

//= https://www.rfc-editor.org/rfc/rfc826
/// By the sender's address, or by the target's if the sender is only probing for it.
fn fold_arp(asm: &mut Asm, entry: Label, hash: Label) {
    asm.place(entry);
    fold_words(asm, [14]);
    asm.jump_if(Cond::Ne, FOLD, 0, hash);
    fold_words(asm, [24]);
}

/// XORs the 32-bit words at these offsets from `L2_END` into `FOLD`, and ORs them into `ANY`.
fn fold_words<const N: usize>(asm: &mut Asm, offsets: [i32; N]) {
    for offset in offsets {
        asm.load_packet(Size::Word, L2_END, offset);
        asm.alu(Alu::Xor, FOLD, Reg::R0).alu(Alu::Or, ANY, Reg::R0);
    }
}

/// Folds `FOLD` to 16 bits and leaves its hash, masked, in `r0`.
fn toeplitz(asm: &mut Asm, mask: i32) {
    const HIGH: Reg = Reg::R1;
    const BIT: Reg = Reg::R2;
    asm.mov(HIGH, FOLD).alu(Alu::Shr, HIGH, 16).alu(Alu::Xor, FOLD, HIGH).mov(Reg::R0, 0);
    for bit in 0..16_u16 {
        // A product, not a branch, and not a mask of all ones: the verifier would follow both outcomes of
        // each of the 16, one after the other.
        asm.mov(BIT, FOLD).alu(Alu::Shr, BIT, i32::from(bit)).alu(Alu::And, BIT, 1);
        asm.alu(Alu::Mul, BIT, i32::from(window(bit))).alu(Alu::Xor, Reg::R0, BIT);
    }
    asm.alu(Alu::And, Reg::R0, mask);
}

/// From the bucket in `r0` to the ring in `r0`.
fn ring(asm: &mut Asm, Spread { rings, grid, rest }: Spread) {
    const ROUND: Reg = Reg::R1;
    let [rings, grid, rest] = [rings, grid, rest].map(i32::from);
    let within = asm.label();
    if rest > 0 {
        asm.mov(ROUND, Reg::R0).alu(Alu::Div, ROUND, grid).alu(Alu::Mod, Reg::R0, grid);
        // Less than this is of the part that fills all rings.
        asm.mov(Reg::R2, grid - rest).jump_if(Cond::Gt, Reg::R2, Reg::R0, within);
        asm.alu(Alu::Mul, ROUND, rest).alu(Alu::Sub, Reg::R0, grid - rest).alu(Alu::Add, Reg::R0, ROUND);
    }
    asm.place(within).alu(Alu::Mod, Reg::R0, rings);
}

/// The 16 bits of the key that meet bit `bit` (0: the lowest) of a word; the first bit meets the key as it is.
fn window(bit: u16) -> u16 {
    KEY.rotate_left(u32::from(15 - bit))
}

const PACKET: Reg = Reg::R6; // where load_packet looks for it
const L2_END: Reg = Reg::R7;
const FOLD: Reg = Reg::R8;
const ANY: Reg = Reg::R9;
const ETHER_HEADER: i32 = 14;
const VLAN_TAG: i32 = 4;
const VLAN: i32 = 0x8100;
const IP4: i32 = 0x0800;
const IP6: i32 = 0x86dd;
const ARP: i32 = 0x0806;
const TCP: i32 = 6;
const UDP: i32 = 17;
const ICMP6: i32 = 58;
const ND_FIRST: i32 = 133; // router solicitation
const ND_ADVERTISEMENT: i32 = 136;
const ND_LAST: i32 = 137; // redirect
/// Offsets in the IPv6 packet, by words.
const SRC6: [i32; 4] = [8, 12, 16, 20];
const DST6: [i32; 4] = [24, 28, 32, 36];
/// Offset of the target address of neighbour discovery.
const TARGET6: [i32; 4] = [48, 52, 56, 60];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_agree_with_the_published_table_values() {
        // T0[x] is the hash of x << 8, T1[x] that of x; the lower half repeats the upper.
        let hash = |x: u16| (0..16).filter(|b| x >> b & 1 == 1).fold(0, |h, b| h ^ window(b));
        assert_eq!([hash(0x0100), hash(0x8000), hash(0xff00)], [0xad36, 0x6d5a, 0xed12]);
        assert_eq!([hash(0x0001), hash(0x0080), hash(0x00ff)], [0x36ad, 0x5a6d, 0x12ed]);
    }

    #[test]
    fn the_program_is_well_formed_and_short() {
        for link in [Link::Ethernet, Link::None] {
            let steer = Steer { buckets: 128, spread: Some(Spread { rings: 3, grid: 5, rest: 2 }), link };
            assert!(program(steer).unwrap().len() < 256);
        }
    }
}
