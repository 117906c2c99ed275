//! `ping [-c n] [-i s] [-s size] [-S source] [-D] HOST`.

use core::ops::ControlFlow;

use super::flags::Flags;
use super::route::fib;
use super::{Failure, Session, resolve};
use crate::api::{Family, PingEvent, PingRequest};
use crate::show;

pub(crate) const USAGE: &str = "\
pantala ping [-Dq46] [-c COUNT] [-i SECONDS] [-s BYTES] [-S SOURCE]
                    [-m TTL] [-W MS] [-F FIB] HOST";

pub(crate) const HELP: &str = "  -c COUNT     stop after so many requests [default: until interrupted]
  -i SECONDS   interval between requests, fractions allowed [default: 1]
  -s BYTES     payload of each request [default: 56]
  -S SOURCE    source address, one of this stack
  -m TTL       TTL or hop limit
  -F FIB       routing table [default: 0]
  -W MS        time to wait for the last reply [default: 10000]
  -D           set Don't Fragment
  -q           print only the summary
  -4, -6       resolve HOST to an address of this family

Examples:
  pantala ping -c 3 192.0.2.254
  pantala ping -D -s 1472 198.51.100.7";

const INTERVAL_MIN_S: f64 = 0.001;
const INTERVAL_MAX_S: f64 = 3600.0;

#[derive(Debug, PartialEq)]
pub(crate) struct Ping {
    name: String,
    request: PingRequest,
    quiet: bool,
}

impl Ping {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let flags = Flags::read("ping", words, "Dnq46", "cisSmWF")?;
        let name = flags.one_operand("ping", "the host")?;
        let count = flags.number("ping", 'c')?;
        if count == Some(0) {
            return Err(Failure::usage("ping: -c takes 1 or more"));
        }
        let source = flags.value('S').map(|source| resolve::host(source, family(&flags))).transpose()?;
        let family = source.map(Family::of).or_else(|| family(&flags));
        let request = PingRequest {
            to: resolve::host(name, family)?,
            source,
            count,
            interval_ms: interval_ms(&flags)?,
            timeout_ms: flags.number("ping", 'W')?.unwrap_or(10_000),
            bytes: flags.number("ping", 's')?.unwrap_or(56),
            ttl: flags.number("ping", 'm')?,
            dont_fragment: flags.has('D'),
            fib: flags.value('F').map_or(Ok(0), |text| fib(text, "ping"))?,
        };
        Ok(Self { name: name.to_owned(), request, quiet: flags.has('q') })
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let Session { client, json, term } = session;
        if !*json {
            term.show(&show::ping_head(&self.name, &self.request))?;
        }
        let mut summary = show::Summary::default();
        client.ping(&self.request, |event| {
            summary.add(&event);
            if let Some(line) = self.line(&event, *json) {
                term.show(&line)?;
            }
            let done = event == PingEvent::Done;
            Ok(if done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if !*json {
            term.show(&summary.text(&self.name))?;
        }
        if summary.answered() { Ok(()) } else { Err(Failure::Said) }
    }

    fn line(&self, event: &PingEvent, json: bool) -> Option<String> {
        match (json, self.quiet) {
            (true, _) => serde_json::to_string(event).ok().map(|line| line + "\n"),
            (false, true) => None,
            (false, false) => show::ping_event(event),
        }
    }
}

fn family(flags: &Flags) -> Option<Family> {
    let six = flags.has('6').then_some(Family::Inet6);
    if flags.has('4') { Some(Family::Inet) } else { six }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range has been checked")]
fn interval_ms(flags: &Flags) -> Result<u32, Failure> {
    let seconds: f64 = flags.number("ping", 'i')?.unwrap_or(1.0);
    if !(INTERVAL_MIN_S..=INTERVAL_MAX_S).contains(&seconds) {
        return Err(Failure::usage("ping: -i takes 0.001 to 3600 seconds"));
    }
    Ok((seconds * 1000.0).round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Ping, Failure> {
        Ping::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn all_flags_arrive_in_the_request() {
        let request = PingRequest {
            to: "192.0.2.7".parse().unwrap(),
            source: Some("192.0.2.1".parse().unwrap()),
            count: Some(3),
            interval_ms: 250,
            timeout_ms: 500,
            bytes: 1472,
            ttl: Some(9),
            dont_fragment: true,
            fib: 2,
        };
        let ping = Ping { name: "192.0.2.7".into(), request, quiet: true };
        assert_eq!(read("-Dqc3 -i .25 -s 1472 -S 192.0.2.1 -m 9 -F 2 -W 500 192.0.2.7").unwrap(), ping);
    }

    #[test]
    fn without_flags_it_is_like_everywhere() {
        let request = read("2001:db8::1").unwrap().request;
        assert_eq!((request.count, request.interval_ms, request.bytes), (None, 1000, 56));
    }

    #[test]
    fn other_lines_are_explained() {
        for (line, says) in [
            ("", "the host is missing"),
            ("-c 0 192.0.2.1", "-c takes 1 or more"),
            ("-i 0 192.0.2.1", "0.001 to 3600"),
            ("-i nan 192.0.2.1", "0.001 to 3600"),
            ("-s huge 192.0.2.1", "give a number"),
            ("-6 192.0.2.1", "not an address of the family inet6"),
            ("-S 2001:db8::1 192.0.2.1", "not an address of the family inet6"),
            ("192.0.2.1 192.0.2.2", "one word too many"),
        ] {
            let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
            assert!(text.contains(says), "{line}: {text}");
        }
    }
}
