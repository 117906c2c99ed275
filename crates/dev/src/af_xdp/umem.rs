//! The arena as UMEM: lent to the kernel once, whatever the number of sockets.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pkt::Arena;

use super::ring::{self, Rings};
use super::{CHUNK, RING_SIZES, TX_BUDGET};
use crate::sys::mmap;
use crate::sys::xsk::{BindOptions, Queue, Umem, XskError, XskSocket};

/// Time for which a busy queue is tried again: the kernel lets go of a closed socket's queue in its own time.
const PATIENCE: Duration = Duration::from_secs(2);
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// The arena, lent to the kernel for all ports.
///
/// It is registered by the first socket of each way to bind, because sockets that share a registration share the way.
pub struct SharedUmem {
    arena: Arc<Arena>,
    open: Arc<OpenSockets>,
}

/// The sockets over the arena, so that a further one finds one to share with.
#[derive(Default)]
pub(super) struct OpenSockets(Mutex<Vec<Bound>>);

struct Bound {
    to: Queue,
    options: BindOptions,
    socket: Weak<XskSocket>,
}

/// A socket that is bound, and its rings.
pub(super) type Opened = (Arc<XskSocket>, Rings);

impl SharedUmem {
    /// Wraps the arena; nothing is registered until the first port opens.
    #[must_use]
    pub fn new(arena: Arc<Arena>) -> Self {
        mmap::raise_locked_memory_limit();
        Self { arena, open: Arc::default() }
    }

    pub(super) const fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    pub(super) const fn open_sockets(&self) -> &Arc<OpenSockets> {
        &self.open
    }

    /// A socket bound to `to`, over the memory as another one registered it, or as it registers it itself.
    pub(super) fn socket(&self, to: Queue, options: &BindOptions) -> Result<Opened, XskError> {
        let mut open = self.open.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|bound| bound.socket.strong_count() > 0);
        let (socket, rings) = patiently(|| match sharing(&open, to, options) {
            Some(shared) => shared,
            None => self.registering(to, options),
        })?;
        // Before Linux 6.16 it is 32: then the doorbell makes more system calls.
        let _ = socket.set_tx_budget(TX_BUDGET);
        let socket = Arc::new(socket);
        open.push(Bound { to, options: *options, socket: Arc::downgrade(&socket) });
        drop(open);
        Ok((socket, rings))
    }

    fn registering(&self, to: Queue, options: &BindOptions) -> Result<(XskSocket, Rings), XskError> {
        let socket = XskSocket::new()?;
        ring::lend(&socket, &self.layout())?;
        let rings = socket.map_rings(RING_SIZES)?;
        socket.bind(to, options)?;
        Ok((socket, rings))
    }

    fn layout(&self) -> Umem {
        Umem {
            start: self.arena.base().as_ptr(),
            len: self.arena.len() as u64,
            chunk_size: CHUNK,
            headroom: 0,
            unaligned: true,
        }
    }
}

impl OpenSockets {
    /// Closes a socket; returns whether it is closed now, or shared with another port.
    ///
    /// No port can begin to share with it meanwhile.
    pub(super) fn close(&self, socket: Arc<XskSocket>) -> bool {
        let _guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::into_inner(socket).map(drop).is_some()
    }
}

/// A socket that shares the memory of an open one that is bound the same way; `None` if there is no such.
fn sharing(open: &[Bound], to: Queue, options: &BindOptions) -> Option<Result<(XskSocket, Rings), XskError>> {
    let alike = open.iter().filter(|bound| bound.options == *options);
    alike.filter_map(|bound| Some((bound.to, bound.socket.upgrade()?))).find_map(|(of, owner)| {
        match further(to, &owner) {
            // Its interface was taken away.
            Err(error) if error.is(libc::EBADF) => None,
            // Two sockets on one queue cannot have fill rings of their own.
            Err(error) if error.is(libc::EINVAL) && of == to => {
                Some(Err(XskError::Busy { ifindex: to.ifindex, queue: to.queue }))
            }
            other => Some(other),
        }
    })
}

fn further(to: Queue, owner: &XskSocket) -> Result<(XskSocket, Rings), XskError> {
    let socket = XskSocket::new()?;
    let rings = socket.map_rings(RING_SIZES)?;
    socket.bind_shared(to, owner)?;
    Ok((socket, rings))
}

/// Repeats what answers that the queue is busy, for a while.
fn patiently<T>(mut open: impl FnMut() -> Result<T, XskError>) -> Result<T, XskError> {
    let mut waited = Duration::ZERO;
    loop {
        match open() {
            Err(XskError::Busy { .. }) if waited < PATIENCE => std::thread::sleep(ASK_AGAIN),
            other => return other,
        }
        waited += ASK_AGAIN;
    }
}
