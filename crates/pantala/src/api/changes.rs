//! Changes of the stack as a stream: they are read until the reader is gone.

use super::parts::{Next, Parts, Reading, json_lines};
use super::server::SharedStack;
use super::types::Error;

/// Begins to note changes, and answers them, one on a line.
///
/// # Errors
/// As [`super::stack::Stack::begin_changes`].
pub(crate) fn start(stack: SharedStack) -> Result<Parts, Error> {
    let reader = stack.stack().begin_changes()?;
    let reading = stack.clone();
    let read = move || {
        let changes = reading.stack().read_changes(reader).ok()?;
        Some(Reading { bytes: json_lines(&changes), next: Next::Pause })
    };
    Ok(Parts::of(read, move || stack.stack().end_changes(reader)))
}
