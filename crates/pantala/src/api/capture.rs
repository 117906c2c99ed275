//! A running capture as a stream: its buffers are emptied until its reader is gone.

use super::parts::{Next, Parts, Reading};
use super::server::SharedStack;
use super::types::{CaptureRequest, Error};

/// Begins a capture, and answers its parts.
///
/// # Errors
/// As [`super::stack::Stack::begin_capture`].
pub(crate) fn start(stack: SharedStack, request: &CaptureRequest) -> Result<Parts, Error> {
    let capture = stack.stack().begin_capture(request)?;
    let reading = stack.clone();
    let read = move || {
        let batch = reading.stack().read_capture(capture).ok()?;
        let next = if batch.is_filling { Next::Now } else { Next::Pause };
        Some(Reading { bytes: batch.pcapng, next })
    };
    Ok(Parts::of(read, move || stack.stack().end_capture(capture)))
}
