//! `pantala pktgen` into a capture file, and as the sink of one: what needs no network.

use std::path::{Path, PathBuf};

use pantala::Exit;
use serde_json::Value;

use crate::commands::server::{Folder, Said, pantala};

/// Bytes in front of the first frame of a capture file, and of each frame.
const HEADER: usize = 24;
const RECORD: usize = 16;

fn empty(folder: &Folder) -> PathBuf {
    let path = folder.path().join("empty.pcap");
    let words: [u32; 6] = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 1];
    std::fs::write(&path, words.map(u32::to_le_bytes).concat()).unwrap();
    path
}

/// Frames that the generator makes, as a capture file has them.
fn generated(folder: &Folder, more: &str) -> (Vec<u8>, Vec<Vec<u8>>) {
    let out = folder.path().join("out.pcap");
    let line = format!(
        "pktgen -i pcap:{},{} --dst-mac 02:00:00:00:00:01 {more}",
        empty(folder).display(),
        out.display()
    );
    let said = pantala(&line);
    assert_eq!(said.exit, Exit::Ok, "{said:?}");
    split(&std::fs::read(out).unwrap())
}

/// The file's header, and its records.
fn split(file: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (header, mut rest) = file.split_at(HEADER);
    let mut records = Vec::new();
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (record, behind) = rest.split_at(RECORD + len);
        records.push(record.to_vec());
        rest = behind;
    }
    (header.to_vec(), records)
}

fn sink(file: &Path, more: &str) -> (Said, Value) {
    let said = pantala(&format!("--json pktgen -i pcap:{} --sink {more}", file.display()));
    let summary = serde_json::from_str(&said.out).unwrap();
    (said, summary)
}

const V4: &str = "--src 192.0.2.1 --dst 198.51.100.0/29 --count 600";
const V6: &str = "--src 2001:db8::1 --dst 2001:db8:1::1-2001:db8:1::6 --count 600";

fn what_the_generator_makes_the_sink_measures() {
    for (line, proto) in [(V4, "udp"), (V6, "udp"), (V4, "tcp"), (V6, "tcp")] {
        let folder = Folder::new();
        generated(&folder, &format!("{line} --size imix --proto {proto}"));
        let (said, summary) = sink(&folder.path().join("out.pcap"), "--loss-limit 0%");
        assert_eq!(said.exit, Exit::Ok, "{summary:#}");
        let received = &summary["received"];
        assert_eq!(
            (&received["measured"], &received["flows"]),
            (&Value::from(600), &Value::from(6)),
            "{summary:#}"
        );
        assert_eq!(
            (&summary["lost"], &received["duplicated"], &received["reordered"]),
            (&0.into(), &0.into(), &0.into())
        );
    }
}

fn frames_that_are_missing_doubled_or_moved_in_a_file_are_found() {
    for line in [V4, V6] {
        let folder = Folder::new();
        // one flow, so that the order of the file is the order of the flow
        let (header, records) = generated(&folder, &format!("{line} --flows 1"));
        assert_eq!(records.len(), 600);
        let file = folder.path().join("changed.pcap");
        type Change = fn(&mut Vec<Vec<u8>>);
        let changes: [(&str, Change, [u64; 4]); 4] = [
            ("missing", |all| drop(all.drain(100..110)), [10, 0, 0, 0]),
            ("doubled", |all| all.insert(205, all[200].clone()), [0, 1, 0, 0]),
            ("moved", |all| all[300..304].reverse(), [0, 0, 3, 4]),
            (
                "all",
                |all| {
                    all.swap(400, 402);
                    all.insert(300, all[299].clone());
                    all.remove(50);
                },
                [1, 1, 2, 3],
            ),
        ];
        for (name, change, [lost, duplicated, reordered, displacement]) in changes {
            let mut changed = records.clone();
            change(&mut changed);
            std::fs::write(&file, [header.clone(), changed.concat()].concat()).unwrap();
            let (said, summary) = sink(&file, "--loss-limit 0.1%");
            let received = &summary["received"];
            let found = [
                &summary["lost"],
                &received["duplicated"],
                &received["reordered"],
                &received["displacement_max"],
            ];
            assert_eq!(
                found.map(|value| value.as_u64().unwrap()),
                [lost, duplicated, reordered, displacement],
                "{name}: {summary:#}"
            );
            assert_eq!(said.exit, if lost > 0 { Exit::Failed } else { Exit::Ok }, "{name}");
        }
    }
}

