//! DHCP clients of others get their addresses from us, and we ours from servers of others.

use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;

use crate::daemon::lab::{Daemon, Lab, Wire, until};

/// Whether a program is installed. Without it the test is skipped.
pub(crate) fn has(program: &str, package: &str) -> bool {
    let found =
        ["/usr/sbin", "/sbin", "/usr/bin", "/bin"].iter().any(|dir| Path::new(dir).join(program).exists());
    if !found {
        harness::skip(format!("needs {program} (Debian: {package})"));
    }
    found
}

/// The lab's configuration with a DHCP server.
fn config(lab: &Lab, more: &str) -> String {
    let leases = lab.folder().join("leases").display().to_string();
    let server = format!("[interface.dhcp_server]\nleases = \"{leases}\"\n{more}\n");
    lab.config(&server)
}

/// A host's end without an address.
pub(crate) fn without_address(lab: &Lab) {
    let mut netlink = lab.host().netlink().unwrap();
    let _ = netlink.delete_address("far", "192.0.2.2/24".parse().unwrap());
    let _ = netlink.set_up("far", true);
}

/// Runs a shell script on the host.
fn on_host(lab: &Lab, script: &str) -> Output {
    let mut command = Command::new("sh");
    let output = lab.host().put(command.args(["-c", script])).unwrap().output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    output
}

/// Runs udhcpc until it has a lease or gives up; answers what it has got.
pub(crate) fn udhcpc(lab: &Lab, options: &str) -> String {
    let script = lab.folder().join("script");
    let text = "#!/bin/sh\n[ \"$1\" = bound ] && echo \"ip=$ip mask=$mask router=$router dns=$dns domain=$domain \
                lease=$lease server=$serverid ntp=$ntpsrv\"\nexit 0\n";
    std::fs::write(&script, text).unwrap();
    on_host(lab, &format!("chmod +x {}", script.display()));
    let run = format!("udhcpc -i far -n -q -f -t 5 -T 1 -s {} {options}", script.display());
    String::from_utf8(on_host(lab, &run).stdout).unwrap()
}

pub(crate) fn leases(daemon: &Daemon<'_>) -> Vec<(String, String)> {
    let shown = daemon.json("dhcp lan");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let all = shown["servers"][0]["leases"].as_array().unwrap();
    all.iter().map(|lease| (text(&lease["address"]), text(&lease["name"]))).collect()
}

fn udhcpc_gets_an_address_with_all_that_belongs_to_it_and_the_same_again_after_a_crash() {
    if !has("udhcpc", "udhcpc") {
        return;
    }
    let Some(lab) = Lab::new("udhcpc", Wire::Veth { queues: 1 }) else { return };
    let said = "pool = \"192.0.2.100-192.0.2.199\"\nlease_s = 600\ndns = [\"192.0.2.53\", \"192.0.2.54\"]\n\
                domain = \"office.example\"\nntp = \"192.0.2.5\"";
    lab.write(&config(&lab, said));
    let daemon = lab.start();
    without_address(&lab);
    let got = udhcpc(&lab, "-x hostname:desk -O ntpsrv");
    for part in [
        "ip=192.0.2.100 mask=24 router=192.0.2.1 dns=192.0.2.53 192.0.2.54",
        "domain=office.example lease=600 server=192.0.2.1 ntp=192.0.2.5",
    ] {
        assert!(got.contains(part), "{got}");
    }
    assert_eq!(leases(&daemon), [("192.0.2.100".to_owned(), "desk".to_owned())]);
    assert!(daemon.shows("dhcp").contains("desk"));
    // Killed, it knows the lease, and gives the address to no other.
    daemon.kill_and_go_on().wait().unwrap();
    let daemon = lab.start();
    assert_eq!(leases(&daemon).len(), 1);
    assert!(udhcpc(&lab, "-x 0x3d:01aabbccddeeff").contains("ip=192.0.2.101"));
    assert!(udhcpc(&lab, "").contains("ip=192.0.2.100"));
    // The settings change while it runs; leases stay.
    lab.write(&config(&lab, &said.replace("600", "1200")));
    assert!(daemon.shows("reload").contains("a DHCP server as configured"));
    assert!(udhcpc(&lab, "").contains("ip=192.0.2.100") && leases(&daemon).len() == 2);
    lab.write(&lab.config(""));
    assert!(daemon.shows("reload").contains("no DHCP server"));
    assert!(daemon.end(Signal::TERM));
}

