//! Bounds of the language: what is longer is refused, with an error that says so.

/// Bytes of a script.
pub const SCRIPT_MAX: usize = 1 << 20;
/// Events of a script.
pub const EVENTS_MAX: usize = 1 << 15;
/// `--name=value` lines of a script.
pub const OPTIONS_MAX: usize = 64;
/// Errors that are told of a script.
pub const ERRORS_MAX: usize = 20;
/// Brackets, braces and parentheses within each other; `#ifdef`s within each other.
pub const DEPTH_MAX: usize = 16;
/// Items of an argument list, an array, a structure; statements of a code block; terms of a formula.
pub const LIST_MAX: usize = 1024;
/// Bytes of a name, and of the text in parentheses behind a result.
pub const NAME_MAX: usize = 255;
/// Seconds of a time.
pub const SECONDS_MAX: u64 = 1 << 32;
/// Bytes of a segment's TCP options (RFC 9293 §3.1: a data offset of 15 words, of which 5 are the header).
pub const TCP_OPTIONS_MAX: usize = 40;
