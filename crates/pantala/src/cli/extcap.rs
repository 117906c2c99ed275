//! `extcap`: Wireshark's interface to programs that capture. It lists interfaces, their link types and options, and writes
//! what is captured into a pipe.

use std::path::PathBuf;

use super::tcpdump::{Tcpdump, places};
use super::{Failure, Session};
use crate::api::{CaptureRequest, DeviceMode, Interface};

pub(crate) const USAGE: &str = "\
pantala extcap --extcap-interfaces
       pantala extcap --extcap-interface NAME --extcap-dlts | --extcap-config
       pantala extcap --extcap-interface NAME --capture --fifo PATH
               [--extcap-capture-filter FILTER] [--places PLACES]
               [--snaplen BYTES]";

pub(crate) const HELP: &str = "  Wireshark and tshark call it, through a script in their extcap folder:

  #!/bin/sh
  exec pantala extcap \"$@\"

  --extcap-interfaces      the interfaces of the running stack, and `any`
  --extcap-dlts            their link type
  --extcap-config          what Wireshark asks for before a capture
  --capture                capture into --fifo until that is closed
  --extcap-capture-filter  a pcap-filter(7); without --capture it is checked
  --places PLACES          as -Q of `pantala tcpdump`
  --snaplen BYTES          keep so many bytes of each packet

Examples:
  tshark -D
  tshark -i pantala-lan -f 'tcp port 80'";

/// In front of the names of interfaces, so that they are not taken for those of the kernel.
const PREFIX: &str = "pantala-";
/// The link type of interfaces.
const DLT: &str = "dlt {number=1}{name=EN10MB}{display=Ethernet}\n";
/// The link type of interfaces without frames.
const DLT_RAW: &str = "dlt {number=12}{name=RAW}{display=Raw IP}\n";
const CONFIG: &str = "\
arg {number=0}{call=--places}{display=Packets}{type=selector}{tooltip=Where in the stack packets are captured}
value {arg=0}{value=inout}{display=Received and sent}{default=true}
value {arg=0}{value=in}{display=Received}{default=false}
value {arg=0}{value=out}{display=Sent}{default=false}
value {arg=0}{value=drop}{display=Dropped, with the reason}{default=false}
value {arg=0}{value=inout,drop}{display=Received, sent and dropped}{default=false}
arg {number=1}{call=--snaplen}{display=Snapshot length}{type=unsigned}{range=1,262144}{default=262144}
arg {number=2}{call=--socket}{display=Control socket}{type=string}{tooltip=Of the running pantala; empty for the usual one}
";

/// What Wireshark wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Extcap {
    Interfaces,
    /// The link type of an interface.
    Dlts(Option<String>),
    Config,
    /// Whether a filter is one.
    Check(String),
    Capture(Box<Capture>),
}

/// A capture into a pipe.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Capture {
    request: CaptureRequest,
    filter: String,
    fifo: PathBuf,
}

/// The options of a command line.
#[derive(Default)]
struct Options {
    /// Those without a value.
    lists: Vec<String>,
    interface: Option<String>,
    filter: Option<String>,
    fifo: Option<String>,
    places: Option<String>,
    snap_len: Option<String>,
}

impl Options {
    /// `--name value` and `--name=value`; what later versions of Wireshark add about themselves is ignored.
    fn read(words: &[String]) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, attached) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let slot = match name {
                "--extcap-interfaces" | "--extcap-dlts" | "--extcap-config" | "--capture" => {
                    options.lists.push(name.to_owned());
                    continue;
                }
                "--extcap-interface" => &mut options.interface,
                "--extcap-capture-filter" => &mut options.filter,
                "--fifo" => &mut options.fifo,
                "--places" => &mut options.places,
                "--snaplen" => &mut options.snap_len,
                "--extcap-version" => continue,
                _ => return Err(Failure::usage(format!("extcap: there is no `{word}`"))),
            };
            let value = attached.or_else(|| words.next().cloned());
            *slot = Some(value.ok_or_else(|| Failure::usage(format!("extcap: {name} needs a value")))?);
        }
        Ok(options)
    }

    fn has(&self, name: &str) -> bool {
        self.lists.iter().any(|list| list == name)
    }

    fn capture(self) -> Result<Capture, Failure> {
        let missing = |what| Failure::usage(format!("extcap: --capture needs {what}"));
        let name = self.interface.ok_or_else(|| missing("--extcap-interface"))?;
        let fifo = self.fifo.ok_or_else(|| missing("--fifo"))?.into();
        let name = name.strip_prefix(PREFIX).unwrap_or(&name);
        let interfaces = if name == "any" { Vec::new() } else { vec![name.to_owned()] };
        let mut request = CaptureRequest { interfaces, ..CaptureRequest::default() };
        if let Some(words) = &self.places {
            request.places = places(words)?;
        }
        if let Some(bytes) = &self.snap_len {
            let wrong = |_| Failure::usage(format!("extcap: --snaplen takes a number, not `{bytes}`"));
            let bytes: u32 = bytes.parse().map_err(wrong)?;
            request.snap_len = bytes.clamp(1, request.snap_len);
        }
        Ok(Capture { request, filter: self.filter.unwrap_or_default(), fifo })
    }
}

