//! The network of the demo: namespaces, veth pairs, TAPs.

use core::fmt::Write;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dev::netlink::{Route, Rtnetlink, Veth};
use dev::netns::{self, Netns};
use dev::sys::sysctl;
use ipnet::IpNet;
use rustix::process::geteuid;

/// The attachment of a host to the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// By a veth pair, whose other end pantala takes over with AF_XDP.
    Xdp,
    /// By a TAP of pantala's.
    Tap,
}

/// A Linux host.
pub(crate) struct Host {
    pub(crate) name: char,
    pub(crate) netns: Netns,
    pub(crate) attachment: Attachment,
    /// Number of its network.
    number: u16,
}

/// The whole network.
pub(crate) struct Lab {
    /// Where pantala runs.
    pub(crate) router: Netns,
    pub(crate) hosts: Vec<Host>,
    /// Parts that cannot be shown on this machine, with the reason.
    pub(crate) missing: Vec<String>,
}

/// Two hosts and the router between them.
pub(crate) struct Path<'l> {
    pub(crate) from: &'l Host,
    pub(crate) to: &'l Host,
}

/// Queues of each veth end: pantala has a ring for each.
const QUEUES: u32 = 2;

impl Lab {
    /// Makes the namespaces and what is in them, but for the TAPs, which pantala makes.
    pub(crate) fn build() -> Result<Self, String> {
        let mut missing = Vec::new();
        let mut kinds = vec![
            ('a', Attachment::Xdp),
            ('b', Attachment::Xdp),
            ('c', Attachment::Tap),
            ('d', Attachment::Tap),
        ];
        if !geteuid().is_root() {
            netns::enter_user_namespace()
                .map_err(|why| format!("neither root nor a user namespace: {why}"))?;
            kinds.retain(|(_, attachment)| *attachment == Attachment::Tap);
            missing.push("AF_XDP: it needs root, and this is a user namespace".to_owned());
        }
        if let Err(why) = std::fs::File::options().read(true).write(true).open("/dev/net/tun") {
            kinds.retain(|(_, attachment)| *attachment == Attachment::Xdp);
            missing.push(format!("TAP: /dev/net/tun: {why}"));
        }
        if kinds.is_empty() {
            return Err(format!("nothing can be shown here: {}", missing.join("; ")));
        }
        let router = namespace()?;
        let hosts =
            (1..).zip(kinds).map(|(number, (name, attachment))| Host::new(name, attachment, number, &router));
        let hosts = hosts.collect::<Result<_, _>>()?;
        Ok(Self { router, hosts, missing })
    }

    /// Gives each TAP's kernel end to its host.
    pub(crate) fn attach_taps(&self) -> Result<(), String> {
        let mut netlink = self.router.netlink().map_err(|why| why.to_string())?;
        for host in self.hosts.iter().filter(|host| host.attachment == Attachment::Tap) {
            netlink.move_to(&host.port(), &host.netns).map_err(|why| why.to_string())?;
            host.configure(&host.port())?;
        }
        Ok(())
    }

    /// The configuration that pantala is started with.
    pub(crate) fn config(&self, socket: &std::path::Path) -> String {
        let mut text = format!(
            "# written by pantala demo\nsocket = {:?}\nforwarding = true\n",
            socket.display().to_string()
        );
        for host in &self.hosts {
            let (name, port) = (host.name, host.port());
            let device = match host.attachment {
                Attachment::Xdp => format!("af_xdp:{port}"),
                Attachment::Tap => format!("tap:{port}"),
            };
            let [v4, v6] = host.router_nets();
            let _ = write!(
                text,
                "\n[[interface]]\nname = \"{name}\"\ndevice = \"{device}\"\naddress = [\"{v4}\", \"{v6}\"]\n"
            );
        }
        text
    }

    /// Draws the topology.
    pub(crate) fn picture(&self) -> String {
        let mut text = String::new();
        for host in &self.hosts {
            let link = match host.attachment {
                Attachment::Xdp => "veth ───── AF_XDP",
                Attachment::Tap => "kernel ────── TAP",
            };
            let (v4, v6) = (host.v4(), host.v6());
            let _ = writeln!(text, "  host {}  {v4:<10} {v6:<13} ── {link} ──┤ pantala", host.name);
        }
        text
    }

