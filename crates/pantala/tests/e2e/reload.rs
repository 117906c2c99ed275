//! Reading the configuration again, while a transfer runs.

use std::thread;

use rustix::process::Signal;

use crate::lab::{Attach, Lab, Link};
use crate::socket::{ping, stream_arrives};
use crate::wait::until_right;

const ROUTE: &str = "[[route]]\nto = \"198.51.100.0/24\"\nreject = true\n";

fn lab(test: &str) -> Option<Lab> {
    Lab::start(test, &[Link::new(Attach::Native).rings(2), Link::new(Attach::Tap).rings(2)])
}

fn has_route(lab: &Lab) -> bool {
    lab.pantala().json("netstat -rn").to_string().contains("198.51.100.0/24")
}

fn a_transfer_is_not_touched_by_reloads_good_and_bad() {
    let Some(lab) = lab("reload::a_transfer_is_not_touched_by_reloads_good_and_bad") else { return };
    let (a, b) = lab.pair();
    // At the start a frame may come before the interface is known.
    let before = lab.pantala().dropped("interface_gone");
    lab.both(|family| {
        thread::scope(|scope| {
            let transfer =
                scope.spawn(|| stream_arrives(&a.netns, &b.netns, b.addr(family), 100_000_000).unwrap());
            let mut rounds = 0;
            while !transfer.is_finished() || rounds == 0 {
                reload_good_and_bad(&lab);
                rounds += 1;
            }
            assert!(transfer.join().unwrap(), "after {rounds} rounds of reloads");
        });
    });
    assert_eq!(lab.pantala().dropped("interface_gone"), before);
}

fn reload_good_and_bad(lab: &Lab) {
    lab.pantala().rewrite_config(&lab.config(ROUTE));
    let out = lab.pantala().shows("reload");
    assert!(out.contains("198.51.100.0/24"), "{out}");
    assert!(has_route(lab));
    lab.pantala().rewrite_config(&lab.config("[[route]]\nto = \"198.51.100.0/33\"\nreject = true\n"));
    let said = lab.pantala().command("reload");
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("198.51.100.0/33") && said.err.contains("pantala.toml:"), "{said:?}");
    assert!(has_route(lab), "a wrong configuration changes nothing");
    lab.pantala().rewrite_config(&lab.config(""));
    lab.pantala().shows("reload");
    assert!(!has_route(lab));
    assert_eq!(lab.pantala().shows("reload"), "nothing differs\n");
}

fn a_transfer_goes_on_while_the_flow_cache_is_switched_on_and_off() {
    let Some(lab) = lab("reload::a_transfer_goes_on_while_the_flow_cache_is_switched_on_and_off") else {
        return;
    };
    let (a, b) = lab.pair();
    let hits = || lab.pantala().counter("flow_hits");
    lab.both(|family| {
        let before = hits();
        thread::scope(|scope| {
            let transfer =
                scope.spawn(|| stream_arrives(&a.netns, &b.netns, b.addr(family), 100_000_000).unwrap());
            while !transfer.is_finished() {
                lab.pantala().rewrite_config(&format!("flow_cache = 64\n{}", lab.config("")));
                assert!(lab.pantala().shows("reload").contains("flow cache: 64 flows"));
                lab.pantala().rewrite_config(&lab.config(""));
                assert!(lab.pantala().shows("reload").contains("flow cache: off"));
            }
            assert!(transfer.join().unwrap());
        });
        assert!(hits() > before, "{family:?}: packets went the fast way");
    });
}

fn sighup_reloads_too_and_a_bad_file_is_reported() {
    let Some(lab) = lab("reload::sighup_reloads_too_and_a_bad_file_is_reported") else { return };
    lab.pantala().rewrite_config(&lab.config(ROUTE));
    lab.pantala().signal(Signal::HUP);
    until_right("the route is there", || has_route(&lab), |there| *there);
    lab.pantala().rewrite_config("nonsense = 1\n");
    lab.pantala().signal(Signal::HUP);
    until_right("the mistake is reported", || lab.pantala().stderr(), |said| said.contains("nonsense"));
    assert!(has_route(&lab));
}

fn an_interface_is_added_and_removed_while_others_work() {
    let Some(lab) = lab("reload::an_interface_is_added_and_removed_while_others_work") else { return };
    let (a, b) = lab.pair();
    let extra = "[[interface]]\nname = \"extra\"\ndevice = \"tap:extra0\"\naddress = [\"10.99.0.1/24\"]\n";
    let names = || lab.pantala().interfaces().into_iter().map(|interface| interface.name).collect::<Vec<_>>();
    for _ in 0..3 {
        lab.pantala().rewrite_config(&lab.config(extra));
        lab.pantala().shows("reload");
        assert!(names().contains(&"extra".to_owned()), "{:?}", names());
        assert!(lab.router.netlink().unwrap().link("extra0").is_ok());
        lab.both(|family| assert_eq!(ping(&a.netns, b.addr(family), 3), 3));
        lab.pantala().rewrite_config(&lab.config(""));
        lab.pantala().shows("reload");
        assert!(!names().contains(&"extra".to_owned()), "{:?}", names());
        assert!(lab.router.netlink().unwrap().link("extra0").is_err());
    }
}

harness::tests![
    a_transfer_is_not_touched_by_reloads_good_and_bad,
    a_transfer_goes_on_while_the_flow_cache_is_switched_on_and_off,
    sighup_reloads_too_and_a_bad_file_is_reported,
    an_interface_is_added_and_removed_while_others_work,
];
