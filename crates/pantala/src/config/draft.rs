//! The configuration as it is written: every value understood by itself, none compared with another yet.

use core::net::{IpAddr, Ipv6Addr};
use core::ops::Range;
use std::path::PathBuf;

use ipnet::IpNet;
use net::count::INTERFACES_MAX;
use net::fib::{FIBS_MAX, Metrics};
use net::ifq::Discipline;
use net::netisr::{BURST_MAX, EACH_BURST_MAX};
use toml::de::DeTable;
use wire::ether::{Mac, ParseMacError};

use super::fields::Fields;
use super::problem::{At, Report, Wrong};
use super::punt::Punt;
use super::{Admin, Http, Ipfix, Programs, RouteSources, Seccomp, Sflow, Xdp};
use super::{
    Autoconf, Device, Dhcp6Client, Dhcp6Server, DhcpClient, DhcpRelay, DhcpServer, KernelPorts, MOST_RINGS,
    Policy, Polling, Ppp, PrefixFrom, Publish, Ra, RxCsum, Serve, Service,
};
use super::{
    admin, autoconf, dhcp, dhcp_client, dhcp_relay, dhcp6_client, dhcp6_server, fdb, http, ipfix, limits,
    ppp, programs, publish, punt, ra, route_sources, serve, service, sflow, sysctl,
};
use crate::firewall::section;
use diagnostic::did_you_mean;

const TOP: &[&str] = &[
    "cpus",
    "threads",
    "polling",
    "forwarding",
    "flow_cache",
    "fibs",
    "add_addr_all_fibs",
    "buffers",
    "socket",
    "interface",
    "route",
    "routes",
    "serve",
    "service",
    "firewall",
    "sysctl",
    "user",
    "group",
    "seccomp",
    "admin",
    "http",
    "ipfix",
    "sflow",
    "programs",
];
const POLLING: &[&str] = &["policy", "each_burst", "burst_max", "turn_us", "user_frac"];
const ROUTE: &[&str] = &["to", "via", "dev", "fib", "reject", "blackhole", "mtu", "msl_ms", "initial_window"];
const INTERFACE: &[&str] = &[
    "name",
    "device",
    "address",
    "mtu",
    "mac",
    "rings",
    "rxcsum",
    "offload",
    "xdp",
    "monitor",
    "queue",
    "queue_packets",
    "queue_bytes",
    "queue_target_ms",
    "queue_interval_ms",
    "autoconf",
    "vlanpcp",
    "metric",
    "fdb",
    "timeout",
    "maxaddr",
    "private",
    "span",
    "storm",
    "stp",
    "stp_priority",
    "hellotime",
    "maxage",
    "fwddelay",
    "holdcnt",
    "stp_port",
    "snooping",
    "ra",
    "kernel_ports",
    "description",
    "dhcp_server",
    "dhcp",
    "dhcp_relay",
    "dhcp6_relay",
    "dhcp6",
    "dhcp6_server",
    "prefix_from",
    "prefix_subnet",
    "publish",
    "ppp",
    "proxy_arp",
    "punt",
    "fib",
];

/// Netisrs that may share the CPUs of a machine.
const THREADS_MAX: u32 = 256;
/// Flows that a CPU may remember.
#[expect(clippy::cast_possible_truncation, reason = "a few millions")]
const FLOWS_MAX: u32 = net::flow::FLOWS_MAX as u32;
/// Longest turn that makes sense: 20 ms without a look at anything else.
const TURN_US_MAX: u32 = 20_000;
/// With more for others the stack would stand still.
const USER_FRAC_MAX: u32 = 90;
/// Longest name of an interface; as in Linux and BSD (IFNAMSIZ).
const NAME_MAX: usize = 15;
/// Longest description of an interface.
const DESCRIPTION_MAX: usize = 256;
/// `sun_path` of a Unix socket address has 108 bytes; one for the NUL, and room to bind under a temporary name.
const SOCKET_PATH_MAX: usize = 100;

