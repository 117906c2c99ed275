//! `why`: the way that a packet would take. It goes that way on the netisr that owns it, and leaves nothing behind
//! ([`net::trace::dry`]).

use core::net::IpAddr;

use dev::sys::cycles;
use net::driver::Link;
use net::drop::DropReason;
use net::fib::To;
use net::next::Next;
use net::rss::{self, Placement};
use net::tables::IfIndex;
use net::trace::dry::{self, Question, Stage};
use net::trace::{Recipient, Step, Trace};
use wire::{Protocol, icmp4, icmp6, ip4, ip6, tcp, udp};

use super::super::control::Control;
use crate::api::{Error, ErrorKind, TraceEnd, TraceStep, WhyAnswer, WhyRequest};
use crate::daemon::entropy;

/// CPUs that a packet is followed to.
const CPUS_MAX: usize = 4;
/// Bytes of a packet at the most: what one buffer holds.
const LEN_MAX: usize = 1800;

impl Control {
    /// Follows a packet.
    pub(super) fn follow(&self, request: &WhyRequest) -> Result<WhyAnswer, Error> {
        let bytes = packet(request)?;
        let from = self.entrance(request)?;
        let question = Question { bytes, from };
        let mut cpu = self.owner_of_packet(request);
        let mut trace = self.dry_run(cpu, &question)?;
        for _ in 1..CPUS_MAX {
            let Some((at, owner)) = handed_over(&trace) else { break };
            cpu = owner;
            let there = self.dry_run(cpu, &question)?;
            trace.steps.truncate(at + 1);
            // The same up to where it was handed over.
            trace.steps.extend(there.steps.into_iter().skip(at.saturating_sub(1)));
        }
        self.answered(request, &trace)
    }

    fn dry_run(&self, cpu: usize, question: &Question) -> Result<Trace, Error> {
        let cpus = u16::try_from(self.cpus.iter().count()).unwrap_or(u16::MAX);
        let id = net::cpu::CpuId(u16::try_from(cpu).unwrap_or(u16::MAX));
        let key =
            entropy::key().map_err(|why| Error::new(ErrorKind::Failed, format!("no entropy: {why}")))?;
        let rules =
            self.cpus.call(cpu, |netisr| netisr.cpu.firewall.as_ref().map(|firewall| firewall.shared()))?;
        let stage = Stage::new(rules.as_ref(), id, cpus, key, self.cpus.clock.now());
        let question = question.clone();
        let (trace, stage) =
            self.cpus.call(cpu, move |netisr| dry::run(netisr, &question, stage, cycles::now))?;
        // Its tables are large, and are freed here.
        drop(stage);
        trace.ok_or_else(|| Error::new(ErrorKind::Busy, "no free packet buffer"))
    }

    /// The interface that the packet comes in by; `None` if it is made here.
    fn entrance(&self, request: &WhyRequest) -> Result<Option<IfIndex>, Error> {
        if let Some(name) = &request.interface {
            let index = self.interface(name).ok_or_else(|| self.no_interface(name))?.index;
            return Ok(Some(index));
        }
        if self.tables.is_ours(request.src) {
            return Ok(None);
        }
        let fibs = 0..self.routing.rib.tables();
        let route = fibs.flat_map(|fib| self.way_to(fib, request.src)).next().map(|answer| answer.route);
        let hop = route.as_ref().and_then(|route| route.next_hops.first());
        let index = hop.and_then(|hop| self.interface(&hop.interface)).map(|interface| interface.index);
        index.map(Some).ok_or_else(|| {
            let error = format!("no route leads to the source {}", request.src);
            Error::new(ErrorKind::Invalid, error).hint("name the interface that the packet comes in by")
        })
    }

    fn owner_of_packet(&self, request: &WhyRequest) -> usize {
        let cpus = u16::try_from(self.cpus.iter().count()).unwrap_or(u16::MAX);
        let has_ports = matches!(Protocol(request.protocol), Protocol::TCP | Protocol::UDP);
        let hash = if has_ports {
            rss::hash_flow((request.src, request.src_port), (request.dst, request.dst_port))
        } else {
            rss::hash_pair(request.src, request.dst)
        };
        Placement::new(cpus).owner(hash).index()
    }

    fn answered(&self, request: &WhyRequest, trace: &Trace) -> Result<WhyAnswer, Error> {
        let mut packet = self.traced(trace);
        let cpus = self.cpus.iter().count();
        let owner = TraceStep {
            stage: "owner".into(),
            text: format!("CPU {} of {cpus}", trace.cpu),
            rules: Vec::new(),
            cycles: 0,
        };
        packet.steps.insert(0, owner);
        packet.interface = trace.rcvif.ne(&0).then(|| self.name_of(trace.rcvif)).flatten();
        let (end, verdict, hint) = self.end(request, trace)?;
        Ok(WhyAnswer { packet, end, verdict, hint })
    }

