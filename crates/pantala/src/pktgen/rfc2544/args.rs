//! The command line of `pantala rfc2544`.

use core::net::IpAddr;
use core::time::Duration;
use std::path::PathBuf;

use ipnet::IpNet;

use super::plan::Test;
use crate::config::Device;
use crate::pktgen::args::{Cpus, cpus, device, gateway, own};
use crate::pktgen::{grammar, rate};

pub(crate) const HELP: &str = "\
Frames go from TX through the device under test to RX, and with --both-ways
also back. Each carries a sequence number and a time stamp. The sender's
network is 198.18.1.0/24 and the receiver's 198.19.1.0/24 (RFC 2544 C.2.6), or
2001:2:0:1::/64 and 2001:2:0:2::/64 (RFC 5180); the tester has address 2 in
each, the device under test address 1. The tester answers ARP and neighbour
discovery, and sends learning frames before each trial.

With --mesh each of the ports sends to all others, in turn (RFC 2889). A third
port is in 198.18.2.0/24 or 2001:2:0:3::/64, a fourth in 198.19.2.0/24 or
2001:2:0:4::/64, and so on.

A whole run as the standard has it takes hours. --trial, --repeat, --settle,
--pause and --resolution shorten it; the report says what differs.

With --report, DIR gets report.json, report.md and report.html (one file, with
plots), and after each trial run.json, from which --resume goes on.
Exit codes: 0 done, 1 failed or interrupted, 2 usage error.

Examples:
  pantala rfc2544 af_xdp:eth0 af_xdp:eth1 --line 10gbit --report r1
  pantala rfc2544 af_xdp:p1 af_xdp:p2 af_xdp:p3 --mesh --switch --line 1gbit
  pantala rfc2544 tap:g0 tap:g1 --trial 2s --sizes 64,1518 --tests throughput
  pantala rfc2544 --resume r1";

