//! The forwarder between the two cables.

mod af_xdp;
mod filter;
mod kernel;
mod pantala;
mod testpmd;
mod xdp;

use anyhow::{Result, bail};

use super::lab::{Lab, Receiver};
use super::thread::Thread;

pub use filter::Filter;
pub use pantala::{Options, Pantala};

/// The forwarder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The kernel, with rules of nftables.
    Kernel(Filter),
    /// The kernel, through an interface that stands on the others.
    KernelOver(Over),
    /// An XDP program of ours that asks the kernel's tables.
    Xdp,
    /// DPDK's testpmd on its AF_XDP driver.
    Testpmd,
    /// Nothing but AF_XDP rings: [`dev::af_xdp::Relay`].
    Rings,
    /// pantala's driver without its stack.
    Driver,
    /// pantala, with rules of ipfw.
    Pantala(Filter),
    /// pantala, through an interface that stands on the others.
    PantalaOver(Over),
    /// pantala, which offloads flows to the driver, with rules of ipfw.
    Offload(Filter),
    /// pantala, which rings a doorbell before the end of a turn for so many packets, of whatever length.
    Doorbell(u16),
}

/// An interface that stands on those towards generator and sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A bridge of both.
    Bridge,
    /// A VXLAN whose other end is the sink, into which all routes lead.
    Vxlan,
}

impl Kind {
    /// Whether frames are for the sink's link address, as a bridge has them.
    #[must_use]
    pub const fn is_bridge(self) -> bool {
        matches!(self, Self::KernelOver(Over::Bridge) | Self::PantalaOver(Over::Bridge))
    }

    /// All of them, by name.
    pub const NAMES: &[(&str, Self)] = &[
        ("kernel", Self::Kernel(Filter::None)),
        ("stateful", Self::Kernel(Filter::Stateful)),
        ("masquerade", Self::Kernel(Filter::Translating)),
        ("kernel-10", Self::Kernel(Filter::Rules(10))),
        ("kernel-1000", Self::Kernel(Filter::Rules(1000))),
        ("kernel-bridge", Self::KernelOver(Over::Bridge)),
        ("kernel-vxlan", Self::KernelOver(Over::Vxlan)),
        ("pantala-bridge", Self::PantalaOver(Over::Bridge)),
        ("pantala-vxlan", Self::PantalaOver(Over::Vxlan)),
        ("xdp", Self::Xdp),
        ("testpmd", Self::Testpmd),
        ("rings", Self::Rings),
        ("driver", Self::Driver),
        ("pantala", Self::Pantala(Filter::None)),
        ("pantala-stateful", Self::Pantala(Filter::Stateful)),
        ("pantala-nat", Self::Pantala(Filter::Translating)),
        ("pantala-offload", Self::Offload(Filter::None)),
        ("pantala-offload-stateful", Self::Offload(Filter::Stateful)),
        ("pantala-offload-nat", Self::Offload(Filter::Translating)),
        ("pantala-10", Self::Pantala(Filter::Rules(10))),
        ("pantala-1000", Self::Pantala(Filter::Rules(1000))),
        ("pantala-doorbell-4", Self::Doorbell(4)),
        ("pantala-doorbell-16", Self::Doorbell(16)),
        ("pantala-doorbell-256", Self::Doorbell(256)),
    ];

    /// Reads a name.
    ///
    /// # Errors
    /// When it is none.
    pub fn named(name: &str) -> Result<Self> {
        match Self::NAMES.iter().find(|(known, _)| *known == name) {
            Some((_, kind)) => Ok(*kind),
            None => bail!(
                "nobody is called {name}: {}",
                Self::NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

/// Numbers by name.
pub type Figures = Vec<(&'static str, f64)>;

/// Frames sent by the interface towards the sink.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Frames, pings and their like among them.
    pub frames: u64,
    /// Times that the device was told.
    pub doorbells: u64,
}

/// Something that forwards. Dropped, it ends.
pub trait Router {
    /// The thread that forwards, if there is one.
    fn thread(&self) -> Option<Thread> {
        None
    }

    /// Returns the frames sent so far, if it counts them.
    fn sent(&self) -> Option<Sent> {
        None
    }

    /// Returns its own counters at the end, by name.
    fn figures(&mut self) -> Figures {
        Vec::new()
    }
}

/// Something that forwards when it is told to.
pub trait Stepped: Send {
    /// Forwards what is there; answers how many frames that was.
    fn turn(&mut self) -> usize;
}

/// Bare rings or the driver, in the calling thread.
///
/// # Errors
/// If it is another forwarder, or does not start.
pub fn stepped(kind: Kind, lab: &Lab) -> Result<Box<dyn Stepped>> {
    lab.router.run(|| match kind {
        Kind::Rings => af_xdp::rings(lab),
        Kind::Driver => af_xdp::driver(lab),
        other => bail!("{other:?} has threads of its own"),
    })?
}

/// Starts a router, and waits until it forwards.
///
/// # Errors
/// When something is missing on this machine, or it does not start.
pub fn start(kind: Kind, lab: &Lab) -> Result<Box<dyn Router>> {
    let usual = Options { filter: Filter::None, doorbell: None, offloads: false, over: None };
    let router: Box<dyn Router> = match kind {
        Kind::Kernel(filter) => Box::new(kernel::Kernel::start(lab, filter)?),
        Kind::KernelOver(over) => Box::new(kernel::Kernel::over(lab, over)?),
        Kind::PantalaOver(over) => Box::new(Pantala::start(lab, Options { over: Some(over), ..usual })?),
        Kind::Xdp => Box::new(xdp::Forward::start(lab)?),
        Kind::Testpmd => Box::new(testpmd::Testpmd::start(lab)?),
        Kind::Rings => Box::new(af_xdp::Worker::relay(lab)?),
        Kind::Driver => Box::new(af_xdp::Worker::driver(lab)?),
        Kind::Pantala(filter) => Box::new(Pantala::start(lab, Options { filter, ..usual })?),
        Kind::Offload(filter) => Box::new(Pantala::start(lab, Options { filter, offloads: true, ..usual })?),
        Kind::Doorbell(packets) => {
            Box::new(Pantala::start(lab, Options { doorbell: Some(packets), ..usual })?)
        }
    };
    let has_sockets = matches!(
        kind,
        Kind::Testpmd
            | Kind::Rings
            | Kind::Driver
            | Kind::Pantala(_)
            | Kind::PantalaOver(_)
            | Kind::Offload(_)
            | Kind::Doorbell(_)
    );
    lab.place_receiver(if has_sockets { Receiver::Polled } else { Receiver::Thread })?;
    Ok(router)
}
