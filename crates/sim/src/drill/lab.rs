//! The host, the wire in front of it, and virtual time.

use core::net::IpAddr;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use net::cpu::Cpu;
use net::driver::Caps;
use net::netisr::Netisr;
use net::tcp;
use net::time::{Duration, Instant};
use wire::protocol::Protocol;
use wire::{EtherType, ip4, ip6};

use super::Setup;
use super::ends::Endpoints;
use crate::frame::Frame;
use crate::host::{Host, Port, Spec};
use crate::mem;
use crate::plan::{self, Family};
use crate::random::Random;
use crate::station::Station;
use crate::world::CableId;

/// Buffers of each CPU.
const BUFFERS: usize = 512;
/// Buffers of the longest packet: a script may give the host longer ones than its link has.
const BUFFERS_MAX: usize = (1 << 16) / pkt::DATA_LEN + 1;
/// Time before a script begins: addresses are tried and groups are joined meanwhile.
const WARM_UP: Duration = Duration::from_secs(10);
/// A CPU that wants to turn within this time is at work.
const AT_WORK: Duration = Duration::from_micros(10);
/// Packets to others that are remembered: the first is a failure already.
const STRAYS_MAX: usize = 16;
/// Turns at one moment until a host is called broken.
const TURNS_MAX: usize = 100_000;

/// A host with one interface, and the network around it.
pub(super) struct Lab {
    host: Host,
    /// Answers for the gateway's link address.
    gateway: Station,
    /// The other ends: what is sent to them is shown.
    remotes: Vec<IpAddr>,
    now: Instant,
    start: Instant,
    sent: VecDeque<Sent>,
    /// Other destinations of packets that are not the link's own.
    strays: VecDeque<IpAddr>,
}

/// A packet that the host has sent to the other end.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// When, since the script began.
    pub(super) at: Duration,
    /// From its IP header on.
    pub(super) bytes: Vec<u8>,
}

impl Lab {
    /// Switches the host on, and waits until it is ready.
    pub(super) fn new(ends: &Endpoints, setup: &Setup) -> Self {
        let mut port = Port::new(CableId(0), 1, 1)
            .mtu(ends.mtu.into())
            .rings(setup.cpus.into(), setup.rss)
            .card(|card: &mut mem::Spec| {
                card.allowance = BUFFERS / 2;
                card.caps =
                    Caps { tx_csum: ends.is_linux, tso: ends.cuts, uso: false, buffers_max: BUFFERS_MAX };
            });
        port.addrs = vec![ends.local];
        let default = Family::of(ends.remote).default_prefix();
        let spec = Spec::host("host").cpus(setup.cpus).buffers(BUFFERS).port(port).via(default, ends.gateway);
        let peer = [ends.gateway, ends.remote].map(|addr| net::tables::IfAddr { addr, ..ends.local });
        let mut lab = Self {
            host: Host::new(spec, &mut Random::new(setup.seed)),
            gateway: Station::new("gateway", plan::mac(1, 2), &peer),
            remotes: vec![ends.remote],
            now: Instant::START,
            start: Instant::START + WARM_UP,
            sent: VecDeque::new(),
            strays: VecDeque::new(),
        };
        lab.settle();
        while lab.step(Duration::ZERO) {}
        let key = u128::from(setup.seed);
        (0..lab.cpus())
            .for_each(|cpu| _ = lab.call(cpu, move |netisr| tcp::set_cookie_key(&mut netisr.cpu, key)));
        lab
    }

    /// The time since the script began.
    pub(super) fn now(&self) -> Duration {
        self.now.since(self.start)
    }

    /// Gives a packet to the host.
    pub(super) fn inject(&mut self, packet: &[u8]) {
        let frame = Frame::around(plan::mac(1, 2), plan::mac(1, 1), ethertype(packet), packet);
        self.host.nics[0].deliver(frame);
        self.settle();
    }

    /// Lets time pass until the host has something to do, but not beyond `until`; answers whether that came first.
    pub(super) fn step(&mut self, until: Duration) -> bool {
        let until = self.start + until;
        let next = self.next_turn().max(self.now);
        self.now = next.min(until).max(self.now);
        self.settle();
        next <= until
    }

    /// Shows what the host sends to this end from now on.
    pub(super) fn meet(&mut self, remote: IpAddr) {
        if !self.remotes.contains(&remote) {
            self.remotes.push(remote);
        }
    }

    /// The next packet that the host has sent to the other end.
    pub(super) fn take_sent(&mut self) -> Option<Sent> {
        self.sent.pop_front()
    }

