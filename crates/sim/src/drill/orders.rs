//! Commands of scripts that change the host.

use core::net::IpAddr;

use super::lab::Lab;
use super::program::Socket;
use super::shell::{Key, Order};
use super::sockstat;
use super::sysctl::{FASTOPEN_CLIENT, Sysctls};

/// The target of a command: the host's parts, and the addresses of both ends.
pub(super) struct Subject<'a> {
    pub(super) lab: &'a mut Lab,
    pub(super) sysctls: &'a mut Sysctls,
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
}

/// Does what an order says; `sockets` are those of the host's program.
///
/// # Errors
///
/// What cannot be done, or is not so.
pub(super) fn obey<'a>(
    order: Order,
    subject: Subject<'_>,
    sockets: impl Iterator<Item = &'a Socket>,
) -> Result<(), String> {
    let Subject { lab, sysctls, local, remote } = subject;
    match order {
        Order::Nothing => {}
        Order::Linux => sysctls.set_linux(),
        Order::Forget => lab.forget_paths(),
        Order::Keys(keys) => return set_keys(lab, (local, remote), &keys),
        Order::NoKeys => lab.set_key(remote, None),
        Order::Sysctl { name, value } => {
            if (name.as_str(), value.as_str()) == (FASTOPEN_CLIENT, "0") {
                lab.forget_paths();
            }
            return sysctls.set(&name, &value);
        }
        Order::Sockets { port, state, count } => return sockstat::check(sockets, lab, port, &state, &count),
        Order::Drop { state } => return sockstat::drop_all(sockets, lab, &state),
    }
    Ok(())
}

/// One end of each key is the host, which knows it by the other.
fn set_keys(lab: &mut Lab, (local, remote): (IpAddr, IpAddr), keys: &[Key]) -> Result<(), String> {
    for Key { ends, secret } in keys {
        if *ends != (local, remote) && *ends != (remote, local) {
            return Err(format!("a key is between {local} and {remote}"));
        }
        lab.set_key(remote, Some(secret));
    }
    Ok(())
}
