//! The real tcpdump, which prints what is captured.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use wire::pcap::{self, Statistics};

use super::{Captured, Failure, Output};

pub(super) struct Real {
    child: Child,
    /// `None` once it has been told that there is no more.
    stdin: Option<ChildStdin>,
    /// Records that it gets when the part has been read.
    pending: Vec<u8>,
    labels: Option<(Sender<Label>, JoinHandle<()>)>,
}

/// What a line says that tcpdump does not know.
struct Label {
    before: String,
    behind: String,
}

impl Real {
    /// Starts it; `None` if it is not installed.
    pub(super) fn start(flags: &[String], has_labels: bool) -> Result<Option<Self>, Failure> {
        // `-A` prints payload, whose lines cannot be told from those of packets.
        let has_labels = has_labels && !flags.iter().any(|flag| flag == "-A");
        let mut command = Command::new("tcpdump");
        command.args(["-l", "-r", "-"]).args(flags).stdin(Stdio::piped()).stderr(Stdio::null());
        command.stdout(if has_labels { Stdio::piped() } else { Stdio::inherit() });
        // The user's interrupt ends the capture, and then this.
        let mut child = match command.process_group(0).spawn() {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|why| Failure::Failed(format!("cannot start tcpdump: {why}")))?,
        };
        let mut pending = Vec::new();
        pcap::classic_head(&mut pending);
        let labels = child.stdout.take().map(|lines| {
            // It holds no more labels than there are packets in tcpdump's pipes.
            let (tell, labels) = channel();
            (tell, std::thread::spawn(move || label(lines, &labels)))
        });
        let stdin = child.stdin.take();
        Ok(Some(Self { child, stdin, pending, labels }))
    }
}

impl Output for Real {
    /// The classic format has one link type.
    fn needs_link_header(&self) -> bool {
        true
    }

    fn head(&mut self, _block: &[u8], _out: &mut Vec<u8>) -> Result<(), Failure> {
        Ok(())
    }

    fn packet(&mut self, captured: &Captured<'_>, _out: &mut Vec<u8>) -> Result<(), Failure> {
        let packet = &captured.packet;
        let lengths = [packet.bytes.len(), usize::try_from(packet.len).unwrap_or(usize::MAX)];
        pcap::classic_record(&mut self.pending, packet.at_ns, lengths, core::iter::once(packet.bytes));
        if let Some((tell, _)) = &self.labels {
            let before = format!("{} {:4} ", captured.interface, captured.direction());
            let behind = captured.reason().map(|reason| format!(" [{reason}]")).unwrap_or_default();
            // Once tcpdump has ended, the pipe is broken, too.
            let _ = tell.send(Label { before, behind });
        }
        Ok(())
    }

    fn part_ends(&mut self) -> Result<(), Failure> {
        let pending = core::mem::take(&mut self.pending);
        let Some(stdin) = &mut self.stdin else { return Ok(()) };
        stdin.write_all(&pending)?;
        Ok(stdin.flush()?)
    }

    fn end(&mut self, _counts: Statistics) -> Result<(), Failure> {
        let written = self.part_ends();
        self.stdin = None;
        if let Some((tell, printing)) = self.labels.take() {
            drop(tell);
            // A panic there has been reported.
            let _ = printing.join();
        }
        let status = self.child.wait()?;
        if status.success() { written } else { Err(Failure::Failed(format!("tcpdump failed: {status}"))) }
    }
}

/// Prints tcpdump's lines, the first of each packet with its label.
fn label(lines: ChildStdout, labels: &Receiver<Label>) {
    let mut out = io::stdout();
    for line in BufReader::new(lines).split(b'\n') {
        let Ok(line) = line else { return };
        let is_first = !line.first().is_some_and(u8::is_ascii_whitespace);
        let label = if is_first { labels.recv().ok() } else { None };
        let (before, behind) = label.map(|label| (label.before, label.behind)).unwrap_or_default();
        let whole = [before.as_bytes(), &line, behind.as_bytes(), b"\n"].concat();
        if out.write_all(&whole).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}