fn dhclient_gets_an_address_renews_it_and_releases_it() {
    if !has("dhclient", "isc-dhcp-client") {
        return;
    }
    let Some(lab) = Lab::new("dhclient", Wire::Veth { queues: 1 }) else { return };
    lab.write(&config(&lab, "pool = \"192.0.2.100-192.0.2.199\"\nlease_s = 60"));
    let daemon = lab.start();
    without_address(&lab);
    let folder = lab.folder().display().to_string();
    let script = lab.folder().join("script");
    let text = "#!/bin/sh\n[ \"$reason\" = BOUND ] && ip addr add $new_ip_address/24 dev far\nexit 0\n";
    std::fs::write(&script, text).unwrap();
    on_host(&lab, &format!("chmod +x {}", script.display()));
    let dhclient =
        format!("dhclient -4 -1 -sf {folder}/script -lf {folder}/client -pf {folder}/pid -cf /dev/null");
    on_host(&lab, &format!("{dhclient} far"));
    let file = std::fs::read_to_string(lab.folder().join("client")).unwrap();
    assert!(file.contains("fixed-address 192.0.2.100;"), "{file}");
    assert!(file.contains("option routers 192.0.2.1;"), "{file}");
    assert_eq!(leases(&daemon).len(), 1);
    on_host(&lab, &format!("{dhclient} -r far"));
    until("the lease is released", || leases(&daemon).is_empty());
}

fn an_address_that_another_host_uses_is_not_given() {
    if !has("udhcpc", "udhcpc") {
        return;
    }
    let Some(lab) = Lab::new("inuse", Wire::Veth { queues: 1 }) else { return };
    lab.write(&config(&lab, "pool = \"192.0.2.2-192.0.2.9\""));
    let daemon = lab.start();
    // The host has 192.0.2.2.
    assert!(udhcpc(&lab, "").contains("ip=192.0.2.3"));
    assert_eq!(daemon.json("dhcp lan")["servers"][0]["counters"]["conflicts"], 1);
}

fn leases_that_cannot_be_written_are_not_given_and_a_folder_that_is_not_there_is_refused() {
    if !has("udhcpc", "udhcpc") {
        return;
    }
    let Some(lab) = Lab::new("nodisk", Wire::Veth { queues: 1 }) else { return };
    lab.write(&config(&lab, "").replace("/leases\"", "/nowhere/leases\""));
    let said = lab.start_in_vain();
    assert!(String::from_utf8_lossy(&said.stderr).contains("cannot keep leases in"), "{said:?}");
    assert_eq!(said.status.code(), Some(2));
}

/// A server of others in the host's namespace, until it is dropped.
struct Server(std::process::Child);

