//! The function before a user's program and ours.

use std::os::fd::AsFd;

use crate::bpf::asm::{Alu, Asm, AsmError, Cond, Helper, Insn, Label, Reg, Size};

/// Bytes of what is put before a dropped frame that is handed up: the mark, and the verdict.
pub(super) const MARK_LEN: usize = 16;

const XDP_DROP: i32 = 1;
const XDP_PASS: i32 = 2;
const XDP_REDIRECT: i32 = 4;
/// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_META: i16 = 8;
const RX_QUEUE_INDEX: i16 = 16;
const CONTEXT: Reg = Reg::R6;
const VERDICT: Reg = Reg::R7;
const MARK: Reg = Reg::R8;
/// Offset of a key, 0, on the stack.
const KEY_AT: i16 = -8;

/// A program that runs `user`, counts its verdict in `counters`, and runs `ours` on what it lets pass. While the word in `dump`
/// is not 0, frames that are dropped go to `sockets`, behind that word and their verdict.
pub(super) fn before(
    user: &[Insn],
    ours: &[Insn],
    counters: impl AsFd,
    dump: impl AsFd,
    sockets: impl AsFd,
) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Asm::new();
    let [end, known, counted, dropped] = [(); 4].map(|()| asm.label());
    asm.mov(CONTEXT, Reg::R1).call_function().mov(VERDICT, Reg::R0);
    // An int.
    asm.alu(Alu::Shl, VERDICT, 32).alu(Alu::Shr, VERDICT, 32);
    asm.jump_if(Cond::Le, VERDICT, XDP_REDIRECT, known).mov(VERDICT, 0).place(known);
    asm.store(Size::Double, Reg::R10, KEY_AT, 0);
    asm.load_map(Reg::R1, counters).mov(Reg::R2, Reg::R10).alu(Alu::Add, Reg::R2, i32::from(KEY_AT));
    asm.call(Helper::MapLookup).jump_if(Cond::Eq, Reg::R0, 0, counted);
    asm.mov(Reg::R1, VERDICT).alu(Alu::Shl, Reg::R1, 3).alu(Alu::Add, Reg::R0, Reg::R1);
    asm.load(Size::Double, Reg::R1, Reg::R0, 0).alu(Alu::Add, Reg::R1, 1);
    asm.store(Size::Double, Reg::R0, 0, Reg::R1).place(counted);
    asm.jump_if(Cond::Le, VERDICT, XDP_DROP, dropped).jump_if(Cond::Ne, VERDICT, XDP_PASS, end);
    asm.mov(Reg::R1, CONTEXT).call_function().exit();
    asm.place(dropped).load_map_value(Reg::R1, dump).load(Size::Double, MARK, Reg::R1, 0);
    asm.jump_if(Cond::Eq, MARK, 0, end);
    hand_up(&mut asm, sockets, end);
    asm.place(end).mov(Reg::R0, VERDICT).exit();
    let mut insns = asm.finish()?;
    let (users, own) = (insns.len(), insns.len() + user.len());
    let calls: Vec<usize> = (0..insns.len()).filter(|at| insns[*at].is_local_call()).collect();
    for (at, target) in calls.into_iter().zip([users, own]) {
        insns[at].set_immediate(i32::try_from(target - at - 1).map_err(|_| AsmError::BadJump(at))?);
    }
    insns.extend_from_slice(user);
    insns.extend_from_slice(ours);
    Ok(insns)
}

/// Puts mark and verdict before the frame and sends it to its socket; where there is none, it is dropped, and so is one before
/// which the program has put something itself.
fn hand_up(asm: &mut Asm, sockets: impl AsFd, end: Label) {
    let len = i32::try_from(MARK_LEN).unwrap_or(0);
    // No difference of pointers: without `CAP_PERFMON` the verifier lets no program compute it.
    asm.load(Size::Word, Reg::R2, CONTEXT, DATA).load(Size::Word, Reg::R3, CONTEXT, DATA_META);
    asm.jump_if(Cond::Lt, Reg::R3, Reg::R2, end).mov(Reg::R1, CONTEXT).mov(Reg::R2, -len);
    asm.call(Helper::XdpAdjustMeta).jump_if(Cond::Ne, Reg::R0, 0, end);
    asm.load(Size::Word, Reg::R2, CONTEXT, DATA_META).load(Size::Word, Reg::R3, CONTEXT, DATA);
    asm.mov(Reg::R4, Reg::R2).alu(Alu::Add, Reg::R4, len).jump_if(Cond::Gt, Reg::R4, Reg::R3, end);
    asm.store(Size::Double, Reg::R2, 0, MARK).store(Size::Double, Reg::R2, 8, VERDICT);
    asm.load(Size::Word, Reg::R2, CONTEXT, RX_QUEUE_INDEX).load_map(Reg::R1, sockets);
    asm.mov(Reg::R3, XDP_DROP).call(Helper::RedirectMap).exit();
}
