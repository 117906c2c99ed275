//! DPDK's telemetry socket: a question a message, an answer in JSON.

use anyhow::{Context, Result, ensure};
use rustix::fd::OwnedFd;
use rustix::io::{read, write};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use serde_json::Value;

/// Longest answer that the library makes.
const ANSWER_MAX: usize = 16 * 1024;

/// A connection to a running program.
pub struct Telemetry(OwnedFd);

impl Telemetry {
    /// Connects to the socket, which greets.
    pub fn connect(path: &str) -> Result<Self> {
        let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
        connect(&socket, &SocketAddrUnix::new(path)?).with_context(|| path.to_owned())?;
        let telemetry = Self(socket);
        telemetry.answer()?;
        Ok(telemetry)
    }

    /// A counter of the port: `ipackets`, `opackets`, `imissed`, `oerrors`.
    pub fn counter(&self, port: u16, name: &str) -> Result<u64> {
        let answer = self.ask(&format!("/ethdev/stats,{port}"))?;
        answer["/ethdev/stats"][name].as_u64().with_context(|| format!("no {name} in {answer}"))
    }

    /// Asks, and answers the answer.
    pub fn ask(&self, question: &str) -> Result<Value> {
        let sent = write(&self.0, question.as_bytes())?;
        ensure!(sent == question.len(), "half a question was sent");
        self.answer()
    }

    fn answer(&self) -> Result<Value> {
        let mut answer = vec![0; ANSWER_MAX];
        let len = read(&self.0, &mut *answer)?;
        Ok(serde_json::from_slice(&answer[..len])?)
    }
}
