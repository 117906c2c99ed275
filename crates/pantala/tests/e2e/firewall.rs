//! The firewall, as Linux hosts on its two sides see it.

use core::net::IpAddr;
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use dev::netns::Netns;
use rustix::io::Errno;

use crate::lab::{Attach, Family, Lab, Link, at};
use crate::socket::{listen, ping, refusal, stream_arrives, udp};
use crate::wait::{PATIENCE, until, until_right};

/// Shorter than the time before a retry.
const SOON: Duration = Duration::from_millis(500);

/// Rules for neighbour discovery between hosts.
const NEIGHBOURS: &str = "add 10 allow ipv6-icmp from any to any icmp6types 133,134,135,136\n";

fn lab(test: &str, default: &str, rules: &str) -> Option<Lab> {
    let links = [Link::new(Attach::Native).rings(2), Link::new(Attach::Tap).rings(2)];
    let mut lab = Lab::without_pantala(test, &links)?;
    lab.run_pantala(&section(default, rules));
    Some(lab)
}

pub(crate) fn section(default: &str, rules: &str) -> String {
    format!("[firewall]\ndefault = \"{default}\"\nrules_text = '''\n{NEIGHBOURS}{rules}'''\n")
}

/// Packets that the rules of a number have matched.
fn matched(lab: &Lab, number: u16) -> u64 {
    let rules = lab.pantala().json("ipfw list");
    let rules = rules.as_array().unwrap().iter().filter(|rule| rule["number"] == number);
    rules.map(|rule| rule["packets"].as_u64().unwrap()).sum()
}

/// Returns the result of a connection to a listener at `to`, within `limit`.
fn connect(
    (from, to): (&Netns, &Netns),
    target: IpAddr,
    port: u16,
    limit: Duration,
) -> Result<(TcpStream, TcpListener), ErrorKind> {
    let listener = listen(to, Family::of(target), port);
    let address = at(target, listener.local_addr().unwrap().port());
    let stream = from.run(|| TcpStream::connect_timeout(&address, limit)).unwrap();
    stream.map(|stream| (stream, listener)).map_err(|why| why.kind())
}

fn replies_pass_a_stateful_firewall_and_unsolicited_packets_do_not() {
    let rules = "add 100 check-state\nadd 200 allow ip from any to any recv if1 keep-state\n";
    let Some(lab) =
        lab("firewall::replies_pass_a_stateful_firewall_and_unsolicited_packets_do_not", "deny", rules)
    else {
        return;
    };
    let (a, b) = lab.pair();
    lab.both(|family| {
        assert!(stream_arrives(&a.netns, &b.netns, b.addr(family), 1_000_000).unwrap());
        assert_eq!(ping(&a.netns, b.addr(family), 3), 3);
        let (there, back) = (udp(&a.netns, b.addr(family)), udp(&b.netns, b.addr(family)));
        there.send_to(b"?", at(b.addr(family), back.local_addr().unwrap().port())).unwrap();
        let mut buffer = [0; 8];
        let (_, who) = back.recv_from(&mut buffer).unwrap();
        back.send_to(b"!", who).unwrap();
        assert_eq!(there.recv(&mut buffer).unwrap(), 1, "the answer comes through");
        assert!(connect((&b.netns, &a.netns), a.addr(family), 0, SOON).is_err(), "nobody calls from outside");
    });
    assert!(matched(&lab, 200) > 0 && matched(&lab, 65535) > 0);
    assert!(lab.pantala().dropped("firewall_deny") > 0);
}

fn states_are_shown_with_both_ends() {
    let rules = "add 100 check-state\nadd 200 allow tcp from any to any 7777 setup keep-state\n";
    let Some(lab) = lab("firewall::states_are_shown_with_both_ends", "deny", rules) else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let (stream, _listener) = connect((&a.netns, &b.netns), b.addr(family), 7777, PATIENCE).unwrap();
        let own = stream.local_addr().unwrap();
        let ends = format!("STATE tcp {} {} <-> {} 7777 :default", own.ip(), own.port(), b.addr(family));
        let text = lab.pantala().shows("ipfw -d show");
        assert!(text.contains("## Dynamic rules") && text.contains(&ends), "{ends} in\n{text}");
        let states = lab.pantala().json("ipfw -D list");
        let mine = |state: &&serde_json::Value| state["src_port"] == own.port();
        assert_eq!(states.as_array().unwrap().iter().filter(mine).count(), 1);
    });
}

