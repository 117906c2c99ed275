//! Random rules of a router, and an oracle that decides of a packet what they say.
//!
//! The oracle shares nothing with the stack: it reads the rules as they were drawn, and the stack reads their text. So the
//! rules are simple: protocol, hosts, networks and tables on both sides, ports, direction, interface, family, and state.

use core::fmt::Write as _;

use crate::plan::Family;
use crate::random::Random;

/// Number of the first random rule.
const FIRST: usize = 201;
/// Number of the rule behind them, if the policy has one.
const LAST: usize = 300;
/// Random rules of a policy at the most, and its tables.
const RULES_MAX: usize = 8;
const TABLES: usize = 2;

/// A host: its network and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Addr {
    pub(super) net: u8,
    pub(super) host: u8,
}

/// The protocol of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proto {
    /// UDP.
    Udp,
    /// Echo requests and replies of ICMP and ICMPv6; ports are 0.
    Echo,
}

/// A packet between two stations, as rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) family: Family,
    pub(super) proto: Proto,
    pub(super) from: Addr,
    pub(super) to: Addr,
    pub(super) ports: [u16; 2],
}

/// The ports of the router by which a packet comes in and leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossed {
    pub(super) recv: usize,
    pub(super) xmit: usize,
}

/// The decision of a policy on a packet that has no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is dropped.
    Denied,
    /// It is forwarded, and its flow gets a state.
    Kept,
    /// It is forwarded.
    Allowed,
}

/// The random rules of a router.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    /// Names its tables.
    generation: usize,
    rules: Vec<Rule>,
    tables: [Vec<Entry>; TABLES],
    /// The two stations whose echoes are always allowed.
    friends: [Addr; 2],
    /// Whether what no rule matches is allowed, with a state.
    is_open: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    action: Action,
    is_udp: bool,
    family: Option<Family>,
    from: Party,
    to: Party,
    /// Destination ports; UDP only.
    ports: Option<[u16; 2]>,
    hook: Option<Hook>,
    by: Option<(By, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Allow,
    Keep,
    Deny,
    Reject,
}

#[derive(Clone, Debug)]
struct Party {
    not: bool,
    is: Set,
}

#[derive(Clone, Debug)]
enum Set {
    Any,
    Entry(Entry),
    Table(usize),
}

/// A network, or one host of it; in both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    net: u8,
    host: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hook {
    In,
    Out,
}

#[derive(Clone, Copy, Debug)]
enum By {
    Recv,
    Xmit,
    Via,
}

impl Packet {
    /// A packet of the answer.
    pub(super) const fn reversed(self) -> Self {
        let [src, dst] = self.ports;
        Self { from: self.to, to: self.from, ports: [dst, src], ..self }
    }
}

impl Policy {
    /// Rules for a line of `nets` networks. Echoes between `friends` are always allowed.
    pub(super) fn draw(random: &mut Random, generation: usize, nets: u8, friends: [Addr; 2]) -> Self {
        let tables = [(); TABLES].map(|()| {
            let mut entries: Vec<_> = (0..random.between(1, 3)).map(|_| Entry::draw(random, nets)).collect();
            entries.sort_unstable();
            entries.dedup();
            entries
        });
        let rules = (0..random.between(1, RULES_MAX)).map(|_| Rule::draw(random, nets)).collect();
        Self { generation, rules, tables, friends, is_open: random.chance(700_000) }
    }

    /// The policy with rules that allow what they should deny: a planted fault.
    pub(super) fn without_denials(mut self) -> Self {
        self.rules
            .iter_mut()
            .filter(|rule| rule.action.denies())
            .for_each(|rule| rule.action = Action::Allow);
        self
    }

    /// The commands that put it in force.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (at, entries) in self.tables.iter().enumerate() {
            let name = self.table(at);
            _ = writeln!(text, "table {name} create type addr missing");
            for entry in entries {
                let keys = Family::BOTH.map(|family| format!("{} 1", entry.prefix(family))).join(" ");
                _ = writeln!(text, "table {name} add {keys}");
            }
        }
        for (number, rule) in (FIRST..).zip(&self.rules) {
            _ = writeln!(text, "add {number} {}", rule.text(|at| self.table(at)));
        }
        if self.is_open {
            _ = writeln!(text, "add {LAST} allow ip from any to any keep-state");
        }
        text
    }

    /// The commands that take it out of force again; its tables stay.
    pub(super) fn end(&self) -> String {
        let last = self.is_open.then_some(LAST);
        let numbers = (FIRST..FIRST + self.rules.len()).chain(last);
        format!("delete {}\n", numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" "))
    }

    /// The decision on a packet that has no state. One that gets its state on the way in has it on the way out.
    pub(super) fn decide(&self, packet: &Packet, crossed: Crossed) -> Decision {
        match self.first(packet, crossed, Hook::In) {
            Action::Allow => match self.first(packet, crossed, Hook::Out) {
                Action::Allow => Decision::Allowed,
                Action::Keep => Decision::Kept,
                Action::Deny | Action::Reject => Decision::Denied,
            },
            Action::Keep => Decision::Kept,
            Action::Deny | Action::Reject => Decision::Denied,
        }
    }

    fn first(&self, packet: &Packet, crossed: Crossed, hook: Hook) -> Action {
        let ends = [packet.from, packet.to];
        if packet.proto == Proto::Echo && self.friends.iter().all(|friend| ends.contains(friend)) {
            return Action::Allow;
        }
        let rule = self.rules.iter().find(|rule| rule.matches(packet, crossed, hook, &self.tables));
        rule.map_or(if self.is_open { Action::Keep } else { Action::Deny }, |rule| rule.action)
    }

    fn table(&self, at: usize) -> String {
        format!("t{}_{at}", self.generation)
    }
}

