//! The program: matches frames to records, checks and rewrites them, and redirects them to their egress devices.
//!
//! Nothing is written before everything has been checked: a frame that goes up goes up as it came. A record that is being
//! written meanwhile is recognised by its sequence number, which is read before its fields and again after them.

mod destination;

use super::layout::{FACTOR, Family, Kind, ctl, hop, port, slot};
use super::table::Maps;
use crate::bpf::asm::{Alu, Asm, AsmError, Cond, Helper, Insn, Label, Reg, Size};

/// Assembles the program; what is not forwarded goes on to `up`, which ends the program. `r6` holds the context there.
pub(super) fn assemble(maps: &Maps<'_>, up: impl FnOnce(&mut Asm)) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Asm::new();
    let [to_up, exception, stale, ip6] = [(); 4].map(|()| asm.label());
    let labels = Labels { up: to_up, exception, stale };
    begin(&mut asm, maps, to_up);
    asm.load(Size::Half, Reg::R2, FRAME, 12);
    asm.jump_if(Cond::Eq, Reg::R2, wire_order(IP6), ip6);
    asm.jump_if(Cond::Ne, Reg::R2, wire_order(IP4), to_up);
    header4(&mut asm, &labels);
    destination::follow(&mut asm, maps, &labels, Family::V4);
    flow4(&mut asm, maps, &labels);
    forward(&mut asm, maps, &labels, (Family::V4, Kind::Flow4));
    asm.place(ip6);
    header6(&mut asm, &labels);
    destination::follow(&mut asm, maps, &labels, Family::V6);
    flow6(&mut asm, maps, &labels);
    forward(&mut asm, maps, &labels, (Family::V6, Kind::Flow6));
    for (label, counter) in [(stale, port::STALE), (exception, port::EXCEPTIONS)] {
        asm.place(label).load_map_value(Reg::R1, maps.port).mov(Reg::R2, 1);
        asm.atomic_add(Reg::R1, counter, Reg::R2).jump(to_up);
    }
    asm.place(to_up);
    up(&mut asm);
    asm.finish()
}

struct Labels {
    up: Label,
    /// The flow has a record, which is not for this packet.
    exception: Label,
    /// The record is of an earlier generation, or being written.
    stale: Label,
}

/// A whole Ethernet header to our link address, on an interface with offload.
fn begin(asm: &mut Asm, maps: &Maps<'_>, up: Label) {
    asm.mov(CONTEXT, Reg::R1).load(Size::Word, FRAME, CONTEXT, 0).load(Size::Word, Reg::R5, CONTEXT, 4);
    need(asm, 14 + 20 + 8, up);
    asm.load_map_value(Reg::R4, maps.port).load(Size::Double, PORT_KEY, Reg::R4, port::KEY);
    asm.jump_if(Cond::Eq, PORT_KEY, 0, up);
    asm.load(Size::Word, Reg::R2, FRAME, 0).load(Size::Half, Reg::R3, FRAME, 4);
    asm.alu(Alu::Shl, Reg::R3, 32).alu(Alu::Or, Reg::R2, Reg::R3);
    asm.load(Size::Double, Reg::R3, Reg::R4, port::MAC).jump_if(Cond::Ne, Reg::R2, Reg::R3, up);
}

/// Checks the header of IPv4. Leaves the length in `r0` and the protocol in `r4`.
fn header4(asm: &mut Asm, labels: &Labels) {
    let up = labels.up;
    asm.load(Size::Byte, Reg::R2, FRAME, 14).jump_if(Cond::Ne, Reg::R2, 0x45, up);
    asm.load(Size::Half, Reg::R2, FRAME, 20).jump_if(Cond::AnySet, Reg::R2, wire_order(FRAGMENT), up);
    asm.load(Size::Half, LENGTH, FRAME, 16).swap16(LENGTH).alu(Alu::And, LENGTH, 0xffff);
    // The frame holds the packet, and beyond it nothing but padding.
    let padded = asm.label();
    asm.mov(Reg::R3, FRAME).alu(Alu::Add, Reg::R3, LENGTH).alu(Alu::Add, Reg::R3, 14);
    asm.jump_if(Cond::Gt, Reg::R3, Reg::R5, up).jump_if(Cond::Ge, Reg::R3, Reg::R5, padded);
    asm.mov(Reg::R3, FRAME).alu(Alu::Add, Reg::R3, SHORTEST).jump_if(Cond::Lt, Reg::R3, Reg::R5, up);
    asm.place(padded).mov(Reg::R1, 0);
    for at in [14, 18, 22, 26, 30] {
        asm.load(Size::Word, Reg::R2, FRAME, at).alu(Alu::Add, Reg::R1, Reg::R2);
    }
    fold_wide(asm, Reg::R1, Reg::R2);
    asm.jump_if(Cond::Ne, Reg::R1, 0xffff, up);
    asm.load(Size::Byte, PROTOCOL, FRAME, 23);
}

