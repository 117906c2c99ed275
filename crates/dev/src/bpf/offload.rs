//! Flow offload: an XDP program that forwards the packets of flows it has records of, and sends the rest where the redirect
//! program sends it.
//!
//! Records are written without a system call, through arrays that are mapped into this process. A change of anything that
//! decisions depend on increases the generation: records of earlier ones are not used any more. [`grace`] waits until the
//! programs that have begun before are over.

pub mod grace;
mod layout;
mod program;
mod record;
mod table;

use super::BpfError;
use super::asm::{Asm, Helper, Insn, Reg, Size};
use super::map::XskMap;
use super::prog::{Kind, Program};
use super::redirect::NAME;
pub use table::{CameUp, Offload, PortWords, Writer};

/// Loads the program of one interface. Frames that it does not forward go to the socket that `sockets` has for their queue,
/// or on to the kernel.
///
/// # Errors
/// [`BpfError`]; [`BpfError::Refused`] on machines whose order of loads the program does not enforce.
pub fn load(sockets: &XskMap, offload: &Offload, port: &PortWords, frags: bool) -> Result<Program, BpfError> {
    Program::load(NAME, Kind::Xdp, &assemble(sockets, offload, port)?, frags)
}

/// Assembles it.
pub(crate) fn assemble(sockets: &XskMap, offload: &Offload, port: &PortWords) -> Result<Vec<Insn>, BpfError> {
    let doing = "assemble the offload program";
    if !cfg!(target_arch = "x86_64") {
        let source = std::io::Error::other("flow offload is for x86-64 alone");
        return Err(BpfError::Refused { doing, source });
    }
    let insns = program::assemble(&offload.maps(port), |asm| to_socket(asm, sockets));
    insns.map_err(|why| BpfError::Refused { doing, source: std::io::Error::other(why) })
}

fn to_socket(asm: &mut Asm, sockets: &XskMap) {
    asm.load(Size::Word, Reg::R2, Reg::R6, RX_QUEUE_INDEX).load_map(Reg::R1, sockets);
    asm.mov(Reg::R3, XDP_PASS).call(Helper::RedirectMap).exit();
}

/// Offset of `rx_queue_index` in `struct xdp_md`.
const RX_QUEUE_INDEX: i16 = 16;
const XDP_PASS: i32 = 2;
