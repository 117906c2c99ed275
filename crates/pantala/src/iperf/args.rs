//! The command line of `pantala iperf`.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::path::PathBuf;

use clap::Args;

use super::client::Client;
use super::protocol::{
    BLOCK_MAX, DATAGRAM_MAX, DATAGRAM_MIN, OMIT_MAX, PORT, Params, SECONDS_MAX, STREAMS_MAX,
};
use super::server::Server;
use super::text::Report;
use super::{Host, Problem};
use crate::api::Family;
use crate::cli::own_stack::OwnStack;
use crate::cli::{Failure, resolve};
use crate::daemon::log::{self, Level};
use crate::interrupt::Stop;
use crate::term::Term;

pub(crate) const HELP: &str = "\
Server and client speak the protocol of iperf3, so either end may be iperf3.
They run on a stack of their own. Without --device, it has a TAP called
pantala0, 10.71.0.1 and fd71::1, whose other end is this machine's kernel,
10.71.0.2 and fd71::2. Sizes and rates may end in K, M, G: of 1024 for bytes,
of 1000 for bits.
Ctrl-C ends a test with the summary so far.

Examples:
  pantala iperf -s                        # then: iperf3 -c 10.71.0.1
  iperf3 -s & pantala iperf -c 10.71.0.2 -P 4 -R
  pantala iperf -c 192.0.2.7 -u -b 100M --device af_xdp:eth1 \\
      --address 192.0.2.1/24
  pantala iperf -c 192.0.2.7 --rrul -t 30 --device af_xdp:eth1 \\
      --address 192.0.2.1/24
  pantala iperf -s --device tap:t0 --address 192.0.2.1/24 --json";

const TIME_S: u64 = 10;
const RRUL_STREAMS: u32 = 4;
const TCP_BLOCK: u32 = 128 << 10;
/// Fits a path of Ethernet with any headers, as iperf3 would find from the segment size.
const UDP_BLOCK: u32 = 1448;
const UDP_RATE: u64 = 1 << 20;