/// Checks the header of TCP or UDP behind IPv4, and finds the flow's slot: leaves it in `r8`.
fn flow4(asm: &mut Asm, maps: &Maps<'_>, labels: &Labels) {
    transport(asm, labels.up, 34, 20);
    asm.load(Size::Byte, Reg::R2, FRAME, 15);
    rest_of_key(asm, Reg::R2, 34);
    asm.load(Size::Double, Reg::R1, FRAME, 26);
    asm.store(Size::Double, Reg::R10, KEY0, Reg::R1);
    hash_first(asm, maps, Reg::R1);
    hash_next(asm, Reg::R1, PORT_KEY, maps.secret[1]);
    find(asm, maps, labels, Kind::Flow4, |asm, slot_at, miss| {
        asm.load(Size::Double, Reg::R1, Reg::R0, slot_at).load(Size::Double, Reg::R2, Reg::R10, KEY0);
        asm.jump_if(Cond::Ne, Reg::R1, Reg::R2, miss);
    });
    asm.load(Size::Byte, Reg::R2, FRAME, Family::V4.ttl_at()).jump_if(Cond::Le, Reg::R2, 1, labels.exception);
}

/// Checks the header of IPv6. Leaves the length in `r0` and the protocol in `r4`.
fn header6(asm: &mut Asm, labels: &Labels) {
    let up = labels.up;
    need(asm, 14 + 40 + 8, up);
    asm.load(Size::Byte, Reg::R3, FRAME, 14).mov(Reg::R2, Reg::R3);
    asm.alu(Alu::Shr, Reg::R2, 4).jump_if(Cond::Ne, Reg::R2, 6, up);
    asm.load(Size::Half, LENGTH, FRAME, 18).swap16(LENGTH).alu(Alu::And, LENGTH, 0xffff);
    asm.alu(Alu::Add, LENGTH, 40);
    asm.mov(Reg::R2, FRAME).alu(Alu::Add, Reg::R2, LENGTH).alu(Alu::Add, Reg::R2, 14);
    asm.jump_if(Cond::Gt, Reg::R2, Reg::R5, up).jump_if(Cond::Lt, Reg::R2, Reg::R5, up);
    asm.load(Size::Byte, PROTOCOL, FRAME, 20);
}

/// Checks the header of TCP or UDP behind IPv6, and finds the flow's slot: leaves it in `r8`.
fn flow6(asm: &mut Asm, maps: &Maps<'_>, labels: &Labels) {
    transport(asm, labels.up, 54, 40);
    asm.load(Size::Byte, Reg::R2, FRAME, 15).alu(Alu::Shr, Reg::R2, 4);
    asm.load(Size::Byte, Reg::R3, FRAME, 14).alu(Alu::Shl, Reg::R3, 4);
    asm.alu(Alu::Or, Reg::R2, Reg::R3).alu(Alu::And, Reg::R2, 0xff);
    rest_of_key(asm, Reg::R2, 54);
    asm.load(Size::Double, Reg::R1, FRAME, 22);
    hash_first(asm, maps, Reg::R1);
    for (at, secret) in [(30, 1), (38, 2), (46, 3)] {
        asm.load(Size::Double, Reg::R2, FRAME, at);
        hash_next(asm, Reg::R1, Reg::R2, maps.secret[secret]);
    }
    hash_next(asm, Reg::R1, PORT_KEY, maps.secret[1]);
    find(asm, maps, labels, Kind::Flow6, |asm, slot_at, miss| {
        for (at, in_frame) in [(0, 22), (8, 30), (16, 38), (24, 46)] {
            asm.load(Size::Double, Reg::R1, Reg::R0, slot_at + at).load(
                Size::Double,
                Reg::R2,
                FRAME,
                in_frame,
            );
            asm.jump_if(Cond::Ne, Reg::R1, Reg::R2, miss);
        }
    });
    asm.load(Size::Byte, Reg::R2, FRAME, Family::V6.ttl_at()).jump_if(Cond::Le, Reg::R2, 1, labels.exception);
}

