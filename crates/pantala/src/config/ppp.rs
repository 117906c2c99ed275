//! The section `[interface.ppp]`: how a PPPoE interface authenticates itself, and what it takes of its provider.

use core::net::Ipv4Addr;
use std::path::Path;

use wire::Mac;

use super::draft::unknown_word;
use super::fields::Fields;
use super::problem::{At, Report, Wrong};
pub use crate::pppoe::client::Password;
pub use crate::pppoe::lcp::Auth;

const KEYS: &[&str] = &[
    "user",
    "password",
    "password_file",
    "auth",
    "dns",
    "default_route",
    "clamp_mss",
    "echo_interval",
    "echo_failures",
];
/// Bytes of a name or password: PAP writes their lengths into a byte.
const TEXT_MAX: usize = 255;
const ECHO_INTERVAL: u32 = 20;
const ECHO_FAILURES: u32 = 4;

/// PPP of a PPPoE interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ppp {
    /// Name and password, if there are any.
    pub user: Option<(String, Password)>,
    /// Protocols by which they are told.
    pub auth: Auth,
    /// Whether the provider is asked for name servers.
    pub dns: bool,
    /// Whether the session is the default route.
    pub default_route: bool,
    /// Whether the maximum segment size of TCP connections is lowered to what fits.
    pub clamp_mss: bool,
    /// Seconds between two echo requests; 0 for none.
    pub echo_interval: u32,
    /// Echo requests without an answer until the session is given up.
    pub echo_failures: u32,
}

impl Default for Ppp {
    fn default() -> Self {
        Self {
            user: None,
            auth: Auth::Any,
            dns: true,
            default_route: true,
            clamp_mss: true,
            echo_interval: ECHO_INTERVAL,
            echo_failures: ECHO_FAILURES,
        }
    }
}

/// A PPPoE session of an interface that carries packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PppSession {
    /// Its number.
    pub id: u16,
    /// The link address of the access concentrator.
    pub remote: Mac,
    /// The largest packet.
    pub mtu: u16,
    /// Our interface identifier, if IPv6 is carried.
    pub identifier: Option<u64>,
    /// The IPv4 address of the peer, if IPv4 is carried and it tells.
    pub peer: Option<Ipv4Addr>,
}

pub(super) fn read(interface: &Fields<'_>, report: &mut Report<'_>) -> Option<At<Ppp>> {
    let span = interface.key("ppp")?;
    let Some(table) = interface.section("ppp") else {
        report.add(&span, "`ppp` must be a section, [interface.ppp]", "it has keys of its own, like user");
        return None;
    };
    let fields = Fields::new(table.value, table.span, "in [interface.ppp]", KEYS, report);
    let usual = Ppp::default();
    let mut truth = |key, usual| fields.truth(key, report).map_or(usual, |at| at.value);
    let (dns, default_route) = (truth("dns", usual.dns), truth("default_route", usual.default_route));
    let clamp_mss = truth("clamp_mss", usual.clamp_mss);
    let number = |key, range, usual, report: &mut Report<'_>| {
        fields.number(key, range, report).map_or(usual, |at| at.value)
    };
    let ppp = Ppp {
        user: user(&fields, report),
        auth: fields.parsed("auth", auth, report).map_or(usual.auth, |at| at.value),
        dns,
        default_route,
        clamp_mss,
        echo_interval: number("echo_interval", 0..=3600, usual.echo_interval, report),
        echo_failures: number("echo_failures", 1..=100, usual.echo_failures, report),
    };
    Some(At::new(ppp, span))
}

/// Name and password: both, or neither.
fn user(fields: &Fields<'_>, report: &mut Report<'_>) -> Option<(String, Password)> {
    let user = fields.parsed("user", short, report);
    let password = fields.parsed("password", short, report);
    let file = fields.parsed("password_file", password_of, report);
    if let (Some(_), Some(file)) = (&password, &file) {
        report.add(&file.span, "password is given, too", "leave out one of the two");
    }
    let is_given = |key| fields.key(key).is_some();
    match (user, password.or(file)) {
        (Some(user), Some(password)) => Some((user.value, Password(password.value))),
        (Some(user), None) if !is_given("password") && !is_given("password_file") => {
            report.add(&user.span, "there is no password for this user", "add password or password_file");
            None
        }
        (None, Some(password)) if !is_given("user") => {
            report.add(&password.span, "this password is of no user", "add a line like user = \"me@isp\"");
            None
        }
        _ => None,
    }
}

fn short(text: &str) -> Result<String, Wrong> {
    if text.is_empty() || text.len() > TEXT_MAX {
        return Err(Wrong::new("too short or too long for PPP", format!("use 1 to {TEXT_MAX} bytes")));
    }
    Ok(text.to_owned())
}

