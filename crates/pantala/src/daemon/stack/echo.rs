//! `ping` from the running stack.

use tokio::sync::mpsc;

use super::super::control::Control;
use crate::api::stack::{Echo, EchoAnswer};
use crate::api::{Error, ErrorKind};

impl Control {
    pub(super) fn send_echo(&self, echo: &Echo, _answers: mpsc::Sender<EchoAnswer>) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Unsupported, format!("cannot ping {} yet", echo.to)))
    }
}
