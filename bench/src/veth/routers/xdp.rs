//! Forwarding by an XDP program that asks the kernel's tables: what `xdp-forward` does.

use anyhow::{Context, Result};
use dev::bpf::asm::{Alu, Asm, Cond, Helper, Insn, Label, Reg, Size};
use dev::bpf::link::{XdpLink, XdpMode};
use dev::bpf::prog::{Kind, Program};

use super::Router;
use crate::frames::Family;
use crate::veth::lab::{IN, Lab};

/// The program; detached when dropped.
pub(super) struct Forward {
    _link: XdpLink,
}

impl Forward {
    pub(super) fn start(lab: &Lab) -> Result<Self> {
        lab.configure_kernel()?;
        let insns = program(lab.family).context("the program is not well formed")?;
        let program = Program::load("pt_forward", Kind::Xdp, &insns, false)?;
        let ifindex = lab.router_index(IN)?;
        let link = lab.router.run(|| XdpLink::attach(&program, ifindex, XdpMode::Native))??;
        Ok(Self { _link: link })
    }
}

impl Router for Forward {}

const FRAME: Reg = Reg::R6;
const CONTEXT: Reg = Reg::R7;
/// Where `struct bpf_fib_lookup` lies on the stack, and its size.
const QUERY: i16 = -64;
const QUERY_LEN: i32 = 64;
/// The places in it.
const FAMILY: i16 = QUERY;
const TOTAL_LEN: i16 = QUERY + 6;
const IFINDEX: i16 = QUERY + 8;
const SRC: i16 = QUERY + 16;
const DST: i16 = QUERY + 32;
const SOURCE_MAC: i16 = QUERY + 52;
const GATEWAY_MAC: i16 = QUERY + 58;
/// The places in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const INGRESS_IFINDEX: i16 = 12;
const XDP_PASS: i32 = 2;

/// Forwards what the kernel's tables would, and passes the rest on to the kernel.
fn program(family: Family) -> Result<Vec<Insn>, dev::bpf::asm::AsmError> {
    let mut asm = Asm::new();
    let pass = asm.label();
    asm.mov(CONTEXT, Reg::R1).load(Size::Word, FRAME, CONTEXT, DATA).load(
        Size::Word,
        Reg::R2,
        CONTEXT,
        DATA_END,
    );
    asm.mov(Reg::R3, FRAME).alu(Alu::Add, Reg::R3, 54).jump_if(Cond::Gt, Reg::R3, Reg::R2, pass);
    for at in (QUERY..0).step_by(8) {
        asm.store(Size::Double, Reg::R10, at, 0);
    }
    asm.load(Size::Word, Reg::R1, CONTEXT, INGRESS_IFINDEX).store(Size::Word, Reg::R10, IFINDEX, Reg::R1);
    asm.store(Size::Half, Reg::R10, TOTAL_LEN, 50);
    match family {
        Family::Ip4 => ask4(&mut asm, pass),
        Family::Ip6 => ask6(&mut asm, pass),
    }
    asm.mov(Reg::R1, CONTEXT).mov(Reg::R2, Reg::R10).alu(Alu::Add, Reg::R2, i32::from(QUERY));
    asm.mov(Reg::R3, QUERY_LEN).mov(Reg::R4, 0).call(Helper::FibLookup);
    asm.jump_if(Cond::Ne, Reg::R0, 0, pass);
    match family {
        Family::Ip4 => age4(&mut asm),
        Family::Ip6 => age6(&mut asm),
    }
    // Destination and source, both six bytes.
    for (from, to) in [(GATEWAY_MAC, 0), (SOURCE_MAC, 6)] {
        for half in [0, 2, 4] {
            asm.load(Size::Half, Reg::R1, Reg::R10, from + half).store(Size::Half, FRAME, to + half, Reg::R1);
        }
    }
    asm.load(Size::Word, Reg::R1, Reg::R10, IFINDEX).mov(Reg::R2, 0).call(Helper::Redirect).exit();
    asm.place(pass).mov(Reg::R0, XDP_PASS).exit();
    asm.finish()
}

const VERSION4: i32 = 0x45;
const TTL4: i16 = 14 + 8;
const CHECKSUM4: i16 = 14 + 10;
const HOPS6: i16 = 14 + 7;

fn ask4(asm: &mut Asm, pass: Label) {
    const AF_INET: i32 = 2;
    asm.load(Size::Byte, Reg::R1, FRAME, 14).jump_if(Cond::Ne, Reg::R1, VERSION4, pass);
    asm.load(Size::Byte, Reg::R1, FRAME, TTL4).mov(Reg::R2, 1).jump_if(Cond::Ge, Reg::R2, Reg::R1, pass);
    asm.store(Size::Byte, Reg::R10, FAMILY, AF_INET);
    for (from, to) in [(14 + 12, SRC), (14 + 16, DST)] {
        asm.load(Size::Word, Reg::R1, FRAME, from).store(Size::Word, Reg::R10, to, Reg::R1);
    }
}

fn ask6(asm: &mut Asm, pass: Label) {
    const AF_INET6: i32 = 10;
    asm.load(Size::Byte, Reg::R1, FRAME, 14).alu(Alu::And, Reg::R1, 0xf0).jump_if(
        Cond::Ne,
        Reg::R1,
        0x60,
        pass,
    );
    asm.load(Size::Byte, Reg::R1, FRAME, HOPS6).mov(Reg::R2, 1).jump_if(Cond::Ge, Reg::R2, Reg::R1, pass);
    asm.store(Size::Byte, Reg::R10, FAMILY, AF_INET6);
    for (from, to) in [(14 + 8, SRC), (14 + 24, DST)] {
        for word in [0, 4, 8, 12] {
            asm.load(Size::Word, Reg::R1, FRAME, from + word).store(Size::Word, Reg::R10, to + word, Reg::R1);
        }
    }
}

/// RFC 1624: the checksum grows by what the TTL loses, in the upper byte, with its carry.
fn age4(asm: &mut Asm) {
    asm.load(Size::Half, Reg::R1, FRAME, CHECKSUM4).alu(Alu::Add, Reg::R1, 1);
    asm.mov(Reg::R2, Reg::R1).alu(Alu::Shr, Reg::R2, 16).alu(Alu::Add, Reg::R1, Reg::R2);
    asm.store(Size::Half, FRAME, CHECKSUM4, Reg::R1);
    age(asm, TTL4);
}

fn age6(asm: &mut Asm) {
    age(asm, HOPS6);
}

fn age(asm: &mut Asm, at: i16) {
    asm.load(Size::Byte, Reg::R1, FRAME, at).alu(Alu::Sub, Reg::R1, 1).store(Size::Byte, FRAME, at, Reg::R1);
}