    /// Returns the destination of a packet that is neither for one of the other ends nor the link's own business.
    pub(super) fn take_stray(&mut self) -> Option<IpAddr> {
        self.strays.pop_front()
    }

    /// CPUs of the host.
    pub(super) fn cpus(&self) -> usize {
        self.host.cpus.len()
    }

    /// Runs `call` on a CPU in a turn of it; `None` if the CPU takes no more calls.
    pub(super) fn call<T: Send + 'static>(
        &mut self,
        cpu: usize,
        call: impl FnOnce(&mut Netisr) -> T + Send + 'static,
    ) -> Option<T> {
        let answer = Arc::new(Mutex::new(None));
        let place = Arc::clone(&answer);
        self.host.call(cpu, move |netisr| {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(call(netisr));
        });
        self.settle();
        answer.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The sum of what all CPUs count.
    pub(super) fn count(&mut self, what: impl Fn(&Cpu) -> usize + Send + Clone + 'static) -> usize {
        let mut sum = 0;
        for cpu in 0..self.cpus() {
            let what = what.clone();
            sum += self.call(cpu, move |netisr| what(&netisr.cpu)).unwrap_or(0);
        }
        sum
    }

    /// The host forgets what it knows of servers.
    pub(super) fn forget_paths(&mut self) {
        (0..self.cpus()).for_each(|cpu| _ = self.call(cpu, |netisr| tcp::forget_paths(&mut netisr.cpu)));
    }

    /// The key of the other end, or that there is none any more, is known to the host from now on.
    pub(super) fn set_key(&mut self, remote: IpAddr, key: Option<&str>) {
        for cpu in 0..self.cpus() {
            let key = key.map(str::to_owned);
            self.call(cpu, move |netisr| match key {
                // One that is too long is none: what should be signed with it does not come.
                Some(key) => _ = tcp::set_key(&mut netisr.cpu, remote, key.as_bytes()),
                None => tcp::remove_key(&mut netisr.cpu, remote),
            });
        }
    }

    /// Lets the host do all that it has to do now; that takes it next to no time.
    pub(super) fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            let soon = self.now + AT_WORK;
            let Some(cpu) = (0..self.host.cpus.len()).min_by_key(|cpu| self.host.cpus[*cpu].next_turn())
            else {
                return;
            };
            let next = self.host.cpus[cpu].next_turn();
            if next >= soon {
                return;
            }
            self.now = self.now.max(next);
            self.host.cpus[cpu].turn(self.now);
            self.carry();
        }
    }

    fn next_turn(&self) -> Instant {
        self.host.cpus.iter().map(crate::host::SimCpu::next_turn).min().unwrap_or(Instant::NEVER)
    }

    /// Takes frames from the card, and answers those that are the link's own.
    fn carry(&mut self) {
        while let Some(frame) = self.host.nics[0].transmit() {
            let frame = frame.completed();
            match destination(frame.packet()) {
                Some(dst) if self.remotes.contains(&dst) => {
                    let (at, bytes) = (self.now(), frame.packet().to_vec());
                    #[cfg(test)]
                    let bytes = super::planted::sent(bytes);
                    self.sent.push_back(Sent { at, bytes });
                }
                to => {
                    let is_stray = !is_of_the_link(frame.packet()) && self.strays.len() < STRAYS_MAX;
                    self.strays.extend(to.filter(|_| is_stray));
                    self.gateway.receive(self.now, frame);
                }
            }
        }
        for frame in self.gateway.poll(self.now) {
            self.host.nics[0].deliver(frame);
        }
    }
}

fn ethertype(packet: &[u8]) -> EtherType {
    match packet.first().map(|first| first >> 4) {
        Some(6) => EtherType::IPV6,
        _ => EtherType::IPV4,
    }
}

/// Whether a packet is about the link: groups are joined and left, neighbours and routers are looked for.
fn is_of_the_link(packet: &[u8]) -> bool {
    if let Ok(view) = ip4::View::new(packet) {
        return view.protocol() == Protocol::IGMP;
    }
    // Of IPv6 these are messages of ICMP, perhaps behind an option for routers.
    ip6::View::new(packet).is_ok_and(|view| match view.next_header() {
        Protocol::HOP_BY_HOP => true,
        Protocol::ICMP6 => view.payload().first().is_some_and(|kind| (133..=137).contains(kind)),
        _ => false,
    })
}

fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => ip4::View::new(packet).ok().map(|view| view.dst().into()),
        6 => ip6::View::new(packet).ok().map(|view| view.dst().into()),
        _ => None,
    }
}
