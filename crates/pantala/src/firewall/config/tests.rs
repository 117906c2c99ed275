use super::*;

fn config(text: &str) -> FirewallConfig {
    let mut config = FirewallConfig::new(Action::Deny, 7).unwrap();
    run(&mut config, text).unwrap();
    config
}

fn batch(config: &mut FirewallConfig, text: &str) -> Result<Batch, (u32, Refused)> {
    let tables = Tables::default();
    let counted = |_| Counted { packets: 5, ..Counted::default() };
    config.run(&ipfw::parse_file("t", text).unwrap(), &Around { tables: &tables, counted: &counted })
}

fn run(config: &mut FirewallConfig, text: &str) -> Result<Vec<String>, (u32, String)> {
    batch(config, text).map(|batch| batch.said).map_err(|(line, refused)| (line, refused.why))
}

fn numbers(config: &FirewallConfig) -> Vec<Number> {
    config.rules.entries().iter().map(|entry| entry.rule.number).collect()
}

#[test]
fn what_is_added_is_said_as_it_will_be_listed() {
    let mut config = FirewallConfig::new(Action::Deny, 7).unwrap();
    let said = run(&mut config, "add allow ip from any to any\nadd 500 set 3 deny tcp from any to any 80\n")
        .unwrap();
    assert_eq!(said, ["00100 allow ip from any to any", "00500 deny tcp from any to any 80"]);
    assert_eq!(numbers(&config), [100, 500, 65535]);
}

#[test]
fn of_a_batch_all_is_done_or_nothing() {
    let mut config = config("add 100 allow ip from any to any\n");
    let refused = run(&mut config, "delete 100\n\nadd 7 deny ip from any to any\ndelete 900\n").unwrap_err();
    assert_eq!(refused, (4, "there is no rule 900".to_owned()));
    assert_eq!(numbers(&config), [100, 65535]);
}

#[test]
fn a_rule_that_stays_when_another_book_succeeds_is_still_the_same() {
    let text = "add 100 allow tcp from any to any\nadd 200 set 31 deny udp from any to any\n";
    let old = config(&format!("{text}add 50 count ip from any to any\nset disable 3\n"));
    let ids =
        |config: &FirewallConfig| config.rules.entries().iter().map(|entry| entry.id).collect::<Vec<_>>();
    let before = ids(&old);
    let mut new = config(&format!("{text}add 300 allow ip from any to any\n"));
    assert!(!new.is_as(&old));
    new = new.succeed(&old, &[], &Tables::default()).unwrap();
    assert_eq!(numbers(&new), [100, 200, 300, 65535]);
    assert_eq!((&ids(&new)[..2], ids(&new)[3]), (&before[1..3], before[3]));
    assert_eq!(new.rules.disabled(), 0);
    assert_eq!(ids(&old), before, "the one in force is not touched");
    // It was in force for a moment only: no rule to come is taken for its rule 300.
    let (mut old, taken) = (old, ids(&new)[2]);
    drop(new.rules.compile(&Tables::default(), &new.lookups));
    old.rules.resume_after(&new.rules);
    run(&mut old, "add 300 deny ip from any to any\n").unwrap();
    let last = ids(&old)[3];
    assert!(last != taken && !before.contains(&last), "{last:?}");
}

#[test]
fn zero_and_resetlog_begin_anew_for_the_rules_that_they_name() {
    let mut config = config("add 100 allow ip from any to any\nadd 200 set 2 deny ip from any to any\n");
    let batch = batch(&mut config, "zero 100\nset 2 resetlog\n").unwrap();
    let entry = |at: usize| config.rules.entries()[at].clone();
    assert_eq!(batch.said, ["Entry 100 cleared.", "Logging counts reset."]);
    assert_eq!(batch.reset_log, [entry(0).id, entry(1).id]);
    assert_eq!((entry(0).zeroed.packets, entry(1).zeroed.packets), (5, 0));
    assert_eq!(run(&mut config, "zero 300\n").unwrap_err().1, "there is no rule 300");
}

