//! The user that `pantala up` runs as.

use std::fs::File;
use std::path::Path;

use dev::sys::tun_reserve;
use dev::sys::user::{self, User};

use super::admin::SHARED;
use super::log;
use super::privileges::group;
use crate::StackError;
use crate::config::Config;

/// The user of its own that a system may have for pantala.
const OWN: &str = "pantala";

/// The user to become: `None` if this process is to stay what it is.
///
/// # Errors
/// The configuration names one that is not there, or that this process may not become.
pub(crate) fn identity(config: &Config) -> Result<Option<User>, StackError> {
    let misfit = |text: String| Err(StackError::Misfit(text));
    let (uid, _) = user::current();
    if uid != 0 {
        return match &config.user {
            Some(name) if named(name)?.is_none_or(|user| user.uid != uid) => misfit(format!(
                "user = \"{name}\": only root can become another user; start as root, or leave it out"
            )),
            _ => Ok(None),
        };
    }
    let found = match &config.user {
        Some(name) => match named(name)? {
            Some(user) => user,
            None => {
                return misfit(format!(
                    "user = \"{name}\": no such user; `useradd --system {name}` makes it"
                ));
            }
        },
        None => usual()?,
    };
    let gid = match &config.group {
        Some(name) => group(name)?,
        None => found.gid,
    };
    Ok(Some(User { gid, ..found }).filter(|user| user.uid != 0))
}

/// Becomes another user, before any thread is started. Capabilities are kept until devices are open.
///
/// # Errors
/// The configuration asks for it, and the kernel refuses.
pub(crate) fn leave_root(identity: Option<&User>, config: &Config) -> Result<(), StackError> {
    let Some(User { name, uid, gid }) = identity else { return Ok(()) };
    if !tun_reserve::is_open_to_all() {
        // Without them, TAPs cannot be opened again later.
        let kept = tun_reserve::fill();
        kept.map_err(|why| StackError::System { doing: "keep descriptors of /dev/net/tun", why })?;
    }
    match user::become_user(*uid, *gid) {
        Ok(()) => log::debug(&format!("goes on as user {name} ({uid}), group {gid}")),
        Err(why) if config.user.is_some() => {
            return Err(StackError::Misfit(format!("cannot become user {name}: {why}")));
        }
        // The root of a user namespace that has no other user is an ordinary user outside of it.
        Err(why) => log::info(&format!("stays user 0, which has no {name} beside it here: {why}")),
    }
    Ok(())
}

/// Says what this user will not be able to do later.
pub(crate) fn warn_of_what_is_out_of_reach(identity: Option<&User>, file: Option<&Path>) {
    let (Some(user), Some(file)) = (identity, file) else { return };
    if let Err(why) = File::open(file) {
        let (file, name) = (file.display(), &user.name);
        log::warning(&format!(
            "{file}: {why} for user {name}, so it cannot be read again by `pantala reload`"
        ));
    }
}

/// Returns `pantala`, if there is such a user, else `nobody`.
fn usual() -> Result<User, StackError> {
    for name in [OWN, SHARED.0] {
        if let Some(user) = named(name)? {
            return Ok(user);
        }
    }
    let (name, number) = SHARED;
    Ok(User { name: name.to_owned(), uid: number, gid: number })
}

/// A user by name or number.
fn named(name: &str) -> Result<Option<User>, StackError> {
    if let Ok(uid) = name.parse() {
        return Ok(Some(User { name: name.to_owned(), uid, gid: uid }));
    }
    user::user(name).map_err(|why| StackError::System { doing: "look for a user", why })
}
