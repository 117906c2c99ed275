//! XDP programs in this process, for interfaces without AF_XDP: an interpreter, and a compiler ([`jit`]) where there is one.
//!
//! Addresses are no addresses of memory: their upper half says what they are of, the lower half where in it, and each access
//! is checked against that. So no program, verified or not, reaches anything but its packet, its stack and its maps; a wrong
//! access, like too many instructions, ends it, and the packet is dropped as aborted.
//!
//! ```text
//! 0x0000_0000_0001_0000   buffer of the packet: 32 bits, as `struct xdp_md` has them
//! 0x0000_0001_0000_0000   stack, 512 bytes for each function
//! 0x0000_0002_0000_0000   struct xdp_md
//! 0x0000_0003_0000_0000   values of the first map, and so on
//! 0xffff_ffff_0000_0000   maps themselves, for helpers
//! ```

mod alu;
mod code;
mod helpers;
#[cfg(target_arch = "x86_64")]
mod jit;
#[cfg(not(target_arch = "x86_64"))]
#[path = "vm/no_jit.rs"]
mod jit;

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use net::driver::{FrameProgram, Occasion, Verdict};
use net::tables::IfIndex;
use net::time::Instant;
use pkt::{BUF_LEN, Flags, Pkt};

use self::alu::{alu32, alu64, byte_order, jumps32, jumps64};
use self::code::{Class, Code, Op};
use self::jit::{Compiled, Ring};
use super::maps::{Map, MapError};
use super::memory::Change;
use super::object::Object;
pub use code::CodeError;

/// Instructions that a program may run for one packet.
pub const STEPS_MAX: u32 = 1 << 16;
/// Functions that may be entered, one in another, as in the kernel.
const DEPTH_MAX: usize = 8;
const STACK_LEN: usize = 512;
const PACKET_AT: u64 = 0x1_0000;
const STACK: u64 = 1;
const CONTEXT: u64 = 2;
const CONTEXT_LEN: usize = 24;
const VALUES: u64 = 3;
const MAPS: u64 = 0xffff_ffff;

/// A program that may run on the rings of one interface.
#[derive(Clone)]
pub struct InProcess(Arc<Shared>);

/// The parts of a program that its rings share.
struct Shared {
    code: Code,
    /// Machine code, where there is a compiler for it.
    compiled: Option<Compiled>,
    maps: Vec<Map>,
    /// Counts of each ring, which alone writes them.
    verdicts: Mutex<Vec<Arc<Verdicts>>>,
}

/// Packets by verdict.
type Verdicts = [AtomicU64; 5];

