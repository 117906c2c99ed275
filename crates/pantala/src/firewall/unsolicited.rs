//! Rules that let unsolicited packets in. With `one_pass` a packet that a rule with `nat` matches is past all rules,
//! whether or not it was translated: `nat … in` alone is no firewall.

use ipfw::Statement;
use ipfw::command::{Command, NatConfig};
use ipfw::rule::{Action, Addr, Arg, Hook, Match, NatTarget, Net, Rule, Term};

use super::FirewallConfig;

/// Returns the warnings about commands, by their lines, when all of them have been carried out.
pub(crate) fn warnings<'a>(
    config: &'a FirewallConfig,
    statements: &'a [Statement],
) -> impl Iterator<Item = (u32, String)> + use<'a> {
    let may_matter = config.switches.one_pass && denies(config);
    statements.iter().filter(move |_| may_matter).filter_map(|Statement { line, command }| match command {
        Command::Add(rule) => Some((*line, warning(config, rule)?)),
        _ => None,
    })
}

/// Whether any rule would stop a packet that comes to it.
fn denies(config: &FirewallConfig) -> bool {
    let mut actions = config.rules.entries().iter().map(|entry| &entry.rule.action);
    actions.any(|action| matches!(action, Action::Deny | Action::Unreach(_) | Action::Reset))
}

fn warning(config: &FirewallConfig, rule: &Rule) -> Option<String> {
    let lets_in = |version| may_come_in(rule, version);
    let (what, how) = match &rule.action {
        Action::Nat(target) if lets_in(4) && !drops_unasked(config, *target) => (
            format!("`{}` accepts every packet that it matches, also untranslated ones", word(*target)),
            "`disable one_pass`, so that later rules are evaluated, or `deny_in` in the instance's `config`",
        ),
        Action::Nat(target) if lets_in(6) => (
            format!("`{}` accepts IPv6, which it does not translate", word(*target)),
            "`ip4` in place of `ip`, or `disable one_pass`, so that later rules are evaluated",
        ),
        Action::Nptv6(name) if lets_in(6) => (
            format!("`nptv6 {name}` accepts every packet that it matches: prefix translation has no flows"),
            "`disable one_pass`, so that later rules are evaluated",
        ),
        _ => return None,
    };
    Some(format!("{what}: with one_pass no later rule is evaluated; write {how}"))
}

fn word(target: NatTarget) -> String {
    match target {
        NatTarget::Global => "nat global".to_owned(),
        NatTarget::Instance(Arg::Value(number)) => format!("nat {number}"),
        NatTarget::Instance(Arg::Table) => "nat tablearg".to_owned(),
    }
}

/// Tells whether the instances that a rule means drop unsolicited packets.
fn drops_unasked(config: &FirewallConfig, target: NatTarget) -> bool {
    let drops = |config: &NatConfig| config.deny_in && !config.reverse && !config.proxy_only;
    match target {
        NatTarget::Instance(Arg::Value(number)) => config.nat.get(&number).is_some_and(drops),
        NatTarget::Instance(Arg::Table) | NatTarget::Global => {
            !config.nat.is_empty() && config.nat.values().all(drops)
        }
    }
}

/// Whether a rule may match a packet of an IP version on its way in.
fn may_come_in(rule: &Rule, version: u8) -> bool {
    let may_at = |hook: Hook| {
        rule.body.iter().all(|clause| clause.any.iter().any(|term| may_match(term, hook, version)))
    };
    // At the hook behind the route those rules are asked that name it.
    let names_local_in = rule
        .body
        .iter()
        .flat_map(|clause| &clause.any)
        .any(|term| !term.not && term.is == Match::At(Hook::LocalIn));
    may_at(Hook::Ingress) || names_local_in && may_at(Hook::LocalIn)
}