impl Server {
    fn start(lab: &Lab, program: &str) -> Self {
        let folder = lab.folder().display().to_string();
        let script = match program {
            "dnsmasq" => format!(
                "exec dnsmasq -d -C /dev/null --port=0 --interface=far --bind-interfaces --user=root --no-ping \\
                 --dhcp-range=192.0.2.50,192.0.2.59,120 --dhcp-option=6,192.0.2.53 --domain=isp.example \\
                 --dhcp-leasefile={folder}/dnsmasq --pid-file="
            ),
            _ => {
                let conf = format!(
                    "start 192.0.2.50\nend 192.0.2.59\ninterface far\nlease_file {folder}/udhcpd\n\
                     pidfile {folder}/udhcpd.pid\nopt router 192.0.2.2\nopt subnet 255.255.255.0\n\
                     opt dns 192.0.2.53\nopt domain isp.example\nopt lease 120\n"
                );
                std::fs::write(lab.folder().join("udhcpd.conf"), conf).unwrap();
                format!("touch {folder}/udhcpd && exec udhcpd -f {folder}/udhcpd.conf")
            }
        };
        let mut command = Command::new("sh");
        let command = lab.host().put(command.args(["-c", &script])).unwrap();
        Self(command.stderr(std::process::Stdio::null()).stdout(std::process::Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn an_interface_gets_address_router_and_name_server_and_keeps_them_over_a_crash() {
    for (program, package) in [("dnsmasq", "dnsmasq-base"), ("udhcpd", "udhcpd")] {
        if !has(program, package) {
            continue;
        }
        let Some(lab) = Lab::new("client", Wire::Veth { queues: 1 }) else { return };
        let lease = lab.folder().join("lease").display().to_string();
        let addresses = lab.config("").replace("\"192.0.2.1/24\"", "\"dhcp\"");
        let config = format!("{addresses}[interface.dhcp]\nhostname = \"gate\"\nlease = \"{lease}\"\n");
        lab.write(&config);
        let server = Server::start(&lab, program);
        let mut daemon = lab.start();
        let address = |daemon: &Daemon<'_>| {
            let shown = daemon.json("dhcp lan");
            shown["clients"][0]["address"].as_str().map(str::to_owned)
        };
        until("it has an address", || address(&daemon).is_some());
        let first = address(&daemon).unwrap();
        let plain = first.split('/').next().unwrap().to_owned();
        assert!(first.starts_with("192.0.2.5") && first.ends_with("/24"), "{first}");
        until("the address is used", || lab.host_reaches(&plain));
        let shown = daemon.shows("dhcp");
        assert!(shown.contains("dns 192.0.2.53") && shown.contains("domain isp.example"), "{shown}");
        daemon.shows_line("route -n get 203.0.113.1", "gateway: 192.0.2.2");
        daemon.shows_line("ifconfig lan", &plain);
        // Another reload leaves the lease alone.
        lab.write(&format!("{config}\n[[service]]\nkind = \"echo\"\n"));
        daemon.shows("reload");
        assert_eq!(address(&daemon).as_deref(), Some(&*first));
        // Without its server, and killed: it goes on with what it has.
        drop(server);
        daemon.kill_and_go_on().wait().unwrap();
        daemon = lab.start();
        until("it has the same address", || address(&daemon).as_deref() == Some(&first));
        until("the address is used", || lab.host_reaches(&plain));
        daemon.shows_line("route -n get 203.0.113.1", "gateway: 192.0.2.2");
        lab.write(&lab.config(""));
        assert!(daemon.shows("reload").contains("no DHCP client"));
        assert!(!lab.host_reaches(&plain) && !daemon.shows("ifconfig lan").contains(&plain));
        assert!(!daemon.run("route -n get 203.0.113.1").1.contains("gateway: 192.0.2.2"));
        assert!(daemon.end(Signal::TERM));
    }
}

fn a_host_gets_an_address_from_a_server_behind_a_relay_which_names_its_link() {
    if !has("dnsmasq", "dnsmasq-base") || !has("udhcpc", "udhcpc") {
        return;
    }
    let Some(lab) = Lab::new("relay", Wire::Veth { queues: 1 }) else { return };
    let lan = "[[interface]]\nname = \"office\"\ndevice = \"tap:pt1\"\naddress = \"10.9.0.1/24\"\n\
               [interface.dhcp_relay]\nserver = \"192.0.2.2\"\ncircuit_id = true\n";
    lab.write(&format!("forwarding = true\n{}", lab.config(lan)));
    let daemon = lab.start();
    lab.router().netlink().unwrap().set_up("pt1", true).unwrap();
    let folder = lab.folder().display().to_string();
    // The address is given only to hosts of the link that the relay names.
    on_host(&lab, "ip route add 10.9.0.0/24 via 192.0.2.1");
    let mut command = Command::new("dnsmasq");
    command.args([
        "-d",
        "-C",
        "/dev/null",
        "--port=0",
        "--interface=far",
        "--bind-interfaces",
        "--user=root",
    ]);
    command.args(["--no-ping", "--dhcp-circuitid=set:office,office", "--pid-file="]);
    command.args(["--dhcp-range=tag:office,10.9.0.50,10.9.0.59,255.255.255.0,120"]);
    command.arg(format!("--dhcp-leasefile={folder}/dnsmasq"));
    let command = lab.host().put(&mut command).unwrap();
    let quiet = || std::process::Stdio::null();
    let _server = Server(command.stderr(quiet()).stdout(quiet()).spawn().unwrap());
    let script = lab.folder().join("script");
    std::fs::write(&script, "#!/bin/sh\n[ \"$1\" = bound ] && echo \"ip=$ip router=$router\"\nexit 0\n")
        .unwrap();
    on_host(&lab, &format!("chmod +x {}", script.display()));
    let mut udhcpc = Command::new("udhcpc");
    udhcpc.args(["-i", "pt1", "-n", "-q", "-f", "-t", "5", "-T", "1", "-s"]).arg(&script);
    let got = lab.router().put(&mut udhcpc).unwrap().output().unwrap();
    let text = String::from_utf8_lossy(&got.stdout).into_owned();
    assert!(text.contains("ip=10.9.0.5") && text.contains("router="), "{got:?} {}", daemon.shows("dhcp"));
    let shown = daemon.json("dhcp office");
    let count = |name: &str| shown["relays"][0][name].as_u64().unwrap();
    assert!(count("requests") >= 2 && count("replies") >= 2 && count("ignored") == 0, "{shown}");
    assert!(daemon.shows("dhcp").contains("relay 10.9.0.1 to 192.0.2.2"));
    lab.write(&format!("forwarding = true\n{}", lab.config("")));
    assert!(daemon.shows("reload").contains("interface office removed"));
    assert!(daemon.end(Signal::TERM));
}

harness::tests![
    a_host_gets_an_address_from_a_server_behind_a_relay_which_names_its_link,
    an_interface_gets_address_router_and_name_server_and_keeps_them_over_a_crash,
    udhcpc_gets_an_address_with_all_that_belongs_to_it_and_the_same_again_after_a_crash,
    dhclient_gets_an_address_renews_it_and_releases_it,
    an_address_that_another_host_uses_is_not_given,
    leases_that_cannot_be_written_are_not_given_and_a_folder_that_is_not_there_is_refused,
];