/// Why a program cannot run in this process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InProcessError {
    /// A map.
    #[error(transparent)]
    Map(#[from] MapError),
    /// An instruction.
    #[error(transparent)]
    Code(#[from] CodeError),
}

/// Why a program is ended before it has a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fault;

/// Destination that a redirect helper has chosen.
#[derive(Clone, Copy, Debug)]
enum Pending {
    Interface(IfIndex),
    Stack,
}

/// A program on one ring.
struct OnRing {
    shared: Arc<Shared>,
    verdicts: Arc<Verdicts>,
    machine: Machine,
    /// Memory of the machine code.
    compiled: Option<Ring>,
}

/// The state of a program while it runs.
struct Machine {
    registers: [u64; 16],
    stack: Box<[u8; DEPTH_MAX * STACK_LEN]>,
    callers: Vec<Caller>,
    occasion: Occasion,
    pending: Option<Pending>,
    scratch: Vec<u8>,
    seed: u64,
    has_written: bool,
}

/// The state that a function goes back to.
#[derive(Clone, Copy)]
struct Caller {
    at: usize,
    kept: [u64; 4],
}

impl InProcess {
    /// Prepares a program for rings on `cpus` CPUs.
    ///
    /// # Errors
    /// [`InProcessError`], if it uses what is only in the kernel.
    pub fn new(object: &Object, cpus: u16) -> Result<Self, InProcessError> {
        let shared = Self::interpreted(object, cpus)?;
        let compiled = Compiled::new(&shared.code, &shared.maps);
        Ok(Self(Arc::new(Shared { compiled, ..shared })))
    }

    /// Prepares a program that is interpreted, although it could be compiled.
    pub(super) fn without_compiler(object: &Object, cpus: u16) -> Result<Self, InProcessError> {
        Ok(Self(Arc::new(Self::interpreted(object, cpus)?)))
    }

    /// The values of all maps.
    pub(super) fn values(&self) -> Vec<Vec<u8>> {
        let all = self.0.maps.iter().map(|map| {
            let mut bytes = vec![0; map.values.len()];
            map.values.read(0, &mut bytes).map_or_else(Vec::new, |()| bytes)
        });
        all.collect()
    }

    /// Prepares a program for the interpreter.
    fn interpreted(object: &Object, cpus: u16) -> Result<Shared, InProcessError> {
        let maps = object.maps.iter().map(|def| Map::new(def, u64::from(cpus.max(1))));
        let maps = maps.collect::<Result<Vec<_>, _>>()?;
        let there = |number: i32| usize::try_from(number).ok().filter(|at| *at < maps.len());
        let map = |number: i32| there(number).map(|at| MAPS << 32 | at as u64);
        let value = |number: i32, offset: i32| {
            let offset = u64::try_from(offset).ok()?;
            there(number).map(|at| Machine::address_of(at, offset))
        };
        let code = Code::new(&object.insns, map, value)?;
        Ok(Shared { code, compiled: None, maps, verdicts: Mutex::default() })
    }

    /// Whether a program can run in a process. Its maps are not pinned.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn check(object: &Object) -> Result<(), InProcessError> {
        object.maps.iter().try_for_each(|def| Map::check(def).map(drop))?;
        let map = |number: i32| usize::try_from(number).ok().filter(|at| *at < object.maps.len());
        Code::new(&object.insns, |number| map(number).map(|_| 1), |number, _| map(number).map(|_| 1))?;
        Ok(())
    }

    /// The program for one ring. `seed` begins its random numbers.
    #[must_use]
    pub fn on_ring(&self, seed: u64) -> Box<dyn FrameProgram> {
        let occasion = Occasion { now: Instant::NEVER, ifindex: 0, queue: 0, cpu: 0 };
        let verdicts = Arc::new(Verdicts::default());
        self.0.verdicts.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&verdicts));
        let machine = Machine {
            registers: [0; 16],
            stack: Box::new([0; DEPTH_MAX * STACK_LEN]),
            callers: Vec::with_capacity(DEPTH_MAX),
            occasion,
            pending: None,
            scratch: Vec::with_capacity(BUF_LEN * 2),
            seed: seed | 1,
            has_written: false,
        };
        let compiled = self.0.compiled.is_some().then(|| Ring::new(&self.0));
        Box::new(OnRing { shared: Arc::clone(&self.0), verdicts, machine, compiled })
    }

    /// Packets of each verdict so far: aborted, dropped, passed, reflected, redirected.
    #[must_use]
    pub fn verdicts(&self) -> [u64; 5] {
        let rings = self.0.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        core::array::from_fn(|at| rings.iter().map(|ring| ring[at].load(Ordering::Relaxed)).sum())
    }
}

impl FrameProgram for OnRing {
    fn run(&mut self, occasion: &Occasion, frame: &mut Pkt) -> Verdict {
        let Self { shared, verdicts, machine, compiled } = self;
        machine.occasion = *occasion;
        (machine.pending, machine.has_written) = (None, false);
        let before = (frame.headroom(), frame.len());
        let result = match (&shared.compiled, compiled) {
            (Some(code), Some(ring)) => code.run(ring, machine, shared, frame),
            _ => machine.interpret(shared, frame).unwrap_or(0),
        };
        if machine.has_written || (frame.headroom(), frame.len()) != before {
            // What was known of the flow may not be true any more.
            frame.flags.clear(Flags::HASH.with(Flags::CSUM_GOOD));
        }
        let (at, verdict) = match (result & 0xffff_ffff, machine.pending) {
            (1, _) => (1, Verdict::Drop),
            (2, _) => (2, Verdict::Pass),
            (3, _) => (3, Verdict::Tx),
            (4, Some(Pending::Interface(to))) => (4, Verdict::Redirect(to)),
            (4, Some(Pending::Stack)) => (4, Verdict::Pass),
            _ => (0, Verdict::Aborted),
        };
        let count: &AtomicU64 = &verdicts[at];
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        verdict
    }
}

