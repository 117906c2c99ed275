//! Properties of any text at all. The fuzz targets check them, and so do the ordinary tests.
#![expect(clippy::missing_panics_doc, reason = "to panic when something does not hold is what they are for")]

use crate::{Command, arbitrary, parse_file, parse_line};

/// A file is read or refused with errors that lie inside it and can be shown. What is read prints as a line that is read
/// as the same, and printed as the same.
pub fn file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match parse_file("rules", &text) {
        Ok(statements) => {
            for statement in statements {
                assert!(statement.line >= 1 && statement.line as usize <= text.lines().count());
                round_trip(&statement.command);
            }
        }
        Err(errors) => {
            assert!((1..=crate::limit::ERRORS_MAX).contains(&errors.len()));
            for error in errors {
                let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
                let line = text.split('\n').nth(error.line as usize - 1).unwrap_or_default();
                assert_eq!(error.text, line.strip_suffix('\r').unwrap_or(line));
                let end = error.column + error.width - 1;
                assert!(error.column >= 1 && error.width >= 1, "{error}");
                assert!(end as usize <= error.text.chars().count() + 1, "{error}");
                assert!(error.to_string().contains('^'));
            }
        }
    }
}

/// Any rule prints as text that is read as that rule. The bytes are where its parts come from.
pub fn rule(data: &[u8]) {
    let mut words = data.chunks(8).map(|chunk| {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(bytes)
    });
    let mut more = arbitrary::numbers(data.len() as u64);
    let rule = arbitrary::rule(&mut || words.next().unwrap_or_else(&mut more));
    round_trip(&Command::Add(rule));
}

fn round_trip(command: &Command) {
    let text = command.to_string();
    match parse_line(&text) {
        Ok(again) => {
            assert_eq!(&again, command, "{text}");
            assert_eq!(again.to_string(), text);
        }
        // a line can become longer by the way it is printed, never by more than a bounded factor
        Err(error) => assert!(text.len() > crate::limit::LINE_MAX, "{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tokens of the language, so that what is thrown together is often nearly right.
    static WORDS: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| {
        let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        let files =
            std::fs::read_dir(golden).unwrap().map(|file| std::fs::read_to_string(file.unwrap().path()));
        let text: String = files.map(Result::unwrap).collect();
        let lines = text.lines().filter_map(|line| line.strip_prefix("> "));
        let mut words: Vec<String> = lines.flat_map(|line| line.split(' ')).map(str::to_owned).collect();
        words.extend(["\\\n", "\n", "#", "//", "{", "}", ",", "\t", "\r\n"].map(str::to_owned));
        words.sort();
        words.dedup();
        words
    });

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_read_of_words_in_any_order_is_printed_and_read_as_the_same(
            picks in proptest::collection::vec(any::<proptest::sample::Index>(), 1..12),
            start in prop_oneof!["", "add ", "add allow ", "add allow tcp from any to any ", "table t ", "pipe 1 config "],
        ) {
            let picked: Vec<&str> = picks.iter().map(|index| index.get(&WORDS).as_str()).collect();
            file(format!("{start}{}", picked.join(" ")).as_bytes());
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,80}", bytes in any::<Vec<u8>>()) {
            file(text.as_bytes());
            file(format!("add allow {text}").as_bytes());
            file(&bytes);
        }

        #[test]
        fn any_rule_is_printed_as_text_that_is_read_as_that_rule(data in any::<[u8; 256]>()) {
            rule(&data);
        }
    }

    #[test]
    fn what_the_fuzzer_begins_with_is_read_or_refused() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/ipfw_file");
        let files: Vec<_> = std::fs::read_dir(corpus).unwrap().collect();
        assert!(files.len() > 100);
        files.into_iter().for_each(|entry| file(&std::fs::read(entry.unwrap().path()).unwrap()));
    }

    #[test]
    fn rules_of_every_kind_of_action_and_match_are_among_the_arbitrary_ones() {
        let mut numbers = arbitrary::numbers(1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..20_000 {
            let rule = arbitrary::rule(&mut numbers);
            let name = |text: String| text.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
            seen.insert(name(format!("{:?}", rule.action)));
            seen.extend(
                rule.body.iter().flat_map(|clause| &clause.any).map(|term| name(format!("{:?}", term.is))),
            );
            round_trip(&Command::Add(rule));
        }
        // no action has the name of a match
        assert_eq!(seen.len(), ACTIONS + MATCHES, "{seen:?}");
    }

    /// Variants of `Action` and of `Match`.
    const ACTIONS: usize = 20;
    const MATCHES: usize = 42;
}
