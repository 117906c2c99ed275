//! The API where no command leads: `/metrics` and requests that make no sense.

use pantala::api::client::{Client, ClientError};
use pantala::api::{ErrorKind, Version};

use crate::commands::server::World;

fn client(world: &World) -> Client {
    Client::new(&world.folder.socket()).unwrap()
}

fn metrics_carry_interface_cpu_and_reason() {
    let world = World::new();
    let text = client(&world).text("/metrics").unwrap();
    for line in [
        "# TYPE pantala_if_rx_packets_total counter",
        "pantala_if_rx_packets_total{if=\"lan\",cpu=\"1\",queue=\"1\"} 2",
        "pantala_if_up{if=\"wan\"} 0",
        "pantala_drop_total{reason=\"ip4_bad_checksum\",node=\"ip4\",cpu=\"1\"} 3",
        "pantala_ip4_in_total{cpu=\"0\"} 30",
        "pantala_cpu_busy_seconds_total{cpu=\"0\"} 1.5",
        "pantala_pool_free_buffers{cpu=\"0\"} 3000",
        "pantala_firewall_states 2",
        "pantala_firewall_tracks 1",
        "pantala_firewall_nat_bindings{nat=\"1\"} 2",
        "pantala_firewall_nat_flows{nat=\"1\",proto=\"tcp\"} 2",
        "pantala_firewall_nat_refused_total{nat=\"1\",no=\"port\"} 3",
        "pantala_firewall_pipe_bytes_total{pipe=\"1\"} 1100",
        "pantala_firewall_pipe_drops_total{queue=\"2\"} 2",
        "pantala_firewall_pipe_waiting_bytes{pipe=\"1\"} 100",
        "pantala_firewall_rule_packets_total{rule=\"100\"} 12",
        "pantala_firewall_rule_bytes_total{rule=\"100\"} 3456",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
    }
}

fn every_metric_is_described_once_before_its_values() {
    let world = World::new();
    let text = client(&world).text("/metrics").unwrap();
    let mut described: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.split(' ').next().unwrap();
            assert!(!described.contains(&name), "{name} twice");
            described.push(name);
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            assert_eq!(described.last(), Some(&name), "{line}");
        }
    }
    assert!(described.len() > 20);
}

fn the_version_names_the_process() {
    let world = World::new();
    let version: Version = client(&world).get("/v1/version").unwrap();
    assert_eq!(version.pid, std::process::id());
}

fn requests_that_make_no_sense_are_refused_in_words() {
    let world = World::new();
    let client = client(&world);
    let posted = |path: &str, body: serde_json::Value| client.post::<()>(path, &body).unwrap_err();
    for (error, kind, says) in [
        (client.get::<()>("/v2/interfaces").unwrap_err(), ErrorKind::NotFound, "no such path"),
        (client.get::<()>("/v1/routes?family=ipx").unwrap_err(), ErrorKind::Invalid, "unknown variant `ipx`"),
        (client.get::<()>("/v1/routes?famly=inet").unwrap_err(), ErrorKind::Invalid, "unknown field `famly`"),
        (
            client.get::<()>("/v1/routes/get?to=there").unwrap_err(),
            ErrorKind::Invalid,
            "`there` is not an address",
        ),
        (client.delete::<()>("/v1/neighbours").unwrap_err(), ErrorKind::Invalid, "which family"),
        (client.get::<()>("/v1/ping").unwrap_err(), ErrorKind::Invalid, "method"),
        (
            posted("/v1/routes", serde_json::json!({"to": "10.0.0.0/8"})),
            ErrorKind::Invalid,
            "needs one target",
        ),
        (posted("/v1/routes", serde_json::json!({"too": 1})), ErrorKind::Invalid, "unknown field `too`"),
        (
            posted("/v1/ping", serde_json::json!({"to": "192.0.2.7", "count": 0})),
            ErrorKind::Invalid,
            "must not be 0",
        ),
    ] {
        let ClientError::Refused(error) = error else { panic!("{says}: {error}") };
        assert_eq!(error.kind, kind);
        assert!(error.error.contains(says), "{error}");
    }
}

fn a_request_of_more_than_four_megabytes_is_refused() {
    let world = World::new();
    let edits = serde_json::json!({ "edits": [], "filler": "x".repeat(4 << 20) });
    client(&world).post::<()>("/v1/routes/batch", &edits).unwrap_err();
    assert!(world.told.lock().unwrap().is_empty());
    client(&world).get::<Version>("/v1/version").unwrap();
}

harness::tests![
    metrics_carry_interface_cpu_and_reason,
    every_metric_is_described_once_before_its_values,
    the_version_names_the_process,
    requests_that_make_no_sense_are_refused_in_words,
    a_request_of_more_than_four_megabytes_is_refused
];
