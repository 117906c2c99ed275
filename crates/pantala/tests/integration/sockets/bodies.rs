//! Test bodies for sockets of any kind.

pub(crate) mod datagrams;
pub(crate) mod groups;
pub(crate) mod options;
pub(crate) mod refusals;
pub(crate) mod streams;
