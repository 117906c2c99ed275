//! Classic BPF: packet filters as libpcap compiles them, verified and run.
//!
//! A program is verified once ([`Program::new`]); running one can then neither leave the program nor the packet: jumps go
//! forward only, so a run ends after at most [`INSNS_MAX`] instructions, and a load beyond the packet rejects it.
//!
//! # Spec
//! McCanne and Jacobson, "The BSD Packet Filter" (USENIX 1993); `bpf(4)`; `pcap-filter(7)`.

/// Instructions of a program at the most (`BPF_MAXINSNS`).
pub const INSNS_MAX: usize = 4096;
/// Words of scratch memory (`BPF_MEMWORDS`).
pub const MEM_WORDS: usize = 16;
/// The offset from which loads read facts about the packet instead of its bytes (`SKF_AD_OFF`).
pub const FACTS: u32 = 0xffff_f000;
/// The fact that tells packets sent from those received (`SKF_AD_PKTTYPE`).
pub const PACKET_TYPE: u32 = FACTS + 4;

/// Value of [`PACKET_TYPE`] for a packet that is sent (`PACKET_OUTGOING`).
const OUTGOING: u32 = 4;

const CLASS: u16 = 0x07;
const LD: u16 = 0x00;
const LDX: u16 = 0x01;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const ALU: u16 = 0x04;
const JMP: u16 = 0x05;
const RET: u16 = 0x06;
const MISC: u16 = 0x07;

const SIZE: u16 = 0x18;
const WORD: u16 = 0x00;
const HALF: u16 = 0x08;
const BYTE: u16 = 0x10;

const MODE: u16 = 0xe0;
const IMM: u16 = 0x00;
const ABS: u16 = 0x20;
const IND: u16 = 0x40;
const MEM: u16 = 0x60;
const LEN: u16 = 0x80;
const MSH: u16 = 0xa0;

/// The operand is X and not the constant.
const BY_X: u16 = 0x08;
const OP: u16 = 0xf0;
const DIV: u16 = 0x30;
const NEG: u16 = 0x80;
const MOD: u16 = 0x90;
const XOR: u16 = 0xa0;

const JA: u16 = 0x00;
const JSET: u16 = 0x40;

/// RET returns A and not the constant.
const RET_A: u16 = 0x10;
const TXA: u16 = 0x80;

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// Operation.
    pub code: u16,
    /// Instructions to skip if a condition holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// Constant.
    pub k: u32,
}

/// A program that cannot be run, and the place of the instruction for which that is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadProgram {
    /// No instruction, or more than [`INSNS_MAX`].
    Length,
    /// The last instruction does not return.
    NoReturn,
    /// Unknown operation.
    Operation(usize),
    /// A jump behind the end.
    Jump(usize),
    /// A word of scratch memory that does not exist.
    Memory(usize),
    /// A division by the constant zero.
    Division(usize),
}

impl core::fmt::Display for BadProgram {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Length => write!(f, "a filter has 1 to {INSNS_MAX} instructions"),
            Self::NoReturn => write!(f, "the last instruction does not return"),
            Self::Operation(at) => write!(f, "instruction {at}: unknown operation"),
            Self::Jump(at) => write!(f, "instruction {at}: a jump behind the end"),
            Self::Memory(at) => write!(f, "instruction {at}: no such word of scratch memory"),
            Self::Division(at) => write!(f, "instruction {at}: division by zero"),
        }
    }
}

impl core::error::Error for BadProgram {}

/// The input of a filter.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'p> {
    /// Its bytes, as far as they are there.
    pub bytes: &'p [u8],
    /// Its length on the wire, bytes.
    pub len: u32,
    /// Whether it is sent.
    pub is_outgoing: bool,
}

/// A verified program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program<I>(I);

impl<I: AsRef<[Insn]>> Program<I> {
    /// Verifies a program.
    ///
    /// # Errors
    ///
    /// [`BadProgram`].
    pub fn new(insns: I) -> Result<Self, BadProgram> {
        verify(insns.as_ref()).map(|()| Self(insns))
    }

    /// Its instructions.
    pub fn insns(&self) -> &[Insn] {
        self.0.as_ref()
    }

    /// Returns the number of bytes to keep of a packet; 0 if the filter rejects it.
    #[must_use]
    pub fn run(&self, packet: &Packet<'_>) -> u32 {
        Machine { packet, a: 0, x: 0, mem: [0; MEM_WORDS] }.run(self.0.as_ref()).unwrap_or(0)
    }
}

fn verify(insns: &[Insn]) -> Result<(), BadProgram> {
    if insns.is_empty() || insns.len() > INSNS_MAX {
        return Err(BadProgram::Length);
    }
    for (at, insn) in insns.iter().enumerate() {
        verify_one(at, insn, insns.len() - at - 1)?;
    }
    match insns.last() {
        Some(last) if last.code & CLASS == RET => Ok(()),
        _ => Err(BadProgram::NoReturn),
    }
}

