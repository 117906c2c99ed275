//! Packets that are being traced: they are read again and again, until all have come or the reader is gone.

use core::time::Duration;

use hyper::body::Bytes;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::capture::Parts;
use super::server::SharedStack;
use super::types::{Error, TraceRequest};

/// Pause between two readings.
const EVERY: Duration = Duration::from_millis(50);
/// Parts that wait for a slow reader; then no more is read, and traces of the netisrs are lost, and counted.
const PARTS_HELD: usize = 2;

/// Begins to trace, and answers the packets, one on a line.
///
/// # Errors
/// Those of [`super::stack::Stack::begin_trace`].
pub(crate) fn start(stack: SharedStack, request: &TraceRequest) -> Result<Parts, Error> {
    stack.stack().begin_trace(request)?;
    let (parts, body) = mpsc::channel(PARTS_HELD);
    tokio::spawn(async move {
        read(&stack, &parts).await;
        stack.stack().end_trace();
    });
    Ok(Parts(body))
}

async fn read(stack: &SharedStack, parts: &mpsc::Sender<Bytes>) {
    while let Ok(part) = parts.reserve().await {
        let Ok(batch) = stack.stack().read_trace() else { return };
        let mut lines = Vec::new();
        for packet in &batch.packets {
            // Writing to a vector cannot fail.
            let _ = serde_json::to_writer(&mut lines, packet);
            lines.push(b'\n');
        }
        if !lines.is_empty() {
            part.send(lines.into());
        }
        if batch.is_over {
            return;
        }
        tokio::select! {
            () = parts.closed() => return,
            () = sleep(EVERY) => {}
        }
    }
}
