//! The XDP program that hands frames to AF_XDP sockets.

use super::BpfError;
use super::asm::{Asm, AsmError, Helper, Insn, Reg, Size};
use super::map::XskMap;
use super::prog::{Kind, Program};

/// Loads the program: a frame goes to the socket that `sockets` has for its receive queue, or, if there is
/// none, on to the kernel. `frags`: accept frames in several pieces (MTU above about 3500).
///
/// ([`super::share`] has the one that passes to the kernel what is not ours.)
///
/// # Errors
/// [`BpfError`].
pub fn load(sockets: &XskMap, frags: bool) -> Result<Program, BpfError> {
    Program::load(NAME, Kind::Xdp, &assemble(sockets)?, frags)
}

/// Assembles it.
pub(crate) fn assemble(sockets: &XskMap) -> Result<Vec<Insn>, BpfError> {
    program(sockets).map_err(|e| BpfError::Refused {
        doing: "assemble the redirect program",
        source: std::io::Error::other(e),
    })
}

fn program(sockets: &XskMap) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Asm::new();
    asm.load(Size::Word, Reg::R2, Reg::R1, RX_QUEUE_INDEX)
        .load_map(Reg::R1, sockets)
        .mov(Reg::R3, XDP_PASS)
        .call(Helper::RedirectMap)
        .exit();
    asm.finish()
}

/// Kernel name of the program: tells ours, left behind, from those of others.
pub const NAME: &str = "pantala_xsk";

/// The place of `rx_queue_index` in `struct xdp_md`.
const RX_QUEUE_INDEX: i16 = 16;
const XDP_PASS: i32 = 2;
