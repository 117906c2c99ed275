use ipfw::command::SetCommand;
use ipfw::rule::{Action, Arg, Clause, Keep, KeepKind, Match, Term};

use super::*;
use crate::firewall::table::Lookups;
use crate::link::tables::Tables;

fn rule(number: Number, action: Action) -> Rule {
    Rule { number, set: 0, action, ..default_rule(Action::Deny) }
}

fn compile(rules: &mut Rules) -> Ruleset {
    rules.compile(&Tables::default(), &Lookups::new(1).unwrap())
}

fn numbers(rules: &Rules) -> Vec<Number> {
    rules.entries().iter().map(|entry| entry.rule.number).collect()
}

fn rules(numbers: &[Number]) -> Rules {
    let mut rules = Rules::new(Action::Deny);
    for number in numbers {
        rules.add(rule(*number, Action::Count)).unwrap();
    }
    rules
}

#[test]
fn rules_without_a_number_come_a_step_behind_the_last_and_equal_ones_keep_their_order() {
    let mut rules = rules(&[0, 0, 150]);
    assert_eq!(rules.add(rule(150, Action::Allow)), Ok(150));
    assert_eq!(rules.add(rule(0, Action::Allow)), Ok(300));
    assert_eq!(numbers(&rules), [100, 150, 150, 200, 300, 65535]);
    assert_eq!(rules.entries()[2].rule.action, Action::Allow);
}

#[test]
fn behind_the_highest_number_there_is_no_step_left_and_the_number_is_shared() {
    let mut rules = rules(&[65500]);
    assert_eq!(rules.add(rule(0, Action::Allow)), Ok(65500));
    assert_eq!(rules.add(rule(65535, Action::Allow)), Err(Error::NumberOfDefault));
}

#[test]
fn rules_are_deleted_by_number_range_and_set_or_not_at_all() {
    let mut rules = rules(&[100, 200, 200, 300, 400]);
    rules.add(Rule { set: 5, ..rule(400, Action::Count) }).unwrap();
    assert_eq!(rules.delete(None, &[100..=100, 250..=260]), Err(Error::NoSuchRule(250..=260)));
    assert_eq!(rules.delete(None, &[65535..=65535]), Err(Error::NumberOfDefault));
    assert_eq!(numbers(&rules), [100, 200, 200, 300, 400, 400, 65535]);
    assert_eq!(rules.delete(None, &[150..=300]), Ok(3));
    assert_eq!(rules.delete(Some(5), &[400..=400]), Ok(1));
    assert_eq!(rules.delete(Some(32), &[]), Err(Error::NoSuchSet(32)));
    assert_eq!(numbers(&rules), [100, 400, 65535]);
    assert_eq!(rules.delete(Some(0), &[]), Ok(2));
    assert_eq!(numbers(&rules), [65535]);
}

#[test]
fn a_flush_leaves_the_last_set_and_the_default_rule() {
    let mut rules = rules(&[100, 200]);
    rules.add(Rule { set: 31, ..rule(150, Action::Count) }).unwrap();
    assert_eq!(rules.flush(None), Ok(2));
    assert_eq!(numbers(&rules), [150, 65535]);
    assert_eq!(rules.flush(Some(31)), Ok(1));
    assert_eq!(numbers(&rules), [65535]);
}

#[test]
fn a_rule_that_comes_back_as_it_was_is_the_same_and_any_other_is_not() {
    let mut rules = rules(&[100, 200]);
    let ids = |rules: &Rules| rules.entries().iter().map(|entry| entry.id).collect::<Vec<_>>();
    let before = ids(&rules);
    let old = compile(&mut rules);
    rules.flush(None).unwrap();
    rules.add(rule(200, Action::Count)).unwrap();
    rules.add(rule(100, Action::Allow)).unwrap();
    let new = compile(&mut rules);
    let after = ids(&rules);
    assert_eq!((after[1], after[2]), (before[1], before[2]));
    assert_ne!(after[0], before[0]);
    assert_eq!((old.by_id(before[0]), new.by_id(before[0])), (Some(0), None));
    assert_eq!((new.by_id(after[0]), new.by_id(before[1])), (Some(0), Some(1)));
    assert!(new.generation() > old.generation());
    // Once compiled without it, it is forgotten.
    rules.delete(None, &[200..=200]).unwrap();
    let _ = compile(&mut rules);
    rules.add(rule(200, Action::Count)).unwrap();
    assert_ne!(rules.entries()[1].id, before[1]);
}

