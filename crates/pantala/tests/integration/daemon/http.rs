//! The HTTP listener of a daemon, as browsers, scrapers and strangers see it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::lab::{Daemon, Lab, Wire, until};

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// Loopback addresses of both families.
const PLACES: [&str; 2] = ["127.0.0.1:8080", "[::1]:8080"];

fn token_file(lab: &Lab, token: &str, mode: u32) -> PathBuf {
    let file = lab.folder().join("http.token");
    fs::write(&file, format!("{token}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    // The daemon reads it when it is not root any more.
    std::os::unix::fs::chown(&file, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
    file
}

const OTHER_USER: u32 = 65_534;

/// A configuration with the section `[http]`.
fn config(lab: &Lab, http: &str) -> String {
    format!("user = \"nobody\"\n{}", lab.config(&format!("[http]\n{http}")))
}

pub(crate) fn with_token(lab: &Lab, place: &str, more: &str) -> String {
    let file = token_file(lab, TOKEN, 0o600);
    config(lab, &format!("listen = \"{place}\"\ntoken_file = \"{}\"\n{more}", file.display()))
}

/// A lab whose daemon's namespace has a loopback; `None`, loudly, if this process may not make one.
fn lab(test: &str) -> Option<Lab> {
    let lab = Lab::new(test, Wire::Tap)?;
    lab.router().netlink().unwrap().set_up("lo", true).unwrap();
    Some(lab)
}

fn connect(lab: &Lab, place: &str) -> std::io::Result<TcpStream> {
    lab.router().run(|| TcpStream::connect(place)).unwrap_or_else(|why| panic!("{why}"))
}

/// The answer to a request, until the end of the connection.
fn ask(lab: &Lab, place: &str, request: &str) -> String {
    let mut stream = connect(lab, place).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn request(method: &str, path: &str, fields: &str, body: &str) -> String {
    let len = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {len}\r\n{fields}\r\n{body}"
    )
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

fn status(answer: &str) -> &str {
    answer.get(9..12).unwrap_or("none")
}

fn get(lab: &Lab, place: &str, path: &str) -> String {
    ask(lab, place, &request("GET", path, &bearer(TOKEN), ""))
}

fn count(lab: &Lab, place: &str, event: &str) -> u64 {
    let text = get(lab, place, "/metrics");
    let line = format!("pantala_http_events_total{{event=\"{event}\"}} ");
    let value = text.lines().find_map(|known| known.strip_prefix(&line));
    value.unwrap_or_else(|| panic!("no {event} in {text}")).parse().unwrap()
}

fn the_api_the_page_and_the_metrics_are_served_over_both_families_with_the_token() {
    for place in PLACES {
        let Some(lab) = lab("http") else { return };
        lab.write(&with_token(&lab, place, ""));
        let daemon = lab.start();
        let page = ask(&lab, place, &request("GET", "/", "", ""));
        assert_eq!(status(&page), "200", "{page}");
        let policy = page.lines().find(|line| line.starts_with("content-security-policy: ")).unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("-inline"), "{policy}");
        assert!(!page.contains("192.0.2.1"), "the page says nothing of the stack");
        for path in ["/v1/version", "/v1/interfaces", "/metrics", "/v1/nowhere"] {
            let refused = ask(&lab, place, &request("GET", path, "", ""));
            assert_eq!(status(&refused), "401", "{path}: {refused}");
            assert!(!refused.contains("192.0.2.1"), "{refused}");
        }
        assert!(get(&lab, place, "/v1/interfaces").contains("192.0.2.1"));
        assert!(get(&lab, place, "/metrics").contains("pantala_if_up{if=\"lan\"} "));
        assert_eq!(status(&get(&lab, place, "/v1/config")), "403", "it may contain secrets");
        assert_eq!(count(&lab, place, "bad_token"), 4);
        let foreign = request("GET", "/v1/version", &(bearer(TOKEN) + "origin: http://evil.example\r\n"), "");
        assert_eq!(status(&ask(&lab, place, &foreign)), "403");
        let rebound = foreign.replace("host: localhost", "host: evil.example");
        assert_eq!(status(&ask(&lab, place, &rebound)), "421");
        assert_eq!((count(&lab, place, "bad_origin"), count(&lab, place, "bad_host")), (1, 1));
        drop(daemon);
    }
}

fn the_listener_changes_something_only_if_the_file_says_so() {
    let Some(lab) = lab("httpw") else { return };
    let route = "{\"to\":\"203.0.113.0/24\",\"via\":[\"192.0.2.2\"]}";
    let post = request("POST", "/v1/routes", &bearer(TOKEN), route);
    lab.write(&with_token(&lab, PLACES[0], ""));
    let daemon = lab.start();
    let refused = ask(&lab, PLACES[0], &post);
    assert!(status(&refused) == "403" && refused.contains("read-only"), "{refused}");
    assert!(!daemon.shows("netstat -rn").contains("203.0.113.0/24"));
    lab.write(&with_token(&lab, PLACES[0], "write = true"));
    assert!(daemon.shows("reload").contains("HTTP at 127.0.0.1:8080, read and write"));
    let foreign = request("POST", "/v1/routes", &(bearer(TOKEN) + "origin: null\r\n"), route);
    assert_eq!(status(&ask(&lab, PLACES[0], &foreign)), "403");
    assert!(!daemon.shows("netstat -rn").contains("203.0.113.0/24"));
    assert_eq!(status(&ask(&lab, PLACES[0], &post)), "200");
    assert!(daemon.shows("netstat -rn").contains("203.0.113.0/24"));
}

fn a_reload_changes_the_listener_as_a_whole_or_not_at_all() {
    let Some(lab) = lab("httpr") else { return };
    lab.write(&lab.config(""));
    let daemon = lab.start();
    assert!(connect(&lab, PLACES[0]).is_err(), "off by default");
    lab.write(&with_token(&lab, PLACES[0], ""));
    daemon.shows("reload");
    assert_eq!(status(&get(&lab, PLACES[0], "/v1/version")), "200");
    assert!(daemon.shows("reload").contains("nothing"), "the same is no change");
    // Another token: connections with the one before end.
    let mut idle = connect(&lab, PLACES[0]).unwrap();
    let other = TOKEN.replace('0', "x");
    token_file(&lab, &other, 0o640);
    assert!(daemon.shows("reload").contains("HTTP at"));
    assert_eq!(idle.read(&mut [0; 9]).unwrap(), 0, "closed");
    assert_eq!(status(&get(&lab, PLACES[0], "/v1/version")), "401");
    let with_other = request("GET", "/v1/version", &bearer(&other), "");
    assert_eq!(status(&ask(&lab, PLACES[0], &with_other)), "200");
    refused(&lab, &daemon);
    assert_eq!(status(&ask(&lab, PLACES[0], &with_other)), "200", "all as it was");
    lab.write(&lab.config(""));
    assert!(daemon.shows("reload").contains("no HTTP at 127.0.0.1:8080"));
    until("the listener is closed", || connect(&lab, PLACES[0]).is_err());
}

fn a_listener_changes_between_one_address_and_all_at_the_same_port() {
    let Some(lab) = lab("httpw") else { return };
    lab.write(&with_token(&lab, PLACES[0], ""));
    let daemon = lab.start();
    for (all, one, other) in
        [("0.0.0.0:8080", PLACES[0], "127.0.0.2:8080"), ("[::]:8080", PLACES[1], PLACES[0])]
    {
        lab.write(&with_token(&lab, all, ""));
        daemon.shows("reload");
        assert_eq!(status(&get(&lab, other, "/v1/version")), "200", "{all}");
        lab.write(&with_token(&lab, one, ""));
        daemon.shows("reload");
        assert_eq!(status(&get(&lab, one, "/v1/version")), "200", "{one}");
        until("no other address is listened at", || connect(&lab, other).is_err());
        let third = lab.router().run(|| std::net::TcpListener::bind(one));
        assert!(third.unwrap().is_err(), "no other program listens there");
    }
}

/// Asserts that reloads which cannot be name the key and change nothing.
fn refused(lab: &Lab, daemon: &Daemon<'_>) {
    let file = lab.folder().join("http.token");
    let at = |listen: &str, file: &str| {
        config(lab, &format!("listen = \"{listen}\"\ntoken_file = \"{file}\"")) + "forwarding = true\n"
    };
    let own = file.display().to_string();
    let public = lab.folder().join("public.token");
    fs::write(&public, TOKEN).unwrap();
    fs::set_permissions(&public, fs::Permissions::from_mode(0o644)).unwrap();
    let lets_all = format!("[http] token_file = \"{}\": mode 0644 lets all users", public.display());
    let busy = lab.router().run(|| std::net::TcpListener::bind("127.0.0.1:8081").unwrap());
    for (text, says) in [
        (at("127.0.0.1:8081", &own), "[http] listen = \"127.0.0.1:8081\": Address already in use"),
        (at("203.0.113.9:8080", &own), "[http] listen = \"203.0.113.9:8080\": Cannot assign"),
        (at("127.0.0.1:8080", "/nowhere/token"), "[http] token_file = \"/nowhere/token\": No such file"),
        (at("127.0.0.1:8080", &public.display().to_string()), &*lets_all),
    ] {
        // Keys at the top come first.
        lab.write(&format!("forwarding = true\n{}", text.replace("forwarding = true\n", "")));
        let (done, said) = daemon.run("reload");
        assert!(!done && said.contains(says) && said.contains("nothing was changed"), "{says}: {said}");
    }
    drop(busy);
}

fn a_start_without_the_token_or_the_port_says_which_key_is_wrong() {
    let Some(lab) = lab("https") else { return };
    let file = token_file(&lab, "short", 0o600);
    lab.write(&config(&lab, &format!("token_file = \"{}\"", file.display())));
    let output = lab.start_in_vain_with("A=b");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("[http] token_file"), "{said}");
    assert!(said.contains("at least 32 letters and digits"), "{said}");
}

fn idle_and_surplus_connections_do_not_keep_others_out_for_long() {
    let Some(lab) = lab("httpl") else { return };
    lab.write(&with_token(&lab, PLACES[0], ""));
    let daemon = lab.start();
    let held: Vec<TcpStream> = (0..100).map(|_| connect(&lab, PLACES[0]).unwrap()).collect();
    let answer = get(&lab, PLACES[0], "/v1/version");
    assert!(["503", "none"].contains(&status(&answer)), "{answer}");
    daemon.shows("netstat -m");
    drop(held);
    until("a request is answered again", || status(&get(&lab, PLACES[0], "/v1/version")) == "200");
    assert!(count(&lab, PLACES[0], "too_many_connections") > 30);
}

harness::tests![
    the_api_the_page_and_the_metrics_are_served_over_both_families_with_the_token,
    the_listener_changes_something_only_if_the_file_says_so,
    a_reload_changes_the_listener_as_a_whole_or_not_at_all,
    a_listener_changes_between_one_address_and_all_at_the_same_port,
    a_start_without_the_token_or_the_port_says_which_key_is_wrong,
    idle_and_surplus_connections_do_not_keep_others_out_for_long,
];
