//! Words of ipfw(8) that pantala refuses: by name, with the reason, and as documented.

use core::fmt::Write as _;

use ipfw::refused::{Place, REFUSED};

#[test]
fn what_is_refused_is_refused_by_name_with_the_reason_and_what_to_write_instead() {
    for refused in REFUSED {
        let word = refused.word;
        let text = match refused.place {
            Place::Flag => format!("ipfw -{word} cpp add allow"),
            Place::Command => format!("{word} 1 show"),
            Place::Action => format!("add {word} 1 ip from any to any"),
            Place::Parameter => format!("add allow {word} 1 ip from any to any"),
            Place::Option => format!("add allow tcp from any to any {word} 1"),
            Place::Switch => format!("enable {word}"),
            Place::Table => format!("table t create {word} x"),
            Place::TableCommand => format!("table t {word} x"),
            Place::Key => format!("add allow lookup {word} t"),
            Place::Parameters => parameters(word),
            Place::Scheduler => format!("pipe 1 config type {word}"),
        };
        let error = ipfw::parse_line(&text).unwrap_err();
        let pointed: String =
            text.chars().skip(error.column as usize - 1).take(error.width as usize).collect();
        assert_eq!(pointed, word, "{error}");
        assert_eq!(error.message, format!("`{word}` {}", refused.why));
        assert_eq!(error.help.as_deref(), Some(refused.instead));
    }
}

fn parameters(word: &str) -> String {
    match word {
        "skip_global" | "udp_eim" => format!("nat 1 config if em0 {word}"),
        _ => format!("pipe 1 config {word} x"),
    }
}

#[test]
fn a_refused_word_stands_once_at_its_place() {
    let mut places: Vec<_> =
        REFUSED.iter().map(|refused| (format!("{:?}", refused.place), refused.word)).collect();
    let all = places.len();
    places.sort();
    places.dedup();
    assert_eq!(places.len(), all);
}

/// `IPFW_BLESS=1` writes the table into the page.
#[test]
fn the_documentation_lists_what_is_refused() {
    const BEGIN: &str = "<!-- refused: begin -->\n";
    const END: &str = "<!-- refused: end -->\n";
    let mut table = "\n| word | where | what it is elsewhere | here |\n|---|---|---|---|\n".to_owned();
    for refused in REFUSED {
        let (word, place) = (refused.word, place(refused.place));
        let flag = if refused.place == Place::Flag { "-" } else { "" };
        writeln!(table, "| `{flag}{word}` | {place} | {} | {} |", refused.why, refused.instead).unwrap();
    }
    table.push('\n');
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/IPFW.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (listed, after) = rest.split_once(END).unwrap();
    if std::env::var_os("IPFW_BLESS").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert_eq!(listed, table);
    }
}

fn place(place: Place) -> &'static str {
    match place {
        Place::Flag => "flag",
        Place::Command => "command",
        Place::Action => "action",
        Place::Parameter => "behind the action",
        Place::Option => "match",
        Place::Switch => "`enable`, `disable`",
        Place::Table => "`table NAME create`",
        Place::TableCommand => "`table NAME`",
        Place::Key => "`lookup`",
        Place::Parameters => "parameter",
        Place::Scheduler => "`type`",
    }
}

#[test]
fn the_examples_of_the_documentation_can_be_read() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/IPFW.md");
    let page = std::fs::read_to_string(path).unwrap();
    let mut blocks = 0;
    for (i, block) in page.split("```").enumerate().filter(|(i, _)| i % 2 == 1) {
        let Some(rules) = block.strip_prefix("ipfw\n") else { continue };
        if let Err(errors) = ipfw::parse_file("docs/reference/IPFW.md", rules) {
            unreachable!("block {i}: {}", errors[0]);
        }
        blocks += 1;
    }
    assert!(blocks >= 3);
}
