//! Texts in ipfw's language: here, and nowhere else in this crate, commands that change the firewall are parsed.
//!
//! The configuration's `rules` and `rules_text` pass here when they are read, the commands of the admin API when they
//! arrive, and a file of `pantala ipfw` when it is only checked (`-n`). From here on a rule is a value.

use ipfw::Statement;
use ipfw::limit::ERRORS_MAX;

use super::config::listing_refused;

/// Returns the commands of a text, or its mistakes: those of the language, and commands that change nothing.
///
/// `name` is the text's name in errors; it is empty for the words of a command line, which are one command.
pub(crate) fn parse(name: &str, text: &str) -> Result<Vec<Statement>, Vec<ipfw::Error>> {
    if name.is_empty() {
        let command = ipfw::parse_line(text).map_err(|error| vec![*error])?;
        return Ok(vec![Statement { line: 1, command }]);
    }
    let statements = ipfw::parse_file(name, text)?;
    let looking = statements.iter().filter(|statement| statement.command.only_lists());
    let mistakes: Vec<_> =
        looking.take(ERRORS_MAX).map(|statement| listing_refused().at(name, text, statement.line)).collect();
    if mistakes.is_empty() { Ok(statements) } else { Err(mistakes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mistakes_of_a_text_are_reported_with_line_and_column() {
        let mistakes = |text: &str| {
            let mistakes = parse("rules", text).unwrap_err();
            mistakes.iter().map(|mistake| (mistake.line, mistake.column)).collect::<Vec<_>>()
        };
        assert_eq!(mistakes("add alow ip from any to any\n\n  add 7 deny\nfoo\n"), [(1, 5), (4, 1)]);
        assert_eq!(mistakes("add allow ip from any to any\n  list\nset show\n"), [(2, 3), (3, 1)]);
    }

    #[test]
    fn a_text_without_a_name_is_one_command() {
        assert_eq!(parse("", "add allow ip from any to any").unwrap().len(), 1);
        assert!(parse("", "add allow ip from any to any\nadd deny ip from any to any").is_err());
    }
}
