use super::*;

fn plan(more: &str) -> Result<Plan, String> {
    let words: Vec<&str> = more.split_whitespace().collect();
    Plan::new(Args::read(&words).map_err(|error| error.to_string())?)
}

const PAIR: &str = "af_xdp:a af_xdp:b";

#[test]
fn without_options_a_run_is_as_the_standard_has_it() {
    for (family, least, addresses) in [
        ("", 64, ["198.18.1.2/24 198.18.1.1", "198.19.1.2/24 198.19.1.1"]),
        ("-6", 84, ["2001:2:0:1::2/64 2001:2:0:1::1", "2001:2:0:2::2/64 2001:2:0:2::1"]),
    ] {
        let plan = plan(&format!("{PAIR} {family}")).unwrap();
        assert_eq!(plan.sizes, [least, 128, 256, 512, 1024, 1280, 1518]);
        assert_eq!((plan.trial_ms, plan.settle_ms, plan.pause_ms), (60_000, 2000, 5000));
        assert_eq!((plan.loss_tolerance, plan.tests.as_slice()), (0, &Test::ALL[..]));
        assert_eq!((plan.repeat_of(Test::Latency), plan.repeat_of(Test::BackToBack)), (20, 50));
        let found = plan.ends.iter().map(|end| format!("{} {}", end.addr, end.gateway));
        assert_eq!(found.collect::<Vec<_>>(), addresses);
    }
}

#[test]
fn each_port_of_a_mesh_sends_to_all_others_in_turn_and_has_a_network() {
    let plan = |more: &str| plan(&format!("tap:a tap:b tap:c tap:d --mesh {more}")).unwrap();
    let mesh = plan("");
    let order: Vec<Vec<usize>> = (0..mesh.senders()).map(|from| mesh.receivers(from).collect()).collect();
    assert_eq!(order, [[1, 2, 3], [2, 3, 0], [3, 0, 1], [0, 1, 2]]);
    assert_eq!(mesh.sources(2).collect::<Vec<_>>(), [0, 1, 3]);
    let addresses = |plan: Plan| plan.ends.iter().map(|end| end.addr.to_string()).collect::<Vec<_>>();
    assert_eq!(addresses(mesh), ["198.18.1.2/24", "198.19.1.2/24", "198.18.2.2/24", "198.19.2.2/24"]);
    assert_eq!(
        addresses(plan("-6")),
        ["2001:2:0:1::2/64", "2001:2:0:2::2/64", "2001:2:0:3::2/64", "2001:2:0:4::2/64"]
    );
    let given = "10.0.1.9/24,10.0.2.9/24,10.0.3.9/24,10.0.4.9/24";
    assert_eq!(addresses(plan(&format!("--addrs {given}"))).join(","), given);
}

#[test]
fn the_frame_rate_of_a_line_is_that_of_the_standards_table() {
    // RFC 2544 appendix B: 10 Mbit/s Ethernet
    let plan = plan(&format!("{PAIR} --line 10mbit")).unwrap();
    let rates = plan.sizes.iter().map(|size| plan.line_rate(*size).unwrap() / 1000);
    assert_eq!(rates.collect::<Vec<_>>(), [14_880, 8445, 4528, 2349, 1197, 961, 812]);
}

#[test]
fn the_highest_rate_is_the_lowest_of_line_and_wish() {
    for (line, top) in [
        ("--max-rate 5kpps", Some(5_000_000)),
        ("--line 10mbit --max-rate 5kpps", Some(5_000_000)),
        ("--line 10mbit --max-rate 5mpps", Some(14_880_952)),
        ("--line 10mbit --max-rate 50%", Some(7_440_476)),
        ("--line 10mbit --max-rate max", Some(14_880_952)),
        ("--max-rate 512kbit", Some(1_000_000)),
        ("", None),
    ] {
        assert_eq!(plan(&format!("{PAIR} {line}")).unwrap().top(64), top, "{line}");
    }
}