impl Machine {
    /// Runs the program on a frame; answers what it returns.
    fn interpret(&mut self, shared: &Shared, frame: &mut Pkt) -> Result<u64, Fault> {
        let ops = &shared.code.0;
        self.callers.clear();
        self.registers = [0; 16];
        (self.registers[1], self.registers[10]) = (CONTEXT << 32, STACK << 32 | STACK_LEN as u64);
        let (mut at, mut left) = (0_usize, STEPS_MAX);
        loop {
            let op = ops.get(at).ok_or(Fault)?;
            left = left.checked_sub(op.steps).ok_or(Fault)?;
            at += 1;
            let (dst, src) = (usize::from(op.dst & 15), usize::from(op.src & 15));
            let r = &mut self.registers;
            match op.class {
                Class::Alu64K | Class::Alu64X | Class::Alu32K | Class::Alu32X | Class::End => {
                    self.arithmetic(op);
                }
                Class::Wide => {
                    r[dst] = op.constant;
                    at += 1;
                }
                Class::Jump64K if jumps64(op.code, r[dst], op.constant) => at = op.target as usize,
                Class::Jump64X if jumps64(op.code, r[dst], r[src]) => at = op.target as usize,
                Class::Jump32K if jumps32(op.code, r[dst], op.constant) => at = op.target as usize,
                Class::Jump32X if jumps32(op.code, r[dst], r[src]) => at = op.target as usize,
                Class::Jump64K | Class::Jump64X | Class::Jump32K | Class::Jump32X => {}
                Class::Always => at = op.target as usize,
                Class::Load => {
                    let from = near(r[src], op.offset);
                    self.registers[dst] = self.load(shared, from, u64::from(op.code), frame)?;
                }
                Class::LoadSigned => {
                    let from = near(r[src], op.offset);
                    let shift = 64 - 8 * u32::from(op.code);
                    let value = self.load(shared, from, u64::from(op.code), frame)? << shift;
                    self.registers[dst] = (value.cast_signed() >> shift).cast_unsigned();
                }
                Class::Store => {
                    let (to, value) = (near(r[dst], op.offset), r[src]);
                    self.store(shared, to, op.code, value, frame)?;
                }
                Class::StoreK => {
                    let to = near(r[dst], op.offset);
                    self.store(shared, to, op.code, op.constant, frame)?;
                }
                Class::Atomic => self.atomic(shared, op)?,
                Class::Helper => {
                    let answer = self.help(shared, op.constant, frame)?;
                    // As the kernel's verifier has it, arguments are gone.
                    self.registers[..6].copy_from_slice(&[answer, 0, 0, 0, 0, 0]);
                }
                Class::Call => at = self.enter(at, op)?,
                Class::Exit => match self.leave() {
                    Some(back) => at = back,
                    None => return Ok(self.registers[0]),
                },
            }
        }
    }

    #[inline(always)]
    fn arithmetic(&mut self, op: &Op) {
        let (dst, src, r) = (usize::from(op.dst & 15), usize::from(op.src & 15), &mut self.registers);
        r[dst] = match op.class {
            Class::Alu64K => alu64(op, r[dst], op.constant),
            Class::Alu64X => alu64(op, r[dst], r[src]),
            Class::Alu32K => alu32(op, r[dst], op.constant),
            Class::Alu32X => alu32(op, r[dst], r[src]),
            _ => byte_order(op.code, op.constant, r[dst]),
        };
    }

