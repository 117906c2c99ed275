//! An assembler for x86-64, as far as programs need it. Each instruction has a REX prefix, and each offset 32 bits.
//!
//! # Spec
//! Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2.

/// A register of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reg(u8);

pub(super) const RAX: Reg = Reg(0);
pub(super) const RCX: Reg = Reg(1);
pub(super) const RDX: Reg = Reg(2);
pub(super) const RBX: Reg = Reg(3);
pub(super) const RSP: Reg = Reg(4);
pub(super) const RBP: Reg = Reg(5);
pub(super) const RSI: Reg = Reg(6);
pub(super) const RDI: Reg = Reg(7);
pub(super) const R8: Reg = Reg(8);
pub(super) const R9: Reg = Reg(9);
pub(super) const R10: Reg = Reg(10);
pub(super) const R11: Reg = Reg(11);
pub(super) const R12: Reg = Reg(12);
pub(super) const R13: Reg = Reg(13);
pub(super) const R14: Reg = Reg(14);
pub(super) const R15: Reg = Reg(15);

/// A register, or memory at the sum of one or two registers and an offset.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Reg(Reg),
    At(Reg, i32),
    Indexed(Reg, Reg, i32),
}

/// Operations with two operands; the number is the opcode that writes the first from a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Add = 0x01,
    Or = 0x09,
    And = 0x21,
    Sub = 0x29,
    Xor = 0x31,
    Cmp = 0x39,
}

/// Shifts; the number is the extension of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shift {
    Ror = 1,
    Left = 4,
    Right = 5,
    Signed = 7,
}

/// Conditions; the number is the end of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    Below = 0x2,
    NotBelow = 0x3,
    Equal = 0x4,
    NotEqual = 0x5,
    NotAbove = 0x6,
    Above = 0x7,
    Less = 0xc,
    NotLess = 0xd,
    NotGreater = 0xe,
    Greater = 0xf,
}

/// A jump whose distance is to be filled in: the place of its four bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jump(usize);

/// Machine code that grows.
#[derive(Default)]
pub(super) struct Asm(Vec<u8>);

