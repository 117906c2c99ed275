//! `pantala ipfw`.

use pantala::Exit;
use pantala::api::client::Client;
use pantala::api::{FirewallDone, FirewallStates};

use crate::commands::server::{Folder, World, pantala};

fn a_list_has_ipfws_columns() {
    let world = World::new();
    assert_eq!(
        world.shows("ipfw list"),
        "00100 allow ip from any to any\n00200 count tcp from any to any\n65535 deny ip from any to any\n"
    );
    assert_eq!(
        world.shows("ipfw show"),
        "00100 12 3456 allow ip from any to any\n00200  0    0 count tcp from any to any\n65535  0    0 deny ip from any to any\n"
    );
    assert_eq!(world.shows("ipfw -S list 200"), "00200 set 0 count tcp from any to any\n");
    assert_eq!(world.shows("ipfw -b list 100-200"), "00100 allow\n00200 count\n");
    assert_eq!(world.json("ipfw list 100")[0]["packets"], 12);
}

fn rules_of_disabled_sets_are_shown_on_request() {
    let text = World::new().shows("ipfw -S list");
    assert!(text.contains("# DISABLED 00300 set 5 deny ip from any to any\n"), "{text}");
}

fn a_number_that_no_rule_has_is_a_failure() {
    let said = World::new().run("ipfw list 900");
    assert_eq!((said.exit, said.err.as_str()), (Exit::Failed, "pantala: ipfw: there is no rule 900\n"));
}

fn states_are_shown_below_the_rules_or_alone() {
    let world = World::new();
    let text = world.shows("ipfw -d list");
    let states =
        "## Dynamic rules (2):\n00100 9 1200 (20s) STATE tcp 10.0.0.2 40000 <-> 10.0.1.2 80 :default\n";
    assert!(text.starts_with("00100 allow") && text.contains(states), "{text}");
    let text = world.shows("ipfw -D list");
    let group = "<-> 10.0.1.2 81 :default\n00100 PARENT 2 tcp 10.0.0.2 0 <-> 0.0.0.0 0\n";
    assert!(text.starts_with(states) && text.ends_with(group), "{text}");
    assert!(world.shows("ipfw -Dv list").contains("<-> 10.0.1.2 80 :default cpu 0\n"));
    world.told.lock().unwrap().clear();
    world.shows("ipfw -De list");
    assert_eq!(world.told.lock().unwrap()[0], "1000 states and dead ones");
    assert_eq!(world.json("ipfw -D list").as_array().unwrap().len(), 2);
    assert_eq!(world.json("ipfw -d list")["rules"][0]["number"], 100);
    assert_eq!(world.json("ipfw -d list")["tracks"][0]["total"], 2);
}

fn a_change_says_what_ipfw_says_unless_told_to_be_quiet() {
    let world = World::new();
    assert_eq!(
        world.shows("ipfw add allow tcp from any to me 80"),
        "done: add allow tcp from any to me 80\n"
    );
    assert_eq!(world.shows("ipfw -q delete 100"), "");
    assert_eq!(world.json("ipfw zero")[0]["line"], 1);
    let told = world.told.lock().unwrap().join("\n");
    assert_eq!(told, "add allow tcp from any to me 80\ndelete 100\nzero");
}

fn what_may_be_a_mistake_is_said_beside_what_is_done() {
    let said = World::new().run("ipfw add allow ip from any to any via em9");
    assert_eq!((said.exit, said.err.as_str()), (Exit::Ok, "ipfw: warning: there is no em9\n"));
    assert_eq!(World::new().shows("ipfw -c add allow ip from any to any in"), "done: add allow in\n");
}