/// Checks that a whole header of TCP or UDP begins at `l4` in the frame, behind `header` bytes of IP, and that the segment
/// neither opens nor closes a connection. Uses `r1` and `r3`; `r5` is the end of the frame.
fn transport(asm: &mut Asm, up: Label, l4: i16, header: i32) {
    let [udp, done] = [(); 2].map(|()| asm.label());
    asm.jump_if(Cond::Eq, PROTOCOL, UDP, udp).jump_if(Cond::Ne, PROTOCOL, TCP, up);
    asm.mov(Reg::R3, FRAME).alu(Alu::Add, Reg::R3, i32::from(l4) + 20).jump_if(
        Cond::Gt,
        Reg::R3,
        Reg::R5,
        up,
    );
    asm.load(Size::Byte, Reg::R3, FRAME, l4 + 13).jump_if(Cond::AnySet, Reg::R3, FIN_SYN_RST, up);
    asm.load(Size::Byte, Reg::R3, FRAME, l4 + 12).alu(Alu::Shr, Reg::R3, 4).jump_if(Cond::Lt, Reg::R3, 5, up);
    asm.alu(Alu::Shl, Reg::R3, 2).alu(Alu::Add, Reg::R3, header).jump_if(Cond::Gt, Reg::R3, LENGTH, up);
    asm.jump(done).place(udp);
    asm.load(Size::Half, Reg::R3, FRAME, l4 + 4).swap16(Reg::R3).jump_if(Cond::Lt, Reg::R3, 8, up);
    asm.alu(Alu::Add, Reg::R3, header).jump_if(Cond::Ne, Reg::R3, LENGTH, up);
    asm.place(done);
}

/// Completes the word of the key behind the addresses: ports at `l4`, protocol, class, interface.
fn rest_of_key(asm: &mut Asm, class: Reg, l4: i16) {
    asm.alu(Alu::And, class, 0xfc).alu(Alu::Shl, class, 40).alu(Alu::Or, PORT_KEY, class);
    asm.mov(Reg::R3, PROTOCOL).alu(Alu::Shl, Reg::R3, 32).alu(Alu::Or, PORT_KEY, Reg::R3);
    asm.load(Size::Word, Reg::R3, FRAME, l4).alu(Alu::Or, PORT_KEY, Reg::R3);
    // Protocol and length are read again from the frame where they are needed: helpers leave only four registers alone.
    asm.store(Size::Double, Reg::R10, LENGTH_AT, LENGTH).store(Size::Double, Reg::R10, PROTOCOL_AT, PROTOCOL);
}

fn hash_first(asm: &mut Asm, maps: &Maps<'_>, hash: Reg) {
    asm.load_number(Reg::R4, maps.secret[0]).alu(Alu::Xor, hash, Reg::R4);
    multiply(asm, hash);
}

/// One round of [`super::layout::hash`].
fn hash_next(asm: &mut Asm, hash: Reg, word: Reg, secret: u64) {
    asm.alu(Alu::Xor, hash, word).load_number(Reg::R4, secret).alu(Alu::Xor, hash, Reg::R4);
    multiply(asm, hash);
}

fn multiply(asm: &mut Asm, hash: Reg) {
    asm.load_number(Reg::R4, FACTOR).alu(Alu::Mul, hash, Reg::R4);
    asm.mov(Reg::R4, hash).alu(Alu::Shr, Reg::R4, 32).alu(Alu::Xor, hash, Reg::R4);
}