/// Options of `iperf`.
#[derive(Debug, Args)]
#[group(id = "role", multiple = false)]
pub(crate) struct Iperf {
    /// Serve tests
    #[arg(short, long, conflicts_with = "client", required_unless_present = "client")]
    server: bool,
    /// Test against the server at this host
    #[arg(short, long, value_name = "HOST")]
    client: Option<String>,
    /// Port of the server, TCP and UDP
    #[arg(short, long, default_value_t = PORT)]
    port: u16,
    /// Seconds of the test [default: 10]
    #[arg(short, long, value_name = "SECONDS", conflicts_with = "server", value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    time: Option<u64>,
    /// End the test after so many bytes
    #[arg(short = 'n', long, conflicts_with_all = ["time", "blocks", "server"], value_parser = bytes)]
    bytes: Option<u64>,
    /// End the test after so many blocks or datagrams
    #[arg(short = 'k', long, value_name = "COUNT", conflicts_with_all = ["time", "server"], value_parser = bytes)]
    blocks: Option<u64>,
    /// Seconds at the beginning that are not counted
    #[arg(short = 'O', long, value_name = "SECONDS", default_value_t = 0, conflicts_with = "server", value_parser = clap::value_parser!(u64).range(0..=OMIT_MAX))]
    omit: u64,
    /// Seconds between reports; 0 for none before the summary
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// Streams in each direction [default: 1; 4 with --rrul]
    #[arg(short = 'P', long, value_name = "COUNT", conflicts_with = "server", value_parser = clap::value_parser!(u32).range(1..=i64::from(STREAMS_MAX)))]
    parallel: Option<u32>,
    /// The server sends
    #[arg(short = 'R', long, conflicts_with_all = ["bidir", "server"])]
    reverse: bool,
    /// Both send
    #[arg(long, conflicts_with = "server")]
    bidir: bool,
    /// Latency under load: streams in both directions, round-trip times of ICMP echo before and meanwhile
    #[arg(long, conflicts_with_all = ["reverse", "udp", "server"])]
    rrul: bool,
    /// UDP instead of TCP
    #[arg(short, long, conflicts_with = "server")]
    udp: bool,
    /// Bits per second of each stream, 0 for no limit [default: 1M for UDP, no limit for TCP]
    #[arg(short, long, value_name = "RATE", conflicts_with = "server", value_parser = bits)]
    bitrate: Option<u64>,
    /// Bytes of a block or datagram [default: 128K for TCP, 1448 for UDP]
    #[arg(short, long, value_name = "BYTES", conflicts_with = "server", value_parser = bytes)]
    length: Option<u64>,
    /// Send and receive buffers of the streams, at both ends
    #[arg(short, long, value_name = "BYTES", conflicts_with = "server", value_parser = bytes)]
    window: Option<u64>,
    /// The longest TCP segment
    #[arg(short = 'M', long, value_name = "BYTES", conflicts_with = "server")]
    set_mss: Option<u16>,
    /// Short segments do not wait
    #[arg(short = 'N', long, conflicts_with = "server")]
    no_delay: bool,
    /// Type of service, or traffic class
    #[arg(short = 'S', long, value_name = "TOS", conflicts_with = "server")]
    tos: Option<u8>,
    /// Congestion control of streams that the client sends
    #[arg(short = 'C', long, value_name = "NAME", conflicts_with = "server", value_parser = ["cubic", "reno"])]
    congestion: Option<String>,
    /// Local address
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// IPv4 alone
    #[arg(short = '4', conflicts_with = "only_v6")]
    only_v4: bool,
    /// IPv6 alone
    #[arg(short = '6')]
    only_v6: bool,
    /// Serve one test and end
    #[arg(short = '1', long, conflicts_with = "client")]
    one_off: bool,
    /// End a test after so many milliseconds without data
    #[arg(long, value_name = "MS", default_value_t = 120_000, value_parser = clap::value_parser!(u64).range(100..=86_400_000))]
    rcv_timeout: u64,
    /// As --json
    #[arg(short = 'J')]
    json: bool,
    #[command(flatten)]
    pub(crate) stack: OwnStack,
}

impl Iperf {
    /// Runs a test, or serves tests. `control` is where the stack is controlled from, if anywhere.
    pub(crate) fn run(&self, control: Option<PathBuf>, json: bool, term: &mut Term) -> Result<(), Failure> {
        log::to_stderr(Level::Warning);
        let server = self.client.as_deref().map(|name| resolve::host(name, self.family())).transpose()?;
        if !(0.0..=3600.0).contains(&self.interval) {
            return Err(Failure::usage("iperf: --interval takes 0 to 3600 seconds"));
        }
        let params = self.params()?;
        let stop = Stop::on_signals()?;
        let host = Host::new(self.stack.start("pantala iperf", control)?)?;
        let is_interrupted = || stop.is_set();
        let mut report = Report::new(term, json || self.json);
        let outcome = match server {
            Some(server) => {
                self.test(&host, (server, self.port).into(), params, &is_interrupted, &mut report)
            }
            None => self.serve(&host, &is_interrupted, &mut report),
        };
        let written = report.finish(outcome.as_ref().err());
        let stopped = host.stop();
        written?;
        outcome.map_err(|why| {
            if (json || self.json) && server.is_some() { Failure::Said } else { failure(&why) }
        })?;
        stopped.map_err(|why| Failure::Failed(why.to_string()))
    }

    fn test(
        &self,
        host: &Host,
        server: SocketAddr,
        params: Params,
        is_interrupted: &dyn Fn() -> bool,
        report: &mut Report<'_>,
    ) -> Result<(), Problem> {
        let local = self.bind;
        let (interval, rcv_timeout) = (self.every(), Duration::from_millis(self.rcv_timeout));
        Client { host, server, local, params, interval, rcv_timeout, rrul: self.rrul, is_interrupted }
            .run(report)
    }

