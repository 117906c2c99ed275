//! Rights of a program that embeds a stack, which stay, and of the stack's threads.

use std::fs::{self, File};
use std::io::ErrorKind;

use pantala::Stack;

use crate::stack::caller::{SERVER, is_heard, pair};

/// Returns the kernel's status of a thread: user, groups, capabilities, `no_new_privs`, filters.
fn rights(status: &str) -> Vec<String> {
    let told = ["Uid:", "Gid:", "Groups:", "CapEff:", "CapPrm:", "CapBnd:", "NoNewPrivs:", "Seccomp:"];
    let lines = status.lines().filter(|line| told.iter().any(|name| line.starts_with(name)));
    lines.map(str::to_owned).collect()
}

fn own() -> Vec<String> {
    rights(&fs::read_to_string("/proc/thread-self/status").unwrap())
}

/// The threads of netisrs of this process.
fn netisrs() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // A thread may have ended meanwhile.
    let all = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    all.filter(|status| status.starts_with("Name:\tnetisr")).collect()
}

fn the_program_keeps_its_rights_and_a_netisr_has_none_and_a_filter() {
    let before = own();
    let [server, client] = pair([1, 1]);
    assert!(is_heard(&client, 0, SERVER[0], 20_000));
    assert_eq!(own(), before, "the thread that starts it is as it was");
    let all = netisrs();
    assert!(all.len() >= 2);
    for status in all {
        for line in ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(status.lines().any(|said| said == line), "{line}: {status}");
        }
        let user = |said: &[String]| said[0].clone();
        assert_eq!(user(&rights(&status)), user(&before), "the user is the program's own");
    }
    let open =
        |stack: &Stack| stack.call(0, |_| File::open("/etc/passwd").map_err(|why| why.kind())).unwrap();
    assert_eq!(open(&server).unwrap_err(), ErrorKind::PermissionDenied);
    assert!(File::open("/etc/passwd").is_ok());
    server.stop().unwrap();
    client.stop().unwrap();
}

fn a_program_whose_netisrs_are_to_open_files_can_say_so() {
    let stack = Stack::builder().toml("seccomp = \"off\"").threads(1);
    let [end, _other] = pantala::mem::wire(1).unwrap();
    let stack = stack.interface(pantala::Interface::mem(end).name("lan")).start().unwrap();
    assert!(stack.call(0, |_| File::open("/etc/passwd").is_ok()).unwrap());
    stack.stop().unwrap();
}

harness::tests![a_program_whose_netisrs_are_to_open_files_can_say_so; alone: the_program_keeps_its_rights_and_a_netisr_has_none_and_a_filter];
