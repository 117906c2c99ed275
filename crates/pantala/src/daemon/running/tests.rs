//! Changes of the running configuration of a router between two stacks, in one process.

use crate::api::stack::Stack as _;
use crate::api::{ConfigEdit, ConfigEdits, ReloadRequest, SysctlChange};
use crate::daemon::reload::tests::lab::{BLOCKED, Lab, NEW, OLD, PASSED};

/// Addresses that the router gets, one of each family.
const MORE: [(&str, &str); 2] = [("192.0.2.7", "192.0.2.7/24"), ("2001:db8:1::7", "2001:db8:1::7/64")];

fn edits(edits: &[ConfigEdit]) -> ConfigEdits {
    ConfigEdits { edits: edits.to_vec(), title: "test".to_owned() }
}

fn add(interface: &str, address: &str) -> ConfigEdit {
    ConfigEdit::AddAddress { interface: interface.into(), address: address.parse().unwrap() }
}

fn create(interface: &str, device: &str) -> ConfigEdit {
    ConfigEdit::Create { interface: interface.into(), device: device.into() }
}

fn destroy(interface: &str) -> ConfigEdit {
    ConfigEdit::Destroy { interface: interface.into() }
}

fn confirm(confirm_s: Option<u32>, confirmed: bool) -> ReloadRequest {
    ReloadRequest { confirm_s, confirmed }
}

#[test]
fn an_address_comes_and_goes_and_what_was_changed_by_hand_elsewhere_stays() {
    let mut lab = Lab::start("edit", OLD);
    lab.is_as_of_old();
    lab.command("add 5 allow udp from any to any 54");
    let change = SysctlChange { value: "77".to_owned() };
    lab.router.change_sysctl("net.inet.tcp.delacktime", &change).unwrap();
    assert!(lab.passes(BLOCKED));
    let before = lab.look();
    let changes =
        lab.router.edit_configuration(&edits(&MORE.map(|(_, net)| add("lan", net)))).unwrap().changes;
    assert_eq!(
        changes,
        ["interface lan: 192.0.2.7/24 added", "interface lan: 2001:db8:1::7/64 added"],
        "and nothing else"
    );
    for (addr, _) in MORE {
        assert!(lab.reaches(addr), "{addr}");
    }
    assert!(lab.passes(BLOCKED), "the rule that was added by hand");
    let configuration = lab.router.configuration().unwrap();
    assert_eq!(configuration.history, ["test"]);
    assert!(configuration.running.contains("192.0.2.7/24") && !configuration.loaded.contains("192.0.2.7"));
    assert_eq!(lab.router.undo_configuration(1).unwrap().changes.len(), 2);
    assert_eq!(lab.look(), before);
    let configuration = lab.router.configuration().unwrap();
    assert_eq!(configuration.running, configuration.loaded);
    assert!(lab.router.undo_configuration(1).unwrap_err().error.contains("cannot undo 1"));
}

#[test]
fn edits_that_do_not_fit_change_nothing_and_are_explained() {
    let mut lab = Lab::start("misfit", OLD);
    lab.is_as_of_old();
    let before = lab.look();
    let good = add("lan", "192.0.2.7/24");
    for (bad, says) in [
        (add("lam", "192.0.2.8/24"), "no interface `lam`"),
        (add("wan", "192.0.2.9/24"), "192.0.2.0/24"),
        (create("vlan5000", "vlan:lan,5000"), "5000"),
        (create("dmz", "mem:nowhere"), "no end of a wire"),
        (destroy("wan"), "198.51.100.2"),
        (ConfigEdit::Set { interface: "lan".into(), key: "mtu".into(), value: "40".into() }, "mtu 40"),
    ] {
        let why = lab.router.edit_configuration(&edits(&[good.clone(), bad])).unwrap_err();
        assert!(format!("{} {}", why.error, why.hint).contains(says), "{says}: {why:?}");
        assert_eq!(lab.look(), before, "{says}");
    }
    let configuration = lab.router.configuration().unwrap();
    assert_eq!((configuration.running == configuration.loaded, configuration.history.len()), (true, 0));
    lab.is_as_of_old();
}