#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) cpus: Vec<At<usize>>,
    /// Where the key `cpus` stands, if it is an empty list.
    pub(crate) cpus_key: Option<Range<usize>>,
    pub(crate) threads: Option<At<u32>>,
    pub(crate) polling: Polling,
    pub(crate) forwarding: Option<At<bool>>,
    pub(crate) flow_cache: Option<At<u32>>,
    pub(crate) fibs: Option<At<u32>>,
    pub(crate) add_addr_all_fibs: Option<At<bool>>,
    pub(crate) buffers: Option<At<u32>>,
    pub(crate) socket: Option<At<PathBuf>>,
    pub(crate) interfaces: Vec<DraftInterface>,
    pub(crate) routes: Vec<DraftRoute>,
    pub(crate) route_sources: RouteSources,
    pub(crate) serves: Vec<At<Serve>>,
    pub(crate) services: Vec<At<Service>>,
    pub(crate) firewall: Option<section::Draft>,
    pub(crate) sysctl: sysctl::Sysctls,
    pub(crate) user: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) seccomp: Seccomp,
    pub(crate) admin: Admin,
    pub(crate) http: Option<Http>,
    pub(crate) ipfix: Option<Ipfix>,
    pub(crate) sflow: Option<Sflow>,
    pub(crate) programs: Option<Programs>,
}

pub(crate) struct DraftInterface {
    pub(crate) name: Option<At<String>>,
    pub(crate) device: Option<At<Device>>,
    pub(crate) addresses: Vec<At<IpNet>>,
    pub(crate) mtu: Option<At<u32>>,
    pub(crate) mac: Option<At<Mac>>,
    pub(crate) rings: Option<At<u32>>,
    pub(crate) rxcsum: Option<At<RxCsum>>,
    pub(crate) offload: Option<At<bool>>,
    pub(crate) xdp: Option<At<Xdp>>,
    pub(crate) monitor: bool,
    pub(crate) queue: DraftQueue,
    pub(crate) autoconf: Option<Autoconf>,
    pub(crate) vlanpcp: Option<At<u32>>,
    pub(crate) metric: Option<At<u32>>,
    pub(crate) fib: Option<At<u32>>,
    pub(crate) fdb: fdb::Draft,
    pub(crate) ra: Option<Ra>,
    pub(crate) kernel_ports: Vec<At<KernelPorts>>,
    pub(crate) description: Option<At<String>>,
    pub(crate) dhcp_server: Option<At<DhcpServer>>,
    pub(crate) dhcp: Option<DhcpClient>,
    pub(crate) dhcp_relay: Option<At<DhcpRelay>>,
    pub(crate) dhcp6_relay: Option<At<Vec<Ipv6Addr>>>,
    pub(crate) dhcp6: Option<Dhcp6Client>,
    pub(crate) dhcp6_server: Option<At<Dhcp6Server>>,
    pub(crate) prefix_from: Option<PrefixFrom>,
    /// Interfaces that it has prefixes and name servers from.
    pub(crate) providers: Vec<At<String>>,
    pub(crate) publish: Publish,
    pub(crate) ppp: Option<At<Ppp>>,
    pub(crate) punt: Option<At<Punt>>,
    /// Whether any of it could not be read.
    pub(crate) doubtful: bool,
}

/// The output queue of an interface: missing values are the defaults.
pub(crate) struct DraftQueue {
    pub(crate) discipline: Option<At<Discipline>>,
    pub(crate) packets: Option<At<u32>>,
    pub(crate) bytes: Option<At<u32>>,
    pub(crate) target_ms: Option<At<u32>>,
    pub(crate) interval_ms: Option<At<u32>>,
}

pub(crate) struct DraftRoute {
    pub(crate) span: Range<usize>,
    pub(crate) to: Option<At<Destination>>,
    /// Whether the key `via` is there, also when nothing in it could be read.
    pub(crate) has_via: bool,
    pub(crate) via: Vec<At<IpAddr>>,
    pub(crate) dev: Option<At<String>>,
    pub(crate) fib: Option<At<u32>>,
    pub(crate) reject: bool,
    pub(crate) blackhole: bool,
    pub(crate) metrics: Metrics,
}

/// The target of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// `default`: of the family of the gateway.
    Default,
    Prefix(IpNet),
}

