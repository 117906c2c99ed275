//! Hosts of the office, each with another DHCP client.

use core::net::IpAddr;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use dev::netns::Netns;
use dev::sys::process::end_with_parent;
use serde_json::Value;

use super::sh;
use crate::lab::{Family, namespace};
use crate::pantala::Folder;

/// The client of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    Udhcpc,
    Dhclient,
    /// It reads router advertisements itself; for the others the kernel does.
    Dhcpcd,
}

impl Client {
    pub(crate) const ALL: [Self; 3] = [Self::Udhcpc, Self::Dhclient, Self::Dhcpcd];

    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::Udhcpc => "udhcpc",
            Self::Dhclient => "dhclient",
            Self::Dhcpcd => "dhcpcd",
        }
    }

    /// The script by which it is told a lease; dhcpcd sets addresses itself.
    const fn script(self) -> &'static str {
        match self {
            Self::Udhcpc => {
                "case $1 in bound|renew) ip addr replace $ip/$mask dev $interface\n\
                 ip route replace default via ${router%% *} ;; esac\n"
            }
            Self::Dhclient => {
                "case $reason in BOUND|RENEW|REBIND|REBOOT) ip addr replace $new_ip_address/24 dev $interface\n\
                 ip route replace default via ${new_routers%% *} ;; esac\n"
            }
            Self::Dhcpcd => "",
        }
    }

    fn command(self, folder: &str) -> String {
        match self {
            Self::Udhcpc => {
                format!("exec udhcpc -i eth0 -f -t 5 -T 1 -A 1 -s {folder}/script -x hostname:one")
            }
            Self::Dhclient => format!(
                "echo 'initial-interval 1; retry 1; backoff-cutoff 2;' > {folder}/conf\n\
                 exec dhclient -4 -d -sf {folder}/script -lf {folder}/lease -pf {folder}/pid -cf {folder}/conf eth0"
            ),
            // Its files are where others of the machine would be.
            Self::Dhcpcd => format!(
                "mount -t tmpfs t /run && mkdir -p /run/dhcpcd && mount -t tmpfs t /var/lib/dhcpcd\n\
                 mount -t sysfs t /sys; echo 'slaac hwaddr' > {folder}/conf\n\
                 exec dhcpcd --nobackground --config {folder}/conf --script /bin/true eth0"
            ),
        }
    }
}

/// A host, whose client runs once it has begun.
pub(crate) struct Host {
    pub(crate) netns: Netns,
    pub(crate) client: Client,
    pub(crate) number: u16,
    folder: Folder,
    process: Option<Child>,
}

impl Host {
    pub(crate) fn new(number: u16, client: Client) -> Self {
        Self { netns: namespace(), client, number, folder: Folder::new(), process: None }
    }

    pub(crate) fn mac(&self) -> String {
        format!("02:00:00:00:07:{:02x}", self.number)
    }

    pub(crate) fn begin(&mut self) {
        let accepts = self.client != Client::Dhcpcd;
        let mac = self.mac();
        sh(
            &self.netns,
            &format!(
                "ip link set lo up; ip link set eth0 down; ip link set eth0 address {mac}\n\
                 echo {} > /proc/sys/net/ipv6/conf/eth0/accept_ra; ip link set eth0 up",
                u8::from(accepts)
            ),
        );
        let script = self.folder.file("script");
        std::fs::write(&script, format!("#!/bin/sh\n{}exit 0\n", self.client.script())).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let folder = self.folder.path().display().to_string();
        let said =
            || Stdio::from(File::options().create(true).append(true).open(self.folder.file("said")).unwrap());
        let mut command = Command::new("unshare");
        // The namespace of processes ends all that the client has begun, with it.
        command.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]);
        command.arg(self.client.command(&folder)).stdin(Stdio::null()).stdout(said()).stderr(said());
        end_with_parent(&mut command);
        self.process = Some(self.netns.put(&mut command).unwrap().spawn().unwrap());
    }

    /// The addresses that it uses for what is new: IPv4 and IPv6.
    pub(crate) fn addresses(&self) -> [Option<IpAddr>; 2] {
        let shown = sh(&self.netns, "ip -j addr show dev eth0 scope global");
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let all = shown[0]["addr_info"].as_array().cloned().unwrap_or_default();
        Family::BOTH.map(|family| {
            let is = |own: &&Value| {
                own["family"] == family.pick("inet", "inet6")
                    && ["deprecated", "tentative"].iter().all(|flag| own[flag] != true)
                    && own["local"] != super::OWN
            };
            all.iter().find(is)?["local"].as_str()?.parse().ok()
        })
    }

    /// Returns what its client has said.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.folder.file("said")).unwrap_or_default()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
