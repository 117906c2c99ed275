//! Why there is no stack.

#[cfg(feature = "admin")]
use crate::api::server::BindError;
use crate::config::ConfigError;

/// Why a stack did not start, or ended. Each says what was wrong and, where something can be done, what.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// The configuration is wrong, or cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration does not fit the devices of this machine.
    #[error("{0}")]
    Misfit(String),
    /// The control socket.
    #[cfg(feature = "admin")]
    #[error(transparent)]
    Socket(#[from] BindError),
    /// The memory for packets.
    #[error("{0}")]
    Memory(pkt::ArenaError),
    /// A device.
    #[error("interface {interface}: {why}")]
    Device {
        /// The interface that was to have it.
        interface: String,
        /// The error.
        why: String,
    },
    /// A netisr does not answer, or has panicked.
    #[error("{0}")]
    Netisr(String),
    /// The operating system refused something else.
    #[error("{doing}: {why}")]
    System {
        /// The operation.
        doing: &'static str,
        /// The system's error.
        why: std::io::Error,
    },
}