/// The command line's options; [`super::plan`] checks that they fit together.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Where frames are sent: tap:NAME, af_xdp:NAME, memif:SOCKET, with options as in the configuration
    #[arg(value_name = "TX", value_parser = device, required_unless_present = "resume")]
    pub(super) tx: Option<Device>,
    /// Where they are received
    #[arg(value_name = "RX", value_parser = device, required_unless_present = "resume")]
    pub(super) rx: Option<Device>,
    /// More ports, with --mesh
    #[arg(value_name = "PORT", value_parser = device, requires = "mesh")]
    pub(super) more: Vec<Device>,

    /// Tests, with commas between them [default: all]
    #[arg(long, value_name = "TESTS", value_delimiter = ',')]
    pub(super) tests: Vec<Test>,
    /// Ethernet frame sizes with FCS [default: 64,128,256,512,1024,1280,1518; with -6 84 instead of 64]
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    pub(super) sizes: Vec<u16>,
    /// IPv6 instead of IPv4
    #[arg(short = '6', long)]
    pub(super) inet6: bool,
    /// Frames in both directions at once, each at the rate of a trial
    #[arg(long)]
    pub(super) both_ways: bool,
    /// Each port sends to all others, in turn; the rate of a trial is that of a port
    #[arg(long, conflicts_with = "both_ways")]
    pub(super) mesh: bool,
    /// Number of flows from a port to another, told apart by their UDP source ports
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(super::FLOWS_MAX)))]
    pub(super) flows: u16,

    /// Sending time of a trial
    #[arg(long, value_name = "TIME", value_parser = grammar::duration, default_value = "60s")]
    pub(super) trial: Duration,
    /// Time in which late frames still count
    #[arg(long, value_name = "TIME", value_parser = grammar::duration, default_value = "2s")]
    pub(super) settle: Duration,
    /// Time between two trials
    #[arg(long, value_name = "TIME", value_parser = grammar::duration, default_value = "5s")]
    pub(super) pause: Duration,
    /// Repetitions of a test [default: latency 20, back-to-back 50, system recovery 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) repeat: Option<u32>,
    /// The search ends when its answer is known to this share of itself
    #[arg(long, value_name = "PERCENT", value_parser = grammar::percent, default_value = "0.5%")]
    pub(super) resolution: u32,
    /// Share of the frames of a trial that may be lost
    #[arg(long, value_name = "PERCENT", value_parser = grammar::percent, default_value = "0%")]
    pub(super) loss_tolerance: u32,
    /// The speed of the line, as in 10gbit; its frame rate is the highest tried [default: what the sender reaches]
    #[arg(long, value_name = "BITS", value_parser = rate::parse_line)]
    pub(super) line: Option<u64>,
    /// The highest rate to try: 1.5mpps, 1gbit, 30%
    #[arg(long, value_name = "RATE")]
    pub(super) max_rate: Option<String>,

    /// The tester's address on TX [default: 198.18.1.2/24 or 2001:2:0:1::2/64]
    #[arg(long, value_name = "ADDR/LEN", value_parser = own)]
    pub(super) tx_addr: Option<IpNet>,
    /// The tester's address on RX [default: 198.19.1.2/24 or 2001:2:0:2::2/64]
    #[arg(long, value_name = "ADDR/LEN", value_parser = own)]
    pub(super) rx_addr: Option<IpNet>,
    /// Address of the device under test towards TX [default: the first of its network]
    #[arg(long, value_name = "ADDR", value_parser = gateway)]
    pub(super) tx_gateway: Option<IpAddr>,
    /// Address of the device under test towards RX [default: the first of its network]
    #[arg(long, value_name = "ADDR", value_parser = gateway)]
    pub(super) rx_gateway: Option<IpAddr>,
    /// The tester's addresses, one for each port, with commas between them
    #[arg(long, value_name = "ADDR/LEN", value_delimiter = ',', value_parser = own, conflicts_with_all = ["tx_addr", "rx_addr"])]
    pub(super) addrs: Vec<IpNet>,
    /// Addresses of the device under test, one for each port
    #[arg(long, value_name = "ADDR", value_delimiter = ',', value_parser = gateway, conflicts_with_all = ["tx_gateway", "rx_gateway"])]
    pub(super) gateways: Vec<IpAddr>,
    /// The device under test is a bridge or a cable: frames go to the other port's Ethernet address
    #[arg(long, conflicts_with_all = ["tx_gateway", "rx_gateway", "gateways"])]
    pub(super) switch: bool,

    /// Resets the device under test: a command of the shell; without it the reset test is skipped
    #[arg(long, value_name = "COMMAND")]
    pub(super) reset_command: Option<String>,
    /// Sending time of the reset test, which must be longer than a reset [default: two trials]
    #[arg(long, value_name = "TIME", value_parser = grammar::duration)]
    pub(super) reset_time: Option<Duration>,

    /// Name of the device under test in the report
    #[arg(long, value_name = "TEXT")]
    pub(super) name: Option<String>,
    /// Folder for the report
    #[arg(long, value_name = "DIR")]
    pub(super) report: Option<PathBuf>,
    /// Go on with a run that was broken off, with its own options
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "tx", "rx", "more", "tests", "sizes", "inet6", "both_ways", "mesh", "flows", "trial", "settle", "pause", "repeat", "resolution",
        "loss_tolerance", "line", "max_rate", "tx_addr", "rx_addr", "tx_gateway", "rx_gateway", "addrs", "gateways", "switch",
        "reset_command", "reset_time", "name", "report", "cpus", "rings",
    ])]
    pub(super) resume: Option<PathBuf>,

    /// CPUs to run on, as in 0,2-3 [default: all that may be used]
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub(super) cpus: Option<Cpus>,
    /// Rings, and so threads, of each device [default: all of an AF_XDP device, 1 of others]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) rings: Option<u32>,
}

impl Args {
    /// Reads words as they would stand behind `pantala rfc2544`.
    #[cfg(test)]
    pub(super) fn read(words: &[&str]) -> Result<Self, clap::Error> {
        use clap::{Args as _, FromArgMatches as _};
        let command = Self::augment_args(clap::Command::new("rfc2544").no_binary_name(true));
        Self::from_arg_matches(&command.try_get_matches_from(words)?)
    }
}
