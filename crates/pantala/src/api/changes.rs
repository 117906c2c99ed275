//! Changes of the stack as a stream: they are read again and again, until the reader is gone.

use core::time::Duration;

use hyper::body::Bytes;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::capture::Parts;
use super::server::SharedStack;
use super::types::Error;

/// Pause between two readings.
const EVERY: Duration = Duration::from_millis(50);
/// Parts that wait for a slow reader; then no more is read, and its queue fills up.
const PARTS_HELD: usize = 2;

/// Begins to note changes, and answers them, one on a line.
///
/// # Errors
/// Those of [`super::stack::Stack::begin_changes`].
pub(crate) fn start(stack: SharedStack) -> Result<Parts, Error> {
    let reader = stack.stack().begin_changes()?;
    let (parts, body) = mpsc::channel(PARTS_HELD);
    tokio::spawn(async move {
        read(&stack, reader, &parts).await;
        stack.stack().end_changes(reader);
    });
    Ok(Parts(body))
}

async fn read(stack: &SharedStack, reader: u32, parts: &mpsc::Sender<Bytes>) {
    while let Ok(part) = parts.reserve().await {
        let Ok(changes) = stack.stack().read_changes(reader) else { return };
        let mut lines = Vec::new();
        for change in &changes {
            // Writing to a vector cannot fail.
            let _ = serde_json::to_writer(&mut lines, change);
            lines.push(b'\n');
        }
        if !lines.is_empty() {
            part.send(lines.into());
        }
        tokio::select! {
            () = parts.closed() => return,
            () = sleep(EVERY) => {}
        }
    }
}
