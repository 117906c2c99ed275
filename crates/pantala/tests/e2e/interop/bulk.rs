//! Much data, both ways at once, on paths that lose, reorder and repeat.

use std::thread;

use serde_json::json;

use super::{Talk, directions, lab};
use crate::lab::{Attach, Host, Lab};
use crate::socket::{Digested, receive, send};

/// Impairments of a path, as words of a pipe's configuration.
const DAMAGES: [(&str, &str); 6] = [
    ("nothing", "delay 0"),
    ("0.1 % lost", "plr 0.001"),
    ("2 % lost", "plr 0.02"),
    ("5 % out of order", "reorder 0.05/8"),
    ("5 % twice", "duplicate 0.05"),
    ("all of it", "delay 1 plr 0.01 reorder 0.02/5 duplicate 0.02"),
];

/// A rate at which an impairment may not happen at all …
const RARE: &str = "plr 0.001";
/// … unless there are so many bytes: super-packets are packets, too.
const SURE: u64 = 1_000_000_000;

/// Bytes that go each way; `PANTALA_BYTES` says how many, where there is time.
fn bytes() -> u64 {
    std::env::var("PANTALA_BYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(4_000_000)
}

fn is_same(sent: std::io::Result<Digested>, got: std::io::Result<Digested>) -> bool {
    sent.unwrap() == got.unwrap()
}

/// Both hosts send at once, and read what the other sends; answers whether each got what was sent.
fn both_ways(talk: &Talk, bytes: u64) -> [bool; 2] {
    let clone = |stream: &std::net::TcpStream| stream.try_clone().unwrap();
    let [near_out, near_in] = [clone(&talk.near), clone(&talk.near)];
    let [far_out, far_in] = [clone(&talk.far), clone(&talk.far)];
    thread::scope(|scope| {
        let [a, b] = [near_out, far_out].map(|stream| scope.spawn(move || send(stream, bytes)));
        let [c, d] = [far_in, near_in].map(|stream| scope.spawn(move || receive(stream)));
        [is_same(a.join().unwrap(), c.join().unwrap()), is_same(b.join().unwrap(), d.join().unwrap())]
    })
}

/// Returns the count of each kind of impairment.
fn done(lab: &Lab) -> [u64; 3] {
    let pantala = lab.pantala();
    [pantala.dropped("pipe_loss"), pantala.counter("pipe_moved"), pantala.counter("pipe_copied")]
}

fn what_linux_and_pantala_send_each_other_arrives_intact_whatever_the_path_does_to_it() {
    let test =
        "interop::bulk::what_linux_and_pantala_send_each_other_arrives_intact_whatever_the_path_does_to_it";
    let Some(lab) = lab(test, "") else { return };
    lab.pantala().shows("ipfw pipe 1 config delay 0");
    lab.pantala().shows("ipfw add 100 pipe 1 tcp from any to any");
    let bytes = bytes();
    lab.both(|family| {
        for (from, to) in directions(&lab) {
            for (what, words) in DAMAGES {
                lab.pantala().shows(&format!("ipfw pipe 1 config {words}"));
                let (begun, before) = (std::time::Instant::now(), done(&lab));
                let talk = Talk::begin(from, to, family);
                let arrived = both_ways(&talk, bytes);
                let damage: Vec<u64> = done(&lab).iter().zip(before).map(|(now, then)| now - then).collect();
                let kind = |host: &Host| if host.link.attach == Attach::Tap { "TAP" } else { "AF_XDP" };
                println!(
                    "TRANSFER {}",
                    json!({
                        "family": family.pick("IPv4", "IPv6"), "from": kind(from), "to": kind(to), "damage": what,
                        "bytes": bytes, "seconds": begun.elapsed().as_secs_f64(),
                        "lost": damage[0], "moved": damage[1], "copied": damage[2],
                    })
                );
                assert_eq!(arrived, [true; 2], "{what}, {} to {}", from.link, to.link);
                let wanted = ["plr", "reorder", "duplicate"].map(|word| words.contains(word));
                let is = damage.iter().map(|count| *count > 0).collect::<Vec<_>>();
                let is_sure = bytes >= SURE || !words.contains(RARE);
                assert!(is == wanted || !is_sure, "{what}: {damage:?}");
            }
        }
    });
}

harness::tests![what_linux_and_pantala_send_each_other_arrives_intact_whatever_the_path_does_to_it];
