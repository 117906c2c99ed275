//! The control sockets of a configuration.

use core::convert::Infallible;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};

use dev::sys::user::User;

use super::control::Control;
use super::privileges;
use super::{locked, log};
use crate::StackError;
use crate::api::server::Access;
pub(crate) use crate::api::server::Server;
pub(super) use crate::api::server::http::HttpService;
use crate::api::server::http::{OpenHttp, Token};
use crate::config::{Admin, Config};

/// The one for programs without, and its number where no file names it.
pub(super) const SHARED: (&str, u32) = ("nobody", 65_534);

/// Binds the control socket at `path`, and the one that only shows, if the configuration has it.
pub(crate) fn bind(path: &Path, config: &Config, identity: Option<&User>) -> Result<Server, StackError> {
    let Admin { group, mode, read_socket, read_group, read_mode } = &config.admin;
    let server = Server::bind_for(path, &access(*mode, group.as_deref(), identity)?)?;
    let Some(path) = read_socket else { return Ok(server) };
    Ok(server.and_read_only(path, &access(*read_mode, read_group.as_deref(), identity)?)?)
}

/// Sets the owner of a control socket: its folder, if it is made, belongs to the user that removes the socket at the end, unless
/// other programs run as that user, too.
pub(super) fn access(mode: u32, named: Option<&str>, identity: Option<&User>) -> Result<Access, StackError> {
    let group = named.map(privileges::group).transpose()?;
    let folder_of = identity.map(|user| user.uid).filter(|uid| *uid != SHARED.1);
    Ok(Access { mode, group, folder_of })
}

/// Another HTTP listener, or none, which is not in force yet.
pub(super) struct NextHttp(Option<OpenHttp>);

impl Control {
    /// Opens the HTTP listener of a configuration if it, or its token, is another than the one in force; says so in a
    /// sentence.
    pub(super) fn next_http(
        &self,
        new: &Config,
        sentences: &mut Vec<String>,
    ) -> Result<Option<NextHttp>, StackError> {
        let before = self.http.in_force();
        let Some(http) = &new.http else {
            return Ok(before.map(|before| {
                sentences.push(format!("no HTTP at {}", before.config().listen));
                NextHttp(None)
            }));
        };
        let token = http.token_file.as_deref().map(token).transpose()?;
        if before.as_ref().is_some_and(|before| before.is_as(http, token.as_ref())) {
            return Ok(None);
        }
        let misfit = |why: std::io::Error| {
            let listen = http.listen;
            let hint = match why.kind() {
                ErrorKind::AddrInUse => "; another program listens there",
                ErrorKind::AddrNotAvailable => "; it must be an address of the kernel",
                ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE",
                _ => "",
            };
            StackError::Misfit(format!("[http] listen = \"{listen}\": {why}{hint}"))
        };
        let open = OpenHttp::open(http.clone(), token, before.as_deref()).map_err(misfit)?;
        let rights = if http.write { "read and write" } else { "read-only" };
        sentences.push(format!("HTTP at {}, {rights}", http.listen));
        Ok(Some(NextHttp(Some(open))))
    }

    /// Puts an HTTP listener in force.
    pub(super) fn settle_http(&self, next: Option<NextHttp>) {
        let Some(NextHttp(open)) = next else { return };
        if let Some(open) = &open {
            let is_open_to_all = open.config().token_file.is_none();
            let token = if is_open_to_all { ", without a token" } else { "" };
            log::info(&format!("HTTP at {}{token}", open.config().listen));
        }
        self.http.set(open);
    }
}

fn token(file: &Path) -> Result<Token, StackError> {
    Token::read(file)
        .map_err(|why| StackError::Misfit(format!("[http] token_file = \"{}\": {why}", file.display())))
}

/// Serves the HTTP listener, while there is one.
pub(super) async fn serve_http(control: &Arc<Mutex<Control>>) -> Infallible {
    let service = Arc::clone(&locked(control).http);
    let stack: Arc<Mutex<Control>> = Arc::clone(control);
    service.serve(stack).await
}
