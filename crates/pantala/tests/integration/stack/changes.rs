//! Changes and looks while a stack runs.

use pantala::api::{ErrorKind, RouteEdit, RouteMetrics, RouteRequest, SysctlChange};

use crate::stack::caller::{SERVER, is_heard, pair};

fn addresses_come_and_go_while_packets_flow() {
    let [server, client] = pair([2, 1]);
    for (new, prefix) in [("192.0.2.77", 24), ("2001:db8::77", 64)] {
        let net = format!("{new}/{prefix}").parse().unwrap();
        server.add_address("lan", net).unwrap();
        assert!(is_heard(&client, 0, new, 10_000), "{new}");
        assert_eq!(server.add_address("lan", net).unwrap_err().kind, ErrorKind::Invalid, "once");
        server.remove_address("lan", net).unwrap();
        assert_eq!(server.remove_address("lan", net).unwrap_err().kind, ErrorKind::NotFound);
    }
    assert!(is_heard(&client, 0, SERVER[0], 10_000), "the others stay");
    let wrong = server.add_address("lam", "192.0.2.78/24".parse().unwrap()).unwrap_err();
    assert_eq!((wrong.kind, wrong.hint.as_str()), (ErrorKind::NotFound, "did you mean `lan`?"));
    assert!(server.add_address("lan", "192.0.2.255/24".parse().unwrap()).is_err(), "a broadcast address");
}

fn routes_lead_where_they_are_told_to() {
    let [server, client] = pair([1, 1]);
    server.add_address("lan", "198.51.100.1/24".parse().unwrap()).unwrap();
    let to = "198.51.100.0/24".parse().unwrap();
    let way = RouteRequest {
        fib: 0,
        to,
        via: vec![SERVER[0].parse().unwrap()],
        dev: None,
        reject: false,
        blackhole: false,
        metrics: RouteMetrics::default(),
    };
    let made = client.admin().edit_routes(&[RouteEdit::Add(way)]).unwrap();
    assert_eq!(made, [Ok(())]);
    assert!(is_heard(&client, 0, "198.51.100.1", 10_000));
}

fn all_that_is_counted_can_be_read_and_variables_changed() {
    let [server, client] = pair([2, 1]);
    assert!(is_heard(&client, 0, SERVER[1], 10_000));
    let metrics = server.metrics().unwrap();
    assert!(
        metrics
            .lines()
            .any(|line| line.starts_with("pantala_if_rx_packets_total{") && line.contains("\"lan\""))
    );
    let change = SysctlChange { value: "30".to_owned() };
    let changed = server.admin().change_sysctl("net.inet.tcp.delacktime", &change).unwrap();
    assert_eq!(changed.new, "30");
    let interfaces = server.admin().interfaces().unwrap();
    assert!(interfaces[0].counters.rx_packets > 0 && interfaces[0].link.active);
}

harness::tests![
    addresses_come_and_go_while_packets_flow,
    routes_lead_where_they_are_told_to,
    all_that_is_counted_can_be_read_and_variables_changed
];
