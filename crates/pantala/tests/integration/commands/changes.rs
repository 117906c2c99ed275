//! Requests of the changing commands.

use crate::commands::server::World;

fn told(line: &str) -> (String, Vec<String>) {
    let world = World::new();
    let shown = world.shows(line);
    let told = world.told.lock().unwrap().clone();
    (shown, told)
}

fn changes_reach_the_stack() {
    for (line, shows, tells) in [
        ("ifconfig lan down", "", "lan up=Some(false)"),
        ("ifconfig lan monitor", "", "lan monitor=true"),
        ("ifconfig lan -monitor", "", "lan monitor=false"),
        (
            "route add 10.9.0.0/16 192.0.2.7",
            "add net 10.9.0.0/16: gateway 192.0.2.7\n",
            "add RouteRequest { fib: 0, to: 10.9.0.0/16, via: [192.0.2.7], dev: None, reject: false, blackhole: false, \
             metrics: RouteMetrics { mtu: None, msl_ms: None, initial_window: None } }",
        ),
        (
            "route add -inet6 default fe80::1 dev lan",
            "add net default: gateway fe80::1\n",
            "add RouteRequest { fib: 0, to: ::/0, via: [fe80::1], dev: Some(\"lan\"), reject: false, blackhole: false, \
             metrics: RouteMetrics { mtu: None, msl_ms: None, initial_window: None } }",
        ),
        (
            "route change default -mtu 1400",
            "change net default\n",
            "change RouteRequest { fib: 0, to: 0.0.0.0/0, via: [], dev: None, reject: false, blackhole: false, \
             metrics: RouteMetrics { mtu: Some(1400), msl_ms: None, initial_window: None } }",
        ),
        ("route flush -inet6", "7 routes deleted\n", "flush Some(Inet6)"),
        ("route delete 10.9.0.1", "delete host 10.9.0.1\n", "delete 10.9.0.1/32 via None"),
        (
            "route delete 2001:db8:1::/48 fe80::2",
            "delete net 2001:db8:1::/48: gateway fe80::2\n",
            "delete 2001:db8:1::/48 via Some(fe80::2)",
        ),
        ("arp -s 192.0.2.8 2:0:0:0:0:8", "", "192.0.2.8 is 02:00:00:00:00:08 on None"),
        ("ndp -s 2001:db8::8 2:0:0:0:0:8 -i lan", "", "2001:db8::8 is 02:00:00:00:00:08 on Some(\"lan\")"),
        ("arp -d 192.0.2.7", "192.0.2.7 deleted\n", "forget 192.0.2.7"),
        ("ndp -d 2001:db8::7", "2001:db8::7 deleted\n", "forget 2001:db8::7"),
        ("intrctl affinity lan 1 0", "", "ring 1 of lan to CPU 0"),
        ("arp -da", "3 deleted\n", "forget inet"),
        ("ndp -c", "3 deleted\n", "forget inet6"),
        ("ndp -R", "2 routers forgotten\n", "forget routers"),
        ("ndp -P", "2 prefixes forgotten\n", "forget prefixes"),
    ] {
        assert_eq!(told(line), (shows.to_owned(), vec![tells.to_owned()]), "{line}");
    }
}

fn a_batch_does_what_can_be_done_and_names_the_other_lines() {
    let world = World::new();
    let file = std::env::temp_dir().join(format!("pantala-batch-{}", std::process::id()));
    let lines =
        "add 10.9.0.0/16 192.0.2.7\n\n# nothing\nad 10.0.0.0/8\nadd 10.0.0.0/8 192.0.2.7\ndelete 10.9.0.1\n";
    std::fs::write(&file, lines).unwrap();
    let said = world.run(&format!("route batch {}", file.display()));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(said.out, "2 changes made, 2 refused\n");
    assert!(said.err.contains(":4: route: unknown word `ad`; did you mean `add`?"), "{}", said.err);
    assert!(said.err.contains(":5: there is a route to 10.0.0.0/8"), "{}", said.err);
    assert_eq!(world.told.lock().unwrap().len(), 2);
}

fn of_many_lines_that_a_batch_refuses_twenty_are_shown_and_all_are_counted() {
    let world = World::new();
    let file = std::env::temp_dir().join(format!("pantala-refused-{}", std::process::id()));
    let long = format!("add 10.9.0.0/16 {}\n", "1".repeat(4096));
    std::fs::write(&file, long + &"ad\n".repeat(30)).unwrap();
    let said = world.run(&format!("route batch {}", file.display()));
    std::fs::remove_file(&file).unwrap();
    assert_eq!((said.exit, said.out.as_str()), (pantala::Exit::Failed, "0 changes made, 31 refused\n"));
    let shown: Vec<&str> = said.err.lines().collect();
    assert!(shown[0].ends_with(":1: longer than 4096 bytes"), "{}", shown[0]);
    assert_eq!((shown.len(), shown[20]), (21, "…"), "{}", said.err);
}

fn with_json_a_change_says_that_it_is_done() {
    assert_eq!(World::new().json("ifconfig lan up")["done"], true);
}

fn reload_says_what_differs() {
    let world = World::new();
    assert_eq!(world.shows("reload"), "lan: mtu 1500 -> 9000\n");
    assert_eq!(world.json("reload")["changes"][0], "lan: mtu 1500 -> 9000");
}

harness::tests![
    changes_reach_the_stack,
    a_batch_does_what_can_be_done_and_names_the_other_lines,
    of_many_lines_that_a_batch_refuses_twenty_are_shown_and_all_are_counted,
    with_json_a_change_says_that_it_is_done,
    reload_says_what_differs
];
