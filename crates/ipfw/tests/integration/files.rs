//! Files of commands: what belongs to one, and where in it an error is.
use ipfw::{Command, Error, READER, parse_args, parse_file};

fn commands(text: &str) -> Vec<(u32, String)> {
    let statements = parse_file("rules", text).unwrap();
    statements.into_iter().map(|statement| (statement.line, statement.command.to_string())).collect()
}

fn errors(text: &str) -> Vec<Error> {
    parse_file("rules", text).unwrap_err()
}

#[test]
fn comments_and_blank_lines_are_no_commands() {
    let text = "# a comment, with a backslash \\\n\n   \t\n// another one\n  # and\r\nadd 1 allow // mine\nadd 2 deny#no\n";
    let expected = [(6, "add 00001 allow // mine".to_owned()), (7, "add 00002 deny".to_owned())];
    assert_eq!(commands(text), expected);
}

#[test]
fn the_last_line_needs_no_end_and_ends_may_be_those_of_other_systems() {
    assert_eq!(commands("add 1 allow\r\nadd 2 allow").len(), 2);
    assert_eq!(commands(""), []);
}

#[test]
fn a_backslash_at_the_end_of_a_line_continues_it_on_the_next_one() {
    let text = "add 1 allow tcp \\\n  from any \\  \n\tto me 80,\\\n  443 setup\nadd 2 deny \\";
    let expected =
        [(1, "add 00001 allow tcp from any to me 80,443 setup".to_owned()), (5, "add 00002 deny".to_owned())];
    assert_eq!(commands(text), expected);
}

#[test]
fn a_backslash_in_a_comment_continues_nothing() {
    let text = "add 1 allow // a\\\nadd 2 allow # b\\\nadd 3 allow\n";
    assert_eq!(commands(text).len(), 3);
}

#[test]
fn an_error_in_a_continued_line_is_told_where_it_stands() {
    let text = "# rules\nadd 1 allow tcp \\\n\tfrom any to mee 80 \\\n  setup\nadd 2 alow\n";
    let [first, second] = errors(text).try_into().unwrap();
    assert_eq!((first.line, first.column, first.width), (3, 14, 3));
    assert_eq!(
        first.to_string(),
        "rules:3:14: `mee` is no address\n    \tfrom any to mee 80 \\\n    \t            ^^^\nexpected: any, me, me6, \
         an address, a network, table(NAME) or [INTERFACE]\nhelp: did you mean `me`?"
    );
    assert_eq!((second.line, second.column, second.width), (5, 7, 4));
}

#[test]
fn a_line_that_ends_too_early_is_pointed_at_behind_its_last_character() {
    let [error] = errors("add 1 allow tcp \\\n  from any  # to whom?\n").try_into().unwrap();
    assert_eq!((error.line, error.column, error.width), (2, 11, 1));
}

#[test]
fn columns_count_characters_and_what_spans_lines_is_shown_on_its_first() {
    let [error] = errors("add 1 allow ip from any to any frög, \\\n  zwei\n").try_into().unwrap();
    assert_eq!((error.line, error.column, error.width), (1, 32, 4));
    let [error] = errors("flush ä b \\\nc\n").try_into().unwrap();
    assert_eq!((error.line, error.column, error.width), (1, 7, 4));
}

#[test]
fn a_long_line_is_shown_around_what_is_wrong() {
    let [error] =
        errors(&format!("add 1 allow ip from {}me to any", "10.0.0.1,".repeat(30))).try_into().unwrap();
    let shown = error.to_string();
    let (text, caret) = (shown.lines().nth(1).unwrap(), shown.lines().nth(2).unwrap());
    assert!(text.chars().count() < 140, "{text}");
    let at = caret.find('^').unwrap();
    assert_eq!(text.chars().skip(at).take(2).collect::<String>(), "me", "{shown}");
}

#[test]
fn all_that_is_wrong_is_told_up_to_a_bound() {
    let two = errors("add 1 allow\nadd 2 alow\nadd 3 allow\nadd 4 dney\n");
    assert_eq!(two.iter().map(|error| error.line).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(errors(&"add alow\n".repeat(1000)).len(), ipfw::limit::ERRORS_MAX);
}

#[test]
fn a_control_character_and_what_only_lists_like_a_blank_are_refused_with_their_place() {
    for text in ["\u{0}\n", "\u{7f}\n", "\u{1b}[0m // x\n", "\r in\n", "\u{a0}in\n", "// \u{2028}\n"] {
        let [error] = errors(&format!("add 1 allow {text}")).try_into().unwrap();
        assert!(error.message.starts_with("U+"), "{error}");
        assert_eq!(error.column, if text.starts_with('/') { 16 } else { 13 });
    }
}

#[test]
fn a_mark_of_the_order_of_bytes_is_no_part_of_the_first_command() {
    assert_eq!(commands("\u{feff}flush\n"), [(1, "flush".to_owned())]);
    let [error] = errors("\u{feff}flsh\n").try_into().unwrap();
    assert_eq!((error.column, error.text.as_str()), (1, "flsh"));
    assert_eq!(Error::of_line(READER, "rules", "\u{feff}flush\n", 1, "no").text, "flush");
}

#[test]
fn words_of_a_command_line_are_one_command() {
    let rule = "add 00100 allow tcp from any to me 80 setup";
    for words in [
        &["add", "100", "allow", "tcp", "from", "any", "to", "me", "80", "setup"][..],
        &[rule],
        &["ipfw", rule],
    ] {
        assert_eq!(parse_args(words).unwrap().to_string(), rule);
    }
    // a shell has taken the blanks apart as it liked
    assert_eq!(
        parse_args(&["add", "100", "allow tcp", "from any\nto me", "80", "setup"]).unwrap().to_string(),
        rule
    );
}

#[test]
fn a_command_line_without_a_command_says_what_could_stand_there() {
    let error = parse_args::<&str>(&[]).unwrap_err();
    assert!(error.expected.as_ref().unwrap().contains("add"), "{error}");
    assert!(parse_args(&["-q"]).is_err());
    assert!(ipfw::parse_line("flush\nflush").is_err());
}

#[test]
fn a_rule_shows_its_set_when_it_is_not_the_first_or_when_it_is_asked() {
    let rule = |text: &str| match ipfw::parse_line(text).unwrap() {
        Command::Add(rule) => rule,
        other => unreachable!("{other}"),
    };
    assert_eq!(rule("add 5 allow").to_string(), "00005 allow");
    assert_eq!(format!("{:#}", rule("add 5 allow")), "00005 set 0 allow");
    assert_eq!(rule("add 5 set 3 allow").to_string(), "00005 set 3 allow");
}

#[test]
fn what_only_a_running_stack_finds_wrong_is_shown_with_the_whole_line() {
    let error =
        Error::of_line(READER, "rules", "flush\n  add 1 skipto 5 // x\n", 2, "there is no rule 5 or above");
    let expected =
        "rules:2:3: there is no rule 5 or above\n      add 1 skipto 5 // x\n      ^^^^^^^^^^^^^^^^^^^";
    assert_eq!(error.to_string(), expected);
}
