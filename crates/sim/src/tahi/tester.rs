//! The tester: plays a sequence to a host, and sees what it does.

use core::time::Duration;

use net::cpu::Cpu;
use net::ip6::autoconf::{Identifiers, Settings};
use net::ip6::output::output;
use net::netisr::Netisr;
use net::ping;
use net::tables::IfIndex;
use net::time::Instant;
use wire::ether::Mac;
use wire::ip6_ext::Fragment;
use wire::{Protocol, ether, ip6};

use super::compare::{icmp_kind, is_from_nobody, is_same, show};
use super::sequence::{Except, Sequence, Step};
use crate::cable;
use crate::frame::Frame;
use crate::host::{Port, Spec, ifindex};
use crate::station::Station;
use crate::world::{CableId, HostId, Permit, StationId, World};

/// The link address of the host that the sequences are about.
const HOST: Mac = Mac([0x00, 0x11, 0x22, 0x33, 0x44, 0x56]);
/// The tester's own link address does not matter: frames are whole.
const TESTER: Mac = Mac([0x02, 0, 0, 0, 0, 1]);
/// Uptime of a host before a sequence that does not begin with its start: longer than it solicits routers
/// quickly.
const WARM: Duration = Duration::from_secs(30);

/// Questions for duplicates that some sequences demand; none forbids them.
const DAD_TRANSMITS: u8 = 2;

/// A frame has been dealt with before the next is sent, as in the tests that the sequences come from.
const GAP: Duration = Duration::from_millis(1);

/// Why a sequence failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// At which of its steps, from 0.
    pub step: usize,
    /// The expectation.
    pub expected: String,
    /// The packet that came instead.
    pub came: String,
}

/// Plays a sequence to a host with so many CPUs.
///
/// # Errors
/// The first step that went wrong.
pub fn run(sequence: &Sequence, cpus: u16, seed: u64) -> Result<(), Failure> {
    let mut tester = Tester::new(sequence, cpus, seed);
    let steps = sequence.steps.iter().enumerate();
    let mut played = steps.map(|(at, step)| {
        let done = tester.play(step, &sequence.steps[at..]);
        done.map_err(|(expected, came)| Failure { step: at, expected, came })
    });
    let done = played.find(Result::is_err).unwrap_or(Ok(()));
    tester.world.forget();
    done
}

struct Tester {
    world: World,
    cable: CableId,
    host: HostId,
    plug: StationId,
    /// Frames of the cable that were looked at.
    seen: usize,
}

/// The expectation, and what came instead.
type Wrong = (String, String);

impl Tester {
    fn new(sequence: &Sequence, cpus: u16, seed: u64) -> Self {
        let mut world = World::new("tahi", seed);
        world.allow(Permit::Nonsense);
        let cable = world.cable(cable::Spec::default());
        let plug = world.station(cable, Station::new("tester", TESTER, &[]));
        world.at(plug).mute = true;
        let settings = Settings {
            identifiers: Identifiers::Eui64,
            temporary: false,
            dad_transmits: DAD_TRANSMITS,
            dad_nonce: false,
        };
        let port = Port::new(cable, 1, 1).autoconf(settings).card(|card| card.mac = HOST);
        let host = world.host(Spec::host("host").cpus(cpus).port(port));
        let mut tester = Self { world, cable, host, plug, seen: 0 };
        if !sequence.begins_cold() {
            tester.world.run_for(WARM);
            tester.forget();
        }
        tester
    }

    fn play(&mut self, step: &Step, rest: &[Step]) -> Result<(), Wrong> {
        match step {
            Step::Title { .. } | Step::Cleanup | Step::CleanHopLimit => {}
            Step::Inject { frame } => {
                self.world.at(self.plug).send_frame(Frame::new(frame.clone()));
                self.world.run_for(GAP);
            }
            Step::Check { frame, within_s } => return self.must_come(frame, *within_s),
            Step::CheckRequest { frame, within_s } => {
                self.request(frame, rest)?;
                return self.must_come(frame, *within_s);
            }
            Step::CheckNot { kind, for_s, arg } => {
                let counts = |frame: &[u8]| {
                    let is_excepted = *arg == Some(Except::FromNobody) && is_from_nobody(frame);
                    icmp_kind(frame) == Some(kind.code()) && !is_excepted
                };
                let expected = || format!("no {kind:?} for {for_s} s");
                return self.must_not_come(counts, *for_s).map_err(|came| (expected(), came));
            }
            Step::Wait { seconds } => self.world.run_for(Duration::from_secs(*seconds)),
            Step::Dump => self.forget(),
        }
        Ok(())
    }

