//! A host whose programs echo, and an attacker that makes segments by hand.

use core::net::IpAddr;
use core::sync::atomic::Ordering;

use net::cpu::Cpu;
use net::tcp::settings::Settings;
use net::tcp::{self, Id, IpTxParams, Listen, ListenerId};
use net::time::Duration;
use net::udp;
use sim::builder::{self, Ip};
use sim::cable;
use sim::host::{Port, Spec};
use sim::mem::Rss;
use sim::plan::{self, Family};
use sim::station::Content;
use sim::world::{HostId, Permit, StationId, World};
use wire::tcp::{Flags, Header, Options};

use crate::common::{BOOT, station};

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
/// CPUs of the host.
pub(super) const CPUS: u16 = 2;
/// Memory of empty connection tables: the emptied segments that are kept.
const MEMORY_AT_REST: usize = CPUS as usize * (256 << 10);
/// Twice the lifetime of a segment, and a little.
const TIME_WAIT: Duration = Duration::from_secs(61);

/// The port where all is sent back, by TCP and by UDP.
pub(super) const ECHO: u16 = 7;
/// The port whose program neither reads nor sends.
pub(super) const DISCARD: u16 = 9;
/// The port whose program sends without end.
pub(super) const CHARGEN: u16 = 19;

/// A host under attack.
pub(super) struct Lab {
    pub(super) world: World,
    pub(super) host: HostId,
    pub(super) foe: StationId,
    pub(super) family: Family,
    listeners: Vec<(usize, u16, ListenerId)>,
    /// Connections of the host's programs: their CPU, their port, their name.
    pub(super) held: Vec<(usize, u16, Id)>,
    sockets: Vec<(usize, udp::Id)>,
    next_port: u16,
}

/// A connection whose other end is made by hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hand {
    /// Its port, and the host's.
    pub(super) ports: [u16; 2],
    /// Sequence number to send next, and to expect next.
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) window: u16,
}

/// A segment that came from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Got {
    pub(super) ports: [u16; 2],
    pub(super) flags: Flags,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) len: usize,
    pub(super) window: u16,
}

impl Hand {
    /// The header of its next segment.
    pub(super) fn header(&self, flags: Flags) -> Header {
        let [src_port, dst_port] = self.ports;
        let (seq, ack) = (self.seq, if flags.ack() { self.ack } else { 0 });
        Header { src_port, dst_port, seq, ack, flags, window: self.window, urgent: 0, options: Options::NONE }
    }
}

impl Lab {
    /// A host with programs on all three ports.
    pub(super) fn new(name: &str, family: Family) -> Self {
        Self::with(name, family, Settings::default())
    }

    /// Makes one whose connections have these settings.
    pub(super) fn with(name: &str, family: Family, settings: Settings) -> Self {
        let mut world = World::new(name, 1);
        world.allow(Permit::Nonsense);
        let cable = world.cable(cable::Spec::default());
        let port = Port::new(cable, 1, 1).rings(CPUS.into(), Rss::Right);
        let host = world.host(Spec::host("host").cpus(CPUS).buffers(4096).port(port));
        let foe = world.station(cable, station(1, 2));
        world.run_for(BOOT);
        let (held, listeners, sockets) = (Vec::new(), Vec::new(), Vec::new());
        let mut lab = Self { world, host, foe, family, listeners, held, sockets, next_port: 2000 };
        lab.listen(settings);
        lab
    }

    fn listen(&mut self, settings: Settings) {
        for (at, cpu) in self.world.of(self.host).cpus.iter_mut().enumerate() {
            let cpu = &mut cpu.netisr.cpu;
            for port in [ECHO, DISCARD, CHARGEN] {
                let (addr, tx_params) = (([0_u16; 8], port).into(), IpTxParams::default());
                let wants = Listen {
                    addr,
                    zone: 0,
                    only_v6: false,
                    backlog: 64,
                    is_shared: false,
                    settings,
                    tx_params,
                };
                self.listeners.push((at, port, tcp::listen(cpu, &wants).unwrap()));
            }
            let (addr, settings) = (([0_u16; 8], ECHO).into(), udp::Settings::default());
            let wants = udp::Bind { addr, zone: 0, only_v6: false, is_shared: false, settings };
            self.sockets.push((at, udp::bind(cpu, &wants).unwrap()));
        }
    }