#[test]
fn vlans_and_tunnels_are_created_and_destroyed() {
    let mut lab = Lab::start("create", OLD);
    lab.is_as_of_old();
    let before = lab.look();
    let names = |lab: &mut Lab| -> Vec<String> {
        lab.router.interfaces().unwrap().into_iter().map(|shown| shown.name).collect()
    };
    let new = [
        create("vlan10", "vlan:lan2,10"),
        add("vlan10", "10.0.10.1/24"),
        create("gif0", "gif:198.51.100.1,198.51.100.2"),
        add("gif0", "10.0.20.1/24"),
        create("gif1", "gif:2001:db8:2::1,2001:db8:2::2"),
        add("gif1", "2001:db8:20::1/64"),
    ];
    lab.router.edit_configuration(&edits(&new)).unwrap();
    assert_eq!(names(&mut lab), ["lan", "wan", "lan2", "vlan10", "gif0", "gif1"]);
    let why = lab.router.edit_configuration(&edits(&[destroy("lan2")])).unwrap_err();
    assert!(why.error.contains("lan2"), "a VLAN is over it: {why:?}");
    lab.router.edit_configuration(&edits(&[destroy("vlan10"), destroy("gif0"), destroy("gif1")])).unwrap();
    assert_eq!(lab.look(), before);
    assert_eq!(lab.router.undo_configuration(1).unwrap().changes.len(), 3);
    assert_eq!(names(&mut lab).len(), 6, "undone");
    lab.router.undo_configuration(1).unwrap();
    assert_eq!(lab.look(), before);
    lab.is_as_of_old();
}

#[test]
fn a_reload_is_rolled_back_unless_it_is_confirmed() {
    let mut lab = Lab::start("confirm", OLD);
    lab.is_as_of_old();
    let before = lab.look();
    assert!(lab.router.reload_with(&confirm(None, true)).unwrap_err().error.contains("no reload waits"));
    assert!(lab.router.reload_with(&confirm(Some(0), false)).is_err());
    lab.write(NEW);
    lab.router.reload_with(&confirm(Some(60), false)).unwrap();
    lab.is_as_of_new();
    assert!(lab.router.configuration().unwrap().confirm_s.is_some_and(|left| (1..=60).contains(&left)));
    lab.router.edit_configuration(&edits(&[add("lan", "192.0.2.8/24")])).unwrap();
    lab.router.roll_back_unconfirmed();
    lab.is_as_of_old();
    assert_eq!(lab.look(), before, "with what was changed since");
    let configuration = lab.router.configuration().unwrap();
    assert_eq!((configuration.history.len(), configuration.confirm_s), (0, None));

    lab.router.reload_with(&confirm(Some(60), false)).unwrap();
    lab.router.reload_with(&confirm(None, true)).unwrap();
    lab.router.roll_back_unconfirmed();
    lab.is_as_of_new();
    lab.router.undo_configuration(1).unwrap();
    lab.is_as_of_old();
    assert!(lab.passes(PASSED) && !lab.passes(BLOCKED));
}

#[test]
fn the_history_is_bounded_and_its_oldest_entries_go_first() {
    let mut lab = Lab::start("history", OLD);
    for last in 10..10 + super::HISTORY_MAX + 4 {
        lab.router.edit_configuration(&edits(&[add("lan2", &format!("192.0.3.{last}/24"))])).unwrap();
    }
    let count = lab.router.configuration().unwrap().history.len();
    assert_eq!(count, super::HISTORY_MAX);
    lab.router.undo_configuration(u32::try_from(count).unwrap()).unwrap();
    let lan2 = lab.router.interfaces().unwrap().into_iter().find(|shown| shown.name == "lan2").unwrap();
    let ip4 = lan2.addresses.iter().filter(|own| own.address.is_ipv4()).count();
    assert_eq!(ip4, 1 + 4, "the oldest four cannot be undone");
}
