//! Names to addresses.

use core::net::IpAddr;
use std::net::ToSocketAddrs;

use super::Failure;
use crate::api::Family;

/// The address of a host: as it is written, or what the system's resolver knows (of `family`, if given).
pub(crate) fn host(name: &str, family: Option<Family>) -> Result<IpAddr, Failure> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return of_family(address, family);
    }
    let unknown = || Failure::Failed(format!("the name `{name}` cannot be resolved"));
    let mut found = (name, 0).to_socket_addrs().map_err(|_| unknown())?.map(|socket| socket.ip());
    found.find(|address| family.is_none_or(|family| family == Family::of(*address))).ok_or_else(unknown)
}

fn of_family(address: IpAddr, family: Option<Family>) -> Result<IpAddr, Failure> {
    match family {
        Some(family) if family != Family::of(address) => {
            Err(Failure::usage(format!("{address} is not an address of the family {family}")))
        }
        _ => Ok(address),
    }
}