impl Asm {
    pub(super) fn here(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_code(self) -> Vec<u8> {
        self.0
    }

    /// An instruction with a register, or an extension of its opcode, and a place.
    fn emit(&mut self, is_wide: bool, opcode: &[u8], reg: u8, place: Place) {
        let (base, index) = match place {
            Place::Reg(reg) | Place::At(reg, _) => (reg.0, 0),
            Place::Indexed(base, index, _) => (base.0, index.0),
        };
        self.0.push(0x40 | u8::from(is_wide) << 3 | reg >> 3 << 2 | index >> 3 << 1 | base >> 3);
        self.0.extend(opcode);
        let (reg, low) = ((reg & 7) << 3, base & 7);
        match place {
            Place::Reg(_) => self.0.push(0xc0 | reg | low),
            // As a base, 4 says that another byte follows.
            Place::At(_, offset) if low == 4 => {
                self.0.extend([0x84 | reg, 0x24]);
                self.0.extend(offset.to_le_bytes());
            }
            Place::At(_, offset) => {
                self.0.push(0x80 | reg | low);
                self.0.extend(offset.to_le_bytes());
            }
            Place::Indexed(_, index, offset) => {
                self.0.extend([0x84 | reg, (index.0 & 7) << 3 | low]);
                self.0.extend(offset.to_le_bytes());
            }
        }
    }

    pub(super) fn mov(&mut self, is_wide: bool, to: Reg, from: Reg) {
        self.emit(is_wide, &[0x89], from.0, Place::Reg(to));
    }

    /// `to = number`, in the shortest way.
    pub(super) fn set(&mut self, to: Reg, number: u64) {
        match (u32::try_from(number), i32::try_from(number.cast_signed())) {
            (Ok(0), _) => self.op(false, Op::Xor, Place::Reg(to), to),
            (Ok(number), _) => {
                self.0.extend([0x40 | to.0 >> 3, 0xb8 | to.0 & 7]);
                self.0.extend(number.to_le_bytes());
            }
            (_, Ok(number)) => {
                self.emit(true, &[0xc7], 0, Place::Reg(to));
                self.0.extend(number.to_le_bytes());
            }
            _ => {
                self.0.extend([0x48 | to.0 >> 3, 0xb8 | to.0 & 7]);
                self.0.extend(number.to_le_bytes());
            }
        }
    }

    pub(super) fn op(&mut self, is_wide: bool, op: Op, to: Place, from: Reg) {
        self.emit(is_wide, &[op as u8], from.0, to);
    }

    /// The operation whose second operand is in memory.
    pub(super) fn op_from(&mut self, op: Op, to: Reg, from: Place) {
        self.emit(true, &[op as u8 | 2], to.0, from);
    }

    pub(super) fn op_number(&mut self, is_wide: bool, op: Op, to: Place, number: i32) {
        self.emit(is_wide, &[0x81], op as u8 >> 3, to);
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn test(&mut self, is_wide: bool, a: Reg, b: Reg) {
        self.emit(is_wide, &[0x85], b.0, Place::Reg(a));
    }

    pub(super) fn test_number(&mut self, is_wide: bool, a: Reg, number: i32) {
        self.emit(is_wide, &[0xf7], 0, Place::Reg(a));
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn mul(&mut self, is_wide: bool, to: Reg, by: Reg) {
        self.emit(is_wide, &[0x0f, 0xaf], to.0, Place::Reg(by));
    }

    pub(super) fn mul_number(&mut self, is_wide: bool, to: Reg, number: i32) {
        self.emit(is_wide, &[0x69], to.0, Place::Reg(to));
        self.0.extend(number.to_le_bytes());
    }

    pub(super) fn neg(&mut self, is_wide: bool, to: Reg) {
        self.emit(is_wide, &[0xf7], 3, Place::Reg(to));
    }

    /// Divides `rdx:rax`: the quotient in `rax`, the remainder in `rdx`.
    pub(super) fn div(&mut self, is_wide: bool, by: Reg) {
        self.emit(is_wide, &[0xf7], 6, Place::Reg(by));
    }

    pub(super) fn shift(&mut self, is_wide: bool, shift: Shift, to: Reg, by: u8) {
        self.emit(is_wide, &[0xc1], shift as u8, Place::Reg(to));
        self.0.push(by);
    }

    /// Shifts by `cl`.
    pub(super) fn shift_cl(&mut self, is_wide: bool, shift: Shift, to: Reg) {
        self.emit(is_wide, &[0xd3], shift as u8, Place::Reg(to));
    }

    /// Swaps 2, 4 or 8 bytes; others are 0.
    pub(super) fn swap(&mut self, to: Reg, bytes: u64) {
        if bytes == 2 {
            self.0.push(0x66);
            self.shift(false, Shift::Ror, to, 8);
            self.load(to, Place::Reg(to), 2);
            return;
        }
        self.0.extend([0x40 | u8::from(bytes == 8) << 3 | to.0 >> 3, 0x0f, 0xc8 | to.0 & 7]);
    }

    /// Loads 1, 2, 4 or 8 bytes; others are 0.
    pub(super) fn load(&mut self, to: Reg, from: Place, bytes: u8) {
        let opcode: &[u8] = match bytes {
            1 => &[0x0f, 0xb6],
            2 => &[0x0f, 0xb7],
            _ => &[0x8b],
        };
        self.emit(bytes == 8, opcode, to.0, from);
    }

    /// Loads 1, 2 or 4 bytes, and extends their sign.
    pub(super) fn load_signed(&mut self, is_wide: bool, to: Reg, from: Place, bytes: u8) {
        let opcode: &[u8] = match bytes {
            1 => &[0x0f, 0xbe],
            2 => &[0x0f, 0xbf],
            _ => &[0x63],
        };
        self.emit(is_wide, opcode, to.0, from);
    }

    pub(super) fn store(&mut self, to: Place, from: Reg, bytes: u8) {
        if bytes == 2 {
            self.0.push(0x66);
        }
        self.emit(bytes == 8, &[if bytes == 1 { 0x88 } else { 0x89 }], from.0, to);
    }

    pub(super) fn store_number(&mut self, to: Place, number: i32, bytes: u8) {
        if bytes == 2 {
            self.0.push(0x66);
        }
        self.emit(bytes == 8, &[if bytes == 1 { 0xc6 } else { 0xc7 }], 0, to);
        self.0.extend(&number.to_le_bytes()[..usize::from(bytes.min(4))]);
    }

    pub(super) fn lock_add(&mut self, is_wide: bool, to: Place, from: Reg) {
        self.0.push(0xf0);
        self.op(is_wide, Op::Add, to, from);
    }

    pub(super) fn lea(&mut self, to: Reg, from: Place) {
        self.emit(true, &[0x8d], to.0, from);
    }

    pub(super) fn push(&mut self, reg: Reg) {
        self.0.extend([0x40 | reg.0 >> 3, 0x50 | reg.0 & 7]);
    }

    pub(super) fn pop(&mut self, reg: Reg) {
        self.0.extend([0x40 | reg.0 >> 3, 0x58 | reg.0 & 7]);
    }

    pub(super) fn ret(&mut self) {
        self.0.push(0xc3);
    }

    /// Calls the function at the address in a register.
    pub(super) fn call_at(&mut self, reg: Reg) {
        self.emit(false, &[0xff], 2, Place::Reg(reg));
    }

    pub(super) fn call(&mut self) -> Jump {
        self.far(&[0xe8])
    }

    pub(super) fn jump(&mut self) -> Jump {
        self.far(&[0xe9])
    }

    pub(super) fn jump_if(&mut self, when: When) -> Jump {
        self.far(&[0x0f, 0x80 | when as u8])
    }

    fn far(&mut self, opcode: &[u8]) -> Jump {
        self.0.extend(opcode);
        self.0.extend([0; 4]);
        Jump(self.0.len() - 4)
    }

    /// Lets a jump lead to a place; `None` if that is too far.
    pub(super) fn fill(&mut self, jump: Jump, to: usize) -> Option<()> {
        let distance = i32::try_from(to.cast_signed() - (jump.0 + 4).cast_signed()).ok()?;
        self.0.get_mut(jump.0..jump.0 + 4)?.copy_from_slice(&distance.to_le_bytes());
        Some(())
    }
}
