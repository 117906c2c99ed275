//! A compiler of programs to machine code of x86-64, once when they are loaded.
//!
//! The code does what the interpreter does, with the same addresses, checks and steps, and ends a program for the same reasons:
//! each access looks up the region that its address names in a table, and compares the rest with the region's bounds. An
//! address on the stack of the function itself is known to be right, and needs none.
//!
//! ```text
//! r8                      r0
//! rdi rsi r9 r10 r11      r1 to r5
//! rbx r13 r14 r15 rbp     r6 to r10
//! r12                     the state: bounds of regions, steps that are left
//! rax rcx rdx             scratch
//! ```

mod run;
mod x86;

use self::run::{REGIONS_MAX, State, Target};
use self::x86::{Asm, Jump, Op as Alu, Place, Reg, Shift, When};
use super::alu::{alu32, alu64};
use super::code::{Class, Code, Op};
use super::{CONTEXT, CONTEXT_LEN, DEPTH_MAX, MAPS, STACK, STACK_LEN, VALUES};
use crate::xdp::maps::Map;
use crate::xdp::object::MAPS_MAX;
pub(super) use run::{Compiled, Ring};

/// Instructions of a program that is compiled; longer ones are interpreted.
const OPS_MAX: usize = 1 << 16;

const STATE: Reg = x86::R12;
const FRAME: Reg = x86::RBP;
const REGISTERS: [Reg; 11] =
    [x86::R8, x86::RDI, x86::RSI, x86::R9, x86::R10, x86::R11, x86::RBX, x86::R13, x86::R14, x86::R15, FRAME];
/// Registers that a caller wants back, here and in Rust.
const KEPT: [Reg; 6] = [x86::RBX, x86::RBP, x86::R12, x86::R13, x86::R14, x86::R15];

/// Machine code of a program; `None` if it is too long.
fn translate(code: &Code, maps: &[Map]) -> Option<Vec<u8>> {
    let ops = &code.0;
    if ops.len() > OPS_MAX || maps.len() > MAPS_MAX {
        return None;
    }
    let mut is_target = vec![false; ops.len()];
    ops.iter().filter(|op| op.class.leads()).for_each(|op| is_target[op.target as usize] = true);
    let (asm, known) = (Asm::default(), Known([Value::Unknown; 11]));
    let mut to = Translator { asm, places: Vec::new(), jumps: Vec::new(), faults: Vec::new(), known, maps };
    let (body, fault) = to.enter();
    to.known.0[1] = Value::Context;
    for ((at, op), is_target) in ops.iter().enumerate().zip(is_target) {
        to.places.push(to.asm.here());
        if is_target {
            to.known = Known([Value::Unknown; 11]);
        }
        to.op(at, op)?;
        to.known.follow(op);
    }
    // The end of the program is no instruction.
    to.fault();
    let Translator { mut asm, places, jumps, faults, .. } = to;
    asm.fill(body, *places.first()?)?;
    for (jump, target) in jumps {
        asm.fill(jump, *places.get(target as usize)?)?;
    }
    faults.into_iter().try_for_each(|jump| asm.fill(jump, fault))?;
    Some(asm.into_code())
}

struct Translator<'m> {
    asm: Asm,
    /// Where the code of each instruction begins.
    places: Vec<usize>,
    /// Jumps to instructions, and jumps for faults.
    jumps: Vec<(Jump, u32)>,
    faults: Vec<Jump>,
    known: Known,
    maps: &'m [Map],
}

/// Values that registers are known to have: from the last instruction that may be jumped to, or the beginning of the program.
struct Known([Value; 11]);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Unknown,
    /// The address of the context.
    Context,
    Number(u64),
}

impl Known {
    fn of(&self, register: u8) -> Value {
        self.0.get(usize::from(register)).copied().unwrap_or(Value::Unknown)
    }

    /// Takes an instruction into account that has been translated.
    fn follow(&mut self, op: &Op) {
        let value = match op.class {
            Class::Helper | Class::Call => return self.0[..6].fill(Value::Unknown),
            Class::Atomic => {
                self.0[0] = Value::Unknown;
                return self.set(op.src, Value::Unknown);
            }
            Class::Wide => Value::Number(op.constant),
            Class::Alu64X if op.code == 0xb0 && op.offset == 0 => self.of(op.src),
            Class::Alu64K | Class::Alu64X | Class::Alu32K | Class::Alu32X => Value::Unknown,
            Class::End | Class::Load | Class::LoadSigned => Value::Unknown,
            _ => return,
        };
        self.set(op.dst, value);
    }

