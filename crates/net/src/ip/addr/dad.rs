//! One address over time: asked for, announced, defended.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::addr::solicited_node_multicast;
use wire::arp::Packet;
use wire::ether::Mac;
use wire::nd::Message;

use super::{Key, Own, State, Status, is_usable, publish};
use crate::base::time::{Duration, Instant};
use crate::ip::arp;
use crate::ip::group;
use crate::ip::ip6::nd;
use crate::link::tables::{Ifnet, RETRANS};
use crate::turn::cpu::Cpu;
use crate::turn::timers::Timer;

/// The first question comes after a random time below this (RFC 5227 `PROBE_WAIT`, RFC 4862 §5.4.2): hosts that
/// start together do not all ask at once.
const PROBE_WAIT: Duration = Duration::from_secs(1);
/// `DupAddrDetectTransmits` of RFC 4862 §5.1.
const ND_PROBES: u8 = 1;
/// One unsolicited advertisement, of the three that RFC 4861 §7.2.6 allows.
const ND_ANNOUNCES: u8 = 1;
/// The rest is from RFC 5227 §1.1.
const ARP_PROBES: u8 = 3;
const ARP_PROBE_MIN: Duration = Duration::from_secs(1);
const ARP_PROBE_MAX: Duration = Duration::from_secs(2);
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);
const ARP_ANNOUNCES: u8 = 2;
const ANNOUNCE_GAP: Duration = Duration::from_secs(2);
const DEFEND_GAP: Duration = Duration::from_secs(10);

/// The progress of one address.
pub(super) struct Watch {
    phase: Phase,
    /// Questions, or announcements, sent in this phase.
    sent: u8,
    /// When the next is due.
    at: Instant,
    /// When the timer that is set fires.
    armed: Instant,
    /// Marks our last question as ours (RFC 7527).
    nonce: [u8; 6],
    conflicts: u64,
    rival: Option<Mac>,
    conflicted: Option<Instant>,
    defended: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Probing for duplicates.
    Probing,
    /// Telling everybody that we have it.
    Announcing,
    /// Watching for conflicts.
    Watching,
}

/// Begins with an address that was configured, unless that has been done, on every CPU; the one that owns it watches it.
pub(super) fn start(cpu: &mut Cpu, key: Key, ifnet: &Ifnet) {
    if cpu.addrs.table.contains_key(&key) {
        return;
    }
    let mac = ifnet.mac;
    // IPv4 has no optimistic detection, so an optimist just announces.
    let is_probed_first = mac.is_unicast() && (key.addr.is_ipv6() || !cpu.addrs.optimistic);
    let state = if is_probed_first { State::Tentative } else { State::Preferred };
    let is_mine = cpu.placement.owner_of(key.addr) == cpu.id;
    let watch = is_mine.then(|| Watch::new(cpu.now, mac, state, cpu.secret.draw()));
    let is_optimistic = cpu.addrs.optimistic && ifnet.autoconf.is_none();
    let is_usable = is_usable(state, is_optimistic);
    cpu.addrs.table.insert(key, Own { mac, state, is_optimistic, is_usable, watch });
    arm(cpu, key);
}

/// The next question or announcement is due.
pub(super) fn timer(cpu: &mut Cpu, key: Key) {
    let now = cpu.now;
    let Some(watch) = watch(cpu, &key) else { return };
    if now < watch.armed {
        return;
    }
    watch.armed = Instant::NEVER;
    if watch.at <= now {
        step(cpu, key);
    }
    arm(cpu, key);
}

/// Handles a claim of the address by another station.
///
/// While we are still asking, the other one was first. Later we were: we keep the address and say so, but not more often
/// than every ten seconds. To give up a configured address because of one packet would hand everybody on the link a
/// switch to turn the router off (RFC 5227 §2.4 (c)).
pub(super) fn claimed(cpu: &mut Cpu, key: Key, rival: Option<Mac>) {
    let (now, state) = (cpu.now, cpu.addrs.state(&key));
    let Some(watch) = watch(cpu, &key) else { return };
    watch.conflicts += 1;
    watch.rival = rival;
    watch.conflicted = Some(now);
    match state {
        Some(State::Tentative) => {
            (watch.phase, watch.at) = (Phase::Watching, Instant::NEVER);
            publish(cpu, key, State::Duplicated);
        }
        Some(State::Preferred) if watch.may_defend(now) => announce(cpu, key),
        _ => {}
    }
}

fn watch<'a>(cpu: &'a mut Cpu, key: &Key) -> Option<&'a mut Watch> {
    cpu.addrs.table.get_mut(key)?.watch.as_mut()
}

fn step(cpu: &mut Cpu, key: Key) {
    let now = cpu.now;
    let jitter = cpu.secret.draw();
    let retrans = cpu.tables.ifnet(key.ifindex).map_or(RETRANS, |ifnet| ifnet.learned.retrans);
    let probes = probes(cpu, &key);
    let Some(watch) = watch(cpu, &key) else { return };
    match watch.phase {
        Phase::Probing if watch.sent < probes => {
            watch.sent += 1;
            watch.at = now + probe_gap(key.addr, watch.sent, jitter, retrans);
            watch.nonce = nonce(jitter);
            probe(cpu, key);
        }
        Phase::Probing => {
            (watch.phase, watch.sent) = (Phase::Announcing, 0);
            publish(cpu, key, State::Preferred);
            if let IpAddr::V6(addr) = key.addr {
                group::joined(cpu, key.ifindex, addr);
            }
            step(cpu, key);
        }
        Phase::Announcing => {
            watch.sent += 1;
            let is_last = watch.sent >= announces(key.addr);
            watch.at = if is_last { Instant::NEVER } else { now + ANNOUNCE_GAP };
            watch.phase = if is_last { Phase::Watching } else { Phase::Announcing };
            announce(cpu, key);
        }
        Phase::Watching => {}
    }
}