impl Draft {
    /// Reads a whole file. What cannot be read is reported and absent from the draft.
    pub(crate) fn read(text: &str, report: &mut Report<'_>) -> Self {
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            report.add(&error.span().unwrap_or(0..0), syntax(error.message()), "");
        }
        // After a syntax error the rest is a guess; complaints about guesses would mislead.
        if !errors.is_empty() {
            return Self::default();
        }
        let top = Fields::new(table.get_ref(), table.span(), "at the top of the file", TOP, report);
        Self::top(&top, report)
    }

    fn top(top: &Fields<'_>, report: &mut Report<'_>) -> Self {
        if top.key("interface").is_none() {
            let help = "add a section [[interface]] with a line like device = \"tap:lan0\"";
            report.add(&(0..0), "there is no interface", help);
        }
        Self {
            cpus: top.numbers("cpus", report),
            cpus_key: top.empty_list("cpus"),
            threads: top.number("threads", 1..=THREADS_MAX, report),
            polling: polling(top, report),
            forwarding: top.truth("forwarding", report),
            flow_cache: top.number("flow_cache", 0..=FLOWS_MAX, report),
            fibs: top.number("fibs", 1..=FIBS_MAX.into(), report),
            add_addr_all_fibs: top.truth("add_addr_all_fibs", report),
            buffers: top.number("buffers", 256..=16_777_216, report),
            socket: top.parsed("socket", socket, report),
            interfaces: interfaces(top, report),
            routes: routes(top, report),
            route_sources: route_sources::read(top, report),
            serves: serve::read(top, report),
            services: service::read(top, report),
            firewall: firewall(top, report),
            sysctl: sysctl::read(top, report),
            user: top.text("user", report).map(|at| at.value),
            group: top.text("group", report).map(|at| at.value),
            seccomp: top
                .parsed("seccomp", admin::seccomp, report)
                .map_or_else(Seccomp::default, |at| at.value),
            admin: admin::read(top, report),
            http: http::read(top, report),
            ipfix: ipfix::read(top, report),
            sflow: sflow::read(top, report),
            programs: programs::read(top, report),
        }
    }
}

