//! Reloads that fail at each of their steps, and what runs meanwhile: a router between two stacks, in one process.

pub(in crate::daemon) mod lab;

use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use self::lab::{BLOCKED, Lab, NEW, OLD, PASSED};
use super::fault::{Step, plant};
use crate::api::firewall::Filter;
use crate::api::stack::Stack as _;
use crate::api::{InterfaceChange, RouteAction, RouteEdit, RouteMetrics, RoutePage, RouteRequest};
use crate::api::{SysctlChange, SysctlChanged};

const STEPS: [Step; 10] = [
    Step::Rules,
    Step::Folders,
    Step::Ports,
    Step::Closed,
    Step::Opened,
    Step::Tables,
    Step::Ended,
    Step::Watched,
    Step::InForce,
    Step::Begun,
];

#[test]
fn a_reload_that_fails_at_any_step_leaves_all_as_it_was_packet_by_packet() {
    let mut lab = Lab::start("steps", OLD);
    lab.is_as_of_old();
    let before = lab.look();
    for step in STEPS {
        lab.write(NEW);
        plant(Some(step));
        let why = lab.router.reload_file().unwrap_err();
        plant(None);
        assert!(why.error.contains(&format!("planted behind {step:?}")), "{why:?}");
        assert_eq!(why.hint, "nothing was changed", "{step:?}");
        assert_eq!(lab.look(), before, "{step:?}");
        lab.is_as_of_old();
        lab.write(OLD);
        assert_eq!(lab.router.reload_file().unwrap().changes, Vec::<String>::new(), "{step:?}");
    }
    lab.write(NEW);
    let changes = lab.router.reload_file().unwrap().changes;
    assert!(changes.len() > 8, "{changes:?}");
    lab.is_as_of_new();
    assert_eq!(lab.router.reload_file().unwrap().changes, Vec::<String>::new());
    lab.write(OLD);
    lab.router.reload_file().unwrap();
    lab.is_as_of_old();
    assert_eq!(lab.look(), before, "and back");
}

#[test]
fn a_folder_or_a_device_that_is_missing_changes_nothing_and_the_next_reload_does_all() {
    let mut lab = Lab::start("missing", OLD);
    lab.is_as_of_old();
    let before = lab.look();
    for (from, to, says) in [
        ("/new\"", "/missing\"", "missing: No such file or directory"),
        ("mem:dmz", "mem:nowhere", "no end of a wire was given this name"),
        ("port = 9", "port = 4000", "address in use"),
    ] {
        lab.write(&NEW.replace(from, to));
        let why = lab.router.reload_file().unwrap_err();
        assert!(why.error.contains(says), "{why:?}");
        assert_eq!(lab.look(), before, "{says}");
        lab.is_as_of_old();
    }
    lab.write(NEW);
    lab.router.reload_file().unwrap();
    lab.is_as_of_new();
}

#[test]
fn a_reload_puts_back_what_was_changed_by_hand_and_the_file_names() {
    let mut lab = Lab::start("hand", OLD);
    lab.is_as_of_old();
    let before = lab.look();
    lab.command("-f flush");
    lab.command("add allow ip from any to any");
    assert!(lab.passes(BLOCKED));
    let edits = [
        RouteEdit::Delete { fib: 0, to: "203.0.113.0/24".parse().unwrap(), via: None },
        RouteEdit::Add(RouteRequest {
            fib: 0,
            to: "203.0.113.128/25".parse().unwrap(),
            via: Vec::new(),
            dev: None,
            reject: true,
            blackhole: false,
            metrics: RouteMetrics::default(),
        }),
    ];
    assert_eq!(lab.router.edit_routes(&edits).unwrap(), [Ok(()), Ok(())]);
    let change = SysctlChange { value: "77".to_owned() };
    let changed: SysctlChanged = lab.router.change_sysctl("net.inet.tcp.delacktime", &change).unwrap();
    assert_eq!(changed.old, "30");
    let monitor = InterfaceChange { up: None, monitor: Some(true) };
    lab.router.change_interface("lan", &monitor).unwrap();
    let mut changes = lab.router.reload_file().unwrap().changes;
    changes.sort();
    assert_eq!(
        changes,
        [
            "interface lan: monitor mode off",
            "net.inet.tcp.delacktime is 30",
            "route to 203.0.113.0/24 added",
            "the firewall's rules and settings are put back"
        ]
    );
    lab.is_as_of_old();
    let routes = lab.router.routes(&RoutePage::default()).unwrap();
    let by_hand = routes.iter().filter(|route| route.action == RouteAction::Reject).count();
    assert_eq!(by_hand, 1, "what the file does not name stays");
    let delete = RouteEdit::Delete { fib: 0, to: "203.0.113.128/25".parse().unwrap(), via: None };
    lab.router.edit_routes(&[delete]).unwrap().remove(0).unwrap();
    assert_eq!(lab.look(), before);
}