/// Finds the slot of the key whose hash is in `r1`, and leaves it in `r8`; `differs` goes to its label if the addresses of the
/// slot so many bytes behind `r0` are others.
fn find(asm: &mut Asm, maps: &Maps<'_>, labels: &Labels, kind: Kind, differs: impl Fn(&mut Asm, i16, Label)) {
    let found = asm.label();
    asm.alu(Alu::And, Reg::R1, maps.bucket_mask).store(Size::Word, Reg::R10, INDEX, Reg::R1);
    asm.load_map(Reg::R1, maps.of(kind)).mov(Reg::R2, Reg::R10).alu(Alu::Add, Reg::R2, i32::from(INDEX));
    asm.call(Helper::MapLookup).jump_if(Cond::Eq, Reg::R0, 0, labels.up);
    for way in 0..slot::WAYS {
        let (next, at) = (asm.label(), kind.way_at(way));
        asm.load(Size::Double, Reg::R1, Reg::R0, at + kind.rest_at());
        asm.jump_if(Cond::Ne, Reg::R1, PORT_KEY, next);
        differs(asm, at, next);
        asm.alu(Alu::Add, Reg::R0, i32::from(at)).jump(found).place(next);
    }
    asm.jump(labels.up).place(found).mov(SLOT, Reg::R0);
    // The sequence number first, then the key once more: another flow may have got the place in between.
    asm.load(Size::Word, Reg::R3, SLOT, kind.sequence_at());
    asm.jump_if(Cond::AnySet, Reg::R3, 1, labels.stale);
    asm.store(Size::Double, Reg::R10, SEQUENCE, Reg::R3).mov(Reg::R0, SLOT);
    asm.load(Size::Double, Reg::R1, SLOT, kind.rest_at()).jump_if(Cond::Ne, Reg::R1, PORT_KEY, labels.stale);
    differs(asm, 0, labels.stale);
    asm.load(Size::Word, Reg::R1, SLOT, kind.generation_at()).load_map_value(Reg::R2, maps.control);
    asm.load(Size::Word, Reg::R2, Reg::R2, ctl::GENERATION);
    asm.jump_if(Cond::Ne, Reg::R1, Reg::R2, labels.stale);
}

/// Sends the frame in hand by the record in `r8`, if it is for it. Ends the program then.
fn forward(asm: &mut Asm, maps: &Maps<'_>, labels: &Labels, (family, kind): (Family, Kind)) {
    // All fields of the record and of its next hop are copied to the stack …
    asm.load(Size::Half, Reg::R1, SLOT, kind.hop_at()).store(Size::Word, Reg::R10, INDEX, Reg::R1);
    for (at, field) in kind.fields().iter().zip(FIELDS) {
        asm.load(Size::Double, Reg::R1, SLOT, *at).store(Size::Double, Reg::R10, field, Reg::R1);
    }
    asm.load_map(Reg::R1, maps.hops).mov(Reg::R2, Reg::R10).alu(Alu::Add, Reg::R2, i32::from(INDEX));
    asm.call(Helper::MapLookup).jump_if(Cond::Eq, Reg::R0, 0, labels.up);
    for (at, field) in [(hop::LINK, HOP_AT), (hop::LINK + 8, HOP_AT + 8)] {
        asm.load(Size::Double, Reg::R1, Reg::R0, at).store(Size::Double, Reg::R10, field, Reg::R1);
    }
    asm.load(Size::Word, Reg::R9, Reg::R0, hop::DEVICE);
    // … and what of them is a question is asked.
    asm.load(Size::Double, LENGTH, Reg::R10, LENGTH_AT).load(Size::Word, Reg::R1, Reg::R10, HOP_AT + MTU);
    asm.jump_if(Cond::Gt, LENGTH, Reg::R1, labels.exception);
    is_partial(asm, labels.exception, (family, kind));
    asm.mov(Reg::R2, Reg::R9).load_map(Reg::R1, maps.devices).mov(Reg::R3, 0).call(Helper::RedirectMap);
    asm.jump_if(Cond::Ne, Reg::R0, XDP_REDIRECT, labels.exception);
    asm.mov(Reg::R1, 1).fetch_add(SLOT, kind.packets_at(), Reg::R1);
    asm.load(Size::Word, Reg::R1, SLOT, kind.sequence_at()).load(Size::Double, Reg::R2, Reg::R10, SEQUENCE);
    asm.jump_if(Cond::Ne, Reg::R1, Reg::R2, labels.stale);
    asm.load(Size::Double, LENGTH, Reg::R10, LENGTH_AT).atomic_add(SLOT, kind.packets_at() + 8, LENGTH);
    next_link(asm, family);
    if kind != Kind::Destination {
        translate(asm, family);
    }
    asm.mov(Reg::R0, XDP_REDIRECT).exit();
}

