//! From what was asked for to what is done: whether the words of a command line fit together.

use core::net::IpAddr;
use core::time::Duration;

use wire::ether::Mac;

use super::args::{Args, Proto, endless};
use super::flows::{Flow, Pick, Ranges};
use super::frame::{Headers, Transport};
use super::grammar::Addrs;
use super::rate::Rate;
use super::sizes::{SIZE_MIN, Sizes};
use crate::config::Device;

/// Frames of one burst, at the most: those that a driver is given at once.
pub(crate) const BURST_MAX: u32 = 256;
const _: () = assert!(BURST_MAX as usize == pkt::VEC_MAX);
/// Default duration of a test.
const TIME: Duration = Duration::from_secs(10);

/// A test, in which everything fits together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) device: Device,
    /// Where frames are received, if elsewhere.
    pub(crate) rx: Option<Device>,
    /// `None`: only received.
    pub(crate) sending: Option<Sending>,
    /// Addresses that we answer for on `device`.
    pub(crate) addresses: Vec<Addrs>,
    /// And on `rx`.
    pub(crate) rx_addresses: Vec<Addrs>,
    pub(crate) count: Option<u64>,
    pub(crate) time: Option<Duration>,
    pub(crate) wait: Duration,
    /// Thousandths of a percent.
    pub(crate) loss_limit: Option<u32>,
    /// Empty: all that may be used.
    pub(crate) cpus: Vec<usize>,
    /// Rings of each device; `None`: as many as it has.
    pub(crate) rings: Option<u32>,
}

/// The sender's part of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sending {
    pub(crate) is_v4: bool,
    pub(crate) transport: Transport,
    pub(crate) ttl: u8,
    pub(crate) tos: u8,
    pub(crate) ranges: Ranges,
    pub(crate) flows: u32,
    pub(crate) pick: Pick,
    pub(crate) seed: u64,
    pub(crate) sizes: Sizes,
    pub(crate) rate: Rate,
    /// Bits per second; 0 if it is not needed.
    pub(crate) line: u64,
    pub(crate) burst: u32,
    pub(crate) to: To,
}

/// The source of the frames' Ethernet destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    Mac(Mac),
    /// It is asked for, from our address.
    Ask {
        own: IpAddr,
        target: IpAddr,
    },
}

impl Plan {
    /// # Errors
    /// What does not fit, in a sentence that says what would.
    pub(crate) fn new(args: Args) -> Result<Self, String> {
        let sending = if args.sink { None } else { Some(Sending::new(&args)?) };
        if sending.is_some() && args.count.is_none() && endless(&args.device).is_some() {
            return Err("a file takes frames without end; give --count".to_owned());
        }
        if args.time.is_some_and(|time| time.is_zero()) {
            return Err("--time 0 is no time; give a longer one, or only --count".to_owned());
        }
        let own = args.addr.map(|net| Addrs::one(net.addr()));
        let rx_own = args.rx_addr.map(|net| Addrs::one(net.addr()));
        let src = sending.as_ref().map(|sending| sending.ranges.src);
        let (addresses, rx_addresses) = match &args.rx {
            Some(_) => (list([own, src]), list([rx_own, args.dst])),
            None if args.sink => (list([rx_own, args.dst]), Vec::new()),
            None => (list([own, rx_own, src, None]), Vec::new()),
        };
        let unbounded = args.count.is_none() && args.time.is_none();
        Ok(Self {
            device: args.device,
            rx: args.rx,
            sending,
            addresses,
            rx_addresses,
            count: args.count,
            time: if unbounded { Some(TIME) } else { args.time },
            wait: args.wait,
            loss_limit: args.loss_limit,
            cpus: args.cpus.map(|cpus| cpus.0).unwrap_or_default(),
            rings: args.rings,
        })
    }
}

fn list<const N: usize>(all: [Option<Addrs>; N]) -> Vec<Addrs> {
    all.into_iter().flatten().collect()
}

impl Sending {
    fn new(args: &Args) -> Result<Self, String> {
        let dst = args.dst.ok_or("--dst is missing: where frames go, as in 198.51.100.2")?;
        let own = args.addr.map(|net| Addrs::one(net.addr()));
        let src = args.src.or(own).ok_or("--src is missing: give the source addresses, or --addr")?;
        for (name, other) in
            [("--src", Some(src)), ("--addr", own), ("--gateway", args.gateway.map(Addrs::one))]
        {
            if let Some(other) = other.filter(|other| other.is_v4() != dst.is_v4()) {
                return Err(format!(
                    "{name} {other} and --dst {dst} are of two families; one test is of one family"
                ));
            }
        }
        let transport = match args.proto {
            Proto::Udp => Transport::Udp,
            Proto::Tcp => Transport::Tcp(args.tcp_flags),
        };
        let ranges = Ranges { src, dst, sport: args.sport, dport: args.dport };
        Ok(Self {
            is_v4: dst.is_v4(),
            transport,
            ttl: args.ttl,
            tos: args.tos,
            ranges,
            flows: args.flows.unwrap_or_else(|| ranges.default_count()),
            pick: args.pick,
            seed: args.seed,
            sizes: sizes(args.size.as_ref(), dst.is_v4(), transport)?,
            rate: args.rate,
            line: line(args)?,
            burst: args.burst,
            to: to(args, dst)?,
        })
    }

