//! pantala(8), and pantala-COMMAND(8) for each command, from clap's description of the command line.
//!
//! The synopsis and the text behind the options are those of `--help`. BSD commands have their grammar there and nowhere
//! else, so generators that know clap's arguments alone would leave it out.

use clap::{Arg, Command};

use crate::File;
use crate::roff::{Page, escaped};

/// Returns all pages of section 8.
pub fn pages(line: &Command, date: &str) -> Vec<File> {
    let mut line = line.clone();
    line.build();
    let commands: Vec<Command> =
        line.get_subcommands().filter(|command| command.get_name() != "help").cloned().collect();
    let mut pages = vec![overview(&line, &commands, date)];
    pages.extend(commands.iter().map(|command| page(command, date)));
    pages
}

fn overview(line: &Command, commands: &[Command], date: &str) -> File {
    let mut page = Page::new("pantala", 8, date);
    page.name("pantala", trimmed(&about(line)));
    synopsis(&mut page, line);
    page.section("DESCRIPTION");
    page.paragraph(
        "pantala is a router, a firewall with NAT and a TCP and UDP host in user space. `pantala up` runs it; the \
         other commands show and change a running pantala through its control socket, or need none.",
    );
    options(&mut page, line);
    page.section("COMMANDS");
    for command in commands {
        page.reference_entry(&format!("pantala-{}(8)", command.get_name()), &about(command));
    }
    page.section("EXIT STATUS");
    page.entry("0", "done");
    page.entry("1", "failed");
    page.entry("2", "the command line was not understood");
    page.section("ENVIRONMENT");
    page.entry("PANTALA_SOCKET", "the control socket, if --socket does not name one");
    page.section("FILES");
    page.entry("/etc/pantala/pantala.toml", "the configuration");
    page.entry("/run/pantala/control.sock", "the control socket");
    page.see_also(&["pantala.toml(5)".to_owned()]);
    page.into_file()
}

fn page(command: &Command, date: &str) -> File {
    let name = command.get_name();
    let mut page = Page::new(&format!("pantala-{name}"), 8, date);
    page.name(&format!("pantala-{name}"), trimmed(&about(command)));
    synopsis(&mut page, command);
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (before, examples) = help.split_once("Examples:\n").unwrap_or((&help, ""));
    page.section("DESCRIPTION");
    page.paragraph(&format!("{}.", about(command)));
    before.split("\n\n").filter(|block| !block.trim().is_empty()).for_each(|text| block(&mut page, text));
    options(&mut page, command);
    if !examples.is_empty() {
        page.section("EXAMPLES");
        page.verbatim(examples.lines().map(|line| line.trim_start_matches("  ")));
    }
    page.see_also(&["pantala(8)".to_owned(), "pantala.toml(5)".to_owned()]);
    page.into_file()
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn trimmed(about: &str) -> &str {
    about.trim_end_matches('.')
}

fn synopsis(page: &mut Page, command: &Command) {
    page.section("SYNOPSIS");
    let usage = command.clone().render_usage().to_string();
    page.verbatim(
        usage.trim_start_matches("Usage: ").lines().map(|line| line.strip_prefix("       ").unwrap_or(line)),
    );
}

fn options(page: &mut Page, command: &Command) {
    let shown = |arg: &&Arg| !arg.is_hide_set();
    if !command.get_arguments().any(|arg| shown(&arg)) {
        return;
    }
    page.section("OPTIONS");
    for arg in command.get_arguments().filter(shown) {
        let meaning =
            arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
        page.entry(&term(arg), &format!("{meaning}{}", facts(arg)));
    }
}

/// An argument as it is written: `-c, --config <FILE>`.
fn term(arg: &Arg) -> String {
    let names =
        [arg.get_short().map(|short| format!("-{short}")), arg.get_long().map(|long| format!("--{long}"))];
    let names = names.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let takes_value = arg.is_positional() || arg.get_action().takes_values();
    let values = arg.get_value_names().filter(|_| takes_value).unwrap_or_default();
    let values = values.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" ");
    [names, values].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The default and the possible values of an argument.
fn facts(arg: &Arg) -> String {
    let mut facts = String::new();
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if arg.get_action().takes_values() && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        facts.push_str(&format!(" [default: {}]", defaults.join(" ")));
    }
    let values = arg.get_possible_values();
    let values: Vec<_> =
        values.iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name()).collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        facts.push_str(&format!(" [possible values: {}]", values.join(", ")));
    }
    facts
}

/// A block of a help text: terms and their meanings, text, or lines as they are.
fn block(page: &mut Page, text: &str) {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if let Some(entries) = entries(&lines) {
        entries.iter().for_each(|(term, meaning)| page.entry(term, meaning));
    } else if lines.iter().any(|line| line.starts_with(' ') || line.contains("   ")) {
        page.verbatim(lines);
    } else {
        page.paragraph(&lines.join(" "));
    }
}

/// Terms and meanings, if all lines are such: the term, two spaces at least, its meaning; deeper lines go on.
fn entries<'l>(lines: &[&'l str]) -> Option<Vec<(&'l str, String)>> {
    let mut entries: Vec<(&str, String)> = Vec::new();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let first = indent(lines.first()?);
    for line in lines {
        match line.trim_start().split_once("  ") {
            Some((term, meaning)) if indent(line) == first => {
                let meaning = meaning.trim_start();
                // Two columns beside each other.
                if meaning.contains("   ") || meaning.contains(";  -") {
                    return None;
                }
                entries.push((term, meaning.to_owned()));
            }
            _ if indent(line) > first => {
                let (_, meaning) = entries.last_mut()?;
                meaning.push(' ');
                meaning.push_str(line.trim_start());
            }
            _ => return None,
        }
    }
    Some(entries)
}

impl Page {
    /// Another page and what it is about.
    fn reference_entry(&mut self, page: &str, about: &str) {
        self.tagged(&crate::roff::reference(page), &escaped(about));
    }
}
