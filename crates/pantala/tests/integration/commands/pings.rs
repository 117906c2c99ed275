//! Ping, from the first request to the summary.

use pantala::Exit;

use crate::commands::server::World;

fn a_ping_shows_answers_and_a_summary() {
    let world = World::new();
    for (host, limit) in [("192.0.2.7", "ttl"), ("2001:db8::7", "hlim")] {
        assert_eq!(
            world.shows(&format!("ping -c 3 -i 0.001 {host}")),
            format!(
                "\
PING {host} ({host}): 56 data bytes
64 bytes from {host}: icmp_seq=0 {limit}=64 time=0.100 ms
64 bytes from {host}: icmp_seq=1 {limit}=64 time=0.200 ms
64 bytes from {host}: icmp_seq=2 {limit}=64 time=0.300 ms

--- {host} ping statistics ---
3 packets transmitted, 3 packets received, 0.0% packet loss
round-trip min/avg/max/stddev = 0.100/0.200/0.300/0.082 ms
"
            )
        );
    }
}

fn its_flags_reach_the_stack() {
    let world = World::new();
    world.shows("ping -c 1 -D -s 1472 192.0.2.7");
    assert_eq!(*world.told.lock().unwrap(), ["echo 192.0.2.7 1472 bytes df=true"]);
}

fn without_an_answer_it_fails() {
    let world = World::new();
    for (host, line, end) in [
        ("192.0.2.66", "", "1 packets transmitted, 0 packets received, 100.0% packet loss\n"),
        (
            "192.0.2.77",
            "from 192.0.2.77: icmp_seq=0 Destination Host Unreachable\n",
            "+1 errors, 100.0% packet loss\n",
        ),
        (
            "192.0.2.99",
            "ping: icmp_seq=0 not sent: no route to host\n",
            "0 packets transmitted, 0 packets received\n",
        ),
    ] {
        let said = world.run(&format!("ping -c 1 -W 1 {host}"));
        assert_eq!((said.exit, said.err.as_str()), (Exit::Failed, ""));
        assert!(said.out.contains(line) && said.out.ends_with(end), "{}", said.out);
    }
}

fn a_second_answer_is_a_duplicate_and_not_counted_twice() {
    let shown = World::new().shows("ping -c 2 -i 0.001 192.0.2.22");
    assert!(shown.contains("icmp_seq=0 ttl=64 time=0.100 ms (DUP!)"), "{shown}");
    assert!(shown.contains("2 packets received, +"), "{shown}");
    assert!(shown.contains("0.0% packet loss"), "{shown}");
}

fn with_json_each_event_is_a_line() {
    let shown = World::new().shows("ping --json -c 1 192.0.2.7");
    let events: Vec<serde_json::Value> =
        shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(names, ["sent", "reply", "done"]);
    assert_eq!(events[1]["rtt_ns"], 100_000);
}

fn quiet_shows_only_the_ends() {
    assert_eq!(World::new().shows("ping -q -c 1 192.0.2.7").lines().count(), 5);
}

harness::tests![
    a_ping_shows_answers_and_a_summary,
    its_flags_reach_the_stack,
    without_an_answer_it_fails,
    a_second_answer_is_a_duplicate_and_not_counted_twice,
    with_json_each_event_is_a_line,
    quiet_shows_only_the_ends
];