impl Rule {
    fn draw(random: &mut Random, nets: u8) -> Self {
        let action = random.pick(&[Action::Deny, Action::Deny, Action::Reject, Action::Allow, Action::Keep]);
        let is_udp = random.chance(700_000);
        let family = random.pick(&[None, None, Some(Family::V4), Some(Family::V6)]).flatten();
        let [a, b] = [(); 2].map(|()| u16::try_from(random.below(65_536)).unwrap_or(0));
        let ports = (is_udp && random.chance(600_000)).then_some([a.min(b), a.max(b)]);
        let hook = random.pick(&[None, Some(Hook::In), Some(Hook::Out)]).flatten();
        let by = random.pick(&[None, Some(By::Recv), Some(By::Xmit), Some(By::Via)]).flatten();
        // Only what leaves has an interface to leave by.
        let hook = if matches!(by, Some(By::Xmit)) { Some(Hook::Out) } else { hook };
        Self {
            action: action.unwrap_or(Action::Deny),
            is_udp,
            family,
            from: Party::draw(random, nets),
            to: Party::draw(random, nets),
            ports,
            hook,
            by: by.map(|by| (by, random.below(2))),
        }
    }

    fn matches(&self, packet: &Packet, crossed: Crossed, hook: Hook, tables: &[Vec<Entry>; TABLES]) -> bool {
        let by = |(by, port): (By, usize)| match (by, hook) {
            (By::Recv, _) | (By::Via, Hook::In) => crossed.recv == port,
            (By::Xmit | By::Via, Hook::Out) => crossed.xmit == port,
            (By::Xmit, Hook::In) => false,
        };
        let [low, high] = self.ports.unwrap_or([0, u16::MAX]);
        (!self.is_udp || packet.proto == Proto::Udp)
            && self.family.is_none_or(|family| family == packet.family)
            && self.from.has(packet.from, tables)
            && self.to.has(packet.to, tables)
            && (low..=high).contains(&packet.ports[1])
            && self.hook.is_none_or(|meant| meant == hook)
            && self.by.is_none_or(by)
    }

    fn text(&self, table: impl Fn(usize) -> String) -> String {
        let (action, keep) = match self.action {
            Action::Allow => ("allow", ""),
            Action::Keep => ("allow", " keep-state"),
            Action::Deny => ("deny", ""),
            Action::Reject => ("reject", ""),
        };
        let proto = if self.is_udp { "udp" } else { "ip" };
        let [from, to] = [&self.from, &self.to].map(|who| who.text(&table));
        let ports = self.ports.map_or(String::new(), |[low, high]| format!(" {low}-{high}"));
        let hook = match self.hook {
            None => "",
            Some(Hook::In) => " in",
            Some(Hook::Out) => " out",
        };
        let by = self.by.map_or(String::new(), |(by, port)| format!(" {} mem{port}", by.word()));
        let family = match self.family {
            None => "",
            Some(Family::V4) => " ip4",
            Some(Family::V6) => " ip6",
        };
        format!("{action} {proto} from {from} to {to}{ports}{hook}{by}{family}{keep}")
    }
}

impl Action {
    const fn denies(self) -> bool {
        matches!(self, Self::Deny | Self::Reject)
    }
}

impl By {
    const fn word(self) -> &'static str {
        match self {
            Self::Recv => "recv",
            Self::Xmit => "xmit",
            Self::Via => "via",
        }
    }
}

impl Party {
    fn draw(random: &mut Random, nets: u8) -> Self {
        let is = match random.below(4) {
            0 => Set::Any,
            1 => Set::Table(random.below(TABLES)),
            _ => Set::Entry(Entry::draw(random, nets)),
        };
        Self { not: !matches!(is, Set::Any) && random.chance(250_000), is }
    }

    fn has(&self, addr: Addr, tables: &[Vec<Entry>; TABLES]) -> bool {
        let is = match &self.is {
            Set::Any => true,
            Set::Entry(entry) => entry.has(addr),
            Set::Table(at) => tables[*at].iter().any(|entry| entry.has(addr)),
        };
        is != self.not
    }

    fn text(&self, table: impl Fn(usize) -> String) -> String {
        let not = if self.not { "not " } else { "" };
        let is = match &self.is {
            Set::Any => "any".to_owned(),
            Set::Entry(entry) => Family::BOTH.map(|family| entry.prefix(family)).join(","),
            Set::Table(at) => format!("table({})", table(*at)),
        };
        format!("{not}{is}")
    }
}

impl Entry {
    fn draw(random: &mut Random, nets: u8) -> Self {
        let net = u8::try_from(random.between(1, nets.into())).unwrap_or(1);
        Self { net, host: random.pick(&[None, Some(2), Some(3)]).flatten() }
    }

    fn has(self, addr: Addr) -> bool {
        self.net == addr.net && self.host.is_none_or(|host| host == addr.host)
    }

    fn prefix(self, family: Family) -> String {
        let len = match (family, self.host) {
            (Family::V4, Some(_)) => 32,
            (Family::V6, Some(_)) => 128,
            (family, None) => family.prefix_len(),
        };
        format!("{}/{len}", family.addr(self.net, self.host.unwrap_or(0)))
    }
}