#[test]
fn as_many_rules_as_there_may_be_and_no_more() {
    let mut rules = Rules::new(Action::Deny);
    for _ in 1..RULES_MAX {
        rules.add(rule(7, Action::Count)).unwrap();
    }
    assert_eq!(rules.add(rule(7, Action::Count)), Err(Error::TooManyRules));
    assert_eq!(rules.entries().len(), RULES_MAX);
    rules.delete(None, &[7..=7]).unwrap();
    let _ = compile(&mut rules);
    assert!(rules.add(rule(7, Action::Allow)).is_ok());
}

#[test]
fn sets_are_disabled_moved_and_swapped_and_the_last_one_cannot_be() {
    let mut rules = rules(&[100, 200]);
    rules.add(Rule { set: 3, ..rule(300, Action::Count) }).unwrap();
    let sets = |rules: &Rules| rules.entries().iter().map(|entry| entry.rule.set).collect::<Vec<_>>();
    rules.set(&SetCommand::MoveRule { number: 200, to: 9 }).unwrap();
    assert_eq!(sets(&rules), [0, 9, 3, 31]);
    rules.set(&SetCommand::Swap(9, 3)).unwrap();
    assert_eq!(sets(&rules), [0, 3, 9, 31]);
    rules.set(&SetCommand::Move { from: 3, to: 0 }).unwrap();
    assert_eq!(sets(&rules), [0, 0, 9, 31]);
    let disable = SetCommand::Switch { disable: 1 << 31, enable: 0 };
    assert_eq!(rules.set(&disable), Err(Error::SetOfDefault));
    rules.set(&SetCommand::Switch { disable: 1 << 9 | 1, enable: 0 }).unwrap();
    rules.set(&SetCommand::Switch { disable: 0, enable: 1 }).unwrap();
    assert_eq!(rules.disabled(), 1 << 9);
}

#[test]
fn jumps_lead_to_the_first_rule_of_the_number_or_behind_and_skipto_never_back() {
    let mut rules = rules(&[100, 300, 500]);
    rules.add(rule(200, Action::SkipTo(Arg::Value(400)))).unwrap();
    rules.add(rule(250, Action::SkipTo(Arg::Value(100)))).unwrap();
    rules.add(rule(260, Action::Call(Arg::Value(100)))).unwrap();
    let ruleset = compile(&mut rules);
    let targets: Vec<_> = (0..ruleset.len()).map(|at| ruleset.rule(at).unwrap().target).collect();
    assert_eq!(targets, [None, Some(5), Some(3), Some(0), None, None, None]);
    assert_eq!((ruleset.position_of_number(261), ruleset.position_of_number(65535)), (4, 6));
}

#[test]
fn names_of_states_have_numbers_that_stay() {
    let mut rules = Rules::new(Action::Deny);
    let named = |name: &str| {
        let keep = Keep { kind: KeepKind::State, flow: Flow::Named(name.into()), defer: false };
        Rule { keep: Some(keep), ..rule(0, Action::Allow) }
    };
    rules.add(named("web")).unwrap();
    rules.add(named("mail")).unwrap();
    rules.add(rule(0, Action::CheckState(Flow::Named("web".into())))).unwrap();
    rules.add(rule(0, Action::CheckState(Flow::Any))).unwrap();
    let flows: Vec<_> = rules.entries().iter().map(|entry| entry.flow).collect();
    assert_eq!(flows, [FlowId(1), FlowId(2), FlowId(1), FlowId::ANY, FlowId::DEFAULT]);
    assert_eq!((rules.flow_name(FlowId(2)), rules.flow_name(FlowId::DEFAULT)), (Some("mail"), None));
}