fn entries(config: &FirewallConfig, name: &str) -> Vec<String> {
    config.lookups.list(name).unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn of_a_batch_that_changes_tables_all_is_done_or_nothing() {
    let mut config = config("table t create type addr\ntable t add 10.0.0.0/8 5 10.1.0.0/16 6\n");
    let before = entries(&config, "t");
    for (changes, line) in [
        ("table t add 192.0.2.0/24 7\ndelete 9\n", 2),
        ("table t delete 10.0.0.0/8\ndelete 9\n", 2),
        ("table t flush\ndelete 9\n", 2),
        ("table t destroy\ndelete 9\n", 2),
        ("table t lock\ntable t add 192.0.2.0/24 7\n", 2),
        ("table u create type number\ntable u add 5 6\ntable u lock\ndelete 9\n", 4),
        ("add allow ip from table(v) to any\ndelete 9\n", 2),
        ("table u create type addr\ntable t swap u\ndelete 9\n", 3),
    ] {
        assert_eq!(run(&mut config, changes).unwrap_err().0, line, "{changes}");
        assert_eq!(entries(&config, "t"), before, "{changes}");
        assert_eq!(config.lookups.names().collect::<Vec<_>>(), ["t"], "{changes}");
        assert!(!config.lookups.info("t").unwrap().locked, "{changes}");
    }
    run(&mut config, "table t delete 10.0.0.0/8\n").unwrap();
    assert_eq!(entries(&config, "t"), before[1..]);
}

#[test]
fn a_table_that_no_command_of_another_book_fills_keeps_its_entries() {
    let old = config("table t add 10.0.0.0/8 5\ntable u add 10.0.0.0/8 6\ntable gone add 10.0.0.0/8\n");
    let text = "table t add 192.0.2.0/24 9\nadd allow ip from table(u) to table(t)\n";
    let commands = ipfw::parse_file("f", text).unwrap();
    let new = config(text).succeed(&old, &commands, &Tables::default()).unwrap();
    assert_eq!(new.lookups.names().collect::<Vec<_>>(), ["t", "u"]);
    assert_eq!((entries(&new, "u"), entries(&new, "t").len()), (entries(&old, "u"), 1));
    assert_ne!(entries(&new, "t"), entries(&old, "t"));
    let copy = new.copy(&Tables::default()).unwrap();
    assert!(copy.is_as(&new) && !new.is_as(&old));
}

#[test]
fn as_many_instances_of_nat_nat64_and_nptv6_as_there_may_be_and_no_more() {
    let nat = |number: usize| format!("nat {number} config ip 192.0.2.1\n");
    let nptv6 = |name: usize| {
        format!(
            "nptv6 n{name} create int_prefix fd00:{name:x}:: ext_prefix 2001:db8:{name:x}:: prefixlen 48\n"
        )
    };
    let nat64 = |name: usize| format!("nat64lsn n{name} create prefix4 192.0.2.1/32\n");
    for one in [&nat as &dyn Fn(usize) -> String, &nptv6, &nat64] {
        let mut config = config(&(1..=256).map(one).collect::<String>());
        let (line, why) = run(&mut config, &one(257)).unwrap_err();
        assert!(line == 1 && why.starts_with("limit reached (256 instances"), "{why}");
    }
    let mut config = config(&(1..=256).map(nat).collect::<String>());
    run(&mut config, &nat(256)).unwrap();
}

#[test]
fn switches_are_switched() {
    let mut config = FirewallConfig::new(Action::Allow, 7).unwrap();
    run(&mut config, "disable firewall\ndisable one_pass\nenable verbose\n").unwrap();
    assert_eq!(config.switches, Switches { firewall: false, one_pass: false, ..Switches::default() });
}

#[test]
fn a_refusal_points_at_its_line() {
    let refused = Refused::new("there is no rule 900", "");
    let shown = refused.at("f.ipfw", "add allow ip from any to any\n  delete 900\n", 2).to_string();
    assert_eq!(shown, "f.ipfw:2:3: there is no rule 900\n      delete 900\n      ^^^^^^^^^^");
}