fn probes(cpu: &Cpu, key: &Key) -> u8 {
    let settings = cpu.tables.ifnet(key.ifindex).and_then(|ifnet| ifnet.autoconf);
    match key.addr {
        IpAddr::V4(_) => ARP_PROBES,
        IpAddr::V6(_) => settings.map_or(ND_PROBES, |settings| settings.dad_transmits.max(1)),
    }
}

const fn announces(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { ARP_ANNOUNCES } else { ND_ANNOUNCES }
}

/// Time to wait for an answer to question number `sent`: of neighbour discovery, `RETRANS_TIMER`.
fn probe_gap(addr: IpAddr, sent: u8, random: u64, retrans: Duration) -> Duration {
    match addr {
        IpAddr::V6(_) => retrans,
        IpAddr::V4(_) if sent >= ARP_PROBES => ANNOUNCE_WAIT,
        IpAddr::V4(_) => ARP_PROBE_MIN + below(ARP_PROBE_MAX.saturating_sub(ARP_PROBE_MIN), random),
    }
}

fn below(span: Duration, random: u64) -> Duration {
    Duration::from_millis(random % u64::try_from(span.as_millis()).unwrap_or(1).max(1))
}

const fn nonce(random: u64) -> [u8; 6] {
    let [_, _, nonce @ ..] = random.to_be_bytes();
    nonce
}

/// Asks whether another node has the address.
fn probe(cpu: &mut Cpu, key: Key) {
    match key.addr {
        IpAddr::V4(addr) => request(cpu, &key, Ipv4Addr::UNSPECIFIED, addr),
        IpAddr::V6(target) => {
            group::joined(cpu, key.ifindex, target);
            let Some(watch) = watch(cpu, &key) else { return };
            let nonce = watch.nonce;
            let settings = cpu.tables.ifnet(key.ifindex).and_then(|ifnet| ifnet.autoconf);
            let nonce = Some(&nonce).filter(|_| settings.is_none_or(|settings| settings.dad_nonce));
            let dst = solicited_node_multicast(target);
            let params = nd::NdTxParams { src: Ipv6Addr::UNSPECIFIED, dst, mac: None };
            nd::probe(cpu, key.ifindex, params, Message::NeighborSolicit { target }, nonce);
        }
    }
}

/// Tells everybody that we have the address.
fn announce(cpu: &mut Cpu, key: Key) {
    match key.addr {
        //= https://www.rfc-editor.org/rfc/rfc5227#section-2.3
        //# An ARP Announcement is identical to the ARP Probe described above, except that now the sender and target IP addresses are both set to the host's newly selected IPv4 address.
        IpAddr::V4(addr) => request(cpu, &key, addr, addr),
        IpAddr::V6(_) => nd::advertise(cpu, key, None),
    }
}

fn request(cpu: &mut Cpu, key: &Key, sender: Ipv4Addr, target: Ipv4Addr) {
    let Some(mac) = cpu.tables.ifnet(key.ifindex).map(|ifnet| ifnet.mac) else { return };
    arp::output(cpu, key.ifindex, Mac::BROADCAST, &Packet::request(mac, sender, target));
}

/// Sets the timer if the next step is due before it fires.
fn arm(cpu: &mut Cpu, key: Key) {
    let Some(watch) = watch(cpu, &key) else { return };
    if watch.at < watch.armed {
        watch.armed = watch.at;
        let at = watch.at;
        cpu.timers.set(at, Timer::Addr(key));
    }
}

impl Watch {
    /// An interface without a link address has no link to probe.
    fn new(now: Instant, mac: Mac, state: State, random: u64) -> Self {
        let (phase, at) = match state {
            _ if !mac.is_unicast() => (Phase::Watching, Instant::NEVER),
            State::Tentative => (Phase::Probing, now + below(PROBE_WAIT, random)),
            State::Preferred | State::Duplicated => (Phase::Announcing, now),
        };
        Self {
            phase,
            sent: 0,
            at,
            armed: Instant::NEVER,
            nonce: [0; 6],
            conflicts: 0,
            rival: None,
            conflicted: None,
            defended: None,
        }
    }

    pub(super) const fn status(&self, key: Key, state: State) -> Status {
        let Self { conflicts, rival, conflicted, .. } = *self;
        Status { key, state, conflicts, rival, conflicted }
    }

    pub(super) fn has_asked(&self, nonce: [u8; 6]) -> bool {
        self.phase == Phase::Probing && self.sent > 0 && self.nonce == nonce
    }

    fn may_defend(&mut self, now: Instant) -> bool {
        let may = self.defended.is_none_or(|last| now.since(last) >= DEFEND_GAP);
        if may {
            self.defended = Some(now);
        }
        may
    }
}
