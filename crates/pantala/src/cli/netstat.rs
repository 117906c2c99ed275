//! `netstat [-a] | -L | -g | -r | -i | -s | -m | -O | -Q | -M`, once or every so many seconds.

use core::time::Duration;

use super::flags::Flags;
use super::route::fib;
use super::sockets::{self, Protocol, Which};
use super::{Failure, Session};
use crate::api::client::escaped;
use crate::api::{
    Counters, Family, Group, Interface, InterfaceCounters, Monitored, Netisr, OffloadedFlow, Pool, Route,
};
use crate::show;
use diagnostic::did_you_mean;
use net::stage::Stage;

pub(crate) const USAGE: &str = "\
pantala netstat [-anT] [-p tcp|udp|icmp] [-f inet|inet6]
       pantala netstat -L | -g | -o | -O | -m | -Q
       pantala netstat -r [-4 | -6] [-F N]
       pantala netstat -i [-b] | -I IF | -M -I IF
       pantala netstat -s [-s] [-p PROTO]
       pantala netstat ... -w SECONDS [-q COUNT]";

pub(crate) const HELP: &str = "  (none)      connections; -a: listeners and unconnected sockets, too
  -T          what TCP knows of each connection, as ss -ti prints it (windows
              and losses in segments, times in milliseconds), and its CPU
  -p PROTO    only this protocol;  -f FAMILY: only this address family
  -L          listen queues: connections to be accepted, and the backlog
  -g          multicast groups and their source filters
  -r          routing tables;  -F N: table N in place of table 0
  -i, -I IF   interfaces and their counters;  -b: bytes, too
  -o          output queues: packets, limits, drops, marks, doorbells
  -O          flows that drivers forward, 10,000 of each CPU at the most
  -s          counters and drop reasons that are not zero; with -p PROTO all
              of one protocol (-ss: only those that are not zero)
  -m          packet buffers
  -M -I IF    measurements of an interface in monitor mode: loss, order,
              latency
  -Q          netisrs: turns, packets per turn, hand-offs, sleeps, wake-ups,
              bursts, long turns, time left to other programs (user_frac)
  -w SECONDS  repeat, fractions allowed; with -i, -I or alone: what passed
              since the last line
  -q COUNT    with -w: stop after so many
  -n          numbers instead of names (always so)

Examples:
  pantala netstat -an
  pantala netstat -anT -p tcp
  pantala netstat -rn
  pantala netstat -s -p ip6
  pantala netstat -w 1 -I lan";

/// Page length of routes: while they are listed, no other request is served.
const ROUTES_AT_ONCE: usize = 10_000;
const EVERY_MIN_S: f64 = 0.001;
const EVERY_MAX_S: f64 = 3600.0;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Netstat {
    what: View,
    every: Option<Duration>,
    times: Option<u64>,
}

#[derive(Debug, PartialEq, Eq)]
enum View {
    Routes(Option<Family>, u8),
    Interfaces { one: Option<String>, bytes: bool },
    Queues { one: Option<String> },
    Groups(Option<Family>),
    Rates { one: Option<String> },
    Sockets(Which),
    ListenQueues(Option<Family>),
    Counters { protocol: Option<String>, zeros: bool },
    Pools,
    Netisrs,
    Offloaded,
    Monitored { interface: String },
}

