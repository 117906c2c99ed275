//! Hosts, links, and pantala in their middle.

use core::cell::Cell;
use core::fmt::{self, Write};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use dev::netlink::{Route, Veth};
use dev::netns::Netns;
use dev::sys::ethtool::{Ethtool, Feature};
use dev::sys::sysctl;
use ipnet::IpNet;

use crate::need::{self, Permit};
use crate::pantala::Pantala;
use crate::wait::until;

/// The families; every check runs for both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// Chooses by family.
    pub(crate) fn pick<T>(self, v4: T, v6: T) -> T {
        match self {
            Self::V4 => v4,
            Self::V6 => v6,
        }
    }

    /// The address that means any.
    pub(crate) fn any(self) -> IpAddr {
        self.pick(Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into())
    }

    pub(crate) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }
}

/// The attachment of pantala to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attach {
    Native,
    Generic,
    Tap,
    Tun,
}

impl Attach {
    /// Whether pantala makes the device, whose kernel end is the host's.
    pub(crate) fn is_made_by_pantala(self) -> bool {
        matches!(self, Self::Tap | Self::Tun)
    }
}

/// A link to be made, with a host at its other end.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) attach: Attach,
    /// Pairs of rings, on both ends.
    pub(crate) rings: u32,
    /// The largest packet of the link.
    pub(crate) mtu: u32,
    /// pantala's MTU, where it differs.
    pub(crate) pantala_mtu: Option<u32>,
}

impl Link {
    pub(crate) fn new(attach: Attach) -> Self {
        Self { attach, rings: 1, mtu: 1500, pantala_mtu: None }
    }

    pub(crate) fn rings(self, rings: u32) -> Self {
        Self { rings, ..self }
    }

    pub(crate) fn mtu(self, mtu: u32) -> Self {
        Self { mtu, ..self }
    }

    pub(crate) fn pantala_mtu(self, mtu: u32) -> Self {
        Self { pantala_mtu: Some(mtu), ..self }
    }
}

/// A Linux host at the other end of a link.
pub(crate) struct Host {
    pub(crate) netns: Netns,
    pub(crate) link: Link,
    number: u16,
}

impl Host {
    /// Makes the namespace, and a veth pair where pantala does not bring a TAP.
    fn new(number: u16, link: Link, router: &Netns) -> Self {
        let host = Self { netns: namespace(), link, number };
        if !host.link.attach.is_made_by_pantala() {
            host.attach_veth(router);
        }
        host
    }

    /// Makes the veth pair anew, after it was deleted.
    pub(crate) fn attach_again(&self, router: &Netns) {
        self.attach_veth(router);
    }

    fn attach_veth(&self, router: &Netns) {
        let (inside, outside) = (self.inside(), self.outside());
        let veth = Veth { queues: self.link.rings, mtu: Some(self.link.mtu), ..Veth::new(&inside, &outside) };
        let mut netlink = self.netns.netlink().unwrap();
        netlink.add_veth(&veth).unwrap();
        netlink.move_to(&outside, router).unwrap();
        self.configure();
        if self.link.attach == Attach::Generic {
            // Native programs make the kernel do this; generic ones are shown super-packets, which fit no buffer.
            let off = || Ethtool::open(&inside).unwrap().set_feature(Feature::Tso, false).unwrap();
            self.netns.run(off).unwrap();
        }
    }

    /// Takes the kernel's end of pantala's TAP or TUN.
    fn attach_tap(&self, router: &Netns) {
        let mut netlink = router.netlink().unwrap();
        until("pantala's TAP is there", || netlink.link(&self.outside()).ok());
        netlink.move_to(&self.outside(), &self.netns).unwrap();
        self.netns.netlink().unwrap().rename(&self.outside(), &self.inside()).unwrap();
        self.configure();
    }

    fn configure(&self) {
        let (mut netlink, link) = (self.netns.netlink().unwrap(), self.inside());
        netlink.set_up("lo", true).unwrap();
        netlink.set_up(&link, true).unwrap();
        for family in Family::BOTH {
            let length = self.router_net(family).prefix_len();
            netlink.add_address(&link, IpNet::new_assert(self.addr(family), length)).unwrap();
            let everything = IpNet::new_assert(family.any(), 0);
            let via = Some(self.router(family));
            netlink.add_route(&Route { to: everything, via, ifindex: None }).unwrap();
        }
    }

    /// Its own end of the link.
    pub(crate) fn inside(&self) -> String {
        "eth0".to_owned()
    }

    /// The other end, as the kernel of pantala's namespace calls it.
    pub(crate) fn outside(&self) -> String {
        format!("port{}", self.number)
    }

    /// The other end, as pantala calls it.
    pub(crate) fn ifname(&self) -> String {
        format!("if{}", self.number)
    }

    /// Which host it is, from 1 on.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// The host's address.
    pub(crate) fn addr(&self, family: Family) -> IpAddr {
        self.neighbour(family, 2)
    }

    /// An address on the link; 1 is pantala, 2 is the host, others do not exist.
    pub(crate) fn neighbour(&self, family: Family, host: u8) -> IpAddr {
        let [_, number] = self.number.to_be_bytes();
        let v4 = Ipv4Addr::new(10, 77, number, host);
        family.pick(v4.into(), Ipv6Addr::new(0xfd77, 0, 0, self.number, 0, 0, 0, host.into()).into())
    }

    /// pantala's address on the link.
    pub(crate) fn router(&self, family: Family) -> IpAddr {
        self.neighbour(family, 1)
    }