fn instances_of_nat_are_shown_with_what_they_have_or_how_they_are_configured() {
    let world = World::new();
    let text = world.shows("ipfw nat show");
    assert!(text.starts_with("nat 1: icmp=0, udp=0, tcp=2, proto=0 / tot=2\n    as 192.0.2.1;"), "{text}");
    assert_eq!(world.shows("ipfw nat 1 show config"), "nat 1 config if wan same_ports\n");
    let text = world.shows("ipfw -d nat 1 show");
    let flow = |port| format!("5 4 (7440s) NAT tcp 10.0.0.2 4000 <-> 203.0.113.9 {port} as 192.0.2.1 23456");
    assert!(text.ends_with(&format!("{}\n{}\n", flow(80), flow(443))), "{text}");
    assert!(world.shows("ipfw -dv nat 1 show").ends_with(&format!("{} cpu 1\n", flow(443))));
    assert_eq!(world.json("ipfw nat show")[0]["no_port"], 3);
    assert_eq!(world.json("ipfw -d nat show")[0]["bindings"][1]["remote_port"], 443);
    assert_eq!(world.run("ipfw nat 2 show").err, "pantala: ipfw: there is no nat 2\n");
    let prefixes = "nptv6 inside int_prefix fd00:1:: ext_if wan prefixlen 48\n";
    assert_eq!(world.shows("ipfw nptv6 all show"), prefixes);
    assert_eq!(world.json("ipfw nptv6 inside show")[0]["active"], true);
    assert!(world.run("ipfw nptv6 other show").err.contains("there is no nptv6 other"));
    let gate = "nat64lsn gate prefix4 192.0.2.0/28 prefix6 64:ff9b::/96\n    icmp=0, udp=2, tcp=4 / tot=6; limit 524288\n    \
        begun 90; refused: no port 1, no room 0\n";
    assert_eq!(world.shows("ipfw nat64lsn gate show"), gate);
    let flow = "5 4 (7440s) NAT tcp 2001:db8::5 4000 <-> 203.0.113.9 443 as 192.0.2.1 23456";
    assert_eq!(world.shows("ipfw -d nat64lsn all show"), format!("{gate}{flow}\n"));
    assert_eq!(world.shows("ipfw -dv nat64lsn all show"), format!("{gate}{flow} cpu 1\n"));
    assert_eq!(world.json("ipfw nat64lsn gate show")[0]["limit"], 524_288);
    assert_eq!(world.json("ipfw -d nat64lsn gate show")[0]["bindings"][0]["inside"], "2001:db8::5");
    assert!(world.run("ipfw nat64lsn other show").err.contains("there is no nat64lsn other"));
}

fn pipes_and_queues_are_shown_with_their_flows() {
    let world = World::new();
    let text = world.shows("ipfw pipe show");
    assert!(text.starts_with("00001:  10.000 Mbit/s   20 ms burst 0\n"), "{text}");
    assert!(text.contains("\nip    0.0.0.0/0       0.0.0.0/0            11/1100       0/0    2\n"), "{text}");
    assert_eq!(world.shows("ipfw -v pipe 1 show").lines().filter(|line| line.contains("0.0.0.0")).count(), 2);
    let text = world.shows("ipfw queue show");
    assert!(text.starts_with("q00002  50 sl. 1 flow droptail pipe 1 weight 30\n"), "{text}");
    assert_eq!(world.json("ipfw pipe show")[0]["flows"].as_array().unwrap().len(), 2);
    assert_eq!(world.json("ipfw queue 2 show")[0]["own"]["drops"], 2);
    assert!(world.run("ipfw pipe 7 show").err.contains("there is no pipe 7"));
    assert!(world.run("ipfw queue 1 show").err.contains("there is no queue 1"));
}

fn values_of_a_table_are_shown_as_addresses_on_request() {
    assert_eq!(World::new().shows("ipfw -i table bad list"), "10.0.0.0/16 0.0.0.5\n10.1.0.0/16 0.0.0.5\n");
}

fn a_refusal_is_shown_as_it_is() {
    let said = World::new().run("ipfw delete 900");
    assert_eq!((said.exit, said.err.as_str()), (Exit::Failed, "ipfw: there is no rule 900\n"));
}

fn a_line_is_checked_without_a_running_pantala() {
    let said = pantala("ipfw -n add allow ip from any to any");
    assert_eq!((said.exit, said.out.as_str(), said.err.as_str()), (Exit::Ok, "", ""));
    let said = pantala("ipfw -n add alow ip from any to any");
    assert_eq!((said.exit, said.out.as_str()), (Exit::Usage, ""));
    assert!(said.err.contains("    add alow ip from any to any\n        ^^^^"), "{}", said.err);
}

fn a_file_is_checked_as_a_whole_and_sent_as_a_whole() {
    let world = World::new();
    let file = world.folder.path().join("good.ipfw");
    std::fs::write(&file, "# rules\nadd 100 allow ip from any to any\n").unwrap();
    assert_eq!(world.shows(&format!("ipfw -n {}", file.display())), "");
    assert!(world.told.lock().unwrap().is_empty());
    world.shows(&format!("ipfw -q {}", file.display()));
    assert_eq!(world.told.lock().unwrap().len(), 1);
    std::fs::write(
        &file,
        "add 100 allow ip from any to any\n\n  add 200 alow ip from any to any\nadd 300 deny\n\nfoo\n",
    )
    .unwrap();
    let said = world.run(&format!("ipfw {}", file.display()));
    assert_eq!(said.exit, Exit::Failed);
    let place = format!("{}:3:11: ", file.display());
    assert!(said.err.starts_with(&place) && said.err.contains("\n              ^^^^\n"), "{}", said.err);
    assert!(said.err.contains(":6:1: "), "all mistakes are shown: {}", said.err);
    assert_eq!(world.told.lock().unwrap().len(), 1, "and nothing is carried out");
}

