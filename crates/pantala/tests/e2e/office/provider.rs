//! The provider, with DHCP or PPPoE, which gives other addresses when it is told to.

use core::net::IpAddr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use dev::netns::Netns;
use dev::sys::process::end_with_parent;
use rustix::process::{Pid, Signal, kill_process};

use super::sh;

/// Its server, by IPv4 and IPv6.
pub(crate) const SERVERS: [&str; 2] = ["192.0.2.53", "2001:db8:ffff::53"];

/// Seconds of an IPv4 lease, which ends before another one is given.
const LEASE: u32 = 20;

/// The kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Dhcp,
    Pppoe,
}

impl Access {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Dhcp => "dhcp",
            Self::Pppoe => "pppoe",
        }
    }

    pub(crate) const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Dhcp => &["udhcpd", "kea-dhcp6", "radvd"],
            Self::Pppoe => &["python3"],
        }
    }

    /// The beginnings of the addresses of the gateway and of the LAN, before and after it renumbers.
    pub(crate) const fn prefixes(self, number: usize) -> [&'static str; 2] {
        match (self, number) {
            (Self::Dhcp, 0) => ["198.51.100.", "2001:db8:44"],
            (Self::Dhcp, _) => ["203.0.113.", "2001:db8:55"],
            (Self::Pppoe, 0) => ["10.64.0.100", "2001:db8:44"],
            (Self::Pppoe, _) => ["10.64.0.200", "2001:db8:55"],
        }
    }
}

/// The provider's machine.
pub(crate) struct Provider {
    pub(crate) netns: Netns,
    pub(crate) access: Access,
    folder: PathBuf,
    processes: Vec<Child>,
}

impl Provider {
    pub(crate) fn new(netns: Netns, access: Access, folder: &Path) -> Self {
        let [v4, v6] = SERVERS;
        sh(
            &netns,
            &format!(
                "ip link set lo up; ip addr add {v4}/32 dev lo; ip -6 addr add {v6}/128 dev lo\n\
                 echo 1 > /proc/sys/net/ipv6/conf/all/forwarding\n\
                 echo 1 > /proc/sys/net/ipv6/conf/wan/keep_addr_on_down"
            ),
        );
        Self { netns, access, folder: folder.to_owned(), processes: Vec::new() }
    }

    /// Serves with the first addresses, or with others, having forgotten all before.
    pub(crate) fn serve(&mut self, number: usize) {
        match self.access {
            Access::Dhcp => self.lease(number),
            Access::Pppoe => self.concentrate(number),
        }
    }

    fn lease(&mut self, number: usize) {
        self.end();
        let [v4, v6] = self.access.prefixes(number);
        let folder = self.folder.display().to_string();
        sh(
            &self.netns,
            &format!(
                "ip -4 addr flush dev wan; ip addr add {v4}254/24 dev wan; ip -6 addr replace 2001:db8::fe/64 dev wan nodad\n\
                 ip -6 route flush root 2001:db8:4400::/40; ip -6 route flush root 2001:db8:5500::/40; rm -f {folder}/udhcpd"
            ),
        );
        let dhcp = format!(
            "start {v4}50\nend {v4}59\ninterface wan\nlease_file {folder}/udhcpd\npidfile {folder}/udhcpd.pid\nmin_lease 5\n\
             opt router {v4}254\nopt subnet 255.255.255.0\nopt lease {LEASE}\n"
        );
        let kea = format!(
            r#"{{ "Dhcp6": {{ "data-directory": "{folder}", "interfaces-config": {{ "interfaces": ["wan"] }},
                "lease-database": {{ "type": "memfile", "persist": false }},
                "renew-timer": 6, "rebind-timer": 300, "preferred-lifetime": 600, "valid-lifetime": 900,
                "subnet6": [ {{ "subnet": "2001:db8::/64", "interface": "wan",
                    "pools": [ {{ "pool": "2001:db8::1000-2001:db8::1fff" }} ],
                    "pd-pools": [ {{ "prefix": "{v6}00::", "prefix-len": 40, "delegated-len": 56 }} ] }} ] }} }}"#
        );
        let ra = "interface wan { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; AdvManagedFlag on;\n\
                  prefix 2001:db8::/64 { AdvAutonomous off; }; };\n";
        for (name, text) in [("udhcpd.conf", &*dhcp), ("kea.conf", &kea), ("radvd.conf", ra)] {
            std::fs::write(self.folder.join(name), text).unwrap();
        }
        self.run(&format!("touch {folder}/udhcpd; exec udhcpd -f {folder}/udhcpd.conf"));
        self.run(&format!(
            "KEA_PIDFILE_DIR={folder} KEA_LOCKFILE_DIR={folder} exec kea-dhcp6 -c {folder}/kea.conf"
        ));
        self.run(&format!("exec radvd --nodaemon --config {folder}/radvd.conf --pidfile {folder}/radvd.pid"));
    }

    fn run(&mut self, script: &str) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        end_with_parent(&mut command);
        self.processes.push(self.netns.put(&mut command).unwrap().spawn().unwrap());
    }

    fn concentrate(&mut self, number: usize) {
        if let Some(before) = self.processes.last_mut() {
            // The session ends in good order.
            before.stdin.as_mut().unwrap().write_all(b"padt\n").unwrap();
            drop(before.stdin.take());
            before.wait().unwrap();
        }
        self.end();
        let [v4, v6] = self.access.prefixes(number);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/daemon/pppoe/concentrator.py");
        let mut command = Command::new("python3");
        command.args([script, "wan", "isp", "chap", v4, &format!("{v6}00::")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        end_with_parent(&mut command);
        let mut process = self.netns.put(&mut command).unwrap().spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        std::thread::spawn(move || lines.for_each(drop));
        sh(
            &self.netns,
            "ip link set isp up mtu 1500; ip addr add 10.64.0.1/24 dev isp; ip -6 addr flush dev isp\n\
             ip -6 addr add fe80::1/64 dev isp nodad; ip -6 route replace 2001:db8::/32 dev isp",
        );
        self.processes.push(process);
    }

    /// Leads the delegated prefix to the gateway, which has these addresses on their link.
    pub(crate) fn leads_back(&self, number: usize, gateway: &[IpAddr]) {
        // Behind PPPoE there is no other way than the session.
        if self.access == Access::Dhcp {
            let [_, v6] = self.access.prefixes(number);
            let is_link_local = |own: &&IpAddr| matches!(own, IpAddr::V6(v6) if v6.is_unicast_link_local());
            let via = gateway.iter().find(is_link_local).unwrap();
            sh(&self.netns, &format!("ip -6 route replace {v6}00::/40 via {via} dev wan"));
        }
    }

    /// Has the DHCP server answer late: what it is asked until it answers again waits.
    pub(crate) fn answers(&self, is_awake: bool) {
        let server = self.processes.first().unwrap();
        let signal = if is_awake { Signal::CONT } else { Signal::STOP };
        kill_process(Pid::from_child(server), signal).unwrap();
    }

    /// Pulls the wire, or puts it back.
    pub(crate) fn carries(&self, is_up: bool) {
        self.netns.netlink().unwrap().set_up("wan", is_up).unwrap();
    }

    fn end(&mut self) {
        for mut process in self.processes.drain(..) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.end();
    }
}
