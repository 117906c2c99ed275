//! The secret of this machine's stable addresses.

use super::{entropy, log};

/// Where systems keep what they are known by.
const MACHINE_ID: &str = "/etc/machine-id";

/// The secret that stable identifiers are made of (RFC 7217): the same at each start. Without one on the machine it is
/// drawn, and addresses change with each start.
pub(crate) fn secret() -> std::io::Result<u128> {
    let id = std::fs::read_to_string(MACHINE_ID).unwrap_or_default();
    match u128::from_str_radix(id.trim(), 16) {
        Ok(id) => Ok(id),
        Err(_) => {
            log::warning(&format!(
                "{MACHINE_ID} has no machine ID: addresses of `autoconf` change with each start"
            ));
            entropy::key()
        }
    }
}