    /// Enters another function, with the next part of the stack.
    fn enter(&mut self, at: usize, op: &Op) -> Result<usize, Fault> {
        if self.callers.len() + 1 >= DEPTH_MAX {
            return Err(Fault);
        }
        let [_, _, _, _, _, _, a, b, c, d, ..] = self.registers;
        self.callers.push(Caller { at, kept: [a, b, c, d] });
        self.registers[10] += STACK_LEN as u64;
        Ok(op.target as usize)
    }

    /// Goes back to the function that called; `None` at the end of the program.
    fn leave(&mut self) -> Option<usize> {
        let Caller { at, kept } = self.callers.pop()?;
        self.registers[6..10].copy_from_slice(&kept);
        self.registers[10] -= STACK_LEN as u64;
        Some(at)
    }

    /// Reads `bytes` (1, 2, 4 or 8) at an address.
    #[inline]
    fn load(&self, shared: &Shared, address: u64, bytes: u64, frame: &mut Pkt) -> Result<u64, Fault> {
        let (region, at) = (address >> 32, address & 0xffff_ffff);
        match region {
            0 => {
                let (from, end) = limits(frame);
                let at = within(at.wrapping_sub(PACKET_AT), bytes, from, end)?;
                read(frame.buffer_mut(), at, bytes)
            }
            STACK => read(&self.stack[..], within(at, bytes, 0, self.stack.len() as u64)?, bytes),
            CONTEXT => self.context(at, bytes, frame),
            _ => {
                let map = usize::try_from(region - VALUES).ok().and_then(|map| shared.maps.get(map));
                map.and_then(|map| map.values.load(at, bytes)).ok_or(Fault)
            }
        }
    }

    /// Writes the lower bytes of a value.
    #[inline]
    fn store(
        &mut self,
        shared: &Shared,
        address: u64,
        bytes: u8,
        value: u64,
        frame: &mut Pkt,
    ) -> Result<(), Fault> {
        let (region, at, bytes) = (address >> 32, address & 0xffff_ffff, u64::from(bytes));
        match region {
            0 => {
                let (from, end) = limits(frame);
                let at = within(at.wrapping_sub(PACKET_AT), bytes, from, end)?;
                self.has_written = true;
                write(frame.buffer_mut(), at, bytes, value)
            }
            STACK => {
                let at = within(at, bytes, 0, self.stack.len() as u64)?;
                write(&mut self.stack[..], at, bytes, value)
            }
            CONTEXT => Err(Fault),
            _ => {
                let map = usize::try_from(region - VALUES).ok().and_then(|map| shared.maps.get(map));
                map.and_then(|map| map.values.store(at, bytes, value)).ok_or(Fault)
            }
        }
    }

    /// Reads of `struct xdp_md`.
    fn context(&self, at: u64, bytes: u64, frame: &Pkt) -> Result<u64, Fault> {
        let words = context(&self.occasion, frame);
        let mut context = [0; CONTEXT_LEN];
        for (word, into) in words.iter().zip(context.as_chunks_mut::<4>().0) {
            *into = word.to_le_bytes();
        }
        read(&context, within(at, bytes, 0, CONTEXT_LEN as u64)?, bytes)
    }

    /// Changes a word of a map or of the stack.
    fn atomic(&mut self, shared: &Shared, op: &Op) -> Result<(), Fault> {
        const FETCH: u64 = 1;
        let (dst, src) = (usize::from(op.dst & 15), usize::from(op.src & 15));
        let (address, value, bytes) =
            (near(self.registers[dst], op.offset), self.registers[src], u64::from(op.code));
        let change = match op.constant & 0xff {
            0x00 | 0x01 => Change::Add,
            0x40 | 0x41 => Change::Or,
            0x50 | 0x51 => Change::And,
            0xa0 | 0xa1 => Change::Xor,
            0xe1 => Change::Exchange,
            _ => Change::CompareExchange(self.registers[0]),
        };
        let (region, at) = (address >> 32, address & 0xffff_ffff);
        let map = region.checked_sub(VALUES).and_then(|map| shared.maps.get(usize::try_from(map).ok()?));
        let old = map.and_then(|map| map.values.change(at, bytes, change, value)).ok_or(Fault)?;
        match change {
            Change::CompareExchange(_) => self.registers[0] = old,
            _ if op.constant & FETCH != 0 => self.registers[src] = old,
            _ => {}
        }
        Ok(())
    }

