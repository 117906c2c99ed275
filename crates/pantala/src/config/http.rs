//! The section `[http]`: the dashboard and the admin API over TCP.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::draft::unknown_word;
use super::fields::Fields;
use super::problem::{Report, Wrong};

const KEYS: &[&str] = &["listen", "token_file", "auth", "write", "hosts"];
/// The port if the section names no address.
const PORT: u16 = 8080;
/// Names by which the listener is reached, at the most.
const HOSTS_MAX: usize = 64;
/// Longest name of a host (RFC 1035 §2.3.4).
const HOST_MAX: usize = 253;

/// The HTTP listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// Its address and port, which are the kernel's.
    pub listen: SocketAddr,
    /// The file with the token that each request must carry; `None` if no request needs one.
    pub token_file: Option<PathBuf>,
    /// Whether requests may change something.
    pub write: bool,
    /// Names in the `Host` field of requests that are accepted, besides IP addresses and `localhost`.
    pub hosts: Vec<String>,
}

pub(super) fn read(top: &Fields<'_>, report: &mut Report<'_>) -> Option<Http> {
    let Some(table) = top.section("http") else {
        let span = top.key("http")?;
        report.add(&span, "`http` must be a section, [http]", "it has keys of its own, like listen");
        return None;
    };
    let fields = Fields::new(table.value, table.span, "in [http]", KEYS, report);
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    let http = Http {
        listen: fields.parsed("listen", listen, report).map_or(usual, |at| at.value),
        token_file: fields.parsed("token_file", token_file, report).map(|at| at.value),
        write: fields.truth("write", report).is_some_and(|at| at.value),
        hosts: hosts(&fields, report),
    };
    let is_open = fields.parsed("auth", auth, report).is_some_and(|at| at.value);
    check(&http, is_open, &fields, report);
    Some(http)
}

/// Checks that only a listener for this machine that changes nothing goes without a token.
fn check(http: &Http, is_open: bool, fields: &Fields<'_>, report: &mut Report<'_>) {
    let span = |key| fields.key(key).unwrap_or_else(|| fields.span.clone());
    let mut wrong = |key, message, help| report.add(&span(key), message, help);
    match (is_open, &http.token_file) {
        (false, None) if fields.key("token_file").is_none() => wrong(
            "http",
            "[http] has no token_file",
            "name a file with a token, which `openssl rand -hex 32` makes; on a loopback address, auth = \"none\" does without",
        ),
        (true, Some(_)) => {
            wrong("auth", "auth = \"none\" and token_file contradict each other", "leave one of them out")
        }
        (true, None) if !http.listen.ip().is_loopback() => wrong(
            "auth",
            "auth = \"none\" is for loopback addresses alone",
            "use token_file, or listen at 127.0.0.1 or [::1]",
        ),
        (true, None) if http.write => wrong(
            "auth",
            "auth = \"none\" and write contradict each other",
            "use token_file: any program of this machine could change the stack",
        ),
        _ => {}
    }
}

fn listen(text: &str) -> Result<SocketAddr, Wrong> {
    let help = "write an address of the kernel with a port, as in 127.0.0.1:8080 or [::1]:8080";
    let addr: SocketAddr = text.parse().map_err(|_| Wrong::new(format!("bad address `{text}`"), help))?;
    let is_group = match addr.ip() {
        IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_multicast(),
    };
    if is_group || addr.port() == 0 {
        return Err(Wrong::new(format!("nothing can listen at `{text}`"), help));
    }
    Ok(addr)
}

fn token_file(text: &str) -> Result<PathBuf, Wrong> {
    let path = PathBuf::from(text);
    if path.is_absolute() {
        return Ok(path);
    }
    let help = "write its whole path, as in /etc/pantala/http.token";
    Err(Wrong::new(format!("`{text}` is not an absolute path"), help))
}

/// Reads whether requests need no token.
fn auth(word: &str) -> Result<bool, Wrong> {
    match word {
        "token" => Ok(false),
        "none" => Ok(true),
        other => Err(unknown_word("auth", other, &["token", "none"])),
    }
}

fn hosts(fields: &Fields<'_>, report: &mut Report<'_>) -> Vec<String> {
    let hosts = fields.parsed_list("hosts", host, report);
    if let Some(one_more) = hosts.get(HOSTS_MAX) {
        let message = format!("no more than {HOSTS_MAX} hosts");
        report.add(&one_more.span, message, "leave this one out, and those behind it");
    }
    hosts.into_iter().map(|at| at.value).collect()
}

fn host(text: &str) -> Result<String, Wrong> {
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if text.is_empty() || text.len() > HOST_MAX || !text.chars().all(is_usual) {
        let help =
            "write the name as browsers have it in the address, without a port, as in pantala.example.net";
        return Err(Wrong::new(format!("`{text}` cannot be the name of a host"), help));
    }
    Ok(text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Machine};

    fn parse(text: &str) -> Result<Option<Http>, String> {
        let text = format!("{text}\n[[interface]]\ndevice = \"tap:pt-x\"\n");
        let parsed = Config::parse("t", &text, &Machine { cpus: vec![0] });
        parsed.map(|config| config.http).map_err(|why| why.to_string())
    }

    #[test]
    fn without_the_section_nothing_listens() {
        assert_eq!(parse(""), Ok(None));
    }

    #[test]
    fn the_listener_is_read_only_on_the_loopback_unless_the_file_says_otherwise() {
        let http = parse("[http]\ntoken_file = \"/etc/pantala/http.token\"").unwrap().unwrap();
        assert_eq!((http.listen.to_string().as_str(), http.write), ("127.0.0.1:8080", false));
        assert_eq!(http.token_file.unwrap().to_str(), Some("/etc/pantala/http.token"));
        let text = "[http]\nlisten = \"[2001:db8::1]:80\"\ntoken_file = \"/t\"\nwrite = true\nhosts = \"Gw.example\"";
        let http = parse(text).unwrap().unwrap();
        assert_eq!((http.listen.to_string().as_str(), http.write), ("[2001:db8::1]:80", true));
        assert_eq!(http.hosts, ["gw.example"]);
        let open = parse("[http]\nauth = \"none\"\nlisten = \"[::1]:9000\"").unwrap().unwrap();
        assert_eq!(open.token_file, None);
    }

    #[test]
    fn what_cannot_be_is_refused_where_it_stands() {
        for (text, says) in [
            ("http = true", "`http` must be a section"),
            ("[http]", "[http] has no token_file"),
            ("[http]\nlisten = \"127.0.0.1\"\nauth = \"none\"", "bad address"),
            ("[http]\nlisten = \"127.0.0.1:0\"\nauth = \"none\"", "nothing can listen"),
            ("[http]\nlisten = \"[ff02::1]:80\"\ntoken_file = \"/t\"", "nothing can listen"),
            ("[http]\ntoken_file = \"token\"", "not an absolute path"),
            ("[http]\nauth = \"nil\"", "unknown auth"),
            ("[http]\nauth = \"none\"\ntoken_file = \"/t\"", "contradict"),
            ("[http]\nauth = \"none\"\nlisten = \"0.0.0.0:80\"", "loopback addresses alone"),
            ("[http]\nauth = \"none\"\nlisten = \"[::]:80\"", "loopback addresses alone"),
            ("[http]\nauth = \"none\"\nwrite = true", "contradict"),
            ("[http]\ntoken_file = \"/t\"\nhosts = [\"a:80\"]", "cannot be the name of a host"),
            ("[http]\ntokenfile = \"/t\"", "unknown key"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }
}
