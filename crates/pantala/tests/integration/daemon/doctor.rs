//! `pantala doctor`: what keeps pantala from taking an interface, and commands that change it.

use std::process::{Command, Output};

use crate::daemon::lab::{Lab, Wire};

fn doctor(lab: &Lab) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pantala"));
    command.args(["doctor", "--json", "-c"]).arg(lab.file());
    lab.router().put(&mut command).unwrap();
    command.output().unwrap()
}

/// Findings about `subject`: verdict, text and what mends it.
fn about(output: &Output, subject: &str) -> Vec<(String, String, Vec<String>)> {
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = shown["findings"].as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let own = findings.iter().filter(|finding| finding["subject"] == subject);
    own.map(|finding| {
        let mend = finding["mend"].as_array().unwrap().iter().map(text).collect();
        (text(&finding["verdict"]), text(&finding["text"]), mend)
    })
    .collect()
}

fn an_interface_that_cannot_be_taken_is_a_failure_and_one_that_can_is_none() {
    for gateway in ["192.0.2.2", "2001:db8::2"] {
        let Some(lab) = Lab::new("doctor", Wire::Veth { queues: 2 }) else { return };
        lab.write(&lab.config(""));
        let fit = doctor(&lab);
        assert!(fit.status.success(), "{fit:?}");
        let found = about(&fit, "pt0");
        assert!(found.iter().any(|(verdict, text, _)| verdict == "ok" && text.contains("veth")), "{found:?}");

        lab.address_router(&["192.0.2.1/24", "2001:db8::1/64"]);
        lab.default_route(gateway);
        let unfit = doctor(&lab);
        assert_eq!(unfit.status.code(), Some(1));
        let found = about(&unfit, "pt0");
        let is_kept = |(verdict, text, mend): &(String, String, Vec<String>)| {
            verdict == "failure"
                && text.contains("default route")
                && mend.iter().any(|line| line.contains("--force"))
        };
        assert!(found.iter().any(is_kept), "{found:?}");
        assert!(!lab.start_in_vain().status.success(), "up finds the same");

        lab.delete_link("pt0");
        let gone = doctor(&lab);
        assert_eq!(gone.status.code(), Some(1));
        assert!(about(&gone, "pt0")[0].1.contains("not there"));
    }
}

fn the_command_of_a_finding_takes_it_away() {
    let Some(lab) = Lab::new("mends", Wire::Veth { queues: 2 }) else { return };
    lab.write(&lab.config(""));
    let ip = |words: &str| {
        let mut command = Command::new("ip");
        command.args(words.split(' ').skip(1));
        lab.router().put(&mut command).unwrap();
        assert!(command.status().unwrap().success(), "{words}");
    };
    let of_mtu = || about(&doctor(&lab), "pt0").into_iter().find(|(_, text, _)| text.starts_with("mtu "));
    assert_eq!(of_mtu(), None);
    ip("ip link set dev pt0 mtu 9000");
    let (verdict, _, mend) = of_mtu().unwrap();
    assert_eq!(verdict, "warning");
    ip(&mend[0]);
    assert_eq!(of_mtu(), None);

    let of_program =
        || about(&doctor(&lab), "pt0").into_iter().find(|(_, text, _)| text.contains("XDP program"));
    assert_eq!(of_program(), None);
    lab.leave_program("pt0");
    let (_, _, mend) = of_program().unwrap();
    ip(&mend[1]);
    assert_eq!(of_program(), None);
}

harness::tests![
    an_interface_that_cannot_be_taken_is_a_failure_and_one_that_can_is_none,
    the_command_of_a_finding_takes_it_away,
];
