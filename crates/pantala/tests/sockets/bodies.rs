//! What sockets must do, whoever they are.

pub(crate) mod datagrams;
pub(crate) mod streams;
