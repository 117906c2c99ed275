use super::*;

fn read(line: &str) -> Result<Ipfw, Failure> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Ipfw::read(&words)
}

fn what(line: &str) -> Invocation {
    read(line).unwrap().what
}

#[test]
fn letters_stand_before_the_command_and_mean_what_ipfw_says() {
    let options = read("-adeS -t list").unwrap().options;
    assert_eq!((options.states, options.expired), (States::Too, true));
    let last_match = Some(Clock::Words);
    let columns = Columns { counters: true, last_match, sets: true, ..Columns::default() };
    assert_eq!(options.columns, columns);
    assert_eq!(read("-dD list").unwrap().options.states, States::Only);
    assert_eq!(read("-tT list").unwrap().options.columns.last_match, Some(Clock::Seconds));
    assert!(read("-qf flush").unwrap().options.force);
    let options = read("-civ list").unwrap().options;
    assert!(options.columns.compact && options.columns.cpus && options.addresses);
}

#[test]
fn a_word_with_a_slash_or_a_dot_is_a_file() {
    for name in ["/etc/ipfw.rules", "./rules", "rules.ipfw", "-"] {
        assert_eq!(what(&format!("-n {name}")), Invocation::File(name.into()));
    }
    assert!(
        matches!(what("sh"), Invocation::Command(command, _) if matches!(*command, Command::List { counters: true, .. }))
    );
}

#[test]
fn a_command_that_a_shell_gives_as_one_word_is_no_file() {
    let read = |word: &str| Ipfw::read(&[word.to_owned()]);
    for command in ["add deny ip from 10.0.0.0/8 to any", "add 5 allow tcp from any to any // web"] {
        assert!(read(command).unwrap().what == Invocation::Rule(command.to_owned()), "{command}");
    }
    assert_eq!(read("/my rules/ipfw").unwrap().what, Invocation::File("/my rules/ipfw".into()));
}

#[test]
fn a_line_that_is_not_understood_shows_where() {
    let Err(Failure::Misconfigured(text)) = read("-n add 100 alow ip from any to any") else { panic!() };
    assert!(text.contains("did you mean `allow`?") && text.contains("^^^^"), "{text}");
}

#[test]
fn a_rule_is_parsed_by_the_running_stack_alone() {
    assert_eq!(what("-q add 100 alow ip"), Invocation::Rule("add 100 alow ip".to_owned()));
}

#[test]
fn what_is_left_out_is_named_with_what_to_do() {
    for (line, says) in [
        ("-p m4 rules", "m4 rules | pantala ipfw -"),
        ("-s 3 list", "--json"),
        ("-N list", "name servers"),
        ("-z list", "no flag -z"),
    ] {
        let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
        assert!(text.contains(says), "{text}");
    }
}

#[test]
fn lines_of_the_help_are_no_longer_than_it_is_wrapped_to() {
    let longest = HELP.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(longest.chars().count() <= 100, "{longest}");
}

#[test]
fn the_log_is_followed_and_written() {
    assert!(matches!(what("log"), Invocation::Log(_)));
    assert!(read("log -f -w x.pcapng").is_ok());
    assert!(matches!(read("log -x"), Err(Failure::Usage(_))));
}
