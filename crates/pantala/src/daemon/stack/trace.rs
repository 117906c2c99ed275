//! Packets that are traced, and the words for what happens to them.

use core::net::IpAddr;

use dev::sys::cycles;
use ipfw::rule::Hook;
use net::fib::To;
use net::firewall::pipe;
use net::firewall::ruleset::RuleId;
use net::firewall::{Asked, StateHit};
use net::next::Next;
use net::tables::IfIndex;
use net::trace::{self, Busy, Headers, Recipient, Step, Trace};
use wire::Protocol;
use wire::bpf::{Insn, Program};
use wire::ether::EtherType;

use super::super::control::Control;
use crate::api::{Error, ErrorKind, TraceBatch, TraceRequest, TraceStep, TracedPacket};
use crate::firewall::source;

/// Packets of a request at the most.
const COUNT_MAX: u32 = 10_000;

impl Control {
    /// Attaches a tracer to all netisrs.
    pub(super) fn attach_tracer(&mut self, request: &TraceRequest) -> Result<(), Error> {
        if self.captures.tracing.is_some() {
            return Err(Error::new(ErrorKind::Busy, "packets are being traced already"));
        }
        if !(1..=COUNT_MAX).contains(&request.count) {
            return Err(Error::new(ErrorKind::Invalid, format!("count: 1 to {COUNT_MAX}")));
        }
        let insns = || request.filter.iter().map(|&(code, jt, jf, k)| Insn { code, jt, jf, k });
        let program = || (!request.filter.is_empty()).then(|| Program::new(insns().collect::<Box<[Insn]>>()));
        for cpu in 0..self.cpus.iter().count() {
            let filter = program()
                .transpose()
                .map_err(|why| Error::new(ErrorKind::Invalid, format!("filter: {why}")))?;
            let count = request.count;
            let attached =
                self.cpus.call(cpu, move |netisr| trace::attach(&mut netisr.cpu, filter, count, cycles::now));
            let attached = attached.and_then(|attached| {
                attached.map_err(|Busy| Error::new(ErrorKind::Busy, "packets are being traced already"))
            });
            if let Err(why) = attached {
                self.detach_tracer();
                return Err(why);
            }
        }
        self.captures.tracing = Some(request.count);
        Ok(())
    }