/// Goes to `exception` if the checksum is the sum of the pseudo-header alone, which a device was to complete.
fn is_partial(asm: &mut Asm, exception: Label, (family, kind): (Family, Kind)) {
    let (udp, done, l4) = (asm.label(), asm.label(), family.l4_at());
    asm.load(Size::Double, PROTOCOL, Reg::R10, PROTOCOL_AT);
    if kind == Kind::Destination {
        destination::pseudo_header(asm, family, done);
    }
    asm.mov(Reg::R1, LENGTH).alu(Alu::Sub, Reg::R1, i32::from(l4) - 14).swap16(Reg::R1);
    asm.load(Size::Word, Reg::R2, Reg::R10, PSEUDO).alu(Alu::Add, Reg::R1, Reg::R2);
    fold(asm, Reg::R1, Reg::R2);
    asm.jump_if(Cond::Eq, PROTOCOL, UDP, udp);
    asm.load(Size::Half, Reg::R2, FRAME, l4 + 16).jump_if(Cond::Eq, Reg::R2, Reg::R1, exception).jump(done);
    asm.place(udp).load(Size::Half, Reg::R2, FRAME, l4 + 6).jump_if(Cond::Eq, Reg::R2, Reg::R1, exception);
    asm.place(done);
}

/// Writes the link header and the time to live. Everything has been checked.
fn next_link(asm: &mut Asm, family: Family) {
    asm.load(Size::Double, Reg::R1, Reg::R10, HOP_AT).store(Size::Double, FRAME, 0, Reg::R1);
    asm.load(Size::Word, Reg::R1, Reg::R10, HOP_AT + 8).store(Size::Word, FRAME, 8, Reg::R1);
    let at = family.ttl_at();
    asm.load(Size::Byte, Reg::R1, FRAME, at).alu(Alu::Sub, Reg::R1, 1).store(Size::Byte, FRAME, at, Reg::R1);
    if family == Family::V4 {
        add_to_checksum(asm, 24, IP_DELTA);
    }
}

/// Writes addresses and ports, if the record says so.
fn translate(asm: &mut Asm, family: Family) {
    let plain = asm.label();
    asm.load(Size::Half, Reg::R1, Reg::R10, FLAGS).jump_if(Cond::Eq, Reg::R1, 0, plain);
    let (l4, udp, ports) = (family.l4_at(), asm.label(), asm.label());
    for (field, at) in family.addresses() {
        asm.load(Size::Double, Reg::R1, Reg::R10, *field).store(Size::Double, FRAME, *at, Reg::R1);
    }
    asm.load(Size::Double, PROTOCOL, Reg::R10, PROTOCOL_AT).jump_if(Cond::Eq, PROTOCOL, UDP, udp);
    add_to_checksum(asm, l4 + 16, L4_DELTA);
    asm.jump(ports).place(udp);
    asm.load(Size::Half, Reg::R1, FRAME, l4 + 6).jump_if(Cond::Eq, Reg::R1, 0, ports);
    add_to_checksum(asm, l4 + 6, L4_DELTA);
    asm.load(Size::Half, Reg::R1, FRAME, l4 + 6).jump_if(Cond::Ne, Reg::R1, 0, ports);
    asm.store(Size::Half, FRAME, l4 + 6, -1);
    asm.place(ports).load(Size::Word, Reg::R1, Reg::R10, NEW_PORTS).store(Size::Word, FRAME, l4, Reg::R1);
    asm.place(plain);
}