/// An error that loading the file would find is found when it is checked, too, and needs no running pantala.
fn a_command_that_only_lists_is_found_wrong_in_a_file_that_is_checked() {
    let folder = Folder::new();
    let file = folder.path().join("rules");
    for look in
        ["list", "set 3 show", "set show", "table t list", "nat show config", "pipe show", "nptv6 all show"]
    {
        std::fs::write(&file, format!("add 100 allow ip from any to any\n  {look}\n")).unwrap();
        let said = pantala(&format!("ipfw -n {}", file.display()));
        let place = format!("{}:2:3: this shows something, and changes nothing\n", file.display());
        assert!(said.exit == Exit::Failed && said.err.starts_with(&place), "{look}: {}", said.err);
    }
}

fn a_file_that_cannot_be_read_is_named() {
    let said = pantala("ipfw -n /nowhere/rules");
    assert_eq!(said.exit, Exit::Failed);
    assert!(said.err.starts_with("pantala: cannot read /nowhere/rules: "), "{}", said.err);
}

fn the_log_is_text_or_values_or_a_file_of_packets() {
    let world = World::new();
    let line = "ipfw: 100 Deny TCP 192.0.2.1:5 198.51.100.9:80 in via lan\n";
    assert_eq!(world.shows("ipfw log"), line);
    assert_eq!(world.json("ipfw log")["records"][0]["rule"], 100);
    let file = world.folder.path().join("log.pcapng");
    assert_eq!(world.shows(&format!("ipfw log -w {}", file.display())), "");
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert!(bytes.windows(4).any(|window| window == [0x45, 0, 0, 20]));
}

fn sets_are_listed() {
    assert!(World::new().shows("ipfw set show").starts_with("disable 5 enable 0 1 2 3 4 6 "));
}

fn help_is_that_of_the_program() {
    assert!(pantala("ipfw -h").out.contains("ipfw [-abcdDeSTtv] list | show"));
    let said = pantala("ipfw");
    assert_eq!(said.exit, Exit::Usage);
}

fn no_page_of_states_is_longer_than_the_bound() {
    let world = World::new();
    let client = Client::new(&world.folder.socket()).unwrap();
    for path in ["/v1/firewall/states", "/v1/firewall/states?limit=1000000", "/v1/firewall/states?limit=0"] {
        client.get::<FirewallStates>(path).unwrap();
    }
    assert_eq!(*world.told.lock().unwrap(), ["1000 states", "10000 states", "1 states"]);
}

fn a_batch_for_the_firewall_may_be_larger_than_other_requests() {
    let world = World::new();
    let client = Client::new(&world.folder.socket()).unwrap();
    let post = |bytes: usize| {
        let commands = serde_json::json!({ "name": "f", "text": "#".repeat(bytes) });
        client.post::<Vec<FirewallDone>>("/v1/firewall/commands", &commands)
    };
    assert!(post(8 << 20).is_ok());
    assert!(post(64 << 20).is_err());
    assert_eq!(world.told.lock().unwrap().len(), 1);
}

fn tables_are_listed_described_and_asked() {
    let world = World::new();
    assert_eq!(world.shows("ipfw table bad list"), "10.0.0.0/16 5\n10.1.0.0/16 5\n");
    assert!(world.shows("ipfw table all list").starts_with("--- table(bad), set(0) ---\n10.0.0.0/16 5\n"));
    let info = "--- table(bad), set(0) ---\n type: addr\n items: 2, limit: 1000, size: 2048\n";
    assert_eq!(world.shows("ipfw table bad info"), info);
    assert!(world.shows("ipfw table bad lookup 10.0.7.7").contains(" in 10.0.0.0/16 5\n"));
    assert_eq!(world.json("ipfw table bad list")[1]["key"], "10.1.0.0/16");
    assert!(world.run("ipfw table good list").err.contains("there is no table good"));
}

harness::tests![
    a_list_has_ipfws_columns,
    rules_of_disabled_sets_are_shown_on_request,
    a_number_that_no_rule_has_is_a_failure,
    states_are_shown_below_the_rules_or_alone,
    a_change_says_what_ipfw_says_unless_told_to_be_quiet,
    what_may_be_a_mistake_is_said_beside_what_is_done,
    instances_of_nat_are_shown_with_what_they_have_or_how_they_are_configured,
    pipes_and_queues_are_shown_with_their_flows,
    values_of_a_table_are_shown_as_addresses_on_request,
    a_refusal_is_shown_as_it_is,
    a_line_is_checked_without_a_running_pantala,
    a_file_is_checked_as_a_whole_and_sent_as_a_whole,
    a_command_that_only_lists_is_found_wrong_in_a_file_that_is_checked,
    a_file_that_cannot_be_read_is_named,
    the_log_is_text_or_values_or_a_file_of_packets,
    sets_are_listed,
    help_is_that_of_the_program,
    no_page_of_states_is_longer_than_the_bound,
    a_batch_for_the_firewall_may_be_larger_than_other_requests,
    tables_are_listed_described_and_asked
];