impl Netstat {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let flags = Flags::read("netstat", words, "rinsmoOQbdaLgT46M", "wIqpfF")?;
        flags.no_operands("netstat")?;
        let every = flags.number::<f64>("netstat", 'w')?;
        if every.is_some_and(|seconds| !(EVERY_MIN_S..=EVERY_MAX_S).contains(&seconds)) {
            return Err(Failure::usage("netstat: -w takes 0.001 to 3600 seconds"));
        }
        let times = flags.number("netstat", 'q')?;
        if times.is_some() && every.is_none() {
            return Err(Failure::usage("netstat: -q makes sense only with -w"));
        }
        Ok(Self { what: what(&flags, every.is_some())?, every: every.map(Duration::from_secs_f64), times })
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let mut rates = match &self.what {
            View::Rates { one } => Some(Watch::start(one.as_deref(), session)?),
            _ => None,
        };
        let mut shown = 0;
        loop {
            if rates.is_some() || shown > 0 {
                std::thread::sleep(self.every.unwrap_or_default());
            }
            match &mut rates {
                Some(watch) => watch.show(session)?,
                None => self.what.show(session)?,
            }
            shown += 1;
            if self.every.is_none() || self.times.is_some_and(|times| shown >= times) {
                return Ok(());
            }
        }
    }
}

fn what(flags: &Flags, again: bool) -> Result<View, Failure> {
    let one = flags.value('I').map(str::to_owned);
    let tables: Vec<char> = "rsmoOQMLg".chars().filter(|&letter| flags.has(letter)).collect();
    match tables.as_slice() {
        ['r'] => {
            Ok(View::Routes(family(flags)?, flags.value('F').map_or(Ok(0), |text| fib(text, "netstat"))?))
        }
        ['s'] => counters(flags),
        ['L'] => family(flags).map(View::ListenQueues),
        ['g'] => family(flags).map(View::Groups),
        ['m'] => Ok(View::Pools),
        ['o'] => Ok(View::Queues { one }),
        ['Q'] => Ok(View::Netisrs),
        ['O'] => Ok(View::Offloaded),
        ['M'] => match one {
            Some(interface) => Ok(View::Monitored { interface }),
            None => Err(Failure::usage("netstat: -M needs -I IF: whose?")),
        },
        [] if "aTpf".chars().any(|letter| flags.has(letter)) && !shows_interfaces(flags) => which(flags),
        [] if again => Ok(View::Rates { one }),
        [] if shows_interfaces(flags) => Ok(View::Interfaces { one, bytes: flags.has('b') }),
        [] => which(flags),
        [first, second, ..] => {
            Err(Failure::usage(format!("netstat: -{first} and -{second} are two tables; show one at a time")))
        }
        [_] => Err(Failure::usage("netstat: this cannot be shown")),
    }
}

fn shows_interfaces(flags: &Flags) -> bool {
    flags.has('i') || flags.value('I').is_some()
}

fn family(flags: &Flags) -> Result<Option<Family>, Failure> {
    match flags.value('f') {
        Some("inet") => return Ok(Some(Family::Inet)),
        Some("inet6") => return Ok(Some(Family::Inet6)),
        Some(other) => {
            let help = did_you_mean(other, &["inet", "inet6"]);
            return Err(Failure::usage(format!("netstat: unknown address family `{other}`; {help}")));
        }
        None => {}
    }
    let six = flags.has('6').then_some(Family::Inet6);
    Ok(if flags.has('4') { Some(Family::Inet) } else { six })
}

/// Names that `-s -p` takes: all stages, `ip` for IPv4, and `drops`.
fn protocols() -> Vec<&'static str> {
    Stage::ALL.iter().map(|stage| stage.name()).chain(["drops"]).collect()
}

fn protocol(flags: &Flags) -> Result<Option<String>, Failure> {
    match flags.value('p') {
        Some(word) if !protocols().contains(&word) => {
            let help = did_you_mean(word, &protocols());
            Err(Failure::usage(format!("netstat: unknown protocol `{word}`; {help}")))
        }
        known => Ok(known.map(str::to_owned)),
    }
}

fn counters(flags: &Flags) -> Result<View, Failure> {
    let protocol = protocol(flags)?;
    let zeros = protocol.is_some() && flags.count('s') == 1;
    Ok(View::Counters { protocol, zeros })
}