/// The TOML parser's sentence, which may have several lines, in one.
fn syntax(message: &str) -> String {
    message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

fn interfaces(top: &Fields<'_>, report: &mut Report<'_>) -> Vec<DraftInterface> {
    let tables = top.tables("interface", report);
    if let Some(one_more) = tables.get(INTERFACES_MAX - 1) {
        let text = format!("no more than {} interfaces", INTERFACES_MAX - 1);
        report.add(&one_more.span, text, "leave this one out, and those behind it");
    }
    tables
        .into_iter()
        .map(|table| {
            let fields = Fields::new(table.value, table.span, "in [[interface]]", INTERFACE, report);
            interface(&fields, report)
        })
        .collect()
}

fn interface(fields: &Fields<'_>, report: &mut Report<'_>) -> DraftInterface {
    let problems = report.count();
    if fields.key("device").is_none() {
        report.add(&fields.span, "this interface has no device", "add a line like device = \"tap:lan0\"");
    }
    let (addresses, is_leased) = addresses(fields, report);
    let draft = DraftInterface {
        name: fields.parsed("name", interface_name, report),
        device: fields.parsed("device", Device::parse, report),
        addresses,
        mtu: fields.number("mtu", 68..=65535, report),
        mac: fields.parsed("mac", mac, report),
        rings: fields.number("rings", 1..=MOST_RINGS, report),
        rxcsum: fields.parsed("rxcsum", rxcsum, report),
        offload: fields.parsed("offload", offload, report),
        xdp: fields.parsed("xdp", Xdp::parse, report),
        monitor: fields.truth("monitor", report).is_some_and(|at| at.value),
        queue: queue(fields, report),
        autoconf: autoconf::read(fields, report),
        vlanpcp: fields.number("vlanpcp", 0..=7, report),
        metric: fields.number("metric", 0..=65_535, report),
        fib: fields.number("fib", 0..=u32::from(FIBS_MAX) - 1, report),
        fdb: fdb::read(fields, report),
        ra: ra::read(fields, report),
        kernel_ports: fields.parsed_list("kernel_ports", KernelPorts::parse, report),
        description: fields.parsed("description", description, report),
        dhcp_server: dhcp::read(fields, report),
        dhcp: dhcp_client::read(fields, report).or_else(|| is_leased.then(DhcpClient::default)),
        dhcp_relay: dhcp_relay::read(fields, report),
        dhcp6_relay: dhcp_relay::read6(fields, report),
        dhcp6: dhcp6_client::read(fields, report),
        dhcp6_server: dhcp6_server::read(fields, report),
        prefix_from: dhcp6_client::read_prefix_from(fields, report),
        providers: dhcp6_client::providers(fields),
        publish: publish::read(fields, report),
        ppp: ppp::read(fields, report),
        punt: punt::read(fields, report),
        doubtful: false,
    };
    DraftInterface { doubtful: report.count() > problems, ..draft }
}

/// A text of one line, as long as BSD's.
fn description(text: &str) -> Result<String, Wrong> {
    if text.chars().any(char::is_control) || text.len() > DESCRIPTION_MAX {
        let message = format!("a description has one line, of at most {DESCRIPTION_MAX} bytes");
        return Err(Wrong::new(message, "shorten it"));
    }
    Ok(text.to_owned())
}

/// The addresses, and whether the word `dhcp` is among them.
fn addresses(fields: &Fields<'_>, report: &mut Report<'_>) -> (Vec<At<IpNet>>, bool) {
    let word = |text: &str| if text == "dhcp" { Ok(None) } else { address(text).map(Some) };
    let words = fields.parsed_list("address", word, report);
    let is_leased = words.iter().any(|at| at.value.is_none());
    let nets = words.into_iter().filter_map(|at| Some(At::new(at.value?, at.span)));
    (nets.collect(), is_leased)
}

fn queue(fields: &Fields<'_>, report: &mut Report<'_>) -> DraftQueue {
    DraftQueue {
        discipline: fields.parsed("queue", discipline, report),
        packets: fields.number("queue_packets", 1..=1_000_000, report),
        bytes: fields.number("queue_bytes", 1514..=1 << 30, report),
        target_ms: fields.number("queue_target_ms", 1..=1000, report),
        interval_ms: fields.number("queue_interval_ms", 1..=10_000, report),
    }
}

fn firewall(top: &Fields<'_>, report: &mut Report<'_>) -> Option<section::Draft> {
    let span = top.key("firewall")?;
    let Some(table) = top.section("firewall") else {
        report.add(&span, "`firewall` must be a section, [firewall]", "it has keys of its own, like rules");
        return None;
    };
    Some(section::read(&table, report))
}

fn routes(top: &Fields<'_>, report: &mut Report<'_>) -> Vec<DraftRoute> {
    let tables = top.tables("route", report);
    tables
        .into_iter()
        .map(|table| {
            let fields = Fields::new(table.value, table.span, "in [[route]]", ROUTE, report);
            route(&fields, report)
        })
        .collect()
}

fn route(fields: &Fields<'_>, report: &mut Report<'_>) -> DraftRoute {
    if fields.key("to").is_none() {
        report.add(
            &fields.span,
            "this route leads nowhere",
            "add to = \"default\" or a prefix like to = \"198.51.100.0/24\"",
        );
    }
    DraftRoute {
        span: fields.span.clone(),
        to: fields.parsed("to", destination, report),
        has_via: fields.key("via").is_some(),
        via: fields.parsed_list("via", gateway, report),
        dev: fields.parsed("dev", interface_name, report),
        fib: fields.number("fib", 0..=u32::from(FIBS_MAX) - 1, report),
        reject: fields.truth("reject", report).is_some_and(|at| at.value),
        blackhole: fields.truth("blackhole", report).is_some_and(|at| at.value),
        metrics: metrics(fields, report),
    }
}

/// Parses the metrics of a route; 0 where it gives none.
fn metrics(fields: &Fields<'_>, report: &mut Report<'_>) -> Metrics {
    let mut value = |key, range| fields.number(key, range, report).map_or(0, |at| at.value);
    Metrics {
        mtu: value("mtu", limits::MTU),
        msl_ms: value("msl_ms", limits::MSL_MS),
        initial_window: u16::try_from(value("initial_window", limits::INITIAL_WINDOW)).unwrap_or(u16::MAX),
    }
}

/// A word for the policy, or a section with all of it.
fn polling(top: &Fields<'_>, report: &mut Report<'_>) -> Polling {
    let usual = Polling::default();
    let Some(table) = top.section("polling") else {
        let policy = top.parsed("polling", policy, report);
        return Polling { policy: policy.map_or(usual.policy, |at| at.value), ..usual };
    };
    let fields = Fields::new(table.value, table.span, "in [polling]", POLLING, report);
    let mut number = |key, range: core::ops::RangeInclusive<u32>, usual| {
        fields.number(key, range, report).map_or(usual, |at| at.value)
    };
    let (each, most) = (EACH_BURST_MAX.into(), BURST_MAX.into());
    let each_burst = number("each_burst", 1..=each, usual.each_burst.into());
    let burst_max = number("burst_max", 1..=most, usual.burst_max.into());
    let turn_us = number("turn_us", 10..=TURN_US_MAX, usual.turn_us);
    let user_frac = number("user_frac", 0..=USER_FRAC_MAX, usual.user_frac);
    let policy = fields.parsed("policy", policy, report).map_or(usual.policy, |at| at.value);
    let [each_burst, burst_max] = [each_burst, burst_max].map(|n| u16::try_from(n).unwrap_or(u16::MAX));
    Polling { policy, each_burst, burst_max, turn_us, user_frac }
}

fn policy(word: &str) -> Result<Policy, Wrong> {
    match word {
        "adaptive" => Ok(Policy::Adaptive),
        "always" => Ok(Policy::Always),
        "never" => Ok(Policy::Never),
        other => Err(unknown_word("polling", other, &["adaptive", "always", "never"])),
    }
}

fn rxcsum(word: &str) -> Result<RxCsum, Wrong> {
    match word {
        "auto" => Ok(RxCsum::Auto),
        "verify" => Ok(RxCsum::Verify),
        "trust" => Ok(RxCsum::Trust),
        "complete" => Ok(RxCsum::Complete),
        other => Err(unknown_word("rxcsum", other, &["auto", "verify", "trust", "complete"])),
    }
}

fn offload(word: &str) -> Result<bool, Wrong> {
    match word {
        "auto" => Ok(true),
        "off" => Ok(false),
        other => Err(unknown_word("offload", other, &["auto", "off"])),
    }
}

fn discipline(word: &str) -> Result<Discipline, Wrong> {
    let known = Discipline::ALL.map(Discipline::name);
    let found = Discipline::ALL.into_iter().find(|discipline| discipline.name() == word);
    found.ok_or_else(|| unknown_word("queue", word, &known))
}

pub(super) fn unknown_word(key: &str, word: &str, known: &[&str]) -> Wrong {
    Wrong::new(format!("unknown {key} `{word}`"), did_you_mean(word, known))
}

pub(super) fn socket(path: &str) -> Result<PathBuf, Wrong> {
    if path.is_empty() || path.len() > SOCKET_PATH_MAX {
        let help = format!("use a path of 1 to {SOCKET_PATH_MAX} bytes, as in /run/pantala/control.sock");
        return Err(Wrong::new("this cannot be the path of a socket", help));
    }
    Ok(path.into())
}

/// A letter, then letters, digits, `_`, `-` and `.`; `lo0` is the stack's own.
fn interface_name(name: &str) -> Result<String, Wrong> {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphabetic());
    let rest = letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    if !first || !rest || name.len() > NAME_MAX {
        return Err(Wrong::new(
            format!("`{name}` cannot be the name of an interface"),
            "use a letter and then at most 14 letters, digits, `_`, `-` or `.`",
        ));
    }
    Ok(name.to_owned())
}

