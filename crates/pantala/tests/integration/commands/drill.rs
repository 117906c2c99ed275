//! `drill`: scripts are read and run, and what is wrong with them is said.

use drill::mutate::Role;
use pantala::Exit;

use crate::commands::server::{Folder, pantala};

const RIGHT: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 close(3) = 0\n";
const WRONG: &str = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 clos(3) = 0\n+0 > S 0:1(0)\n";

fn each_error_of_a_folder_of_scripts_is_one_line_and_the_last_line_counts() {
    let folder = Folder::new();
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(folder.path().join("b.pkt"), RIGHT).unwrap();
    std::fs::write(folder.path().join("a.pkt"), WRONG).unwrap();
    std::fs::write(inner.join("c.pkt"), RIGHT).unwrap();
    std::fs::write(folder.path().join("d.txt"), WRONG).unwrap();
    let name = folder.path().display();
    let said = pantala(&format!("drill -n {name}"));
    assert_eq!((said.exit, said.out.as_str()), (Exit::Failed, "2 read, 1 could not be read\n"));
    let says = format!(
        "{name}/a.pkt:2:4: `clos` is no system call\n{name}/a.pkt:3:8: from 0 to 1 are not 0 bytes\n"
    );
    assert_eq!(said.err, says);

    let said = pantala(&format!("drill -n {name}/inner {name}/b.pkt"));
    assert_eq!(
        (said.exit, said.out.as_str(), said.err.as_str()),
        (Exit::Ok, "2 read, 0 could not be read\n", "")
    );
    let said = pantala(&format!("drill -n -v {name}/a.pkt"));
    assert!(said.err.contains("    +0 clos(3) = 0\n       ^^^^\nexpected: "), "{}", said.err);
}

fn the_answer_in_json_has_stable_keys() {
    let folder = Folder::new();
    std::fs::write(folder.path().join("a.pkt"), WRONG).unwrap();
    let said = pantala(&format!("drill -n --json {}", folder.path().display()));
    let answer: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.exit, said.err.as_str()), (Exit::Failed, ""));
    assert_eq!((&answer["read"], &answer["failed"]), (&0.into(), &1.into()));
    let problem = &answer["problems"][0];
    assert_eq!((&problem["line"], &problem["column"]), (&2.into(), &4.into()));
    assert!(problem["file"].as_str().unwrap().ends_with("a.pkt"));
    assert!(problem["help"].as_str().unwrap().contains("did you mean `close`?"), "{problem}");
}

fn branches_are_chosen_by_name() {
    let folder = Folder::new();
    let file = folder.path().join("a.pkt");
    std::fs::write(&file, "#ifdef FreeBSD\nnonsense\n#endif\n0 close(3) = 0\n").unwrap();
    assert_eq!(pantala(&format!("drill -n {}", file.display())).exit, Exit::Ok);
    assert_eq!(pantala(&format!("drill -n -D FreeBSD {}", file.display())).exit, Exit::Failed);
}

fn what_is_not_there_could_not_be_read() {
    let folder = Folder::new();
    let name = folder.path().display();
    let said = pantala(&format!("drill -n {name} {name}/x.pkt"));
    assert_eq!((said.exit, said.out.as_str()), (Exit::Failed, "0 read, 2 could not be read\n"));
    assert!(said.err.contains("no script (*.pkt) is in this folder"), "{}", said.err);
    assert!(said.err.contains("x.pkt: No such file"), "{}", said.err);
}

/// A closed port resets what comes; the second says that it does not.
const MET: &str = "0 < S 7:7(0) win 1000\n+0 > R. 0:0(0) ack 8 win 0\n";
const UNMET: &str = "0 < S 7:7(0) win 1000\n+0 > R. 0:0(0) ack 9 win 0\n";

fn scripts_run_and_each_that_fails_is_one_line_with_what_was_expected_and_what_came() {
    let folder = Folder::new();
    let name = folder.path().display();
    for (script, text) in [("a", MET), ("b", UNMET), ("c", WRONG), ("d", MET)] {
        std::fs::write(folder.path().join(format!("{script}.pkt")), text).unwrap();
    }
    for options in ["", "-j 3", "--cpus 4 --any-ring", "-6"] {
        let said = pantala(&format!("drill {options} {name}"));
        assert_eq!((said.exit, said.err.as_str()), (Exit::Failed, ""), "{options}");
        let lines: Vec<&str> = said.out.lines().collect();
        assert_eq!((lines.len(), lines[3]), (4, "2 passed, 2 failed"), "{}", said.out);
        assert!(lines[0].starts_with(&format!("{name}/b.pkt:2: expected > R. 0:0(0) ack 9 win 0; came > ")));
        assert!(lines[0].ends_with(": ack 8, not 9"), "{}", lines[0]);
        assert!(lines[1].starts_with(&format!("{name}/c.pkt:2:4: ")), "{}", lines[1]);
    }
    assert_eq!(pantala(&format!("drill {name}/a.pkt")).exit, Exit::Ok);
    let said = pantala(&format!("drill --mutate {name}/a.pkt"));
    let script = drill::parse("a.pkt", MET, &[]).unwrap();
    let mutants = drill::mutants(&script).filter(|mutant| mutant.role == Role::Demand).count();
    assert!(mutants > 5, "{mutants}");
    let summary = format!("1 passed, 0 failed; {mutants} mutants ran, 0 of them passed\n");
    assert_eq!((said.exit, said.out), (Exit::Ok, summary));
    let said = pantala(&format!("drill --mutate --json {name}/a.pkt"));
    let answer: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(answer["mutants"], serde_json::json!({ "ran": mutants, "passed": 0 }));
    let said = pantala(&format!("drill --json {name}"));
    let answer: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&answer["passed"], &answer["failed"]), (&2.into(), &2.into()));
    assert_eq!((&answer["problems"][0]["line"], &answer["problems"][0]["column"]), (&2.into(), &4.into()));
}

harness::tests![
    each_error_of_a_folder_of_scripts_is_one_line_and_the_last_line_counts,
    the_answer_in_json_has_stable_keys,
    branches_are_chosen_by_name,
    what_is_not_there_could_not_be_read,
    scripts_run_and_each_that_fails_is_one_line_with_what_was_expected_and_what_came
];