fn which(flags: &Flags) -> Result<View, Failure> {
    let protocol = match flags.value('p') {
        None => None,
        Some("tcp") => Some(Protocol::Tcp),
        Some("udp") => Some(Protocol::Udp),
        Some("icmp") => Some(Protocol::Icmp),
        Some(word) => {
            let known = format!("netstat: `{word}` has no connections; known are tcp, udp, icmp");
            return Err(Failure::usage(format!("{known} (-s -p {word} shows what was counted)")));
        }
    };
    let (all, info) = (flags.has('a'), flags.has('T'));
    Ok(View::Sockets(Which { all, info, protocol, family: family(flags)? }))
}

impl View {
    fn show(&self, session: &mut Session<'_>) -> Result<(), Failure> {
        match self {
            Self::Routes(family, fib) => show_routes(*family, *fib, session),
            Self::Interfaces { one, bytes } => {
                let list = interfaces(one.as_deref(), session)?;
                session.show(&list, |list| show::interfaces(list, *bytes))
            }
            Self::Queues { one } => {
                let list = interfaces(one.as_deref(), session)?;
                session.show(&list, |list| show::queues(list))
            }
            Self::Sockets(which) => which.show(session),
            Self::ListenQueues(family) => sockets::show_queues(*family, session),
            Self::Groups(family) => {
                let mut groups: Vec<Group> = session.client.get("/v1/groups")?;
                groups.retain(|row| family.is_none_or(|family| family == Family::of(row.group)));
                session.show(&groups, |groups| show::groups(groups))
            }
            Self::Counters { protocol, zeros } => {
                let mut counters: Counters = session.client.get("/v1/counters")?;
                if let Some(protocol) = protocol {
                    show::keep(&mut counters, protocol);
                }
                session.show(&counters, |counters| show::counters(counters, *zeros))
            }
            Self::Pools => {
                let pools: Vec<Pool> = session.client.get("/v1/pools")?;
                session.show(&pools, |pools| show::pools(pools))
            }
            Self::Netisrs => {
                let netisrs: Vec<Netisr> = session.client.get("/v1/netisr")?;
                session.show(&netisrs, |netisrs| show::netisrs(netisrs))
            }
            Self::Offloaded => {
                let flows: Vec<OffloadedFlow> = session.client.get("/v1/offload?limit=10000")?;
                session.show(&flows, |flows| show::offloaded(flows))
            }
            Self::Monitored { interface } => {
                let seen: Monitored =
                    session.client.get(&format!("/v1/interfaces/{}/monitor", escaped(interface)))?;
                session.show(&seen, show::monitored)
            }
            Self::Rates { .. } => Ok(()),
        }
    }
}

/// The routing tables; `route show` shows the same.
/// Shows the routes of one table.
pub(crate) fn show_routes(family: Option<Family>, fib: u8, session: &mut Session<'_>) -> Result<(), Failure> {
    let mut routes: Vec<Route> = Vec::new();
    loop {
        let family = family.map(|family| format!("&family={family}")).unwrap_or_default();
        let after = routes.last().map(|last| format!("&after={}", escaped(&last.to.to_string())));
        let after = after.unwrap_or_default();
        let page: Vec<Route> =
            session.client.get(&format!("/v1/routes?fib={fib}&limit={ROUTES_AT_ONCE}{family}{after}"))?;
        if page.is_empty() {
            break;
        }
        routes.extend(page);
    }
    let interfaces: Vec<Interface> = session.client.get("/v1/interfaces")?;
    session.show(&routes, |routes| show::routes(routes, fib, &interfaces))
}

fn interfaces(one: Option<&str>, session: &Session<'_>) -> Result<Vec<Interface>, Failure> {
    let all: Vec<Interface> = session.client.get("/v1/interfaces")?;
    let Some(name) = one else { return Ok(all) };
    let found: Vec<Interface> = all.iter().filter(|interface| interface.name == name).cloned().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let names: Vec<&str> = all.iter().map(|interface| interface.name.as_str()).collect();
    Err(Failure::Failed(format!("there is no interface `{name}`; {}", did_you_mean(name, &names))))
}

