//! Keys from the kernel's random generator.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Draws a key; waits for the kernel to have collected enough entropy, early after boot.
pub(crate) fn key() -> io::Result<u128> {
    let mut bytes = [0; 16];
    // Up to 256 bytes come whole, getrandom(2) promises.
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        16 => Ok(u128::from_ne_bytes(bytes)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_keys_differ_and_none_is_zero() {
        let (a, b) = (key().unwrap(), key().unwrap());
        assert!(a != b && a != 0 && b != 0);
    }
}