/// RFC 1624 §3: ~(~old + delta), in the order of memory.
fn add_to_checksum(asm: &mut Asm, at: i16, delta: i16) {
    asm.load(Size::Half, Reg::R1, FRAME, at).alu(Alu::Xor, Reg::R1, 0xffff);
    asm.load(Size::Half, Reg::R2, Reg::R10, delta).alu(Alu::Add, Reg::R1, Reg::R2);
    fold(asm, Reg::R1, Reg::R2);
    asm.alu(Alu::Xor, Reg::R1, 0xffff).store(Size::Half, FRAME, at, Reg::R1);
}

/// Folds a sum below 2^32 to 16 bits.
fn fold(asm: &mut Asm, sum: Reg, scratch: Reg) {
    for _ in 0..2 {
        asm.mov(scratch, sum).alu(Alu::Shr, scratch, 16).alu(Alu::And, sum, 0xffff).alu(
            Alu::Add,
            sum,
            scratch,
        );
    }
}

/// Folds a sum of a few words of 32 bits to 16 bits.
fn fold_wide(asm: &mut Asm, sum: Reg, scratch: Reg) {
    asm.mov(scratch, sum).alu(Alu::Shr, scratch, 32);
    asm.alu(Alu::Shl, sum, 32).alu(Alu::Shr, sum, 32).alu(Alu::Add, sum, scratch);
    asm.mov(scratch, sum).alu(Alu::Shr, scratch, 16).alu(Alu::And, sum, 0xffff).alu(Alu::Add, sum, scratch);
    fold(asm, sum, scratch);
}

/// Goes to `to` if the frame has fewer bytes; `r5` is its end.
fn need(asm: &mut Asm, bytes: i32, to: Label) {
    asm.mov(Reg::R2, FRAME).alu(Alu::Add, Reg::R2, bytes).jump_if(Cond::Gt, Reg::R2, Reg::R5, to);
}

fn wire_order(word: u16) -> i32 {
    i32::from(u16::from_ne_bytes(word.to_be_bytes()))
}

const CONTEXT: Reg = Reg::R6;
const FRAME: Reg = Reg::R7;
/// The slot, once it has been found.
const SLOT: Reg = Reg::R8;
/// The word of the key behind the addresses, until the slot has been found.
const PORT_KEY: Reg = Reg::R9;
/// Bytes of the packet, from the IP header on; until the first call of a helper.
const LENGTH: Reg = Reg::R0;
const PROTOCOL: Reg = Reg::R4;

/// Offsets on the stack.
const INDEX: i16 = -4;
const KEY0: i16 = -16;
const LENGTH_AT: i16 = -24;
const PROTOCOL_AT: i16 = -32;
const SEQUENCE: i16 = -40;
/// Link addresses, and the MTU behind them.
const HOP_AT: i16 = -56;
const MTU: i16 = 12;
const _: () = assert!(hop::MTU - hop::LINK == MTU);
/// Fields of the record: first deltas, hop and flags; then the pseudo-header's sum and ports; then addresses.
pub(super) const FIELDS: [i16; 6] = [-64, -72, -80, -88, -96, -104];
const IP_DELTA: i16 = FIELDS[0];
const L4_DELTA: i16 = FIELDS[0] + 2;
const FLAGS: i16 = FIELDS[0] + 6;
const PSEUDO: i16 = FIELDS[1];
const NEW_PORTS: i16 = FIELDS[1] + 4;

const XDP_REDIRECT: i32 = 4;
const IP4: u16 = 0x0800;
const IP6: u16 = 0x86dd;
/// More fragments, or an offset.
const FRAGMENT: u16 = 0x3fff;
const FIN_SYN_RST: i32 = 0b111;
const TCP: i32 = 6;
const UDP: i32 = 17;
/// Bytes of the shortest frame without its checksum: shorter packets are padded to that.
const SHORTEST: i32 = 60;