    pub(crate) fn headers(&self, src_mac: Mac, dst_mac: Mac) -> Headers {
        let Self { is_v4, transport, ttl, tos, .. } = *self;
        Headers { is_v4, transport, src_mac, dst_mac, ttl, tos }
    }

    /// The flows of sender `at` of `of`, which are every `of`th.
    pub(crate) fn flows_of(&self, at: usize, of: usize) -> Vec<Flow> {
        let all = self.ranges.flows(self.flows, self.pick, self.seed);
        all.into_iter().skip(at).step_by(of.max(1)).collect()
    }
}

fn sizes(asked: Option<&Sizes>, is_v4: bool, transport: Transport) -> Result<Sizes, String> {
    let (least, measured) = (Headers::size_min(is_v4, transport), Headers::size_measured(is_v4, transport));
    let asked = match asked {
        None => Sizes::Cycle(vec![measured.max(SIZE_MIN)]),
        // The mix is of the smallest, and which that is depends on the headers.
        Some(mix) if *mix == Sizes::imix(SIZE_MIN) => Sizes::imix(measured.max(SIZE_MIN)),
        Some(asked) => asked.clone(),
    };
    if asked.least() >= least {
        return Ok(asked);
    }
    let family = if is_v4 { "IPv4" } else { "IPv6" };
    let protocol = if transport == Transport::Udp { "UDP" } else { "TCP" };
    Err(format!(
        "--size {} is too small for {family} and {protocol} headers; the smallest is {least}, the smallest that is \
         measured {measured}",
        asked.least()
    ))
}

fn line(args: &Args) -> Result<u64, String> {
    match (args.rate, args.line) {
        (Rate::Percent(_), None) => Err("a rate in percent needs --line, as in --line 10gbit".to_owned()),
        (_, line) => Ok(line.unwrap_or(0)),
    }
}