    fn set(&mut self, register: u8, value: Value) {
        if let Some(known) = self.0.get_mut(usize::from(register)) {
            *known = value;
        }
    }
}

fn host(register: u8) -> Reg {
    REGISTERS.get(usize::from(register)).copied().unwrap_or(FRAME)
}

fn state(offset: usize) -> Place {
    Place::At(STATE, offset_of(offset))
}

/// The state has a few kilobytes.
fn offset_of(offset: usize) -> i32 {
    i32::try_from(offset).unwrap_or(i32::MAX)
}

/// A constant of an instruction: 32 bits, extended with their sign.
#[expect(clippy::cast_possible_truncation, reason = "the upper half is the sign")]
const fn number(op: &Op) -> i32 {
    op.constant as i32
}

impl Translator<'_> {
    /// Code around the program: the call of its first instruction, and where faults lead.
    fn enter(&mut self) -> (Jump, usize) {
        let asm = &mut self.asm;
        KEPT.iter().for_each(|reg| asm.push(*reg));
        asm.mov(true, STATE, x86::RDI);
        asm.store(state(State::HOST_STACK), x86::RSP, 8);
        for reg in REGISTERS {
            asm.set(reg, 0);
        }
        asm.set(host(1), CONTEXT << 32);
        asm.set(FRAME, STACK << 32 | STACK_LEN as u64);
        // Six registers and two return addresses: the stack is aligned to 16 bytes in the program.
        let body = asm.call();
        asm.mov(true, x86::RAX, host(0));
        let end = asm.here();
        KEPT.iter().rev().for_each(|reg| asm.pop(*reg));
        asm.ret();
        let fault = asm.here();
        asm.load(x86::RSP, state(State::HOST_STACK), 8);
        asm.set(x86::RAX, 0);
        let back = asm.jump();
        // Near.
        let _filled = asm.fill(back, end);
        (body, fault)
    }

    fn op(&mut self, at: usize, op: &Op) -> Option<()> {
        let (dst, src) = (host(op.dst), host(op.src));
        if op.steps > 0 {
            let steps = i32::try_from(op.steps).ok()?;
            self.asm.op_number(false, Alu::Sub, state(State::LEFT), steps);
            self.fault_if(When::Below);
        }
        match op.class {
            Class::Alu64K | Class::Alu64X | Class::Alu32K | Class::Alu32X => self.alu(at, op),
            Class::End => self.byte_order(op),
            Class::Wide => self.asm.set(dst, op.constant),
            Class::Jump64K | Class::Jump32K => {
                let is_wide = op.class == Class::Jump64K;
                match (op.code, number(op)) {
                    (0x40, bits) => self.asm.test_number(is_wide, dst, bits),
                    (_, other) => self.asm.op_number(is_wide, Alu::Cmp, Place::Reg(dst), other),
                }
                self.jump_if(op);
            }
            Class::Jump64X | Class::Jump32X => {
                let is_wide = op.class == Class::Jump64X;
                match op.code {
                    0x40 => self.asm.test(is_wide, dst, src),
                    _ => self.asm.op(is_wide, Alu::Cmp, Place::Reg(dst), src),
                }
                self.jump_if(op);
            }
            Class::Always => {
                let jump = self.asm.jump();
                self.jumps.push((jump, op.target));
            }
            Class::Load => {
                let from = self.address(op.src, op, false);
                self.asm.load(dst, from, op.code);
            }
            Class::LoadSigned => {
                let from = self.address(op.src, op, false);
                self.asm.load_signed(true, dst, from, op.code);
            }
            Class::Store => {
                let to = self.address(op.dst, op, true);
                self.asm.store(to, src, op.code);
            }
            Class::StoreK => {
                let to = self.address(op.dst, op, true);
                self.asm.store_number(to, number(op), op.code);
            }
            Class::Atomic if op.constant & 0xff == 0 => self.add(op),
            Class::Atomic => self.interpret(at),
            Class::Helper => self.help(op),
            Class::Call => self.call(op),
            Class::Exit if op.code == 0 => self.asm.ret(),
            // The second half of a wide load.
            Class::Exit => {}
        }
        Some(())
    }

    fn fault_if(&mut self, when: When) {
        let jump = self.asm.jump_if(when);
        self.faults.push(jump);
    }

    fn fault(&mut self) {
        let jump = self.asm.jump();
        self.faults.push(jump);
    }

    fn jump_if(&mut self, op: &Op) {
        let when = match op.code {
            0x10 => When::Equal,
            0x20 => When::Above,
            0x30 => When::NotBelow,
            0x40 | 0x50 => When::NotEqual,
            0x60 => When::Greater,
            0x70 => When::NotLess,
            0xa0 => When::Below,
            0xb0 => When::NotAbove,
            0xc0 => When::Less,
            _ => When::NotGreater,
        };
        let jump = self.asm.jump_if(when);
        self.jumps.push((jump, op.target));
    }

    fn alu(&mut self, at: usize, op: &Op) {
        let is_wide = matches!(op.class, Class::Alu64K | Class::Alu64X);
        let by_register = matches!(op.class, Class::Alu64X | Class::Alu32X);
        let (dst, src, asm) = (host(op.dst), host(op.src), &mut self.asm);
        let two = match op.code {
            0x00 => Some(Alu::Add),
            0x10 => Some(Alu::Sub),
            0x40 => Some(Alu::Or),
            0x50 => Some(Alu::And),
            0xa0 => Some(Alu::Xor),
            _ => None,
        };
        let shift = match op.code {
            0x60 => Some(Shift::Left),
            0x70 => Some(Shift::Right),
            0xc0 => Some(Shift::Signed),
            _ => None,
        };
        match (op.code, two, shift, by_register) {
            (_, Some(two), _, true) => asm.op(is_wide, two, Place::Reg(dst), src),
            (_, Some(two), _, false) => asm.op_number(is_wide, two, Place::Reg(dst), number(op)),
            (_, _, Some(shift), true) => {
                asm.mov(true, x86::RCX, src);
                asm.shift_cl(is_wide, shift, dst);
            }
            (_, _, Some(shift), false) => {
                let bits = if is_wide { 63 } else { 31 };
                asm.shift(is_wide, shift, dst, op.constant.to_le_bytes()[0] & bits);
            }
            (0x20, _, _, true) => asm.mul(is_wide, dst, src),
            (0x20, _, _, false) => asm.mul_number(is_wide, dst, number(op)),
            (0x80, ..) => asm.neg(is_wide, dst),
            (0xb0, _, _, false) => {
                asm.set(dst, if is_wide { alu64(op, 0, op.constant) } else { alu32(op, 0, op.constant) });
            }
            (0xb0, _, _, true) => match op.offset {
                8 => asm.load_signed(is_wide, dst, Place::Reg(src), 1),
                16 => asm.load_signed(is_wide, dst, Place::Reg(src), 2),
                32 if is_wide => asm.load_signed(true, dst, Place::Reg(src), 4),
                _ => asm.mov(is_wide, dst, src),
            },
            (0x30 | 0x90, ..) if op.offset != 1 => self.divide(op, is_wide, by_register),
            _ => self.interpret(at),
        }
    }

    /// Division without signs: by 0 it answers 0, and the remainder is the dividend (RFC 9669 §4.1).
    fn divide(&mut self, op: &Op, is_wide: bool, by_register: bool) {
        let (dst, asm) = (host(op.dst), &mut self.asm);
        if by_register {
            asm.mov(is_wide, x86::RCX, host(op.src));
        } else {
            asm.set(x86::RCX, op.constant);
        }
        asm.mov(is_wide, x86::RAX, dst);
        asm.mov(is_wide, x86::RDX, x86::RAX);
        asm.test(is_wide, x86::RCX, x86::RCX);
        let is_0 = asm.jump_if(When::Equal);
        asm.set(x86::RDX, 0);
        asm.div(is_wide, x86::RCX);
        asm.mov(is_wide, dst, if op.code == 0x30 { x86::RAX } else { x86::RDX });
        let done = asm.jump();
        let (by_0, quotient) = (asm.here(), op.code == 0x30);
        if quotient {
            asm.set(dst, 0);
        } else {
            asm.mov(is_wide, dst, x86::RDX);
        }
        let end = asm.here();
        // Near.
        let _filled = (asm.fill(is_0, by_0), asm.fill(done, end));
    }

    fn byte_order(&mut self, op: &Op) {
        let (dst, asm) = (host(op.dst), &mut self.asm);
        match (op.code, op.constant) {
            (0, 16) => asm.load(dst, Place::Reg(dst), 2),
            (0, 32) => asm.mov(false, dst, dst),
            (0, _) => {}
            (_, bits) => asm.swap(dst, bits / 8),
        }
    }

    /// The memory at the address in a register and the offset of the instruction, which has `op.code` bytes.
    fn address(&mut self, register: u8, op: &Op, is_store: bool) -> Place {
        let (offset, bytes) = (i32::from(op.offset), i32::from(op.code));
        let asm = &mut self.asm;
        let len = offset_of(STACK_LEN);
        if host(register) == FRAME && (-len..=-bytes).contains(&offset) {
            // The frame's address always is the end of a part of the stack.
            asm.mov(false, x86::RAX, FRAME);
            asm.op_from(Alu::Add, x86::RAX, state(State::STACK));
            return Place::At(x86::RAX, offset);
        }
        let is_context = self.known.of(register) == Value::Context;
        if is_context && !is_store && (0..=offset_of(CONTEXT_LEN) - bytes).contains(&offset) {
            return Place::At(STATE, offset_of(State::WORDS) + offset);
        }
        asm.lea(x86::RAX, Place::At(host(register), offset));
        asm.mov(true, x86::RCX, x86::RAX);
        asm.shift(true, Shift::Right, x86::RCX, 32);
        asm.op_number(false, Alu::Cmp, Place::Reg(x86::RCX), offset_of(REGIONS_MAX));
        self.fault_if(When::NotBelow);
        if is_store {
            let context = i32::try_from(CONTEXT).unwrap_or(0);
            self.asm.op_number(false, Alu::Cmp, Place::Reg(x86::RCX), context);
            self.fault_if(When::Equal);
        }
        self.in_region(op.code);
        let region = |offset| Place::Indexed(STATE, x86::RCX, offset_of(offset));
        if is_store {
            self.asm.store_number(region(State::WRITTEN), 1, 4);
        }
        self.asm.op_from(Alu::Add, x86::RAX, region(State::BASE));
        Place::At(x86::RAX, 0)
    }

    /// Checks the lower half of the address in `rax`, in the region whose number is in `ecx`.
    fn in_region(&mut self, bytes: u8) {
        let region = |offset| Place::Indexed(STATE, x86::RCX, offset_of(offset));
        let asm = &mut self.asm;
        asm.shift(false, Shift::Left, x86::RCX, State::REGION_BITS);
        asm.mov(false, x86::RAX, x86::RAX);
        asm.op_from(Alu::Sub, x86::RAX, region(State::FROM));
        let limit = State::LIMITS + 8 * usize::try_from(bytes.trailing_zeros()).unwrap_or(0);
        asm.op_from(Alu::Cmp, x86::RAX, region(limit));
        self.fault_if(When::NotBelow);
    }

    /// Adds to a word of a map, atomically.
    fn add(&mut self, op: &Op) {
        let asm = &mut self.asm;
        asm.lea(x86::RAX, Place::At(host(op.dst), i32::from(op.offset)));
        asm.mov(true, x86::RCX, x86::RAX);
        asm.shift(true, Shift::Right, x86::RCX, 32);
        asm.op_number(false, Alu::Cmp, Place::Reg(x86::RCX), offset_of(REGIONS_MAX));
        self.fault_if(When::NotBelow);
        let values = i32::try_from(VALUES).unwrap_or(0);
        self.asm.op_number(false, Alu::Cmp, Place::Reg(x86::RCX), values);
        self.fault_if(When::Below);
        self.asm.test_number(false, x86::RAX, i32::from(op.code) - 1);
        self.fault_if(When::NotEqual);
        self.in_region(op.code);
        let base = Place::Indexed(STATE, x86::RCX, offset_of(State::BASE));
        self.asm.op_from(Alu::Add, x86::RAX, base);
        self.asm.lock_add(op.code == 8, Place::At(x86::RAX, 0), host(op.src));
    }

    /// Calls a function of Rust, whose first argument is the state.
    fn call_rust(&mut self, target: Target) {
        self.asm.mov(true, x86::RDI, STATE);
        self.asm.set(x86::RAX, target.address());
        self.asm.call_at(x86::RAX);
    }

    fn help(&mut self, op: &Op) {
        const LOOKUP: u64 = 1;
        let map = match self.known.of(1) {
            Value::Number(map) if map >> 32 == MAPS => usize::try_from(map & 0xffff_ffff).ok(),
            _ => None,
        };
        let map = map.and_then(|at| Some((at as u64, self.maps.get(at)?)));
        match map {
            Some((at, map)) if op.constant == LOOKUP && matches!(map.key_size, 4 | 8) => self.lookup(at, map),
            _ => {
                self.asm.load(x86::RAX, state(State::REGISTERS), 8);
                for (register, offset) in (1..=5).zip((8..).step_by(8)) {
                    self.asm.store(Place::At(x86::RAX, offset), host(register), 8);
                }
                self.asm.set(x86::RSI, op.constant);
                self.call_rust(Target::Help);
                self.asm.test(false, x86::RDX, x86::RDX);
                self.fault_if(When::NotEqual);
                self.asm.mov(true, host(0), x86::RAX);
            }
        }
        (1..=5).for_each(|register| self.asm.set(host(register), 0));
    }

    /// Looks up a key of four or eight bytes, at the address in `r2`. Arrays need no call.
    fn lookup(&mut self, at: u64, map: &Map) {
        let key_size = u8::try_from(map.key_size).unwrap_or(8);
        let key = self.address(2, &Op { offset: 0, code: key_size, ..Op::NONE }, false);
        let values = (VALUES + at) << 32;
        let Some((entries, stride)) = map.array() else {
            self.asm.load(x86::RDX, key, key_size);
            self.asm.set(x86::RSI, at);
            self.call_rust(Target::Lookup);
            return self.asm.mov(true, host(0), x86::RAX);
        };
        let asm = &mut self.asm;
        asm.load(x86::RAX, key, key_size);
        asm.set(host(0), 0);
        asm.op_number(true, Alu::Cmp, Place::Reg(x86::RAX), entries);
        let none = asm.jump_if(When::NotBelow);
        asm.mul_number(true, x86::RAX, stride);
        asm.set(host(0), values);
        asm.op(true, Alu::Add, Place::Reg(host(0)), x86::RAX);
        let end = asm.here();
        // Near.
        let _filled = asm.fill(none, end);
    }

    /// Lets the interpreter do an instruction that is rare: one of arithmetic, or an atomic one.
    fn interpret(&mut self, at: usize) {
        let places = || (0..).zip((0..).step_by(8)).take(REGISTERS.len());
        self.asm.load(x86::RAX, state(State::REGISTERS), 8);
        for (register, offset) in places() {
            self.asm.store(Place::At(x86::RAX, offset), host(register), 8);
        }
        self.asm.set(x86::RSI, at as u64);
        self.call_rust(Target::Interpret);
        self.asm.test(false, x86::RDX, x86::RDX);
        self.fault_if(When::NotEqual);
        self.asm.load(x86::RAX, state(State::REGISTERS), 8);
        for (register, offset) in places() {
            self.asm.load(host(register), Place::At(x86::RAX, offset), 8);
        }
    }

    /// Calls a function of the program, with the next part of the stack.
    fn call(&mut self, op: &Op) {
        let (len, all) = (offset_of(STACK_LEN), offset_of(STACK_LEN * DEPTH_MAX));
        let kept: [Reg; 4] = core::array::from_fn(|at| REGISTERS[6 + at]);
        self.asm.op_number(false, Alu::Cmp, Place::Reg(FRAME), all);
        self.fault_if(When::NotBelow);
        let asm = &mut self.asm;
        kept.iter().for_each(|reg| asm.push(*reg));
        // With the return address, 48 bytes: the stack stays aligned.
        asm.op_number(true, Alu::Sub, Place::Reg(x86::RSP), 8);
        asm.op_number(true, Alu::Add, Place::Reg(FRAME), len);
        let call = asm.call();
        asm.op_number(true, Alu::Sub, Place::Reg(FRAME), len);
        asm.op_number(true, Alu::Add, Place::Reg(x86::RSP), 8);
        kept.iter().rev().for_each(|reg| asm.pop(*reg));
        self.jumps.push((call, op.target));
    }
}

#[cfg(test)]
mod tests;
