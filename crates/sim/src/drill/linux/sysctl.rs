//! Variables of Linux, and what sets them.

use super::super::sysctl::FASTOPEN_CLIENT;

/// The equivalent of a Linux setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Meaning {
    /// These values of these variables.
    Is(Vec<(&'static str, String)>),
    /// Always so here, or a matter of Linux' speed.
    Nothing,
}

/// Where Linux has its variables as files.
const FILES: &str = "/proc/sys/";
const TCP: &str = "net.ipv4.tcp_";

/// Returns the equivalent of a variable with a value; `None` if it is not Linux's, or has no equivalent.
pub(in super::super) fn meaning(name: &str, value: &str) -> Option<Meaning> {
    let is = |name, value: &str| Some(Meaning::Is(vec![(name, value.to_owned())]));
    match (name.strip_prefix(TCP)?, value) {
        ("ecn", _) => is("net.inet.tcp.ecn.enable", value),
        ("sack", _) => is("net.inet.tcp.sack.enable", value),
        ("recovery", _) => is("net.inet.tcp.rack", value),
        ("early_retrans", "0") => is("net.inet.tcp.tlp", "0"),
        ("early_retrans", "3" | "4") => is("net.inet.tcp.tlp", "1"),
        ("congestion_control", "reno") => is("net.inet.tcp.cc.algorithm", "newreno"),
        ("congestion_control", _) => is("net.inet.tcp.cc.algorithm", value),
        // Windows are scaled in any case.
        ("timestamps", "1") => is("net.inet.tcp.rfc1323", "1"),
        ("timestamps", "0") => is("net.inet.tcp.rfc1323", "2"),
        ("rmem", _) => receive_buffers(value),
        ("fastopen", "0" | "1" | "2" | "3") => {
            let is = |bit| u8::from(value.parse::<u8>().is_ok_and(|value| value & bit != 0)).to_string();
            Some(Meaning::Is(vec![(FASTOPEN_CLIENT, is(1)), ("net.inet.tcp.fastopen.server_enable", is(2))]))
        }
        // How much is handed to the card at once, and how fast.
        ("min_tso_segs" | "tso_win_divisor" | "pacing_ss_ratio" | "pacing_ca_ratio", _)
        | ("slow_start_after_idle" | "dsack" | "window_scaling", "1")
        // Here only the path is left alone that has swallowed something, whatever this says.
        | ("fastopen_blackhole_timeout_sec", _)
        | ("fack", "0")
        | ("reordering", "3") => Some(Meaning::Nothing),
        _ => None,
    }
}

/// The least, the first and the most bytes of a receive buffer, as `4096 131072 $((32*1024*1024))`.
fn receive_buffers(value: &str) -> Option<Meaning> {
    let mut sizes = value.split_whitespace().map(size);
    let (_, first, most) = (sizes.next()??, sizes.next()??, sizes.next()??);
    let is = [("kern.ipc.maxsockbuf", most), ("net.inet.tcp.recvspace", first)];
    Some(Meaning::Is(is.map(|(name, size)| (name, size.to_string())).to_vec()))
}

/// A number, or the product that a shell would make of `$((a*b))`.
fn size(word: &str) -> Option<u64> {
    let product = word.strip_prefix("$((").and_then(|word| word.strip_suffix("))")).unwrap_or(word);
    product.split('*').try_fold(1_u64, |all, factor| all.checked_mul(factor.trim().parse().ok()?))
}

/// The settings behind `sysctl -q`, or behind `set_sysctls.py`, which names variables by their files. Values may be quoted.
pub(in super::super) fn settings(text: &str) -> Option<Vec<(String, String)>> {
    let mut rest = text.trim();
    let mut settings = Vec::new();
    while !rest.is_empty() {
        let (name, behind) = rest.split_once('=')?;
        let (value, behind) = match behind.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => behind.split_once(char::is_whitespace).unwrap_or((behind, "")),
        };
        let name = name.strip_prefix(FILES).map_or_else(|| name.to_owned(), |file| file.replace('/', "."));
        if name.is_empty() || name.contains(char::is_whitespace) || value.is_empty() {
            return None;
        }
        settings.push((name, value.to_owned()));
        rest = behind.trim_start();
    }
    (!settings.is_empty()).then_some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_with_quotes_from_files_and_several_at_once() {
        let read = |text| {
            settings(text)
                .map(|list| list.iter().map(|(a, b)| format!("{a}={b}")).collect::<Vec<_>>().join(";"))
        };
        assert_eq!(read("net.ipv4.tcp_ecn=1").as_deref(), Some("net.ipv4.tcp_ecn=1"));
        assert_eq!(read("/proc/sys/net/ipv4/tcp_a=1 net.b=2").as_deref(), Some("net.ipv4.tcp_a=1;net.b=2"));
        assert_eq!(read("a.b=\"4096 1 2\" c=3").as_deref(), Some("a.b=4096 1 2;c=3"));
        for wrong in ["", "-a", "a b=1", "a=\"1", "a="] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn buffers_are_sized_as_a_shell_counts() {
        let is = [("kern.ipc.maxsockbuf", "33554432"), ("net.inet.tcp.recvspace", "131072")];
        let is = is.map(|(name, value)| (name, value.to_owned())).to_vec();
        assert_eq!(meaning("net.ipv4.tcp_rmem", "4096 131072 $((32*1024*1024))"), Some(Meaning::Is(is)));
        assert_eq!(meaning("net.ipv4.tcp_rmem", "4096 much more"), None);
        assert_eq!(meaning("net.ipv4.tcp_dsack", "1"), Some(Meaning::Nothing));
        assert_eq!(meaning("net.ipv4.tcp_dsack", "0"), None);
        assert_eq!(meaning("net.inet.tcp.sack.enable", "0"), None);
    }
}
