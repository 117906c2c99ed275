use super::*;

fn rule(number: u16, packets: u64, rule: &str) -> FirewallRule {
    let last_match = (packets > 0).then_some(1_000_000_000);
    let (set, enabled, rule, action, comment) = (0, true, rule.to_owned(), "skipto 500".into(), None);
    FirewallRule { number, set, enabled, packets, bytes: packets * 288, last_match, action, rule, comment }
}

fn two() -> [FirewallRule; 2] {
    [rule(100, 12, "allow ip from any to any"), rule(65535, 0, "deny ip from any to any")]
}

#[test]
fn a_list_has_numbers_and_rules_and_show_what_they_counted() {
    let text = rules(&two(), Columns::default());
    assert_eq!(text, "00100 allow ip from any to any\n65535 deny ip from any to any\n");
    let text = rules(&two(), Columns { counters: true, ..Columns::default() });
    assert_eq!(text, "00100 12 3456 allow ip from any to any\n65535  0    0 deny ip from any to any\n");
}

#[test]
fn the_time_of_the_last_match_stands_behind_the_counters() {
    let columns = Columns { counters: true, last_match: Some(Clock::Words), ..Columns::default() };
    let text = rules(&two(), columns);
    assert!(text.starts_with("00100 12 3456 Sun Sep  9 01:46:40 2001 allow ip"), "{text}");
    let text = rules(&two(), Columns { last_match: Some(Clock::Seconds), ..Columns::default() });
    assert_eq!(text.lines().next(), Some("00100 1000000000 allow ip from any to any"));
}

#[test]
fn rules_of_disabled_sets_are_shown_with_their_sets_alone() {
    let mut all = two();
    all[0].enabled = false;
    all[0].set = 7;
    assert_eq!(rules(&all, Columns::default()), "65535 deny ip from any to any\n");
    let text = rules(&all, Columns { sets: true, ..Columns::default() });
    assert!(text.starts_with("# DISABLED 00100 set 7 allow ip from any to any\n"), "{text}");
}

#[test]
fn brief_is_what_a_rule_does_and_its_comment() {
    let mut all = two();
    all[0].comment = Some("the lot".into());
    let text = rules(&all, Columns { brief: true, ..Columns::default() });
    assert_eq!(text, "00100 skipto 500 // the lot\n65535 skipto 500\n");
}

#[test]
fn compact_is_without_what_says_nothing() {
    for (rule, short) in [
        ("allow ip from any to any", "allow"),
        ("allow ip from any to any via em0", "allow via em0"),
        ("skipto 500 ip from any to any in", "skipto 500 in"),
        ("allow ip from any to any // ip from any to any", "allow // ip from any to any"),
        ("allow tcp from any to any", "allow tcp from any to any"),
        ("allow ip from any to any 80", "allow ip from any to any 80"),
        ("allow ip from any to any not 80-90,443", "allow ip from any to any not 80-90,443"),
        ("allow ip from any to any not via em0", "allow not via em0"),
        ("count // ip from any to any", "count // ip from any to any"),
    ] {
        assert_eq!(compact(rule), short);
    }
}

#[test]
fn groups_of_states_are_shown_as_parents() {
    let track = FirewallTrack {
        rule: 200,
        set: 3,
        cpu: 0,
        proto: 6,
        src: "10.0.0.2".parse().unwrap(),
        src_port: 0,
        dst: "0.0.0.0".parse().unwrap(),
        dst_port: 0,
        states: 4,
        total: 10,
    };
    let ends = "PARENT 10 tcp 10.0.0.2 0 <-> 0.0.0.0 0\n";
    assert_eq!(tracks(core::slice::from_ref(&track), Columns::default()), format!("00200 {ends}"));
    assert_eq!(tracks(&[track], Columns { sets: true, ..Columns::default() }), format!("00200 set 3 {ends}"));
}

#[test]
fn values_of_tables_are_numbers_or_the_addresses_that_they_would_be() {
    let entry = |key: &str, value: &str| FirewallTableEntry { key: key.into(), value: value.into() };
    let all = [entry("10.0.0.0/8", "3232235777"), entry("10.0.0.1/32", "2001:db8::1")];
    assert_eq!(entries(&all), "10.0.0.0/8 3232235777\n10.0.0.1/32 2001:db8::1\n");
    assert_eq!(entries_as_addresses(&all), "10.0.0.0/8 192.168.1.1\n10.0.0.1/32 2001:db8::1\n");
}

#[test]
fn a_state_is_shown_with_its_ends_and_its_name() {
    let state = FirewallState {
        rule: 200,
        set: 0,
        kind: FirewallStateKind::State,
        cpu: 1,
        packets: 9,
        bytes: 1200,
        expires_s: 300,
        proto: 6,
        src: "10.0.0.2".parse().unwrap(),
        src_port: 40_000,
        dst: "2001:db8::1".parse().unwrap(),
        dst_port: 80,
        phase: Some("established".into()),
        tcp_flags: Some(18),
        flow: Some("web".into()),
    };
    let nameless = FirewallState { flow: None, packets: 10, ..state.clone() };
    let text = states_head(2) + &states(&[state, nameless], Columns::default());
    let ends = "tcp 10.0.0.2 40000 <-> 2001:db8::1 80";
    let (first, second) = ("00200  9 1200 (300s) STATE", "00200 10 1200 (300s) STATE");
    assert_eq!(text, format!("## Dynamic rules (2):\n{first} {ends} :web\n{second} {ends} :default\n"));
}

#[test]
fn sets_are_listed_by_what_they_are() {
    let status = |disabled_sets: Vec<u8>| FirewallStatus {
        enabled: true,
        one_pass: true,
        verbose: true,
        rules: 1,
        states: 0,
        tracks: 0,
        settings: Vec::new(),
        disabled_sets,
    };
    assert!(sets(&status(vec![])).starts_with("enable 0 1 2 "));
    assert!(sets(&status(vec![1, 30])).starts_with("disable 1 30 enable 0 2 3 "));
}
