//! Instructions, checked and taken apart once, so that little is left to be done for each packet.
//!
//! # Spec
//! RFC 9669 (BPF Instruction Set Architecture).

use super::helpers;
use crate::bpf::asm::Insn;

/// A program.
pub(super) struct Code(pub(super) Box<[Op]>);

/// An instruction. Registers are below 11, and jumps lead to instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) class: Class,
    /// Operation of [`Class`], as the instruction has it.
    pub(super) code: u8,
    pub(super) dst: u8,
    pub(super) src: u8,
    /// An offset of an address; an offset of a division says that it has a sign, one of a move what it extends.
    pub(super) offset: i16,
    /// Where a jump or call goes.
    pub(super) target: u32,
    /// Instructions from here to the next that a jump leads to or follows; 0 if this is not the first of them. They are
    /// charged at once.
    pub(super) steps: u32,
    /// A constant, extended with its sign.
    pub(super) constant: u64,
}

/// The kind of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Arithmetic on 64 bits with a constant, or a register.
    Alu64K,
    Alu64X,
    /// Arithmetic on 32 bits.
    Alu32K,
    Alu32X,
    /// Order of bytes.
    End,
    /// Jumps by comparisons of 64 and 32 bits.
    Jump64K,
    Jump64X,
    Jump32K,
    Jump32X,
    Always,
    /// `dst = constant`.
    Wide,
    /// `code` is the number of bytes.
    Load,
    LoadSigned,
    Store,
    StoreK,
    /// `constant` says what is changed, `code` is the number of bytes.
    Atomic,
    Helper,
    Call,
    Exit,
}

/// Why a program cannot run in this process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodeError {
    /// An instruction that is not known, or misuses a register.
    #[error("instruction {at}: unknown or malformed (operation {opcode:#04x})")]
    Instruction {
        /// Its place.
        at: usize,
        /// Its operation.
        opcode: u8,
    },
    /// A jump out of the program.
    #[error("instruction {0}: jumps out of the program")]
    Jump(usize),
    /// A helper that is only in the kernel.
    #[error(
        "instruction {at}: helper {} is only to be had on AF_XDP interfaces (here there are {})", helpers::name(*number), helpers::names()
    )]
    Helper {
        /// Its place.
        at: usize,
        /// The number of the helper.
        number: i32,
    },
    /// Nothing to run.
    #[error("no instructions")]
    Empty,
}

/// Highest register, which points to the end of the stack.
const FRAME: u8 = 10;

impl Code {
    /// Checks a program, whose maps are at the addresses that `map` and `value` answer.
    pub(super) fn new(
        insns: &[Insn],
        map: impl Fn(i32) -> Option<u64>,
        value: impl Fn(i32, i32) -> Option<u64>,
    ) -> Result<Self, CodeError> {
        if insns.is_empty() {
            return Err(CodeError::Empty);
        }
        let mut ops = Vec::with_capacity(insns.len());
        let mut at = 0;
        while let Some(insn) = insns.get(at) {
            let wrong = CodeError::Instruction { at, opcode: insn.parts().0 };
            if insn.is_wide_load() {
                let (_, dst, source, _, low) = insn.parts();
                let high = insns.get(at + 1).map(|next| next.parts()).filter(|next| next.0 == 0);
                let high = high.ok_or_else(|| wrong.clone())?.4;
                let constant = match source {
                    0 => Some(u64::from(low.cast_unsigned()) | u64::from(high.cast_unsigned()) << 32),
                    1 => map(low),
                    2 => value(low, high),
                    _ => None,
                };
                let constant = constant.filter(|_| dst < FRAME).ok_or(wrong)?;
                let op =
                    Op { class: Class::Wide, code: 0, dst, src: 0, offset: 0, target: 0, steps: 0, constant };
                // The second half is never reached: jumps into it are refused.
                ops.extend([op, Op { class: Class::Exit, code: 1, ..op }]);
                at += 2;
                continue;
            }
            ops.push(decode(*insn, at).ok_or(wrong)??);
            at += 1;
        }
        let is_target = |target: u32| {
            ops.get(target as usize).is_some_and(|op: &Op| op.class != Class::Exit || op.code == 0)
        };
        match ops.iter().position(|op| op.class.leads() && !is_target(op.target)) {
            Some(at) => Err(CodeError::Jump(at)),
            None => {
                count_steps(&mut ops);
                Ok(Self(ops.into()))
            }
        }
    }
}

impl Op {
    pub(super) const NONE: Self =
        Self { class: Class::Exit, code: 0, dst: 0, src: 0, offset: 0, target: 0, steps: 0, constant: 0 };
}