    /// Like with like, and across.
    pub(crate) fn paths(&self) -> Vec<Path<'_>> {
        let of = |kind| self.hosts.iter().filter(move |host| host.attachment == kind).collect::<Vec<_>>();
        let (xdp, tap) = (of(Attachment::Xdp), of(Attachment::Tap));
        let pairs = [xdp.first().zip(xdp.get(1)), tap.first().zip(tap.get(1)), xdp.first().zip(tap.first())];
        pairs.into_iter().flatten().map(|(from, to)| Path { from, to }).collect()
    }
}

impl Host {
    fn new(name: char, attachment: Attachment, number: u16, router: &Netns) -> Result<Self, String> {
        let host = Self { name, netns: namespace()?, attachment, number };
        if attachment == Attachment::Xdp {
            host.attach_veth(router)?;
        }
        Ok(host)
    }

    /// A veth pair from the host to the router's namespace.
    fn attach_veth(&self, router: &Netns) -> Result<(), String> {
        let (inside, outside) = (format!("{}0", self.name), self.port());
        let mut netlink = self.netns.netlink().map_err(|why| why.to_string())?;
        let veth = Veth { queues: QUEUES, ..Veth::new(&inside, &outside) };
        netlink.add_veth(&veth).map_err(|why| why.to_string())?;
        netlink.move_to(&outside, router).map_err(|why| why.to_string())?;
        self.configure(&inside)
    }

    /// Gives the host its addresses and its way out.
    fn configure(&self, link: &str) -> Result<(), String> {
        let mut netlink = self.netns.netlink().map_err(|why| why.to_string())?;
        self.configure_by(&mut netlink, link).map_err(|why| why.to_string())
    }

    fn configure_by(&self, netlink: &mut Rtnetlink, link: &str) -> Result<(), dev::netlink::NetlinkError> {
        netlink.set_up("lo", true)?;
        netlink.set_up(link, true)?;
        for (own, router) in [self.v4(), self.v6()].into_iter().zip(self.router_nets()) {
            netlink.add_address(link, own_net(own, router))?;
            let everything = IpNet::new_assert(super::traffic::any(own), 0);
            netlink.add_route(&Route { to: everything, via: Some(router.addr()), ifindex: None })?;
        }
        Ok(())
    }

    /// The router's interface towards this host, as the kernel calls it.
    pub(crate) fn port(&self) -> String {
        format!("port-{}", self.name)
    }

    pub(crate) fn v4(&self) -> IpAddr {
        let [_, number] = self.number.to_be_bytes();
        Ipv4Addr::new(10, 71, number, 2).into()
    }

    pub(crate) fn v6(&self) -> IpAddr {
        Ipv6Addr::new(0xfd71, 0, 0, self.number, 0, 0, 0, 2).into()
    }

    /// The router's addresses on this host's network.
    fn router_nets(&self) -> [IpNet; 2] {
        let [_, number] = self.number.to_be_bytes();
        let v4 = ipnet::Ipv4Net::new_assert(Ipv4Addr::new(10, 71, number, 1), 24);
        let v6 = ipnet::Ipv6Net::new_assert(Ipv6Addr::new(0xfd71, 0, 0, self.number, 0, 0, 0, 1), 64);
        [v4.into(), v6.into()]
    }
}

fn own_net(own: IpAddr, router: IpNet) -> IpNet {
    IpNet::new_assert(own, router.prefix_len())
}

/// A namespace whose hosts do not wait for duplicate address detection, and in which our group may ping: group 0, be
/// it the system's or that of a user namespace.
fn namespace() -> Result<Netns, String> {
    let netns = Netns::anonymous().map_err(|why| why.to_string())?;
    let settings = [
        ("ipv6.conf.all.accept_dad", "0"),
        ("ipv6.conf.default.accept_dad", "0"),
        ("ipv4.ping_group_range", "0 0"),
    ];
    let set = || settings.iter().try_for_each(|(name, value)| sysctl::set(name, value));
    netns.run(set).and_then(|done| done).map_err(|why| why.to_string())?;
    Ok(netns)
}
