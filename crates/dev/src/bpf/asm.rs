//! A small assembler: typed instructions, jumps to labels.
//!
//! # Spec
//! RFC 9669 (BPF Instruction Set Architecture).

use std::os::fd::{AsFd, AsRawFd};

/// One instruction word, as the kernel reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Insn {
    opcode: u8,
    registers: u8, // destination in the low, source in the high nibble
    offset: i16,
    immediate: i32,
}

impl Insn {
    /// An instruction of an object file of little endian.
    pub(crate) const fn from_bytes([opcode, registers, lo, hi, a, b, c, d]: [u8; 8]) -> Self {
        let (offset, immediate) = (i16::from_le_bytes([lo, hi]), i32::from_le_bytes([a, b, c, d]));
        Self { opcode, registers, offset, immediate }
    }

    /// Operation, destination, source, offset, immediate.
    pub(crate) const fn parts(self) -> (u8, u8, u8, i16, i32) {
        (self.opcode, self.registers & 0xf, self.registers >> 4, self.offset, self.immediate)
    }

    pub(crate) const fn immediate(self) -> i32 {
        self.immediate
    }

    pub(crate) const fn set_immediate(&mut self, immediate: i32) {
        self.immediate = immediate;
    }

    /// Whether it calls another function of the program.
    pub(crate) const fn is_local_call(self) -> bool {
        self.opcode == CLASS_JMP | OP_CALL && self.registers >> 4 == 1
    }

    /// Whether it is the first half of a load of 64 bits.
    pub(crate) const fn is_wide_load(self) -> bool {
        self.opcode == CLASS_LD | MODE_IMM | Size::Double as u8
    }

    /// Lets it load a map: by its descriptor (1), or the address of its value (2).
    pub(crate) const fn set_map(&mut self, how: u8, number: i32) {
        self.registers = self.registers & 0xf | how << 4;
        self.immediate = number;
    }
}

/// A register. `R0` holds results, `R1` to `R5` arguments (calls destroy them), `R6` to `R9` are kept across
/// calls, `R10` points to the end of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are numbers")]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// The second operand: a register or a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Src {
    /// The value of a register.
    Reg(Reg),
    /// A constant, extended with its sign.
    Imm(i32),
}

impl From<Reg> for Src {
    fn from(r: Reg) -> Self {
        Self::Reg(r)
    }
}

impl From<i32> for Src {
    fn from(n: i32) -> Self {
        Self::Imm(n)
    }
}

/// Arithmetic on 64 bits (`dst = dst op src`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the names of the operations")]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    /// Unsigned.
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Shl = 0x60,
    Shr = 0x70,
    /// The unsigned remainder.
    Mod = 0x90,
    Xor = 0xa0,
    Mov = 0xb0,
}

/// Comparisons of 64 bits, unsigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the names of the operations")]
pub enum Cond {
    Eq = 0x10,
    Gt = 0x20,
    Ge = 0x30,
    AnySet = 0x40,
    Ne = 0x50,
    Lt = 0xa0,
    Le = 0xb0,
}

/// Number of bytes loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the usual names")]
pub enum Size {
    Word = 0x00,
    Half = 0x08,
    Byte = 0x10,
    Double = 0x18,
}

/// A place in the program, to be jumped to; see [`Asm::label`] and [`Asm::place`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label(usize);

/// Why a program cannot be finished: a mistake in the program, found before the kernel sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AsmError {
    /// A jump leads to a label that was never placed.
    #[error("instruction {0} jumps to a label that has no place")]
    Unplaced(usize),
    /// A jump is too far, or leads backwards (loops are not made here).
    #[error("instruction {0} jumps backwards or too far")]
    BadJump(usize),
}