fn the_summary_has_stable_keys() {
    let folder = Folder::new();
    generated(&folder, V4);
    let (_, summary) = sink(&folder.path().join("out.pcap"), "");
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(
        keys(&summary),
        "device duration_s interrupted jitter_ns latency_ns loss_limit_percent loss_percent lost offered passed received \
         rx_device sent"
    );
    assert_eq!(
        keys(&summary["received"]),
        "bytes counted displacement_max dropped duplicated errors flows frames frames_per_s measured other reordered \
         reordered_too_late unique untracked"
    );
    assert_eq!(keys(&summary["latency_ns"]), "max mean min p50 p90 p99 p999");
    assert_eq!(keys(&summary["jitter_ns"]), "max mean");
    let out = folder.path().join("out.pcap");
    let line = format!(
        "--json pktgen -i pcap:{},{} {V4} --dst-mac 2:0:0:0:0:1",
        empty(&folder).display(),
        out.display()
    );
    let sent: Value = serde_json::from_str(&pantala(&line).out).unwrap();
    assert_eq!(keys(&sent["offered"]), "family flows protocol size_max size_min");
    assert_eq!(
        keys(&sent["sent"]),
        "behind_s bits_per_s bytes errors frames frames_per_s line_bits_per_s ring_full"
    );
}

fn a_summary_in_words_says_the_same() {
    let folder = Folder::new();
    generated(&folder, V4);
    let said = pantala(&format!("pktgen -i pcap:{} --sink", folder.path().join("out.pcap").display()));
    for part in
        ["received  600 frames", "lost      0 (0.0000 %)", "0 duplicated, 0 reordered", "latency   p50 "]
    {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
}

fn over_memif_a_generator_meets_a_sink() {
    for line in [V4, V6] {
        let folder = Folder::new();
        let socket = folder.path().join("memif.sock").display().to_string();
        let sink = format!("--json pktgen -i memif:{socket},role=master --sink --count 600 --time 1m");
        let sink = std::thread::spawn(move || pantala(&sink));
        // It waits for the master.
        let sent = pantala(&format!(
            "--json pktgen -i memif:{socket},role=slave {line} --dst-mac 2:0:0:0:0:1 --rate 5kpps --wait 0s"
        ));
        let (sent, seen): (Value, Value) = (
            serde_json::from_str(&sent.out).unwrap(),
            serde_json::from_str(&sink.join().unwrap().out).unwrap(),
        );
        assert_eq!((&sent["sent"]["frames"], &sent["sent"]["errors"]), (&600.into(), &0.into()), "{sent:#}");
        assert_eq!(
            (&seen["received"]["measured"], &seen["received"]["flows"]),
            (&600.into(), &6.into()),
            "{seen:#}"
        );
        assert_eq!((&seen["lost"], &seen["received"]["duplicated"]), (&0.into(), &0.into()), "{seen:#}");
    }
}

fn no_daemon_at_the_socket_is_an_error_that_says_so() {
    let folder = Folder::new();
    let socket = folder.path().join("memif.sock").display().to_string();
    let said = pantala(&format!("pktgen -i memif:{socket} {V4} --dst-mac 2:0:0:0:0:1"));
    assert_eq!(said.exit, Exit::Failed, "{said:?}");
    assert!(said.err.contains("has no link: for 5 s nobody was at its other end"), "{said:?}");
}

fn what_is_not_understood_exits_with_2_and_what_cannot_be_had_with_1() {
    for (line, exit, says) in [
        ("pktgen", Exit::Usage, "--device <DEVICE>"),
        (
            "pktgen -i tap:g0 --dst 192.0.2.1 --rate 5",
            Exit::Usage,
            "invalid value '5' for '--rate <RATE>': a unit is missing",
        ),
        ("pktgen -i tap:g0 --dst 192.0.2.1", Exit::Usage, "pantala: pktgen: --src is missing"),
        ("pktgen -i pcap:/nonexistent/file --sink", Exit::Failed, "/nonexistent/file"),
        ("pktgen -i pcap:/dev/null --sink --cpus 1023", Exit::Failed, ""),
    ] {
        let said = pantala(line);
        assert_eq!(said.exit, exit, "{line}: {said:?}");
        assert!(said.err.contains(says), "{line}: {said:?}");
    }
}

harness::tests![
    what_the_generator_makes_the_sink_measures,
    frames_that_are_missing_doubled_or_moved_in_a_file_are_found,
    the_summary_has_stable_keys,
    a_summary_in_words_says_the_same,
    over_memif_a_generator_meets_a_sink,
    no_daemon_at_the_socket_is_an_error_that_says_so,
    what_is_not_understood_exits_with_2_and_what_cannot_be_had_with_1
];
