//! Unsafe: runs machine code with the memory that it reaches, and is called by it.
#![expect(unsafe_code, reason = "calls of machine code, and from it")]

use core::mem::offset_of;
use core::ptr;

use pkt::Pkt;

use super::super::code::{Class, Code};
use super::super::{
    CONTEXT, CONTEXT_LEN, Fault, Machine, PACKET_AT, STACK, STEPS_MAX, Shared, VALUES, context,
};
use crate::sys::mmap::Mapping;
use crate::xdp::maps::Map;
use crate::xdp::object::MAPS_MAX;

/// Regions of addresses: packet, stack, context, values of maps.
pub(super) const REGIONS_MAX: usize = VALUES_AT + MAPS_MAX;
const STACK_AT: usize = 1;
const CONTEXT_AT: usize = 2;
const VALUES_AT: usize = 3;
const _: () = assert!(
    STACK_AT as u64 == STACK && CONTEXT_AT as u64 == CONTEXT && VALUES_AT as u64 == VALUES,
    "regions are the upper halves of addresses"
);

/// A compiled program.
pub(in super::super) struct Compiled(Mapping);

/// The memory that the code of one ring reaches.
pub(in super::super) struct Ring(Box<State>);

/// The memory that the code itself knows, by offsets.
#[repr(C)]
pub(super) struct State {
    host_stack: u64,
    left: u64,
    stack: *mut u8,
    registers: *mut u64,
    machine: *mut Machine,
    shared: *const Shared,
    frame: *mut Pkt,
    context: [u32; CONTEXT_LEN / 4],
    regions: [Region; REGIONS_MAX],
}

/// A region of addresses, and the memory that it stands for.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Region {
    /// Memory at the lowest address.
    base: *mut u8,
    /// Lower half of the lowest address.
    from: u64,
    /// Places at which an access of 1, 2, 4 or 8 bytes may begin.
    limits: [u64; 4],
    /// Not 0 if the program has written to it.
    written: u32,
}

/// The answer of a function, in two registers.
#[repr(C)]
struct Answer {
    value: u64,
    fault: u64,
}

/// A function that the code calls.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    Help,
    Lookup,
    Interpret,
}

// SAFETY: the pointers are written before each run by the thread that runs, and are not used afterwards, but for those to
// values of maps, which any thread may access.
unsafe impl Send for Ring {}

impl State {
    pub(super) const HOST_STACK: usize = offset_of!(Self, host_stack);
    pub(super) const LEFT: usize = offset_of!(Self, left);
    pub(super) const STACK: usize = offset_of!(Self, stack);
    pub(super) const REGISTERS: usize = offset_of!(Self, registers);
    pub(super) const WORDS: usize = offset_of!(Self, context);
    pub(super) const BASE: usize = offset_of!(Self, regions) + offset_of!(Region, base);
    pub(super) const FROM: usize = offset_of!(Self, regions) + offset_of!(Region, from);
    pub(super) const LIMITS: usize = offset_of!(Self, regions) + offset_of!(Region, limits);
    pub(super) const WRITTEN: usize = offset_of!(Self, regions) + offset_of!(Region, written);
    /// A region's number, shifted so, is its offset.
    pub(super) const REGION_BITS: u8 = 6;

    fn set_packet(&mut self, machine: &Machine, frame: &mut Pkt) {
        self.context = context(&machine.occasion, frame);
        let from = PACKET_AT + frame.headroom() as u64;
        let head = frame.head_mut();
        self.regions[0].set(head.as_mut_ptr(), from, head.len());
    }
}

impl Region {
    const NONE: Self = Self { base: ptr::null_mut(), from: 0, limits: [0; 4], written: 0 };

    fn set(&mut self, base: *mut u8, from: u64, len: usize) {
        let len = len as u64;
        (self.base, self.from) = (base, from);
        self.limits = [1, 2, 4, 8].map(|bytes| (len + 1).saturating_sub(bytes));
    }
}

const _: () = assert!(size_of::<Region>() == 1 << State::REGION_BITS);

impl Target {
    pub(super) fn address(self) -> u64 {
        let function = match self {
            Self::Help => help as *const (),
            Self::Lookup => lookup as *const (),
            Self::Interpret => interpret as *const (),
        };
        function as usize as u64
    }
}

impl Compiled {
    /// Compiles a program with its maps; `None` if it is too long, or the system lets no memory be executed.
    pub(in super::super) fn new(code: &Code, maps: &[Map]) -> Option<Self> {
        Mapping::executable(&super::translate(code, maps)?).ok().map(Self)
    }

