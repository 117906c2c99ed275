//! XDP programs of users: read from object files ([`object`]).

pub mod object;
