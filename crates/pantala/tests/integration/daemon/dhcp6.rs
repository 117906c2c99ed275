//! A provider's server delegates a prefix to us, of which our hosts get their addresses, and our server tells them the rest.

use core::net::IpAddr;
use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;

use crate::daemon::dhcp::has;
use crate::daemon::lab::{Daemon, Lab, Wire, until};

/// Kea as the provider's server, in the host's namespace, until it is dropped.
struct Kea(Child);

impl Kea {
    /// Delegates prefixes of 56 bits of `pool`, with these lifetimes, and forgets all before.
    fn start(lab: &Lab, pool: &str, [renew, rebind, preferred, valid]: [u32; 4]) -> Self {
        let folder = lab.folder().display().to_string();
        let conf = format!(
            r#"{{ "Dhcp6": {{
                "data-directory": "{folder}",
                "interfaces-config": {{ "interfaces": ["far"] }},
                "lease-database": {{ "type": "memfile", "persist": false }},
                "renew-timer": {renew}, "rebind-timer": {rebind},
                "preferred-lifetime": {preferred}, "valid-lifetime": {valid},
                "option-data": [
                    {{ "name": "dns-servers", "data": "2001:db8::53" }},
                    {{ "name": "domain-search", "data": "isp.example" }} ],
                "subnet6": [ {{
                    "subnet": "2001:db8::/64", "interface": "far",
                    "pools": [ {{ "pool": "2001:db8::1000-2001:db8::1fff" }} ],
                    "pd-pools": [ {{ "prefix": "{pool}", "prefix-len": 40, "delegated-len": 56 }} ] }} ]
            }} }}"#
        );
        Self::run(lab, &conf)
    }

    fn run(lab: &Lab, conf: &str) -> Self {
        let folder = lab.folder().display().to_string();
        std::fs::write(lab.folder().join("kea.conf"), conf).unwrap();
        let settled = || {
            let all = lab.host().netlink().unwrap().addresses().unwrap();
            let is_ready = |addr: &IpAddr| matches!(addr, IpAddr::V6(v6) if v6.is_unicast_link_local());
            all.iter().any(|own| !own.tentative && is_ready(&own.net.addr()))
        };
        until("the host has a link-local address", settled);
        let mut command = Command::new("kea-dhcp6");
        command.args(["-c", &format!("{folder}/kea.conf")]);
        command.envs([("KEA_PIDFILE_DIR", &folder), ("KEA_LOCKFILE_DIR", &folder)]);
        let command = lab.host().put(&mut command).unwrap();
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Kea {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A router between the provider's wire and a TAP, whose kernel end in the router's namespace is a host.
fn config(lab: &Lab, client: &str) -> String {
    let folder = lab.folder().display().to_string();
    let (socket, device) = (lab.socket().display().to_string(), lab.device());
    format!(
        "socket = \"{socket}\"\nforwarding = true\n\
         [[interface]]\nname = \"wan\"\ndevice = \"{device}\"\n\
         [interface.dhcp6]\nlease = \"{folder}/lease6\"\n{client}\n\
         [[interface]]\nname = \"lan\"\ndevice = \"tap:pt1\"\nprefix_from = \"wan\"\nprefix_subnet = 5\n\
         [interface.ra]\ninterval_s = 4\ndns_from = \"wan\"\n\
         [interface.dhcp6_server]\ndns_from = \"wan\"\n"
    )
}

/// Lets the kernel's end of the LAN take addresses.
fn host_is_up(lab: &Lab) {
    lab.router().run(|| dev::sys::sysctl::set("ipv6.conf.pt1.accept_ra", 2)).unwrap().unwrap();
    lab.router().netlink().unwrap().set_up("pt1", true).unwrap();
    until("the LAN's host has a link-local address that no other host has", || {
        let text = host_addresses(lab);
        text.contains("fe80") && !text.contains("tentative")
    });
}

/// The prefix that is delegated to us.
fn delegated(daemon: &Daemon<'_>) -> Option<String> {
    let leases = daemon.json("dhcp wan")["clients6"][0]["leases"].clone();
    let mut all = leases.as_array()?.iter().filter_map(|lease| lease["prefix"].as_str().map(str::to_owned));
    all.rfind(|net| net.ends_with("/56"))
}

/// The first four groups of addresses in a subnet of a prefix of 56 bits.
fn subnet(delegated: &str, number: u16) -> String {
    let net: ipnet::Ipv6Net = delegated.parse().unwrap();
    let [a, b, c, d, ..] = net.network().segments();
    format!("{a:x}:{b:x}:{c:x}:{:x}:", d | number)
}

/// Addresses of the LAN's host, and whether they are deprecated, as iproute2 shows them.
fn host_addresses(lab: &Lab) -> String {
    let mut command = Command::new("ip");
    let shown =
        lab.router().put(command.args(["-6", "addr", "show", "dev", "pt1"])).unwrap().output().unwrap();
    String::from_utf8(shown.stdout).unwrap()
}

fn on_lan(lab: &Lab, script: &str) -> Output {
    let mut command = Command::new("sh");
    lab.router().put(command.args(["-c", script])).unwrap().output().unwrap()
}

/// Runs dhclient on the LAN's host, and answers all that it and its script say.
fn dhclient(lab: &Lab, options: &str, script: &str) -> String {
    let folder = lab.folder().display().to_string();
    std::fs::write(lab.folder().join("script"), format!("#!/bin/sh\n{script}\nexit 0\n")).unwrap();
    let run = format!(
        "timeout 15 dhclient -6 {options} -sf {folder}/script -lf {folder}/l -pf {folder}/p -cf /dev/null"
    );
    let said = on_lan(lab, &format!("chmod +x {folder}/script && {run} pt1"));
    String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr)
}

fn a_delegated_prefix_numbers_the_lan_outlives_a_crash_and_gives_way_to_another_one() {
    if !has("kea-dhcp6", "kea-dhcp6-server") {
        return;
    }
    let Some(lab) = Lab::new("pd", Wire::Veth { queues: 1 }) else { return };
    lab.write(&config(&lab, "prefix_len = 56"));
    let daemon = lab.start();
    let kea = Kea::start(&lab, "2001:db8:4400::", [6, 300, 600, 900]);
    host_is_up(&lab);
    until("a prefix is delegated", || delegated(&daemon).is_some());
    let first = delegated(&daemon).unwrap();
    assert!(first.starts_with("2001:db8:44"), "{first}");
    let old = subnet(&first, 5);
    until("the host has an address in the subnet", || host_addresses(&lab).contains(&old));
    daemon.shows_line("ifconfig lan", &format!("{old}:1"));
    // All else of the prefix is unreachable, and the subnet is not.
    let elsewhere = format!("{}:9", subnet(&first, 0x77));
    daemon.shows_line(&format!("route -n get {elsewhere}"), "flags: <UP,REJECT");
    daemon.shows_line(&format!("route -n get {old}:9"), "interface: lan");
    let shown = daemon.shows("dhcp");
    assert!(shown.contains("dns 2001:db8::53") && shown.contains("search isp.example"), "{shown}");
    // Without its provider, and killed: it goes on with what it has.
    drop(kea);
    daemon.kill_and_go_on().wait().unwrap();
    let daemon = lab.start();
    host_is_up(&lab);
    until("it has the same prefix", || delegated(&daemon).as_deref() == Some(&*first));
    until("the host has an address in the subnet", || host_addresses(&lab).contains(&old));
    // The provider has forgotten all, and has other prefixes.
    let _kea = Kea::start(&lab, "2001:db8:5500::", [6, 300, 600, 900]);
    until("another prefix is delegated", || {
        delegated(&daemon).is_some_and(|net| net.starts_with("2001:db8:55"))
    });
    let new = subnet(&delegated(&daemon).unwrap(), 5);
    until("the host prefers the new prefix", || {
        let text = host_addresses(&lab);
        let state = |prefix: &str| {
            text.lines().find(|line| line.contains(prefix)).map(|line| line.contains("deprecated"))
        };
        (state(&old), state(&new)) == (Some(true), Some(false))
    });
    lab.write(&lab.config(""));
    daemon.shows("reload");
    assert!(!daemon.run(&format!("route -n get {elsewhere}")).1.contains("REJECT"));
    assert!(daemon.end(Signal::TERM));
}

fn a_lease_is_asked_about_when_the_wire_carries_again() {
    if !has("kea-dhcp6", "kea-dhcp6-server") {
        return;
    }
    let Some(lab) = Lab::new("flap", Wire::Veth { queues: 1 }) else { return };
    lab.write(&config(&lab, "prefix_len = 56"));
    let daemon = lab.start();
    let kea = Kea::start(&lab, "2001:db8:4400::", [60, 300, 600, 900]);
    until("a prefix is delegated", || delegated(&daemon).is_some());
    let first = delegated(&daemon).unwrap();
    // The wire is pulled, and put into a socket behind which no server is.
    drop(kea);
    let state = || daemon.json("dhcp wan")["clients6"][0]["state"].clone();
    assert_eq!(state(), "bound");
    let wire = |is_up| lab.host().netlink().unwrap().set_up("far", is_up).unwrap();
    wire(false);
    until("no carrier", || daemon.interface_named("wan")["link"]["active"] == false);
    wire(true);
    daemon.says("the link may be another one");
    until("it is asked about", || state() == "confirming");
    assert_eq!(delegated(&daemon).as_deref(), Some(&*first), "it is in force meanwhile");
    // Another server, which knows nothing of it.
    let _kea = Kea::start(&lab, "2001:db8:5500::", [60, 300, 600, 900]);
    until("the lease of this link is in force", || {
        delegated(&daemon).is_some_and(|net| net.starts_with("2001:db8:55"))
    });
    assert!(daemon.end(Signal::TERM));
}

fn a_host_gets_the_providers_name_servers_from_our_server_and_a_lease_is_given_back_at_the_end() {
    if !has("kea-dhcp6", "kea-dhcp6-server") || !has("dhclient", "isc-dhcp-client") {
        return;
    }
    let Some(lab) = Lab::new("dhcp6", Wire::Veth { queues: 1 }) else { return };
    lab.write(&config(&lab, "release = true\nrapid_commit = true"));
    let daemon = lab.start();
    let _kea = Kea::start(&lab, "2001:db8:4400::", [300, 400, 600, 900]);
    host_is_up(&lab);
    until("a prefix is delegated", || delegated(&daemon).is_some());
    let old = subnet(&delegated(&daemon).unwrap(), 5);
    until("the host has an address in the subnet", || host_addresses(&lab).contains(&old));
    let script = "echo \"dns=$new_dhcp6_name_servers search=$new_dhcp6_domain_search\"";
    let text = dhclient(&lab, "-S -1 -d", script);
    assert!(text.contains("dns=2001:db8::53 search=isp.example"), "{text}");
    let shown = daemon.json("dhcp lan");
    assert_eq!(shown["servers6"][0]["counters"]["replies"], 1, "{shown}");
    assert!(daemon.end(Signal::TERM));
    let kept = std::fs::read_to_string(lab.folder().join("lease6")).unwrap();
    assert!(!kept.contains("lease "), "{kept}");
}

fn a_host_gets_an_ipv6_address_from_a_server_behind_a_relay() {
    if !has("kea-dhcp6", "kea-dhcp6-server") || !has("dhclient", "isc-dhcp-client") {
        return;
    }
    let Some(lab) = Lab::new("relay6", Wire::Veth { queues: 1 }) else { return };
    let lan = "[[interface]]\nname = \"office\"\ndevice = \"tap:pt1\"\naddress = \"2001:db8:9::1/64\"\n\
               dhcp6_relay = \"2001:db8::2\"\n";
    lab.write(&format!("forwarding = true\n{}", lab.config(lan)));
    let daemon = lab.start();
    host_is_up(&lab);
    // The reply goes to the relay's address on the link of its clients.
    let mut command = Command::new("ip");
    command.args(["-6", "route", "add", "2001:db8:9::/64", "via", "2001:db8::1"]);
    assert!(lab.host().put(&mut command).unwrap().status().unwrap().success());
    let folder = lab.folder().display().to_string();
    let conf = format!(
        r#"{{ "Dhcp6": {{
            "data-directory": "{folder}",
            "interfaces-config": {{ "interfaces": ["far/2001:db8::2"] }},
            "lease-database": {{ "type": "memfile", "persist": false }},
            "subnet6": [ {{ "subnet": "2001:db8:9::/64", "pools": [ {{ "pool": "2001:db8:9::50-2001:db8:9::59" }} ] }} ]
        }} }}"#
    );
    let _kea = Kea::run(&lab, &conf);
    let text = dhclient(
        &lab,
        "-1 -d -N",
        "[ -n \"$new_ip6_address\" ] && echo \"got=$new_ip6_address\" && kill $PPID",
    );
    assert!(text.contains("got=2001:db8:9::5"), "{text} {}", daemon.shows("dhcp"));
    let shown = daemon.json("dhcp office");
    let count = |name: &str| shown["relays6"][0][name].as_u64().unwrap();
    assert!(count("requests") >= 2 && count("replies") >= 2 && count("ignored") == 0, "{shown}");
    assert!(daemon.end(Signal::TERM));
}

