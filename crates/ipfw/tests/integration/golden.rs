//! Commands and their parsed form: in `tests/golden/*.txt` each line with `>` is a command as a user writes it,
//! and below stands what is printed of it: its canonical form, or what is wrong with it.
//!
//! `IPFW_BLESS=1 cargo test -p ipfw --test integration golden` writes what is printed now into the files.

use core::fmt::Write as _;
use std::path::PathBuf;

#[test]
fn commands_are_read_as_the_golden_files_say() {
    let mut cases = 0;
    let mut wrong = String::new();
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let now = answered(&text);
        cases += text.lines().filter(|line| line.starts_with("> ")).count();
        if std::env::var_os("IPFW_BLESS").is_some() {
            std::fs::write(&path, now).unwrap();
        } else if let Some((line, (was, is))) =
            (1..).zip(text.lines().zip(now.lines())).find(|(_, (a, b))| a != b)
        {
            writeln!(wrong, "{}:{line}:\n  file: {was}\n  now:  {is}", path.display()).unwrap();
        } else if text != now {
            writeln!(wrong, "{}: answers are missing at the end", path.display()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(cases >= 300, "only {cases} commands");
}

/// Each accepted command is printed in a form that parses to the same command and is printed the same again.
#[test]
fn the_canonical_form_of_a_command_is_its_own_canonical_form() {
    for path in files() {
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let Some(Ok(command)) = line.strip_prefix("> ").map(ipfw::parse_line) else { continue };
            let text = command.to_string();
            let again = ipfw::parse_line(&text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(again, command, "{text}");
            assert_eq!(again.to_string(), text);
        }
    }
}

/// The file as it should be: commands and comments as they are, answers as they are now.
fn answered(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines().filter(|line| !line.starts_with([' ', '\t'])) {
        out.push_str(line);
        out.push('\n');
        let Some(command) = line.strip_prefix("> ") else { continue };
        let answer = match ipfw::parse_line(command) {
            Ok(command) => command.to_string(),
            Err(error) => error.to_string(),
        };
        for line in answer.lines() {
            writeln!(out, "  {line}").unwrap();
        }
    }
    out
}

fn files() -> Vec<PathBuf> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}
