#![forbid(unsafe_code)]
//! Placeholder for the crate's first commit.