impl Class {
    /// Whether it has a target.
    pub(super) const fn leads(self) -> bool {
        matches!(
            self,
            Self::Jump64K | Self::Jump64X | Self::Jump32K | Self::Jump32X | Self::Always | Self::Call
        )
    }
}

/// Finds the blocks of a program: runs of instructions of which all or none are executed, but for errors.
fn count_steps(ops: &mut [Op]) {
    let mut is_first = vec![false; ops.len() + 1];
    is_first[0] = true;
    for (at, op) in ops.iter().enumerate() {
        if op.class.leads() {
            is_first[op.target as usize] = true;
        }
        is_first[at + 1] |= op.class.leads() || op.class == Class::Exit && op.code == 0;
    }
    let mut steps = 0;
    for (op, is_first) in ops.iter_mut().zip(is_first).rev() {
        // The second half of a wide load is no instruction.
        steps += u32::from(op.class != Class::Exit || op.code == 0);
        if is_first {
            (op.steps, steps) = (steps, 0);
        }
    }
}

/// One instruction; `None` if it is none.
fn decode(insn: Insn, at: usize) -> Option<Result<Op, CodeError>> {
    let (opcode, dst, src, offset, immediate) = insn.parts();
    let (operation, by_register) = (opcode & 0xf0, opcode & 0x08 != 0);
    let constant = i64::from(immediate).cast_unsigned();
    let op = Op { class: Class::Exit, code: operation, dst, src, offset, target: 0, steps: 0, constant };
    if dst > FRAME || src > FRAME {
        return None;
    }
    let size = [4, 2, 1, 8][usize::from(opcode >> 3 & 3)];
    let writes = |class, code| (dst < FRAME).then_some(Op { class, code, ..op });
    let jump = |class, distance: i64| {
        let target = i64::try_from(at).ok()?.checked_add(1)?.checked_add(distance)?;
        Some(Op { class, target: u32::try_from(target).unwrap_or(u32::MAX), ..op })
    };
    let far = i64::from(immediate);
    let decoded = match (opcode & 0x07, opcode & 0xe0) {
        (1, 0x60) => writes(Class::Load, size),
        (1, 0x80) if size < 8 => writes(Class::LoadSigned, size),
        (2, 0x60) => Some(Op { class: Class::StoreK, code: size, ..op }),
        (3, 0x60) => Some(Op { class: Class::Store, code: size, ..op }),
        (3, 0xc0) if size >= 4 && is_atomic(immediate) => Some(Op { class: Class::Atomic, code: size, ..op }),
        (4, _) if operation == 0xd0 && matches!(immediate, 16 | 32 | 64) => {
            writes(Class::End, u8::from(by_register))
        }
        (7, _) if opcode == 0xd7 && matches!(immediate, 16 | 32 | 64) => writes(Class::End, 2),
        (4, _) if operation <= 0xc0 => {
            writes(if by_register { Class::Alu32X } else { Class::Alu32K }, operation)
        }
        (7, _) if operation <= 0xc0 => {
            writes(if by_register { Class::Alu64X } else { Class::Alu64K }, operation)
        }
        (5, _) if opcode == 0x05 => jump(Class::Always, i64::from(offset)),
        (6, _) if opcode == 0x06 => jump(Class::Always, far),
        (5, _) if opcode == 0x85 && src == 1 => jump(Class::Call, far),
        (5, _) if opcode == 0x85 && src == 0 => {
            if !helpers::is_known(immediate) {
                return Some(Err(CodeError::Helper { at, number: immediate }));
            }
            Some(Op { class: Class::Helper, ..op })
        }
        (5, _) if opcode == 0x95 => Some(Op { class: Class::Exit, code: 0, ..op }),
        (5, _) if (0x10..=0xd0).contains(&operation) && !matches!(operation, 0x80 | 0x90) => {
            jump(if by_register { Class::Jump64X } else { Class::Jump64K }, i64::from(offset))
        }
        (6, _) if (0x10..=0xd0).contains(&operation) && !matches!(operation, 0x80 | 0x90) => {
            jump(if by_register { Class::Jump32X } else { Class::Jump32K }, i64::from(offset))
        }
        _ => None,
    };
    decoded.map(Ok)
}

/// Add, or, and, xor, with and without the old value; exchange, compare and exchange.
const fn is_atomic(what: i32) -> bool {
    matches!(what, 0x00 | 0x01 | 0x40 | 0x41 | 0x50 | 0x51 | 0xa0 | 0xa1 | 0xe1 | 0xf1)
}
