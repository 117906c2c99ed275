//! Numbered datagrams: each that is lost is known.

use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use core::time::Duration;
use std::net::UdpSocket;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Instant;

use dev::netns::Netns;

use crate::lab::{Family, at};

/// Time between two datagrams.
const EVERY: Duration = Duration::from_millis(2);
/// UDP ports of the receivers, by family: a socket of IPv6 takes those of IPv4, too.
const PORTS: [u16; 2] = [4443, 4446];

/// Datagrams to one address, until the value is dropped.
pub(super) struct Flow {
    /// The time of each datagram.
    sent: Arc<Mutex<Vec<Instant>>>,
    arrived: Arc<Mutex<Vec<bool>>>,
    _stop: Sender<()>,
}

impl Flow {
    /// Sends from a namespace to an address of each of `receivers`.
    pub(super) fn begin(from: &Netns, to: IpAddr, receivers: &[&Netns]) -> Self {
        let arrived = Arc::<Mutex<Vec<bool>>>::default();
        let (any, port) = (Family::of(to).any(), Family::of(to).pick(PORTS[0], PORTS[1]));
        for netns in receivers {
            let socket = netns.run(|| UdpSocket::bind((any, port))).unwrap().unwrap();
            let arrived = Arc::downgrade(&arrived);
            thread::spawn(move || receive(&socket, &arrived));
        }
        let sent = Arc::<Mutex<Vec<Instant>>>::default();
        let (stop, stopped) = channel();
        let socket = from.run(|| UdpSocket::bind((any, 0))).unwrap().unwrap();
        let times = Arc::clone(&sent);
        let to: SocketAddr = at(to, port);
        thread::spawn(move || {
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let number = times.lock().unwrap().len();
                times.lock().unwrap().push(Instant::now());
                let _ = socket.send_to(&number.to_be_bytes(), to);
            }
        });
        Self { sent, arrived, _stop: stop }
    }

    /// Datagrams that were sent.
    pub(super) fn sent(&self) -> usize {
        self.sent.lock().unwrap().len()
    }

    /// Datagrams of these numbers that have not arrived.
    pub(super) fn lost(&self, numbers: Range<usize>) -> usize {
        let arrived = self.arrived.lock().unwrap();
        numbers.filter(|number| arrived.get(*number) != Some(&true)).count()
    }

    /// When the last datagram of these numbers was sent that has not arrived.
    pub(super) fn last_lost(&self, mut numbers: Range<usize>) -> Option<Instant> {
        let arrived = self.arrived.lock().unwrap();
        let last = numbers.rfind(|number| arrived.get(*number) != Some(&true))?;
        self.sent.lock().unwrap().get(last).copied()
    }
}

fn receive(socket: &UdpSocket, arrived: &Weak<Mutex<Vec<bool>>>) {
    socket.set_read_timeout(Some(100 * EVERY)).unwrap();
    let mut bytes = [0; size_of::<usize>()];
    while let Some(arrived) = arrived.upgrade() {
        if socket.recv(&mut bytes).is_ok_and(|len| len == bytes.len()) {
            let number = usize::from_be_bytes(bytes);
            let mut arrived = arrived.lock().unwrap();
            if arrived.len() <= number {
                arrived.resize(number + 1, false);
            }
            arrived[number] = true;
        }
    }
}
