//! A running capture: its buffers are emptied again and again, until its reader is gone.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::server::SharedStack;
use super::types::{CaptureRequest, Error};

/// Pause between two readings, unless buffers fill.
const EVERY: Duration = Duration::from_millis(50);
/// Parts that wait for a slow reader; then no more is read, and the buffers of the netisrs fill up.
const PARTS_HELD: usize = 2;

/// Begins a capture, and answers its parts.
///
/// # Errors
/// Those of [`super::stack::Stack::begin_capture`].
pub(crate) fn start(stack: SharedStack, request: &CaptureRequest) -> Result<Parts, Error> {
    let capture = stack.stack().begin_capture(request)?;
    let (parts, body) = mpsc::channel(PARTS_HELD);
    tokio::spawn(async move {
        read(&stack, capture, &parts).await;
        stack.stack().end_capture(capture);
    });
    Ok(Parts(body))
}

/// Ends with the reader.
async fn read(stack: &SharedStack, capture: u32, parts: &mpsc::Sender<Bytes>) {
    while let Ok(part) = parts.reserve().await {
        let Ok(batch) = stack.stack().read_capture(capture) else { return };
        part.send(batch.pcapng.into());
        if !batch.is_filling {
            tokio::select! {
                () = parts.closed() => return,
                () = sleep(EVERY) => {}
            }
        }
    }
}

/// The parts as an HTTP body.
pub(crate) struct Parts(pub(super) mpsc::Receiver<Bytes>);

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
