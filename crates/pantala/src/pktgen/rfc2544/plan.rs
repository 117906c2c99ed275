//! From the command line to a run in which everything fits together. A plan is kept with the run, so that it can be resumed.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::args::Args;
use super::record::MilliFps;
use crate::config::Device;
use crate::pktgen::frame::{Headers, Transport};
use crate::pktgen::rate::{LINE_OVERHEAD, Rate};
use crate::pktgen::sizes::SIZE_MAX;

/// Frame sizes of Ethernet (RFC 2544 §9.1). The smallest IPv6 frame with a sequence number and a time stamp has 84 bytes.
const SIZES_V4: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
const SIZES_V6: [u16; 7] = [84, 128, 256, 512, 1024, 1280, 1518];
/// Repetitions: RFC 2544 §26.2 and RFC 9004 §5.
pub(super) const LATENCY_REPEAT: u32 = 20;
pub(super) const BURST_REPEAT: u32 = 50;
/// Ports of the tester.
pub(super) const PORTS_MAX: usize = 8;
/// The version of the file of a run.
const VERSION: u32 = 1;

/// A test of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Test {
    /// The highest rate without loss (§26.1)
    Throughput,
    /// Latency at that rate (§26.2)
    Latency,
    /// Frame loss rate, from the highest rate down (§26.3)
    Loss,
    /// The longest burst without loss (§26.4, RFC 9004)
    BackToBack,
    /// Time to recover from an overload (§26.5)
    Recovery,
    /// Time to recover from a reset (§26.6, RFC 6201)
    Reset,
}

impl Test {
    pub(super) const ALL: [Self; 6] =
        [Self::Throughput, Self::Latency, Self::Loss, Self::BackToBack, Self::Recovery, Self::Reset];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::Loss => "frame loss rate",
            Self::BackToBack => "back-to-back",
            Self::Recovery => "system recovery",
            Self::Reset => "reset",
        }
    }

    const fn needs_throughput(self) -> bool {
        matches!(self, Self::Latency | Self::Recovery | Self::Reset)
    }
}

/// A port of the tester.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct End {
    /// As in the configuration.
    pub(super) device: String,
    pub(super) addr: IpNet,
    pub(super) gateway: IpAddr,
}

/// A run, in which everything fits together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    version: u32,
    /// The sender, and the receiver; in a mesh all ports.
    pub(super) ends: Vec<End>,
    /// Name of the device under test.
    pub(super) dut: String,
    pub(super) tests: Vec<Test>,
    pub(super) sizes: Vec<u16>,
    pub(super) trial_ms: u64,
    /// Thousandths of a percent.
    pub(super) resolution: u32,
    pub(super) loss_tolerance: u32,
    /// Bits per second; 0 if it is not known.
    pub(super) line: u64,
    pub(super) max_rate: Option<String>,
    pub(super) both_ways: bool,
    /// Each port sends to all others.
    #[serde(default)]
    pub(super) mesh: bool,
    /// Frames go to the Ethernet address of the other port: there is no router between.
    pub(super) is_switch: bool,
    pub(super) flows: u16,
    pub(super) repeat: Option<u32>,
    pub(super) settle_ms: u64,
    pub(super) pause_ms: u64,
    pub(super) reset_command: Option<String>,
    pub(super) reset_ms: u64,
    pub(super) cpus: Vec<usize>,
    pub(super) rings: Option<u32>,
}

