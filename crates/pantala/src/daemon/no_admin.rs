//! No control sockets: a build without the feature `admin`.

use core::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use dev::sys::user::User;

use crate::StackError;
use crate::api::stack::Stack;
use crate::config::Config;

/// The server of the admin API, which does not exist in this build.
pub(crate) struct Server(Infallible);

impl Server {
    #[expect(clippy::unused_async, reason = "as the server of a build that has one")]
    pub(crate) async fn serve(
        &self,
        _: Arc<Mutex<dyn Stack>>,
        _: impl Future<Output = ()>,
    ) -> io::Result<()> {
        match self.0 {}
    }
}

/// Refuses a configuration that names a control socket.
pub(crate) fn bind(path: &Path, _: &Config, _: Option<&User>) -> Result<Server, StackError> {
    let path = path.display();
    let text =
        format!("cannot listen at {path}: the admin API needs the feature `admin` of the crate `pantala`");
    Err(StackError::Misfit(text))
}