/// The delegations of our server: a router's address and its first prefix.
fn delegations(daemon: &Daemon<'_>) -> Vec<(String, String)> {
    let shown = daemon.json("dhcp lan")["servers6"][0]["delegations"].clone();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let all = shown.as_array().unwrap();
    all.iter().map(|own| (text(&own["router"]), text(&own["prefixes"][0]))).collect()
}

/// Whether a datagram of the provider reaches an address behind the LAN's router.
fn reaches(lab: &Lab, to: IpAddr) -> bool {
    let listener = lab.router().run(|| UdpSocket::bind((to, 0))).unwrap().unwrap();
    listener.set_read_timeout(Some(core::time::Duration::from_millis(300))).unwrap();
    let sender = lab.host().run(|| UdpSocket::bind("[::]:0")).unwrap().unwrap();
    let _ = sender.send_to(b"behind", listener.local_addr().unwrap());
    listener.recv(&mut [0; 16]).is_ok()
}

/// Runs a shell script with the provider.
fn on_wan(lab: &Lab, script: &str) {
    let mut command = Command::new("sh");
    let said = lab.host().put(command.args(["-c", script])).unwrap().output().unwrap();
    assert!(said.status.success(), "{script}: {said:?}");
}

/// Lets the kernel's end of the LAN take addresses, with the same link-local address each time.
fn router_is_up(lab: &Lab) {
    on_lan(lab, "ip link set pt1 down; ip link set pt1 address 02:00:00:00:00:99");
    host_is_up(lab);
}

