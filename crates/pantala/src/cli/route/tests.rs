use super::*;

fn read(line: &str) -> Result<Route, Failure> {
    Route::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

fn add(to: &str, via: &[&str]) -> Route {
    Route::Edit(RouteEdit::Add(RouteRequest {
        fib: 0,
        to: to.parse().unwrap(),
        via: via.iter().map(|gateway| gateway.parse().unwrap()).collect(),
        dev: None,
        reject: false,
        blackhole: false,
        metrics: RouteMetrics::default(),
    }))
}

#[test]
fn bsd_lines_are_understood() {
    let delete = |to: &str, via: Option<&str>| {
        Route::Edit(RouteEdit::Delete {
            fib: 0,
            to: to.parse().unwrap(),
            via: via.map(|via| via.parse().unwrap()),
        })
    };
    for (line, means) in [
        ("", Route::Show(None, 0)),
        ("-n", Route::Show(None, 0)),
        ("-n monitor", Route::Monitor),
        ("monitor -n", Route::Monitor),
        ("-n -6 show", Route::Show(Some(Family::Inet6), 0)),
        ("get 192.0.2.1", Route::Get("192.0.2.1".parse().unwrap(), 0)),
        ("get -fib 2 192.0.2.1", Route::Get("192.0.2.1".parse().unwrap(), 2)),
        ("show -fib 15", Route::Show(None, 15)),
        ("get default", Route::Get("0.0.0.0".parse().unwrap(), 0)),
        ("get -inet6 default", Route::Get("::".parse().unwrap(), 0)),
        ("-n get -inet6 2001:db8::1", Route::Get("2001:db8::1".parse().unwrap(), 0)),
        ("add default 192.0.2.254", add("0.0.0.0/0", &["192.0.2.254"])),
        ("add default 2001:db8::1", add("::/0", &["2001:db8::1"])),
        ("add -inet6 2001:db8::/32 2001:db8::1", add("2001:db8::/32", &["2001:db8::1"])),
        ("-n add -host 10.0.0.1 192.0.2.7", add("10.0.0.1/32", &["192.0.2.7"])),
        ("add -net 10.0.0.0 -netmask 255.0.0.0 192.0.2.7", add("10.0.0.0/8", &["192.0.2.7"])),
        ("add -net 10.0.0.0 192.0.2.7 -prefixlen 8", add("10.0.0.0/8", &["192.0.2.7"])),
        ("add 10.0.0.0/8 192.0.2.7 192.0.2.8", add("10.0.0.0/8", &["192.0.2.7", "192.0.2.8"])),
        ("add 10.0.0.0/8 via 192.0.2.7", add("10.0.0.0/8", &["192.0.2.7"])),
        ("delete default", delete("0.0.0.0/0", None)),
        ("delete -inet6 default", delete("::/0", None)),
        ("delete 10.0.0.0/8 192.0.2.7", delete("10.0.0.0/8", Some("192.0.2.7"))),
    ] {
        assert_eq!(read(line).unwrap(), means, "{line}");
    }
}

#[test]
fn routes_without_a_gateway_are_understood() {
    let to: IpNet = "10.0.0.0/8".parse().unwrap();
    let metrics = RouteMetrics::default();
    let none = RouteRequest { fib: 0, to, via: vec![], dev: None, reject: false, blackhole: false, metrics };
    let dev = Some("lan".to_owned());
    for (line, request) in [
        ("add 10.0.0.0/8 -interface lan", RouteRequest { dev: dev.clone(), ..none.clone() }),
        ("add 10.0.0.0/8 dev lan", RouteRequest { dev, ..none.clone() }),
        ("add 10.0.0.0/8 -reject", RouteRequest { reject: true, ..none.clone() }),
        ("add -blackhole 10.0.0.0/8", RouteRequest { blackhole: true, ..none.clone() }),
        ("add -fib 3 -blackhole 10.0.0.0/8", RouteRequest { fib: 3, blackhole: true, ..none }),
    ] {
        assert_eq!(read(line).unwrap(), Route::Edit(RouteEdit::Add(request)), "{line}");
    }
}

#[test]
fn what_a_route_says_of_its_way_is_understood() {
    let request = |line: &str| match read(line).unwrap() {
        Route::Edit(RouteEdit::Add(request) | RouteEdit::Change(request)) => request,
        other => panic!("{line}: {other:?}"),
    };
    let all = RouteMetrics { mtu: Some(1400), msl_ms: Some(20), initial_window: Some(10) };
    assert_eq!(request("add default 192.0.2.1 -mtu 1400 -msl 20 -iw 10").metrics, all);
    assert_eq!(request("change -inet6 default -mtu 1400 -msl 20 -iwmaxsegs 10").metrics, all);
    let change = request("change 10.0.0.0/8 192.0.2.1 192.0.2.2");
    assert_eq!((change.via.len(), change.metrics), (2, RouteMetrics::default()));
}

#[test]
fn whole_tables_are_flushed_and_files_are_read() {
    assert_eq!(read("flush").unwrap(), Route::Flush(None, 0));
    assert_eq!(read("-n flush -inet6").unwrap(), Route::Flush(Some(Family::Inet6), 0));
    assert_eq!(read("batch routes.txt").unwrap(), Route::Batch("routes.txt".into()));
    assert_eq!(read("batch -").unwrap(), Route::Batch("-".into()));
}

#[test]
fn other_lines_are_explained() {
    for (line, says) in [
        ("ad default 192.0.2.1", "did you mean `add`?"),
        ("add", "destination is missing"),
        ("add default", "needs one target"),
        ("add 10.0.0.0/8 -reject 192.0.2.1", "needs one target"),
        ("add 10.0.0.1/8 192.0.2.1", "the network is 10.0.0.0/8, the host 10.0.0.1"),
        ("add 10.0.0.0/33 192.0.2.1", "is not a prefix"),
        ("add -net 10.0.0.0 192.0.2.1", "write 10.0.0.0/N"),
        ("add 10.0.0.0/8 2001:db8::1", "not of the family"),
        ("add -inet6 10.0.0.0/8 192.0.2.1", "not an address of the family inet6"),
        ("add 10.0.0.0/8 -interfaec lan", "did you mean `-interface`?"),
        ("add 10.0.0.0/8 -interface", "needs a value"),
        ("delete default 192.0.2.1 192.0.2.2", "one word too many"),
        ("change default", "change what?"),
        ("change 10.0.0.0/8 -reject -blackhole", "needs one target"),
        ("add default 192.0.2.1 -mtu 60", "-mtu 60 is not between 68 and 65535"),
        ("add default 192.0.2.1 -msl 0", "-msl 0 is not between 1 and 120000"),
        ("add default 192.0.2.1 -iw many", "-iw cannot be `many`"),
        ("batch", "of which file"),
        ("flush everything", "one word too many"),
        ("get", "which address"),
        ("show me", "one word too many"),
    ] {
        let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
        assert!(text.contains(says), "{line}: {text}");
    }
}
