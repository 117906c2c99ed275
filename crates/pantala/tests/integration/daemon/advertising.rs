//! Linux hosts configure themselves from our router advertisements.

use std::process::Command;

use rustix::process::Signal;

use crate::daemon::lab::{Lab, Wire, until};

/// The lab's configuration with router advertisements.
fn config(lab: &Lab, ra: &str) -> String {
    let lan = format!("{}[interface.ra]\ninterval_s = 4\n{ra}\n", lab.config(""));
    format!("forwarding = true\n{lan}")
}

/// The host's addresses in a prefix of ours.
fn addresses(lab: &Lab, prefix: &str) -> Vec<String> {
    let all = lab.host().netlink().unwrap().addresses().unwrap();
    let found = all.iter().filter(|own| !own.tentative).map(|own| own.net.addr().to_string());
    found.filter(|addr| addr.starts_with(prefix)).collect()
}

fn has_default_route(lab: &Lab) -> bool {
    let routes = lab.host().netlink().unwrap().routes().unwrap();
    routes.iter().any(|route| route.to.prefix_len() == 0 && route.to.addr().is_ipv6())
}

fn a_linux_host_takes_addresses_and_a_router_from_us_is_renumbered_and_loses_the_router_at_our_end() {
    let Some(lab) = Lab::new("ra", Wire::Veth { queues: 1 }) else { return };
    lab.host().run(|| dev::sys::sysctl::set("ipv6.conf.far.accept_ra", 2)).unwrap().unwrap();
    lab.write(&config(&lab, "prefix = \"2001:db8:7::/64\"\ndns = \"2001:db8::53\""));
    let daemon = lab.start();
    until("the host has an address and a router", || {
        !addresses(&lab, "2001:db8:7:").is_empty() && has_default_route(&lab)
    });
    lab.write(&config(&lab, "prefix = \"2001:db8:8::/64\""));
    assert!(daemon.shows("reload").contains("advertises itself"));
    until("the host has an address in the new prefix", || !addresses(&lab, "2001:db8:8:").is_empty());
    // It has spoken, so it takes it back.
    assert!(daemon.end(Signal::TERM));
    until("the host has no router", || !has_default_route(&lab));
}

fn rdisc6_reads_all_that_we_advertise() {
    if Command::new("rdisc6").arg("-V").output().is_err() {
        harness::skip("needs rdisc6 (Debian: ndisc6)");
        return;
    }
    let Some(lab) = Lab::new("rdisc6", Wire::Veth { queues: 1 }) else { return };
    lab.write(&config(
        &lab,
        "managed = true\nother = true\npreference = \"high\"\nmtu = 1400\ndns = \"2001:db8::53\"\n\
         search = \"office.example\"\nroute = \"2001:db8:f::/48\"\nvalid_s = 700\npreferred_s = 600",
    ));
    let _daemon = lab.start();
    let mut command = Command::new("rdisc6");
    let said = lab.host().put(command.args(["-1", "-r", "5", "far"])).unwrap().output().unwrap();
    let text = String::from_utf8(said.stdout).unwrap();
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for says in [
        "Hop limit : 64",
        "Stateful address conf. : Yes",
        "Stateful other conf. : Yes",
        "Router preference : high",
        "Router lifetime : 12 ",
        "Prefix : 2001:db8::/64",
        "On-link : Yes",
        "Autonomous address conf.: Yes",
        "Valid time : 700 ",
        "Pref. time : 600 ",
        "MTU : 1400 bytes",
        "Recursive DNS server : 2001:db8::53",
        "DNS search list : office.example",
        "Route : 2001:db8:f::/48",
    ] {
        assert!(plain.contains(says), "no `{says}` in:\n{text}");
    }
}

harness::tests![
    a_linux_host_takes_addresses_and_a_router_from_us_is_renumbered_and_loses_the_router_at_our_end,
    rdisc6_reads_all_that_we_advertise,
];
