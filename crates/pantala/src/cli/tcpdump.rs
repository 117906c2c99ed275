//! `tcpdump`: packets as they come from devices and go to them, and those that are dropped.

mod files;
mod pipe;
mod printer;
mod real;
mod stream;
mod strftime;

use core::ops::ControlFlow;
use std::io;
use std::path::PathBuf;

use dev::sys::libpcap;
use wire::pcap::{self, Packet, Statistics};

use self::files::Files;
use self::pipe::Pipe;
use self::printer::{Binary, JsonLines, Plain};
use self::real::Real;
use self::stream::Stream;
use super::flags::Flags;
use super::{Failure, Session};
use crate::api::wall_ns;
use crate::api::{CapturePlace, CaptureRequest};
use crate::interrupt::Stop;
use crate::plural::counted;

pub(crate) const USAGE: &str = "\
pantala tcpdump [-AeNnqStvXx] [-B KIB] [-c COUNT] [-C MB] [-G SECONDS]
                       [-i INTERFACE[,...]] [-Q PLACES] [-s SNAPLEN] [-w FILE]
                       [-W FILES] [-y EN10MB] [FILTER ...]";

pub(crate) const HELP: &str =
    "  -i INTERFACE  capture on these interfaces, separated by commas [default: any]
  -Q PLACES     in, out, inout or drop, or several, separated by commas
                [default: inout]; drop shows dropped packets and the reasons
  -c COUNT      stop after so many packets
  -s SNAPLEN    keep so many bytes of each packet [default: 262144]
  -y EN10MB     with -w: give packets without a link header one of zeros, so
                that all have the link type that tcpdump -r needs
  -B KIB        buffer of each CPU [default: 4096]
  -w FILE       write pcapng instead of printing; - is standard output
  -C MB         begin another file after so many million bytes
  -G SECONDS    begin another file after so many seconds; FILE may have %Y %m
                %d %H %M %S %s %F %T, in UTC
  -W FILES      with -C, overwrite the oldest of so many; with -G, stop
  -A -e -n -N -q -S -t -v -x -X
                given to tcpdump, if that is installed: it prints the packets

Frames captured on a VLAN are without its tags, and packets of a tunnel
without its outer headers. A TUN, gif, GRE or PPPoE interface has packets
without frames: their link type is RAW. FILTER is a pcap-filter(7), which
libpcap compiles if it is installed.

Examples:
  pantala tcpdump -ni lan port 80
  pantala tcpdump -Q drop
  pantala tcpdump -i wan -w wan.pcapng -C 100 -W 10
  pantala tcpdump -w - | wireshark -k -i -";

/// Flags that tcpdump gets as they are.
const PASSED: &str = "AeNnqStvxX";
const SNAP_LEN: u32 = pcap::SNAP_LEN;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tcpdump {
    request: CaptureRequest,
    filter: String,
    count: Option<u64>,
    write: Option<String>,
    /// A pipe to write into instead.
    pipe: Option<PathBuf>,
    rotation: files::Rotation,
    /// Flags for the real tcpdump.
    passed: Vec<String>,
}

