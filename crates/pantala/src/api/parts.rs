//! Streams: what goes on in the stack is read again and again, until it is over or the reader is gone.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Pause between two readings.
const EVERY: Duration = Duration::from_millis(50);
/// Parts that wait for a slow reader; then no more is read, and buffers and queues of the stack fill up, which count what they
/// lose.
const PARTS_HELD: usize = 2;

/// The parts of a stream, as an HTTP body.
pub(crate) struct Parts(pub(super) mpsc::Receiver<Bytes>);

/// One reading.
pub(super) struct Reading {
    /// Bytes for the reader, if there are any.
    pub(super) bytes: Vec<u8>,
    /// Time of the next reading.
    pub(super) next: Next,
}

/// Time of the next reading.
pub(super) enum Next {
    /// After a pause.
    Pause,
    /// At once: there is more.
    Now,
    /// Never: it is over.
    End,
}

impl Parts {
    /// Begins to read, in a task of its own; `end` is called when `read` has no more, or the reader is gone.
    pub(super) fn of(
        read: impl FnMut() -> Option<Reading> + Send + 'static,
        end: impl FnOnce() + Send + 'static,
    ) -> Self {
        let (parts, body) = mpsc::channel(PARTS_HELD);
        tokio::spawn(async move {
            pump(read, &parts).await;
            end();
        });
        Self(body)
    }
}

async fn pump(mut read: impl FnMut() -> Option<Reading>, parts: &mpsc::Sender<Bytes>) {
    while let Ok(part) = parts.reserve().await {
        let Some(Reading { bytes, next }) = read() else { return };
        if !bytes.is_empty() {
            part.send(bytes.into());
        }
        match next {
            Next::Now => {}
            Next::End => return,
            Next::Pause => tokio::select! {
                () = parts.closed() => return,
                () = sleep(EVERY) => {}
            },
        }
    }
}

/// Writes one JSON value on each line.
pub(super) fn json_lines(values: &[impl Serialize]) -> Vec<u8> {
    let mut lines = Vec::new();
    for value in values {
        // Writing to a vector cannot fail.
        let _ = serde_json::to_writer(&mut lines, value);
        lines.push(b'\n');
    }
    lines
}

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}
