//! The command line of `pantala pktgen`.

use core::net::IpAddr;
use core::time::Duration;
use std::path::PathBuf;

use ipnet::IpNet;
use wire::ether::{Mac, ParseMacError};
use wire::tcp::Flags;

use super::flows::Pick;
use super::grammar::{self, Addrs, Ports};
use super::rate::{self, Rate};
use super::sizes::Sizes;
use crate::config::Device;

pub(crate) const HELP: &str = "\
DEVICE  as in the configuration: tap:NAME, af_xdp:NAME[,mode=MODE][,queues=N],
        memif:SOCKET[,...], pcap:IN[,OUT], null:[rx=N]
ADDRS   an address, two with a dash, or a prefix
PORTS   a port, or two with a dash
SIZES   a size, two with a dash, sizes with commas (and weights:
        64:7,570:4,1518:1), or imix; Ethernet frames with FCS, as in RFC 2544
RATE    in bit/s it counts the same bytes; in percent of --line 20 more for
        preamble and inter-frame gap

Frames with room for 18 bytes behind the UDP or TCP header (64 bytes with IPv4
and UDP, 84 with IPv6) carry a sequence number and a time stamp: loss,
duplicates, reordering (RFC 4737) and latency are measured. Smaller ones are
only counted. Before the test, learning frames are sent until they arrive, for
a second at most.

On --device it answers ARP and neighbour discovery for --addr and --src, on
--rx for --rx-addr and --dst.
Exit codes: 0 done, 1 failed or more lost than --loss-limit, 2 usage error.

Examples:
  pantala pktgen -i tap:gen0 --rx tap:gen1 --addr 192.0.2.2/24 \\
      --gateway 192.0.2.1 --dst 198.51.100.2 --rate 10kpps
  pantala pktgen -i af_xdp:eth0 --dst-mac 02:00:00:00:00:01 \\
      --src 2001:db8::/64 --dst 2001:db8:1::/64 --size imix
  pantala pktgen -i af_xdp:eth1 --sink --time 1m";

/// The command line's options; [`super::plan`] checks that they fit together.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Where frames are sent, and received if there is no --rx
    #[arg(short = 'i', long, value_name = "DEVICE", value_parser = device)]
    pub(crate) device: Device,
    /// Where frames are received
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    pub(crate) rx: Option<Device>,
    /// Send nothing, measure what arrives
    #[arg(long, conflicts_with_all = ["rx", "rate", "size", "gateway", "dst_mac", "burst", "flows", "addr"])]
    pub(crate) sink: bool,

    /// Source addresses [default: --addr]
    #[arg(long, value_name = "ADDRS", value_parser = Addrs::parse)]
    pub(crate) src: Option<Addrs>,
    /// Destination addresses
    #[arg(long, value_name = "ADDRS", value_parser = Addrs::parse, required_unless_present = "sink")]
    pub(crate) dst: Option<Addrs>,
    /// Source ports
    #[arg(long, value_name = "PORTS", value_parser = Ports::parse, default_value = "49152")]
    pub(crate) sport: Ports,
    /// Destination ports
    #[arg(long, value_name = "PORTS", value_parser = Ports::parse, default_value = "9")]
    pub(crate) dport: Ports,
    /// UDP or TCP headers
    #[arg(long, value_name = "PROTOCOL", default_value = "udp")]
    pub(crate) proto: Proto,
    /// Flags of TCP headers, with commas: syn, ack, fin, rst, psh, urg, ece, cwr
    #[arg(long, value_name = "FLAGS", value_parser = tcp_flags, default_value = "ack")]
    pub(crate) tcp_flags: Flags,
    /// Number of flows: combinations of addresses and ports [default: members of the longest range, at most 65536]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(super::flows::FLOWS_MAX)))]
    pub(crate) flows: Option<u32>,
    /// Choice of addresses and ports from their ranges
    #[arg(long, value_name = "HOW", default_value = "step")]
    pub(crate) pick: Pick,
    /// Seed of random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Time to live, or hop limit
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) ttl: u8,
    /// IPv4 type of service, or IPv6 traffic class: DSCP and ECN in one number
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) tos: u8,

    /// Lengths of frames, with FCS [default: the least that can be measured]
    #[arg(long, value_name = "SIZES", value_parser = Sizes::parse)]
    pub(crate) size: Option<Sizes>,
    /// Rate: 1.5mpps, 500kpps, 1gbit, 30%, or max
    #[arg(long, value_name = "RATE", value_parser = Rate::parse, default_value = "max")]
    pub(crate) rate: Rate,
    /// The speed of the line, as in 10gbit: a rate in percent needs it
    #[arg(long, value_name = "BITS", value_parser = rate::parse_line)]
    pub(crate) line: Option<u64>,
    /// Frames that are sent together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(super::plan::BURST_MAX)))]
    pub(crate) burst: u32,
    /// End after so many frames
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// End after so long, as in 500ms, 10s, 2m [default: 10s, without --count]
    #[arg(long, value_name = "TIME", value_parser = grammar::duration)]
    pub(crate) time: Option<Duration>,
    /// Time limit of frames in flight at the end
    #[arg(long, value_name = "TIME", value_parser = grammar::duration, default_value = "500ms")]
    pub(crate) wait: Duration,
    /// Exit with 1 if more is lost, as in 0.1%
    #[arg(long, value_name = "PERCENT", value_parser = grammar::percent)]
    pub(crate) loss_limit: Option<u32>,

    /// Our address on --device
    #[arg(long, value_name = "ADDR/LEN", value_parser = own)]
    pub(crate) addr: Option<IpNet>,
    /// Our address on --rx
    #[arg(long, value_name = "ADDR/LEN", value_parser = own)]
    pub(crate) rx_addr: Option<IpNet>,
    /// Gateway whose Ethernet address frames are sent to [default: --dst, if that is one address on the link of --addr]
    #[arg(long, value_name = "ADDR", value_parser = gateway, conflicts_with = "dst_mac")]
    pub(crate) gateway: Option<IpAddr>,
    /// The Ethernet address that frames are sent to, without asking
    #[arg(long, value_name = "MAC", value_parser = mac)]
    pub(crate) dst_mac: Option<Mac>,

    /// CPUs to run on, as in 0,2-3 [default: all that may be used]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub(crate) cpus: Option<Cpus>,
    /// Rings, and so threads, of each device [default: all of an AF_XDP device, 1 of others]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) rings: Option<u32>,
}