/// Runs dhcpcd on the LAN's host until it has a prefix; its files are where others of the machine would be.
fn dhcpcd(lab: &Lab) -> Output {
    let folder = lab.folder().display().to_string();
    let conf = "interface pt1\nnoipv6rs\nipv6only\nduid\nia_pd 1 -\n";
    std::fs::write(lab.folder().join("dhcpcd.conf"), conf).unwrap();
    let script =
        "#!/bin/sh\n[ -n \"$new_dhcp6_ia_pd1_prefix1\" ] && echo \"got=$new_dhcp6_ia_pd1_prefix1\"\nexit 0\n";
    std::fs::write(lab.folder().join("script"), script).unwrap();
    let run = format!(
        "mount -t tmpfs t /run; mkdir -p /run/dhcpcd; mount -t tmpfs t /var/lib/dhcpcd; mount -t sysfs t /sys\n\
         timeout 20 dhcpcd --nobackground --oneshot -6 --config {folder}/dhcpcd.conf --script {folder}/script pt1"
    );
    let mut command = Command::new("unshare");
    lab.router().put(command.args(["--mount", "sh", "-c", &run])).unwrap().output().unwrap()
}

fn a_router_behind_us_gets_a_part_of_the_delegated_prefix_and_what_is_in_it_reaches_the_router() {
    if !has("kea-dhcp6", "kea-dhcp6-server")
        || !has("dhclient", "isc-dhcp-client")
        || !has("dhcpcd", "dhcpcd-base")
    {
        return;
    }
    let Some(lab) = Lab::new("delegate", Wire::Veth { queues: 1 }) else { return };
    let folder = lab.folder().display().to_string();
    let server = format!(
        "[interface.dhcp6_server]\ndelegate_from = \"wan\"\ndelegate_len = 60\nleases = \"{folder}/leases6\"\n"
    );
    lab.write(&config(&lab, "prefix_len = 56").replace("[interface.dhcp6_server]\n", &server));
    let daemon = lab.start();
    let kea = Kea::start(&lab, "2001:db8:4400::", [6, 300, 600, 900]);
    router_is_up(&lab);
    until("a prefix is delegated", || delegated(&daemon).is_some());
    let first = delegated(&daemon).unwrap();
    let own = subnet(&first, 5);
    until("the host has an address in the subnet", || host_addresses(&lab).contains(&own));
    let asks = "[ -n \"$new_ip6_prefix\" ] && echo \"got=$new_ip6_prefix\" && kill $PPID";
    let text = dhclient(&lab, "-1 -d -P", asks);
    // The last part, because the first ones are for our own links.
    let part = subnet(&first, 0xf0);
    assert!(text.contains(&format!("got={part}:/60")), "{text} {}", daemon.shows("dhcp"));
    let all = delegations(&daemon);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0].1, format!("{part}:/60"));
    daemon.shows_line(&format!("route -n get {part}:9"), "interface: lan");
    daemon.shows_line(&format!("route -n get {part}:9"), &all[0].0);
    let behind: IpAddr = format!("{part}:9").parse().unwrap();
    let ours = daemon.json("ifconfig wan")["addresses"].clone();
    let mut ours = ours.as_array().unwrap().iter().filter_map(|own| own["address"].as_str());
    let via = ours.rfind(|own| own.starts_with("fe80")).unwrap().to_owned();
    on_wan(&lab, &format!("ip -6 route add 2001:db8:4400::/40 via {via} dev far"));
    // The default route is that of our router advertisements.
    let said = on_lan(
        &lab,
        &format!("ip link set lo up && ip -6 addr add {behind}/128 dev lo nodad && ip -6 addr show dev lo"),
    );
    assert!(said.status.success(), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stdout).contains(&behind.to_string()), "{said:?}");
    until("it is reached", || reaches(&lab, behind));
    // Killed, it knows the delegation, and the way there.
    daemon.kill_and_go_on().wait().unwrap();
    let daemon = lab.start();
    router_is_up(&lab);
    assert_eq!(delegations(&daemon), all);
    until("it is reached", || reaches(&lab, behind));
    // Another client, which is another router.
    let said = dhcpcd(&lab);
    let other = format!("{}:", subnet(&first, 0xe0));
    assert!(
        String::from_utf8_lossy(&said.stdout).contains(&format!("got={other}")),
        "{said:?} {}",
        daemon.shows("dhcp")
    );
    assert_eq!(delegations(&daemon).len(), 2);
    // The provider renumbers: each has the same part of the new prefix.
    drop(kea);
    let _kea = Kea::start(&lab, "2001:db8:5500::", [6, 300, 600, 900]);
    until("another prefix is delegated", || {
        delegations(&daemon).iter().all(|(_, net)| net.starts_with("2001:db8:55"))
    });
    let new = subnet(&delegated(&daemon).unwrap(), 0xf0);
    daemon.shows_line(&format!("route -n get {new}:9"), &all[0].0);
    let text = dhclient(&lab, "-1 -d -P -r", "");
    until("it is given back", || delegations(&daemon).len() == 1);
    assert!(!daemon.run(&format!("route -n get {new}:9")).1.contains(&all[0].0), "{text}");
    assert!(daemon.end(Signal::TERM));
}

