//! Man pages and shell completions of `pantala`, from the description of its command line that `--help` prints, and from
//! docs/reference/CONFIGURATION.md.
//!
//! A crate of its own, so that the program does not carry it. `cargo xtask man` runs it.
//!
//! | module | what it is |
//! |---|---|
//! | [`commands`] | pantala(8) and a page for each command |
//! | [`markdown`] | pantala.toml(5) |
//! | [`roff`] | the language of man pages |
//! | [`complete`] | completions for bash, zsh and fish |
#![forbid(unsafe_code)]

pub mod commands;
pub mod complete;
pub mod markdown;
pub mod roff;

use std::path::Path;

use anyhow::{Context, Result};

use crate::roff::Page;

/// The reference of the configuration file.
const CONFIGURATION: &str = include_str!("../../../docs/reference/CONFIGURATION.md");

/// A file of the manual: its place below the folder, and its text.
#[derive(Debug, PartialEq, Eq)]
pub struct File {
    /// `man/man8/pantala.8`
    pub path: String,
    /// The text.
    pub text: String,
}

/// Returns the whole manual. `date` stands in the foot of each page: `2026-11-24`, or nothing.
pub fn files(date: &str) -> Vec<File> {
    let mut files = commands::pages(&pantala::command_line(), date);
    files.push(configuration(date));
    files.extend(complete::completions(&pantala::command_line()));
    files
}

/// pantala.toml(5)
fn configuration(date: &str) -> File {
    let mut page = Page::new("pantala.toml", 5, date);
    page.name("pantala.toml", "configuration of pantala");
    page.section("DESCRIPTION");
    markdown::write(&mut page, CONFIGURATION);
    page.section("FILES");
    page.entry("/etc/pantala/pantala.toml", "the configuration that `pantala up` reads without -c");
    page.see_also(&["pantala(8)".to_owned(), "pantala-check(8)".to_owned(), "pantala-up(8)".to_owned()]);
    page.into_file()
}

/// Writes the manual below `folder`.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, date: &str) -> Result<usize> {
    let files = files(date);
    for File { path, text } in &files {
        let path = folder.join(path);
        let folder = path.parent().unwrap_or(&path);
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(files.len())
}

/// Returns the date of a Unix time in UTC, as `2026-11-24`.
pub fn date(seconds: u64) -> String {
    // Days in eras of 400 years that begin on 1 March: the leap day is the last of its year.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let known = [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_795_564_799, "2026-11-24")];
        for (seconds, text) in known {
            assert_eq!(date(seconds), text);
        }
        assert_eq!(date(1_795_564_800), "2026-11-25");
        assert_eq!(date(4_107_542_400), "2100-03-01");
    }

    #[test]
    fn every_command_has_a_man_page_and_pantala_8_names_it() {
        let files = files("2026-11-24");
        let text = |name: &str| &files.iter().find(|file| file.path == name).unwrap().text;
        let overview = text("man/man8/pantala.8");
        for command in pantala::command_line().get_subcommands() {
            let name = command.get_name();
            let page = text(&format!("man/man8/pantala-{name}.8"));
            let about = command.get_about().unwrap().to_string();
            assert!(page.contains(&roff::escaped(&about)), "{name}: {page}");
            assert!(overview.contains(&format!("\\fBpantala\\-{name}\\fR(8)")), "{name}");
        }
    }

    #[test]
    fn a_page_has_every_line_of_the_help_text() {
        let files = files("");
        let squeeze = |text: &str| text.split_whitespace().collect::<String>().replace('`', "");
        for command in pantala::command_line().get_subcommands() {
            let path = format!("man/man8/pantala-{}.8", command.get_name());
            let page = &files.iter().find(|file| file.path == path).unwrap().text;
            let page = squeeze(&roff::plain(page));
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let usage = command.clone().render_usage().to_string();
            for line in help.lines().filter(|line| *line != "Examples:").chain(usage.lines()) {
                let line = squeeze(line.trim_start_matches("Usage: "));
                assert!(page.contains(&line), "{path} lacks: {line}");
            }
        }
    }

    #[test]
    fn man_and_mandoc_find_nothing_to_complain_of() {
        let folder = folder("lint");
        write(&folder, "2026-11-24").unwrap();
        for section in ["man5", "man8"] {
            for page in std::fs::read_dir(folder.join("man").join(section)).unwrap() {
                let page = page.unwrap().path();
                let groff = ["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"];
                complaints(Command::new("man").args(groff).arg(&page), &page);
                complaints(Command::new("mandoc").args(["-Tlint", "-Wwarning"]).arg(&page), &page);
            }
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// Runs a checker of man pages, if it is installed.
    fn complaints(command: &mut Command, page: &Path) {
        let Ok(output) = command.env("MANWIDTH", "80").stdin(Stdio::null()).output() else {
            return eprintln!("SKIPPED: {} is not installed", command.get_program().display());
        };
        let is_lint = command.get_program() == "mandoc";
        let said = if is_lint { output.stdout } else { output.stderr };
        let said = String::from_utf8_lossy(&said);
        assert!(said.is_empty(), "{}: {said}", page.display());
    }

    #[test]
    fn bash_completes_commands_their_options_and_bsd_words() {
        let folder = folder("bash");
        write(&folder, "").unwrap();
        let complete = |line: &[&str]| -> Vec<String> {
            let script = r#"
                source "$1"; shift
                COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
                _pantala pantala "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
                printf '%s\n' "${COMPREPLY[@]}""#;
            let file = folder.join("completions/pantala.bash");
            let output =
                Command::new("bash").args(["--norc", "-c", script, "bash"]).arg(file).args(line).output();
            let output = output.unwrap();
            assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
        };
        assert_eq!(complete(&["pantala", "ipf"]), ["ipfw"]);
        assert_eq!(complete(&["pantala", "up", "--conf"]), ["--config"]);
        assert_eq!(complete(&["pantala", "ipfw", "sho"]), ["show"]);
        assert_eq!(complete(&["pantala", "route", "-inet"]), ["-inet", "-inet6"]);
        let all = complete(&["pantala", ""]);
        for command in pantala::command_line().get_subcommands() {
            assert!(all.iter().any(|word| word == command.get_name()), "{}: {all:?}", command.get_name());
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn zsh_and_fish_can_read_their_completions() {
        let folder = folder("shells");
        write(&folder, "").unwrap();
        for (shell, file) in [("zsh", "_pantala"), ("fish", "pantala.fish")] {
            let output = Command::new(shell).arg("-n").arg(folder.join("completions").join(file)).output();
            let Ok(output) = output else {
                eprintln!("SKIPPED: {shell} is not installed");
                continue;
            };
            assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("pantala-manual-{name}-{}", std::process::id()))
    }
}
