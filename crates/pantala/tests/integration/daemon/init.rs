//! `pantala init`: a configuration from what a machine has, which is then run.

use std::fs;
use std::process::{Command, Output};

use rustix::process::Signal;

use crate::daemon::lab::{Lab, OURS, Wire};

fn pantala(lab: &Lab, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantala"));
    command.args(arguments).arg("-c").arg(lab.file());
    lab.router().put(&mut command).unwrap();
    command.output().unwrap()
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn what_init_writes_passes_the_check_and_runs_and_is_not_overwritten() {
    let Some(lab) = Lab::new("init", Wire::Veth { queues: 2 }) else { return };
    lab.address_router(&["192.0.2.1/24", "2001:db8::1/64"]);
    done(&pantala(&lab, &["init"]));
    let text = fs::read_to_string(lab.file()).unwrap();
    assert!(text.contains("# pt0: veth, 2 receive queues, mtu 1500, up\n"), "{text}");
    assert!(text.contains("\ndevice  = \"af_xdp:pt0\"\n"), "{text}");
    assert!(done(&pantala(&lab, &["check"])).contains("1 interface"));

    let again = pantala(&lab, &["init"]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.code() == Some(1) && said.contains("--force"), "{said}");
    fs::write(lab.file(), "# mine\n").unwrap();
    assert!(!pantala(&lab, &["init"]).status.success());
    assert_eq!(fs::read_to_string(lab.file()).unwrap(), "# mine\n");
    done(&pantala(&lab, &["init", "--force"]));
    assert_eq!(fs::read_to_string(lab.file()).unwrap(), text);

    lab.write(&format!("socket = \"{}\"\n{text}", lab.socket().display()));
    let daemon = lab.start();
    assert!(OURS.iter().all(|ours| lab.host_reaches(ours)));
    assert!(daemon.end(Signal::TERM));
}

fn an_interface_that_carries_the_default_route_is_a_comment_with_the_reason() {
    for (net, gateway) in [("192.0.2.1/24", "192.0.2.2"), ("2001:db8::1/64", "2001:db8::2")] {
        let Some(lab) = Lab::new("initway", Wire::Veth { queues: 1 }) else { continue };
        lab.address_router(&[net]);
        lab.default_route(gateway);
        done(&pantala(&lab, &["init"]));
        let text = fs::read_to_string(lab.file()).unwrap();
        assert!(text.contains("# Left to the kernel: pt0 carries the kernel's default route.\n"), "{text}");
        assert!(
            text.contains("\n#device  = \"af_xdp:pt0\"\n") && text.contains("\ndevice  = \"tap:pantala0\"\n"),
            "{text}"
        );
        done(&pantala(&lab, &["check"]));
    }
}

harness::tests![
    what_init_writes_passes_the_check_and_runs_and_is_not_overwritten,
    an_interface_that_carries_the_default_route_is_a_comment_with_the_reason,
];
