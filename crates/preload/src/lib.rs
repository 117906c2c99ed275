//! `libpantala_preload.so`: gives unmodified programs the sockets of a running pantala (`pantala run`).
//!
//! A socket of TCP or UDP that a program binds or connects becomes one end of a pair of Unix sockets, under the same descriptor; a
//! connection that it accepts is one from its beginning. The daemon has the other end. Bytes, readiness, `dup`, `fork`,
//! `exec`, `O_NONBLOCK`, time limits and `SIGPIPE` are the kernel's, so no call on the way of bytes is replaced. What is
//! replaced asks or says what a Unix socket cannot: addresses, options of TCP, and how a connection ended.
//!
//! Nothing is remembered here: the name of the Unix socket's peer says which socket it is ([`wire::program::Name`]). So
//! what `fork` and `exec` pass on, and what a child does after `vfork`, needs no care.
//!
//! What a call does with a socket of pantala is in [`program`].
//!
//! | module | what it is |
//! |---|---|
//! | [`hooks`] | the calls, as C has them |
//! | [`datagram`] | messages of sockets of datagrams, with their addresses |
//! | [`control`] | control messages of datagrams |
//! | [`names`] | host names, by DNS over pantala |
//! | [`addr`] | C's socket addresses |
//! | [`sys`] | system calls that pass by the hooks |

mod addr;
mod control;
mod datagram;
pub mod hooks;
mod names;
mod sys;