    fn router_net(&self, family: Family) -> IpNet {
        IpNet::new_assert(self.router(family), family.pick(24, 64))
    }

    /// Its section of pantala's configuration.
    pub(crate) fn section(&self) -> String {
        let (name, port, rings) = (self.ifname(), self.outside(), self.link.rings);
        let device = match self.link.attach {
            Attach::Native => format!("af_xdp:{port},mode=native"),
            Attach::Generic => format!("af_xdp:{port},mode=generic"),
            Attach::Tap => format!("tap:{port}"),
            Attach::Tun => format!("tun:{port}"),
        };
        let [v4, v6] = Family::BOTH.map(|family| self.router_net(family));
        let mtu = self.link.pantala_mtu.unwrap_or(self.link.mtu);
        format!(
            "[[interface]]\nname = \"{name}\"\ndevice = \"{device}\"\naddress = [\"{v4}\", \"{v6}\"]\n\
             rings = {rings}\nmtu = {mtu}\n"
        )
    }
}

/// The whole network.
pub(crate) struct Lab {
    pub(crate) pantala: Option<Pantala>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) router: Netns,
    /// The test, and what it checks at the moment: shown with a failure.
    test: String,
    now: Cell<&'static str>,
    _permit: Permit,
}

impl Lab {
    /// Builds it, with pantala running; `None` if the test cannot run here, which has been said then.
    pub(crate) fn start(test: &str, links: &[Link]) -> Option<Self> {
        Self::start_with(test, links, "")
    }

    /// Starts with `more` at the end of pantala's configuration.
    pub(crate) fn start_with(test: &str, links: &[Link], more: &str) -> Option<Self> {
        let mut lab = Self::without_pantala(test, links)?;
        lab.run_pantala(more);
        Some(lab)
    }

    /// Makes hosts without pantala between them yet.
    pub(crate) fn without_pantala(test: &str, links: &[Link]) -> Option<Self> {
        if !need::lab(links) {
            return None;
        }
        let permit = Permit::wait();
        let router = namespace();
        // What pantala has taken over is not to be disturbed by what this kernel has to say.
        router.run(|| sysctl::set("ipv6.conf.default.disable_ipv6", 1)).unwrap().unwrap();
        let hosts = (1..).zip(links).map(|(number, link)| Host::new(number, link.clone(), &router)).collect();
        let test = test.to_owned();
        Some(Self { pantala: None, hosts, router, test, now: Cell::new("starting"), _permit: permit })
    }

    pub(crate) fn run_pantala(&mut self, more: &str) {
        self.pantala = Some(Pantala::start(&self.router, &self.config(more)));
        self.attach();
    }

    /// Gives the hosts their TAPs, and waits until all links carry.
    pub(crate) fn attach(&self) {
        for host in self.hosts.iter().filter(|host| host.link.attach.is_made_by_pantala()) {
            host.attach_tap(&self.router);
        }
        until("all interfaces run", || self.pantala().is_running().then_some(()));
    }

    pub(crate) fn config(&self, more: &str) -> String {
        let mut text = "forwarding = true\n".to_owned();
        for host in &self.hosts {
            writeln!(text, "{}", host.section()).unwrap();
        }
        text + more
    }

    pub(crate) fn pantala(&self) -> &Pantala {
        self.pantala.as_ref().unwrap()
    }

    pub(crate) fn pantala_mut(&mut self) -> &mut Pantala {
        self.pantala.as_mut().unwrap()
    }

    /// The first two hosts.
    pub(crate) fn pair(&self) -> (&Host, &Host) {
        (&self.hosts[0], &self.hosts[1])
    }

    /// Runs a check for both families; a failure says for which.
    pub(crate) fn both(&self, check: impl Fn(Family)) {
        for family in Family::BOTH {
            self.now.set(family.pick("IPv4", "IPv6"));
            check(family);
        }
        self.now.set("after both families");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let report = self.pantala.as_mut().map_or_else(String::new, Pantala::report);
            let (test, now) = (&self.test, self.now.get());
            println!("--- {test} while checking: {now}\n{}{report}", self.picture());
        }
    }
}

impl Lab {
    fn picture(&self) -> String {
        let line = |host: &Host| {
            let [v4, v6] = Family::BOTH.map(|family| host.addr(family));
            format!("{v4} {v6} {}\n", host.link)
        };
        self.hosts.iter().map(line).collect()
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {} rings, MTU {}", self.attach, self.rings, self.mtu)
    }
}

/// A namespace whose host does not wait for duplicate address detection, and may ping without being root.
pub(crate) fn namespace() -> Netns {
    let netns = Netns::anonymous().unwrap();
    let settings = [
        ("ipv6.conf.all.accept_dad", "0"),
        ("ipv6.conf.default.accept_dad", "0"),
        ("ipv6.conf.default.accept_ra", "0"),
        ("ipv4.ping_group_range", "0 2147483647"),
    ];
    netns.run(|| settings.iter().for_each(|(name, value)| sysctl::set(name, value).unwrap())).unwrap();
    netns
}

/// A socket address of any port.
pub(crate) fn at(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}

/// Lets an interface of pantala's namespace have IPv6 addresses of the kernel.
pub(crate) fn enable_ipv6(netns: &Netns, interface: &str) {
    netns.run(|| sysctl::set(&format!("ipv6.conf.{interface}.disable_ipv6"), "0")).unwrap().unwrap();
}
