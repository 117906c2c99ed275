//! A scrape of the metrics reads memory, and asks no netisr.

use std::sync::mpsc::channel;

use net::msg::Msg;

use crate::stack::caller::{SERVER, is_heard, pair};

/// The series of a page without their values.
fn series(page: &str) -> Vec<String> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
}

fn a_scrape_while_a_netisr_does_not_turn_is_answered_whole() {
    let [server, client] = pair([2, 1]);
    for address in SERVER {
        assert!(is_heard(&client, 0, address, 100_000), "{address}");
    }
    let whole = series(&server.metrics().unwrap());
    let (held, is_held) = channel();
    let (free, is_free) = channel::<()>();
    let hold = Msg::Call(Box::new(move |_| {
        held.send(()).unwrap();
        is_free.recv().unwrap();
    }));
    server.remotes()[1].send(hold).ok().unwrap();
    is_held.recv().unwrap();
    let page = server.metrics().unwrap();
    assert_eq!(series(&page), whole);
    for gauge in [
        "pantala_pool_buffers{cpu=",
        "pantala_ifq_packets{if=\"lan\"",
        "pantala_if_tx_bytes_total{if=\"lan\"",
    ] {
        assert!(page.lines().filter(|line| line.starts_with(gauge)).count() >= 2, "{gauge} in\n{page}");
    }
    let buffers = |line: &&str| line.starts_with("pantala_pool_buffers{") && !line.ends_with(" 0");
    assert_eq!(
        page.lines().filter(buffers).count(),
        2,
        "the CPU that does not turn has buffers, too\n{page}"
    );
    free.send(()).unwrap();
}

harness::tests![a_scrape_while_a_netisr_does_not_turn_is_answered_whole];
