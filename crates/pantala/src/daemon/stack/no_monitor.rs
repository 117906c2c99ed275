//! No monitor mode: a build without the packet generator, whose receiver it is.

use net::tables::IfIndex;

use super::super::control::Control;
use crate::api::{Error, ErrorKind, Latencies, Monitored};

impl Control {
    pub(in super::super) fn watch(&self, _: IfIndex, on: bool) -> Result<(), Error> {
        if on { Err(absent()) } else { Ok(()) }
    }

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as in a build that has it")]
    pub(super) fn latencies(&self) -> Result<Vec<Latencies>, Error> {
        Ok(Vec::new())
    }

    #[expect(clippy::unused_self, reason = "as in a build that has it")]
    pub(super) fn what_was_monitored(&self, _: &str) -> Result<Monitored, Error> {
        Err(absent())
    }
}

fn absent() -> Error {
    Error::new(ErrorKind::Invalid, "monitor mode needs the feature `cli` of the crate `pantala`")
}
