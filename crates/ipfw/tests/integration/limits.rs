//! Each bound of the language: as much as may be is read, one more is refused and said so.
use ipfw::{limit, parse_file, parse_line};

/// `text(most)` is read; `text(most + 1)` is refused, with a message or an expectation that names the bound.
fn bound(most: usize, names: &str, text: impl Fn(usize) -> String) {
    let most_text = text(most);
    if let Err(error) = parse_line(&most_text) {
        unreachable!("{error}");
    }
    let error = parse_line(&text(most + 1)).unwrap_err().to_string();
    assert!(error.contains(names), "{error}");
}

fn list(n: usize, item: impl Fn(usize) -> String, between: &str) -> String {
    (0..n).map(item).collect::<Vec<_>>().join(between)
}

#[test]
fn a_command_has_a_bounded_number_of_bytes_on_however_many_lines() {
    bound(limit::LINE_MAX, "65536 bytes", |n| {
        let text = format!("table t delete{}", " 10.0.0.1".repeat(7000));
        format!("{text} {}", list((n - text.len()) / 2, |_| "1".to_owned(), " "))
            + &"1".repeat((n - text.len()) % 2)
    });
    // blanks between words are one
    assert!(parse_line(&format!("delete 1{}2", " ".repeat(limit::LINE_MAX))).is_ok());
    let lines = format!("table t delete \\\n{}", "10.0.0.1 \\\n".repeat(10_000));
    let [error] = parse_file("rules", &lines).unwrap_err().try_into().unwrap();
    assert!(error.message.contains("65536 bytes"), "{error}");
}

#[test]
fn a_file_has_a_bounded_number_of_commands() {
    let most = "flush\n".repeat(limit::COMMANDS_MAX);
    assert_eq!(parse_file("rules", &most).unwrap().len(), limit::COMMANDS_MAX);
    let [error] = parse_file("rules", &format!("{most}flush\n")).unwrap_err().try_into().unwrap();
    assert_eq!(error.line as usize, limit::COMMANDS_MAX + 1);
    assert!(error.message.contains("262144 commands"), "{error}");
}

#[test]
fn names_and_comments_have_bounded_lengths() {
    bound(limit::NAME_MAX, "63 bytes", |n| format!("table {} list", "t".repeat(n)));
    bound(limit::NAME_MAX, "63 bytes", |n| format!("add allow ip from table({}) to any", "t".repeat(n)));
    bound(limit::NAME_MAX, "63 bytes", |n| format!("add allow keep-state :{}", "t".repeat(n)));
    bound(limit::NAME_MAX, "63 bytes", |n| format!("add nptv6 {}", "t".repeat(n)));
    bound(limit::NAME_MAX, "63 bytes", |n| format!("add allow recv {}*", "t".repeat(n - 1)));
    bound(limit::IF_NAME_MAX, "15 bytes", |n| format!("add allow recv {}", "e".repeat(n)));
    bound(limit::COMMENT_MAX, "255 bytes", |n| format!("add allow // {}", "c".repeat(n)));
}

#[test]
fn a_rule_has_a_bounded_number_of_matches_and_alternatives() {
    bound(limit::CLAUSES_MAX, "64 matches", |n| format!("add allow {}", list(n, |_| "in".to_owned(), " ")));
    bound(limit::OR_MAX, "64 alternatives", |n| {
        format!("add allow {{ {} }}", list(n, |_| "in".to_owned(), " or "))
    });
}

#[test]
fn lists_have_a_bounded_number_of_items() {
    bound(limit::LIST_MAX, "30 items", |n| format!("add allow dst-port {}", list(n, |i| i.to_string(), ",")));
    bound(limit::LIST_MAX, "30 items", |n| {
        format!("add allow icmp6types {}", list(n, |i| i.to_string(), ","))
    });
    bound(limit::NETS_MAX, "64 networks", |n| {
        format!("add allow src-ip {}", list(n, |i| format!("10.0.0.{i}"), ","))
    });
    bound(limit::NUMBERS_MAX, "256 rules", |n| format!("delete {}", list(n, |i| (i + 1).to_string(), " ")));
    bound(limit::REDIRECTS_MAX, "256 redirections", |n| {
        format!("nat 1 config if em0 {}", list(n, |_| "redirect_proto gre 10.0.0.1".to_owned(), " "))
    });
    bound(limit::REDIRECTS_MAX, "256 hosts", |n| {
        format!(
            "nat 1 config if em0 redirect_addr {} 1.1.1.1",
            list(n, |i| format!("10.0.0.{}", i % 256), ",")
        )
    });
}

#[test]
fn numbers_are_bounded() {
    bound(65534, "1 to 65534", |n| format!("add {n} allow"));
    bound(31, "0 to 31", |n| format!("add set {n} allow"));
    bound(65534, "1 to 65534", |n| format!("add count tag {n}"));
    bound(65535, "0 to 65535", |n| format!("add allow dst-port {n}"));
    bound(limit::TABLE_LIMIT_MAX as usize, "1 to 16777216", |n| format!("table t create limit {n}"));
    bound(limit::DELAY_MAX_MS as usize, "0 to 60000", |n| format!("pipe 1 config delay {n}"));
    bound(limit::QUEUE_MAX as usize, "1 to 100", |n| format!("pipe 1 config queue {n}"));
    bound(limit::QUEUE_BYTES_MAX as usize, "1024Kbytes", |n| format!("pipe 1 config queue {n}bytes"));
    bound(usize::try_from(limit::BANDWIDTH_MAX).unwrap(), "1000Gbit/s", |n| {
        format!("pipe 1 config bw {n}bit/s")
    });
    bound(usize::try_from(limit::BURST_MAX).unwrap(), "bytes", |n| format!("pipe 1 config burst {n}"));
}
