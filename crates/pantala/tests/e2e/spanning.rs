//! Spanning tree with the kernel's bridge, which speaks STP alone: two links between both, of which one must be blocked.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::process::{Child, Command, Stdio};

use dev::netns::Netns;
use pantala::api::{StpInfo, StpMember};

use crate::lab::{Attach, Family, Lab, Link, enable_ipv6};
use crate::need;
use crate::pantala::{Folder, Pantala};
use crate::socket::ping;
use crate::wait::{until, within};

/// Twice the forward delay, the maximum age, and some units.
const CONVERGED: Duration = Duration::from_secs(40);

/// Less than the time after which missing units are noticed: three times the hello time.
const SOON: Duration = Duration::from_millis(2500);

fn addr(family: Family, host: u16) -> IpAddr {
    let [_, small] = host.to_be_bytes();
    family.pick(Ipv4Addr::new(10, 98, 0, small).into(), Ipv6Addr::new(0xfd98, 0, 0, 0, 0, 0, 0, host).into())
}

fn output(netns: &Netns, words: &str) -> String {
    let output = netns.run(|| Command::new("ip").args(words.split(' ')).output()).unwrap().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The state of a port of the kernel's bridge: `forwarding`, `blocking`.
fn kernel_state(netns: &Netns, port: &str) -> String {
    let shown: serde_json::Value =
        serde_json::from_str(&output(netns, &format!("-json -details link show dev {port}"))).unwrap();
    shown[0]["linkinfo"]["info_slave_data"]["state"].as_str().unwrap_or_default().to_owned()
}

fn tree(lab: &Lab) -> (StpInfo, Vec<StpMember>) {
    let bridge = lab.pantala().interface("bridge0").device.unwrap().bridge.unwrap();
    let members = bridge.members.into_iter().filter_map(|member| member.stp);
    (bridge.stp.unwrap(), members.collect())
}

/// Captures the units on a link of the kernel's bridge.
fn capture(netns: &Netns, file: &str) -> Child {
    let mut tshark = Command::new("tshark");
    tshark.args([
        "-q",
        "-n",
        "-i",
        "eth0",
        "-f",
        "ether dst 01:80:c2:00:00:00",
        "-a",
        "duration:12",
        "-w",
        file,
    ]);
    tshark.stdout(Stdio::null()).stderr(Stdio::null());
    let child = netns.run(|| tshark.spawn()).unwrap().unwrap();
    until("tshark captures", || std::fs::metadata(file).ok().filter(|meta| meta.len() > 0));
    child
}

fn dissected(file: &str, filter: &str) -> Vec<String> {
    let output = Command::new("tshark").args(["-n", "-r", file, "-Y", filter]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// pantala's bridge with two links to the kernel's bridge, and one to a host.
fn start(name: &str, priority: u16, kernel_priority: u16) -> Option<Lab> {
    let mut lab = Lab::without_pantala(name, &[(); 3].map(|()| Link::new(Attach::Native)))?;
    let section = |host: &crate::lab::Host| {
        format!(
            "[[interface]]\nname = \"{}\"\ndevice = \"af_xdp:{},mode=native\"\n",
            host.ifname(),
            host.outside()
        )
    };
    let ports: String = lab.hosts.iter().map(section).collect();
    let names: Vec<_> = lab.hosts.iter().map(crate::lab::Host::ifname).collect();
    let bridge = format!(
        "[[interface]]\nname = \"bridge0\"\ndevice = \"bridge:{}\"\nstp = true\nstp_priority = {priority}\n\
         hellotime = 1\nmaxage = 6\nfwddelay = 4\n",
        names.join(",")
    );
    let [first, second, ..] = &*lab.hosts else { return None };
    let mut netlink = second.netns.netlink().unwrap();
    netlink.set_up("eth0", false).unwrap();
    netlink.rename("eth0", "eth1").unwrap();
    netlink.move_to("eth1", &first.netns).unwrap();
    let kernel = &first.netns;
    output(
        kernel,
        &format!(
            "link add br0 type bridge stp_state 1 hello_time 100 max_age 600 forward_delay 400 priority {kernel_priority}"
        ),
    );
    for port in ["eth0", "eth1"] {
        output(kernel, &format!("address flush dev {port}"));
        output(kernel, &format!("link set {port} master br0 up"));
    }
    output(kernel, "link set br0 up");
    enable_ipv6(kernel, "br0");
    for (netns, device, host) in [(kernel, "br0", 1), (&lab.hosts[2].netns, "eth0", 3)] {
        for family in Family::BOTH {
            let own = addr(family, host);
            output(netns, &format!("address add {own}/{} dev {device} nodad", family.pick(24, 64)));
        }
    }
    lab.pantala = Some(Pantala::start(&lab.router, &(ports + &bridge)));
    lab.attach();
    Some(lab)
}

fn reaches(lab: &Lab) -> bool {
    Family::BOTH.into_iter().all(|family| ping(&lab.hosts[2].netns, addr(family, 1), 1) == 1)
}

fn the_kernels_bridge_and_pantalas_find_one_tree_and_another_when_a_link_is_cut() {
    const NAME: &str =
        "spanning::the_kernels_bridge_and_pantalas_find_one_tree_and_another_when_a_link_is_cut";
    if !["ip", "tshark"].into_iter().all(need::program) {
        return;
    }
    for (priority, kernel_priority) in [(4096, 32768), (32768, 4096)] {
        let Some(lab) = start(NAME, priority, kernel_priority) else { return };
        let kernel = &lab.hosts[0].netns;
        let folder = Folder::new();
        // On a link of the kernel's bridge pantala speaks STP, on that of the host RSTP.
        let files = ["stp.pcapng", "rstp.pcapng"].map(|name| folder.file(name).display().to_string());
        let captures = [(kernel, &files[0]), (&lab.hosts[2].netns, &files[1])];
        let captures = captures.map(|(netns, file)| capture(netns, file));
        let is_root = priority < kernel_priority;
        assert!(
            within(CONVERGED, || reaches(&lab).then_some(())).is_some(),
            "{}",
            lab.pantala().shows("ifconfig bridge0")
        );
        let (stp, members) = tree(&lab);
        assert_eq!(stp.root == stp.id, is_root, "{stp:?}");
        assert_eq!(stp.root_port.is_none(), is_root);
        assert!(
            members[..2].iter().all(|member| member.protocol == "stp"),
            "the kernel does not know RSTP: {members:?}"
        );
        let roles: Vec<&str> = members[..2].iter().map(|member| &*member.role).collect();
        if is_root {
            assert_eq!(roles, ["designated"; 2]);
            let blocked = || {
                ["eth0", "eth1"].into_iter().filter(|port| kernel_state(kernel, port) == "blocking").count()
            };
            assert!(within(CONVERGED, || (blocked() == 1).then_some(())).is_some());
        } else {
            assert!(roles.contains(&"root") && roles.contains(&"alternate"), "{roles:?}");
            let blocked = members[..2].iter().filter(|member| member.state == "discarding").count();
            assert_eq!(blocked, 1, "{members:?}");
        }
        captures.into_iter().for_each(|mut tshark| assert!(tshark.wait().unwrap().success()));
        // Without a loop a broadcast does not go round: one question, few frames.
        assert_eq!(lab.pantala().dropped("bridge_storm"), 0);
        // The link in use is cut.
        let used = if is_root {
            if kernel_state(kernel, "eth0") == "forwarding" { "eth0" } else { "eth1" }
        } else if roles[0] == "root" {
            "eth0"
        } else {
            "eth1"
        };
        output(kernel, &format!("link set {used} down"));
        // Without its carrier the port leaves the tree, before units are missed.
        let port = usize::from(used == "eth1");
        let role = || tree(&lab).1.get(port).map(|member| member.role.clone());
        assert!(within(SOON, || (role()? == "disabled").then_some(())).is_some(), "{:?}", role());
        assert!(
            within(CONVERGED, || reaches(&lab).then_some(())).is_some(),
            "{}",
            lab.pantala().shows("ifconfig bridge0")
        );
        for (file, units) in files.iter().zip(["stp.version == 0", "stp.version == 2"]) {
            assert!(!dissected(file, units).is_empty(), "{units}");
            assert_eq!(dissected(file, "_ws.malformed || _ws.expert.severity == error"), [""; 0]);
        }
        assert_eq!(lab.pantala().dropped("bpdu_malformed"), 0);
    }
}

harness::tests![the_kernels_bridge_and_pantalas_find_one_tree_and_another_when_a_link_is_cut];