/// A running `netstat -w`.
struct Watch {
    one: Option<String>,
    rates: show::Rates,
    lines: u64,
}

/// Lines below one heading.
const PAGE: u64 = 20;

impl Watch {
    fn start(one: Option<&str>, session: &Session<'_>) -> Result<Self, Failure> {
        let rates = show::Rates::new(total(&interfaces(one, session)?));
        Ok(Self { one: one.map(str::to_owned), rates, lines: 0 })
    }

    fn show(&mut self, session: &mut Session<'_>) -> Result<(), Failure> {
        let now = total(&interfaces(self.one.as_deref(), session)?);
        let since = self.rates.since(now);
        if session.json {
            return session.show(&since, |_| String::new());
        }
        let head = if self.lines.is_multiple_of(PAGE) {
            show::rates_head(self.one.as_deref())
        } else {
            String::new()
        };
        self.lines += 1;
        Ok(session.term.show(&(head + &show::rates_line(&since)))?)
    }
}

fn total(interfaces: &[Interface]) -> InterfaceCounters {
    interfaces.iter().map(|interface| interface.counters).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Netstat, Failure> {
        Netstat::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn bsd_lines_are_understood() {
        let lan = || Some("lan".to_owned());
        for (line, means) in [
            ("-rn", View::Routes(None, 0)),
            ("-r -6", View::Routes(Some(Family::Inet6), 0)),
            ("-rnf inet", View::Routes(Some(Family::Inet), 0)),
            ("-rn -F 3", View::Routes(None, 3)),
            ("-i", View::Interfaces { one: None, bytes: false }),
            ("-ibn", View::Interfaces { one: None, bytes: true }),
            ("-I lan", View::Interfaces { one: lan(), bytes: false }),
            ("-s", View::Counters { protocol: None, zeros: false }),
            ("-sp ip6", View::Counters { protocol: Some("ip6".into()), zeros: true }),
            ("-ss -p ip6", View::Counters { protocol: Some("ip6".into()), zeros: false }),
            ("", View::Sockets(Which::default())),
            ("-an", View::Sockets(Which { all: true, ..Which::default() })),
            (
                "-anT -p tcp -f inet6",
                View::Sockets(Which {
                    all: true,
                    info: true,
                    protocol: Some(Protocol::Tcp),
                    family: Some(Family::Inet6),
                }),
            ),
            ("-Lan", View::ListenQueues(None)),
            ("-m", View::Pools),
            ("-o", View::Queues { one: None }),
            ("-oI lan", View::Queues { one: lan() }),
            ("-Q", View::Netisrs),
            ("-O", View::Offloaded),
            ("-MI lan", View::Monitored { interface: "lan".into() }),
        ] {
            assert_eq!(read(line).unwrap(), Netstat { what: means, every: None, times: None }, "{line}");
        }
    }

    #[test]
    fn with_w_interfaces_become_rates() {
        let every = Some(Duration::from_secs(2));
        let lan = Netstat { what: View::Rates { one: Some("lan".into()) }, every, times: Some(3) };
        assert_eq!(read("-w2 -I lan -q 3").unwrap(), lan);
        assert_eq!(read("-Q -w 2").unwrap(), Netstat { what: View::Netisrs, every, times: None });
    }

    #[test]
    fn other_lines_are_explained() {
        for (line, says) in [
            ("-ap arp", "known are tcp, udp, icmp"),
            ("-rs", "two tables"),
            ("-M", "-M needs -I IF"),
            ("-x", "no flag -x"),
            ("-w 0 -i", "0.001 to 3600"),
            ("-w soon", "give a number"),
            ("-q 3 -i", "only with -w"),
            ("-sp ipp6", "did you mean `ip6`?"),
            ("-rf inet9", "did you mean `inet"),
            ("-i lan", "one word too many"),
        ] {
            let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
            assert!(text.contains(says), "{line}: {text}");
        }
    }
}
