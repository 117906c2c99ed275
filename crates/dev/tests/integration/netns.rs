//! Network namespaces: made, entered, seen by others, gone.

use std::process::Command;

use dev::netlink::Rtnetlink;
use dev::netns::{Netns, NetnsError, delete, list};

use crate::support::{is_root, netns};

/// The namespace of the calling thread, as the kernel prints it.
fn here() -> String {
    std::fs::read_link("/proc/thread-self/ns/net").unwrap().to_string_lossy().into_owned()
}

fn a_named_namespace_is_listed_until_it_is_dropped() {
    if !is_root() {
        return;
    }
    let ns = netns("named");
    let name = ns.name().to_owned();
    assert_eq!(list(&name).unwrap(), core::slice::from_ref(&name));
    assert!(matches!(Netns::create(&name), Err(NetnsError::Exists(_))));
    if let Ok(out) = Command::new("ip").args(["netns", "list"]).output() {
        assert!(String::from_utf8_lossy(&out.stdout).contains(&name), "ip netns sees it");
    }
    let same = Netns::open(&name).unwrap();
    assert_eq!(same.run(here).unwrap(), ns.run(here).unwrap());
    drop(ns);
    assert!(list(&name).unwrap().is_empty());
    assert!(matches!(Netns::open(&name), Err(NetnsError::NoSuchName(_))));
    assert!(matches!(delete(&name), Err(NetnsError::NoSuchName(_))));
}

fn a_namespace_is_deleted_when_the_test_panics() {
    if !is_root() {
        return;
    }
    let seen = std::sync::Mutex::new(String::new());
    let result = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        let ns = netns("panics");
        ns.name().clone_into(&mut seen.lock().unwrap());
        ns.run(|| std::panic::resume_unwind(Box::new("on purpose"))).unwrap()
    }));
    assert!(result.is_err(), "the panic goes on in the caller");
    assert!(list(&seen.lock().unwrap()).unwrap().is_empty());
}

fn only_the_thread_that_runs_inside_changes_its_namespace() {
    if !is_root() {
        return;
    }
    let (before, ns) = (here(), Netns::anonymous().unwrap());
    let inside = ns.run(here).unwrap();
    assert_ne!(inside, before);
    assert_eq!(here(), before);
    assert_eq!(ns.run(|| Rtnetlink::open().unwrap().links().unwrap().len()).unwrap(), 1, "only lo is there");
}

fn a_command_runs_inside() {
    if !is_root() {
        return;
    }
    let ns = Netns::anonymous().unwrap();
    let mut command = Command::new("readlink");
    let out = ns.put(command.arg("/proc/self/ns/net")).unwrap().output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), ns.run(here).unwrap());
}

harness::tests![
    a_named_namespace_is_listed_until_it_is_dropped,
    a_namespace_is_deleted_when_the_test_panics,
    only_the_thread_that_runs_inside_changes_its_namespace,
    a_command_runs_inside,
];
