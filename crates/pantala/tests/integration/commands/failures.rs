//! Usage errors exit with 2, failures with 1; both name a remedy.

use pantala::term::Term;
use pantala::{Exit, run};

use crate::commands::server::{Folder, Page, World, pantala};

/// Usage errors, and their messages.
const NOT_UNDERSTOOD: [(&str, &str); 18] = [
    ("", "Usage: pantala"),
    ("ifcnofig", "'ifconfig'"),
    ("netstat -ap arp", "`arp` has no connections; known are tcp, udp, icmp"),
    ("netstat -rz", "there is no flag -z"),
    ("tcpdrop 192.0.2.1 80", "name both ends"),
    ("route ad default 192.0.2.1", "did you mean `add`?"),
    ("ifconfig lan dwon", "did you mean `down`?"),
    ("arp -d", "the host is missing"),
    ("ping", "the host is missing"),
    ("intrctl", "say what to do"),
    ("intrctl afinity lan 0 1", "did you mean `affinity`?"),
    ("intrctl affinity lan 0", "takes an interface, the number of a ring, and a CPU"),
    ("ping 192.0.2.7 --socket", "--socket needs a path"),
    ("check -c", "a value is required"),
    ("drill --socket /run/x.sock a.pkt", "unexpected argument '--socket'"),
    ("ip adr", "did you mean `addr`?"),
    ("ip route", "`pantala route` shows and changes routes"),
    ("nft list ruleset", "use `pantala ipfw`"),
];

fn lines_that_are_not_understood_end_with_2() {
    let world = World::new();
    for (line, says) in NOT_UNDERSTOOD {
        let said = world.run(line);
        assert_eq!((said.exit, said.out.as_str()), (Exit::Usage, ""), "{line}: {said:?}");
        assert!(said.err.contains(says), "{line}: {}", said.err);
    }
}

fn what_the_stack_refuses_ends_with_1_and_its_hint() {
    let world = World::new();
    for (line, says) in [
        ("ifconfig nosuch up", "pantala: there is no interface `nosuch`\n         known are lan, wan\n"),
        ("ifconfig lam", "pantala: there is no interface `lam`\n         did you mean `lan`?\n"),
        ("intrctl list lam", "pantala: no interface `lam` has rings; did you mean `lan`?\n"),
        ("intrctl affinity lan 0 7", "pantala: no netisr runs on CPU 7\n         known are 0, 1\n"),
        ("netstat -I lam", "pantala: there is no interface `lam`; did you mean `lan`?\n"),
        (
            "route add 10.0.0.0/8 192.0.2.7",
            "pantala: there is a route to 10.0.0.0/8\n         delete it first\n",
        ),
        ("route get 2001:db9::1", "pantala: no route leads to 2001:db9::1\n"),
        ("arp -n 192.0.2.200", "pantala: 192.0.2.200 is not known as a neighbour\n"),
        ("ping -c 1 -s 65508 192.0.2.7", "pantala: more than 65507 bytes of data do not fit a packet\n"),
    ] {
        let said = world.run(line);
        assert_eq!((said.exit, said.err.as_str()), (Exit::Failed, says), "{line}");
    }
}

fn with_json_a_refusal_is_json() {
    let said = World::new().run("--json route add 10.0.0.0/8 192.0.2.7");
    let error: serde_json::Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(error["error"], "there is a route to 10.0.0.0/8");
    assert_eq!(error["hint"], "delete it first");
}

fn with_json_what_is_not_understood_is_json() {
    let world = World::new();
    let behind = [("netstat -rz --json", "there is no flag -z"), ("ifcnofig --json", "'ifconfig'")];
    let lines = NOT_UNDERSTOOD.map(|(line, says)| (format!("--json {line}"), says));
    for (line, says) in lines.into_iter().chain(behind.map(|(line, says)| (line.to_owned(), says))) {
        let said = world.run(line.trim());
        assert_eq!((said.exit, said.out.as_str()), (Exit::Usage, ""), "{line}: {said:?}");
        let refusal: serde_json::Value = serde_json::from_str(&said.err).unwrap();
        let [error, hint] = ["error", "hint"].map(|key| refusal[key].as_str().unwrap().to_owned());
        assert!(format!("{error}\n{hint}").contains(says), "{line}: {refusal}");
        assert!(!error.is_empty() && !error.starts_with("error:"), "{line}: {refusal}");
    }
}

fn without_a_daemon_every_command_says_how_to_start_one() {
    let folder = Folder::new();
    let socket = folder.socket().display().to_string();
    for line in [
        "ifconfig",
        "netstat -i",
        "route get 192.0.2.1",
        "arp -a",
        "ndp -a",
        "ping -q -c 1 192.0.2.1",
        "reload",
    ] {
        let said = pantala(&format!("{line} --socket={socket}"));
        let says = format!(
            "pantala: no pantala is running at {socket}; start one with `pantala up`, or name another socket with \
             --socket\n"
        );
        assert_eq!((said.exit, said.err), (Exit::Failed, says), "{line}");
    }
}

