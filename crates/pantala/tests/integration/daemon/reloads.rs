//! Reading the configuration again.

use rustix::process::Signal;

use crate::daemon::lab::{Lab, OURS, Wire};

fn a_reload_changes_what_differs_and_nothing_else() {
    for wire in [Wire::Tap, Wire::Veth { queues: 2 }] {
        let Some(lab) = Lab::new("reload", wire) else { continue };
        lab.write(&lab.config(""));
        let daemon = lab.start();
        if matches!(wire, Wire::Tap) {
            lab.address_host();
        }
        assert!(lab.host_reaches(OURS[0]));
        daemon.shows("route add 203.0.113.0/24 192.0.2.2");
        assert_eq!(daemon.shows("reload"), "nothing differs\n");

        let more = "[[interface]]\nname = \"new\"\ndevice = \"tap:pt7\"\naddress = [\"198.51.100.1/24\"]\n\
                    [[route]]\nto = \"default\"\nvia = [\"192.0.2.254\"]\n";
        lab.write(&lab.config(more).replace("192.0.2.1/24", "192.0.2.7/24"));
        daemon.signal(Signal::HUP);
        daemon.says("route to 0.0.0.0/0 added");
        daemon.shows_line("netstat -rn", "203.0.113.0/24 192.0.2.2 UGS lan");
        daemon.shows_line("netstat -rn", "default 192.0.2.254 UGS lan");
        daemon.shows_line("ifconfig new", "inet 198.51.100.1");
        assert!(lab.host_reaches("192.0.2.7") && lab.host_reaches(OURS[1]));

        lab.write(&lab.config(""));
        let said = daemon.shows("reload");
        assert!(said.contains("interface new removed") && said.contains("192.0.2.1/24 added"), "{said}");
        assert!(lab.link("pt7").is_none());
        assert!(lab.host_reaches(OURS[0]));
        daemon.signal(Signal::TERM);
        daemon.says("0 buffers missing, 0 leaked");
    }
}

fn a_reload_that_cannot_be_done_changes_nothing() {
    let Some(lab) = Lab::new("bad", Wire::Veth { queues: 2 }) else { return };
    lab.write(&lab.config(""));
    let daemon = lab.start();
    for (more, says) in [
        ("mtu = 40", "mtu 40 is too small"),
        ("[[interface]]\nname = \"x\"\ndevice = \"af_xdp:nope7\"", "no interface named nope7"),
        (
            "[[interface]]\nname = \"y\"\ndevice = \"tap:pt8\"\n[[interface]]\ndevice = \"af_xdp:nope7\"",
            "nothing was changed",
        ),
        ("rings = 9", "pt0 has 2 queues"),
    ] {
        lab.write(&lab.config(more));
        let (done, text) = daemon.run("reload");
        assert!(!done && text.contains(says), "{text}");
        assert_eq!(daemon.json("ifconfig").as_array().unwrap().len(), 1);
        assert!(lab.link("pt8").is_none());
        assert!(lab.host_reaches(OURS[0]), "{more}\n{}", daemon.shows("netstat -s"));
    }
}

fn an_interface_is_opened_anew_or_renamed_over_the_same_device() {
    let Some(lab) = Lab::new("anew", Wire::Veth { queues: 2 }) else { return };
    lab.write(&lab.config(""));
    let daemon = lab.start();
    lab.write(&lab.config("rings = 1"));
    assert_eq!(daemon.shows("reload"), "interface lan opened anew\n");
    assert_eq!(daemon.interface()["device"]["queues"], 1);
    lab.write(&lab.config("").replace("\"lan\"", "\"uplink\""));
    daemon.shows("reload");
    assert!(lab.host_reaches(OURS[1]));
    daemon.shows_line("ifconfig uplink", "status: active");
}

harness::tests![
    a_reload_changes_what_differs_and_nothing_else,
    a_reload_that_cannot_be_done_changes_nothing,
    an_interface_is_opened_anew_or_renamed_over_the_same_device,
];