    fn end(&self, request: &WhyRequest, trace: &Trace) -> Result<(TraceEnd, String, Option<String>), Error> {
        let steps = || trace.steps.iter().map(|(step, _)| step).rev();
        let last = steps().find(|step| !matches!(step, Step::Counted(_) | Step::Changed(_)));
        Ok(match last {
            Some(Step::Frame { outif, .. }) => {
                let name = self.name_of(*outif).unwrap_or_default();
                if self.is_down(*outif)? {
                    let verdict = format!("dropped: the link of {name} is down");
                    return Ok((
                        TraceEnd::Dropped,
                        verdict,
                        Some("plug it in, or bring its other end up".into()),
                    ));
                }
                let hop = steps().find_map(|step| match step {
                    Step::Route { dst, to, .. } => Some(next_hop(*dst, *to)),
                    _ => None,
                });
                let hop = hop.or_else(|| {
                    let route = self.way_to(0, request.dst).ok()?.route;
                    route.next_hops.first().and_then(|hop| hop.gateway)
                });
                (TraceEnd::Sent, format!("sent by {name} to {}", hop.unwrap_or(request.dst)), None)
            }
            Some(Step::Local { recipient, .. }) => local(*recipient, request),
            Some(Step::Held { ifindex, next_hop }) => {
                let name = self.name_of(*ifindex).unwrap_or_default();
                if self.knows_neighbour(*ifindex, *next_hop) {
                    // Another CPU knows it, and is asked.
                    return Ok((TraceEnd::Sent, format!("sent by {name} to {next_hop}"), None));
                }
                let verdict = format!("held until {next_hop} on {name} has said its link address");
                (
                    TraceEnd::Held,
                    verdict,
                    Some(format!("`pantala ping {next_hop}` finds out whether it answers")),
                )
            }
            Some(Step::Next(Next::Answer(problem))) => {
                let reason = problem.reason();
                let verdict =
                    format!("dropped with an ICMP error: {} ({})", reason.sentence(), reason.name());
                (TraceEnd::Answered, verdict, self.hint(reason, request, trace))
            }
            Some(Step::Next(Next::Reset)) => {
                (TraceEnd::Answered, "dropped by a rule, with a TCP reset".into(), None)
            }
            Some(Step::Dropped(reason)) => {
                let verdict = format!("dropped: {} ({})", reason.sentence(), reason.name());
                (TraceEnd::Dropped, verdict, self.hint(*reason, request, trace))
            }
            Some(Step::Next(next)) => (TraceEnd::Unknown, format!("not followed further: {next:?}"), None),
            _ => (TraceEnd::Unknown, "not followed further".into(), None),
        })
    }

    /// Whether no ring of an interface has a link.
    fn is_down(&self, outif: IfIndex) -> Result<bool, Error> {
        let links = self.cpus.call_all(move |netisr| {
            let rings = netisr.rings().filter(|ring| ring.ifindex() == outif);
            rings.map(|ring| ring.driver().link() == Link::Up).collect::<Vec<_>>()
        })?;
        let links = links.concat();
        Ok(!links.is_empty() && !links.contains(&true))
    }

    /// What would change a drop.
    fn hint(&self, reason: DropReason, request: &WhyRequest, trace: &Trace) -> Option<String> {
        let WhyRequest { src, dst, dst_port, protocol, .. } = request;
        let proto = match Protocol(*protocol) {
            Protocol::TCP => "tcp",
            Protocol::UDP => "udp",
            Protocol::ICMP => "icmp",
            _ => "ipv6-icmp",
        };
        let port = if matches!(proto, "tcp" | "udp") { format!(" {dst_port}") } else { String::new() };
        Some(match reason {
            DropReason::FirewallDeny => {
                format!(
                    "`pantala ipfw add allow {proto} from {src} to {dst}{port}` before the last rule above"
                )
            }
            DropReason::NoRoute => format!("`pantala route add {dst} GATEWAY`"),
            DropReason::RejectRoute | DropReason::BlackholeRoute => {
                format!("`pantala route delete PREFIX` of the route to {dst}")
            }
            DropReason::ForwardingOff => "`forwarding = true` in the configuration".into(),
            DropReason::InterfaceDown => {
                let name = self.name_of(trace.rcvif).unwrap_or_else(|| "INTERFACE".into());
                format!("`pantala ifconfig {name} up`")
            }
            DropReason::FirewallLimit => "a larger `limit` in the rule, or fewer connections".into(),
            DropReason::FirewallStateFull => "a larger `net.inet.ip.fw.dyn_max`".into(),
            _ => return None,
        })
    }
}

