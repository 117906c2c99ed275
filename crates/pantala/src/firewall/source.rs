//! Rules as text: as they are shown, and what names they have that may be wrong.

use ipfw::Command;
use ipfw::command::{NatConfig, Nptv6Config};
use ipfw::rule::{Action, Addr, Arg, If, Match, RULE_LAST, Rule};

use super::config::Shapes;

/// Prints a rule without number and set. The last one, which has no body, is printed with `ip from any to any`.
pub(crate) fn rule(rule: &Rule) -> String {
    let body = if rule.number == RULE_LAST { " ip from any to any" } else { "" };
    Rule { number: 0, set: 0, ..rule.clone() }.to_string() + body
}

/// Returns the warning about a command that names an interface which is not there: as with ipfw, it may come later.
pub(crate) fn missing(command: &Command, is_there: impl Fn(&str) -> bool) -> Option<String> {
    let (name, until) = match command {
        Command::Add(rule) => (interfaces(rule).find(|name| !is_there(name)), "this rule does not match"),
        Command::NatConfig { config: NatConfig { ip: None, interface, .. }, .. } => {
            (interface.as_deref(), "nothing is translated")
        }
        Command::Nptv6Create { config: Nptv6Config { external: None, external_if, .. }, .. } => {
            (external_if.as_deref(), "nothing is translated")
        }
        _ => (None, ""),
    };
    let name = name.filter(|name| !is_there(name))?;
    Some(format!("there is no interface `{name}`; until there is, {until}"))
}

/// Returns the warning about a rule whose pipe or queue does not exist.
pub(crate) fn missing_pipe(command: &Command, shapes: &Shapes) -> Option<String> {
    let Command::Add(rule) = command else { return None };
    let (what, number, is_there) = match rule.action {
        Action::Pipe(Arg::Value(number)) => {
            ("pipe", number, shapes.pipes().any(|(there, _)| there == number))
        }
        Action::Queue(Arg::Value(number)) => {
            ("queue", number, shapes.queues().any(|(there, _)| there == number))
        }
        _ => return None,
    };
    let why =
        format!("there is no {what} {number}; packets that match are dropped until `{what} {number} config`");
    (!is_there).then_some(why)
}

/// Interfaces that a rule names; patterns and tables are no names.
fn interfaces(rule: &Rule) -> impl Iterator<Item = &str> {
    let terms = rule.body.iter().flat_map(|clause| &clause.any);
    terms.filter_map(|term| match &term.is {
        Match::Recv(If::Name(name)) | Match::Xmit(If::Name(name)) | Match::Via(If::Name(name)) => {
            Some(name.as_str())
        }
        Match::Src(Addr::Interface { name, .. }) | Match::Dst(Addr::Interface { name, .. }) => {
            Some(name.as_str())
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use net::firewall::ruleset::Rules;

    use super::*;

    #[test]
    fn the_last_rule_is_listed_as_ipfw_lists_it() {
        let rules = Rules::new(Action::Deny);
        assert_eq!(rule(&rules.entries()[0].rule), "deny ip from any to any");
    }

    #[test]
    fn what_names_an_interface_that_is_not_there_is_told_so() {
        let missing = |line: &str| missing(&ipfw::parse_line(line).unwrap(), |name| name == "em0");
        for line in [
            "add allow ip from any to any via em0",
            "add allow ip from any to any via em*",
            "nat 1 config if em0",
            "nat 1 config ip 192.0.2.1",
            "nptv6 a create int_prefix fd00:: ext_if em0 prefixlen 48",
            "nptv6 a create int_prefix fd00:: ext_prefix 2001:db8:: prefixlen 48",
            "delete 100",
        ] {
            assert_eq!(missing(line), None, "{line}");
        }
        for line in [
            "add allow ip from any to any recv em0 xmit em1",
            "nat 1 config if em1",
            "nptv6 a create int_prefix fd00:: ext_if em1 prefixlen 48",
        ] {
            assert!(missing(line).unwrap().starts_with("there is no interface `em1`"), "{line}");
        }
    }

    #[test]
    fn a_rule_whose_pipe_or_queue_does_not_exist_is_warned_of() {
        let mut shapes = Shapes::new(0);
        shapes.set_pipe(1, &Default::default()).unwrap();
        let missing = |line: &str| missing_pipe(&ipfw::parse_line(line).unwrap(), &shapes);
        for line in ["add pipe 1 ip from any to any", "add pipe tablearg ip from any to any", "delete 100"] {
            assert_eq!(missing(line), None, "{line}");
        }
        for (line, what) in
            [("add pipe 9 ip from any to any", "pipe 9"), ("add queue 1 ip from any to any", "queue 1")]
        {
            assert!(missing(line).unwrap().starts_with(&format!("there is no {what};")), "{line}");
        }
    }
}