    /// Looks at frames, until the one that is wanted is there.
    fn must_come(&mut self, wanted: &[u8], within_s: u64) -> Result<(), Wrong> {
        let (cable, mut others) = (self.cable, Vec::new());
        let mut seen = self.seen;
        let came = self.world.run_until(Duration::from_secs(within_s), |world| {
            let sent = world.on(cable).tape.frames().skip(seen);
            for (_, frame) in sent {
                seen += 1;
                if is_from_host(frame) && is_same(wanted, frame) {
                    return true;
                }
                others.extend(is_from_host(frame).then(|| show(frame)));
            }
            false
        });
        self.seen = seen;
        let what = if others.is_empty() { "nothing".to_owned() } else { others.join("; ") };
        if came { Ok(()) } else { Err((format!("{} within {within_s} s", show(wanted)), what)) }
    }

    fn must_not_come(&mut self, counts: impl Fn(&[u8]) -> bool, for_s: u64) -> Result<(), String> {
        self.world.run_for(Duration::from_secs(for_s));
        let sent: Vec<(Instant, Vec<u8>)> = self.unseen();
        match sent.iter().find(|(_, frame)| is_from_host(frame) && counts(frame)) {
            None => Ok(()),
            Some((_, frame)) => Err(show(frame)),
        }
    }

    fn unseen(&mut self) -> Vec<(Instant, Vec<u8>)> {
        let tape = &self.world.on(self.cable).tape;
        let sent: Vec<_> = tape.frames().skip(self.seen).map(|(at, frame)| (at, frame.to_vec())).collect();
        self.seen += sent.len();
        sent
    }

    fn forget(&mut self) {
        self.unseen();
    }

    /// Has the host send the echo request that begins with `frame`, whole: what it must become on the wire is in the
    /// steps.
    fn request(&mut self, frame: &[u8], rest: &[Step]) -> Result<(), Wrong> {
        let packet = whole(frame, rest).ok_or_else(|| (show(frame), "a request that is none".to_owned()))?;
        let (outif, host) = (ifindex(0), self.world.of(self.host));
        let at = sender(&host.cpus[0].netisr.cpu, &packet, outif);
        host.call(at, move |netisr| send(netisr, outif, &packet));
        Ok(())
    }
}

/// Returns the CPU that a program sends a packet from: where its answers come, and errors about it.
fn sender(cpu: &Cpu, packet: &[u8], outif: IfIndex) -> usize {
    let Ok(header) = ip6::Header::parse(packet) else { return 0 };
    let source = ping::source(cpu, header.dst.into(), Some(header.src.into()), Some(outif), 0);
    source.map_or(0, |source| source.cpu.index())
}

fn is_from_host(frame: &[u8]) -> bool {
    frame.get(6..12) == Some(&HOST.octets())
}

/// The packet whose first fragment `frame` is; the others are demanded by the steps behind it. One that is no fragment is
/// whole.
fn whole(frame: &[u8], rest: &[Step]) -> Option<Vec<u8>> {
    let packet = frame.get(ether::HEADER_LEN..)?;
    if Protocol(*packet.get(6)?) != Protocol::FRAGMENT {
        return Some(packet.to_vec());
    }
    let others = rest.iter().skip(1).map_while(|step| match step {
        Step::Check { frame, .. } => {
            frame.get(ether::HEADER_LEN..).filter(|packet| packet.get(6) == Some(&Protocol::FRAGMENT.0))
        }
        _ => None,
    });
    let pieces = [packet].into_iter().chain(others);
    let body: Vec<u8> =
        pieces.flat_map(|piece| piece.iter().skip(ip6::HEADER_LEN + Fragment::LEN)).copied().collect();
    let header = ip6::Header::parse(packet).ok()?;
    let payload_len = u16::try_from(body.len()).ok()?;
    let header = ip6::Header { next_header: Protocol::ICMP6, payload_len, ..header };
    Some([&header.to_bytes()[..], &body].concat())
}

fn send(netisr: &mut Netisr, outif: u16, packet: &[u8]) {
    let Some(mut pkt) = netisr.cpu.pool.take() else { return };
    let room = pkt.append(packet.len()).map(|room| room.copy_from_slice(packet));
    pkt.outif = outif;
    (pkt.l4, pkt.proto) = (40, Protocol::ICMP6.0);
    match room {
        Ok(()) => output(&mut netisr.cpu, pkt),
        Err(_) => netisr.cpu.pool.give(pkt),
    }
}