    /// The host's address, and the foe's.
    pub(super) fn addrs(&self) -> [IpAddr; 2] {
        [1, 2].map(|host| self.family.addr(1, host))
    }

    /// Does something on a CPU of the host, which then turns.
    pub(super) fn on<R>(&mut self, at: usize, what: impl FnOnce(&mut Cpu) -> R) -> R {
        let now = self.world.now();
        let cpu = &mut self.world.of(self.host).cpus[at];
        cpu.netisr.cpu.now = now;
        let done = what(&mut cpu.netisr.cpu);
        cpu.bell.store(true, Ordering::Relaxed);
        done
    }

    /// Puts an IP packet on the cable.
    pub(super) fn throw(&mut self, packet: &[u8]) {
        let [src, dst] = [2, 1].map(|host| plan::mac(1, host));
        let ethertype = if self.family == Family::V4 { wire::EtherType::IPV4 } else { wire::EtherType::IPV6 };
        self.world.at(self.foe).send_frame(sim::frame::Frame::around(src, dst, ethertype, packet));
    }

    /// Sends a segment from the foe.
    pub(super) fn send(&mut self, header: &Header, payload: &[u8]) {
        let [to, from] = self.addrs();
        self.throw(&builder::tcp(Ip::new(from, to), header, payload));
    }

    /// Lets time pass in which the programs do what they do.
    pub(super) fn run_for(&mut self, span: Duration) {
        let until = self.world.now() + span;
        while self.world.now() < until {
            self.world.run_for(MS);
            self.serve();
        }
    }

    /// The segments that came from the host since this was asked for the last time.
    pub(super) fn heard(&mut self) -> Vec<Got> {
        let heard = core::mem::take(&mut self.world.at(self.foe).heard);
        let segment = |what| match what {
            Content::Tcp { ports: [from, to], flags, len, numbers: [seq, ack], window } => {
                Some(Got { ports: [to, from], flags: Flags(flags), seq, ack, len, window })
            }
            _ => None,
        };
        heard.into_iter().filter_map(|heard| segment(heard.what)).collect()
    }

    /// Sends a segment, lets the host answer, and hears what it has to say to this connection.
    pub(super) fn ask(&mut self, header: &Header, payload: &[u8]) -> Vec<Got> {
        self.heard();
        self.send(header, payload);
        self.run_for(2 * MS);
        self.heard().into_iter().filter(|got| got.ports == [header.src_port, header.dst_port]).collect()
    }

    /// A connection from a port that had none before, with these options in its SYN.
    pub(super) fn open_with(&mut self, port: u16, options: Options, window: u16) -> Hand {
        self.next_port += 1;
        let mut hand = Hand { ports: [self.next_port, port], seq: 77_000, ack: 0, window };
        let syn = Header { options, ..hand.header(Flags::SYN) };
        let answer = self.ask(&syn, &[])[0];
        assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
        (hand.seq, hand.ack) = (hand.seq + 1, answer.seq.wrapping_add(1));
        self.send(&hand.header(Flags::ACK), &[]);
        hand
    }

    /// A connection that stands, whose windows are not scaled.
    pub(super) fn open(&mut self, port: u16) -> Hand {
        let options = Options { mss: Some(1460), sack_permitted: true, ..Options::NONE };
        let hand = self.open_with(port, options, u16::MAX);
        self.run_for(2 * MS);
        hand
    }

    /// The host's programs do what there is to do.
    fn serve(&mut self) {
        for (at, port, listener) in self.listeners.clone() {
            while let Ok(accepted) = self.on(at, |cpu| tcp::accept(cpu, listener)) {
                self.held.push((at, port, accepted.id));
            }
        }
        let held = core::mem::take(&mut self.held);
        self.held = held.into_iter().filter(|held| self.goes_on(*held)).collect();
        for (at, socket) in self.sockets.clone() {
            let mut into = [0; 2000];
            while let Ok(got) = self.on(at, |cpu| udp::recv(cpu, socket, &mut into)) {
                // Without a route to its peer, a socket sends no reply.
                _ = self.on(at, |cpu| udp::send_to(cpu, socket, got.from, &into[..got.len]));
            }
        }
    }

