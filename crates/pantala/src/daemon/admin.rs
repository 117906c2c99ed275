//! The control sockets of a configuration.

use std::path::Path;

use dev::sys::user::User;

use super::privileges;
use crate::StackError;
use crate::api::server::Access;
pub(crate) use crate::api::server::Server;
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
