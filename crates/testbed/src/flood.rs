//! A traffic generator: frames that an XDP program writes and sends out of an interface, inside the kernel.
//!
//! No socket, no copy: about 100 ns for a frame, which over veth is more than anything behind it takes. For
//! measurements and tests.

use dev::bpf::BpfError;
use dev::bpf::asm::{Alu, Asm, AsmError, Cond, Helper, Insn, Reg, Size};
use dev::bpf::map::PerCpu;
use dev::bpf::prog::{Kind, Program};

/// Bytes of each frame, without the check sequence that no software sees.
pub const FRAME_LEN: usize = 64;

/// The frames to send.
#[derive(Debug, Clone, Copy)]
pub struct Frames {
    /// Each frame, but for the numbers below.
    pub template: [u8; FRAME_LEN],
    /// 16 bits that count flows in random order, beginning with 0 (ports).
    pub flow: Varied,
    /// 16 bits that are those of the flow, masked (addresses).
    pub to: Varied,
}

/// A number in a frame that varies. The one's complement stands in a second place that is under the same checksums, so
/// that they stay right.
#[derive(Debug, Clone, Copy)]
pub struct Varied {
    /// Where; even.
    pub at: u8,
    /// Where its complement is; even.
    pub complement_at: u8,
}

/// The rate; can be changed while sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Frames sent out of [`Pace::ALL`], evenly; the others are made and thrown away, which takes less time.
    pub share: u16,
    /// Mask of the flow's number: flows − 1, for a power of two.
    pub flows: u16,
    /// Mask of the number in `to`.
    pub to: u16,
}

impl Pace {
    /// The share that is everything.
    pub const ALL: u16 = 4096;
}

/// A generator. It belongs to the network namespace of the thread that runs it.
#[derive(Debug)]
pub struct Flood {
    program: Program,
    pace: PerCpu,
    state: PerCpu,
    template: [u8; FRAME_LEN],
}

impl Flood {
    /// A generator that sends out of interface `ifindex`, at no pace yet.
    ///
    /// If that is a veth, its peer must have NAPI: an XDP program, or GRO switched on.
    ///
    /// # Errors
    /// [`BpfError`].
    pub fn new(ifindex: u32, frames: &Frames) -> Result<Self, BpfError> {
        let (pace, state) = (PerCpu::new(PACE_WORDS)?, PerCpu::new(STATE_WORDS)?);
        let insns = program(ifindex, frames, &pace, &state).map_err(|e| BpfError::Refused {
            doing: "assemble the traffic generator",
            source: std::io::Error::other(e),
        })?;
        let program = Program::load("pantala_flood", Kind::Xdp, &insns, false)?;
        Ok(Self { program, pace, state, template: frames.template })
    }

    /// Sets the pace.
    ///
    /// # Errors
    /// None is expected.
    pub fn set_pace(&self, pace: Pace) -> Result<(), BpfError> {
        self.pace.set(&[pace.share.into(), pace.flows.into(), pace.to.into()])
    }

    /// Makes `frames` frames, in batches of `batch` (1 to 256), on the calling thread: see [`Program::run_live`].
    ///
    /// # Errors
    /// As there.
    pub fn run(&self, frames: u32, batch: u32) -> Result<(), BpfError> {
        self.program.run_live(&self.template, frames, batch)
    }

    /// Frames sent so far; the interface may have dropped some of them.
    ///
    /// # Errors
    /// None is expected.
    pub fn sent(&self) -> Result<u64, BpfError> {
        Ok(self.state.sums()?[SENT as usize / 8])
    }
}

/// Words of the pace: their offsets.
const SHARE: i16 = 0;
const FLOWS: i16 = 8;
const TO: i16 = 16;
const PACE_WORDS: u32 = 3;
/// Words of the state: their offsets.
const SENT: i16 = 0;
const DUE: i16 = 8;
const STATE_WORDS: u32 = 2;

const PACE: Reg = Reg::R6;
const STATE: Reg = Reg::R7;
const FRAME: Reg = Reg::R8;
const NUMBER: Reg = Reg::R9;

fn program(ifindex: u32, frames: &Frames, pace: &PerCpu, state: &PerCpu) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Asm::new();
    let drop = asm.label();
    asm.load(Size::Word, FRAME, Reg::R1, DATA).load(Size::Word, NUMBER, Reg::R1, DATA_END);
    look_up(&mut asm, PACE, pace, drop);
    look_up(&mut asm, STATE, state, drop);
    leave_unless_due(&mut asm, drop);
    let end = Reg::R1;
    asm.mov(end, FRAME).alu(Alu::Add, end, FRAME_BYTES).jump_if(Cond::Gt, end, NUMBER, drop);
    write_template(&mut asm, &frames.template);
    asm.load(Size::Double, NUMBER, STATE, SENT);
    asm.mov(Reg::R1, NUMBER).alu(Alu::Add, Reg::R1, 1).store(Size::Double, STATE, SENT, Reg::R1);
    // The middle bits of the product with an odd number visit all values in an order without pattern.
    asm.alu(Alu::Mul, NUMBER, SCRAMBLE).alu(Alu::Shr, NUMBER, 16);
    vary(&mut asm, frames.flow, FLOWS);
    vary(&mut asm, frames.to, TO);
    asm.mov(Reg::R1, ifindex.cast_signed()).mov(Reg::R2, 0).call(Helper::Redirect).exit();
    asm.place(drop).mov(Reg::R0, XDP_DROP).exit();
    asm.finish()
}

/// `into =` this CPU's numbers.
fn look_up(asm: &mut Asm, into: Reg, map: &PerCpu, none: dev::bpf::asm::Label) {
    asm.store(Size::Word, Reg::R10, -4, 0).mov(Reg::R2, Reg::R10).alu(Alu::Add, Reg::R2, -4);
    asm.load_map(Reg::R1, map).call(Helper::MapLookup);
    asm.jump_if(Cond::Eq, Reg::R0, 0, none).mov(into, Reg::R0);
}

/// Adds the share up, and goes on when it makes a whole.
fn leave_unless_due(asm: &mut Asm, drop: dev::bpf::asm::Label) {
    let (due, share) = (Reg::R1, Reg::R2);
    asm.load(Size::Double, due, STATE, DUE).load(Size::Double, share, PACE, SHARE);
    asm.alu(Alu::Add, due, share).store(Size::Double, STATE, DUE, due);
    asm.mov(share, i32::from(Pace::ALL)).jump_if(Cond::Gt, share, due, drop);
    asm.alu(Alu::Sub, due, i32::from(Pace::ALL)).store(Size::Double, STATE, DUE, due);
}

fn write_template(asm: &mut Asm, template: &[u8; FRAME_LEN]) {
    let (words, _) = template.as_chunks::<4>();
    for (word, at) in words.iter().zip((0..).step_by(4)) {
        asm.store(Size::Word, FRAME, at, i32::from_ne_bytes(*word));
    }
}

fn vary(asm: &mut Asm, varied: Varied, mask: i16) {
    let number = Reg::R1;
    asm.load(Size::Double, number, PACE, mask).alu(Alu::And, number, NUMBER);
    asm.store(Size::Half, FRAME, varied.at.into(), number);
    asm.alu(Alu::Xor, number, -1).store(Size::Half, FRAME, varied.complement_at.into(), number);
}

#[expect(clippy::cast_possible_truncation, reason = "it is 64")]
const FRAME_BYTES: i32 = FRAME_LEN as i32;
const SCRAMBLE: i32 = 0x9e37_79b1_u32.cast_signed();
/// The places of `data` and `data_end` in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const XDP_DROP: i32 = 1;