fn local(recipient: Recipient, request: &WhyRequest) -> (TraceEnd, String, Option<String>) {
    let port = request.dst_port;
    let taken = |by: &str| (TraceEnd::Delivered, format!("delivered to {by} on this host"), None);
    match recipient {
        Recipient::Connection => taken("an established TCP connection"),
        Recipient::HalfOpen => taken("a half-open TCP connection"),
        Recipient::TimeWait => taken("a TCP connection in TIME-WAIT"),
        Recipient::Listener => taken("a TCP listener"),
        Recipient::Socket => taken("a UDP socket"),
        Recipient::Twin => taken("the kernel, by the twin of the interface,"),
        Recipient::Stack => taken("the stack itself"),
        Recipient::None => {
            let hint =
                format!("a program that opens port {port}; `pantala netstat -an` lists those that are open");
            (TraceEnd::Answered, format!("refused: no socket has port {port}"), Some(hint))
        }
    }
}

const fn next_hop(dst: IpAddr, to: To) -> IpAddr {
    if let To::Gateway { via, .. } = to { via } else { dst }
}

/// The step at which a packet goes to another CPU, and that CPU.
fn handed_over(trace: &Trace) -> Option<(usize, usize)> {
    let (at, (step, _)) =
        trace.steps.iter().enumerate().rfind(|(_, (step, _))| matches!(step, Step::Next(_)))?;
    match step {
        Step::Next(Next::Away(point)) => Some((at, point.owner().index())),
        Step::Next(Next::HandOff(cpu)) => Some((at, cpu.index())),
        _ => None,
    }
}

/// The packet of a request.
fn packet(request: &WhyRequest) -> Result<Vec<u8>, Error> {
    let invalid = |error: String| Error::new(ErrorKind::Invalid, error);
    let WhyRequest { src, dst, protocol, .. } = *request;
    if src.is_ipv4() != dst.is_ipv4() {
        return Err(invalid(format!("{src} and {dst} are of two families")));
    }
    let ip = if src.is_ipv4() { ip4::HEADER_LEN } else { ip6::HEADER_LEN };
    let upper = match Protocol(protocol) {
        Protocol::TCP => tcp::HEADER_LEN,
        Protocol::UDP => udp::HEADER_LEN,
        Protocol::ICMP if src.is_ipv4() => icmp4::HEADER_LEN,
        Protocol::ICMP6 if src.is_ipv6() => icmp4::HEADER_LEN,
        _ => return Err(invalid(format!("protocol {protocol}: 6 (TCP), 17 (UDP), 1 or 58 (echo request)"))),
    };
    let len = usize::from(request.len.unwrap_or(0)).max(ip + upper);
    if len > LEN_MAX {
        return Err(invalid(format!("{len} bytes: {LEN_MAX} at the most")));
    }
    let payload = vec![0; len - ip - upper];
    written(request, &payload).ok_or_else(|| invalid("no such packet".into()))
}

fn written(request: &WhyRequest, payload: &[u8]) -> Option<Vec<u8>> {
    let WhyRequest { src, dst, src_port, dst_port, protocol, ttl, .. } = *request;
    let upper = match (Protocol(protocol), src, dst) {
        (Protocol::TCP, ..) => {
            let (flags, options) = (tcp::Flags(request.tcp_flags), tcp::Options::default());
            let header =
                tcp::Header { src_port, dst_port, seq: 1, ack: 1, flags, window: 65_535, urgent: 0, options };
            let mut segment = vec![0; tcp::HEADER_LEN];
            match (src, dst) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => header.emit_v4(src, dst, payload, &mut segment).ok()?,
                (IpAddr::V6(src), IpAddr::V6(dst)) => header.emit_v6(src, dst, payload, &mut segment).ok()?,
                _ => return None,
            };
            segment
        }
        (Protocol::UDP, ..) => {
            let len = u16::try_from(udp::HEADER_LEN + payload.len()).ok()?;
            let header = udp::Header { src_port, dst_port, len, checksum: 0 };
            let header = match (src, dst) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => header.with_checksum_v4(src, dst, payload),
                (IpAddr::V6(src), IpAddr::V6(dst)) => header.with_checksum_v6(src, dst, payload),
                _ => return None,
            };
            header.to_bytes().to_vec()
        }
        (_, IpAddr::V4(_), IpAddr::V4(_)) => {
            icmp4::Message::EchoRequest { id: src_port, seq: 1 }.to_bytes(payload).to_vec()
        }
        (_, IpAddr::V6(src), IpAddr::V6(dst)) => {
            icmp6::Message::EchoRequest { id: src_port, seq: 1 }.to_bytes(src, dst, payload).to_vec()
        }
        _ => return None,
    };
    let len = u16::try_from(upper.len() + payload.len()).ok()?;
    let mut packet = vec![0; ip6::HEADER_LEN];
    let header_len = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            ip4::Header { ttl, ..ip4::Header::new(src, dst, Protocol(protocol), len) }
                .emit(&mut packet)
                .ok()?
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let header = ip6::Header::new(src, dst, Protocol(protocol), len);
            ip6::Header { hop_limit: ttl, ..header }.emit(&mut packet).ok()?
        }
        _ => return None,
    };
    packet.truncate(header_len);
    packet.extend_from_slice(&upper);
    packet.extend_from_slice(payload);
    Some(packet)
}
