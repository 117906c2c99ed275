//! `memif:SOCKET[,id=N][,role=ROLE][,ring_size=N][,buffer_size=N][,secret=TEXT][,group=NAME][,mode=MODE]`

use core::fmt;
use core::ops::RangeInclusive;
use std::path::PathBuf;

use dev::memif::{BUFFER_SIZE_MAX, BUFFER_SIZE_MIN, RING_SIZE_MAX, RING_SIZE_MIN, Role, SECRET_MAX};

use crate::config::admin::mode;
use crate::config::problem::Wrong;
use diagnostic::did_you_mean;

const OPTIONS: &[&str] = &["id", "role", "ring_size", "buffer_size", "secret", "group", "mode"];
const ROLES: &[&str] = &["master", "slave", "server", "client"];
/// Linux's `sun_path` without the final NUL.
const SOCKET_MAX: usize = 107;

/// Shared memory with another program, which is met at a Unix socket.
#[derive(Clone, PartialEq, Eq)]
pub struct Memif {
    /// The socket's file.
    pub socket: PathBuf,
    /// Which of the interfaces that share the socket.
    pub id: u32,
    /// Whether we listen (the master) or connect (the slave).
    pub role: Role,
    /// Descriptors of each ring; the slave's word counts.
    pub ring_size: u32,
    /// Bytes of each buffer; the slave's word counts.
    pub buffer_size: u32,
    /// The shared secret, if any. It is not shown.
    pub secret: Option<String>,
    /// The group of a master's socket, by its name or number; that of the control socket if `None`.
    pub group: Option<String>,
    /// The mode of a master's socket; that of the control socket if `None`.
    pub mode: Option<u32>,
}

impl Memif {
    fn new(socket: &str) -> Self {
        Self {
            socket: socket.into(),
            id: 0,
            role: Role::default(),
            ring_size: 1024,
            buffer_size: 2048,
            secret: None,
            group: None,
            mode: None,
        }
    }

    /// Reads what stands behind `memif:`.
    pub(super) fn parse(rest: &str) -> Result<Self, Wrong> {
        let mut words = rest.split(',');
        let mut memif = Self::new(socket(words.next().unwrap_or_default())?);
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "id" => memif.id = number(key, value, 0..=u32::MAX)?,
                "role" => memif.role = role(value)?,
                "ring_size" => memif.ring_size = ring_size(value)?,
                "buffer_size" => memif.buffer_size = number(key, value, BUFFER_SIZE_MIN..=BUFFER_SIZE_MAX)?,
                "secret" => memif.secret = Some(secret(value)?),
                "group" => memif.group = Some(group(value)?),
                "mode" => memif.mode = Some(mode(value)?),
                other => {
                    let help = did_you_mean(other, OPTIONS);
                    return Err(Wrong::new(format!("unknown option `{word}` of memif"), help));
                }
            }
        }
        Ok(memif)
    }
}

/// Without the secret.
impl fmt::Display for Memif {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { socket, id, ring_size, buffer_size, group, mode, .. } = self;
        let plain = Self::new("");
        write!(f, "memif:{},id={id},role={}", socket.display(), word(self.role))?;
        if *ring_size != plain.ring_size {
            write!(f, ",ring_size={ring_size}")?;
        }
        if *buffer_size != plain.buffer_size {
            write!(f, ",buffer_size={buffer_size}")?;
        }
        group.as_ref().map_or(Ok(()), |group| write!(f, ",group={group}"))?;
        mode.map_or(Ok(()), |mode| write!(f, ",mode={mode:04o}"))
    }
}

impl fmt::Debug for Memif {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The role's word in the configuration.
pub(crate) const fn word(role: Role) -> &'static str {
    match role {
        Role::Master => "master",
        Role::Slave => "slave",
    }
}

fn socket(path: &str) -> Result<&str, Wrong> {
    if path.starts_with('@') {
        return Err(Wrong::new(
            "memif sockets are files, not abstract names",
            "write memif:/run/NAME.sock; DPDK then needs socket-abstract=no",
        ));
    }
    if (1..=SOCKET_MAX).contains(&path.len()) {
        return Ok(path);
    }
    let message = format!("`{path}` cannot be the file of a socket");
    Err(Wrong::new(message, format!("write memif:/run/NAME.sock, 1 to {SOCKET_MAX} bytes")))
}

fn role(word: &str) -> Result<Role, Wrong> {
    match word {
        "master" | "server" => Ok(Role::Master),
        "slave" | "client" => Ok(Role::Slave),
        other => Err(Wrong::new(format!("unknown memif role `{other}`"), did_you_mean(other, ROLES))),
    }
}

fn ring_size(text: &str) -> Result<u32, Wrong> {
    let range = RING_SIZE_MIN..=RING_SIZE_MAX;
    let help = format!("write a power of two from {RING_SIZE_MIN} to {RING_SIZE_MAX}, as in ring_size=1024");
    let wrong = || Wrong::new(format!("`{text}` is no ring_size of memif"), help);
    text.parse().ok().filter(|size: &u32| size.is_power_of_two() && range.contains(size)).ok_or_else(wrong)
}

fn number(key: &str, text: &str, range: RangeInclusive<u32>) -> Result<u32, Wrong> {
    let help =
        format!("write a number from {} to {}, as in {key}={}", range.start(), range.end(), range.start());
    let wrong = || Wrong::new(format!("`{text}` is no {key} of memif"), help);
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(wrong)
}

fn group(name: &str) -> Result<String, Wrong> {
    let wrong = || Wrong::new("a memif socket without a group", "write group=NAME, or leave it out");
    Some(name.to_owned()).filter(|name| !name.is_empty()).ok_or_else(wrong)
}

fn secret(text: &str) -> Result<String, Wrong> {
    if (1..=SECRET_MAX).contains(&text.len()) {
        return Ok(text.to_owned());
    }
    Err(Wrong::new(
        format!("a memif secret of {} bytes", text.len()),
        format!("write 1 to {SECRET_MAX} bytes, the same at both ends"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_the_words_of_both_worlds() {
        for (text, expected) in [
            ("master", Role::Master),
            ("server", Role::Master),
            ("slave", Role::Slave),
            ("client", Role::Slave),
        ] {
            assert_eq!(Memif::parse(&format!("/run/x,role={text}")).unwrap().role, expected);
        }
        assert_eq!(Memif::parse("/run/x").unwrap().role, Role::Master);
    }

    #[test]
    fn the_group_and_the_mode_of_a_socket_are_read_as_those_of_the_control_socket() {
        let memif = Memif::parse("/run/x,group=vpp,mode=0666").unwrap();
        assert_eq!((memif.group.as_deref(), memif.mode), (Some("vpp"), Some(0o666)));
        assert!(memif.to_string().ends_with(",group=vpp,mode=0666"), "{memif}");
        for wrong in ["group=", "mode=0777", "mode=rw", "mode=0060"] {
            assert!(Memif::parse(&format!("/run/x,{wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_secret_is_kept_and_not_shown() {
        let memif = Memif::parse("/run/x,secret=sesame").unwrap();
        assert_eq!(memif.secret.as_deref(), Some("sesame"));
        assert!(!format!("{memif} {memif:?}").contains("sesame"));
    }
}