fn a_router_behind_a_relay_of_others_gets_a_prefix_that_leads_to_the_relay() {
    if !has("dnsmasq", "dnsmasq-base") || !has("dhclient", "isc-dhcp-client") {
        return;
    }
    let Some(lab) = Lab::new("behind6", Wire::Veth { queues: 1 }) else { return };
    let folder = lab.folder().display().to_string();
    let lan = format!(
        "socket = \"{}\"\nforwarding = true\n[[interface]]\nname = \"lan\"\ndevice = \"tap:pt1\"\naddress = \"2001:db8:7::1/64\"\n\
         [interface.dhcp6_server]\ndelegate = \"2001:db8:5500::/56\"\ndelegate_len = 60\nleases = \"{folder}/leases6\"\n",
        lab.socket().display()
    );
    lab.write(&lan);
    let daemon = lab.start();
    host_is_up(&lab);
    // The relay, and behind it the router that asks.
    let script =
        "#!/bin/sh\n[ -n \"$new_ip6_prefix\" ] && echo \"got=$new_ip6_prefix\" && kill $PPID\nexit 0\n";
    std::fs::write(lab.folder().join("script"), script).unwrap();
    let run = format!(
        "chmod +x {folder}/script; ip -6 addr add 2001:db8:7::2/64 dev pt1 nodad\n\
         unshare -n sleep 60 & client=$!\n\
         until [ \"$(readlink /proc/$client/ns/net)\" != \"$(readlink /proc/self/ns/net)\" ]; do :; done\n\
         ip link add rel0 type veth peer name c0 && ip link set c0 netns $client && ip link set rel0 up\n\
         ip -6 addr add 2001:db8:8::1/64 dev rel0 nodad\n\
         nsenter -t $client -n ip link set c0 up\n\
         until nsenter -t $client -n ip -6 addr show dev c0 -tentative | grep -q fe80 && \
               ip -6 addr show dev rel0 -tentative | grep -q fe80; do :; done\n\
         dnsmasq -d -C /dev/null --port=0 --user=root --dhcp-relay=2001:db8:8::1,2001:db8:7::1 \
             --dhcp-leasefile={folder}/dnsmasq --pid-file= 2> {folder}/said & relay=$!\n\
         timeout 20 nsenter -t $client -n dhclient -6 -1 -d -P -sf {folder}/script -lf {folder}/l -pf {folder}/p \
             -cf /dev/null c0 2>&1; kill $client $relay"
    );
    let said = on_lan(&lab, &run);
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let relay = std::fs::read_to_string(lab.folder().join("said")).unwrap_or_default();
    assert!(text.contains("got=2001:db8:5500:f0::/60"), "{text}\n{relay}\n{}", daemon.shows("dhcp"));
    assert_eq!(delegations(&daemon), [("2001:db8:7::2".to_owned(), "2001:db8:5500:f0::/60".to_owned())]);
    daemon.shows_line("route -n get 2001:db8:5500:f0::9", "gateway: 2001:db8:7::2");
    assert!(daemon.end(Signal::TERM));
}

harness::tests![
    a_router_behind_a_relay_of_others_gets_a_prefix_that_leads_to_the_relay,
    a_router_behind_us_gets_a_part_of_the_delegated_prefix_and_what_is_in_it_reaches_the_router,
    a_host_gets_an_ipv6_address_from_a_server_behind_a_relay,
    a_delegated_prefix_numbers_the_lan_outlives_a_crash_and_gives_way_to_another_one,
    a_lease_is_asked_about_when_the_wire_carries_again,
    a_host_gets_the_providers_name_servers_from_our_server_and_a_lease_is_given_back_at_the_end,
];