    /// Runs the program on a frame, as [`Machine::interpret`] does.
    #[inline]
    pub(in super::super) fn run(
        &self,
        Ring(state): &mut Ring,
        machine: &mut Machine,
        shared: &Shared,
        frame: &mut Pkt,
    ) -> u64 {
        state.left = STEPS_MAX.into();
        state.set_packet(machine, frame);
        state.regions[0].written = 0;
        state.regions[CONTEXT_AT].base = (&raw mut state.context).cast();
        // The stack is in memory of its own.
        state.stack = machine.stack.as_mut_ptr();
        state.regions[STACK_AT].base = state.stack;
        (state.machine, state.shared, state.frame) = (&raw mut *machine, shared, &raw mut *frame);
        // SAFETY: it is a valid pointer, of the line above.
        state.registers = unsafe { (&raw mut (*state.machine).registers).cast() };
        // SAFETY: the mapping begins with the code of a function of this type.
        let code: extern "sysv64" fn(*mut State) -> u64 =
            unsafe { core::mem::transmute(self.0.start().as_ptr()) };
        // The exclusive references above are not used until the code has ended, but through the pointers.
        let answer = code(&raw mut **state);
        machine.has_written |= state.regions[0].written != 0;
        answer
    }
}

impl Ring {
    pub(in super::super) fn new(shared: &Shared) -> Self {
        let mut regions = [Region::NONE; REGIONS_MAX];
        regions[STACK_AT].set(ptr::null_mut(), 0, super::STACK_LEN * super::DEPTH_MAX);
        regions[CONTEXT_AT].set(ptr::null_mut(), 0, CONTEXT_LEN);
        for (region, map) in regions[VALUES_AT..].iter_mut().zip(&shared.maps) {
            let (base, len) = map.values.whole();
            region.set(base, 0, len);
        }
        Self(Box::new(State {
            host_stack: 0,
            left: 0,
            stack: ptr::null_mut(),
            registers: ptr::null_mut(),
            machine: ptr::null_mut(),
            shared: ptr::null(),
            frame: ptr::null_mut(),
            context: [0; CONTEXT_LEN / 4],
            regions,
        }))
    }
}

impl From<Result<u64, Fault>> for Answer {
    fn from(result: Result<u64, Fault>) -> Self {
        match result {
            Ok(value) => Self { value, fault: 0 },
            Err(Fault) => Self { value: 0, fault: 1 },
        }
    }
}

/// The references that a run of the code borrows.
///
/// # Safety
/// `state` is what the code was called with, by [`Compiled::run`], and the code waits for the caller of this function, which has
/// no other of these references.
unsafe fn borrowed<'r>(state: *mut State) -> (&'r mut State, &'r mut Machine, &'r Shared, &'r mut Pkt) {
    // SAFETY: see above.
    let state = unsafe { &mut *state };
    // SAFETY: `Compiled::run` has set it to a reference that it holds, and does not use while the code runs.
    let machine = unsafe { &mut *state.machine };
    // SAFETY: as above.
    let shared = unsafe { &*state.shared };
    // SAFETY: as above.
    let frame = unsafe { &mut *state.frame };
    (state, machine, shared, frame)
}

/// Calls a helper with the arguments in the machine's registers.
unsafe extern "sysv64" fn help(state: *mut State, number: u64) -> Answer {
    // SAFETY: the code passes its state.
    let (state, machine, shared, frame) = unsafe { borrowed(state) };
    let answer = machine.help(shared, number, frame);
    // The frame may have moved its ends.
    state.set_packet(machine, frame);
    answer.into()
}

/// Looks up a key of four or eight bytes in a map; answers the address of its value, or 0.
unsafe extern "sysv64" fn lookup(state: *mut State, map: u64, key: u64) -> u64 {
    // SAFETY: the code passes its state.
    let (_, machine, shared, _) = unsafe { borrowed(state) };
    let found = usize::try_from(map).ok().and_then(|map| shared.maps.get(map));
    let found = found.and_then(|map| map.lookup_word(key, machine.occasion.cpu.into()));
    found.map_or(0, |at| (VALUES + map) << 32 | at)
}

/// Does an instruction with the machine's registers.
unsafe extern "sysv64" fn interpret(state: *mut State, at: u64) -> Answer {
    // SAFETY: the code passes its state.
    let (_, machine, shared, _) = unsafe { borrowed(state) };
    let op = usize::try_from(at).ok().and_then(|at| shared.code.0.get(at)).ok_or(Fault);
    let done = op.and_then(|op| match op.class {
        Class::Atomic => machine.atomic(shared, op),
        _ => {
            machine.arithmetic(op);
            Ok(())
        }
    });
    done.map(|()| 0).into()
}