fn of_ten_allowed_connections_the_eleventh_is_refused() {
    let rules = "add 100 check-state\nadd 200 allow tcp from any to any 7777 setup limit src-addr 10\n";
    let Some(lab) = lab("firewall::of_ten_allowed_connections_the_eleventh_is_refused", "deny", rules) else {
        return;
    };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let listener = listen(&b.netns, family, 7777);
        let target = at(b.addr(family), 7777);
        let call = |limit| a.netns.run(|| TcpStream::connect_timeout(&target, limit)).unwrap();
        let open: Vec<TcpStream> = (0..10).map(|_| call(PATIENCE).unwrap()).collect();
        assert!(call(SOON).is_err(), "the eleventh");
        let (text, source) = (lab.pantala().shows("ipfw -d show"), a.addr(family));
        let group = format!("00200 PARENT 10 tcp {source} 0 <-> {} 0\n", family.any());
        assert!(text.contains(&group), "{group} in\n{text}");
        drop((open, listener));
    });
    assert!(lab.pantala().dropped("firewall_limit") > 0);
}

fn rules_come_and_go_while_a_transfer_runs() {
    let rules = "add 100 check-state\nadd 200 allow tcp from any to any setup keep-state\n";
    let Some(lab) = lab("firewall::rules_come_and_go_while_a_transfer_runs", "deny", rules) else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        thread::scope(|scope| {
            let transfer =
                scope.spawn(|| stream_arrives(&a.netns, &b.netns, b.addr(family), 100_000_000).unwrap());
            let mut rounds = 0;
            while !transfer.is_finished() || rounds == 0 {
                lab.pantala().shows("ipfw -q add 50 count ip from any to any");
                lab.pantala().shows("ipfw -q delete 50");
                let more = format!("{rules}add 300 deny udp from any to any\n");
                lab.pantala().rewrite_config(&lab.config(&section("deny", &more)));
                assert_eq!(lab.pantala().shows("reload"), "the firewall's rules or settings differ\n");
                lab.pantala().rewrite_config(&lab.config(&section("deny", rules)));
                lab.pantala().shows("reload");
                rounds += 1;
            }
            assert!(transfer.join().unwrap(), "after {rounds} rounds");
        });
    });
    assert_eq!(lab.pantala().shows("reload"), "nothing differs\n");
    assert!(matched(&lab, 200) > 0, "a rule that stays goes on counting");
}

fn a_reset_and_each_unreachable_are_heard_as_such() {
    let rules = "\
        add 100 reset tcp from any to any 7001\n\
        add 110 unreach port udp from any to any\n\
        add 120 unreach filter-prohib tcp from any to any 7002\n\
        add 130 reject tcp from any to any 7003\n";
    let Some(lab) = lab("firewall::a_reset_and_each_unreachable_are_heard_as_such", "allow", rules) else {
        return;
    };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let target = b.addr(family);
        let error = |port| {
            let call = || TcpStream::connect_timeout(&at(target, port), Duration::from_secs(3));
            a.netns.run(call).unwrap().map(drop).unwrap_err().raw_os_error()
        };
        assert_eq!(error(7001), Some(Errno::CONNREFUSED.raw_os_error()), "reset");
        assert_eq!(refusal(&a.netns, target, SOON), Some(Errno::CONNREFUSED.raw_os_error()), "port");
        // What Linux makes of code 13 of ICMP, and of what becomes of it in ICMPv6 (RFC 7915 §5.2).
        let prohibited = family.pick(Errno::HOSTUNREACH, Errno::ACCESS);
        assert_eq!(error(7002), Some(prohibited.raw_os_error()), "filter-prohib");
        let rejected = family.pick(Errno::HOSTUNREACH, Errno::NETUNREACH);
        assert_eq!(error(7003), Some(rejected.raw_os_error()), "reject");
    });
    assert!(lab.pantala().dropped("firewall_reject") >= 8);
}

fn what_rules_log_is_read_as_ipfw_writes_it() {
    let rules = "add 100 deny log udp from any to any 7004\n";
    let Some(lab) = lab("firewall::what_rules_log_is_read_as_ipfw_writes_it", "allow", rules) else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let socket = udp(&a.netns, b.addr(family));
        socket.send_to(b"x", at(b.addr(family), 7004)).unwrap();
        let port = socket.local_addr().unwrap().port();
        let bare = |address: IpAddr| family.pick(address.to_string(), format!("[{address}]"));
        let (src, dst) = (bare(a.addr(family)), bare(b.addr(family)));
        let line = format!("ipfw: 100 Deny UDP {src}:{port} {dst}:7004 in via if1\n");
        until_right("the line is there", || lab.pantala().shows("ipfw log"), |text| text.contains(&line));
    });
    let file = lab.pantala().folder().join("log.pcapng");
    lab.pantala().shows(&format!("ipfw log -w {}", file.display()));
    assert!(std::fs::metadata(&file).unwrap().len() > 100);
    assert_eq!(matched(&lab, 100), 2);
    lab.pantala().shows("ipfw zero 100");
    assert_eq!(matched(&lab, 100), 0);
}

