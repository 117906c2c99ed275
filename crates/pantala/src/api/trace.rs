//! Traced packets as a stream: they are read until all have come or the reader is gone.

use super::parts::{Next, Parts, Reading, json_lines};
use super::server::SharedStack;
use super::types::{Error, TraceRequest};

/// Begins to trace, and answers the packets, one on a line.
///
/// # Errors
/// As [`super::stack::Stack::begin_trace`].
pub(crate) fn start(stack: SharedStack, request: &TraceRequest) -> Result<Parts, Error> {
    stack.stack().begin_trace(request)?;
    let reading = stack.clone();
    let read = move || {
        let batch = reading.stack().read_trace().ok()?;
        let next = if batch.is_over { Next::End } else { Next::Pause };
        Some(Reading { bytes: json_lines(&batch.packets), next })
    };
    Ok(Parts::of(read, move || stack.stack().end_trace()))
}
