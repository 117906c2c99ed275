//! Commands of scripts. There is no shell: what they ask is answered here.

use core::net::IpAddr;

use super::linux;

/// A command, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// `sysctl -w name=value`.
    Sysctl {
        /// The variable.
        name: String,
        /// Its value.
        value: String,
    },
    /// `sockstat … | grep -c STATE | grep N`: in the list of sockets, the lines that have these words are so many.
    Sockets {
        /// Only sockets with this port.
        port: Option<u16>,
        /// The state, as sockstat has it.
        state: String,
        /// A text that stands in their number.
        count: String,
    },
    /// `tcpdrop -s STATE`: connections in this state end.
    Drop {
        /// The state, as sockstat has it.
        state: String,
    },
    /// `… | setkey -c`: keys that segments are signed with.
    Keys(Vec<Key>),
    /// `setkey -F`: there are none any more.
    NoKeys,
    /// `defaults.sh`: the settings that scripts for Linux begin with.
    Linux,
    /// `ip tcp_metrics flush all`: what is known of other ends is forgotten.
    Forget,
    /// `true`, and what brings the machine into a state in which this one always is, or is from the beginning.
    Nothing,
}

/// A key, and its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Source and destination.
    pub(super) ends: (IpAddr, IpAddr),
    /// The key itself.
    pub(super) secret: String,
}

/// Reads the commands of a text, which may be one on each line.
///
/// # Errors
///
/// If one of them is not known here.
pub(super) fn read_all(text: &str) -> Result<Vec<Order>, String> {
    if text.contains('\'') {
        return read(text);
    }
    let without_comment = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
    let text = text.replace("\\\n", " ");
    let lines = text.lines().map(without_comment).filter(|line| !line.is_empty());
    let orders: Vec<_> = lines.map(|line| read(&line)).collect::<Result<Vec<_>, _>>()?.concat();
    if orders.is_empty() { Err(unknown(&text)) } else { Ok(orders) }
}

/// Whether at least one line of a text is a command that is known here.
pub(super) fn knows_some(text: &str) -> bool {
    text.lines().any(|line| read_all(line).is_ok())
}

fn unknown(command: &str) -> String {
    format!("`{command}` is no command that is known here")
}

/// Reads a command, which may give several orders.
///
/// # Errors
///
/// If it is none that is known here.
fn read(command: &str) -> Result<Vec<Order>, String> {
    let settings = || match command.split_once(' ')? {
        ("sysctl", list) => {
            settings(list.strip_prefix("-w ").or_else(|| list.strip_prefix("-q ")).unwrap_or(list))
        }
        (path, list) if linux::sets_variables(path) => settings(list),
        _ => None,
    };
    order(command).map(|order| vec![order]).or_else(settings).ok_or_else(|| unknown(command))
}

fn settings(list: &str) -> Option<Vec<Order>> {
    let orders = linux::sysctl::settings(list)?.into_iter();
    Some(orders.map(|(name, value)| Order::Sysctl { name, value }).collect())
}

fn order(command: &str) -> Option<Order> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        [path] if linux::is_defaults(path) => Some(Order::Linux),
        words if linux::changes_nothing(words) => Some(Order::Nothing),
        words if linux::forgets(words) => Some(Order::Forget),
        ["sockstat", rest @ ..] => sockets(rest),
        ["tcpdrop", "-s", state] => Some(Order::Drop { state: (*state).to_owned() }),
        ["true"] => Some(Order::Nothing),
        ["setkey", "-F"] => Some(Order::NoKeys),
        [.., "|", "setkey", "-c"] => keys(command).map(Order::Keys),
        _ => None,
    }
}

/// Parses `sockstat`: its flags, and greps.
fn sockets(words: &[&str]) -> Option<Order> {
    let mut greps = words.split(|word| *word == "|");
    let flags = greps.next()?;
    let port = flags.iter().position(|flag| *flag == "-p").and_then(|at| flags.get(at + 1));
    let port = port.map(|port| port.parse()).transpose().ok()?;
    let (mut state, mut count) = (None, None);
    for grep in greps {
        match grep {
            ["grep", "-c", word] => state = Some((*word).to_owned()),
            // packetdrill's own name, as far as the list has room for it: all sockets are its own here
            ["grep", "packetdril" | "packetdrill"] => {}
            ["grep", word] => count = Some((*word).to_owned()),
            _ => return None,
        }
    }
    Some(Order::Sockets { port, state: state?, count: count? })
}

/// Parses `[kldstat -q -m tcpmd5 || kldload tcpmd5;] echo 'add …; …' | setkey -c`: the module is always loaded here.
fn keys(command: &str) -> Option<Vec<Key>> {
    let (load, echo) = command.split_once("echo '")?;
    let (list, _) = echo.split_once('\'')?;
    let load: Vec<&str> = load.split_whitespace().collect();
    if !matches!(load.as_slice(), [] | ["kldstat", "-q", "-m", "tcpmd5", "||", "kldload", "tcpmd5;"]) {
        return None;
    }
    list.split(';').filter(|order| !order.trim().is_empty()).map(key).collect()
}

