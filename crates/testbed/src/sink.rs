//! Where datagrams end: UDP is counted and dropped as early as the kernel can, everything else goes on to the kernel, which
//! answers ARP requests for its address.

use dev::bpf::BpfError;
use dev::bpf::asm::{Alu, Asm, AsmError, Cond, Helper, Insn, Reg, Size};
use dev::bpf::link::{XdpLink, XdpMode};
use dev::bpf::map::PerCpu;
use dev::bpf::prog::{Kind, Program};

/// Counts the UDP datagrams that an interface receives, and drops them. Detached when dropped.
#[derive(Debug)]
pub struct Sink {
    counter: PerCpu,
    _link: XdpLink,
}

impl Sink {
    /// Takes what interface `ifindex`, of the calling thread's network namespace, receives.
    ///
    /// # Errors
    /// [`BpfError`].
    pub fn attach(ifindex: u32) -> Result<Self, BpfError> {
        let counter = PerCpu::new(1)?;
        let insns = program(&counter).map_err(|e| BpfError::Refused {
            doing: "assemble the sink",
            source: std::io::Error::other(e),
        })?;
        let program = Program::load("pantala_sink", Kind::Xdp, &insns, false)?;
        Ok(Self { counter, _link: XdpLink::attach(&program, ifindex, XdpMode::Native)? })
    }

    /// Datagrams that have come so far.
    ///
    /// # Errors
    /// None is expected.
    pub fn received(&self) -> Result<u64, BpfError> {
        Ok(self.counter.sums()?[0])
    }
}

fn program(counter: &PerCpu) -> Result<Vec<Insn>, AsmError> {
    let mut asm = Asm::new();
    let (frame, end) = (Reg::R6, Reg::R2);
    let [pass, ip4, counted] = core::array::from_fn(|_| asm.label());
    asm.load(Size::Word, frame, Reg::R1, DATA).load(Size::Word, end, Reg::R1, DATA_END);
    asm.mov(Reg::R3, frame).alu(Alu::Add, Reg::R3, SHORTEST).jump_if(Cond::Gt, Reg::R3, end, pass);
    asm.load(Size::Byte, Reg::R3, frame, VERSION).alu(Alu::And, Reg::R3, 0xf0);
    asm.jump_if(Cond::Eq, Reg::R3, 0x40, ip4);
    asm.load(Size::Byte, Reg::R3, frame, NEXT_HEADER6).jump_if(Cond::Ne, Reg::R3, UDP, pass).jump(counted);
    asm.place(ip4).load(Size::Byte, Reg::R3, frame, PROTOCOL4).jump_if(Cond::Ne, Reg::R3, UDP, pass);
    asm.place(counted).store(Size::Word, Reg::R10, -4, 0).mov(Reg::R2, Reg::R10).alu(Alu::Add, Reg::R2, -4);
    asm.load_map(Reg::R1, counter).call(Helper::MapLookup).jump_if(Cond::Eq, Reg::R0, 0, pass);
    asm.load(Size::Double, Reg::R1, Reg::R0, 0).alu(Alu::Add, Reg::R1, 1);
    asm.store(Size::Double, Reg::R0, 0, Reg::R1).mov(Reg::R0, XDP_DROP).exit();
    asm.place(pass).mov(Reg::R0, XDP_PASS).exit();
    asm.finish()
}

/// Bytes that a frame must have to be looked at: Ethernet and IPv4 headers.
const SHORTEST: i32 = 34;
const VERSION: i16 = 14;
const PROTOCOL4: i16 = 23;
const NEXT_HEADER6: i16 = 20;
const UDP: i32 = 17;
/// The places of `data` and `data_end` in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const XDP_DROP: i32 = 1;
const XDP_PASS: i32 = 2;