#[test]
fn names_of_states_are_bounded() {
    let mut rules = Rules::new(Action::Deny);
    let check = |name: String| rule(1, Action::CheckState(Flow::Named(name)));
    rules.flows = (0..FLOWS_MAX).map(|n| n.to_string()).collect();
    assert_eq!(rules.add(check("another".into())), Err(Error::TooManyFlows));
    assert_eq!(rules.add(check("7".into())), Ok(1));
}

#[test]
fn a_hook_is_empty_if_nothing_but_passing_can_happen_there() {
    use ipfw::rule::Hook::{Egress, Forward, Ingress};
    let mut rules = Rules::new(Action::Allow);
    assert!(compile(&mut rules).is_empty_at(Ingress));
    rules.set_default(Action::Deny);
    let ruleset = compile(&mut rules);
    assert!(!ruleset.is_empty_at(Ingress) && !ruleset.is_empty_at(Egress) && ruleset.is_empty_at(Forward));
    let only = |is| vec![Clause { any: vec![Term { not: false, is }] }];
    rules.add(Rule { body: only(Match::At(Egress)), ..rule(10, Action::Allow) }).unwrap();
    rules.add(Rule { body: only(Match::At(Forward)), ..rule(20, Action::Count) }).unwrap();
    let ruleset = compile(&mut rules);
    assert!(!ruleset.is_empty_at(Ingress) && ruleset.is_empty_at(Egress) && !ruleset.is_empty_at(Forward));
}

#[test]
fn counters_of_rules_begin_again_and_stay_with_them() {
    let mut rules = rules(&[100, 200, 300]);
    let counted = Counted { packets: 5, bytes: 500, last: None };
    rules.zero(None, &[150..=300], |_| counted).unwrap();
    assert_eq!(rules.ids(Some(0), &[100..=100]), Ok(vec![rules.entries()[0].id]));
    assert_eq!(rules.ids(Some(0), &[400..=500]), Err(Error::NoSuchRule(400..=500)));
    assert_eq!(rules.zero(None, &[400..=500], |_| counted), Err(Error::NoSuchRule(400..=500)));
    rules.flush(None).unwrap();
    for number in [100, 200, 300] {
        rules.add(rule(number, Action::Count)).unwrap();
    }
    let zeroed: Vec<_> = rules.entries().iter().map(|entry| entry.zeroed.packets).collect();
    assert_eq!(zeroed, [0, 5, 5, 0]);
    rules.zero(None, &[], |_| counted).unwrap();
    assert!(rules.entries().iter().all(|entry| entry.zeroed == counted));
}

#[test]
fn a_redirection_makes_its_own_states_and_leads_to_a_host() {
    let mut rules = rules(&[100]);
    let to = |to: IpAddr| rule(200, Action::Redirect { to, port: None });
    let keep = Some(Keep { kind: KeepKind::State, flow: Flow::Default, defer: false });
    let host = IpAddr::from([192, 0, 2, 1]);
    assert_eq!(rules.add(Rule { keep, ..to(host) }), Err(Error::RedirectKeeps));
    for nobody in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"] {
        assert_eq!(rules.add(to(nobody.parse().unwrap())), Err(Error::RedirectNowhere), "{nobody}");
    }
    assert_eq!(rules.add(to(host)), Ok(200));
}

#[test]
fn what_is_redirected_is_looked_for_once_however_many_rules_redirect() {
    let mut rules = Rules::new(Action::Deny);
    for number in [100, 200, 300, 500] {
        rules.add(rule(number, Action::Redirect { to: IpAddr::from([192, 0, 2, 1]), port: None })).unwrap();
    }
    rules.add(rule(400, Action::CheckState(Flow::Default))).unwrap();
    let ruleset = compile(&mut rules);
    let probes = |from| (ruleset.probe_from(from), ruleset.named_probe_from(from));
    assert_eq!([0, 1, 4].map(probes), [(Some(0), Some(3)), (Some(1), Some(3)), (Some(4), None)]);
}
