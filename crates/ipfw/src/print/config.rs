//! Printing of NAT, pipe and queue configurations; each parameter with a blank in front.

use core::fmt::{self, Display, Formatter};

use super::{Named, Ranges, Share};
use crate::command::{
    Aqm, FlowMask, Nat64Config, NatConfig, NatRedirect, Nptv6Config, PipeConfig, QueueConfig, QueueLimit,
    Reorder, Scheduler,
};
use crate::names;

impl Display for NatConfig {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.ip.map_or(Ok(()), |ip| write!(f, " ip {ip}"))?;
        self.interface.as_ref().map_or(Ok(()), |name| write!(f, " if {name}"))?;
        let words = [
            (self.log, " log"),
            (self.deny_in, " deny_in"),
            (self.same_ports, " same_ports"),
            (self.unreg_only, " unreg_only"),
            (self.unreg_cgn, " unreg_cgn"),
            (self.reset, " reset"),
            (self.reverse, " reverse"),
            (self.proxy_only, " proxy_only"),
        ];
        words.iter().filter(|(is_set, _)| *is_set).try_for_each(|(_, word)| f.write_str(word))?;
        if let Some(range) = &self.port_range {
            write!(f, " port_range {}-{}", range.start(), range.end())?;
        }
        self.redirects.iter().try_for_each(|redirect| write!(f, " {redirect}"))
    }
}

impl Display for NatRedirect {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port { proto, targets, target_ports, alias, alias_ports, remote, remote_ports } => {
                write!(f, "redirect_port {}", Named(names::PROTOCOLS, *proto))?;
                for (i, (target, ports)) in targets.iter().zip(target_ports).enumerate() {
                    write!(
                        f,
                        "{}{target}:{}",
                        if i > 0 { "," } else { " " },
                        Ranges(core::slice::from_ref(ports))
                    )?;
                }
                match alias {
                    Some(alias) => write!(f, " {alias}:{}", Ranges(core::slice::from_ref(alias_ports)))?,
                    None => write!(f, " {}", Ranges(core::slice::from_ref(alias_ports)))?,
                }
                remote.map_or(Ok(()), |remote| write!(f, " {remote}"))?;
                remote_ports
                    .as_ref()
                    .map_or(Ok(()), |ports| write!(f, ":{}", Ranges(core::slice::from_ref(ports))))
            }
            Self::Addr { targets, alias } => {
                let targets: Vec<String> = targets.iter().map(ToString::to_string).collect();
                write!(f, "redirect_addr {} {alias}", targets.join(","))
            }
            Self::Proto { proto, target, alias, remote } => {
                write!(f, "redirect_proto {} {target}", Named(names::PROTOCOLS, *proto))?;
                alias.map_or(Ok(()), |alias| write!(f, " {alias}"))?;
                remote.map_or(Ok(()), |remote| write!(f, " {remote}"))
            }
        }
    }
}

impl Display for Nptv6Config {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, " int_prefix {}", self.internal)?;
        self.external.map_or(Ok(()), |prefix| write!(f, " ext_prefix {prefix}"))?;
        self.external_if.as_ref().map_or(Ok(()), |name| write!(f, " ext_if {name}"))?;
        write!(f, " prefixlen {}", self.prefix_len)
    }
}

impl Display for Nat64Config {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ((addr4, len4), (addr6, len6)) = (self.prefix4, self.prefix6);
        write!(f, " prefix4 {addr4}/{len4} prefix6 {addr6}/{len6}")?;
        f.write_str(if self.allow_private { " allow_private" } else { "" })
    }
}

impl Display for PipeConfig {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.bandwidth.map_or(Ok(()), |bits| write!(f, " bw {}", Bandwidth(bits)))?;
        self.delay_ms.map_or(Ok(()), |ms| write!(f, " delay {ms}"))?;
        self.burst.map_or(Ok(()), |bytes| write!(f, " burst {bytes}"))?;
        f.write_str(if self.exact { " exact" } else { "" })?;
        self.scheduler.map_or(Ok(()), |scheduler| write!(f, " type {scheduler}"))?;
        self.reorder.map_or(Ok(()), |reorder| write!(f, " reorder {reorder}"))?;
        self.duplicate.map_or(Ok(()), |chance| write!(f, " duplicate {}", Share(chance)))?;
        write!(f, "{}", self.queue)
    }
}

impl Display for Reorder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Share(self.share), self.by)
    }
}

/// With the largest unit that leaves it whole.
struct Bandwidth(u64);

impl Display for Bandwidth {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "G"), (1_000_000, "M"), (1000, "K")];
        match units.iter().find(|(unit, _)| self.0 > 0 && self.0.is_multiple_of(*unit)) {
            Some((unit, word)) => write!(f, "{}{word}bit/s", self.0 / unit),
            None => write!(f, "{}bit/s", self.0),
        }
    }
}

impl Display for QueueConfig {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.pipe.map_or(Ok(()), |pipe| write!(f, " pipe {pipe}"))?;
        self.weight.map_or(Ok(()), |weight| write!(f, " weight {weight}"))?;
        self.limit.map_or(Ok(()), |limit| write!(f, " queue {limit}"))?;
        self.loss.map_or(Ok(()), |loss| write!(f, " plr {}", Share(loss)))?;
        if self.mask != FlowMask::default() {
            write!(f, " mask{}", self.mask)?;
        }
        self.buckets.map_or(Ok(()), |buckets| write!(f, " buckets {buckets}"))?;
        f.write_str(if self.noerror { " noerror" } else { "" })?;
        self.aqm.map_or(Ok(()), |aqm| write!(f, " {aqm}"))
    }
}

impl Display for QueueLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets}"),
            Self::Bytes(bytes) if bytes.is_multiple_of(1024) => write!(f, "{}Kbytes", bytes / 1024),
            Self::Bytes(bytes) => write!(f, "{bytes}bytes"),
        }
    }
}

impl Display for FlowMask {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let parts: [(&str, u128); 8] = [
            ("proto", self.proto.into()),
            ("src-ip", self.src_ip.into()),
            ("dst-ip", self.dst_ip.into()),
            ("src-port", self.src_port.into()),
            ("dst-port", self.dst_port.into()),
            ("src-ip6", self.src_ip6),
            ("dst-ip6", self.dst_ip6),
            ("flow-id", self.flow_label.into()),
        ];
        parts
            .iter()
            .filter(|(_, bits)| *bits != 0)
            .try_for_each(|(word, bits)| write!(f, " {word} {bits:#x}"))
    }
}

impl Display for Aqm {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Red { weight, min, max, max_p, gentle } => {
                write!(f, "{} {weight}/{min}/{max}/{max_p}", if *gentle { "gred" } else { "red" })
            }
            Self::Codel { target_us, interval_us, ecn } => {
                write!(f, "codel target {target_us}us interval {interval_us}us {}", ecn_word(*ecn))
            }
        }
    }
}

impl Display for Scheduler {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo => f.write_str("fifo"),
            Self::Wf2q => f.write_str("wf2q+"),
            Self::Rr => f.write_str("rr"),
            Self::FqCodel { target_us, interval_us, quantum, limit, flows, ecn } => write!(
                f,
                "fq_codel target {target_us}us interval {interval_us}us quantum {quantum} limit {limit} \
                 flows {flows} {}",
                ecn_word(*ecn)
            ),
        }
    }
}

fn ecn_word(ecn: bool) -> &'static str {
    if ecn { "ecn" } else { "noecn" }
}
