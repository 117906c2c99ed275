//! `[firewall]`: its rules, in a file of their own or in place, and its settings.

use std::path::PathBuf;

use ipfw::Statement;
use ipfw::rule::Action;
use net::firewall::ruleset::Counted;
use net::firewall::state::Settings;
use net::tables::Tables;
use toml::de::DeTable;

use super::{Around, FirewallConfig, source, text, unsolicited};
use crate::config::Interface;
use crate::config::fields::Fields;
use crate::config::problem::{At, Place, Report, Wrong};
use diagnostic::did_you_mean;

/// Bytes of a rules file: a million entries of tables, and rules.
const RULES_BYTES_MAX: u64 = 64 << 20;
/// Number of warnings reported; the others are omitted.
const WARNINGS_MAX: usize = 20;

const KEYS: &[&str] = &["rules", "rules_text", "default", "one_pass", "verbose"];
/// Settings that are true or false.
const SWITCHES: &[&str] = &["dyn_keepalive", "dyn_strict"];
/// Prefix of ipfw's settings.
const PREFIX: &str = "net.inet.ip.fw.";

/// The section.
#[derive(Debug, Clone, PartialEq)]
pub struct Firewall {
    /// Default action.
    pub default: Action,
    /// The commands that make the rules, in their order; they can be carried out.
    pub commands: Vec<Statement>,
    /// Lifetimes and limits of states.
    pub states: Settings,
    /// Whether a packet that left a pipe or was translated is not asked about again.
    pub one_pass: bool,
    /// Whether rules with `log` are heard.
    pub verbose: bool,
    /// Warnings, a sentence each.
    pub warnings: Vec<String>,
}

/// The section as it is written.
pub(crate) struct Draft {
    default: Action,
    commands: Vec<Statement>,
    /// The text that they stand in, if there is one.
    text: Option<Text>,
    states: Settings,
    one_pass: bool,
    verbose: bool,
}

/// Where commands stand.
struct Text {
    /// Its name in problems.
    name: String,
    text: String,
    /// Where in the configuration it begins, if it stands there as it is.
    place: Option<Place>,
}

pub(crate) fn read(table: &At<&DeTable<'_>>, report: &mut Report<'_>) -> Draft {
    let settings = Settings::NAMES.iter().map(|name| short(name));
    let keys: Vec<&str> = KEYS.iter().copied().chain(settings).collect();
    let fields = Fields::new(table.value, table.span.clone(), "in [firewall]", &keys, report);
    let truth = |key: &str, report: &mut Report<'_>| fields.truth(key, report).is_none_or(|at| at.value);
    let text = text(&fields, report);
    let commands = text.as_ref().map(|text| commands(text, report)).unwrap_or_default();
    Draft {
        default: fields.parsed("default", default, report).map_or(Action::Deny, |at| at.value),
        states: settings_of(&fields, report),
        one_pass: truth("one_pass", report),
        verbose: truth("verbose", report),
        commands,
        text,
    }
}

fn default(text: &str) -> Result<Action, Wrong> {
    match text {
        "allow" | "accept" | "pass" | "permit" => Ok(Action::Allow),
        "deny" | "drop" => Ok(Action::Deny),
        other => {
            let message = format!("`{other}` is not what can become of packets that no rule matches");
            Err(Wrong::new(message, did_you_mean(other, &["allow", "deny"])))
        }
    }
}

