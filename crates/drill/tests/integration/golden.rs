//! Scripts and their parsed form: in `tests/golden/*.txt` lines with `>` are a script as a user writes it, and
//! below stands what is printed of it: its canonical form, or what is wrong with it.
//!
//! `DRILL_BLESS=1 cargo test -p drill --test integration golden` writes what is printed now into the files.
use core::fmt::Write as _;
use std::path::PathBuf;

fn scripts_are_read_as_the_golden_files_say() {
    let (mut cases, mut wrong) = (0, String::new());
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let now = answered(&text);
        cases += scripts(&text).len();
        if std::env::var_os("DRILL_BLESS").is_some() {
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
    assert!(cases >= 200, "only {cases} scripts");
}

/// Each accepted script is printed in a form that parses to the same script and is printed the same again.
fn the_canonical_form_of_a_script_is_its_own_canonical_form() {
    for path in files() {
        for script in scripts(&std::fs::read_to_string(path).unwrap()) {
            let Ok(script) = drill::parse("script", &script, &[drill::STANDARD]) else { continue };
            let text = script.to_string();
            let again = drill::parse("printed", &text, &[]).unwrap_or_else(|errors| panic!("{}", errors[0]));
            assert_eq!(again, script, "{text}");
            assert_eq!(again.to_string(), text);
        }
    }
}

/// The file as it should be: scripts and comments as they are, answers as they are now.
fn answered(text: &str) -> String {
    let mut out = String::new();
    let mut script = String::new();
    let mut lines = text.lines().filter(|line| !line.starts_with(' ')).peekable();
    while let Some(line) = lines.next() {
        writeln!(out, "{line}").unwrap();
        let Some(part) = line.strip_prefix("> ") else { continue };
        writeln!(script, "{part}").unwrap();
        if lines.peek().is_some_and(|next| next.starts_with("> ")) {
            continue;
        }
        let answer = match drill::parse("", &script, &[drill::STANDARD]) {
            Ok(script) => script.to_string(),
            Err(errors) => errors.iter().map(|error| format!("{error}\n")).collect(),
        };
        answer.lines().for_each(|line| writeln!(out, "  {line}").unwrap());
        script.clear();
    }
    out
}

/// The scripts of a file: lines with `>` that nothing separates.
fn scripts(text: &str) -> Vec<String> {
    let mut scripts = vec![String::new()];
    for line in text.lines() {
        match (line.strip_prefix("> "), scripts.last_mut()) {
            (Some(part), Some(script)) => writeln!(script, "{part}").unwrap(),
            (None, Some(script)) if !script.is_empty() => scripts.push(String::new()),
            _ => {}
        }
    }
    scripts.retain(|script| !script.is_empty());
    scripts
}

fn files() -> Vec<PathBuf> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

harness::tests![
    scripts_are_read_as_the_golden_files_say,
    the_canonical_form_of_a_script_is_its_own_canonical_form
];