fn to(args: &Args, dst: Addrs) -> Result<To, String> {
    if let Some(mac) = args.dst_mac {
        return Ok(To::Mac(mac));
    }
    if args.gateway.is_none() && endless(&args.device).is_some() {
        return Err("nobody in a file can be asked for an Ethernet address; give --dst-mac".to_owned());
    }
    let on_link = |address: &IpAddr| args.addr.is_some_and(|net| net.contains(address));
    let only = (dst.span() == 0).then(|| dst.first()).filter(on_link);
    let target = args.gateway.or(only).ok_or("who gets the frames? give --gateway, or --dst-mac")?;
    let own =
        args.addr.ok_or_else(|| format!("--addr is missing: our address, from which {target} is asked"))?;
    if !own.contains(&target) {
        return Err(format!(
            "--gateway {target} is not on the link of --addr {own}; its first {} bits should be the same",
            own.prefix_len()
        ));
    }
    Ok(To::Ask { own: own.addr(), target })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(line: &str) -> Result<Plan, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Plan::new(Args::read(&words).map_err(|error| error.to_string())?)
    }

    const V4: &str = "-i tap:g0 --addr 192.0.2.2/24 --gateway 192.0.2.1 --dst 198.51.100.2";
    const V6: &str = "-i tap:g0 --addr 2001:db8::2/64 --gateway 2001:db8::1 --dst 2001:db8:1::2";

    #[test]
    fn what_is_not_said_has_a_sensible_value() {
        for (line, size) in [(V4, 64), (V6, 84)] {
            let plan = plan(line).unwrap();
            let sending = plan.sending.unwrap();
            assert_eq!((plan.time, plan.count, plan.rings), (Some(TIME), None, None));
            assert_eq!(sending.sizes, Sizes::Cycle(vec![size]));
            assert_eq!((sending.rate, sending.flows, sending.burst), (Rate::Max, 1, 1));
            assert_eq!(sending.ranges.src.first(), plan.addresses[0].first());
        }
    }

    #[test]
    fn the_smallest_of_the_mix_can_be_measured() {
        for (line, least) in [(V4.to_owned(), 64), (V6.to_owned(), 84), (format!("{V4} --proto tcp"), 76)] {
            let sending = plan(&format!("{line} --size imix")).unwrap().sending.unwrap();
            assert_eq!((sending.sizes.least(), sending.sizes.most()), (least, 1518), "{line}");
        }
    }

    #[test]
    fn one_destination_on_the_link_is_asked_itself() {
        for (line, target) in [
            ("--addr 192.0.2.2/24 --dst 192.0.2.9", "192.0.2.9"),
            ("--addr 2001:db8::2/64 --dst 2001:db8::9", "2001:db8::9"),
        ] {
            let to = plan(&format!("-i tap:g0 {line}")).unwrap().sending.unwrap().to;
            assert!(matches!(to, To::Ask { target: asked, .. } if asked.to_string() == target), "{to:?}");
        }
    }

    #[test]
    fn a_receiver_answers_for_the_destinations_and_a_sender_for_the_sources() {
        let plan = plan(&format!("{V4} --rx tap:g1 --rx-addr 198.51.100.9/24 --src 192.0.2.16/28")).unwrap();
        let shown = |addrs: &[Addrs]| addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(shown(&plan.addresses), "192.0.2.2 192.0.2.17-192.0.2.30");
        assert_eq!(shown(&plan.rx_addresses), "198.51.100.9 198.51.100.2");
    }

    #[test]
    fn a_sink_needs_nothing_else() {
        let plan = plan("-i tap:g0 --sink --time 1m").unwrap();
        assert_eq!((plan.sending, plan.time), (None, Some(Duration::from_secs(60))));
    }

    #[test]
    fn what_does_not_fit_together_is_explained() {
        for (line, says) in [
            ("-i tap:g0", "--dst <ADDRS>"),
            ("--dst 192.0.2.1", "--device <DEVICE>"),
            ("-i tap:g0 --dst 192.0.2.1", "--src is missing: give the source addresses, or --addr"),
            ("-i tap:g0 --dst 192.0.2.1 --src 192.0.2.2", "give --gateway, or --dst-mac"),
            (
                "-i tap:g0 --dst 192.0.2.1 --src 192.0.2.2 --gateway 192.0.2.3",
                "--addr is missing: our address, from which 192.0.2.3 is asked",
            ),
            ("-i tap:g0 --dst 2001:db8::1 --src 192.0.2.2 --dst-mac 02:00:00:00:00:01", "two families"),
            ("-i tap:g0 --dst 2001:db8::1 --addr 2001:db8::2/64 --gateway 192.0.2.1", "two families"),
            (
                "-i tap:g0 --dst 10.0.0.1 --addr 192.0.2.2/24 --gateway 192.0.3.1",
                "not on the link of --addr 192.0.2.2/24; its first 24 bits",
            ),
            (
                "-i tap:g0 --dst 10.0.0.1 --addr 192.0.2.2/24 --gateway 192.0.2.1 --rate 30%",
                "as in --line 10gbit",
            ),
            (
                "-i tap:g0 --dst 2001:db8:1::1 --addr 2001:db8::2/64 --gateway 2001:db8::1 --size 64",
                "the smallest is 66, the smallest that is measured 84",
            ),
            (
                "-i tap:g0 --dst 10.0.0.1 --addr 192.0.2.2/24 --gateway 192.0.2.1 --time 0s",
                "--time 0 is no time",
            ),
            ("-i pcap:a,b --src 192.0.2.1 --dst 10.0.0.1 --dst-mac 02:00:00:00:00:01", "give --count"),
            ("-i pcap:a,b --addr 192.0.2.1/24 --dst 192.0.2.2 --count 1", "give --dst-mac"),
            ("-i tap:g0 --sink --rate 1pps", "cannot be used with"),
            ("-i tap:g0 --sink --rx tap:g1", "cannot be used with"),
            ("-i eth0 --sink", "`eth0` names no driver; write tap:NAME"),
            ("-i xdp:eth0 --sink", "unknown driver `xdp`"),
            ("-i tap:g0 --sink --frobnicate", "unexpected argument '--frobnicate'"),
            ("-i tap:g0 --sink --rings 0", "0 is not in 1..=64"),
            ("-i tap:g0 --sink --count 0", "0 is not in 1.."),
        ] {
            let wrong = plan(line).unwrap_err();
            assert!(wrong.contains(says), "{line}: {wrong}");
        }
    }

    #[test]
    fn each_wrong_value_is_quoted_with_its_option_and_what_would_be_right() {
        for (option, value, help) in [
            ("--src", "192.0.2.300", "192.0.2.10-192.0.2.250"),
            ("--dst", "192.0.2.9-192.0.2.1", "lower address first"),
            ("--sport", "70000", "1024-65535"),
            ("--proto", "sctp", "[possible values: udp, tcp]"),
            ("--tcp-flags", "syn,bang", "known are syn, ack"),
            ("--flows", "1048577", "1..=1048576"),
            ("--pick", "any", "[possible values: step, random]"),
            ("--ttl", "0", "1..=255"),
            ("--size", "63", "64 to 2048"),
            ("--rate", "fast", "1.5mpps"),
            ("--line", "fast", "10gbit"),
            ("--burst", "257", "1..=256"),
            ("--time", "soon", "500ms"),
            ("--loss-limit", "1", "0.1%"),
            ("--addr", "192.0.2.1", "the prefix length is missing"),
            ("--gateway", "192.0.2.1/24", "without a prefix length"),
            ("--dst-mac", "02:00", "02:00"),
            ("--cpus", "one", "0,2-3"),
        ] {
            let wrong = plan(&format!("-i tap:g0 {option} {value}")).unwrap_err();
            assert!(
                wrong.contains(option) && wrong.contains(value) && wrong.contains(help),
                "{option} {value}: {wrong}"
            );
        }
    }
}