impl Tcpdump {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        // Accepted and without effect: output is never buffered, and no device is promiscuous.
        let flags = Flags::read("tcpdump", words, &format!("{PASSED}lUp"), "BcCGiQswWy")?;
        let count = flags.number("tcpdump", 'c')?;
        if count == Some(0) {
            return Err(Failure::usage("tcpdump: -c takes 1 or more"));
        }
        let snap_len = flags.number("tcpdump", 's')?.filter(|bytes| *bytes != 0);
        let request = CaptureRequest {
            interfaces: interfaces(flags.value('i').unwrap_or("any")),
            places: places(flags.value('Q').unwrap_or("inout"))?,
            snap_len: snap_len.unwrap_or(SNAP_LEN).min(SNAP_LEN),
            filter: Vec::new(),
            buffer_kib: flags.number("tcpdump", 'B')?.unwrap_or_else(|| CaptureRequest::default().buffer_kib),
            with_link_header: has_link_header(flags.value('y'))?,
        };
        let write = flags.value('w').map(str::to_owned);
        let rotation = files::Rotation::read(&flags, write.as_deref())?;
        let passed = PASSED.chars().flat_map(|letter| vec![format!("-{letter}"); flags.count(letter)]);
        let (passed, filter) = (passed.collect(), flags.operands.join(" "));
        Ok(Self { request, filter, count, write, pipe: None, rotation, passed })
    }

    /// A capture that ends when the reader of a pipe closes it.
    pub(crate) fn into_pipe(request: CaptureRequest, filter: String, pipe: PathBuf) -> Self {
        let (rotation, passed) = (files::Rotation::default(), Vec::new());
        Self { request, filter, count: None, write: None, pipe: Some(pipe), rotation, passed }
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let Session { client, json, term } = session;
        let mut request = self.compiled()?;
        let stop = Stop::on_signals()?;
        let mut output = self.output(*json)?;
        request.with_link_header |= output.needs_link_header();
        let mut run = Run {
            left: self.count.unwrap_or(u64::MAX),
            captured: 0,
            read_ns: 0,
            counts: Statistics::default(),
        };
        let (mut stream, mut asked_ns, mut failed) = (Stream::default(), None, None);
        let ended = client.capture(&request, |part| {
            let (is_first, mut text) = (!stream.has_begun(), Vec::new());
            let taken = stream.take(part, &mut run, &mut *output, &mut text);
            if is_first {
                term.complain(&listening(&request, stream.link_type()));
            }
            if !text.is_empty() {
                term.show_bytes(&text)?;
            }
            if let Err(why) = taken {
                failed = Some(why);
                return Ok(ControlFlow::Break(()));
            }
            // Parts that a slow reader has left waiting are taken first: nothing from before an interrupt is missing.
            if stop.is_set() && asked_ns.is_none() {
                asked_ns = Some(wall_ns());
            }
            let is_complete = asked_ns.is_some_and(|asked_ns| run.read_ns >= asked_ns);
            let is_over = run.left == 0 || is_complete || output.is_full();
            Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        let closed = output.end(run.counts);
        if stream.has_begun() {
            term.complain(&run.summary());
        }
        ended?;
        failed.map_or(closed, Err)
    }

    /// The request, with the filter as libpcap compiles it.
    pub(crate) fn compiled(&self) -> Result<CaptureRequest, Failure> {
        let mut request = self.request.clone();
        if !self.filter.is_empty() {
            let insns = libpcap::compile(&self.filter, request.snap_len).map_err(|why| match why {
                libpcap::CompileError::Filter(_) => Failure::usage(format!("tcpdump: {why}")),
                _ => Failure::Failed(format!("tcpdump: {why}; without a filter all packets are captured")),
            })?;
            request.filter = insns.iter().map(|insn| (insn.code, insn.jt, insn.jf, insn.k)).collect();
        }
        Ok(request)
    }

    fn output(&self, json: bool) -> Result<Box<dyn Output>, Failure> {
        if let Some(pipe) = &self.pipe {
            return Ok(Box::new(Pipe::open(pipe)?));
        }
        Ok(match self.write.as_deref() {
            Some("-") => Box::new(Binary),
            Some(name) => Box::new(Files::new(name, self.rotation)),
            None if json => Box::new(JsonLines),
            None => match Real::start(&self.passed, self.needs_labels())? {
                Some(tcpdump) => Box::new(tcpdump),
                None => Box::new(Plain),
            },
        })
    }

    /// Whether a line must say which interface, direction and reason it is about.
    fn needs_labels(&self) -> bool {
        self.request.interfaces.len() != 1 || self.request.places.contains(&CapturePlace::Drop)
    }
}

/// Where captured packets go.
trait Output {
    /// The block that begins the file, or describes an interface.
    fn head(&mut self, block: &[u8], out: &mut Vec<u8>) -> Result<(), Failure>;

    /// A packet, and its interface; `out` is shown when the part that it came in has been read.
    fn packet(&mut self, captured: &Captured<'_>, out: &mut Vec<u8>) -> Result<(), Failure>;

    /// Whether all packets must have a link header.
    fn needs_link_header(&self) -> bool {
        false
    }

    /// All packets of a part have been given.
    fn part_ends(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Whether no more is wanted.
    fn is_full(&self) -> bool {
        false
    }

    /// The capture ends.
    fn end(&mut self, _counts: Statistics) -> Result<(), Failure> {
        Ok(())
    }
}

/// A captured packet.
struct Captured<'c> {
    /// Its block, as it came.
    block: &'c [u8],
    packet: Packet<'c>,
    link_type: u16,
    /// Its interface.
    interface: &'c str,
}

impl Captured<'_> {
    /// Why it was dropped, if it was.
    fn reason(&self) -> Option<&str> {
        self.packet.comment.strip_prefix("dropped: ")
    }

    const fn direction(&self) -> &'static str {
        match self.packet.direction {
            Some(pcap::Direction::In) => "In",
            Some(pcap::Direction::Out) => "Out",
            None => "Drop",
        }
    }
}