    /// Returns the packets that were traced since the last call, in the order of their times.
    pub(super) fn take_traced(&mut self) -> Result<TraceBatch, Error> {
        let left = self
            .captures
            .tracing
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "no packets are being traced"))?;
        let taken = self.cpus.call_all(|netisr| trace::take(&mut netisr.cpu))?;
        let mut traces: Vec<Trace> = taken.into_iter().flatten().flat_map(|(traces, _)| traces).collect();
        traces.sort_by_key(|trace| trace.at);
        traces.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        let left = left.saturating_sub(u32::try_from(traces.len()).unwrap_or(u32::MAX));
        self.captures.tracing = Some(left);
        Ok(TraceBatch {
            packets: traces.iter().map(|trace| self.traced(trace)).collect(),
            is_over: left == 0,
        })
    }

    /// Ends tracing.
    pub(super) fn detach_tracer(&mut self) {
        self.captures.tracing = None;
        // A netisr that does not answer is about to end.
        let _ = self.cpus.call_all(|netisr| trace::detach(&mut netisr.cpu));
    }

    /// A trace in words.
    pub(super) fn traced(&self, trace: &Trace) -> TracedPacket {
        let mut before = trace.began;
        let mut steps = Vec::new();
        for (step, at) in &trace.steps {
            let cycles = at.saturating_sub(before);
            before = *at;
            let (stage, text, rules) = self.step(step);
            steps.push(TraceStep { stage: stage.to_owned(), text, rules, cycles });
        }
        let packet = match packet(trace) {
            line if trace.is_handed_over => format!("{line}, from another CPU"),
            line => line,
        };
        TracedPacket {
            at_ns: self.started_at() + trace.at.ns(),
            cpu: trace.cpu.0,
            interface: self.name_of(trace.rcvif),
            packet,
            len: trace.len,
            steps,
        }
    }

    fn step(&self, step: &Step) -> (&'static str, String, Vec<String>) {
        let name = |index: IfIndex| self.name_of(index).unwrap_or_else(|| "an interface that is gone".into());
        let (stage, text) = match step {
            Step::Hook(asked) => return (hook(asked.hook), self.answer(asked), self.rules(&asked.rules)),
            Step::Changed(headers) => ("rewrite", format!("the packet is {} now", ends(headers))),
            Step::Route { fib: 0, dst, to } => ("route", format!("{dst} {}", self.route_words(*to))),
            Step::Route { fib, dst, to } => ("route", format!("{dst} {} (fib {fib})", self.route_words(*to))),
            Step::Next(next) => return self.next_stage(*next),
            Step::Local { headers, recipient } => ("local", local(headers, *recipient)),
            Step::Held { ifindex, next_hop } => {
                ("neighbour", format!("the link address of {next_hop} on {} is not known", name(*ifindex)))
            }
            Step::Queued { outif, packets } => {
                ("output", format!("{}: packet {packets} of its queue", name(*outif)))
            }
            Step::Frame { outif, dst, headers, len, waiting, .. } => {
                let ends = headers.as_ref().map(ends).unwrap_or_default();
                let queue = if *waiting > 0 { format!(", behind {waiting} packets") } else { String::new() };
                ("output", format!("{}: {len} bytes to {dst}{queue}: {ends}", name(*outif)))
            }
            Step::Dropped(reason) => ("drop", format!("{} ({})", reason.sentence(), reason.name())),
            Step::Counted(counts) => {
                let counts = counts.iter().map(|(count, n)| format!("{} +{n}", count.name()));
                ("counters", counts.collect::<Vec<_>>().join(", "))
            }
        };
        (stage, text, Vec::new())
    }

    fn answer(&self, asked: &Asked) -> String {
        let mut words = Vec::new();
        if let Some(StateHit { rule, is_forward, left, phase }) = &asked.hit {
            let rule = self.rule_number(*rule);
            let direction = if *is_forward { "original" } else { "reply" };
            let phase = phase.map(|phase| format!("{phase:?}, ").to_lowercase()).unwrap_or_default();
            words.push(format!(
                "state of rule {rule}: {direction} direction, {phase}{} s left",
                left.as_secs()
            ));
        }
        if asked.installs {
            words.push("installs a state".into());
        }
        if asked.binds {
            words.push("binds a port of NAT".into());
        }
        if let Some(number) = asked.nat {
            words.push(format!("translated by nat {number}"));
        }
        if asked.rules.is_empty() && asked.hit.is_none() {
            words.push("no rule matches".into());
        }
        if !asked.is_all {
            words.push("more rules than are shown".into());
        }
        words.push(match asked.next {
            None => "passes".into(),
            Some(Next::Drop(reason)) => format!("dropped: {}", reason.sentence()),
            Some(other) => self.next_stage(other).1,
        });
        words.join("; ")
    }

    fn rule_number(&self, id: RuleId) -> String {
        let entry = self.firewall.config.rules.entries().iter().find(|entry| entry.id == id);
        entry.map_or_else(|| "?".into(), |entry| entry.rule.number.to_string())
    }

    fn rules(&self, ids: &[RuleId]) -> Vec<String> {
        let entry = |id: &RuleId| self.firewall.config.rules.entries().iter().find(|entry| entry.id == *id);
        let text = |id: &RuleId| match entry(id) {
            Some(entry) => format!("{:05} {}", entry.rule.number, source::rule(&entry.rule)),
            None => "a rule that is gone".into(),
        };
        ids.iter().map(text).collect()
    }

    fn route_words(&self, to: To) -> String {
        let name = |index: IfIndex| self.name_of(index).unwrap_or_default();
        match to {
            To::Local { .. } => "is an address of this stack".into(),
            To::Broadcast { ifindex } => format!("is the broadcast address of {}", name(ifindex)),
            To::OnLink { ifindex } => format!("is on the link of {}", name(ifindex)),
            To::Gateway { ifindex, via } => format!("goes by {} to {via}", name(ifindex)),
            To::Reject => "meets a reject route".into(),
            To::Blackhole => "meets a blackhole route".into(),
            To::NoRoute | To::Group(_) => "has no route".into(),
        }
    }

    /// The stage that a packet goes to, and why.
    fn next_stage(&self, next: Next) -> (&'static str, String, Vec<String>) {
        let (stage, text) = match next {
            Next::Answer(problem) => {
                let reason = problem.reason();
                (
                    "icmp",
                    format!("an ICMP error goes to the source: {} ({})", reason.sentence(), reason.name()),
                )
            }
            Next::Reset => ("reset", "a TCP reset goes to the source".into()),
            Next::HandOff(cpu) => ("owner", format!("handed over to CPU {cpu}")),
            Next::Away(point) => {
                ("owner", format!("handed over to CPU {}, which goes on at this rule", point.owner()))
            }
            Next::Shape(shape) => match shape.to() {
                pipe::To::Pipe(number) => ("pipe", format!("waits in pipe {number}")),
                pipe::To::Queue(number) => ("pipe", format!("waits in queue {number}")),
            },
            Next::Fragment => ("fragment", "cut into fragments".into()),
            Next::Reassemble => ("reassembly", "waits for the other fragments of its datagram".into()),
            Next::Via(_) => ("forward", "sent to the next hop that the rule names".into()),
            Next::Encapsulate => ("link", "encapsulated by its interface".into()),
            Next::Pppoe => ("link", "a control frame of PPPoE".into()),
            Next::Punt => ("punt", "to the kernel's twin of its interface".to_owned()),
            Next::FromTwin => ("punt", "from the kernel, by the twin of an interface".to_owned()),
            Next::Bridge => ("link", "a frame of a bridge's port".into()),
            Next::Arp => ("arp", "a packet of ARP".into()),
            Next::Local4 | Next::Local6 => ("local", "for this host".into()),
            Next::Send => ("output", "made on this host".into()),
            Next::Onward => ("forward", "goes on as a packet of the other family".into()),
            Next::Wait => ("reload", "waits for the new configuration".into()),
            Next::Ip4 | Next::Ip6 | Next::Route4 | Next::Route6 => ("input", "begins again at IP".into()),
            Next::Output => ("output", "a whole frame".into()),
            Next::Resolve => ("neighbour", "waits for a link address".into()),
            Next::Drop(reason) => ("drop", reason.sentence().into()),
        };
        (stage, text, Vec::new())
    }
}