impl Plan {
    /// # Errors
    /// A sentence that says what does not fit, and what would.
    pub(super) fn new(args: Args) -> Result<Self, String> {
        let ends = ends(&args)?;
        let is_v4 = !args.inet6;
        if args.trial < Duration::from_millis(100) {
            return Err("--trial is shorter than 100ms: nothing is measured in so short a time; RFC 2544 asks for 60s".to_owned());
        }
        if args.resolution == 0 {
            return Err("--resolution 0% is never reached; 0.1% is fine, 1% is quick".to_owned());
        }
        let max_rate = args.max_rate.as_deref().map(|text| max_rate(text, args.line)).transpose()?;
        let sizes = sizes(args.sizes, is_v4)?;
        Ok(Self {
            version: VERSION,
            ends,
            dut: args.name.unwrap_or_else(|| "device under test".to_owned()),
            tests: tests(args.tests),
            sizes,
            trial_ms: ms(args.trial),
            resolution: args.resolution,
            loss_tolerance: args.loss_tolerance,
            line: args.line.unwrap_or(0),
            max_rate,
            both_ways: args.both_ways,
            mesh: args.mesh,
            is_switch: args.switch,
            flows: args.flows,
            repeat: args.repeat,
            settle_ms: ms(args.settle),
            pause_ms: ms(args.pause),
            reset_command: args.reset_command,
            reset_ms: ms(args.reset_time.unwrap_or(2 * args.trial)),
            cpus: args.cpus.map(|cpus| cpus.0).unwrap_or_default(),
            rings: args.rings,
        })
    }

    pub(super) fn is_v4(&self) -> bool {
        self.ends[0].addr.addr().is_ipv4()
    }

    /// Whether a file of a run has the form that this version writes.
    pub(super) const fn is_readable(&self) -> bool {
        self.version == VERSION
    }

    pub(super) fn devices(&self) -> Result<Vec<Device>, String> {
        self.ends.iter().map(|end| Device::parse(&end.device).map_err(|wrong| wrong.message)).collect()
    }

    pub(super) fn has(&self, test: Test) -> bool {
        self.tests.contains(&test)
    }

    /// Frames per second of the line at this size, in thousandths; `None` if the line is not known.
    pub(super) fn line_rate(&self, size: u16) -> Option<MilliFps> {
        let bits = (u64::from(size) + LINE_OVERHEAD) * 8;
        (self.line > 0)
            .then(|| (u128::from(self.line) * 1000 / u128::from(bits)).try_into().unwrap_or(u64::MAX))
    }

    /// The highest rate to try at this size; `None` if it is what the sender reaches.
    pub(super) fn top(&self, size: u16) -> Option<MilliFps> {
        let line = self.line_rate(size);
        let Some(Ok(rate)) = self.max_rate.as_deref().map(Rate::parse) else { return line };
        let bits = u128::from(size) * 8;
        let rate = match rate {
            Rate::Max => return line,
            Rate::Frames(rate) => rate,
            Rate::Bits(rate) => u64::try_from(u128::from(rate) / bits).unwrap_or(u64::MAX),
            Rate::Percent(rate) => {
                let line = u128::from(line.unwrap_or(0));
                u64::try_from(line * u128::from(rate) / 100_000).unwrap_or(u64::MAX)
            }
        };
        Some(line.map_or(rate, |line| line.min(rate)).max(1))
    }

    /// Number of ports that send: the first ones.
    pub(super) fn senders(&self) -> usize {
        match self {
            Self { mesh: true, .. } => self.ends.len(),
            Self { both_ways: true, .. } => 2,
            _ => 1,
        }
    }

    /// The ports that frames of a port go to, one after the other: beginning with the next, as in the table of the standard.
    //= https://www.rfc-editor.org/rfc/rfc2889#section-5.1.3
    pub(super) fn receivers(&self, from: usize) -> impl ExactSizeIterator<Item = usize> + Clone {
        let ports = self.ends.len();
        (1..ports).map(move |by| (from + by) % ports)
    }

    /// The ports that send to a port.
    pub(super) fn sources(&self, to: usize) -> impl Iterator<Item = usize> + Clone {
        (0..self.senders()).filter(move |from| *from != to)
    }

    pub(super) fn repeat_of(&self, test: Test) -> u32 {
        let standard = match test {
            Test::Latency => LATENCY_REPEAT,
            Test::BackToBack => BURST_REPEAT,
            _ => 1,
        };
        self.repeat.unwrap_or(standard)
    }

