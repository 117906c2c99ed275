//! An office behind pantala, with all that a day brings: the provider renumbers, the wire to it is pulled, pantala is killed.
//!
//! ```text
//!   udhcpc ─┐                                    ┌─ DHCP, router advertisements, prefix delegation
//!   dhclient┼─ bridge ── lan ▶ pantala ▶ wan ── provider         or
//!   dhcpcd ─┘             └─▶ the kernel         └─ PPPoE, in which prefix delegation
//! ```
//!
//! The machine's kernel has an address on the NIC of the LAN, too, which both share. A connection to it lasts through all phases.
//! A table of what each host saw in each phase is printed; a folder in `PANTALA_OFFICE` keeps it as a file.

pub(crate) mod floods;
pub(crate) mod hosts;
pub(crate) mod provider;
pub(crate) mod table;
pub(crate) mod watch;

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Instant;

use dev::netlink::Veth;
use dev::netns::Netns;
use dev::sys::sysctl;
use pantala::api::AddressState;

use self::hosts::{Client, Host};
use self::provider::{Access, Provider, SERVERS};
use self::table::Row;
use self::watch::Watch;
use crate::lab::{Family, at, namespace};
use crate::need::{self, Permit};
use crate::pantala::{Folder, Pantala};
use crate::socket::{listen, stream_arrives};
use crate::wait::within;

/// The kernel's address on the NIC that it shares, and where a program of it listens.
const KERNELS: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 168, 7, 9), 22);
/// The first host's other address, from which it speaks with the kernel.
const OWN: &str = "192.168.7.51";
/// The port of the gateway that is forwarded to the first host.
const FORWARDED: u16 = 8080;
/// Longer than any lease here.
const LONG: Duration = Duration::from_secs(60);

/// The rules of the guide, with a port that is forwarded, and what DHCP needs.
const RULES: &str = "\
disable one_pass
nat 1 config if wan redirect_port tcp 192.168.7.101:8080 8080
add 10   allow ipv6-icmp from any to any icmp6types 133,134,135,136
add 20   allow udp from any 68 to any 67 in recv lan
add 30   allow udp from any 67 to any 68 in recv wan
add 40   allow udp from fe80::/10 547 to fe80::/10 546 in recv wan
add 100  nat 1 ip4 from any to any in recv wan
add 200  check-state
add 300  skipto 1000 tcp from any to any in recv lan setup keep-state
add 310  skipto 1000 { udp or icmp or ipv6-icmp } from any to any in recv lan keep-state
add 320  skipto 1000 { udp or icmp or ipv6-icmp or tcp } from me to any out keep-state
add 330  skipto 1000 tcp from any to 192.168.7.101 8080 in recv wan setup keep-state
add 500  deny ip from any to any
add 1000 nat 1 ip4 from any to any out xmit wan
add 1010 allow ip from any to any
";

/// The office, its machine and its provider.
struct Site {
    pantala: Option<Pantala>,
    hosts: Vec<Host>,
    router: Netns,
    provider: Provider,
    folder: Folder,
    switch: Netns,
    _permit: Permit,
}

