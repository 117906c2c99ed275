//! The hub: a CPU, its netisr and the stages of a turn.

pub mod netisr;
pub(crate) mod pfil;
pub(crate) mod deliver;
pub mod cpu;
pub mod msg;
pub mod timers;
pub mod rss;
pub mod ringmap;
pub mod next;
pub mod capture;
pub mod trace;
pub mod sysctl;
