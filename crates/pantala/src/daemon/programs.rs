//! The socket of unmodified programs, and the users that may use it.

use std::collections::HashSet;

use dev::sys::user::{self, User};

use super::control::Control;
use super::{admin, log, system};
use crate::StackError;
use crate::api::server::Bound;
use crate::config::{Config, Programs};
use crate::programs::{self, Limits};

/// A socket that is not open yet; its path is removed when this is dropped.
pub(super) struct ProgramSocket {
    bound: Bound,
    limits: Limits,
}

/// Binds the socket, if the configuration has the section.
pub(super) fn bind(config: &Config, identity: Option<&User>) -> Result<Option<ProgramSocket>, StackError> {
    let Some(wanted) = &config.programs else { return Ok(None) };
    let Programs { socket, group, mode, users, low_ports, requests, sockets } = wanted;
    let access = admin::access(*mode, group.as_deref(), identity)?;
    let limits = Limits {
        users: if users.is_empty() { None } else { Some(numbers(users)?) },
        low_ports: numbers(low_ports)?,
        requests: *requests,
        sockets: *sockets,
    };
    Ok(Some(ProgramSocket { bound: Bound::new(socket, &access)?, limits }))
}

/// Serves programs from now on.
pub(super) fn open(socket: Option<&ProgramSocket>, control: &mut Control) -> Result<(), StackError> {
    let Some(ProgramSocket { bound, limits }) = socket else { return Ok(()) };
    let listener = bound.listener().map_err(system("listen to programs"))?;
    let started = programs::start(listener, control.cpus.remotes(), limits.clone());
    control.programs = Some(started.map_err(system("serve programs"))?);
    log::info("programs are served");
    Ok(())
}

fn numbers(users: &[String]) -> Result<HashSet<u32>, StackError> {
    users.iter().map(|name| number(name)).collect()
}

fn number(name: &str) -> Result<u32, StackError> {
    if let Ok(uid) = name.parse() {
        return Ok(uid);
    }
    let found = user::user(name).map_err(system("look for a user"))?;
    found.map(|user| user.uid).ok_or_else(|| StackError::Misfit(format!("[programs]: no user {name}")))
}