fn commands_change_what_passes_at_once_and_a_file_all_or_nothing() {
    let name = "firewall::commands_change_what_passes_at_once_and_a_file_all_or_nothing";
    let Some(lab) = lab(name, "allow", "") else { return };
    let (a, b) = lab.pair();
    let file = lab.pantala().folder().join("more.ipfw");
    let load = |text: &str| {
        std::fs::write(&file, text).unwrap();
        lab.pantala().command(&format!("ipfw {}", file.display()))
    };
    lab.both(|family| {
        let (target, port) = (b.addr(family), family.pick(7005, 7006));
        let passes = |limit| connect((&a.netns, &b.netns), target, port, limit).is_ok();
        assert!(passes(PATIENCE));
        let rule = format!("00500 deny tcp from any to {target} {port}\n");
        assert_eq!(lab.pantala().shows(&format!("ipfw add 500 deny tcp from any to {target} {port}")), rule);
        assert!(!passes(SOON));
        let said = load("delete 500\ndelete 501\n");
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.err.contains("more.ipfw:2:1: there is no rule 501"), "{said:?}");
        assert!(!passes(SOON), "nothing was done");
        assert_eq!(load("delete 500\n").code, Some(0));
        assert!(passes(PATIENCE));
    });
}

fn a_wrong_file_of_rules_stops_pantala_with_its_place() {
    let Some(lab) = lab("firewall::a_wrong_file_of_rules_stops_pantala_with_its_place", "allow", "") else {
        return;
    };
    lab.pantala().rewrite_config(&lab.config("[firewall]\nrules = \"rules.ipfw\"\n"));
    let file = lab.pantala().folder().join("rules.ipfw");
    std::fs::write(&file, "add 100 allow ip from any to any\nadd 200 alow ip from any to any\n").unwrap();
    let said = lab.pantala().command("reload");
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("rules.ipfw:2:9: ") && said.err.contains("did you mean `allow`?"), "{said:?}");
    std::fs::write(&file, "add 100 deny ip from any to any via nowhere0\n").unwrap();
    lab.pantala().shows("reload");
    until("the warning is said", || lab.pantala().stderr().contains("no interface `nowhere0`").then_some(()));
    assert!(lab.pantala().shows("ipfw list").starts_with("00100 deny ip from any to any via nowhere0\n"));
}

fn a_thousand_connections_pass_one_after_another_and_leave_no_states_behind() {
    let rules = "add 100 check-state\nadd 200 allow tcp from any to any setup keep-state\n";
    let name = "firewall::a_thousand_connections_pass_one_after_another_and_leave_no_states_behind";
    let Some(lab) = lab(name, "deny", rules) else { return };
    let (a, b) = lab.pair();
    lab.both(|family| {
        let listener = listen(&b.netns, family, 0);
        let address = at(b.addr(family), listener.local_addr().unwrap().port());
        for n in 0..1000 {
            let mut stream = a.netns.run(|| TcpStream::connect(address)).unwrap().unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            stream.write_all(b"?").unwrap();
            drop(stream);
            let mut seen = Vec::new();
            peer.read_to_end(&mut seen).unwrap();
            assert_eq!(seen, b"?", "connection {n}");
        }
    });
    let count = || lab.pantala().json("ipfw -D list").as_array().unwrap().len();
    until_right("closed connections are forgotten", count, |states| *states == 0);
}

fn translated_connections_leave_with_the_address_of_the_interface_and_answers_come_back() {
    let rules = "nat 1 config if if2\nadd 100 nat 1 ip4 from any to any via if2\n";
    let name =
        "firewall::translated_connections_leave_with_the_address_of_the_interface_and_answers_come_back";
    let Some(lab) = lab(name, "allow", rules) else { return };
    let (a, b) = lab.pair();
    let target = b.addr(Family::V4);
    for _ in 0..20 {
        let (mut stream, listener) = connect((&a.netns, &b.netns), target, 0, PATIENCE).unwrap();
        let (mut peer, who) = listener.accept().unwrap();
        assert_eq!(who.ip(), b.router(Family::V4), "the address that others see");
        stream.write_all(b"?").unwrap();
        peer.write_all(b"!").unwrap();
        let mut seen = [0; 1];
        peer.read_exact(&mut seen).unwrap();
        assert_eq!(seen, *b"?");
        stream.read_exact(&mut seen).unwrap();
        assert_eq!(seen, *b"!");
    }
    assert_eq!(ping(&a.netns, target, 3), 3);
}

harness::tests![
    replies_pass_a_stateful_firewall_and_unsolicited_packets_do_not,
    states_are_shown_with_both_ends,
    of_ten_allowed_connections_the_eleventh_is_refused,
    rules_come_and_go_while_a_transfer_runs,
    a_reset_and_each_unreachable_are_heard_as_such,
    what_rules_log_is_read_as_ipfw_writes_it,
    commands_change_what_passes_at_once_and_a_file_all_or_nothing,
    a_wrong_file_of_rules_stops_pantala_with_its_place,
    a_thousand_connections_pass_one_after_another_and_leave_no_states_behind,
    translated_connections_leave_with_the_address_of_the_interface_and_answers_come_back,
];
