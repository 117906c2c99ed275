//! A session with an access concentrator carries NAT, TCP and a delegated prefix, and comes back whatever ends it.

use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::Signal;
use serde_json::Value;

use crate::daemon::dhcp::has;
use crate::daemon::lab::{Daemon, Lab, Wire, until};

/// The access concentrator, in the host's namespace, until it is dropped.
struct Concentrator {
    process: Child,
    said: Receiver<String>,
}

impl Concentrator {
    fn start(lab: &Lab, auth: &str) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/integration/daemon/pppoe/concentrator.py");
        let mut command = Command::new("python3");
        command.args([script, "far", "isp", auth]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = lab.host().put(&mut command).unwrap().spawn().unwrap();
        let (tell, said) = channel();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| tell.send(line)));
        let own = Self { process, said };
        own.says("ready");
        let up = "ip link set isp up mtu 1500 && ip addr add 10.64.0.1/24 dev isp && ip -6 addr flush dev isp && \
                  ip -6 addr add fe80::1/64 dev isp nodad && ip -6 route add 2001:db8::/32 dev isp";
        let mut command = Command::new("sh");
        assert!(lab.host().put(command.args(["-c", up])).unwrap().status().unwrap().success());
        own
    }

    /// Waits for a line that contains `words`; answers it.
    fn says(&self, words: &str) -> String {
        let mut heard = Vec::new();
        while let Ok(line) = self.said.recv_timeout(Duration::from_secs(20)) {
            if line.contains(words) {
                return line;
            }
            heard.push(line);
        }
        panic!("the concentrator did not say `{words}`, but {heard:#?}")
    }

    /// The number of the next session.
    fn session(&self) -> u64 {
        self.says("session").rsplit(' ').next().unwrap().parse().unwrap()
    }

    fn says_now(&self) -> Vec<String> {
        self.said.try_iter().collect()
    }

    fn ends_the_session(&mut self) {
        self.process.stdin.as_mut().unwrap().write_all(b"padt\n").unwrap();
    }
}

impl Drop for Concentrator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A NAT gateway between a session and a TAP, whose kernel end in the router's namespace is a host.
fn config(lab: &Lab) -> String {
    let folder = lab.folder().display().to_string();
    let (socket, device) = (lab.socket().display().to_string(), lab.device());
    std::fs::write(lab.folder().join("password"), "secret\n").unwrap();
    format!(
        "socket = \"{socket}\"\nforwarding = true\n\
         [[interface]]\nname = \"up\"\ndevice = \"{device}\"\n\
         [[interface]]\nname = \"wan\"\ndevice = \"pppoe:up,ac=test-ac\"\nautoconf = true\n\
         [interface.dhcp6]\naddress = false\nlease = \"{folder}/lease6\"\n\
         [interface.ppp]\nuser = \"office\"\npassword_file = \"{folder}/password\"\necho_interval = 1\necho_failures = 3\n\
         [[interface]]\nname = \"lan\"\ndevice = \"tap:pt1\"\naddress = \"192.168.7.1/24\"\nprefix_from = \"wan\"\n\
         [interface.ra]\n\
         [firewall]\nrules_text = '''\ndisable one_pass\nnat 1 config if wan\n\
         add 100 nat 1 ip4 from any to any in recv wan\nadd 200 nat 1 ip4 from any to any out xmit wan\n\
         add 300 allow ip from any to any\n'''\n"
    )
}

/// A lab with a daemon that has a configuration, or `None` if it cannot be.
fn lab(test: &str) -> Option<Lab> {
    if !has("python3", "python3") {
        return None;
    }
    let lab = Lab::new(test, Wire::Veth { queues: 1 })?;
    lab.write(&config(&lab));
    Some(lab)
}

fn pppoe(daemon: &Daemon<'_>) -> Value {
    daemon.interface_named("wan")["device"]["pppoe"].clone()
}

/// Waits until the session of this number carries both families.
fn opens(daemon: &Daemon<'_>, concentrator: &Concentrator, session: u64) {
    concentrator.says("carries");
    concentrator.says("carries");
    until("the session is open", || {
        let info = pppoe(daemon);
        info["phase"] == "open"
            && info["session"] == session
            && info["peers"].as_array().is_some_and(|all| all.len() == 2)
    });
}

/// Brings the host on the LAN up, with a route to the provider.
fn host_is_up(lab: &Lab) {
    let up = "ip link set pt1 up && ip addr add 192.168.7.2/24 dev pt1 && ip route add 10.64.0.0/24 via 192.168.7.1";
    let mut command = Command::new("sh");
    assert!(lab.router().put(command.args(["-c", up])).unwrap().status().unwrap().success());
}

