//! A router on a wire that costs next to nothing, so that what is counted is the stack.
#![forbid(unsafe_code)]

pub mod frames;
pub mod router;
pub mod wire;
