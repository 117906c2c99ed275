//! A netisr, a thread that turns it, and sockets.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};

use net::app::App;
use net::channel::Size;
use net::cpu::CpuId;
use net::driver::Caps;
use net::ifq;
use net::msg::{Msg, Remote, mesh};
use net::netisr::{Netisr, Parts};
use net::tables::{Config, IfAddr, Ifnet, Rxcsum, Tables};
use net::time::Instant;
use pkt::Arena;
use pkt::wake::Sleeper;
use wire::ether::Mac;

use super::ADDRS;
use crate::sockets::{Sockets, reactor};

/// Connections and sockets at a time: more than the listeners of all tests are offered ahead. Miri looks at each in its turn.
pub(super) const LANES: u32 = if cfg!(miri) { 100 } else { 600 };
pub(super) const SIZE: Size = Size { lanes: LANES, lane_bytes: 256 };
const BUFFERS: usize = 256;
/// Until duplicate address detection has ended.
const COLD: Duration = Duration::from_secs(15);
/// Nothing waits longer than that for what would come sooner on a netisr whose clock is the world's.
const SOON: Duration = Duration::from_secs(1);

/// A netisr that speaks with itself.
pub(super) struct Turned {
    pub(super) sockets: Sockets,
    remote: Remote,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Turned {
    pub(super) fn new() -> Self {
        let own = Arc::<OnceLock<Thread>>::default();
        let rung = Arc::clone(&own);
        let sleeper = Sleeper::new(Box::new(move || rung.get().into_iter().for_each(Thread::unpark)));
        let (netisr, remote) = netisr(&sleeper);
        let is_over = Arc::<AtomicBool>::default();
        let ends = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            own.get_or_init(thread::current);
            turn(netisr, sleeper, &ends);
        });
        let endpoint = reactor::start(core::slice::from_ref(&remote), SIZE).unwrap();
        Self { sockets: Sockets { endpoint }, remote, is_over, thread }
    }

    pub(super) fn begin(&self, program: Box<dyn App>) {
        let (tell, begun) = channel();
        self.send(move |netisr| tell.send(netisr.begin(program)).unwrap());
        begun.recv().unwrap().unwrap();
    }

    /// Ends the netisr, and with it what waits for it.
    pub(super) fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.send(|_| ());
        self.thread.join().unwrap();
    }

    fn send(&self, what: impl FnOnce(&mut Netisr) + Send + 'static) {
        assert!(self.remote.send(Msg::Call(Box::new(what))).is_ok());
    }
}

/// Its addresses are usable.
pub(super) fn netisr(sleeper: &Sleeper) -> (Netisr, Remote) {
    let addrs = ADDRS.map(|addr| IfAddr { addr: addr.parse().unwrap(), prefix_len: 24 }).to_vec();
    let lan = Ifnet {
        kind: net::logical::Kind::Device,
        index: 1,
        name: "lan".to_owned(),
        mac: Mac([2, 0, 0, 0, 0, 1]),
        mtu: 1500,
        up: true,
        addrs,
        rxcsum: Rxcsum::Verify,
        caps: Caps::default(),
        monitor: false,
        queue: ifq::QueueSpec::default(),
        autoconf: None,
        rtadv: None,
        fdb: net::fdb::Settings::default(),
        port: None,
        groups: Vec::new(),
        learned: Arc::default(),
        metric: 0,
        published: Arc::default(),
        twin: net::tables::Twin::None,
        fib: 0,
    };
    let config = Config { generation: 1, ifs: vec![lan], ..Config::default() };
    let pool = Arena::carve(1, BUFFERS, false).unwrap().remove(0);
    let (peers, inbox, remote) = mesh(&[sleeper.waker()]).remove(0);
    let tables = Arc::new(Tables::new(config));
    let parts = Parts { id: CpuId(0), cpus: 1, pool, peers, inbox, key: 1, tables };
    (Netisr::new(parts).0, remote)
}

/// Turns it until it has ended. The clock goes on when nothing else does.
fn turn(mut netisr: Netisr, mut sleeper: Sleeper, is_over: &AtomicBool) {
    let mut now = Instant::START;
    let warm = now + COLD;
    while !is_over.load(Ordering::Relaxed) {
        let turn = netisr.turn(now);
        if turn.worked > 0 || turn.deadline <= now {
            continue;
        }
        if turn.deadline < warm.max(now + SOON) {
            now = turn.deadline;
            continue;
        }
        sleeper.prepare_sleep();
        if netisr.inbox_is_empty() {
            thread::park();
            sleeper.woken();
        } else {
            sleeper.cancel();
        }
    }
}