/// Carries a megabyte from the LAN to the provider and back; answers the address that the provider has seen.
fn carries_a_megabyte(lab: &Lab) -> String {
    let bytes: Vec<u8> = (0..1 << 20).map(|n: u32| n.to_be_bytes()[2] ^ n.to_be_bytes()[3]).collect();
    let listener = lab.host().run(|| TcpListener::bind("10.64.0.1:7000")).unwrap().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, from) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
        from.ip().to_string()
    });
    let to = "10.64.0.1:7000".parse().unwrap();
    let patience = Duration::from_secs(20);
    let mut stream = lab.router().run(|| TcpStream::connect_timeout(&to, patience)).unwrap().unwrap();
    stream.set_read_timeout(Some(patience)).unwrap();
    stream.write_all(&bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == bytes, "{} bytes of {} came back as they were", back.len(), bytes.len());
    server.join().unwrap()
}

fn a_session_carries_nat_tcp_router_advertisements_and_a_delegated_prefix() {
    for auth in ["pap", "chap"] {
        let Some(lab) = lab("pppoe") else { return };
        let concentrator = Concentrator::start(&lab, auth);
        let daemon = lab.start();
        let session = concentrator.session();
        assert_eq!(concentrator.says("user"), "user right");
        opens(&daemon, &concentrator, session);
        for line in [
            "mtu 1492",
            "inet 10.64.0.100 netmask 0xffffffff",
            &format!("pppoe: open session {session} ac test-ac"),
            "parent interface: up",
            "peer: 10.64.0.1 fe80::1",
            "dns: 10.64.0.53",
        ] {
            daemon.shows_line("ifconfig wan", line);
        }
        daemon.shows_line("route -n get 203.0.113.1", "interface: wan");
        daemon.shows_line("route -n get 2001:db8:ffff::1", "interface: wan");
        host_is_up(&lab);
        assert_eq!(carries_a_megabyte(&lab), "10.64.0.100", "the address of the session");
        // The prefix of the link, with the identifier that was negotiated; and that of the LAN.
        let own = || daemon.interface_named("wan")["addresses"].to_string();
        until("the link's prefix has made an address", || own().contains("2001:db8:77:0:"));
        let identifier = |prefix: &str| {
            let all = daemon.interface_named("wan")["addresses"].clone();
            let all: Vec<String> = all
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["address"].as_str().unwrap().to_owned())
                .collect();
            let addr = all.iter().find(|addr| addr.starts_with(prefix)).unwrap();
            addr.parse::<core::net::Ipv6Addr>().unwrap().segments()[4..].to_vec()
        };
        assert_eq!(identifier("2001:db8:77:0:"), identifier("fe80::"));
        until("the LAN has its prefix", || daemon.shows("ifconfig lan").contains("2001:db8:4400::1"));
        let said = concentrator.says_now();
        assert!(!said.iter().any(|line| line.contains("too-big")), "segments fit: {said:?}");
        assert!(daemon.end(Signal::TERM));
        concentrator.says("by the client");
    }
}

