//! Completions for bash, zsh and fish.

use clap::builder::PossibleValuesParser;
use clap::{ArgAction, Command};
use clap_complete::{Shell, generate};

use crate::File;

/// The files, with the names that the shells look for.
const FILES: [(Shell, &str); 3] =
    [(Shell::Bash, "pantala.bash"), (Shell::Zsh, "_pantala"), (Shell::Fish, "pantala.fish")];

/// Returns the completions of each shell.
pub fn completions(line: &Command) -> Vec<File> {
    let line = with_words(line.clone());
    let complete = |(shell, name): (Shell, &str)| {
        let mut text = Vec::new();
        generate(shell, &mut line.clone(), "pantala", &mut text);
        File { path: format!("completions/{name}"), text: String::from_utf8_lossy(&text).into_owned() }
    };
    FILES.into_iter().map(complete).collect()
}

/// Gives each BSD command the words and flags of its usage and help as values, so that shells offer them.
fn with_words(line: Command) -> Command {
    let commands: Vec<String> = line.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    commands.into_iter().fold(line, |line, name| {
        line.mut_subcommand(&name, |command| {
            if !command.get_arguments().any(|arg| arg.get_id() == "words") {
                return command;
            }
            // Without clap's feature `string`, which the program has no use for, names live for ever.
            let words: Vec<&'static str> = words(&command).into_iter().map(|word| &*word.leak()).collect();
            command.mut_arg("words", |arg| {
                arg.hide(false).action(ArgAction::Append).value_parser(PossibleValuesParser::new(words))
            })
        })
    })
}

/// Flags that the help of a BSD command explains, and words that its usage has in small letters.
fn words(command: &Command) -> Vec<String> {
    let usage = command.clone().render_usage().to_string();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let help = help.split("Examples:").next().unwrap_or_default();
    let is_flag = |word: &&str| word.len() > 1 && word.starts_with('-') && !word.starts_with("--");
    let flags = help.lines().filter(|line| line.starts_with("  ")).flat_map(|line| {
        // A flag begins a line or a column, or stands behind another one.
        line.split("  ").flat_map(|part| {
            let words = part.trim().split(", ");
            words.filter_map(|word| word.split([' ', ':', ';']).next()).take_while(is_flag)
        })
    });
    let in_usage = usage.lines().flat_map(|line| {
        let line = line.trim_start_matches("Usage:").trim();
        line.strip_prefix("pantala ")
            .map_or(line, |rest| rest.split_once(' ').map_or("", |(_, rest)| rest))
            .split(' ')
    });
    let trimmed = in_usage.map(|word| word.trim_matches(['[', ']', '.']));
    let small = |word: &&str| {
        word.len() > 1
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let mut words: Vec<String> = flags.chain(trimmed.filter(small)).map(str::to_owned).collect();
    words.sort();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_usage_and_help() {
        let line = pantala::command_line();
        let of = |name: &str| words(line.find_subcommand(name).unwrap());
        assert_eq!(of("arp"), ["-a", "-d", "-i", "-n", "-s", "pub"]);
        assert_eq!(of("intrctl"), ["affinity", "list"]);
        let ipfw = of("ipfw");
        for word in ["-S", "-n", "add", "delete", "enable", "log", "nat64lsn", "pipe", "show", "table"] {
            assert!(ipfw.iter().any(|other| other == word), "{word}: {ipfw:?}");
        }
        assert!(!ipfw.iter().any(|word| word == "ipfw" || word == "pantala"), "{ipfw:?}");
    }
}
