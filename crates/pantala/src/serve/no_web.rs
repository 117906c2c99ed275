//! No web server: a build without the feature `web`.

use core::convert::Infallible;
use core::net::SocketAddr;
use std::io;
use std::path::Path;
use std::thread::JoinHandle;

use net::app::{App, AppContext, Handle};
use net::msg::Remote;
use net::sock::Error;
use net::tcp::{Accepted, Id};
use pkt::counters::CounterReader;

use super::{Hit, Limits};
use crate::config::Seccomp;

/// A web server on one CPU, which does not exist in this build.
pub(crate) struct Web(Infallible);

impl Web {
    pub(crate) fn counters(&self) -> CounterReader<Hit> {
        match self.0 {}
    }
}

impl App for Web {
    fn begin(&mut self, _: &mut AppContext<'_>) -> Result<(), Error> {
        match self.0 {}
    }

    fn accepted(&mut self, _: &mut AppContext<'_>, _: u32, _: Accepted) -> u32 {
        match self.0 {}
    }

    fn readable(&mut self, _: &mut AppContext<'_>, _: Handle<Id>) {}
}

/// Refuses to serve.
pub(crate) fn confined_folder(
    _: &Path,
    _: SocketAddr,
    _: Vec<Remote>,
    _: Limits,
    _: Seccomp,
) -> io::Result<(Vec<Web>, JoinHandle<()>)> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "the web server needs the feature `web` of the crate `pantala`",
    ))
}