    /// Returns the differences from RFC 2544, in sentences.
    pub(super) fn deviations(&self) -> Vec<String> {
        let seconds = |ms: u64| Duration::from_millis(ms).as_secs_f64();
        let mut all = Vec::new();
        if self.trial_ms < 60_000 {
            all.push(format!("trials last {} s instead of 60 s (§24)", seconds(self.trial_ms)));
        }
        if self.settle_ms < 2000 || self.pause_ms < 5000 {
            let (settle, pause) = (seconds(self.settle_ms), seconds(self.pause_ms));
            all.push(format!("late frames are waited for {settle} s instead of 2 s, and {pause} s pass between trials instead of 5 s (§23)"));
        }
        if self.loss_tolerance > 0 {
            all.push(format!(
                "{} % of the frames may be lost instead of none (§26.1)",
                f64::from(self.loss_tolerance) / 1000.0
            ));
        }
        if self.line == 0 {
            all.push("the rate of the line is not known: 100 % is the highest rate that the sender reached or was allowed".to_owned());
        }
        for (test, standard) in [(Test::Latency, LATENCY_REPEAT), (Test::BackToBack, BURST_REPEAT)] {
            if self.has(test) && self.repeat_of(test) < standard {
                let times = if self.repeat_of(test) == 1 {
                    "once".to_owned()
                } else {
                    format!("{} times", self.repeat_of(test))
                };
                all.push(format!("{} is measured {times} instead of {standard} times", test.name()));
            }
        }
        if self.has(Test::Latency) {
            all.push("latency is that of each frame of a trial, not of one tagged frame (§26.2); it ends where the tester's software receives the frame".to_owned());
        }
        all
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The ports, with their addresses and those of the device under test.
fn ends(args: &Args) -> Result<Vec<End>, String> {
    let [Some(tx), Some(rx)] = [&args.tx, &args.rx] else {
        return Err("TX and RX are missing: the devices on both sides of the device under test".to_owned());
    };
    let devices: Vec<&Device> = [tx, rx].into_iter().chain(&args.more).collect();
    devices.iter().copied().try_for_each(usable)?;
    if tx == rx {
        return Err(format!("TX and RX are both {tx}; the device under test is between two devices"));
    }
    if let Some(twice) = (1..devices.len()).find(|at| devices[..*at].contains(&devices[*at])) {
        return Err(format!("{} is named twice; each port of a mesh is another device", devices[twice]));
    }
    let ports = devices.len();
    if ports > PORTS_MAX {
        return Err(format!("{ports} ports are more than {PORTS_MAX}"));
    }
    if usize::from(args.flows) * (ports - 1) > super::FLOWS_MAX.into() {
        return Err(format!(
            "--flows {} to each of {} other ports are more than {} of a port; use {} or less",
            args.flows,
            ports - 1,
            super::FLOWS_MAX,
            usize::from(super::FLOWS_MAX) / (ports - 1)
        ));
    }
    for (option, given) in [("--addrs", args.addrs.len()), ("--gateways", args.gateways.len())] {
        if given > 0 && given != ports {
            return Err(format!("{option} has {given} addresses for {ports} ports; give one for each"));
        }
    }
    let of_two = |at: usize| match at {
        0 => (("--tx-addr", args.tx_addr), ("--tx-gateway", args.tx_gateway)),
        1 => (("--rx-addr", args.rx_addr), ("--rx-gateway", args.rx_gateway)),
        _ => (("--addrs", None), ("--gateways", None)),
    };
    let end_of = |(at, device): (usize, &Device)| {
        let (mut addr, mut gateway) = of_two(at);
        if let Some(given) = args.addrs.get(at) {
            addr = ("--addrs", Some(*given));
        }
        if let Some(given) = args.gateways.get(at) {
            gateway = ("--gateways", Some(*given));
        }
        end(device, addr, gateway, own(!args.inet6, at), !args.inet6)
    };
    devices.into_iter().enumerate().map(end_of).collect()
}

fn usable(device: &Device) -> Result<(), String> {
    match device {
        Device::Pcap { .. } => Err(format!(
            "{device} is a file: what is read from it was not sent by the tester; use tap:, af_xdp: or memif:"
        )),
        Device::Null { .. } => {
            Err(format!("{device} has no wire: nothing that is sent comes back; use tap:, af_xdp: or memif:"))
        }
        Device::Mem { .. } => {
            Err(format!("{device} is a wire inside of one program; use tap:, af_xdp: or memif:"))
        }
        device if device.is_logical() => {
            Err(format!("{device} is over interfaces of a stack; name a device"))
        }
        _ => Ok(()),
    }
}

/// The tester's address on a port, as RFC 2544 C.2.6 and RFC 5180 §5 have networks for it.
fn own(is_v4: bool, port: usize) -> IpNet {
    let number = u8::try_from(port).unwrap_or(u8::MAX);
    let v4 = Ipv4Addr::new(198, 18 + number % 2, 1 + number / 2, 2);
    let v6 = Ipv6Addr::new(0x2001, 2, 0, u16::from(number) + 1, 0, 0, 0, 2);
    IpNet::new_assert(if is_v4 { v4.into() } else { v6.into() }, if is_v4 { 24 } else { 64 })
}

fn end(
    device: &Device,
    (addr_option, addr): (&str, Option<IpNet>),
    (gateway_option, gateway): (&str, Option<IpAddr>),
    standard: IpNet,
    is_v4: bool,
) -> Result<End, String> {
    let addr = addr.unwrap_or(standard);
    let gateway = gateway.unwrap_or_else(|| first(addr));
    for (option, address) in [(addr_option, addr.addr()), (gateway_option, gateway)] {
        if address.is_ipv4() != is_v4 {
            let (wrong, right) = if is_v4 {
                ("IPv6", "give -6 for a run with IPv6")
            } else {
                ("IPv4", "leave -6 out for a run with IPv4")
            };
            return Err(format!("{option} {address} is an {wrong} address; {right}"));
        }
    }
    if !addr.contains(&gateway) {
        return Err(format!(
            "{gateway_option} {gateway} is not on the link of {addr_option} {addr}; its first {} bits should be the same",
            addr.prefix_len()
        ));
    }
    if gateway == addr.addr() {
        return Err(format!(
            "{gateway_option} {gateway} is the tester's own address; give that of the device under test"
        ));
    }
    Ok(End { device: device.to_string(), addr, gateway })
}

/// The first address of a network: by custom that of its router.
fn first(net: IpNet) -> IpAddr {
    match net.network() {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() + 1).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() + 1).into(),
    }
}