impl Extcap {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let options = Options::read(words)?;
        if options.has("--capture") {
            return Ok(Self::Capture(Box::new(options.capture()?)));
        }
        match options {
            _ if options.has("--extcap-interfaces") => Ok(Self::Interfaces),
            _ if options.has("--extcap-dlts") => Ok(Self::Dlts(options.interface)),
            _ if options.has("--extcap-config") => Ok(Self::Config),
            Options { filter: Some(filter), .. } => Ok(Self::Check(filter)),
            _ => Err(Failure::usage("extcap: what is wanted? See `pantala extcap --help`")),
        }
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        match self {
            Self::Interfaces => {
                // Wireshark asks at each start, also where no stack runs.
                let all: Vec<Interface> = session.client.get("/v1/interfaces").unwrap_or_default();
                Ok(session.term.show(&interfaces(&all))?)
            }
            Self::Dlts(name) => {
                let name = name.as_deref().unwrap_or_default();
                let name = name.strip_prefix(PREFIX).unwrap_or(name);
                let all: Vec<Interface> = session.client.get("/v1/interfaces").unwrap_or_default();
                let is_raw = |interface: &Interface| {
                    let mode = interface.device.as_ref().map(|device| device.mode);
                    let is_bare =
                        matches!(mode, Some(DeviceMode::Tun | DeviceMode::Tunnel | DeviceMode::Pppoe));
                    interface.name == name && is_bare
                };
                Ok(session.term.show(if all.iter().any(is_raw) { DLT_RAW } else { DLT })?)
            }
            Self::Config => Ok(session.term.show(CONFIG)?),
            Self::Check(filter) => {
                // A text says what is wrong; none that nothing is.
                let capture = Tcpdump::into_pipe(CaptureRequest::default(), filter, PathBuf::new());
                match capture.compiled() {
                    Ok(_) => Ok(()),
                    Err(Failure::Usage(text) | Failure::Failed(text)) => Ok(session.term.show(&text)?),
                    Err(other) => Err(other),
                }
            }
            Self::Capture(capture) => {
                let Capture { request, filter, fifo } = *capture;
                Tcpdump::into_pipe(request, filter, fifo).run(session)
            }
        }
    }
}

/// The list of interfaces that can be captured, and of all of them together.
fn interfaces(all: &[Interface]) -> String {
    let mut text = format!("extcap {{version={}}}\n", env!("CARGO_PKG_VERSION"));
    let has_packets = |interface: &&Interface| {
        interface.device.as_ref().is_some_and(|device| device.mode != DeviceMode::Loopback)
    };
    let with_packets = all.iter().filter(has_packets);
    let names: Vec<&str> = with_packets.map(|interface| interface.name.as_str()).collect();
    let any = (!names.is_empty()).then_some("any");
    for name in any.into_iter().chain(names) {
        text += &format!("interface {{value={PREFIX}{name}}}{{display=pantala: {name}}}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::CapturePlace;

    fn read(line: &str) -> Result<Extcap, Failure> {
        Extcap::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn each_call_of_wireshark_is_understood() {
        for (line, wants) in [
            ("--extcap-interfaces --extcap-version=4.4", Extcap::Interfaces),
            ("--extcap-interface pantala-lan --extcap-dlts", Extcap::Dlts(Some("pantala-lan".into()))),
            ("--extcap-config --extcap-interface=pantala-lan", Extcap::Config),
            ("--extcap-interface pantala-lan --extcap-capture-filter tcp", Extcap::Check("tcp".into())),
        ] {
            assert_eq!(read(line).unwrap(), wants, "{line}");
        }
    }

    #[test]
    fn a_capture_has_the_interface_the_filter_and_the_places_that_were_chosen() {
        let line = "--capture --extcap-interface pantala-lan --fifo /tmp/pipe --extcap-capture-filter icmp \
                    --places inout,drop --snaplen 96";
        let Extcap::Capture(capture) = read(line).unwrap() else { panic!("{line}") };
        assert_eq!(capture.request.interfaces, ["lan"]);
        assert_eq!(capture.request.places, [CapturePlace::In, CapturePlace::Out, CapturePlace::Drop]);
        assert_eq!((capture.request.snap_len, capture.filter.as_str()), (96, "icmp"));
        assert_eq!(capture.fifo, PathBuf::from("/tmp/pipe"));
        let Extcap::Capture(all) = read("--capture --extcap-interface pantala-any --fifo p").unwrap() else {
            panic!("all interfaces")
        };
        assert_eq!(all.request, CaptureRequest::default());
    }

    #[test]
    fn other_lines_are_explained() {
        for (line, says) in [
            ("", "what is wanted?"),
            ("--capture --fifo p", "--capture needs --extcap-interface"),
            ("--capture --extcap-interface lan", "--capture needs --fifo"),
            ("--capture --extcap-interface lan --fifo p --snaplen x", "--snaplen takes a number"),
            ("--capture --extcap-interface lan --fifo p --places up", "cannot be `up`"),
            ("--capture --fifo", "--fifo needs a value"),
            ("--colour", "there is no `--colour`"),
        ] {
            let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
            assert!(text.contains(says), "{line}: {text}");
        }
    }
}