#[test]
fn tests_that_need_the_throughput_have_it_and_all_are_in_order_once() {
    let tests = |more: &str| plan(&format!("{PAIR} --tests {more}")).unwrap().tests;
    assert_eq!(tests("recovery,latency,latency"), [Test::Throughput, Test::Latency, Test::Recovery]);
    assert_eq!(tests("loss"), [Test::Loss]);
}

#[test]
fn a_plan_survives_its_file() {
    let plan =
        plan(&format!("{PAIR} -6 --line 10gbit --flows 7 --max-rate 30% --reset-command reboot")).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&serde_json::to_string(&plan).unwrap()).unwrap(), plan);
}

#[test]
fn what_differs_from_the_standard_is_said() {
    let said = |more: &str| plan(&format!("{PAIR} {more}")).unwrap().deviations().join("\n");
    let all = said("--trial 2s --settle 100ms --pause 0s --loss-tolerance 0.1% --repeat 3");
    for part in [
        "2 s instead of 60 s",
        "0.1 s instead of 2 s, and 0 s pass",
        "0.1 % of the frames",
        "3 times instead of 20",
        "3 times instead of 50",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert_eq!(said("--tests throughput --line 1gbit"), "");
}

#[test]
fn what_does_not_fit_together_is_explained() {
    for (line, says) in [
        ("", "required"),
        ("tap:a", "required"),
        ("tap:a tap:a", "TX and RX are both tap:a"),
        ("tap:a pcap:x,y", "pcap:x,y is a file"),
        ("tap:a eth0", "`eth0` names no driver"),
        ("tap:a tap:b --sizes 63", "--sizes 63 is not 64 to 2048"),
        ("tap:a tap:b -6 --sizes 64", "--sizes 64 is not 84 to 2048: an IPv6 frame"),
        (
            "tap:a tap:b --tests speed",
            "[possible values: throughput, latency, loss, back-to-back, recovery, reset]",
        ),
        ("tap:a tap:b --trial 10ms", "--trial is shorter than 100ms"),
        ("tap:a tap:b --resolution 0%", "--resolution 0% is never reached"),
        ("tap:a tap:b --max-rate 30%", "--max-rate in percent needs --line"),
        ("tap:a tap:b --max-rate 30", "--max-rate a unit is missing"),
        (
            "tap:a tap:b --tx-addr 10.0.0.2/24 --tx-gateway 10.0.1.1",
            "--tx-gateway 10.0.1.1 is not on the link of --tx-addr",
        ),
        ("tap:a tap:b --tx-addr 10.0.0.1/24", "the tester's own address"),
        ("tap:a tap:b -6 --rx-addr 10.0.0.2/24", "leave -6 out"),
        ("tap:a tap:b --rx-addr 2001:db8::2/64", "give -6 for a run with IPv6"),
        ("tap:a tap:b --switch --rx-gateway 198.19.1.1", "cannot be used with"),
        ("tap:a tap:b tap:c", "--mesh"),
        ("tap:a tap:b tap:c --mesh --both-ways", "cannot be used with"),
        ("tap:a tap:b tap:a --mesh", "tap:a is named twice"),
        (
            "tap:a tap:b tap:c --mesh --flows 9000",
            "--flows 9000 to each of 2 other ports are more than 16000 of a port; use 8000 or less",
        ),
        ("tap:a tap:b tap:c --mesh --addrs 10.0.0.2/24,10.0.1.2/24", "--addrs has 2 addresses for 3 ports"),
        ("tap:a tap:b --tx-addr 10.0.0.2/24 --addrs 10.0.0.2/24,10.0.1.2/24", "cannot be used with"),
        ("tap:a --resume x", "cannot be used with"),
        ("--resume x --trial 2s", "cannot be used with"),
        ("tap:a tap:b --flows 0", "1..=16000"),
    ] {
        let wrong = plan(line).unwrap_err();
        assert!(wrong.contains(says), "{line}: {wrong}");
    }
}
