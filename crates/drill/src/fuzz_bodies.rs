//! Properties of any text at all. The fuzz target checks them, and so do the ordinary tests.
#![expect(clippy::missing_panics_doc, reason = "to panic when something does not hold is what they are for")]

use crate::limit::{ERRORS_MAX, SCRIPT_MAX};
use crate::script::Script;
use crate::{Error, STANDARD, parse};

/// A script is read or refused with errors that lie inside it and can be shown. What is read prints as text that is read
/// as the same script and printed as the same text.
pub fn script(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match parse("script", &text, &[STANDARD]) {
        Ok(script) => round_trip(&script),
        Err(errors) => {
            assert!((1..=ERRORS_MAX).contains(&errors.len()));
            errors.iter().for_each(|error| lies_inside(error, &text));
        }
    }
}

/// It prints as text that is read as the same.
pub(crate) fn round_trip(script: &Script) {
    let text = script.to_string();
    match parse("printed", &text, &[]) {
        Ok(again) => {
            assert_eq!(&again, script, "{text}");
            assert_eq!(again.to_string(), text);
        }
        // a text can become longer by the way it is printed
        Err(errors) => assert!(text.len() > SCRIPT_MAX, "{text}\n{}", errors[0]),
    }
}

fn lies_inside(error: &Error, text: &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let line = text.split('\n').nth(error.line as usize - 1).unwrap_or_default();
    assert_eq!(error.text, line.strip_suffix('\r').unwrap_or(line));
    let end = error.column + error.width - 1;
    assert!(error.column >= 1 && error.width >= 1, "{error}");
    assert!(end as usize <= error.text.chars().count() + 1, "{error}");
    assert!(error.to_string().contains('^'));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;

    /// The scripts of the golden files and of the corpus.
    fn scripts() -> Vec<String> {
        let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let files = |folder: &str| {
            let files = std::fs::read_dir(tests.join(folder)).unwrap();
            files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect::<Vec<_>>()
        };
        let golden = files("golden").into_iter().flat_map(|text| {
            let lines: Vec<String> = text
                .lines()
                .filter_map(|line| line.strip_prefix("> ").filter(|line| !line.is_empty()))
                .map(str::to_owned)
                .collect();
            lines
        });
        golden.chain(files("corpus")).filter(|script| !script.is_empty()).collect()
    }

    /// Tokens and signs of the language, so that what is thrown together is often nearly right.
    static WORDS: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let mut words: Vec<String> = scripts()
            .iter()
            .flat_map(|script| script.split_inclusive(|c| !is_word(c)).map(str::to_owned).collect::<Vec<_>>())
            .flat_map(|word| {
                let sign: String = word.chars().filter(|c| !is_word(*c)).collect();
                [word.trim_end_matches(|c| !is_word(c)).to_owned(), sign]
            })
            .chain(
                ["\n#ifdef A\n", "\n#endif\n", "%{ assert ", " }%", "/*", "*/", "//", "\r\n", "..."]
                    .map(str::to_owned),
            )
            .collect();
        words.sort();
        words.dedup();
        words
    });

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_read_of_words_in_any_order_is_printed_and_read_as_the_same(
            picks in proptest::collection::vec(any::<proptest::sample::Index>(), 1..16),
            start in select(vec!["", "+0 ", "+0 > ", "+0 > S 0:0(0) <", "+0 read(", "0 %{ assert ", "--"]),
            end in select(vec!["", ") = 0\n", ">\n", " }%\n"]),
            gap in select(vec!["", " "]),
        ) {
            let picked: Vec<&str> = picks.iter().map(|index| index.get(&WORDS).as_str()).collect();
            script(format!("{start}{}{end}", picked.join(gap)).as_bytes());
        }

        #[test]
        fn a_script_with_a_piece_of_another_in_it_is_read_or_refused(
            pair in any::<[proptest::sample::Index; 2]>(),
            cuts in any::<[proptest::sample::Index; 3]>(),
        ) {
            let scripts = scripts();
            let [into, piece] = pair.map(|index| index.get(&scripts).as_bytes());
            let [at, from, to] = [cuts[0].index(into.len()), cuts[1].index(piece.len()), cuts[2].index(piece.len())];
            let piece = &piece[from.min(to)..from.max(to)];
            script(&[&into[..at], piece, &into[at..]].concat());
            script(&[&into[..at], &into[(at + piece.len()).min(into.len())..]].concat());
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,80}", bytes in any::<Vec<u8>>()) {
            script(text.as_bytes());
            script(format!("+0 > {text}").as_bytes());
            script(&bytes);
        }
    }

    #[test]
    fn what_the_fuzzer_begins_with_is_read_or_refused() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/drill_script");
        let files: Vec<_> = std::fs::read_dir(corpus).unwrap().collect();
        assert!(files.len() > 100);
        files.into_iter().for_each(|entry| script(&std::fs::read(entry.unwrap().path()).unwrap()));
    }
}
