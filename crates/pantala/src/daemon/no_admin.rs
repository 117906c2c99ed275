//! No control sockets: a build without the feature `admin`.

use core::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use dev::sys::user::User;

use super::control::Control;
use crate::StackError;
use crate::api::HttpListener;
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

/// The HTTP listener, which does not exist in this build.
#[derive(Default)]
pub(super) struct HttpService(());

impl HttpService {
    pub(super) const fn status(&self) -> Option<HttpListener> {
        let Self(()) = self;
        None
    }
}

/// Another HTTP listener, which does not exist in this build.
pub(super) struct NextHttp(Infallible);

impl Control {
    /// Refuses a configuration with an HTTP listener.
    #[expect(clippy::unused_self, reason = "as that of a build that has one")]
    pub(super) fn next_http(
        &self,
        new: &Config,
        _: &mut Vec<String>,
    ) -> Result<Option<NextHttp>, StackError> {
        match new.http {
            None => Ok(None),
            Some(_) => {
                Err(StackError::Misfit("[http] needs the feature `admin` of the crate `pantala`".to_owned()))
            }
        }
    }

    #[expect(clippy::unused_self, reason = "as that of a build that has one")]
    pub(super) fn settle_http(&self, next: Option<NextHttp>) {
        match next {
            None => {}
            Some(next) => match next.0 {},
        }
    }
}

pub(super) async fn serve_http(_: &Arc<Mutex<Control>>) -> Infallible {
    core::future::pending().await
}
