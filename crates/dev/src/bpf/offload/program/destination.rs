//! Packets to a destination whose route alone decides, whatever their flow.
//!
//! Checks of input are made here as well: a source may be one at all, and is none of our own addresses.

use super::super::layout::{BITS, FACTOR, Family, Kind, OWN_SHIFT, ctl, port, version};
use super::super::table::Maps;

use super::{
    FRAME, LENGTH, LENGTH_AT, Labels, PORT_KEY, PROTOCOL, PROTOCOL_AT, PSEUDO, TCP, UDP, find, fold_wide,
    forward, hash_first, hash_next, multiply, need, wire_order,
};
use crate::bpf::asm::{Alu, Asm, Cond, Label, Reg, Size};

/// Forwards the packet in hand if its destination has a record. Goes on behind this, with all registers as before, if not.
pub(super) fn follow(asm: &mut Asm, maps: &Maps<'_>, labels: &Labels, family: Family) {
    let [on, miss, found] = [(); 3].map(|()| asm.label());
    asm.load_map_value(Reg::R1, maps.control).mov(Reg::R2, 0);
    for (_, count) in family.common_bits() {
        asm.load(Size::Word, Reg::R3, Reg::R1, count).alu(Alu::Or, Reg::R2, Reg::R3);
    }
    asm.jump_if(Cond::Eq, Reg::R2, 0, on);
    asm.load(Size::Byte, Reg::R2, FRAME, family.ttl_at()).jump_if(Cond::Le, Reg::R2, 1, on);
    protocol(asm, family, on);
    asm.store(Size::Double, Reg::R10, LENGTH_AT, LENGTH).store(Size::Double, Reg::R10, PROTOCOL_AT, PROTOCOL);
    source(asm, maps, family, miss);
    #[expect(clippy::cast_possible_truncation, reason = "4 or 6")]
    asm.alu(Alu::Or, PORT_KEY, version(family) as i32);
    let mut before = 0;
    for (bits, count) in family.common_bits() {
        let next = asm.label();
        asm.alu(Alu::Xor, PORT_KEY, i32::from(bits ^ before) << BITS);
        asm.load_map_value(Reg::R1, maps.control).load(Size::Word, Reg::R1, Reg::R1, count);
        asm.jump_if(Cond::Eq, Reg::R1, 0, next);
        slot(asm, maps, &Labels { up: next, ..*labels }, (family, bits));
        asm.jump(found).place(next);
        before = bits;
    }
    asm.jump(miss).place(found);
    forward(asm, maps, &Labels { up: miss, ..*labels }, (family, Kind::Destination));
    asm.place(miss);
    asm.load(Size::Word, FRAME, Reg::R6, 0).load(Size::Word, Reg::R5, Reg::R6, 4);
    need(asm, 14 + if family == Family::V4 { 20 } else { 40 } + 8, labels.up);
    asm.load(Size::Double, LENGTH, Reg::R10, LENGTH_AT).load(Size::Double, PROTOCOL, Reg::R10, PROTOCOL_AT);
    asm.load_map_value(Reg::R1, maps.port).load(Size::Double, PORT_KEY, Reg::R1, port::KEY);
    asm.place(on);
}

/// Leaves to the stack all protocols but those whose checksums are known to be whole or can be told from partial ones, and messages
/// of neighbour discovery: one that asks for a published address is answered here.
fn protocol(asm: &mut Asm, family: Family, on: Label) {
    let [tcp, known] = [(); 2].map(|()| asm.label());
    asm.jump_if(Cond::Eq, PROTOCOL, TCP, tcp);
    for protocol in [UDP, ESP] {
        asm.jump_if(Cond::Eq, PROTOCOL, protocol, known);
    }
    match family {
        Family::V4 => asm.jump_if(Cond::Eq, PROTOCOL, ICMP, known).jump(on),
        Family::V6 => asm
            .jump_if(Cond::Ne, PROTOCOL, ICMP6, on)
            .load(Size::Byte, Reg::R2, FRAME, family.l4_at())
            .jump_if(Cond::Lt, Reg::R2, i32::from(DISCOVERY.0), known)
            .jump_if(Cond::Gt, Reg::R2, i32::from(DISCOVERY.1), known)
            .jump(on),
    };
    asm.place(tcp);
    need(asm, i32::from(family.l4_at()) + 20, on);
    asm.place(known);
}