fn help_has_examples_wherever_it_is_asked_for() {
    for (line, says) in [
        ("--help", "Exit codes"),
        ("netstat --help", "pantala netstat -rn"),
        ("route add --help", "pantala route add default 192.0.2.254"),
        ("ping -c 3 --help", "pantala ping -c 3"),
        ("--version", "pantala 0."),
    ] {
        let said = pantala(line);
        assert_eq!((said.exit, said.err.as_str()), (Exit::Ok, ""), "{line}");
        assert!(said.out.contains(says), "{line}: {}", said.out);
    }
}

fn check_ends_with_0_or_1_and_names_the_place() {
    let folder = Folder::new();
    let file = folder.path().join("p.toml");
    let name = file.display();
    std::fs::write(&file, "[[interface]]\ndevice = \"tap:lan0\"\n").unwrap();
    let said = pantala(&format!("check -c {name}"));
    assert_eq!(said.exit, Exit::Ok);
    assert!(
        said.out.starts_with(&format!("{name}: ok: ")) && said.out.ends_with(", 1 interface, 0 routes\n"),
        "{said:?}"
    );

    std::fs::write(&file, "[[interface]]\ndevice = \"tab:lan0\"\n").unwrap();
    let said = pantala(&format!("check -c {name}"));
    assert_eq!((said.exit, said.out.as_str()), (Exit::Failed, ""));
    let says = format!(
        "{name}:2:10: unknown driver `tab`\n    device = \"tab:lan0\"\n             ^^^^^^^^^^\n    did you mean `tap`?\n"
    );
    assert_eq!(said.err, says);
    let said = pantala(&format!("check --json -c {name}"));
    let problems: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.exit, &problems["problems"][0]["line"]), (Exit::Failed, &2.into()));

    let said = pantala(&format!("check -c {name}.nosuch"));
    assert_eq!(said.exit, Exit::Failed);
    assert!(said.err.contains("p.toml.nosuch: No such file"), "{}", said.err);
}

fn check_finds_what_a_reload_would_miss_on_this_machine() {
    let folder = Folder::new();
    let (file, site) = (folder.path().join("p.toml"), folder.path().join("site"));
    let name = file.display();
    let text = format!(
        "[[interface]]\nname = \"wan\"\ndevice = \"af_xdp:pt-none7\"\n[[serve]]\ndir = \"{}\"\n",
        site.display()
    );
    std::fs::write(&file, text).unwrap();
    let missing = format!("{}: No such file or directory", site.display());
    let said = pantala(&format!("check -c {name}"));
    assert_eq!((said.exit, said.out.as_str()), (Exit::Failed, ""));
    assert!(said.err.contains(&missing), "{}", said.err);
    let said = pantala(&format!("check --json -c {name}"));
    let shown: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert!(shown["problems"][0]["message"].as_str().unwrap().contains(&missing), "{shown}");

    std::fs::create_dir(&site).unwrap();
    let said = pantala(&format!("check -c {name}"));
    assert_eq!(said.exit, Exit::Ok);
    assert!(
        said.err.contains("warning: interface wan: there is no interface named pt-none7"),
        "{}",
        said.err
    );
}

fn the_process_ends_with_0_1_or_2() {
    let folder = Folder::new();
    let socket = folder.socket();
    for (words, code) in
        [(&["--version"][..], 0), (&["ifconfig"], 1), (&["ifconfig", "a", "b", "c"], 2), (&["foo"], 2)]
    {
        let program = std::process::Command::new(env!("CARGO_BIN_EXE_pantala"))
            .args(words)
            .env("PANTALA_SOCKET", &socket)
            .output()
            .unwrap();
        assert_eq!(program.status.code(), Some(code), "{words:?}");
    }
}

/// As a disk without room.
struct Full;

impl std::io::Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn an_output_that_cannot_be_written_is_an_error() {
    let world = World::new();
    let err = Page::default();
    let mut term = Term::new(Box::new(Full), Box::new(err.clone()), false);
    let line = format!("pantala --socket {} ifconfig", world.folder.socket().display());
    let exit = run(line.split_whitespace().map(Into::into), &mut term);
    assert_eq!((exit, &*err.text()), (Exit::Failed, "pantala: cannot write the output: no storage space\n"));
}

harness::tests![
    lines_that_are_not_understood_end_with_2,
    what_the_stack_refuses_ends_with_1_and_its_hint,
    with_json_a_refusal_is_json,
    with_json_what_is_not_understood_is_json,
    without_a_daemon_every_command_says_how_to_start_one,
    help_has_examples_wherever_it_is_asked_for,
    check_ends_with_0_or_1_and_names_the_place,
    check_finds_what_a_reload_would_miss_on_this_machine,
    the_process_ends_with_0_1_or_2,
    an_output_that_cannot_be_written_is_an_error,
];