fn short(name: &'static str) -> &'static str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

fn settings_of(fields: &Fields<'_>, report: &mut Report<'_>) -> Settings {
    let mut settings = Settings::default();
    for name in Settings::NAMES.iter().map(|name| short(name)) {
        let value = if SWITCHES.contains(&name) {
            fields.truth(name, report).map(|at| At::new(u32::from(at.value), at.span))
        } else {
            fields.number(name, 0..=u32::MAX, report)
        };
        if let Some(value) = value
            && let Err(why) = settings.set(name, value.value)
        {
            report.add(&value.span, format!("{name} {why}"), "times are in seconds");
        }
    }
    settings
}

/// The rules' text, from their file or in place.
fn text(fields: &Fields<'_>, report: &mut Report<'_>) -> Option<Text> {
    let file = fields.text("rules", report);
    let inline = fields.text("rules_text", report);
    if let (Some(file), Some(_)) = (&file, &inline) {
        report.add(&file.span, "`rules` and `rules_text` are two sets of rules", "keep one of them");
        return None;
    }
    if let Some(inline) = inline {
        let place = report.place_of(&inline);
        let name = format!("{}: rules_text", report.file());
        return Some(Text { name, text: inline.value, place });
    }
    let file = file?;
    let path = report.folder().join(&file.value);
    match load(&path) {
        Ok(text) => Some(Text { name: path.display().to_string(), text, place: None }),
        Err(why) => {
            let help = "the path is relative to the configuration's folder";
            report.add(&file.span, format!("cannot read {}: {why}", path.display()), help);
            None
        }
    }
}

fn load(path: &PathBuf) -> std::io::Result<String> {
    let length = std::fs::metadata(path)?.len();
    if length > RULES_BYTES_MAX {
        return Err(std::io::Error::other(format!("it has more than {RULES_BYTES_MAX} bytes")));
    }
    std::fs::read_to_string(path)
}

fn commands(text: &Text, report: &mut Report<'_>) -> Vec<Statement> {
    let wrong = match text::parse(&text.name, &text.text) {
        Ok(statements) => return statements,
        Err(wrong) => wrong,
    };
    for error in wrong {
        report.elsewhere(error, text.place.as_ref());
    }
    Vec::new()
}

/// Whether the commands can be carried out, and name what is there.
pub(crate) fn check(draft: &Draft, interfaces: &[Interface], report: &mut Report<'_>) -> Firewall {
    let mut warnings = Vec::new();
    if let Some(text) = &draft.text {
        let around = Around { tables: &Tables::default(), counted: &|_| Counted::default() };
        // Without memory to try them, they are tried when they are put in force.
        if let Ok(mut config) = FirewallConfig::new(draft.default.clone(), 0) {
            config.switches.one_pass = draft.one_pass;
            match config.run(&draft.commands, &around) {
                Ok(_) => {
                    warnings.extend(unsolicited::warnings(&config, &draft.commands));
                    warnings.extend(missing_pipes(&config, &draft.commands));
                }
                Err((line, refused)) => {
                    report.elsewhere(refused.at(&text.name, &text.text, line), text.place.as_ref());
                }
            }
        }
        warnings.extend(unknown_interfaces(&draft.commands, interfaces));
    }
    Firewall {
        default: draft.default.clone(),
        commands: draft.commands.clone(),
        states: draft.states,
        one_pass: draft.one_pass,
        verbose: draft.verbose,
        warnings: draft.text.as_ref().map(|text| placed(warnings, text)).unwrap_or_default(),
    }
}

/// As with ipfw, a rule may name a pipe or queue that is configured later, or never.
fn missing_pipes(config: &FirewallConfig, statements: &[Statement]) -> impl Iterator<Item = (u32, String)> {
    let missing = |Statement { line, command }: &Statement| {
        Some((*line, source::missing_pipe(command, &config.shapes)?))
    };
    statements.iter().filter_map(missing)
}

/// As with ipfw, a rule or an instance of NAT may name an interface that comes later, or never.
fn unknown_interfaces(
    statements: &[Statement],
    interfaces: &[Interface],
) -> impl Iterator<Item = (u32, String)> {
    let is_known = |name: &str| interfaces.iter().any(|interface| interface.name == name);
    statements
        .iter()
        .filter_map(move |Statement { line, command }| Some((*line, source::missing(command, is_known)?)))
}

/// Warnings behind the places of their commands, in the order of these.
fn placed(mut warnings: Vec<(u32, String)>, text: &Text) -> Vec<String> {
    warnings.sort_by_key(|(line, _)| *line);
    warnings.truncate(WARNINGS_MAX);
    let at = |line: u32| match &text.place {
        Some(place) => place.line(line),
        None => format!("{}:{line}", text.name),
    };
    warnings.into_iter().map(|(line, warning)| format!("{}: {warning}", at(line))).collect()
}