    /// One program's part; whether its connection goes on.
    fn goes_on(&mut self, (at, port, id): (usize, u16, Id)) -> bool {
        let mut into = [0; 4000];
        match port {
            ECHO => match self.on(at, |cpu| tcp::read(cpu, id, &mut into)) {
                Ok(count @ 1..) => self.on(at, |cpu| tcp::send(cpu, id, &into[..count])).is_ok(),
                Err(net::sock::Error::WouldBlock) => true,
                Ok(0) | Err(_) => self.on(at, |cpu| tcp::close(cpu, id)).is_err(),
            },
            CHARGEN => {
                while self.on(at, |cpu| tcp::send(cpu, id, &into)).is_ok() {}
                self.on(at, |cpu| !tcp::ready(cpu, id).ended || tcp::close(cpu, id).is_err())
            }
            _ => self.on(at, |cpu| !tcp::ready(cpu, id).ended || tcp::close(cpu, id).is_err()),
        }
    }

    /// All programs close their connections.
    pub(super) fn close_all(&mut self) {
        for (at, _, id) in core::mem::take(&mut self.held) {
            // It may have ended already.
            _ = self.on(at, |cpu| tcp::close(cpu, id));
        }
    }

    /// Connections of the host, whatever they are.
    pub(super) fn connections(&mut self) -> usize {
        let cpus = self.world.of(self.host).cpus.iter();
        cpus.filter_map(|cpu| cpu.netisr.cpu.tcp.as_ref()).map(|pcbs| pcbs.len()).sum()
    }

    /// Bytes that they take.
    pub(super) fn memory(&mut self) -> usize {
        let cpus = self.world.of(self.host).cpus.iter();
        cpus.filter_map(|cpu| cpu.netisr.cpu.tcp.as_ref()).map(|pcbs| pcbs.memory()).sum()
    }

    /// The host answers an echo request, a datagram and a connection, which ends in order.
    pub(super) fn answers(&mut self) {
        let [to, _] = self.addrs();
        self.world.at(self.foe).heard.clear();
        self.world.at(self.foe).ping(to, [9, 9], 32);
        let ip = self.world.at(self.foe).ip_to(to);
        self.world.at(self.foe).send_udp(ip, [9, ECHO], b"hello");
        self.run_for(2 * MS);
        let foe = self.world.at(self.foe);
        assert_eq!(foe.replies(9), 1, "to an echo request");
        assert!(
            foe.has_heard(|heard| heard.what == Content::Udp { ports: [ECHO, 9], len: 5 }),
            "to a datagram"
        );
        let mut hand = self.open(ECHO);
        let got = self.ask(&hand.header(Flags::ACK | Flags::PSH), b"hello");
        assert_eq!(got.iter().map(|got| got.len).sum::<usize>(), 5, "to a connection");
        (hand.seq, hand.ack) = (hand.seq + 5, hand.ack.wrapping_add(5));
        let got = self.ask(&hand.header(Flags::ACK | Flags::FIN), &[]);
        assert!(got.iter().any(|got| got.flags.fin()), "to its end: {got:?}");
        (hand.seq, hand.ack) = (hand.seq + 1, hand.ack.wrapping_add(1));
        assert_eq!(self.ask(&hand.header(Flags::ACK), &[]), []);
    }

    /// Checks the invariant after each attack: the host answers at once, and when its programs have closed what they had and all
    /// that was under way has died out, nothing is left.
    pub(super) fn end(mut self) {
        self.answers();
        self.close_all();
        // The longest time that segments are retransmitted to a silent peer.
        self.world.run_for(Duration::from_secs(15 * 60));
        self.answers();
        self.world.run_for(TIME_WAIT);
        assert_eq!(self.connections(), 0, "connections are left");
        let memory = self.memory();
        assert!(memory <= MEMORY_AT_REST, "{memory} bytes are left");
        assert_eq!(self.world.of(self.host).outstanding(), 0, "buffers are left");
        self.world.finish();
    }
}
