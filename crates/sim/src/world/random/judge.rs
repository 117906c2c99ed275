//! Judges packets that have arrived: may they have, by the policies that were in force on their way?

use core::net::IpAddr;

use net::time::{Duration, Instant};

use super::policy::{Addr, Crossed, Decision, Packet, Policy, Proto};
use crate::plan::Family;
use crate::station::{Content, ReceivedPacket};

/// Time that CPUs may take to exchange one policy for another.
pub(super) const EXCHANGE: Duration = Duration::from_millis(50);
/// Time that a packet of no flow may have been on its way, and that one may still make a state.
const LINGER_NS: u64 = 30_000_000_000;
const LINGER: Duration = Duration::from_nanos(LINGER_NS);

/// The policies of all routers, and the packets that stations have sent.
pub(super) struct Judge {
    /// Routers in the line.
    count: usize,
    /// By router; none if it has no firewall.
    routers: Vec<Vec<Spell>>,
    sent: Vec<Sent>,
}

/// A policy, and when it was in force.
struct Spell {
    policy: Policy,
    from: Instant,
    until: Instant,
}

/// Packets of one kind.
struct Sent {
    packet: Packet,
    from: Instant,
    until: Instant,
    /// The first router on the way redirects them, from ends that are not the packet's.
    is_redirected: bool,
}

impl Judge {
    /// The judge of a line of `count` routers.
    pub(super) const fn new(count: usize) -> Self {
        Self { count, routers: Vec::new(), sent: Vec::new() }
    }

    /// Puts a policy in force on a router, in place of the one before.
    pub(super) fn rules(&mut self, router: usize, policy: Policy, now: Instant) {
        if self.routers.len() <= router {
            self.routers.resize_with(router + 1, Vec::new);
        }
        let spells = &mut self.routers[router];
        if let Some(last) = spells.last_mut() {
            last.until = now + EXCHANGE;
        }
        spells.push(Spell { policy, from: now, until: Instant::NEVER });
    }

    /// The policy in force on a router.
    pub(super) fn policy(&self, router: usize) -> Option<&Policy> {
        self.routers.get(router)?.last().map(|spell| &spell.policy)
    }

    /// Policies that have been in force.
    pub(super) fn policies(&self) -> usize {
        self.routers.iter().map(Vec::len).sum()
    }

    /// A station sends packets, from `from` to `until`; of echo requests the replies follow.
    pub(super) fn sends(&mut self, packet: Packet, from: Instant, until: Instant) {
        self.sent.push(Sent { packet, from, until, is_redirected: false });
        if packet.proto == Proto::Echo {
            self.sent.push(Sent { packet: packet.reversed(), from, until, is_redirected: false });
        }
    }

    /// A station sends packets that a router redirects; `packet` is one of them behind that.
    pub(super) fn sends_redirected(&mut self, packet: Packet, from: Instant, until: Instant) {
        self.sent.push(Sent { packet, from, until, is_redirected: true });
    }

    /// Whether all routers on its way forward a packet now, without a state.
    pub(super) fn allows(&self, packet: &Packet) -> bool {
        path(packet, self.count).all(|(router, crossed)| {
            self.policy(router).is_none_or(|policy| policy.decide(packet, crossed) != Decision::Denied)
        })
    }

    /// Whether a packet that was sent at `sent` may have arrived at `at`.
    pub(super) fn may_arrive(&self, packet: &Packet, sent: Instant, at: Instant) -> bool {
        path(packet, self.count).all(|(router, crossed)| {
            let spells = self.routers.get(router).map_or(&[][..], Vec::as_slice);
            let passes = |spell: &Spell| {
                spell.is_in(sent, at) && spell.policy.decide(packet, crossed) != Decision::Denied
            };
            spells.is_empty() || spells.iter().any(passes) || self.may_have_state(router, packet, at)
        })
    }

    /// Whether a packet sent before, in either direction of the flow, may have made a state on a router.
    fn may_have_state(&self, router: usize, packet: &Packet, at: Instant) -> bool {
        let before = self.sent.iter().filter(|sent| sent.from <= at);
        let mut of_flow = before.filter(|sent| [*packet, packet.reversed()].contains(&sent.packet));
        of_flow.any(|sent| {
            if sent.is_redirected && sent.packet != *packet {
                // Answers get their old address back, and pass.
                return true;
            }
            let crossed = path(&sent.packet, self.count)
                .find(|(on_way, _)| *on_way == router)
                .map(|(_, crossed)| crossed);
            let keeps = |spell: &Spell, crossed| {
                spell.is_in(sent.from, sent.until + LINGER)
                    && spell.policy.decide(&sent.packet, crossed) == Decision::Kept
            };
            crossed.is_some_and(|crossed| self.routers[router].iter().any(|spell| keeps(spell, crossed)))
        })
    }

    /// [`Self::may_arrive`] of something that a station heard, if it is a packet of another station.
    pub(super) fn may_be_heard(&self, heard: &ReceivedPacket) -> Option<bool> {
        let (from, to) = (addr(heard.from)?, addr(heard.to)?);
        let (proto, ports) = match heard.what {
            Content::Udp { ports, .. } => (Proto::Udp, ports),
            Content::EchoRequest { .. } | Content::EchoReply { .. } => (Proto::Echo, [0; 2]),
            _ => return None,
        };
        let packet = Packet { family: Family::of(heard.from), proto, from, to, ports };
        let sent = Instant::from_ns(heard.at.ns().saturating_sub(LINGER_NS));
        Some(self.may_arrive(&packet, sent, heard.at))
    }
}

impl Spell {
    fn is_in(&self, from: Instant, until: Instant) -> bool {
        self.from <= until && from <= self.until
    }
}

/// The routers on the way of a packet in a line of `count` routers. Router `n` joins networks `n + 1`, at its port 0, and
/// `n + 2`. Stations send to the router whose port 0 is on their network, if there is one, whatever the direction.
fn path(packet: &Packet, count: usize) -> impl Iterator<Item = (usize, Crossed)> + use<> {
    let [from, to] = [packet.from.net, packet.to.net].map(usize::from);
    let detour = (from > to && from <= count).then_some((from - 1, Crossed { recv: 0, xmit: 0 }));
    let crossed = if from < to { Crossed { recv: 0, xmit: 1 } } else { Crossed { recv: 1, xmit: 0 } };
    detour.into_iter().chain((from.min(to)..from.max(to)).map(move |net| (net - 1, crossed)))
}

/// Returns the station with an address; none for routers and unused addresses.
fn addr(ip: IpAddr) -> Option<Addr> {
    let all = (1..=4).flat_map(|net| [2, 3].map(|host| Addr { net, host }));
    all.into_iter().find(|own| Family::of(ip).addr(own.net, own.host) == ip)
}