/// Captured packets so far.
struct Run {
    /// Packets that are still wanted.
    left: u64,
    captured: u64,
    /// When the stack read what came last, nanoseconds since 1970.
    read_ns: u64,
    counts: Statistics,
}

impl Run {
    /// As tcpdump says it.
    fn summary(&self) -> String {
        let Statistics { accepted, lost } = self.counts;
        // Packets behind the last statistics are not in them.
        let accepted = accepted.max(self.captured);
        format!(
            "{} captured\n{} received by filter\n{} dropped by pantala",
            counted(self.captured, "packet"),
            counted(accepted, "packet"),
            counted(lost, "packet")
        )
    }
}

fn listening(request: &CaptureRequest, link_type: u16) -> String {
    let names = if request.interfaces.is_empty() { "any".to_owned() } else { request.interfaces.join(", ") };
    let link = if link_type == pcap::RAW { "RAW (Raw IP)" } else { "EN10MB (Ethernet)" };
    format!("listening on {names}, link-type {link}, snapshot length {} bytes", request.snap_len)
}

/// Whether the link type that is asked for is Ethernet; no other is made.
fn has_link_header(link_type: Option<&str>) -> Result<bool, Failure> {
    match link_type {
        None => Ok(false),
        Some("EN10MB") => Ok(true),
        Some(other) => Err(Failure::usage(format!("tcpdump: -y cannot be `{other}`; known is EN10MB"))),
    }
}

fn interfaces(names: &str) -> Vec<String> {
    if names == "any" { Vec::new() } else { names.split(',').map(str::to_owned).collect() }
}

pub(crate) fn places(words: &str) -> Result<Vec<CapturePlace>, Failure> {
    let mut places = Vec::new();
    for word in words.split(',') {
        match word {
            "in" => places.push(CapturePlace::In),
            "out" => places.push(CapturePlace::Out),
            "inout" => places.extend([CapturePlace::In, CapturePlace::Out]),
            "drop" => places.push(CapturePlace::Drop),
            _ => {
                let known = "in, out, inout and drop";
                return Err(Failure::usage(format!("tcpdump: -Q cannot be `{word}`; known are {known}")));
            }
        }
    }
    Ok(places)
}

fn output_failed(what: &str, why: &io::Error) -> Failure {
    Failure::Failed(format!("cannot write {what}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Tcpdump, Failure> {
        Tcpdump::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn flags_arrive_in_the_request_and_operands_are_the_filter() {
        let dump =
            read("-nvvi lan,wan -Q in,drop -s 96 -B 128 -c 3 tcp port 80 and not host 192.0.2.1").unwrap();
        let request = CaptureRequest {
            interfaces: vec!["lan".into(), "wan".into()],
            places: vec![CapturePlace::In, CapturePlace::Drop],
            snap_len: 96,
            filter: Vec::new(),
            buffer_kib: 128,
            with_link_header: false,
        };
        assert_eq!((dump.request, dump.count), (request, Some(3)));
        assert_eq!(dump.filter, "tcp port 80 and not host 192.0.2.1");
        assert_eq!(dump.passed, ["-n", "-v", "-v"]);
    }

    #[test]
    fn without_flags_all_interfaces_are_captured_in_both_directions() {
        for line in ["", "-i any", "-s 0 -l -U"] {
            assert_eq!(read(line).unwrap().request, CaptureRequest::default(), "{line}");
        }
    }

    #[test]
    fn other_lines_are_explained() {
        for (line, says) in [
            ("-c 0", "-c takes 1 or more"),
            ("-Q sideways", "-Q cannot be `sideways`"),
            ("-C 1", "-C needs -w FILE"),
            ("-w - -G 5", "-G needs -w FILE"),
            ("-w x -W 5", "-W needs -C or -G"),
            ("-w x -C 0", "-C takes 1 or more"),
            ("-K", "there is no flag -K"),
            ("-y RAW", "-y cannot be `RAW`"),
        ] {
            let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
            assert!(text.contains(says), "{line}: {text}");
        }
    }
}
