//! `serve DIR`: a stack of its own that serves a folder to the web.

use core::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use ipnet::IpNet;

use super::own_stack::OwnStack;
use super::{Failure, up};
use crate::Builder;
use crate::daemon;
use crate::daemon::log::{self, Level};

/// The port that a URL need not name.
const HTTP: u16 = 80;

pub(crate) const HELP: &str = "\
Without --device, it creates a TAP called pantala0 whose other end is this
machine's kernel:

  pantala serve /srv/www &
  curl http://10.71.0.1/

It is the same as `pantala up` with a section [[serve]], and the same commands
control it.";

/// Options of `serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The folder; nothing outside of it is served, whatever links lead there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The TCP port
    #[arg(long, default_value_t = HTTP)]
    port: u16,
    #[command(flatten)]
    pub(super) stack: OwnStack,
}

impl Serve {
    pub(crate) fn run(&self, socket: Option<PathBuf>) -> Result<(), Failure> {
        log::to_stderr(Level::Info);
        let file = Path::new("pantala serve");
        let config = self.build().config_called("pantala serve");
        let config = config.map_err(|problems| Failure::Misconfigured(problems.to_string()))?;
        let attach = || {
            log::info(&format!("web server at {}", self.urls().join(" and ")));
            self.stack.attach()
        };
        daemon::run(None, config, socket, attach).map_err(|why| up::failure(file, why))
    }

    /// The stack that this amounts to.
    fn build(&self) -> Builder {
        self.stack.build().serve(&self.folder, self.port)
    }

    /// Where the folder is to be found.
    fn urls(&self) -> Vec<String> {
        let url = |(own, _): (IpNet, _)| match SocketAddr::new(own.addr(), self.port) {
            SocketAddr::V4(addr) if self.port == HTTP => format!("http://{}/", addr.ip()),
            SocketAddr::V6(addr) if self.port == HTTP => format!("http://[{}]/", addr.ip()),
            addr => format!("http://{addr}/"),
        };
        self.stack.addresses().into_iter().map(url).collect()
    }
}