fn max_rate(text: &str, line: Option<u64>) -> Result<String, String> {
    match Rate::parse(text).map_err(|why| format!("--max-rate {why}"))? {
        Rate::Percent(_) if line.is_none() => {
            Err("--max-rate in percent needs --line, as in --line 10gbit".to_owned())
        }
        _ => Ok(text.to_owned()),
    }
}

fn tests(asked: Vec<Test>) -> Vec<Test> {
    let mut all = if asked.is_empty() { Test::ALL.to_vec() } else { asked };
    if all.iter().any(|test| test.needs_throughput()) {
        all.push(Test::Throughput);
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn sizes(asked: Vec<u16>, is_v4: bool) -> Result<Vec<u16>, String> {
    let least = Headers::size_measured(is_v4, Transport::Udp);
    let (family, standard) = if is_v4 { ("IPv4", SIZES_V4) } else { ("IPv6", SIZES_V6) };
    let mut all = if asked.is_empty() { standard.to_vec() } else { asked };
    if let Some(wrong) = all.iter().find(|size| !(least..=SIZE_MAX).contains(size)) {
        return Err(format!(
            "--sizes {wrong} is not {least} to {SIZE_MAX}: an {family} frame with sequence number, time stamp and FCS has \
             {least} bytes, a packet buffer {SIZE_MAX}"
        ));
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

#[cfg(test)]
mod tests;