/// Which transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Proto {
    /// UDP
    Udp,
    /// TCP, without connections
    Tcp,
}

/// A list of CPUs: one value to the option parser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cpus(pub(crate) Vec<usize>);

impl Args {
    /// Reads words as they would stand behind `pantala pktgen`.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn read(words: &[&str]) -> Result<Self, clap::Error> {
        use clap::{Args as _, FromArgMatches as _};
        let command = Self::augment_args(clap::Command::new("pktgen").no_binary_name(true));
        Self::from_arg_matches(&command.try_get_matches_from(words)?)
    }
}

pub(super) fn device(text: &str) -> Result<Device, String> {
    Device::parse(text).map_err(|wrong| format!("{}; {}", wrong.message, wrong.help))
}

pub(super) fn own(text: &str) -> Result<IpNet, String> {
    let help = "write an address and its prefix length, as in 192.0.2.2/24 or 2001:db8::2/64";
    text.parse().map_err(|_| match text.parse::<IpAddr>() {
        Ok(_) => format!("the prefix length is missing; {help}"),
        Err(_) => format!("`{text}` is no address; {help}"),
    })
}

pub(super) fn gateway(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no address; write one without a prefix length, as in 192.0.2.1"))
}

fn mac(text: &str) -> Result<Mac, String> {
    text.parse().map_err(|why: ParseMacError| format!("`{text}`: {why}"))
}

pub(super) fn cpus(text: &str) -> Result<Cpus, String> {
    grammar::cpus(text).map(Cpus)
}

fn tcp_flags(text: &str) -> Result<Flags, String> {
    const KNOWN: [(&str, Flags); 8] = [
        ("syn", Flags::SYN),
        ("ack", Flags::ACK),
        ("fin", Flags::FIN),
        ("rst", Flags::RST),
        ("psh", Flags::PSH),
        ("urg", Flags::URG),
        ("ece", Flags::ECE),
        ("cwr", Flags::CWR),
    ];
    let flag = |word: &str| {
        let known = KNOWN.iter().find(|(name, _)| word.eq_ignore_ascii_case(name)).map(|(_, flag)| flag.0);
        known.ok_or_else(|| {
            format!(
                "`{word}` is no TCP flag; known are syn, ack, fin, rst, psh, urg, ece, cwr, as in syn,ack"
            )
        })
    };
    text.split(',').map(flag).try_fold(0, |all, flag| flag.map(|flag| all | flag)).map(Flags)
}

/// The pcap file that a device writes, if it is one: it takes what it is given without end.
pub(crate) fn endless(device: &Device) -> Option<&PathBuf> {
    match device {
        Device::Pcap { output, .. } => output.as_ref(),
        _ => None,
    }
}