/// The first line of a file.
fn password_of(path: &str) -> Result<String, Wrong> {
    let text = std::fs::read_to_string(Path::new(path)).map_err(|why| {
        Wrong::new(
            format!("{path}: {why}"),
            "the file has the password in its first line, and is readable for pantala's user",
        )
    })?;
    let line = text.lines().next().unwrap_or_default();
    short(line).map_err(|_| Wrong::new(format!("{path}: no password in the first line"), "write it there"))
}

fn auth(word: &str) -> Result<Auth, Wrong> {
    match word {
        "any" => Ok(Auth::Any),
        "pap" => Ok(Auth::Pap),
        "chap" => Ok(Auth::Chap),
        other => Err(unknown_word("auth", other, &["any", "pap", "chap"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Device, Interface, Machine};

    fn parse(device: &str, text: &str) -> Result<Vec<Interface>, String> {
        let text = format!(
            "[[interface]]\nname = \"eth\"\ndevice = \"tap:a\"\n[[interface]]\nname = \"v\"\ndevice = \"vlan:eth,7\"\n\
             [[interface]]\nname = \"wan\"\ndevice = \"{device}\"\n{text}"
        );
        let config = Config::parse("t", &text, &Machine { cpus: vec![0] }).map_err(|why| why.to_string())?;
        Ok(config.interfaces)
    }

    #[test]
    fn all_that_can_be_said_is_read() {
        let own = parse("pppoe:v", "").unwrap()[2].clone();
        assert_eq!(own.ppp, Some(Ppp::default()));
        let file = std::env::temp_dir().join(format!("pt-ppp-{}", std::process::id()));
        std::fs::write(&file, "from a file\nnot this\n").unwrap();
        let text = "[interface.ppp]\nuser = \"me@isp\"\npassword = \"secret\"\nauth = \"pap\"\ndns = false\n\
            default_route = false\nclamp_mss = false\necho_interval = 0\necho_failures = 2\n";
        for (text, password) in [
            (text.to_owned(), "secret"),
            (
                text.replace("password = \"secret\"", &format!("password_file = \"{}\"", file.display())),
                "from a file",
            ),
        ] {
            let own = parse("pppoe:eth,service=fast,ac=ac1", &text).unwrap()[2].clone();
            let Device::Pppoe(device) = &own.device else { panic!("{:?}", own.device) };
            assert_eq!((&*device.service, device.ac.as_deref()), ("fast", Some("ac1")));
            let user = Some(("me@isp".to_owned(), Password(password.to_owned())));
            let (auth, [dns, default_route, clamp_mss]) = (Auth::Pap, [false; 3]);
            let expected =
                Ppp { user, auth, dns, default_route, clamp_mss, echo_interval: 0, echo_failures: 2 };
            assert!(!format!("{own:?}").contains(password), "the password is shown");
            assert_eq!(own.ppp, Some(expected));
        }
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn what_cannot_be_is_explained() {
        let ppp = |keys: &str| format!("[interface.ppp]\n{keys}");
        for (device, text, says) in [
            ("pppoe:", "", "names no interface"),
            ("pppoe:eht", "", "there is no interface `eht`"),
            ("pppoe:eth,serivce=x", "", "did you mean `service`"),
            ("pppoe:eth,ac=", "", "cannot be a name of PPPoE"),
            ("pppoe:wan", "", "PPPoE is over an Ethernet interface"),
            ("tap:b", &ppp(""), "ppp is of a PPPoE interface"),
            ("pppoe:eth", "dhcp = true", "IPv4 address by PPP"),
            ("pppoe:eth", "rings = 1", "a PPPoE interface has no rings of its own"),
            ("pppoe:eth", "mtu = 1500", "1492"),
            ("pppoe:eth", "ppp = true", "must be a section"),
            ("pppoe:eth", &ppp("user = \"me\""), "there is no password"),
            ("pppoe:eth", &ppp("password = \"x\""), "is of no user"),
            ("pppoe:eth", &ppp("user = \"me\"\npassword_file = \"/nonexistent\""), "/nonexistent"),
            ("pppoe:eth", &ppp("auth = \"chp\""), "did you mean `chap`"),
            ("pppoe:eth", &ppp("echo_interval = 9999"), "use 0 to 3600"),
            ("pppoe:eth", "[[interface]]\ndevice = \"vlan:wan,3\"", "its packets have no tags"),
            ("pppoe:eth", "[[interface]]\ndevice = \"bridge:wan\"", "which has no frames"),
        ] {
            let said = parse(device, text).unwrap_err();
            assert!(said.contains(says), "{device} {text}: {said}");
        }
    }
}
