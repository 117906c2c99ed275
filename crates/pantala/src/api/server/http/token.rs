//! The token that requests carry.

use core::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Fewer characters can be guessed.
const LENGTH_MIN: usize = 32;
/// Bytes of a token file, at the most.
const LENGTH_MAX: u64 = 1024;

/// A secret text.
#[derive(Clone)]
pub(crate) struct Token(Box<[u8]>);

/// The reason why a token file has no token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// The operating system refuses.
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    /// All users of the machine may read or write it.
    #[error("mode {0:04o} lets all users read or write it: `chmod o= FILE` mends that")]
    Public(u32),
    /// Another kind of file, or too much of one.
    #[error("not a file of at most {LENGTH_MAX} bytes")]
    NotFile,
    /// Not a token.
    #[error(
        "a token has one line of at least {LENGTH_MIN} letters and digits: `openssl rand -hex 32` makes one"
    )]
    Malformed,
}

impl Token {
    /// Reads a token file.
    pub(crate) fn read(path: &Path) -> Result<Self, TokenError> {
        let file = File::open(path)?;
        let facts = file.metadata()?;
        if !facts.is_file() || facts.len() > LENGTH_MAX {
            return Err(TokenError::NotFile);
        }
        if facts.mode() & 0o006 != 0 {
            return Err(TokenError::Public(facts.mode() & 0o7777));
        }
        let mut text = Vec::new();
        file.take(LENGTH_MAX).read_to_end(&mut text)?;
        Self::parse(text.trim_ascii()).ok_or(TokenError::Malformed)
    }

    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let is_token = text.len() >= LENGTH_MIN && text.iter().all(u8::is_ascii_graphic);
        is_token.then(|| Self(text.into()))
    }

    /// Whether `offered` is the token. The time that it takes depends on the length of the offer alone.
    pub(super) fn is(&self, offered: &[u8]) -> bool {
        let own = self.0.iter().copied().cycle();
        let differences = offered.iter().zip(own).fold(0, |all, (a, b)| core::hint::black_box(all | (a ^ b)));
        core::hint::black_box(differences) == 0 && offered.len() == self.0.len()
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.0)
    }
}

impl Eq for Token {}

/// Shows nothing of it.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_token_equals_itself_alone() {
        let token = Token::parse(TOKEN.as_bytes()).unwrap();
        assert!(token.is(TOKEN.as_bytes()));
        for other in ["", "0", &TOKEN[1..], &TOKEN[..31], &TOKEN.replace('f', "g"), &TOKEN.repeat(2)] {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
        assert!(!format!("{token:?}").contains('0'));
    }

    #[test]
    fn a_token_file_is_for_its_owner_and_group_and_has_a_long_token() {
        let path = std::env::temp_dir().join(format!("pt-token-{}", std::process::id()));
        let read = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Token::read(&path).map_err(|why| why.to_string())
        };
        for mode in [0o600, 0o400, 0o640, 0o440] {
            assert!(read(&format!("{TOKEN}\n"), mode).unwrap().is(TOKEN.as_bytes()));
        }
        for mode in [0o644, 0o604, 0o602] {
            assert!(read(TOKEN, mode).unwrap_err().contains("lets all users"), "{mode:o}");
        }
        let long = "x".repeat(2000);
        for text in ["", "\n", "short", &format!("{TOKEN} {TOKEN}"), &format!("{TOKEN}\n{TOKEN}\n"), &long] {
            assert!(read(text, 0o600).is_err(), "{text}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(Token::read(&path).unwrap_err().to_string().contains("No such file"));
        assert!(matches!(Token::read(&std::env::temp_dir()), Err(TokenError::NotFile)));
    }
}