    fn serve(
        &self,
        host: &Host,
        is_interrupted: &dyn Fn() -> bool,
        report: &mut Report<'_>,
    ) -> Result<(), Problem> {
        let any = if self.only_v4 { IpAddr::from([0_u8; 4]) } else { IpAddr::from([0_u8; 16]) };
        let at = (self.bind.unwrap_or(any), self.port).into();
        let rcv_timeout = Duration::from_millis(self.rcv_timeout);
        let (interval, is_one_off) = (self.every(), self.one_off);
        Server { host, at, only_v6: self.only_v6, interval, rcv_timeout, is_one_off, is_interrupted }
            .run(report)
    }

    fn family(&self) -> Option<Family> {
        match (self.only_v4, self.only_v6) {
            (true, _) => Some(Family::Inet),
            (_, true) => Some(Family::Inet6),
            _ => None,
        }
    }

    fn every(&self) -> Option<Duration> {
        (self.interval > 0.0).then(|| Duration::from_secs_f64(self.interval.max(0.01)))
    }

    fn params(&self) -> Result<Params, Failure> {
        let range = if self.udp { DATAGRAM_MIN..=DATAGRAM_MAX } else { 1..=BLOCK_MAX };
        let block = if self.udp { UDP_BLOCK } else { TCP_BLOCK };
        let block = u32::try_from(self.length.unwrap_or_else(|| block.into())).unwrap_or(u32::MAX);
        if !range.contains(&block) {
            let (least, most) = range.into_inner();
            return Err(Failure::Usage(format!("iperf: --length takes {least} to {most} bytes")));
        }
        let by_time = self.bytes.is_none() && self.blocks.is_none();
        Ok(Params {
            udp: self.udp,
            omit_s: self.omit,
            time_s: if by_time { self.time.unwrap_or(TIME_S) } else { 0 },
            bytes: self.bytes.unwrap_or(0),
            blocks: self.blocks.unwrap_or(0),
            parallel: self.parallel.unwrap_or(if self.rrul { RRUL_STREAMS } else { 1 }),
            reverse: self.reverse,
            bidir: self.bidir || self.rrul,
            block,
            rate: self.bitrate.unwrap_or(if self.udp { UDP_RATE } else { 0 }),
            wide_numbers: false,
            nodelay: self.no_delay,
            mss: self.set_mss.unwrap_or(0).into(),
            window: u32::try_from(self.window.unwrap_or(0)).unwrap_or(u32::MAX),
            tos: self.tos.unwrap_or(0),
            congestion: self.congestion.clone(),
        })
    }
}

fn failure(why: &Problem) -> Failure {
    Failure::Failed(format!("iperf: {why}"))
}

/// Reads a size: `128K` is 131072.
fn bytes(text: &str) -> Result<u64, String> {
    sized(text, 1024)
}

/// Reads a rate: `10M` is 10,000,000.
fn bits(text: &str) -> Result<u64, String> {
    sized(text, 1000)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range has been checked")]
fn sized(text: &str, unit: u64) -> Result<u64, String> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(at);
    let power = match suffix {
        "" => 0,
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        "t" | "T" => 4,
        _ => return Err("expected a number, and K, M, G or T".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "expected a number, as in 128K or 1.5G".to_owned())?;
    let value = number * unit.pow(power) as f64;
    match (0.0..1e18).contains(&value) {
        true => Ok(value.round() as u64),
        false => Err("out of range".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024_and_rates_of_1000() {
        assert_eq!((bytes("128K"), bytes("7"), bits("1.5G")), (Ok(131_072), Ok(7), Ok(1_500_000_000)));
        for wrong in ["", "K", "-1", "1X", "nan", "1e30", "9e9T"] {
            assert!(bits(wrong).is_err(), "{wrong}");
        }
    }
}