fn may_match(Term { not, is }: &Term, hook: Hook, version: u8) -> bool {
    let is_of_4 = version == 4;
    match is {
        Match::Any => !not,
        Match::At(at) => (*at == hook) != *not,
        // On the way in nothing is known of the way out.
        Match::Xmit(_) => *not,
        Match::Version(of) => (*of == version) != *not,
        Match::Src(addr) | Match::Dst(addr) if !not => match addr {
            Addr::Nets(nets) => nets.iter().any(|net| matches!(net, Net::V4 { .. }) == is_of_4),
            Addr::Hosts { .. } => is_of_4,
            Addr::Me6 => !is_of_4,
            Addr::Any | Addr::Me | Addr::Table(_) | Addr::Interface { .. } => true,
        },
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use net::firewall::ruleset::Counted;
    use net::tables::Tables;

    use super::*;
    use crate::firewall::Around;

    /// Returns the warnings by line.
    fn told(text: &str, default: Action) -> Vec<(u32, String)> {
        let statements = ipfw::parse_file("rules", text).unwrap();
        let mut config = FirewallConfig::new(default, 0).unwrap();
        let around = Around { tables: &Tables::default(), counted: &|_| Counted::default() };
        config.run(&statements, &around).unwrap();
        warnings(&config, &statements).collect()
    }

    const NAT: &str = "nat 1 config ip 192.0.2.1\n";
    const DENY_IN: &str = "nat 1 config ip 192.0.2.1 deny_in\n";

    #[test]
    fn a_rule_that_lets_in_what_nothing_translated_is_told_with_what_would_be_right() {
        for rule in [
            "add 100 nat 1 ip4 from any to any in recv wan",
            "add 100 nat 1 ip from any to any via wan",
            "add 100 nat 1 ip from any to any",
            "add nat 1 udp from any to me not out",
            "add nat global ip4 from any to any in",
            "add nat 1 ip4 from any to { 192.0.2.1 or me } in",
        ] {
            let told = told(&format!("{NAT}{rule}\n"), Action::Deny);
            let [(2, why)] = told.as_slice() else { panic!("{rule}: {told:?}") };
            assert!(why.contains("also untranslated ones") && why.contains("`disable one_pass`"), "{why}");
        }
    }

    #[test]
    fn ipv6_that_goes_past_nat_and_prefixes_that_let_all_in_are_told() {
        let [ip6] = &told(&format!("{DENY_IN}add nat 1 ip from any to any in\n"), Action::Deny)[..] else {
            panic!()
        };
        assert!(ip6.1.contains("accepts IPv6") && ip6.1.contains("`ip4` in place of `ip`"), "{}", ip6.1);
        let prefixes = "nptv6 out create int_prefix fd00:: ext_prefix 2001:db8:: prefixlen 48\n\
                        add nptv6 out ip6 from any to any via wan\n";
        assert_eq!(told(prefixes, Action::Deny).len(), 1);
    }

    #[test]
    fn nothing_is_told_where_other_rules_are_asked_or_nothing_is_denied_anyway() {
        for text in [
            "add 100 nat 1 ip4 from any to any out xmit wan\n",
            "add 100 nat 1 ip4 from any to any xmit wan\n",
            "add 100 nat 1 ip4 from any to any not in\n",
            "disable one_pass\nadd 100 nat 1 ip from any to any via wan\n",
            "add 100 allow ip from any to any in\n",
        ] {
            assert_eq!(told(&format!("{NAT}{text}"), Action::Deny), [], "{text}");
        }
        for rule in ["ip4 from any to any in", "ip from any to 192.0.2.1 in", "udp from 10.0.0.0/8 to any in"]
        {
            assert_eq!(told(&format!("{DENY_IN}add nat 1 {rule}\n"), Action::Deny), [], "{rule}");
        }
        assert_eq!(told(&format!("{NAT}add nat 1 ip from any to any via wan\n"), Action::Allow), []);
        let one = "add nat 1 ip from any to any via wan\nadd deny tcp from any to me 22\n";
        assert_eq!(told(&format!("{NAT}{one}"), Action::Allow).len(), 1);
    }
}