/// `behind` is the number of instructions behind this one.
fn verify_one(at: usize, insn: &Insn, behind: usize) -> Result<(), BadProgram> {
    let Insn { code, jt, jf, k } = *insn;
    let word = |k: u32| usize::try_from(k).is_ok_and(|k| k < MEM_WORDS);
    let (class, op, is_by_x) = (code & CLASS, code & OP, code & BY_X != 0);
    match class {
        _ if code > 0xff => Err(BadProgram::Operation(at)),
        LD | LDX => match (class, code & MODE, code & SIZE) {
            (_, MEM, WORD) if !word(k) => Err(BadProgram::Memory(at)),
            (_, IMM | MEM | LEN, WORD) | (LD, ABS | IND, WORD | HALF | BYTE) | (LDX, MSH, BYTE) => Ok(()),
            _ => Err(BadProgram::Operation(at)),
        },
        ST | STX if code != class => Err(BadProgram::Operation(at)),
        ST | STX if !word(k) => Err(BadProgram::Memory(at)),
        ST | STX => Ok(()),
        ALU if op > XOR => Err(BadProgram::Operation(at)),
        ALU if matches!(op, DIV | MOD) && !is_by_x && k == 0 => Err(BadProgram::Division(at)),
        ALU => Ok(()),
        JMP if op > JSET => Err(BadProgram::Operation(at)),
        JMP if op == JA => {
            let is_inside = usize::try_from(k).is_ok_and(|k| k < behind);
            if is_inside { Ok(()) } else { Err(BadProgram::Jump(at)) }
        }
        JMP if usize::from(jt.max(jf)) >= behind => Err(BadProgram::Jump(at)),
        JMP => Ok(()),
        RET if matches!(code & SIZE, WORD | BYTE) && code & MODE == 0 => Ok(()),
        MISC if matches!(code & !CLASS, 0 | TXA) => Ok(()),
        _ => Err(BadProgram::Operation(at)),
    }
}

struct Machine<'m> {
    packet: &'m Packet<'m>,
    a: u32,
    x: u32,
    mem: [u32; MEM_WORDS],
}

impl Machine<'_> {
    /// `None` is a load beyond the packet, or a division by zero.
    fn run(mut self, insns: &[Insn]) -> Option<u32> {
        let mut left = insns.iter();
        loop {
            let &Insn { code, jt, jf, k } = left.next()?;
            match code & CLASS {
                LD => self.a = self.load(code, k)?,
                LDX => self.x = self.load(code, k)?,
                ST => *self.mem.get_mut(usize::try_from(k).ok()?)? = self.a,
                STX => *self.mem.get_mut(usize::try_from(k).ok()?)? = self.x,
                ALU => self.a = alu(code & OP, self.a, self.operand(code, k))?,
                JMP if code & OP == JA => skip(&mut left, usize::try_from(k).ok()?),
                JMP => {
                    let holds = compare(code & OP, self.a, self.operand(code, k))?;
                    skip(&mut left, if holds { jt } else { jf }.into());
                }
                RET => return Some(if code & SIZE == RET_A { self.a } else { k }),
                _ if code & TXA != 0 => self.a = self.x,
                _ => self.x = self.a,
            }
        }
    }

    const fn operand(&self, code: u16, k: u32) -> u32 {
        if code & BY_X != 0 { self.x } else { k }
    }

    fn load(&self, code: u16, k: u32) -> Option<u32> {
        match code & MODE {
            IMM => Some(k),
            ABS if k >= FACTS => self.fact(k),
            ABS => self.bytes(code & SIZE, k),
            IND => self.bytes(code & SIZE, self.x.checked_add(k)?),
            MEM => self.mem.get(usize::try_from(k).ok()?).copied(),
            LEN => Some(self.packet.len),
            // Length of the IPv4 header whose first byte this is.
            _ => Some((self.bytes(BYTE, k)? & 0xf) << 2),
        }
    }

    fn fact(&self, k: u32) -> Option<u32> {
        (k == PACKET_TYPE).then_some(if self.packet.is_outgoing { OUTGOING } else { 0 })
    }

    fn bytes(&self, size: u16, at: u32) -> Option<u32> {
        let bytes = self.packet.bytes.get(usize::try_from(at).ok()?..)?;
        match size {
            WORD => bytes.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)),
            HALF => bytes.first_chunk().map(|bytes| u16::from_be_bytes(*bytes).into()),
            _ => bytes.first().map(|byte| u32::from(*byte)),
        }
    }
}

fn skip(left: &mut core::slice::Iter<'_, Insn>, count: usize) {
    if let Some(last) = count.checked_sub(1) {
        let _ = left.nth(last);
    }
}

fn alu(op: u16, a: u32, b: u32) -> Option<u32> {
    Some(match op {
        0x00 => a.wrapping_add(b),
        0x10 => a.wrapping_sub(b),
        0x20 => a.wrapping_mul(b),
        DIV => a.checked_div(b)?,
        0x40 => a | b,
        0x50 => a & b,
        0x60 => a.checked_shl(b).unwrap_or(0),
        0x70 => a.checked_shr(b).unwrap_or(0),
        NEG => a.wrapping_neg(),
        MOD => a.checked_rem(b)?,
        _ => a ^ b,
    })
}

fn compare(op: u16, a: u32, b: u32) -> Option<bool> {
    match op {
        0x10 => Some(a == b),
        0x20 => Some(a > b),
        0x30 => Some(a >= b),
        JSET => Some(a & b != 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
