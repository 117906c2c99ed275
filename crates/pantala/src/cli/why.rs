//! `why SOURCE DESTINATION [PROTOCOL [PORT]]`: the way of a packet that is not sent.

use wire::Protocol;
use wire::tcp::Flags as TcpFlags;

use super::flags::Flags;
use super::{Failure, Session, resolve};
use crate::api::{Family, WhyAnswer, WhyRequest};
use crate::show;

pub(crate) const USAGE: &str = "\
pantala why [-v] SOURCE DESTINATION [tcp|udp|icmp [PORT]]
                   [from INTERFACE] [sport PORT] [flags FLAGS] [len BYTES]
                   [ttl N]";

pub(crate) const HELP: &str = "  PROTOCOL PORT  [default: icmp, an echo request]
  from           interface that the packet comes in by [default: where a packet
                 to SOURCE would leave; none if SOURCE is an own address]
  sport          source port [default: 49152]
  flags          of the TCP header, as F S R P A U [default: S]
  len            bytes with the IP header [default: as few as can be]
  ttl            TTL or hop limit [default: 64]
  -v             also show counters and cycles

The packet goes through the code that real packets go through, on the CPU that
owns it, and leaves nothing behind: no state, no count, no frame.

Examples:
  pantala why 192.0.2.7 198.51.100.9 tcp 443
  pantala why 198.51.100.9 192.0.2.7 tcp 22 from wan
  pantala why 2001:db8::7 2001:db8:1::9 udp 53 len 1400";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Why {
    request: WhyRequest,
    verbose: bool,
}

impl Why {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let flags = Flags::read("why", words, "v", "")?;
        let mut words = flags.operands.iter().map(String::as_str);
        let missing = |what: &str| Failure::usage(format!("why: {what} is missing"));
        let src = resolve::host(words.next().ok_or_else(|| missing("the source"))?, None)?;
        let dst = words.next().ok_or_else(|| missing("the destination"))?;
        let dst = resolve::host(dst, Some(Family::of(src)))?;
        let echo = if src.is_ipv4() { Protocol::ICMP } else { Protocol::ICMP6 };
        let mut request = WhyRequest {
            src,
            dst,
            protocol: echo.0,
            src_port: 49_152,
            dst_port: 0,
            tcp_flags: TcpFlags::SYN.0,
            len: None,
            ttl: 64,
            interface: None,
        };
        let mut words = words.peekable();
        let named = match words.peek().copied() {
            Some("tcp") => Some(Protocol::TCP),
            Some("udp") => Some(Protocol::UDP),
            Some("icmp" | "icmp6" | "ipv6-icmp") => Some(echo),
            _ => None,
        };
        if let Some(protocol) = named {
            words.next();
            request.protocol = protocol.0;
            if protocol != echo {
                let port = words.next().ok_or_else(|| missing("the port"))?;
                request.dst_port = number("the port", port)?;
            }
        }
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| missing(&format!("the value of `{word}`")));
            match word {
                "from" => request.interface = Some(value()?.to_owned()),
                "sport" => request.src_port = number("sport", value()?)?,
                "len" => request.len = Some(number("len", value()?)?),
                "ttl" => request.ttl = number("ttl", value()?)?,
                "flags" => request.tcp_flags = tcp_flags(value()?)?,
                other => {
                    let words = ["tcp", "udp", "icmp", "from", "sport", "flags", "len", "ttl"];
                    let hint = diagnostic::did_you_mean(other, &words);
                    return Err(Failure::usage(format!("why: unexpected `{other}`; {hint}")));
                }
            }
        }
        Ok(Self { request, verbose: flags.has('v') })
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let answer: WhyAnswer = session.client.post("/v1/why", &self.request)?;
        session.show(&answer, |answer| show::why(answer, self.verbose))
    }
}

fn number<T: core::str::FromStr>(what: &str, word: &str) -> Result<T, Failure> {
    word.parse().map_err(|_| Failure::usage(format!("why: {what}: `{word}` is not a number that fits")))
}

fn tcp_flags(word: &str) -> Result<u8, Failure> {
    let flag = |letter: char| {
        Some(match letter.to_ascii_uppercase() {
            'F' => TcpFlags::FIN,
            'S' => TcpFlags::SYN,
            'R' => TcpFlags::RST,
            'P' => TcpFlags::PSH,
            'A' => TcpFlags::ACK,
            'U' => TcpFlags::URG,
            _ => return None,
        })
    };
    let unknown = |letter: char| Failure::usage(format!("why: flags: `{letter}` is none of F S R P A U"));
    word.chars().try_fold(0, |all, letter| Ok(all | flag(letter).ok_or_else(|| unknown(letter))?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Why, Failure> {
        Why::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn lines_of_both_families_are_understood() {
        for [src, dst] in [["192.0.2.7", "198.51.100.9"], ["2001:db8::7", "2001:db8:1::9"]] {
            let line = format!("{src} {dst} tcp 443 from lan sport 5 flags SA len 100 ttl 3");
            let request = read(&line).unwrap().request;
            let expected = WhyRequest {
                src: src.parse().unwrap(),
                dst: dst.parse().unwrap(),
                protocol: 6,
                src_port: 5,
                dst_port: 443,
                tcp_flags: 0x12,
                len: Some(100),
                ttl: 3,
                interface: Some("lan".into()),
            };
            assert_eq!(request, expected);
            let echo = if src.contains(':') { 58 } else { 1 };
            assert_eq!(read(&format!("{src} {dst}")).unwrap().request.protocol, echo);
        }
    }

    #[test]
    fn other_lines_are_explained() {
        for (line, says) in [
            ("", "the source is missing"),
            ("192.0.2.1", "the destination is missing"),
            ("192.0.2.1 192.0.2.2 tcp", "the port is missing"),
            ("192.0.2.1 192.0.2.2 tcp 99999", "`99999` is not a number that fits"),
            ("192.0.2.1 192.0.2.2 form lan", "did you mean"),
            ("192.0.2.1 192.0.2.2 from", "the value of `from` is missing"),
            ("192.0.2.1 192.0.2.2 tcp 1 flags X", "`X` is none of"),
            ("192.0.2.1 2001:db8::1", "not an address of the family inet"),
        ] {
            let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
            assert!(text.contains(says), "{line}: {text}");
        }
    }
}
