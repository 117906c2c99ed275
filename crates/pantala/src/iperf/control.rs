//! The control connection: bytes of states, and JSON behind its length.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::time::Instant;

use net::channel::Setting;
use serde_json::Value;

use super::Problem;
use super::line::Line;
use super::protocol::State;

/// Time that a peer has for each step of the control connection.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Control {
    line: Line,
}

impl Control {
    pub(super) fn new(mut line: Line) -> Self {
        line.set(vec![Setting::NoDelay(true)]);
        line.forward();
        Self { line }
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.line.peer
    }

    /// Waits no longer than `wait` for the peer's next state.
    pub(super) fn poll(&self, wait: Duration) -> Result<Option<State>, Problem> {
        let mut byte = [0];
        match self.line.read(&mut byte, wait.max(Duration::from_millis(1))) {
            Ok(0) => Err(Problem::Closed),
            Ok(_) => State::of(byte[0]).map(Some),
            Err(why) if is_late(&why) => Ok(None),
            Err(why) => Err(broken(why)),
        }
    }

    /// Waits for the peer's next state.
    pub(super) fn state(
        &self,
        what: &'static str,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<State, Problem> {
        /// Time between looks for an interrupt.
        const LOOK: Duration = Duration::from_millis(100);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(state) = self.poll(LOOK)? {
                return Ok(state);
            }
            if is_interrupted() {
                return Err(Problem::Interrupted);
            }
        }
        Err(Problem::Silent(PATIENCE.as_secs(), what))
    }

    pub(super) fn tell(&self, state: State) -> Result<(), Problem> {
        self.write(vec![state.byte()])
    }

    /// Tells the client which error of iperf3 has happened.
    pub(super) fn tell_error(&self, code: i32) -> Result<(), Problem> {
        let mut bytes = vec![State::ServerError.byte()];
        bytes.extend(code.to_be_bytes());
        bytes.extend(0_i32.to_be_bytes());
        self.write(bytes)
    }

    /// Reads the error behind [`State::ServerError`].
    pub(super) fn error(&self) -> Problem {
        let mut bytes = [0; 8];
        match self.read(&mut bytes, "the server's error") {
            Ok(()) => {
                let [code, errno] = [0, 4].map(|at| {
                    let number = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
                    number.copied().map_or(0, i32::from_be_bytes)
                });
                Problem::Server { code, errno }
            }
            Err(_) => Problem::Server { code: 0, errno: 0 },
        }
    }

    pub(super) fn send(&self, value: &Value) -> Result<(), Problem> {
        let text = value.to_string();
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.write([&len.to_be_bytes(), text.as_bytes()].concat())
    }

    /// Reads a message of no more than `limit` bytes: that much memory a peer can claim.
    pub(super) fn receive(&self, limit: u32, what: &'static str) -> Result<Value, Problem> {
        let mut head = [0; 4];
        self.read(&mut head, what)?;
        let len = u32::from_be_bytes(head);
        if len > limit {
            return Err(Problem::TooLong { len, limit });
        }
        let mut bytes = vec![0; len as usize];
        self.read(&mut bytes, what)?;
        // iperf3 may send the NUL behind its text.
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        serde_json::from_slice(bytes.get(..end).unwrap_or_default())
            .map_err(|why| Problem::Garbled(why.to_string()))
    }

    /// Waits until the peer has heard the last word and closes, a second at the most: a stack that ends takes what is not sent along.
    pub(super) fn finish(&self) {
        let begun = Instant::now();
        self.line.shutdown();
        while begun.elapsed() < Duration::from_secs(1) && self.poll(Duration::from_millis(100)).is_ok() {}
    }

    pub(super) fn write(&self, bytes: Vec<u8>) -> Result<(), Problem> {
        self.line.write(bytes).map_err(broken)
    }

    fn read(&self, into: &mut [u8], what: &'static str) -> Result<(), Problem> {
        let deadline = Instant::now() + PATIENCE;
        let mut rest = into;
        while !rest.is_empty() {
            match self.line.read(rest, deadline.saturating_duration_since(Instant::now())) {
                Ok(0) => return Err(Problem::Closed),
                Ok(len) => rest = rest.get_mut(len..).unwrap_or_default(),
                Err(why) if is_late(&why) => return Err(Problem::Silent(PATIENCE.as_secs(), what)),
                Err(why) => return Err(broken(why)),
            }
        }
        Ok(())
    }
}

pub(super) fn is_late(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn broken(why: io::Error) -> Problem {
    match why.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Problem::Closed,
        _ => Problem::Io("the control connection".to_owned(), why),
    }
}
