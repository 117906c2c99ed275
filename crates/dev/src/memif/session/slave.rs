//! The slave's side: it makes the memory, and says where everything is.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

use super::super::fault::Fault;
use super::super::mailbox::Wire;
use super::super::msg::{AddRegion, AddRing, Direction, ETHERNET, Hello, Init, Msg, Name, Text, VERSION};
use super::super::queue::{Buffers, RxQueue, TxQueue};
use super::super::region::Region;
use super::super::ring_memory::{self, RingMemory};
use super::super::{Options, Role};
use super::{Peer, Reply, program};

/// Bytes of a cache line.
const LINE: u32 = 64;

/// A slave's side of a connection.
#[derive(Debug)]
pub(in super::super) struct Slave {
    /// Messages still to be sent; the last one is CONNECT.
    script: VecDeque<(Msg, Option<Arc<OwnedFd>>)>,
    rings: Vec<Ring>,
    pub(in super::super) peer: Option<Peer>,
}

/// A ring that we have laid out.
#[derive(Debug)]
struct Ring {
    direction: Direction,
    memory: RingMemory,
    buffers: Buffers,
    bell: Arc<OwnedFd>,
}

/// The layout of the one region: the rings, those to the master first, and then their buffers in the same
/// order.
struct Layout {
    log2_size: u8,
    to_master: u16,
    to_slave: u16,
    buffer: u32,
    /// An odd number of cache lines: with a power of two, the buffers of all descriptors would meet in few sets of the
    /// caches.
    stride: u32,
}

impl Slave {
    /// Waits for the master's HELLO.
    pub(in super::super) const fn new() -> Self {
        Self { script: VecDeque::new(), rings: Vec::new(), peer: None }
    }

    /// Handles a message.
    pub(in super::super) fn hear(&mut self, options: &Options, msg: Msg) -> Result<Reply, Fault> {
        let due = match (&self.peer, self.script.is_empty()) {
            (None, _) => "HELLO",
            (Some(_), false) => "ACK",
            (Some(_), true) => "CONNECTED",
        };
        match (msg, due) {
            (Msg::Hello(hello), "HELLO") => self.hello(options, &hello),
            (Msg::Ack, "ACK") => self.next(),
            (Msg::Connected(interface), "CONNECTED") => Ok(self.connected(interface)),
            (Msg::Disconnect { why, .. }, _) => Err(Fault::Disconnected(why.to_string())),
            (other, due) => Err(Fault::Order { got: other.word(), due }),
        }
    }

    fn hello(&mut self, options: &Options, hello: &Hello) -> Result<Reply, Fault> {
        if !(hello.min_version..=hello.max_version).contains(&VERSION) {
            return Err(Fault::Version(hello.min_version, hello.max_version));
        }
        let theirs = usize::from(hello.max_s2m_ring) + 1;
        if theirs < usize::from(options.rings) {
            return Err(Fault::FewRings { theirs, ours: options.rings.into() });
        }
        self.lay_out(&Layout::new(options, hello)).map_err(Fault::system("make a region"))?;
        self.script.push_back((Msg::Connect(Name::new(&options.name)), None));
        self.peer = Some(Peer::new(hello.name));
        let secret = Text::new(options.secret.as_deref().unwrap_or_default());
        let init = Init { version: VERSION, id: options.id, mode: ETHERNET, secret, name: program() };
        Ok(Reply::Send(Msg::Init(init), None))
    }

    fn next(&mut self) -> Result<Reply, Fault> {
        let next = self.script.pop_front().ok_or(Fault::Order { got: "ACK", due: "CONNECTED" })?;
        Ok(Reply::Send(next.0, next.1))
    }

    /// Until now the master may have reset what it liked.
    fn connected(&mut self, interface: Name) -> Reply {
        if let Some(peer) = &mut self.peer {
            peer.interface = interface;
        }
        let (to_master, to_slave): (Vec<_>, Vec<_>) =
            self.rings.drain(..).partition(|ring| ring.direction == Direction::ToMaster);
        let mut to_slave = to_slave.into_iter();
        let wires = to_master.into_iter().map(|tx| Wire {
            tx: TxQueue::new(Role::Slave, tx.memory, tx.buffers),
            tx_bell: tx.bell,
            rx: to_slave.next().map(|rx| (RxQueue::new(Role::Slave, rx.memory, rx.buffers), rx.bell)),
        });
        Reply::Up(None, wires.collect())
    }

    fn lay_out(&mut self, layout: &Layout) -> std::io::Result<()> {
        let (region, file) = Region::create(layout.bytes())?;
        let region = Arc::new(region);
        let added = AddRegion { index: 0, size: region.len() as u64 };
        self.script.push_back((Msg::AddRegion(added), Some(Arc::new(file))));
        for number in 0..layout.rings() {
            let (direction, index) = layout.direction(number);
            let memory = RingMemory::at(&region, layout.ring(number), layout.log2_size);
            let memory = memory.ok_or(std::io::ErrorKind::InvalidInput)?;
            memory.init();
            let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
            let added = AddRing {
                direction,
                index,
                region: 0,
                offset: narrow(layout.ring(number))?,
                log2_size: layout.log2_size,
                private_header: 0,
            };
            self.script.push_back((Msg::AddRing(added), Some(Arc::clone(&bell))));
            let buffers = Buffers::Ours {
                region: Arc::clone(&region),
                start: narrow(layout.buffers(number))?,
                len: layout.buffer,
                stride: layout.stride,
            };
            self.rings.push(Ring { direction, memory, buffers, bell });
        }
        Ok(())
    }
}

impl Layout {
    fn new(options: &Options, hello: &Hello) -> Self {
        let log2_size = options.log2_ring_size().min(hello.max_log2_ring_size);
        Self {
            log2_size,
            to_master: options.rings,
            to_slave: options.rings.min(hello.max_m2s_ring.saturating_add(1)),
            buffer: options.buffer_size,
            stride: (options.buffer_size.div_ceil(LINE) | 1) * LINE,
        }
    }

    const fn rings(&self) -> u16 {
        self.to_master + self.to_slave
    }

    const fn direction(&self, number: u16) -> (Direction, u16) {
        match number.checked_sub(self.to_master) {
            None => (Direction::ToMaster, number),
            Some(index) => (Direction::ToSlave, index),
        }
    }

    /// Where a ring begins, bytes.
    fn ring(&self, number: u16) -> usize {
        usize::from(number) * ring_memory::bytes(self.log2_size).next_multiple_of(LINE as usize)
    }

    /// Where the buffers of a ring begin, bytes.
    fn buffers(&self, number: u16) -> usize {
        self.ring(self.rings()) + usize::from(number) * (self.stride as usize) * (1 << self.log2_size)
    }

    fn bytes(&self) -> usize {
        self.buffers(self.rings())
    }
}

/// Offsets in a region have 32 bits.
fn narrow(offset: usize) -> std::io::Result<u32> {
    u32::try_from(offset).map_err(|_| std::io::ErrorKind::FileTooLarge.into())
}
