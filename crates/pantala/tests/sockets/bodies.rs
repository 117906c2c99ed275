//! What sockets must do, whoever they are.

pub(crate) mod datagrams;
pub(crate) mod groups;
pub(crate) mod options;
pub(crate) mod refusals;
pub(crate) mod streams;