fn hosts_get_the_name_servers_that_the_provider_tells_in_the_session() {
    if !has("udhcpc", "udhcpc") {
        return;
    }
    let Some(lab) = Lab::new("pppoe-dns", Wire::Veth { queues: 1 }) else { return };
    let folder = lab.folder().display().to_string();
    let server = format!(
        "[interface.dhcp_server]\ndns = \"192.168.7.53\"\ndns_from = \"wan\"\nprobe = false\nleases = \"{folder}/leases\"\n[firewall]"
    );
    lab.write(&config(&lab).replace("[firewall]", &server));
    let concentrator = Concentrator::start(&lab, "pap");
    let daemon = lab.start();
    let session = concentrator.session();
    opens(&daemon, &concentrator, session);
    lab.router().netlink().unwrap().set_up("pt1", true).unwrap();
    let script = lab.folder().join("script");
    std::fs::write(&script, "#!/bin/sh\n[ \"$1\" = bound ] && echo \"dns=$dns.\"\nexit 0\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new("udhcpc");
    command.args(["-i", "pt1", "-n", "-q", "-f", "-s"]).arg(&script);
    let said = lab.router().put(&mut command).unwrap().output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    assert!(text.contains("dns=192.168.7.53 10.64.0.53."), "{text}");
    assert!(daemon.end(Signal::TERM));
}

fn a_session_comes_back_whatever_ends_it() {
    let Some(lab) = lab("pppoe-ends") else { return };
    let mut concentrator = Concentrator::start(&lab, "chap");
    let daemon = lab.start();
    host_is_up(&lab);
    let first = concentrator.session();
    opens(&daemon, &concentrator, first);
    // The access concentrator ends it.
    concentrator.ends_the_session();
    let second = concentrator.session();
    assert_eq!(second, first + 1);
    opens(&daemon, &concentrator, second);
    assert_eq!(pppoe(&daemon)["last_error"], "ended by the access concentrator");
    carries_a_megabyte(&lab);
    // It is gone without a word, and another one is there.
    drop(concentrator);
    daemon.says("no answer to LCP echo requests");
    assert!(!daemon.shows("ifconfig wan").contains("inet 10.64"), "the address has gone with the session");
    let concentrator = Concentrator::start(&lab, "pap");
    let third = concentrator.session();
    opens(&daemon, &concentrator, third);
    carries_a_megabyte(&lab);
    // The link flaps.
    lab.host().netlink().unwrap().set_up("far", false).unwrap();
    daemon.says("the interface below is down");
    lab.host().netlink().unwrap().set_up("far", true).unwrap();
    let fourth = concentrator.session();
    opens(&daemon, &concentrator, fourth);
    // Killed: the access concentrator learns from its own echo that the old session is gone.
    daemon.kill_and_go_on().wait().unwrap();
    let daemon = lab.start();
    let fifth = concentrator.session();
    opens(&daemon, &concentrator, fifth);
    host_is_up(&lab);
    assert_eq!(carries_a_megabyte(&lab), "10.64.0.100");
    assert!(daemon.end(Signal::TERM));
    assert_eq!(concentrator.says("ended"), format!("ended {fifth} by the client"));
}

fn a_wrong_password_is_shown_and_a_reload_mends_it() {
    let Some(lab) = lab("pppoe-denied") else { return };
    let concentrator = Concentrator::start(&lab, "chap");
    let good = config(&lab);
    std::fs::write(lab.folder().join("password"), "wrong\n").unwrap();
    let daemon = lab.start();
    concentrator.session();
    assert_eq!(concentrator.says("user"), "user wrong");
    daemon.says("authentication failed");
    daemon.shows_line("ifconfig wan", "last error: authentication failed");
    daemon.shows_line("ifconfig wan", "pppoe: waiting");
    lab.write(&good);
    std::fs::write(lab.folder().join("password"), "secret\n").unwrap();
    assert!(daemon.shows("reload").contains("PPP as configured"));
    // At once: the pause was for the old password.
    let session = concentrator.session();
    opens(&daemon, &concentrator, session);
    assert!(daemon.end(Signal::TERM));
}

fn a_session_ends_by_the_interface_that_it_was_over() {
    let Some(lab) = lab("pppoe-moved") else { return };
    let concentrator = Concentrator::start(&lab, "chap");
    let daemon = lab.start();
    let session = concentrator.session();
    opens(&daemon, &concentrator, session);
    let elsewhere = config(&lab).replace("pppoe:up,", "pppoe:lan,");
    lab.write(&elsewhere);
    daemon.shows("reload");
    assert_eq!(concentrator.says("ended"), format!("ended {session} by the client"));
    until("it looks for another one there", || pppoe(&daemon)["phase"] == "discovery");
    lab.write(&config(&lab));
    daemon.shows("reload");
    let session = concentrator.session();
    opens(&daemon, &concentrator, session);
    assert!(daemon.end(Signal::TERM));
}

fn a_session_is_made_by_a_command_whose_password_is_not_told_to_readers() {
    if !has("python3", "python3") {
        return;
    }
    let Some(lab) = Lab::new("pppoe-command", Wire::Veth { queues: 1 }) else { return };
    let (socket, device) = (lab.socket().display().to_string(), lab.device());
    lab.write(&format!("socket = \"{socket}\"\n[[interface]]\nname = \"up\"\ndevice = \"{device}\"\n"));
    let concentrator = Concentrator::start(&lab, "chap");
    let daemon = lab.start();
    daemon.shows("ifconfig wan create pppoedev up pppoeac test-ac authname office authkey secret");
    concentrator.session();
    assert_eq!(concentrator.says("user"), "user right");
    until("the session is open", || pppoe(&daemon)["phase"] == "open");
    daemon.shows_line("ifconfig wan", "inet 10.64.0.100");
    let (_, undo) = daemon.run("config undo");
    assert!(!undo.contains("secret"), "{undo}");
    concentrator.says("by the client");
    assert!(daemon.end(Signal::TERM));
}

harness::tests![
    a_session_is_made_by_a_command_whose_password_is_not_told_to_readers,
    a_session_carries_nat_tcp_router_advertisements_and_a_delegated_prefix,
    hosts_get_the_name_servers_that_the_provider_tells_in_the_session,
    a_session_comes_back_whatever_ends_it,
    a_wrong_password_is_shown_and_a_reload_mends_it,
    a_session_ends_by_the_interface_that_it_was_over,
];