fn mac(text: &str) -> Result<Mac, Wrong> {
    let mac: Mac = text
        .parse()
        .map_err(|why: ParseMacError| Wrong::new(format!("bad mac `{text}`"), why.to_string()))?;
    if mac.is_unicast() {
        return Ok(mac);
    }
    let help = "the first number must be even, and not all may be zero, as in 02:00:00:00:00:01";
    Err(Wrong::new(format!("{mac} cannot be the address of one interface"), help))
}

fn address(text: &str) -> Result<IpNet, Wrong> {
    let help = "write the address and its prefix length, as in 192.0.2.1/24 or 2001:db8::1/64";
    match text.parse() {
        Ok(net) => Ok(net),
        Err(_) if text.parse::<IpAddr>().is_ok() => {
            Err(Wrong::new(format!("`{text}` has no prefix length"), help))
        }
        Err(_) => Err(Wrong::new(format!("bad address `{text}`"), help)),
    }
}

fn gateway(text: &str) -> Result<IpAddr, Wrong> {
    let help = "write the gateway's address without a prefix length, as in 192.0.2.254";
    text.parse().map_err(|_| Wrong::new(format!("bad gateway `{text}`"), help))
}

fn destination(text: &str) -> Result<Destination, Wrong> {
    if text == "default" {
        return Ok(Destination::Default);
    }
    let help = "write \"default\" or a prefix like 198.51.100.0/24 or 2001:db8::/32";
    let net: IpNet = text.parse().map_err(|_| Wrong::new(format!("bad destination `{text}`"), help))?;
    if net.addr() == net.network() {
        return Ok(Destination::Prefix(net));
    }
    Err(Wrong::new(
        format!("{net} has bits set beyond its prefix length"),
        format!("the network is {}, the single host {}/{}", net.trunc(), net.addr(), net.max_prefix_len()),
    ))
}
