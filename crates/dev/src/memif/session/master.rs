//! The master's side: it believes nothing that the slave says of its memory, and checks it before it agrees.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::super::fault::Fault;
use super::super::mailbox::Wire;
use super::super::msg::{AddRegion, AddRing, Direction, ETHERNET, Hello, Init, Msg, Name, VERSION};
use super::super::queue::{Buffers, RxQueue, TxQueue};
use super::super::region::{BYTES_MAX, Region};
use super::super::ring_memory::{LOG2_MAX, RingMemory};
use super::super::{Options, REGIONS_MAX, RINGS_MAX, Role};
use super::{Peer, Reply, program};

/// A master's side of a connection, once the slave has said which interface it wants.
#[derive(Debug)]
pub(in super::super) struct Master {
    regions: Vec<Arc<Region>>,
    to_master: Vec<Ring>,
    to_slave: Vec<Ring>,
    pub(in super::super) peer: Peer,
}

/// A ring of the slave's.
type Ring = (RingMemory, Arc<OwnedFd>);

/// Returns a master's first message, before it knows for which interface the slave comes.
pub(in super::super) fn hello() -> Msg {
    Msg::Hello(Hello {
        name: program(),
        min_version: VERSION,
        max_version: VERSION,
        max_region: REGIONS_MAX - 1,
        max_m2s_ring: RINGS_MAX - 1,
        max_s2m_ring: RINGS_MAX - 1,
        max_log2_ring_size: LOG2_MAX,
    })
}

impl Master {
    /// Answers INIT for the interface that was asked for.
    pub(in super::super) fn welcome(options: &Options, init: &Init) -> Result<(Self, Msg), Fault> {
        if init.version != VERSION {
            return Err(Fault::Version(init.version, init.version));
        }
        if init.mode != ETHERNET {
            return Err(Fault::Mode(init.mode));
        }
        if options.secret.as_ref().is_some_and(|secret| secret.as_bytes() != init.secret.bytes()) {
            return Err(Fault::Secret);
        }
        let peer = Peer::new(init.name);
        Ok((Self { regions: Vec::new(), to_master: Vec::new(), to_slave: Vec::new(), peer }, Msg::Ack))
    }

    /// Handles a message, with or without a descriptor.
    pub(in super::super) fn hear(
        &mut self,
        options: &Options,
        msg: Msg,
        fd: Option<OwnedFd>,
    ) -> Result<Reply, Fault> {
        match msg {
            Msg::AddRegion(region) => self.add_region(region, fd)?,
            Msg::AddRing(ring) => self.add_ring(options, ring, fd)?,
            Msg::Connect(interface) => return self.connect(options, interface),
            Msg::Disconnect { why, .. } => return Err(Fault::Disconnected(why.to_string())),
            other => return Err(Fault::Order { got: other.word(), due: "ADD_REGION, ADD_RING or CONNECT" }),
        }
        Ok(Reply::Send(Msg::Ack, None))
    }

    fn add_region(&mut self, added: AddRegion, file: Option<OwnedFd>) -> Result<(), Fault> {
        let file = file.ok_or(Fault::NoDescriptor("ADD_REGION"))?;
        if usize::from(added.index) != self.regions.len() || added.index >= REGIONS_MAX {
            return Err(Fault::RegionIndex(added.index));
        }
        let so_far: u64 = self.regions.iter().map(|region| region.len() as u64).sum();
        if added.size > BYTES_MAX - so_far {
            return Err(Fault::RegionSize(added.size));
        }
        self.regions.push(Arc::new(Region::accept(&file, added.size)?));
        Ok(())
    }

    fn add_ring(&mut self, options: &Options, added: AddRing, bell: Option<OwnedFd>) -> Result<(), Fault> {
        let bell = bell.ok_or(Fault::NoDescriptor("ADD_RING"))?;
        check_bell(&bell)?;
        let rings = match added.direction {
            Direction::ToMaster => &mut self.to_master,
            Direction::ToSlave => &mut self.to_slave,
        };
        if usize::from(added.index) != rings.len() || added.index >= options.rings {
            return Err(Fault::RingIndex(added.index));
        }
        if added.log2_size > LOG2_MAX {
            return Err(Fault::RingSize(added.log2_size));
        }
        if added.private_header != 0 {
            return Err(Fault::PrivateHeader(added.private_header));
        }
        let region = self.regions.get(usize::from(added.region));
        let memory = region.and_then(|region| RingMemory::at(region, added.offset as usize, added.log2_size));
        let misplaced = Fault::RingPlace { region: added.region, offset: added.offset };
        rings.push((memory.ok_or(misplaced)?, Arc::new(bell)));
        Ok(())
    }

    /// Frames flow if the slave takes what any of our CPUs sends.
    fn connect(&mut self, options: &Options, interface: Name) -> Result<Reply, Fault> {
        self.peer.interface = interface;
        if self.to_slave.len() < usize::from(options.rings) || self.to_master.is_empty() {
            let theirs = self.to_slave.len().min(self.to_master.len());
            return Err(Fault::FewRings { theirs, ours: options.rings.into() });
        }
        let all = (0..).zip(self.to_master.iter().chain(&self.to_slave));
        if let Some((number, _)) = all.into_iter().find(|(_, (memory, _))| !memory.has_cookie()) {
            return Err(Fault::Cookie(number));
        }
        let regions: Arc<[Arc<Region>]> = self.regions.drain(..).collect();
        let buffers = || Buffers::Theirs(Arc::clone(&regions));
        let mut to_master = self.to_master.drain(..);
        let wires = self.to_slave.drain(..).map(|(memory, tx_bell)| Wire {
            tx: TxQueue::new(Role::Master, memory, buffers()),
            tx_bell,
            rx: to_master.next().map(|(memory, bell)| (RxQueue::new(Role::Master, memory, buffers()), bell)),
        });
        Ok(Reply::Up(Some(Msg::Connected(Name::new(&options.name))), wires.collect()))
    }
}

/// To ring it must not block: what is no eventfd is refused, and one that would block is told not to.
fn check_bell(bell: &OwnedFd) -> Result<(), Fault> {
    let kind = std::fs::read_link(format!("/proc/self/fd/{}", bell.as_fd().as_raw_fd()));
    if kind.map_err(Fault::system("look at a ring's descriptor"))?.as_os_str() != "anon_inode:[eventfd]" {
        return Err(Fault::NoEventfd);
    }
    let flags = fcntl_getfl(bell).map_err(Fault::system("look at a ring's eventfd"))?;
    fcntl_setfl(bell, flags | OFlags::NONBLOCK).map_err(Fault::system("set up a ring's eventfd"))
}
