//! Each bound of the language: as much as may be is read, one more is refused and said so.
use drill::limit;

/// `text(most)` is read; `text(most + 1)` is refused, with a message or an expectation that names the bound.
fn bound(most: usize, names: &str, text: impl Fn(usize) -> String) {
    if let Err(errors) = drill::parse("most", &text(most), &[]) {
        unreachable!("{}", errors[0]);
    }
    let errors = drill::parse("more", &text(most + 1), &[]).unwrap_err();
    let error = errors[0].to_string();
    assert!(error.contains(names), "{error}");
}

fn list(n: usize, item: &str, between: &str) -> String {
    vec![item; n].join(between)
}

fn a_script_has_a_bounded_number_of_bytes() {
    bound(limit::SCRIPT_MAX, "1048576 bytes", |n| {
        let event = "0 close(3) = 0";
        format!("{event}{}", list(n - event.len(), " ", ""))
    });
}

fn a_script_has_a_bounded_number_of_events_and_options() {
    bound(limit::EVENTS_MAX, "32768 events", |n| list(n, "0 `x`", "\n"));
    bound(limit::OPTIONS_MAX, "64 options", |n| format!("{}\n0 `x`", list(n, "--mtu=1500", "\n")));
}

fn all_errors_of_a_script_are_told_up_to_a_bound() {
    let errors = drill::parse("x", &list(1000, "+0 clos(3) = 0", "\n"), &[]).unwrap_err();
    assert_eq!(errors.len(), limit::ERRORS_MAX);
    assert!(errors.iter().zip(1..).all(|(error, line)| error.line == line && error.column == 4));
}

fn brackets_lie_within_each_other_to_a_bounded_depth() {
    // an argument is one level, each bracket another
    bound(limit::DEPTH_MAX - 1, "16 brackets", |n| {
        format!("0 read({}1{}) = 0", list(n, "[", ""), list(n, "]", ""))
    });
    bound(limit::DEPTH_MAX - 1, "16 brackets", |n| {
        format!("0 %{{ assert {}1{} }}%", list(n, "(", ""), list(n, ")", ""))
    });
    bound(limit::DEPTH_MAX - 1, "16 brackets", |n| format!("0 %{{ assert {}1 }}%", list(n, "-", "")));
    bound(limit::DEPTH_MAX - 1, "16 brackets", |n| format!("0 %{{ assert {} 1 }}%", list(n, "not", " ")));
    bound(limit::DEPTH_MAX, "16 operators", |n| format!("0 %{{ assert {} }}%", list(n, "1", "+")));
    bound(limit::DEPTH_MAX, "16 branches", |n| {
        format!("{}\n0 `x`\n{}", list(n, "#ifndef X", "\n"), list(n, "#endif", "\n"))
    });
}

fn lists_have_a_bounded_number_of_items() {
    bound(limit::LIST_MAX, "1024 items", |n| format!("0 read({}) = 0", list(n, "1", ",")));
    bound(limit::LIST_MAX, "1024 items", |n| format!("0 read([{}]) = 0", list(n, "1", ",")));
    bound(limit::LIST_MAX, "1024 items", |n| format!("0 read({}) = 0", list(n, "1", "|")));
    bound(limit::LIST_MAX, "1024 statements", |n| format!("0 %{{ {} }}%", list(n, "assert 1", ";")));
    bound(limit::LIST_MAX, "1024 terms", |n| format!("0 %{{ assert {} }}%", list(n, "1", " and ")));
    bound(limit::LIST_MAX, "1024 terms", |n| format!("0 %{{ assert min({}) }}%", list(n, "1", ",")));
}

fn names_notes_and_options_of_tcp_have_bounded_lengths() {
    bound(limit::NAME_MAX, "255 bytes", |n| {
        let name = list(n, "A", "");
        format!("--define={name}=1\n0 read({name}) = 0")
    });
    bound(limit::NAME_MAX, "255 bytes", |n| format!("0 close(3) = 0 ({})", list(n, "a", "")));
    bound(limit::TCP_OPTIONS_MAX / 4, "40 bytes", |n| format!("0 > S 0:0(0) <{}>", list(n, "mss 1", ",")));
}

fn times_are_bounded() {
    bound(usize::try_from(limit::SECONDS_MAX).unwrap(), "4294967296 seconds", |n| format!("{n} `x`"));
}

fn a_script_on_one_long_line_is_read_in_time_that_grows_with_its_length() {
    // columns are counted from left to right once, not anew for each word; counted anew, this takes minutes
    let script = list(limit::EVENTS_MAX, "+0 close(3) = 0", " ");
    assert_eq!(drill::parse("x", &script, &[]).unwrap().events.len(), limit::EVENTS_MAX);
}

harness::tests![
    a_script_has_a_bounded_number_of_bytes,
    a_script_has_a_bounded_number_of_events_and_options,
    all_errors_of_a_script_are_told_up_to_a_bound,
    brackets_lie_within_each_other_to_a_bounded_depth,
    lists_have_a_bounded_number_of_items,
    names_notes_and_options_of_tcp_have_bounded_lengths,
    times_are_bounded,
    a_script_on_one_long_line_is_read_in_time_that_grows_with_its_length
];
