//! One end of ours: a hub, an interface, its rings and a pool.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::time::Instant;

use dev::memif::{Fault, Hub, MemifRing, Options, Port, Role, State, Status};
use dev::sys::unix_socket::Access;
use net::driver::{Driver, Link};
use pkt::{Arena, Pkt, PktVec, Pool};

use crate::support::cable::packet;

/// Time limit of an expected event.
const PATIENCE: Duration = Duration::from_secs(10);

/// A folder for a socket, gone with the test.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pt-memif-{}-{count}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("m.sock")
    }

    pub(crate) fn options(&self, role: Role) -> Options {
        Options {
            name: format!("{role:?}").to_lowercase(),
            socket: self.socket(),
            access: Access::default(),
            id: 0,
            role,
            rings: 1,
            ring_size: 256,
            buffer_size: 2048,
            secret: None,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One end.
pub(crate) struct End {
    pub(crate) rings: Vec<MemifRing>,
    pub(crate) pool: Pool,
    pub(crate) port: Option<Port>,
    _hub: Hub,
}

impl End {
    pub(crate) fn open(options: Options) -> Self {
        let mut hub = Hub::start(|| (), Box::new(|_, _| ())).unwrap();
        let (port, rings) = hub.open(options).unwrap();
        let pool = Arena::carve(1, 4096, false).unwrap().pop().unwrap();
        Self { rings, pool, port: Some(port), _hub: hub }
    }

    pub(crate) fn status(&self) -> Status {
        self.port.as_ref().unwrap().status()
    }

    pub(crate) fn last_fault(&self) -> Option<Fault> {
        self.status().last_fault
    }

    /// Turns all rings once; gives what comes back to the pool, and answers how many frames came.
    pub(crate) fn turn(&mut self) -> usize {
        let all = (0..self.rings.len()).flat_map(|ring| self.rx(ring)).collect::<Vec<_>>();
        all.into_iter().map(|pkt| self.pool.give(pkt)).count()
    }

    pub(crate) fn rx(&mut self, ring: usize) -> Vec<Pkt> {
        let mut vec = PktVec::new();
        self.rings[ring].rx(&mut self.pool, &mut vec, 256);
        vec.drain().collect()
    }

    /// Receives what comes, as bytes, until there are so many frames.
    pub(crate) fn receive(&mut self, ring: usize, count: usize) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        until("frames come", || {
            for pkt in self.rx(ring) {
                frames.push(pkt.fragments().flatten().copied().collect::<Vec<u8>>());
                self.pool.give(pkt);
            }
            frames.len() >= count
        });
        frames
    }

    /// Sends frames, as far as there is room; answers how many.
    pub(crate) fn send(&mut self, ring: usize, frames: &[Vec<u8>]) -> usize {
        let mut vec = PktVec::new();
        for frame in frames {
            let pkt = packet(&mut self.pool, frame);
            vec.push(pkt).unwrap();
        }
        self.rings[ring].tx(&mut self.pool, &mut vec);
        self.rings[ring].doorbell(&mut self.pool);
        let left: Vec<_> = vec.drain().collect();
        frames.len() - left.into_iter().map(|pkt| self.pool.give(pkt)).count()
    }

    pub(crate) fn is_up(&mut self) -> bool {
        self.turn();
        self.status().state == State::Connected && self.rings.iter().all(|ring| ring.link() == Link::Up)
    }

    pub(crate) fn is_down(&mut self) -> bool {
        self.turn();
        self.rings.iter().all(|ring| ring.link() == Link::Down)
    }
}

impl Drop for End {
    /// Whatever the peer did: every buffer is home.
    fn drop(&mut self) {
        self.rings.iter_mut().for_each(|ring| ring.close(&mut self.pool));
        if !std::thread::panicking() {
            let (free, leaked) = (self.pool.free(), self.pool.arena().leaked());
            assert_eq!((free, leaked), (self.pool.total(), 0), "all buffers are back");
        }
    }
}

/// Two ends of ours, connected.
pub(crate) fn pair(place: &Place, change: impl Fn(&mut Options)) -> [End; 2] {
    let mut ends = [Role::Master, Role::Slave].map(|role| {
        let mut options = place.options(role);
        change(&mut options);
        End::open(options)
    });
    until("the two find each other", || ends.iter_mut().all(End::is_up));
    ends
}

/// Waits for what another thread or program must do.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A frame of `len` bytes whose every byte depends on `seed`.
pub(crate) fn frame(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from((at * 31 + seed * 7 + at / 256) & 0xff).unwrap()).collect()
}

pub(crate) fn exists(path: &Path) -> bool {
    path.try_exists().unwrap()
}
