//! Unsafe code stands in few files; each says why in its first line, and ARCHITECTURE.md lists them all.

use crate::{Source, root, sources};

/// Crates that may have such files at all. The others forbid it to the compiler.
const CRATES: &[&str] = &["crates/pkt/", "crates/dev/", "crates/packetdrill/", "crates/preload/"];
const FIRST_LINE: &str = "//! Unsafe: ";

#[test]
fn a_file_with_unsafe_code_says_why_in_its_first_line() {
    let strangers: Vec<_> = with_unsafe().into_iter().filter(|source| reason(source).is_none()).collect();
    let names: Vec<&str> = strangers.iter().map(|source| &*source.path).collect();
    assert!(names.is_empty(), "no `{FIRST_LINE}…` in the first line of {names:?}");
}

#[test]
fn a_file_that_says_so_has_unsafe_code() {
    let all = sources("crates");
    let idle: Vec<&str> =
        all.iter().filter(|s| reason(s).is_some() && !has_unsafe(&s.text)).map(|s| &*s.path).collect();
    assert!(idle.is_empty(), "needlessly called unsafe: {idle:?}");
}

#[test]
fn only_packet_memory_devices_and_the_boundary_to_c_need_it() {
    for source in with_unsafe() {
        assert!(
            CRATES.iter().any(|allowed| source.path.starts_with(allowed)),
            "unsafe code in {}",
            source.path
        );
    }
}

#[test]
fn other_crates_forbid_it() {
    for name in ["wire", "base", "tcb", "net", "sim", "pantala"] {
        let path = root().join(format!("crates/{name}/src/lib.rs"));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("#![forbid(unsafe_code)]"), "{} does not forbid unsafe code", path.display());
    }
}

#[test]
fn architecture_lists_the_unsafe_files() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let listed: Vec<&str> = text.lines().filter(|line| line.starts_with("| `crates/")).collect();
    let real: Vec<String> = with_unsafe().iter().map(line_of).collect();
    assert!(
        listed == real,
        "the list of unsafe files in ARCHITECTURE.md should be:\n\n{}\n",
        real.join("\n")
    );
}

fn line_of(source: &Source) -> String {
    let why = reason(source).unwrap_or_default().trim_end_matches('.');
    format!("| `{}` | {why} |", source.path)
}

fn with_unsafe() -> Vec<Source> {
    sources("crates").into_iter().filter(|source| has_unsafe(&source.text)).collect()
}

fn reason(source: &Source) -> Option<&str> {
    source.text.lines().next()?.strip_prefix(FIRST_LINE)
}

/// Whether `unsafe` stands anywhere as a keyword: not in a comment, not as a part of a longer word.
fn has_unsafe(text: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.flat_map(|line| line.split(|c| !is_word(c))).any(|word| word == "unsafe")
}
