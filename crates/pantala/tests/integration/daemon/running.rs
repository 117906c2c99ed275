//! The running configuration: changed by commands, saved, undone, rolled back.

use std::fs;

use crate::daemon::lab::{Lab, OURS, Wire};

/// Addresses that the interface gets, one of each family.
const MORE: [&str; 2] = ["192.0.2.7", "2001:db8::7"];

fn commands_change_interfaces_and_save_writes_them_with_the_comments_of_the_file() {
    let Some(lab) = Lab::new("save", Wire::Veth { queues: 1 }) else { return };
    lab.write(&format!("# The comment stays.\n{}", lab.config("")));
    let daemon = lab.start();
    assert!(lab.host_reaches(OURS[0]));
    assert_eq!(daemon.shows("config diff"), "");
    daemon.shows("ifconfig lan 192.0.2.7/24 alias");
    daemon.shows("ip addr add 2001:db8::7/64 dev lan");
    for address in MORE {
        assert!(lab.host_reaches(address), "{address}");
    }
    daemon.shows("ifconfig vlan10 create vlan 10 vlandev lan inet 10.0.10.1/24");
    daemon.shows("ip link add gif0 type ipip local 192.0.2.1 remote 192.0.2.2");
    daemon.shows_line("ifconfig vlan10", "inet 10.0.10.1");
    let (done, said) = daemon.run("ifconfig lan 192.0.2.9/24 alais");
    assert!(!done && said.contains("did you mean `alias`?"), "{said}");
    let (done, said) = daemon.run("ifconfig vlan11 create vlan 10 vlandev lan");
    assert!(!done && said.contains("already used"), "{said}");
    let diff = daemon.shows("config diff");
    assert!(diff.contains("+name = \"vlan10\"") && diff.contains("192.0.2.7/24"), "{diff}");
    assert_eq!(daemon.shows("config history").lines().count(), 4);

    daemon.shows("config save");
    let saved = fs::read_to_string(lab.file()).unwrap();
    assert!(saved.starts_with("# The comment stays.\n") && saved.contains("vlan:lan,10"), "{saved}");
    assert_eq!(daemon.shows("config diff"), "");
    assert_eq!(daemon.shows("reload"), "nothing differs\n");
    fs::write(lab.file(), saved + "# edited\n").unwrap();
    daemon.shows("ifconfig gif0 destroy");
    let (done, said) = daemon.run("config save");
    assert!(!done && said.contains("was changed since it was read"), "{said}");

    daemon.shows("config undo 5");
    assert!(!daemon.shows("ifconfig lan").contains(MORE[0]) && lab.host_reaches(OURS[1]));
    assert_eq!(daemon.json("ifconfig").as_array().unwrap().len(), 1);
}

fn a_bridge_is_made_without_ports_and_loses_its_last_one() {
    let Some(lab) = Lab::new("empty-bridge", Wire::Veth { queues: 1 }) else { return };
    lab.write(&lab.config(""));
    let daemon = lab.start();
    daemon.shows("ifconfig bridge0 create");
    for address in OURS {
        daemon.shows(&format!("ifconfig lan {address} -alias"));
    }
    daemon.shows("ifconfig bridge0 192.0.2.1/24 inet6 2001:db8::1/64");
    assert!(!lab.host_reaches(OURS[0]), "no port leads to it");
    daemon.shows("ifconfig bridge0 addm lan");
    for address in OURS {
        assert!(lab.host_reaches(address), "{address}");
    }
    daemon.shows("ifconfig bridge0 deletem lan");
    assert!(!lab.host_reaches(OURS[0]), "it has no port any more");
    assert!(daemon.shows("config show").contains("bridge:"));
}

fn a_reload_that_cuts_its_administrator_off_is_rolled_back_in_time() {
    let Some(lab) = Lab::new("rollback", Wire::Veth { queues: 1 }) else { return };
    lab.write(&lab.config(""));
    let daemon = lab.start();
    assert!(lab.host_reaches(OURS[0]));
    lab.write(&lab.config("").replace(OURS[0], MORE[0]).replace(OURS[1], MORE[1]));
    daemon.shows("reload --confirm 1");
    daemon.says("rolled back: interface lan");
    for address in OURS {
        assert!(lab.host_reaches(address), "{address}");
    }
    daemon.shows("reload --confirm 600");
    assert_eq!(daemon.shows("reload --confirmed"), "confirmed\n");
    assert!(lab.host_reaches(MORE[1]));
}

fn the_read_only_socket_neither_changes_nor_shows_the_configuration() {
    let Some(lab) = Lab::new("secret", Wire::Tap) else { return };
    let read = lab.folder().join("read.sock");
    lab.write(&lab.config(&format!("[admin]\nread_socket = \"{}\"", read.display())));
    let daemon = lab.start();
    for words in ["ifconfig lan 192.0.2.7/24 alias", "config show", "config undo", "config save"] {
        let (done, text) = daemon.run_at(&read, words);
        assert!(!done && text.contains("permission denied"), "{words}: {text}");
    }
    assert!(daemon.shows("config show").contains("read_socket"));
}

harness::tests![
    a_bridge_is_made_without_ports_and_loses_its_last_one,
    commands_change_interfaces_and_save_writes_them_with_the_comments_of_the_file,
    a_reload_that_cuts_its_administrator_off_is_rolled_back_in_time,
    the_read_only_socket_neither_changes_nor_shows_the_configuration,
];
