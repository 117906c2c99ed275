//! Linux as multicast querier: its bridge forwards groups only to ports with listeners.

use std::process::Command;

use serde_json::Value;

use super::groups::group;
use super::{ECHO, lab};
use crate::lab::{Family, Host, Lab};
use crate::need;
use crate::wait::until;

/// Versions of IGMP and MLD that Linux asks in.
const VERSIONS: [[u8; 2]; 2] = [[3, 2], [2, 1]];
/// Linux queries each second, and forgets members that have not answered for two; in its hundredths of seconds.
const TIMES: &str = "mcast_query_interval 100 mcast_query_response_interval 50 mcast_startup_query_interval 100 \
                     mcast_membership_interval 200 mcast_last_member_interval 50";

/// A program in the host's namespace; answers what it says.
fn run(host: &Host, line: &str) -> String {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    let out = host.netns.put(command.args(words)).unwrap().output().unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Puts a bridge between the host and its link, which asks from the host's addresses.
fn ask(host: &Host, [igmp, mld]: [u8; 2]) {
    let link = host.inside();
    run(
        host,
        &format!(
            "ip link add br0 type bridge mcast_snooping 1 mcast_querier 1 mcast_query_use_ifaddr 1 {TIMES} \
             mcast_igmp_version {igmp} mcast_mld_version {mld}"
        ),
    );
    run(host, &format!("ip link set {link} master br0"));
    run(host, &format!("ip address flush dev {link}"));
    for family in Family::BOTH {
        run(host, &format!("ip address add {}/{} dev br0", host.addr(family), family.pick(24, 64)));
    }
    run(host, "ip link set br0 up");
}

/// Tells whether Linux knows a listener of the group on the link.
fn has_listeners(host: &Host, family: Family) -> bool {
    let said: Value = serde_json::from_str(&run(host, "bridge -json mdb show")).unwrap();
    let entries = said[0]["mdb"].as_array().unwrap();
    let wanted = group(family).to_string();
    entries.iter().any(|entry| entry["grp"] == wanted.as_str() && entry["port"] == host.inside().as_str())
}

fn asked(lab: &Lab) -> [u64; 2] {
    ["igmp_queries_in", "mld_queries_in"].map(|name| lab.pantala().counter(name))
}

fn queries_of_linux_are_answered_in_their_version() {
    let test = "interop::querier::queries_of_linux_are_answered_in_their_version";
    if !["ip", "bridge"].into_iter().all(need::program) {
        return;
    }
    for versions in VERSIONS {
        let services = Family::BOTH.map(|family| {
            format!("[[service]]\nkind = \"echo\"\nport = {ECHO}\naddress = \"{}\"\n", group(family))
        });
        let Some(lab) = lab(test, &services.concat()) else { return };
        lab.hosts.iter().for_each(|host| ask(host, versions));
        // What pantala has said unasked is forgotten by then.
        let enough = asked(&lab).map(|so_far| so_far + 8);
        until("questions of both families", || {
            asked(&lab).into_iter().zip(enough).all(|(is, all)| is >= all).then_some(())
        });
        lab.both(|family| {
            for host in &lab.hosts {
                until("Linux knows that pantala listens", || has_listeners(host, family).then_some(()));
            }
        });
        lab.pantala().rewrite_config(&lab.config(""));
        lab.pantala().shows("reload");
        lab.both(|family| {
            for host in &lab.hosts {
                until("Linux knows that it does not", || (!has_listeners(host, family)).then_some(()));
            }
        });
    }
}

harness::tests![queries_of_linux_are_answered_in_their_version];