/// A program under construction.
#[derive(Debug, Default)]
pub struct Asm {
    insns: Vec<Insn>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Asm {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// `dst = src`
    pub fn mov(&mut self, dst: Reg, src: impl Into<Src>) -> &mut Self {
        self.alu(Alu::Mov, dst, src)
    }

    /// `dst = dst op src`
    pub fn alu(&mut self, op: Alu, dst: Reg, src: impl Into<Src>) -> &mut Self {
        self.with_source(CLASS_ALU64 | op as u8, dst, src.into(), 0)
    }

    /// `dst = *(size *)(base + offset)`
    pub fn load(&mut self, size: Size, dst: Reg, base: Reg, offset: i16) -> &mut Self {
        self.push(CLASS_LDX | MODE_MEM | size as u8, dst, base, offset, 0)
    }

    /// `*(size *)(base + offset) = src`; a constant is extended with its sign.
    pub fn store(&mut self, size: Size, base: Reg, offset: i16, src: impl Into<Src>) -> &mut Self {
        let op = MODE_MEM | size as u8;
        match src.into() {
            Src::Reg(src) => self.push(CLASS_STX | op, base, src, offset, 0),
            Src::Imm(n) => self.push(CLASS_ST | op, base, Reg::R0, offset, n),
        }
    }

    /// `r0 =` the packet's bytes at `index + offset`, from network to host order; `r6` must hold the packet.
    /// If the packet is too short the program ends with result 0. Destroys `r1` to `r5`.
    pub fn load_packet(&mut self, size: Size, index: Reg, offset: i32) -> &mut Self {
        self.push(CLASS_LD | MODE_IND | size as u8, Reg::R0, index, 0, offset)
    }

    /// `dst =` the map of this descriptor.
    pub fn load_map(&mut self, dst: Reg, map: impl AsFd) -> &mut Self {
        const PSEUDO_MAP_FD: Reg = Reg::R1; // in the place of a source register
        let fd = map.as_fd().as_raw_fd();
        self.push(CLASS_LD | MODE_IMM | Size::Double as u8, dst, PSEUDO_MAP_FD, 0, fd);
        self.push(0, Reg::R0, Reg::R0, 0, 0)
    }

    /// `dst =` the address of the only value of this map, which is an array of one.
    pub fn load_map_value(&mut self, dst: Reg, map: impl AsFd) -> &mut Self {
        const PSEUDO_MAP_VALUE: Reg = Reg::R2; // in the place of a source register
        let fd = map.as_fd().as_raw_fd();
        self.push(CLASS_LD | MODE_IMM | Size::Double as u8, dst, PSEUDO_MAP_VALUE, 0, fd);
        self.push(0, Reg::R0, Reg::R0, 0, 0)
    }

    /// `dst = n`, all 64 bits.
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a number")]
    pub fn load_number(&mut self, dst: Reg, n: u64) -> &mut Self {
        self.push(CLASS_LD | MODE_IMM | Size::Double as u8, dst, Reg::R0, 0, (n as u32).cast_signed());
        self.push(0, Reg::R0, Reg::R0, 0, ((n >> 32) as u32).cast_signed())
    }

    /// `dst =` its lower 16 bits, from host to network order or back.
    pub fn swap16(&mut self, dst: Reg) -> &mut Self {
        const TO_BIG_ENDIAN: u8 = 0xd8;
        self.push(CLASS_ALU | TO_BIG_ENDIAN, dst, Reg::R0, 0, 16)
    }

    /// `*(u64 *)(base + offset) += src`, and `src =` what was there before: atomic, and a full barrier.
    pub fn fetch_add(&mut self, base: Reg, offset: i16, src: Reg) -> &mut Self {
        const FETCH_ADD: i32 = 1;
        self.push(CLASS_STX | MODE_ATOMIC | Size::Double as u8, base, src, offset, FETCH_ADD)
    }

    /// `*(u64 *)(base + offset) += src`, atomic.
    pub fn atomic_add(&mut self, base: Reg, offset: i16, src: Reg) -> &mut Self {
        self.push(CLASS_STX | MODE_ATOMIC | Size::Double as u8, base, src, offset, 0)
    }

    /// `r0 = helper(r1, …, r5)`
    pub fn call(&mut self, helper: Helper) -> &mut Self {
        self.push(CLASS_JMP | OP_CALL, Reg::R0, Reg::R0, 0, helper as i32)
    }

    /// `r0 = function(r1, …, r5)` of the program; where it begins is to be filled in.
    pub(crate) fn call_function(&mut self) -> &mut Self {
        const PSEUDO_CALL: Reg = Reg::R1; // in the place of a source register
        self.push(CLASS_JMP | OP_CALL, Reg::R0, PSEUDO_CALL, 0, 0)
    }

    /// Ends the program with the result in `r0`.
    pub fn exit(&mut self) -> &mut Self {
        self.push(CLASS_JMP | OP_EXIT, Reg::R0, Reg::R0, 0, 0)
    }

    /// Goes to `to`.
    pub fn jump(&mut self, to: Label) -> &mut Self {
        self.jumps.push((self.insns.len(), to));
        self.push(CLASS_JMP, Reg::R0, Reg::R0, 0, 0)
    }

    /// Goes to `to` if `dst cond src`.
    pub fn jump_if(&mut self, cond: Cond, dst: Reg, src: impl Into<Src>, to: Label) -> &mut Self {
        self.jumps.push((self.insns.len(), to));
        self.with_source(CLASS_JMP | cond as u8, dst, src.into(), 0)
    }

    /// A new label, to be placed later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label before the next instruction.
    pub fn place(&mut self, label: Label) -> &mut Self {
        let here = self.insns.len();
        if let Some(place) = self.labels.get_mut(label.0) {
            *place = Some(here);
        }
        self
    }

    /// The program, its jumps resolved.
    ///
    /// # Errors
    /// [`AsmError`].
    pub fn finish(mut self) -> Result<Vec<Insn>, AsmError> {
        for (at, label) in self.jumps {
            let target = self.labels.get(label.0).copied().flatten().ok_or(AsmError::Unplaced(at))?;
            let distance = target.checked_sub(at + 1).ok_or(AsmError::BadJump(at))?;
            self.insns[at].offset = i16::try_from(distance).map_err(|_| AsmError::BadJump(at))?;
        }
        Ok(self.insns)
    }

    fn with_source(&mut self, opcode: u8, dst: Reg, src: Src, offset: i16) -> &mut Self {
        const FROM_REGISTER: u8 = 0x08;
        match src {
            Src::Reg(src) => self.push(opcode | FROM_REGISTER, dst, src, offset, 0),
            Src::Imm(n) => self.push(opcode, dst, Reg::R0, offset, n),
        }
    }

    fn push(&mut self, opcode: u8, dst: Reg, src: Reg, offset: i16, immediate: i32) -> &mut Self {
        self.insns.push(Insn { opcode, registers: dst as u8 | (src as u8) << 4, offset, immediate });
        self
    }
}

/// Functions of the kernel that a program may call (`enum bpf_func_id`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Helper {
    /// `map_lookup_elem(map, pointer to the key)`: a pointer to the value, or 0
    MapLookup = 1,
    /// `redirect(ifindex, flags)`: the action that sends the frame out there
    Redirect = 23,
    /// `fib_lookup(context, struct bpf_fib_lookup, its size, flags)`: 0 if the kernel would forward it
    FibLookup = 69,
    /// `redirect_map(map, key, action if there is no entry)`
    RedirectMap = 51,
    /// `xdp_adjust_meta(context, distance)`: room before the frame
    XdpAdjustMeta = 54,
}

