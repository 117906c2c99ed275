//! Facts about style that only tighten.

use crate::sources;

/// Lines at which a file wants a second look.
const LINES_MAX: usize = 600;

/// Files that had the second look and stay long, with the reason.
const LONG: &[(&str, &str)] = &[];

#[test]
fn files_are_short_enough_to_be_read() {
    for source in ["crates", "bench", "xtask"].into_iter().flat_map(sources) {
        let lines = source.text.lines().count();
        let excused = LONG.iter().any(|(path, _)| *path == source.path);
        assert!(
            lines <= LINES_MAX || excused,
            "{} has {lines} lines: split it, or say in LONG why not",
            source.path
        );
    }
}

#[test]
fn long_files_on_the_list_are_still_long() {
    let sources = sources("crates");
    for (path, reason) in LONG {
        let found = sources.iter().find(|source| source.path == *path);
        let lines = found.map_or(0, |source| source.text.lines().count());
        assert!(lines > LINES_MAX, "{path} need not be excused any more ({reason})");
    }
}

#[test]
fn nothing_is_left_for_later_in_a_comment() {
    // Spelled in halves, or this file would find itself.
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
    for source in ["crates", "bench", "xtask"].into_iter().flat_map(sources) {
        let found = source.text.lines().position(|line| marks.iter().any(|mark| line.contains(mark)));
        assert!(
            found.is_none(),
            "{}:{}: an issue is a better place",
            source.path,
            found.unwrap_or_default() + 1
        );
    }
}
