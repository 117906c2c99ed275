//! The words of comments and documents, which only get plainer: docs/design/GLOSSARY.md and the rules in CONTRIBUTING.md.

use crate::links::documents;
use crate::{Source, sources};

/// Words that no doc comment begins with: its first word is a verb or a noun of the field.
const HEADS: &[&str] = &["What", "Who", "Whose", "How", "Of", "The same", "Those", "As many", "So many"];
/// Words for people, which hosts, processes and packets are not.
const PEOPLE: &[&str] = &["who", "whom", "whoever", "nobody", "somebody"];
/// Private words that the code once had for dropped packets and for any reader or sender, which may not come back.
const RETIRED: &[&str] = &["grave", "graves", "gravedigger", "bury", "buries", "buried", "anybody"];

/// Doc comments in a thousand that may begin with one of [`HEADS`]. Lower it when fewer do.
const HEADS_MAX: usize = 2;
/// Words of comments in ten thousand that may be one of [`PEOPLE`]. Lower it when fewer are.
const PEOPLE_MAX: usize = 2;
/// As [`PEOPLE_MAX`], of documents.
const PEOPLE_IN_DOCUMENTS_MAX: usize = 2;
/// Comments and documents together may have so many of [`RETIRED`]. Lower it when fewer are left.
const RETIRED_MAX: usize = 2;
/// Names of files that do not tell their content: each was one of ours, and has the field's word now.
const RETIRED_FILES: &[&str] =
    &["door", "desk", "wall", "walls", "seats", "people", "look", "looks", "unasked", "crook", "siege"];

/// Counts of comments, or of their words: how many there are, and where those stand that should not.
struct Tally {
    all: usize,
    found: Vec<String>,
}

#[test]
fn doc_comments_begin_with_a_verb_or_a_noun() {
    let tally = tally(first_sentences, |text| HEADS.iter().any(|head| begins_with(text, head)));
    assert_share(&tally, HEADS_MAX, 1000, "doc comments begin with What, Who, How, Of, …");
}

#[test]
fn things_are_not_people() {
    let tally = tally(words, |word| PEOPLE.contains(&word.to_lowercase().as_str()));
    assert_share(&tally, PEOPLE_MAX, 10_000, "words of comments are who, nobody, somebody, …");
}

#[test]
fn things_are_not_people_in_documents() {
    let mut tally = Tally { all: 0, found: Vec::new() };
    for path in documents() {
        let text = std::fs::read_to_string(&path).unwrap();
        for (line, word) in prose(&text) {
            tally.all += 1;
            if PEOPLE.contains(&word.to_lowercase().as_str()) {
                tally.found.push(format!("{}:{line}: {word}", path.display()));
            }
        }
    }
    assert_share(&tally, PEOPLE_IN_DOCUMENTS_MAX, 10_000, "words of documents are who, nobody, somebody, …");
}

#[test]
fn retired_words_do_not_come_back() {
    let mut found = tally(words, |word| RETIRED.contains(&word)).found;
    for path in documents().into_iter().filter(|path| !path.ends_with("CHANGELOG.md")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let bad =
            prose(&text).into_iter().filter(|(_, word)| RETIRED.contains(&word.to_lowercase().as_str()));
        found.extend(bad.map(|(line, word)| format!("{}:{line}: {word}", path.display())));
    }
    assert!(found.len() <= RETIRED_MAX, "retired words are back:\n  {}", found.join("\n  "));
}

#[test]
fn files_have_names_of_the_field() {
    let sources = ["crates", "bench", "xtask"].into_iter().flat_map(sources);
    let stem = |path: &str| path.rsplit('/').next().unwrap_or(path).trim_end_matches(".rs").to_owned();
    let found: Vec<_> = sources
        .map(|source| source.path)
        .filter(|path| RETIRED_FILES.contains(&stem(path).as_str()))
        .collect();
    assert!(found.is_empty(), "retired names of files: {found:?}");
}

#[test]
fn types_are_not_named_by_pronouns() {
    const PRONOUNS: [&str; 4] = ["What", "How", "Who", "Whose"];
    let mut found = Vec::new();
    for source in ["crates", "bench", "xtask"].into_iter().flat_map(sources) {
        for (number, line) in source.text.lines().enumerate() {
            let mut words =
                line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
            let is_type = words.any(|word| ["struct", "enum", "trait", "type"].contains(&word));
            if is_type && words.next().is_some_and(|name| PRONOUNS.contains(&name)) {
                found.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "types named by pronouns: {found:#?}");
}

fn assert_share(tally: &Tally, most: usize, of: usize, says: &str) {
    let Tally { all, found } = tally;
    assert!(
        found.len() * of <= most * all,
        "{} of {all} {says}, more than {most} in {of}; for example\n  {}",
        found.len(),
        found.iter().take(20).cloned().collect::<Vec<_>>().join("\n  ")
    );
}

/// Counts what `parts` finds in the comments of all our files, and notes the `bad` ones.
fn tally(parts: impl Fn(&Source) -> Vec<(usize, String)>, bad: impl Fn(&str) -> bool) -> Tally {
    let mut tally = Tally { all: 0, found: Vec::new() };
    for source in ["crates", "bench", "xtask"].into_iter().flat_map(sources) {
        for (line, text) in parts(&source) {
            tally.all += 1;
            if bad(&text) {
                tally.found.push(format!("{}:{line}: {text}", source.path));
            }
        }
    }
    tally
}

/// First lines of doc comments, with their line numbers.
fn first_sentences(source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (number, line) in (1..).zip(source.text.lines()) {
        let line = line.trim_start();
        let text = ["/// ", "//! "].iter().find_map(|mark| line.strip_prefix(mark));
        if let (Some(text), false) = (text, inside) {
            found.push((number, text.to_owned()));
        }
        inside = line.starts_with("///") || line.starts_with("//!");
    }
    found
}

/// Words of whole-line comments, with their line numbers.
fn words(source: &Source) -> Vec<(usize, String)> {
    let comments = (1..).zip(source.text.lines()).filter(|(_, line)| line.trim_start().starts_with("//"));
    comments
        .flat_map(|(number, line)| {
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '\'');
            words
                .filter(|word| !word.is_empty())
                .map(move |word| (number, word.to_owned()))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Words of a document with their line numbers, without blocks and names of code.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        is_code ^= line.starts_with("```");
        if !is_code {
            let parts = line.split('`').step_by(2);
            let words = parts.flat_map(|part| part.split(|c: char| !c.is_alphanumeric() && c != '\''));
            found.extend(words.filter(|word| !word.is_empty()).map(|word| (number, word)));
        }
    }
    found
}

fn begins_with(text: &str, head: &str) -> bool {
    text.strip_prefix(head).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
}