    /// Copies bytes at an address.
    fn copy_out(&self, shared: &Shared, address: u64, into: &mut [u8], frame: &mut Pkt) -> Result<(), Fault> {
        let mut address = address;
        for part in into.chunks_mut(8) {
            match <&mut [u8; 8]>::try_from(&mut *part) {
                Ok(word) => *word = self.load(shared, address, 8, frame)?.to_le_bytes(),
                Err(_) => {
                    for (at, byte) in (address..).zip(&mut *part) {
                        *byte = self.load(shared, at, 1, frame)?.to_le_bytes()[0];
                    }
                }
            }
            address = address.wrapping_add(8);
        }
        Ok(())
    }

    /// The number of a map.
    #[inline]
    fn map_of(&self, shared: &Shared, address: u64) -> Result<usize, Fault> {
        let at = usize::try_from(address & 0xffff_ffff).map_err(|_| Fault)?;
        (address >> 32 == MAPS && at < shared.maps.len()).then_some(at).ok_or(Fault)
    }

    /// The address of a byte in a map's values.
    #[inline]
    const fn address_of(map: usize, at: u64) -> u64 {
        (VALUES + map as u64) << 32 | at
    }
}

/// `struct xdp_md`: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
#[inline]
fn context(occasion: &Occasion, frame: &Pkt) -> [u32; CONTEXT_LEN / 4] {
    let (from, end) = limits(frame);
    // A buffer has few bytes.
    let [from, end] = [from, end].map(|at| u32::try_from(PACKET_AT + at).unwrap_or(0));
    [from, end, from, occasion.ifindex.into(), occasion.queue.into(), 0]
}

/// Where the packet's bytes in its first buffer begin and end.
#[inline]
fn limits(frame: &Pkt) -> (u64, u64) {
    let from = frame.headroom();
    (from as u64, (from + frame.head_len()) as u64)
}

/// A place, if that and what is behind it lie between two others.
#[inline]
fn within(at: u64, bytes: u64, from: u64, end: u64) -> Result<usize, Fault> {
    let is_inside = at >= from && at < end && bytes <= end - at;
    is_inside.then(|| usize::try_from(at).ok()).flatten().ok_or(Fault)
}

#[inline]
fn read(from: &[u8], at: usize, bytes: u64) -> Result<u64, Fault> {
    let from = from.get(at..).ok_or(Fault)?;
    let read = match bytes {
        1 => from.first().map(|byte| u64::from(*byte)),
        2 => from.first_chunk().map(|bytes| u64::from(u16::from_le_bytes(*bytes))),
        4 => from.first_chunk().map(|bytes| u64::from(u32::from_le_bytes(*bytes))),
        _ => from.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)),
    };
    read.ok_or(Fault)
}

#[inline]
fn write(to: &mut [u8], at: usize, bytes: u64, value: u64) -> Result<(), Fault> {
    let count = usize::try_from(bytes).unwrap_or(8);
    let to = at.checked_add(count).and_then(|end| to.get_mut(at..end)).ok_or(Fault)?;
    let value = value.to_le_bytes();
    match count {
        1 => to.copy_from_slice(&value[..1]),
        2 => to.copy_from_slice(&value[..2]),
        4 => to.copy_from_slice(&value[..4]),
        _ => to.copy_from_slice(&value),
    }
    Ok(())
}

#[inline]
const fn near(address: u64, offset: i16) -> u64 {
    address.wrapping_add_signed(offset as i64)
}

#[cfg(test)]
mod tests;