const CLASS_LD: u8 = 0x00;
const CLASS_LDX: u8 = 0x01;
const CLASS_ST: u8 = 0x02;
const CLASS_STX: u8 = 0x03;
const CLASS_ALU: u8 = 0x04;
const CLASS_JMP: u8 = 0x05;
const CLASS_ALU64: u8 = 0x07;
const MODE_IMM: u8 = 0x00;
const MODE_IND: u8 = 0x40;
const MODE_MEM: u8 = 0x60;
const MODE_ATOMIC: u8 = 0xc0;
const OP_CALL: u8 = 0x80;
const OP_EXIT: u8 = 0x90;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(insns: &[Insn]) -> Vec<(u8, u8, i16, i32)> {
        insns.iter().map(|i| (i.opcode, i.registers, i.offset, i.immediate)).collect()
    }

    #[test]
    fn instructions_are_encoded_as_rfc_9669_says() {
        let mut asm = Asm::new();
        asm.mov(Reg::R0, 2).alu(Alu::Xor, Reg::R1, Reg::R2).load(Size::Word, Reg::R2, Reg::R1, 16);
        asm.load_packet(Size::Half, Reg::R7, 12).call(Helper::RedirectMap).exit();
        asm.store(Size::Word, Reg::R10, -4, 7).store(Size::Double, Reg::R10, -16, Reg::R1);
        asm.load_number(Reg::R3, 0x1_0000_0002).swap16(Reg::R4).fetch_add(Reg::R8, 48, Reg::R1);
        let expected = [
            (0xb7, 0, 0, 2),
            (0xaf, 0x21, 0, 0),
            (0x61, 0x12, 16, 0),
            (0x48, 0x70, 0, 12),
            (0x85, 0, 0, 51),
            (0x95, 0, 0, 0),
            (0x62, 0x0a, -4, 7),
            (0x7b, 0x1a, -16, 0),
            (0x18, 0x03, 0, 2),
            (0, 0, 0, 1),
            (0xdc, 0x04, 0, 16),
            (0xdb, 0x18, 48, 1),
        ];
        assert_eq!(words(&asm.finish().unwrap()), expected);
    }

    #[test]
    fn a_jump_counts_from_the_next_instruction() {
        let mut asm = Asm::new();
        let end = asm.label();
        asm.jump_if(Cond::Eq, Reg::R1, 0, end).mov(Reg::R0, 1).jump(end).mov(Reg::R0, 2).place(end).exit();
        let offsets: Vec<i16> = asm.finish().unwrap().iter().map(|i| i.offset).collect();
        assert_eq!(offsets, [3, 0, 1, 0, 0]);
    }

    #[test]
    fn a_jump_without_a_place_or_backwards_is_refused() {
        let mut asm = Asm::new();
        let nowhere = asm.label();
        asm.jump(nowhere);
        assert_eq!(asm.finish(), Err(AsmError::Unplaced(0)));
        let mut asm = Asm::new();
        let start = asm.label();
        asm.place(start).exit().jump(start);
        assert_eq!(asm.finish(), Err(AsmError::BadJump(1)));
    }
}
