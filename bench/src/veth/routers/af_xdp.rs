//! AF_XDP without a stack: our rings, and our driver.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use dev::Waiter;
use dev::af_xdp::{Mode, Options, Port, Relay, SharedUmem, XdpRing};
use dev::sys::affinity;
use dev::sys::poll::{PollFd, PollFlags, wait};
use net::driver::Driver;
use pkt::{Arena, PktVec, Pool};

use super::{Figures, Router, Stepped};
use crate::veth::frames::{OUT_MAC, SINK_MAC};
use crate::veth::lab::{IN, Lab, OUT};
use crate::veth::layout::{Layout, ROUTER_CPU};
use crate::veth::thread::Thread;

/// Buffers that pantala has for one CPU.
const BUFFERS: usize = 16384;
const CHUNK: usize = 64;
/// Longest sleep when idle.
const NAP: Duration = Duration::from_millis(10);

/// A thread that forwards until the value is dropped.
pub(super) struct Worker {
    stop: Arc<AtomicBool>,
    itself: Thread,
    thread: Option<JoinHandle<Result<Figures>>>,
}

/// A forwarder that is turned by its caller.
trait Turn: Stepped {
    /// Waits for frames.
    fn rest(&self) -> Result<()>;
    fn figures(&self) -> Figures;
}

impl Worker {
    pub(super) fn relay(lab: &Lab) -> Result<Self> {
        let (input, output) = options(lab)?;
        let addresses = addresses();
        Self::start(lab, move || Ok(Relay::open(&mut pool()?, &input, &output, addresses)?))
    }

    pub(super) fn driver(lab: &Lab) -> Result<Self> {
        let (input, output) = options(lab)?;
        Self::start(lab, move || Coupled::open(pool()?, &input, &output))
    }

    fn start<T: Turn>(lab: &Lab, make: impl FnOnce() -> Result<T> + Send + 'static) -> Result<Self> {
        let stop = Arc::<AtomicBool>::default();
        let (ended, sleepy) = (Arc::clone(&stop), lab.layout == Layout::One);
        let namespace = lab.router.run(dev::netns::Netns::current)??;
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("router".to_owned()).spawn(move || {
            namespace.enter()?;
            affinity::pin_to(ROUTER_CPU)?;
            let mut forwarder = match make() {
                Ok(made) => made,
                Err(error) => return Ok(tell.send(Err(error)).map(|()| Vec::new())?),
            };
            tell.send(Thread::current())?;
            while !ended.load(Ordering::Relaxed) {
                if forwarder.turn() == 0 && sleepy {
                    forwarder.rest()?;
                }
            }
            Ok(forwarder.figures())
        })?;
        let itself = told.recv().context("the router's thread has ended")??;
        Ok(Self { stop, itself, thread: Some(thread) })
    }

    fn end(&mut self) -> Option<Figures> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()?.ok()
    }
}

impl Router for Worker {
    fn thread(&self) -> Option<Thread> {
        Some(self.itself.clone())
    }

    fn figures(&mut self) -> Figures {
        self.end().unwrap_or_default()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

/// Bare rings, to be turned by the caller.
pub(super) fn rings(lab: &Lab) -> Result<Box<dyn Stepped>> {
    let (input, output) = options(lab)?;
    Ok(Box::new(Relay::open(&mut pool()?, &input, &output, addresses())?))
}

/// The driver without a stack, to be turned by the caller.
pub(super) fn driver(lab: &Lab) -> Result<Box<dyn Stepped>> {
    let (input, output) = options(lab)?;
    Ok(Box::new(Coupled::open(pool()?, &input, &output)?))
}

fn options(lab: &Lab) -> Result<(Options, Options)> {
    let options = |ifindex| Options {
        ifindex,
        first_queue: 0,
        queues: 1,
        mtu: 1500,
        mode: Mode::Native,
        allowance: BUFFERS / 4,
        busy_poll: lab.layout == Layout::Two,
    };
    Ok((options(lab.router_index(IN)?), options(lab.router_index(OUT)?)))
}

fn pool() -> Result<Pool> {
    Arena::carve(1, BUFFERS, true)?.pop().context("an arena without a pool")
}

fn addresses() -> [u8; 12] {
    let mut both = [0; 12];
    both[..6].copy_from_slice(&SINK_MAC.0);
    both[6..].copy_from_slice(&OUT_MAC.0);
    both
}

impl Stepped for Relay {
    fn turn(&mut self) -> usize {
        self.turn()
    }
}

impl Turn for Relay {
    fn rest(&self) -> Result<()> {
        if !self.busy() {
            wait(&mut [PollFd::new(&self.waiter(), PollFlags::IN)], Some(NAP))?;
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        vec![("frames a doorbell", self.frames as f64 / self.doorbells as f64)]
    }
}

/// Two rings of the driver, one way.
struct Coupled {
    input: XdpRing,
    output: XdpRing,
    waiter: Waiter,
    pool: Pool,
    vec: PktVec,
    _ports: [Port; 2],
}

impl Coupled {
    fn open(pool: Pool, input: &Options, output: &Options) -> Result<Self> {
        let umem = SharedUmem::new(Arc::clone(pool.arena()));
        let open = |options| -> Result<(Port, XdpRing)> {
            let (port, mut rings) = Port::open(&umem, options)?;
            Ok((port, rings.pop().context("a port without a ring")?))
        };
        let ((port, input), (other, output)) = (open(input)?, open(output)?);
        let waiter = input.waiter();
        Ok(Self { input, output, waiter, pool, vec: PktVec::new(), _ports: [port, other] })
    }
}

impl Stepped for Coupled {
    fn turn(&mut self) -> usize {
        let Self { input, output, pool, vec, .. } = self;
        // Nothing comes from there, but a ring that has no buffers would not let us rest.
        output.rx(pool, vec, 0);
        let got = input.rx(pool, vec, CHUNK.saturating_sub(vec.len()));
        let addresses = addresses();
        vec.for_each_prefetching(|_, pkt| {
            if let Some(head) = pkt.head_mut().first_chunk_mut() {
                *head = addresses;
            }
        });
        output.tx(pool, vec);
        output.doorbell(pool);
        got
    }
}

impl Turn for Coupled {
    fn rest(&self) -> Result<()> {
        if let Some(device) = self.waiter.descriptor()
            && self.vec.is_empty()
            && !self.output.busy()
        {
            wait(&mut [PollFd::new(&device, PollFlags::IN)], Some(NAP))?;
        }
        Ok(())
    }

    fn figures(&self) -> Figures {
        let stats = self.output.stats();
        vec![("frames a doorbell", stats.tx_frames as f64 / stats.doorbells as f64)]
    }
}