/// Parses `add SRC DST tcp SPI -A tcp-md5 "KEY"`.
fn key(order: &str) -> Option<Key> {
    let words: Vec<&str> = order.split_whitespace().collect();
    let ["add", src, dst, "tcp", _, "-A", "tcp-md5", secret] = words.as_slice() else { return None };
    let secret = secret.strip_prefix('"')?.strip_suffix('"')?;
    Some(Key { ends: (src.parse().ok()?, dst.parse().ok()?), secret: secret.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_questions_and_orders_are_understood_and_nothing_else() {
        let set = Order::Sysctl { name: "net.inet.tcp.blackhole".to_owned(), value: "0".to_owned() };
        let read = |text: &str| read(text).map(|orders| orders[0].clone());
        assert_eq!(read("sysctl -w net.inet.tcp.blackhole=0"), Ok(set));
        let (state, count) = ("TIME_WAIT".to_owned(), "1".to_owned());
        let drop = Order::Drop { state: state.clone() };
        let ask = Order::Sockets { port: None, state, count };
        assert_eq!(read("sockstat -4 -P tcp -s | grep packetdril | grep -c TIME_WAIT | grep 1"), Ok(ask));
        let (state, count) = ("SYN_RCVD".to_owned(), "0".to_owned());
        let ask = Order::Sockets { port: Some(8080), state, count };
        assert_eq!(read("sockstat -6 -P tcp -s -p 8080 | grep -c SYN_RCVD | grep 0"), Ok(ask));
        assert_eq!(read("tcpdrop -s TIME_WAIT"), Ok(drop));
        let keys =
            "echo 'add 192.0.2.1 192.0.2.2 tcp 0x1 -A tcp-md5 \"a\" ;\n add ::1 ::2 tcp 1 -A tcp-md5 \"b\";'";
        let key = |[src, dst]: [&str; 2], secret: &str| Key {
            ends: (src.parse().unwrap(), dst.parse().unwrap()),
            secret: secret.to_owned(),
        };
        let both = Order::Keys(vec![key(["192.0.2.1", "192.0.2.2"], "a"), key(["::1", "::2"], "b")]);
        assert_eq!(read(&format!("{keys} | setkey -c")), Ok(both.clone()));
        assert_eq!(read(&format!("kldstat -q -m tcpmd5 || kldload tcpmd5; {keys} | setkey -c")), Ok(both));
        assert_eq!(read("setkey -F"), Ok(Order::NoKeys));
        for other in ["echo 'add ::1 ::2 esp 1 -A tcp-md5 \"b\"' | setkey -c", "rm x; echo '' | setkey -c"] {
            assert!(read(other).is_err(), "{other}");
        }
        let text = "../common/defaults.sh\nsysctl -q net.ipv4.tcp_ecn=1  # on\n";
        let set = Order::Sysctl { name: "net.ipv4.tcp_ecn".to_owned(), value: "1".to_owned() };
        assert_eq!(read_all(text), Ok(vec![Order::Linux, set]));
        let text = "./set_sysctls.py /proc/sys/net/ipv4/tcp_ecn=1 \\\n  /proc/sys/net/ipv4/tcp_sack=0\n/tmp/sysctl_restore_${PPID}.sh";
        let sack = Order::Sysctl { name: "net.ipv4.tcp_sack".to_owned(), value: "0".to_owned() };
        let ecn = Order::Sysctl { name: "net.ipv4.tcp_ecn".to_owned(), value: "1".to_owned() };
        assert_eq!(read_all(text), Ok(vec![ecn, sack, Order::Nothing]));
        assert_eq!(read("ethtool -K tun0 tso off gso off"), Ok(Order::Nothing));
        assert!(read("ethtool -K tun0 tso off lro off").is_err());
        let flush = "ip tcp_metrics flush all > /dev/null 2>&1";
        assert_eq!(read(flush), Ok(Order::Forget));
        let either = |name| format!("sysctl -q net.ipv4.{name}=0 net.ipv4.{name}=10 &> /dev/null || {flush}");
        assert_eq!(read(&either("tcp_fastopen_cookies")), Ok(Order::Forget));
        assert!(read(&either("tcp_ecn")).is_err() && read("ip tcp_metrics flush all; rm x").is_err());
        let mixed = "./defaults.sh\nrm x";
        assert!(read_all(mixed).is_err() && knows_some(mixed) && !knows_some("rm x"));
        assert!(read_all("# nothing").is_err() && !knows_some("# nothing"));
        for other in ["rm -rf x", "sysctl -a", "sockstat | wc -l", ""] {
            assert!(read(other).is_err(), "{other}");
        }
    }
}