/// Leaves to the stack what does not come from a host of others: RFC 1812 §5.3.7, RFC 4291 §2.5.6 and §2.7. `r0` and `r4` are used.
fn source(asm: &mut Asm, maps: &Maps<'_>, family: Family, on: Label) {
    let (at, _) = family.addresses_at();
    match family {
        Family::V4 => {
            asm.load(Size::Byte, Reg::R2, FRAME, at).jump_if(Cond::Eq, Reg::R2, 0, on);
            asm.jump_if(Cond::Eq, Reg::R2, 127, on).jump_if(Cond::Ge, Reg::R2, 224, on);
            asm.load(Size::Half, Reg::R2, FRAME, at).jump_if(Cond::Eq, Reg::R2, wire_order(0xa9fe), on);
        }
        // Unspecified, loopback, mapped; groups; of the link.
        Family::V6 => {
            asm.load(Size::Double, Reg::R2, FRAME, at).jump_if(Cond::Eq, Reg::R2, 0, on);
            asm.alu(Alu::And, Reg::R2, wire_order(0xff00)).jump_if(Cond::Eq, Reg::R2, wire_order(0xff00), on);
            asm.load(Size::Half, Reg::R2, FRAME, at).alu(Alu::And, Reg::R2, wire_order(0xffc0));
            asm.jump_if(Cond::Eq, Reg::R2, wire_order(0xfe80), on);
        }
    }
    // Our own, perhaps: its bits are those of `own_bits`.
    if family == Family::V4 {
        asm.load(Size::Word, Reg::R2, FRAME, at);
        multiply(asm, Reg::R2);
    } else {
        asm.load(Size::Double, Reg::R2, FRAME, at);
        multiply(asm, Reg::R2);
        asm.load(Size::Double, Reg::R3, FRAME, at + 8).alu(Alu::Xor, Reg::R2, Reg::R3);
    }
    asm.load_number(Reg::R3, FACTOR).alu(Alu::Mul, Reg::R2, Reg::R3);
    let others = asm.label();
    asm.alu(Alu::Shr, Reg::R2, OWN_SHIFT.cast_signed()).mov(Reg::R4, Reg::R2);
    asm.alu(Alu::Shr, Reg::R4, ctl::OWN_BITS.ilog2().cast_signed());
    asm.alu(Alu::And, Reg::R2, ctl::OWN_BITS.cast_signed() - 1);
    for bit in [Reg::R4, Reg::R2] {
        asm.mov(Reg::R3, bit).alu(Alu::Shr, Reg::R3, 6).alu(Alu::Shl, Reg::R3, 3).alu(Alu::And, bit, 63);
        asm.load_map_value(Reg::R1, maps.control).alu(Alu::Add, Reg::R1, Reg::R3);
        asm.load(Size::Double, Reg::R1, Reg::R1, ctl::OWN).alu(Alu::Shr, Reg::R1, bit);
        asm.alu(Alu::And, Reg::R1, 1).jump_if(Cond::Eq, Reg::R1, 0, others);
    }
    asm.jump(on).place(others);
}

/// Finds the slot of the destinations that have so many bits in common with that of the packet: leaves it in `r8`.
fn slot(asm: &mut Asm, maps: &Maps<'_>, labels: &Labels, (family, bits): (Family, u8)) {
    hash_words(asm, maps, (family, bits));
    // Of IPv4 the second word is nothing: the version is in the rest of the key.
    find(asm, maps, labels, Kind::Destination, |asm, slot_at, miss| {
        for (at, word) in (0..).step_by(8).zip(words(family, bits)) {
            asm.load(Size::Double, Reg::R1, Reg::R0, slot_at + at);
            match word {
                Some(word) => common(asm, Reg::R2, word).jump_if(Cond::Ne, Reg::R1, Reg::R2, miss),
                None => asm.jump_if(Cond::Ne, Reg::R1, 0, miss),
            };
        }
    });
}

/// Hashes the key, into `r1`.
fn hash_words(asm: &mut Asm, maps: &Maps<'_>, key: (Family, u8)) {
    let [first, second] = words(key.0, key.1);
    let load = |asm: &mut Asm, into, word| match word {
        Some(word) => _ = common(asm, into, word),
        None => _ = asm.mov(into, 0),
    };
    load(asm, Reg::R1, first);
    hash_first(asm, maps, Reg::R1);
    load(asm, Reg::R2, second);
    hash_next(asm, Reg::R1, Reg::R2, maps.secret[1]);
    hash_next(asm, Reg::R1, PORT_KEY, maps.secret[1]);
}

/// A word of a destination in a frame: its size and place, and bits behind the common ones.
type Word = (Size, i16, i32);

/// The words of a destination; `None`: nothing of it is common.
fn words(family: Family, bits: u8) -> [Option<Word>; 2] {
    let (at, bytes) = family.addresses_at();
    let (at, bits) = (at + bytes / 2, i32::from(bits));
    match family {
        Family::V4 => [Some((Size::Word, at, 64 - bits)), None],
        Family::V6 => [
            Some((Size::Double, at, (64 - bits).max(0))),
            (bits > 64).then_some((Size::Double, at + 8, 128 - bits)),
        ],
    }
}

/// Loads the common bits of a word: in the order of memory they are the lower ones.
fn common(asm: &mut Asm, into: Reg, (size, at, others): Word) -> &mut Asm {
    asm.load(size, into, FRAME, at);
    // Of a shorter word the upper half is nothing already.
    let nothing = if size == Size::Word { 32 } else { 0 };
    if others > nothing {
        asm.alu(Alu::Shl, into, others).alu(Alu::Shr, into, others);
    }
    asm
}

/// Writes the sum of the pseudo-header without the length to where that of a flow's record would be; goes to `none` if the
/// protocol has no such sum. The protocol is in its register.
pub(super) fn pseudo_header(asm: &mut Asm, family: Family, none: Label) {
    let (has, (at, bytes)) = (asm.label(), family.addresses_at());
    asm.jump_if(Cond::Eq, PROTOCOL, UDP, has).jump_if(Cond::Ne, PROTOCOL, TCP, none).place(has);
    asm.mov(Reg::R3, PROTOCOL).alu(Alu::Shl, Reg::R3, 8);
    for word in (at..at + bytes).step_by(4) {
        asm.load(Size::Word, Reg::R2, FRAME, word).alu(Alu::Add, Reg::R3, Reg::R2);
    }
    fold_wide(asm, Reg::R3, Reg::R2);
    asm.store(Size::Word, Reg::R10, PSEUDO, Reg::R3);
}

const ICMP: i32 = 1;
const ESP: i32 = 50;
const ICMP6: i32 = 58;
/// First and last type of the messages of neighbour discovery (RFC 4861 §4).
const DISCOVERY: (u8, u8) = (133, 137);
