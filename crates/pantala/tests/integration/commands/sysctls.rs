//! `sysctl`.

use pantala::Exit;

use crate::commands::server::World;

fn variables_are_shown_by_name_by_the_beginning_of_it_or_all() {
    let world = World::new();
    let all = "net.inet.tcp.cc.algorithm: newreno\nnet.inet.tcp.delacktime: 20\nnet.inet.udp.checksum: 1\n";
    assert_eq!(world.shows("sysctl -a"), all);
    assert_eq!(world.shows("sysctl net.inet"), all);
    assert_eq!(world.shows("sysctl net.inet.tcp.delacktime"), "net.inet.tcp.delacktime: 20\n");
    assert_eq!(world.shows("sysctl -n net.inet.udp"), "1\n");
    assert_eq!(
        world.shows("sysctl -N net.inet.tcp."),
        "net.inet.tcp.cc.algorithm\nnet.inet.tcp.delacktime\n"
    );
    assert_eq!(
        world.shows("sysctl -ad"),
        "\
net.inet.tcp.cc.algorithm: something (newreno or cubic, usually cubic)
net.inet.tcp.delacktime: something (1 to 499 ms, usually 40)
net.inet.udp.checksum: something (cannot be changed)
"
    );
    assert_eq!(world.json("sysctl -a")[1]["unit"], "ms");
}

fn changes_say_what_was_and_what_is() {
    let world = World::new();
    assert_eq!(
        world.shows("sysctl -w net.inet.tcp.delacktime=7 net.inet.udp.checksum"),
        "net.inet.tcp.delacktime: 20 -> 7\nnet.inet.udp.checksum: 1\n"
    );
    assert_eq!(*world.told.lock().unwrap(), ["net.inet.tcp.delacktime=7"]);
    assert_eq!(world.json("sysctl net.inet.tcp.delacktime=8")["new"], "8");
}

fn what_is_not_known_or_cannot_be_is_explained() {
    let world = World::new();
    for (line, says) in [
        (
            "sysctl net.inet.tcp.delaktime",
            "unknown variable `net.inet.tcp.delaktime`; did you mean `net.inet.tcp.delacktime`?",
        ),
        ("sysctl net.inet.tc", "sysctl -a shows all"),
        ("sysctl net.inet.tcp.delacktime=500", "cannot be 500\n         it is a number from 1 to 499"),
    ] {
        let said = world.run(line);
        assert_eq!(said.exit, Exit::Failed, "{line}");
        assert!(said.err.contains(says), "{line}: {}", said.err);
    }
}

harness::tests![
    variables_are_shown_by_name_by_the_beginning_of_it_or_all,
    changes_say_what_was_and_what_is,
    what_is_not_known_or_cannot_be_is_explained
];
