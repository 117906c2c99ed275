//! Rights of the daemon's threads, once it runs.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use dev::sys::caps::CapabilitySet;
use rustix::process::Signal;

use crate::daemon::lab::{Daemon, Lab, OURS, Wire};

const WIRES: [Wire; 2] = [Wire::Tap, Wire::Veth { queues: 2 }];

/// The kernel's status of a thread.
type Status = BTreeMap<String, String>;

fn threads(daemon: &Daemon<'_>) -> Vec<Status> {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.id())).unwrap();
    let status = |text: String| {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
    };
    tasks.map(|task| status(fs::read_to_string(task.unwrap().path().join("status")).unwrap())).collect()
}

fn capabilities(of: &Status, set: &str) -> CapabilitySet {
    CapabilitySet::from_bits_retain(u64::from_str_radix(&of[set], 16).unwrap())
}

/// A folder with a file for everybody, and one for root alone.
fn folder(lab: &Lab) -> String {
    let folder = lab.folder().join("www");
    fs::create_dir(&folder).unwrap();
    for (name, mode) in [("open", 0o644), ("secret", 0o600)] {
        fs::write(folder.join(name), name).unwrap();
        fs::set_permissions(folder.join(name), Permissions::from_mode(mode)).unwrap();
    }
    format!("[[serve]]\ndir = \"{}\"\nport = 80\n", folder.display())
}

fn after_the_start_no_thread_is_root_and_each_has_only_what_it_needs() {
    for wire in WIRES {
        let Some(lab) = Lab::new("rights", wire) else { continue };
        lab.write(&lab.config(&folder(&lab)));
        let daemon = lab.start();
        let threads = threads(&daemon);
        let control =
            CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW | CapabilitySet::BPF | CapabilitySet::IPC_LOCK;
        let mut confined = 0;
        for thread in &threads {
            let name = &thread["Name"];
            assert!(!thread["Uid"].split_whitespace().any(|uid| uid == "0"), "{name}: {}", thread["Uid"]);
            assert!(!thread["Gid"].split_whitespace().any(|gid| gid == "0"), "{name}: {}", thread["Gid"]);
            assert_eq!((&*thread["Groups"], &*thread["NoNewPrivs"]), ("", "1"), "{name}");
            let is_confined = name.starts_with("netisr") || name == "library";
            let keeps = if name == "pantala" { control } else { CapabilitySet::empty() };
            for set in ["CapEff", "CapPrm", "CapBnd"] {
                assert_eq!(capabilities(thread, set), keeps, "{name}: {set}");
            }
            for set in ["CapInh", "CapAmb"] {
                assert!(capabilities(thread, set).is_empty(), "{name}: {set}");
            }
            assert_eq!(thread["Seccomp"], if is_confined { "2" } else { "0" }, "{name}");
            confined += usize::from(is_confined);
        }
        assert!(confined >= 2, "{threads:#?}");
        assert!(daemon.end(Signal::TERM));
    }
}

fn a_file_of_roots_own_in_a_served_folder_is_not_served() {
    let Some(lab) = Lab::new("secret", Wire::Veth { queues: 1 }) else { return };
    lab.write(&lab.config(&folder(&lab)));
    let _daemon = lab.start();
    let open = lab.host_gets("/open");
    assert!(open.starts_with("HTTP/1.1 200 ") && open.ends_with("open"), "{open}");
    let secret = lab.host_gets("/secret");
    assert!(secret.starts_with("HTTP/1.1 403 "), "{secret}");
}

/// With `kill` a call that is not on the list ends the process, so that none can be missed.
fn no_system_call_is_missed_by_whatever_a_netisr_and_a_reader_of_files_do() {
    for wire in WIRES {
        let Some(lab) = Lab::new("calls", wire) else { continue };
        let rules =
            "[firewall]\nrules_text = \"\"\"\nadd 10 allow log ip from any to any keep-state\n\"\"\"\n";
        lab.write(&format!("seccomp = \"kill\"\n{}", lab.config(&(folder(&lab) + rules))));
        let daemon = lab.start();
        if matches!(wire, Wire::Tap) {
            lab.address_host();
        }
        assert!(OURS.iter().all(|ours| lab.host_reaches(ours)));
        for (path, says) in [("/open", "200"), ("/", "200"), ("/no", "404"), ("/secret", "403")] {
            assert!(lab.host_gets(path).contains(says), "{path}");
        }
        daemon.shows("ping -c 3 -i 0.01 -s 3000 192.0.2.2");
        for words in [
            "netstat -s",
            "netstat -Q",
            "netstat -an",
            "ifconfig -a",
            "ipfw -d show",
            "arp -an",
            "intrctl list",
        ] {
            daemon.shows(words);
        }
        daemon.shows("ifconfig lan monitor");
        daemon.shows("ifconfig lan -monitor");
        daemon.shows("reload");
        lab.delete_link("pt0");
        daemon.says("is gone");
        if matches!(wire, Wire::Veth { .. }) {
            lab.lay_veth(2);
        }
        daemon.says("is back");
        daemon.signal(Signal::TERM);
        daemon.says("0 buffers missing, 0 leaked");
        daemon.says("ended");
        assert!(daemon.end(Signal::CONT), "ended by SIGSYS: `dmesg` names the call");
    }
}

fn the_user_that_is_asked_for_is_had_or_refused_with_what_to_do() {
    let Some(lab) = Lab::new("user", Wire::Tap) else { return };
    lab.write(&format!("user = \"pt-nobody\"\n{}", lab.config("")));
    let said = lab.start_in_vain();
    let text = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(2), "{text}");
    assert!(text.contains("no such user; `useradd --system pt-nobody` makes it"), "{text}");
    lab.write(&format!("user = \"12345\"\ngroup = \"23456\"\n{}", lab.config("")));
    let daemon = lab.start();
    for thread in threads(&daemon) {
        assert!(thread["Uid"].starts_with("12345\t12345") && thread["Gid"].starts_with("23456\t23456"));
    }
    assert!(daemon.end(Signal::TERM));
    lab.write(&format!("user = \"root\"\n{}", lab.config("")));
    let daemon = lab.start();
    assert!(threads(&daemon).iter().all(|thread| thread["Uid"].starts_with("0\t")));
}

fn a_file_that_the_user_cannot_read_again_is_said_at_the_start() {
    let Some(lab) = Lab::new("unread", Wire::Tap) else { return };
    lab.write(&lab.config(""));
    fs::set_permissions(lab.file(), Permissions::from_mode(0o600)).unwrap();
    let daemon = lab.start_saying("cannot be read again by `pantala reload`");
    let (reloaded, text) = daemon.run("reload");
    assert!(!reloaded && text.contains("ermission denied"), "{text}");
    daemon.shows_line("ifconfig lan", "status: active");
}

harness::tests![
    after_the_start_no_thread_is_root_and_each_has_only_what_it_needs,
    a_file_of_roots_own_in_a_served_folder_is_not_served,
    no_system_call_is_missed_by_whatever_a_netisr_and_a_reader_of_files_do,
    the_user_that_is_asked_for_is_had_or_refused_with_what_to_do,
    a_file_that_the_user_cannot_read_again_is_said_at_the_start,
];