#[test]
fn entries_that_were_added_to_a_table_stay_unless_the_file_fills_it() {
    let mut lab = Lab::start("tables", OLD);
    lab.is_as_of_old();
    lab.command("table guests add 192.0.2.2");
    lab.command("table own add 192.0.2.9");
    lab.write(&OLD.replace("flow_cache = 0", "flow_cache = 64"));
    let changes = lab.router.reload_file().unwrap().changes;
    assert_eq!(changes, ["flow cache: 64 flows", "the firewall's rules and settings are put back"]);
    let entries = |lab: &mut Lab, table| lab.router.firewall_entries(table, 0, 9).unwrap().entries.len();
    assert_eq!((entries(&mut lab, "guests"), entries(&mut lab, "own")), (1, 1));
}

#[test]
fn an_interface_that_is_down_by_hand_stays_down() {
    let mut lab = Lab::start("down", OLD);
    lab.is_as_of_old();
    let change = |up| InterfaceChange { up: Some(up), monitor: None };
    lab.router.change_interface("wan", &change(false)).unwrap();
    lab.write(&OLD.replace("flow_cache = 0", "flow_cache = 64"));
    lab.router.reload_file().unwrap();
    assert!(!lab.router.interface("wan").unwrap().up);
    lab.router.change_interface("wan", &change(true)).unwrap();
    lab.is_as_of_old();
}

/// Two configurations that let the same pass: what goes to the far host is denied in both, on the way that its route takes.
#[test]
fn nothing_passes_while_reloads_exchange_routes_and_rules_that_neither_configuration_lets_pass() {
    let way = |out: &str, via: &str| {
        OLD.replace("threads = 1", "threads = 2")
            .replace("via = [\"198.51.100.2\"]", &format!("via = [\"{via}\"]"))
            .replace(
                "add allow udp",
                &format!("add deny ip from any to 203.0.113.0/24 out via {out}\nadd allow udp"),
            )
            .replace("any 53", "any 53,54")
    };
    let ways = [way("wan", "198.51.100.2"), way("lan2", "192.0.3.2")];
    let mut lab = Lab::start("exchange", &ways[0]);
    assert!(lab.passes(PASSED) && lab.passes(BLOCKED));
    let is_over = AtomicBool::new(false);
    let sockets = lab.client_socket();
    let leaked = thread::scope(|scope| {
        let talks = scope.spawn(|| {
            let mut said = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                // A full queue is no reason to end.
                let _ = sockets.send_to(b"leaked", lab::FAR);
                said += 1;
            }
            said
        });
        for round in 0..60 {
            lab.write(&ways[(round + 1) % 2]);
            assert_eq!(lab.router.reload_file().unwrap().changes.len(), 3);
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(talks.join().unwrap() > 1000);
        lab.leaked()
    });
    assert_eq!(leaked, 0);
    assert!(lab.passes(PASSED), "all before it has come");
    assert_eq!(lab.leaked(), 0);
}
