use std::collections::BTreeSet;

use super::*;
use crate::packet::Payload;
use crate::{Script, parse};

fn script(text: &str) -> Script {
    parse("script", text, &[]).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

/// Returns the changes of mutants of these events in a field.
fn changes(text: &str, field: Field) -> Vec<String> {
    mutants(&script(text)).filter(|mutant| mutant.field == field).map(|mutant| mutant.change).collect()
}

fn corpus() -> Vec<Script> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.map(|path| script(&std::fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn each_mutant_differs_in_one_event_and_prints_as_itself() {
    let mut fields = BTreeSet::new();
    for script in corpus() {
        for mutant in mutants(&script) {
            let differing = script.events.iter().zip(&mutant.script.events).filter(|(a, b)| a != b);
            assert_eq!(differing.count(), 1, "{mutant}");
            assert_ne!(script.events[mutant.event], mutant.script.events[mutant.event], "{mutant}");
            assert!(mutant.pos.line > 0 && mutant.change.len() > 2, "{mutant}");
            crate::fuzz_bodies::round_trip(&mutant.script);
            fields.insert(mutant.field);
        }
    }
    // the last one, and all before it
    assert_eq!(fields.len(), Field::Command as usize + 1, "{fields:?}");
}

#[test]
fn no_two_mutants_of_a_script_are_the_same() {
    for script in corpus() {
        let texts: Vec<String> = mutants(&script).map(|mutant| mutant.script.to_string()).collect();
        let different: BTreeSet<&String> = texts.iter().collect();
        assert_eq!(different.len(), texts.len());
    }
}

#[test]
fn numbers_of_a_segment_become_one_more_and_one_less() {
    let text = "+0 > P. 1:11(10) ack 4294967295 win 65535 urg 5\n";
    assert_eq!(changes(text, Field::Seq), ["1:11(10) → 2:12(10)", "1:11(10) → 0:10(10)"]);
    assert_eq!(changes(text, Field::Len), ["1:11(10) → 1:12(11)", "1:11(10) → 1:10(9)"]);
    assert_eq!(changes(text, Field::Ack), ["ack 4294967295 → 0", "ack 4294967295 → 4294967294"]);
    assert_eq!(changes(text, Field::Window), ["win 65535 → 0", "win 65535 → 65534"]);
    assert_eq!(changes(text, Field::Urgent), ["urg 5 → 6", "urg 5 → 4"]);
    assert_eq!(changes(text, Field::Flags).len(), 9);
}

#[test]
fn what_may_be_anything_has_no_mutants() {
    let text = "* > S. ...(0) ack 1 <...>\n";
    for field in [Field::Time, Field::Seq, Field::TcpOption] {
        assert_eq!(changes(text, field), Vec::<String>::new(), "{field}");
    }
    assert_eq!(changes("0 accept(3, ..., ...) = ...\n", Field::Result), Vec::<String>::new());
}

#[test]
fn times_move_by_more_than_is_tolerated() {
    let text =
        "--tolerance_usecs=10000\n0.1 > . 1:1(0) ack 1\n+0 > . 1:1(0) ack 1\n+0.1~+0.2 > . 1:1(0) ack 1\n";
    assert_eq!(
        changes(text, Field::Time),
        ["0.1 → 0.121", "0.1 → 0.079", "+0 → +0.021", "+0.1~+0.2 → +0.221~+0.321"]
    );
    assert_eq!(changes("+0.5...1 accept(3, ..., ...) = 4\n", Field::Time).len(), 3);
}

#[test]
fn options_change_their_values_their_order_and_whether_they_are_there() {
    let text = "+0 > S 0:0(0) <mss 1460,nop,wscale 6>\n";
    assert_eq!(
        changes(text, Field::TcpOption),
        [
            "mss 1460 → mss 1461",
            "mss 1460 → mss 1459",
            "mss 1460 → 4 times nop",
            "nop → eol",
            "wscale 6 → wscale 7",
            "wscale 6 → wscale 5",
            "wscale 6 → 3 times nop",
            "mss 1460,nop → nop,mss 1460",
            "nop,wscale 6 → wscale 6,nop",
        ]
    );
}

#[test]
fn a_time_stamp_of_the_stack_is_demanded_only_if_its_clock_is_known() {
    let segment = "+0 > . 1:1(0) ack 1 <nop,nop,TS val 100 ecr 7>\n";
    let count = |text: &str, val: &str| {
        changes(text, Field::TcpOption).iter().filter(|change| change.contains(val)).count()
    };
    assert_eq!(count(segment, "→ TS val 101"), 0);
    // nine milliseconds are more than is tolerated
    assert_eq!(count(&format!("--tcp_ts_tick_usecs=1000\n{segment}"), "→ TS val 110"), 1);
    assert_eq!(count(&segment.replace('>', "<").replace("7<", "7>"), "→ TS val 101"), 1);
}

#[test]
fn results_errors_and_answers_are_demands_and_what_is_asked_is_not() {
    let text = "0 getsockopt(3, SOL_SOCKET, SO_ERROR, [ECONNRESET], [4]) = 0\n\
                +0 read(3, ..., 10) = -1 EAGAIN (Resource temporarily unavailable)\n";
    let script = script(text);
    let of = |role| {
        let list = mutants(&script).filter(move |mutant| mutant.role == role && mutant.field != Field::Time);
        list.map(|mutant| mutant.change).collect::<Vec<_>>()
    };
    assert_eq!(
        of(Role::Demand),
        ["ECONNRESET → ENOBUFS", "4 → 5", "4 → 3", "0 → 1", "0 → -1", "-1 → 0", "-1 → -2", "EAGAIN → ENOMEM"]
    );
    assert!(of(Role::Stimulus).iter().any(|change| change.starts_with("SO_ERROR → ")));
}

#[test]
fn states_and_comparisons_become_others() {
    let code =
        "+0 %{ assert tcpi_state == TCPI_LISTEN and tcpi_snd_cwnd == 10; assert 1 <= tcpi_rtt < 5 }%\n";
    assert_eq!(changes(code, Field::State), ["TCPI_LISTEN → TCPI_SYN_SENT"]);
    assert_eq!(changes(code, Field::Comparison), ["== → !=", "== → !=", "10 → 11", "<= → >", "< → >="]);
    let command = "+0 `sockstat -4 -P tcp -s | grep -c TIME_WAIT | grep 1`\n";
    assert_eq!(changes(command, Field::State), ["TIME_WAIT → CLOSED"]);
    assert_eq!(changes(command, Field::Command), ["1 → 2"]);
    let none = "+0 `sockstat -4 -P tcp -s | grep -c TIME_WAIT | grep 0`\n";
    assert_eq!(changes(none, Field::State), Vec::<String>::new());
    assert_eq!(changes("+0 `sysctl -w net.inet.tcp.blackhole=0`\n", Field::Command), ["0 → 1"]);
}

#[test]
fn packets_from_the_stack_are_demands_and_those_to_it_are_not() {
    let script = script("+0 < [ect0] . 1:1(0) ack 1\n+0 > (ttl 4) . 1:1(0) ack 1\n");
    for mutant in mutants(&script) {
        let role = if mutant.event == 0 { Role::Stimulus } else { Role::Demand };
        assert_eq!(mutant.role, role, "{mutant}");
    }
}

#[test]
fn where_the_numbers_of_the_stack_begin_is_no_demand() {
    let roles = |text: &str| {
        let list: Vec<Mutant> = mutants(&script(text)).filter(|mutant| mutant.field == Field::Seq).collect();
        list.iter().map(|mutant| mutant.role).collect::<Vec<_>>()
    };
    assert_eq!(roles("0 > S. 0:0(0) ack 1\n"), [Role::Stimulus; 2]);
    assert_eq!(roles("0 > . 0:0(0) ack 1\n"), [Role::Demand; 2]);
}

#[test]
fn a_mutant_says_where_it_stands_and_what_it_was() {
    let first = mutants(&script("// one\n+0 > F. 1:1(0) ack 1\n")).find(|mutant| mutant.field == Field::Ack);
    assert_eq!(first.unwrap().to_string(), "2:20: acknowledgment number: ack 1 → 2");
}

#[test]
fn another_code_is_another_in_both_versions_of_ip() {
    let script = script("+0 < icmp unreachable port_unreachable [udp (10)]\n");
    for mutant in mutants(&script).filter(|mutant| mutant.change == "another code") {
        let Action::Packet(packet) = &mutant.script.events[0].action else { panic!("a packet") };
        let Payload::Icmp(icmp) = &packet.payload else { panic!("a message") };
        // port_unreachable is 3, and 4 in IPv6
        let code = icmp.code.unwrap().value.number(icmp.kind.value, true);
        assert!(![Some(3), Some(4)].contains(&code), "{code:?}");
    }
}