/// Runs a shell script in a namespace.
#[track_caller]
fn sh(netns: &Netns, script: &str) -> String {
    let mut command = Command::new("sh");
    let output = netns.put(command.args(["-ec", script])).unwrap().output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Makes a pair of veth interfaces between two namespaces.
fn wire((one, a): (&Netns, &str), (two, b): (&Netns, &str)) {
    let mut netlink = one.netlink().unwrap();
    netlink.add_veth(&Veth::new(a, b)).unwrap();
    netlink.move_to(b, two).unwrap();
    netlink.set_up(a, true).unwrap();
    two.netlink().unwrap().set_up(b, true).unwrap();
}

impl Site {
    /// Lays all wires. Nothing runs yet.
    fn build(access: Access) -> Option<Self> {
        let programs = Client::ALL.map(Client::program).into_iter().chain(access.programs().iter().copied());
        if !need::lab(&[]) || !programs.into_iter().all(need::program) {
            return None;
        }
        let permit = Permit::wait();
        let [router, switch, isp] = [(); 3].map(|()| namespace());
        router.run(|| sysctl::set("ipv6.conf.default.disable_ipv6", "1")).unwrap().unwrap();
        sh(&switch, "ip link add br0 type bridge && ip link set br0 up");
        wire((&router, "lan0"), (&switch, "port0"));
        let hosts: Vec<Host> = (1..).zip(Client::ALL).map(|(number, kind)| Host::new(number, kind)).collect();
        for host in &hosts {
            let port = format!("port{}", host.number);
            wire((&host.netns, "eth0"), (&switch, &port));
            sh(&switch, &format!("ip link set {port} master br0"));
        }
        sh(&switch, "ip link set port0 master br0");
        wire((&router, "wan0"), (&isp, "wan"));
        let (kernels, _) = KERNELS;
        sh(&router, &format!("ip link set lo up && ip addr add {kernels}/24 dev lan0"));
        let folder = Folder::new();
        let provider = Provider::new(isp, access, folder.path());
        Some(Self { pantala: None, hosts, router, provider, folder, switch, _permit: permit })
    }

    fn config(&self) -> String {
        let folder = self.folder.path().display();
        let first = self.hosts[0].mac();
        let wan = match self.provider.access {
            Access::Dhcp => format!(
                "[[interface]]\nname = \"wan\"\ndevice = \"af_xdp:wan0\"\naddress = \"dhcp\"\nautoconf = true\n\
                 [interface.dhcp]\nlease = \"{folder}/wan\"\n[interface.dhcp6]\nlease = \"{folder}/wan6\"\n"
            ),
            Access::Pppoe => format!(
                "[[interface]]\nname = \"uplink\"\ndevice = \"af_xdp:wan0\"\n\
                 [[interface]]\nname = \"wan\"\ndevice = \"pppoe:uplink\"\nautoconf = true\n\
                 [interface.ppp]\nuser = \"office\"\npassword = \"secret\"\necho_interval = 1\necho_failures = 3\n\
                 [interface.dhcp6]\naddress = false\nlease = \"{folder}/wan6\"\n"
            ),
        };
        format!(
            "forwarding = true\n\
             [[interface]]\nname = \"lan\"\ndevice = \"af_xdp:lan0,share\"\naddress = \"192.168.7.1/24\"\n\
             prefix_from = \"wan\"\n[interface.ra]\ninterval_s = 4\n\
             [interface.dhcp_server]\npool = \"192.168.7.100-192.168.7.199\"\nhost = [\"{first} 192.168.7.101\"]\n\
             leases = \"{folder}/leases\"\n{wan}[firewall]\nrules_text = '''\n{RULES}'''\n"
        )
    }

    fn pantala(&self) -> &Pantala {
        self.pantala.as_ref().unwrap()
    }

    /// The addresses of an interface of pantala's that are in use.
    fn addresses(&self, interface: &str) -> Vec<IpAddr> {
        let all = self.pantala().interface(interface).addresses;
        all.into_iter().filter(|own| own.state != AddressState::Duplicated).map(|own| own.address).collect()
    }

    /// Waits until the provider's addresses of this time are in force, and all hosts use them.
    fn settles(&self, number: usize) {
        let [wan, lan] = self.provider.access.prefixes(number);
        let is_numbered = |interface, prefix| {
            let has = || self.addresses(interface).iter().any(|own| own.to_string().starts_with(prefix));
            let found = within(LONG, || has().then_some(()));
            assert!(found.is_some(), "{interface}, {prefix}: {:?}", self.addresses(interface));
        };
        is_numbered("lan", lan);
        self.provider.leads_back(number, &self.addresses("wan"));
        is_numbered("wan", wan);
        for host in &self.hosts {
            let mut seen = [None, None];
            let is_right = within(LONG, || {
                seen = host.addresses();
                let is = |at: usize, prefix| {
                    seen[at].is_some_and(|own: IpAddr| own.to_string().starts_with(prefix))
                };
                (is(0, "192.168.7.") && is(1, lan)).then_some(())
            });
            assert!(is_right.is_some(), "{:?}: {seen:?}, and not {lan}\n{}", host.client, host.said());
        }
    }

    /// The gateway's forwarded port leads to the first host, and nothing else leads to it.
    fn is_guarded(&self) {
        let host = &self.hosts[0];
        let listener = listen(&host.netns, Family::V4, FORWARDED);
        let own = self.addresses("wan").into_iter().find(IpAddr::is_ipv4).unwrap();
        let reach = |to: IpAddr, port, limit| {
            self.provider.netns.run(|| TcpStream::connect_timeout(&at(to, port), limit)).unwrap()
        };
        let mut outside = reach(own, FORWARDED, LONG).unwrap();
        outside.write_all(b"web").unwrap();
        let (mut inside, _) = listener.accept().unwrap();
        let mut said = [0; 3];
        inside.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"web");
        let _other = listen(&host.netns, Family::V6, FORWARDED + 1);
        let [_, v6] = host.addresses();
        let before = self.pantala().dropped("firewall_deny");
        assert!(reach(v6.unwrap(), FORWARDED + 1, Duration::from_millis(300)).is_err(), "not asked for");
        assert!(reach(own, 22, Duration::from_millis(300)).is_err(), "not forwarded");
        assert!(self.pantala().dropped("firewall_deny") > before);
    }
}

/// The watches of a host, and of the connection to the machine's kernel.
struct Watches {
    hosts: Vec<[Watch; 2]>,
    session: Watch,
}

