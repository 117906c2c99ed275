//! `pantala iperf`: throughput, loss and jitter of TCP and UDP, with the protocol of iperf3, as client and as server.
//!
//! ```text
//!   control connection: cookie, states, parameters, results         streams: TCP or UDP, up, down or both
//!   client ── PARAM_EXCHANGE ─ CREATE_STREAMS ─ TEST_START ─ TEST_RUNNING ─ TEST_END ─ EXCHANGE_RESULTS ─ DISPLAY_RESULTS ──▶
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`args`] | the command line |
//! | [`protocol`] | states, parameters and results as they are sent |
//! | [`control`] | the control connection, with limits of size and time |
//! | [`mod@line`] | a thread's end of a connection, whose other end is on a netisr |
//! | [`traffic`], [`stream`], [`pace`] | the application on each netisr, the bytes of a stream, and the rate of a sender |
//! | [`flow`] | a stream of the test, and its counters |
//! | [`course`] | a test from its first byte to its last: intervals, omitted seconds, retransmissions |
//! | [`client`], [`server`] | the two roles |
//! | [`rrul`] | round-trip times under load |
//! | [`text`], [`json`] | reports, worded as those of iperf3 |
//!
//! Bytes are made and counted by an application on the netisr that owns the connection. Threads have the control connection, the
//! clock and the report. A stack of its own has the device.

mod args;
mod client;
mod control;
mod course;
mod flow;
mod json;
mod line;
mod pace;
mod protocol;
mod rrul;
mod server;
mod stream;
#[cfg(test)]
mod tests;
mod text;
mod traffic;

use std::io;

pub(crate) use self::args::{HELP, Iperf};
use self::line::Agent;
use self::protocol::State;
use crate::api::TcpConnection;
use crate::{Stack, StackError};

/// The stack of a test, with an application on each of its CPUs.
pub(crate) struct Host {
    stack: Stack,
    agents: Vec<Agent>,
}

impl Host {
    pub(crate) fn new(stack: Stack) -> io::Result<Self> {
        let agents = line::agents(&stack).map_err(io::Error::other)?;
        Ok(Self { stack, agents })
    }

    /// Returns the CPU whose turn the `nth` connection is.
    fn agent(&self, nth: usize) -> &Agent {
        &self.agents[nth % self.agents.len()]
    }

    /// Returns the connections of the stack with `TCP_INFO`; none if it does not answer.
    fn connections(&self) -> Vec<TcpConnection> {
        /// More than a test has.
        const ROWS: usize = 1000;
        let page = self.stack.admin().tcp_connections(None, ROWS, true);
        page.map(|page| page.connections).unwrap_or_default()
    }

    fn stop(self) -> Result<(), StackError> {
        self.stack.stop()
    }
}

/// Why a test has failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("the server is busy with another test; try again later")]
    Busy,
    #[error("the peer has closed the control connection")]
    Closed,
    #[error("the control connection has been silent for {0} s, in wait of {1}")]
    Silent(u64, &'static str),
    #[error("a control message of {len} bytes; the limit is {limit}")]
    TooLong { len: u32, limit: u32 },
    #[error("a control message is not understood: {0}")]
    Garbled(String),
    #[error("unknown state {0} on the control connection; does the peer speak iperf3's protocol?")]
    UnknownState(i8),
    #[error("state {0:?} is out of order on the control connection")]
    OutOfOrder(State),
    #[error("the server reports error {code} of iperf3{}", errno_text(*.errno))]
    Server { code: i32, errno: i32 },
    #[error("the {0} has terminated the test")]
    Terminated(&'static str),
    #[error("interrupted")]
    Interrupted,
    #[error("no data for {0} ms (--rcv-timeout)")]
    NoData(u64),
    #[error("{0}: {1}")]
    Io(String, io::Error),
}

fn errno_text(errno: i32) -> String {
    if errno == 0 { String::new() } else { format!(": {}", io::Error::from_raw_os_error(errno)) }
}

impl Problem {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |why| Self::Io(what, why)
    }
}