/// The name of a hook, as rules use it.
const fn hook(hook: Hook) -> &'static str {
    match hook {
        Hook::Ingress => "ingress",
        Hook::LocalIn => "local-in",
        Hook::Forward => "forward",
        Hook::LocalOut => "local-out",
        Hook::Egress => "egress",
        Hook::Layer2 => "layer2",
        Hook::Frame => "layer2 frame",
    }
}

fn local(headers: &Headers, recipient: Recipient) -> String {
    let port = headers.ports.map_or(0, |(_, port)| port);
    let text = match (recipient, headers.protocol) {
        (Recipient::Connection, _) => "an established TCP connection takes it",
        (Recipient::HalfOpen, _) => "a half-open TCP connection takes it",
        (Recipient::TimeWait, _) => "a TCP connection in TIME-WAIT takes it",
        (Recipient::Listener, _) => "a TCP listener takes it",
        (Recipient::Socket, _) => "a UDP socket takes it",
        (Recipient::None, Protocol::TCP) => {
            return format!("no socket listens on TCP port {port}: a reset goes to the source");
        }
        (Recipient::None, _) => {
            return format!("no socket has UDP port {port}: an ICMP error goes to the source");
        }
        (Recipient::Twin, _) => "the kernel gets it, by the twin of the interface",
        (Recipient::Stack, _) => "the stack itself takes it",
    };
    text.into()
}

/// The ends of a packet, as `tcpdump` writes them.
pub(super) fn ends(headers: &Headers) -> String {
    let Headers { src, dst, protocol, ports } = headers;
    let end = |addr: &IpAddr, port: Option<u16>| match port {
        Some(port) => format!("{addr}.{port}"),
        None => addr.to_string(),
    };
    let (src, dst) = (end(src, ports.map(|ports| ports.0)), end(dst, ports.map(|ports| ports.1)));
    format!("{src} > {dst} {}", protocol_name(*protocol))
}

fn protocol_name(protocol: Protocol) -> String {
    match protocol {
        Protocol::TCP => "tcp".into(),
        Protocol::UDP => "udp".into(),
        Protocol::ICMP => "icmp".into(),
        Protocol::ICMP6 => "ipv6-icmp".into(),
        Protocol(other) => format!("proto {other}"),
    }
}

/// The packet of a trace in a line.
fn packet(trace: &Trace) -> String {
    match (trace.headers(), trace.network()) {
        (Some(headers), _) => ends(&headers),
        (None, Some((EtherType::ARP, _))) => "an ARP packet".into(),
        (None, Some((ethertype, _))) => format!("a packet of type 0x{:04x}", ethertype.0),
        (None, None) => "a packet without a whole header".into(),
    }
}