impl Watches {
    fn begin(site: &Site) -> Self {
        for family in Family::BOTH {
            let server = at(family.pick(SERVERS[0], SERVERS[1]).parse().unwrap(), 7);
            let socket = site.provider.netns.run(|| UdpSocket::bind(server)).unwrap().unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 64];
                while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                    let _ = socket.send_to(&buffer[..len], from);
                }
            });
        }
        let (kernels, port) = KERNELS;
        let listener = site.router.run(|| TcpListener::bind((kernels, port))).unwrap().unwrap();
        let first = &site.hosts[0].netns;
        sh(first, &format!("ip addr add {OWN}/24 dev eth0"));
        let mut stream = first.run(|| TcpStream::connect((kernels, port))).unwrap().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        std::thread::spawn(move || {
            let mut byte = [0];
            while server.read_exact(&mut byte).and_then(|()| server.write_all(&byte)).is_ok() {}
        });
        stream.set_read_timeout(Some(LONG)).unwrap();
        let session = Watch::begin(first, move || {
            let mut byte = [7];
            stream.write_all(&byte).and_then(|()| stream.read_exact(&mut byte)).is_ok()
        });
        let watch = |host: &Host, server: &'static str| {
            let server = at(server.parse().unwrap(), 7);
            Watch::begin(&host.netns, move || watch::answers(server))
        };
        let hosts = site.hosts.iter().map(|host| SERVERS.map(|server| watch(host, server))).collect();
        Self { hosts, session }
    }

    /// Ends a phase that began at `begun`, when everything is reached again; answers a row for each host.
    fn rows(&self, site: &Site, phase: &'static str, begun: Instant, number: usize) -> Vec<Row> {
        site.settles(number);
        let settled = Instant::now();
        let all_reach = within(LONG, || {
            let is_again = |watch: &Watch| watch.last().is_some_and(|last| last > settled);
            self.hosts.iter().flatten().all(is_again).then_some(())
        });
        let ended = Instant::now();
        if all_reach.is_none() {
            let seen: Vec<_> =
                self.hosts.iter().map(|own| own.each_ref().map(|own| own.pause(settled, ended))).collect();
            panic!(
                "{phase}: not all reach the provider's server: {seen:?}\n{}",
                site.pantala().shows("netstat -s")
            );
        }
        let row = |(host, watches): (&Host, &[Watch; 2])| {
            let reached = SERVERS.map(|server| {
                stream_arrives(&host.netns, &site.provider.netns, server.parse().unwrap(), 300_000).unwrap()
            });
            let pauses = watches.each_ref().map(|watch| watch.pause(begun, ended));
            Row { phase, host: host.client.program(), addresses: host.addresses(), reached, pauses }
        };
        site.hosts.iter().zip(&self.hosts).map(row).collect()
    }
}

/// Lives through a day of an office; answers what its hosts saw.
fn day(access: Access) -> Option<Vec<Row>> {
    let mut site = Site::build(access)?;
    site.provider.serve(0);
    let begun = Instant::now();
    let mut all = Vec::new();
    site.pantala = Some(Pantala::start(&site.router, &site.config()));
    site.hosts.iter_mut().for_each(Host::begin);
    let watches = Watches::begin(&site);
    all.extend(watches.rows(&site, "start", begun, 0));
    site.is_guarded();

    let begun = Instant::now();
    site.provider.serve(1);
    all.extend(watches.rows(&site, "renumbered", begun, 1));
    site.is_guarded();

    let begun = Instant::now();
    site.provider.carries(false);
    let down = within(LONG, || (!site.pantala().is_running()).then_some(()));
    assert!(down.is_some(), "the wire is pulled");
    site.provider.carries(true);
    all.extend(watches.rows(&site, "wire pulled", begun, 1));
    site.is_guarded();

    let begun = Instant::now();
    let pantala = site.pantala.take().unwrap();
    site.pantala = Some(pantala.killed_and_started_again(&site.router));
    all.extend(watches.rows(&site, "killed", begun, 1));
    site.is_guarded();

    let paused = watches.session.pause(begun, Instant::now());
    assert!(watches.session.last().is_some_and(|last| last > begun), "the kernel's connection has ended");
    println!(
        "{}the connection to the kernel paused for {} ms at most\n",
        table::text(&all),
        paused.as_millis()
    );
    table::keep(access.name(), &all);
    Some(all)
}

fn is_as_it_should_be(rows: &[Row]) {
    assert_eq!(rows.len(), 4 * Client::ALL.len());
    for row in rows {
        assert_eq!(row.reached, [true, true], "{row:?}");
        assert!(row.addresses.iter().all(Option::is_some), "{row:?}");
    }
    // The LAN's own addresses outlive all of it.
    for client in Client::ALL {
        let of: Vec<_> =
            rows.iter().filter(|row| row.host == client.program()).map(|row| row.addresses[0]).collect();
        assert!(of.iter().all(|own| *own == of[0]), "{of:?}");
    }
}

fn an_office_behind_dhcp_and_a_delegated_prefix_comes_through_its_day() {
    if let Some(rows) = day(Access::Dhcp) {
        is_as_it_should_be(&rows);
    }
}

fn an_office_behind_pppoe_comes_through_its_day() {
    if let Some(rows) = day(Access::Pppoe) {
        is_as_it_should_be(&rows);
    }
}

harness::tests![
    an_office_behind_dhcp_and_a_delegated_prefix_comes_through_its_day,
    an_office_behind_pppoe_comes_through_its_day,
];
