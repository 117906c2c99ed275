//! Bodies of requests: each is read whole before anything is done, in a given time, and all together within a given
//! memory.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::accept::Limits;
use super::routes::Failure;
use crate::api::firewall::routes::{COMMANDS, COMMANDS_BYTES_MAX};
use crate::api::types::{Error, ErrorKind};

/// No request needs more: ten thousand routes.
const BODY_MAX: usize = 4 << 20;

/// Not for readers of the read-only socket.
const CONFIGURATION: &str = "/v1/config";

/// Memory for bodies.
#[derive(Clone)]
pub(super) struct Bodies {
    limits: Limits,
    /// Bytes.
    free: Arc<Semaphore>,
}

impl Bodies {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, free: Arc::new(Semaphore::new(limits.bodies)) }
    }

    /// All of a body of at most `most` bytes, and its share of the memory.
    async fn whole(
        &self,
        mut body: Body,
        most: usize,
    ) -> Result<(Vec<u8>, Option<OwnedSemaphorePermit>), Response> {
        let (mut bytes, mut held) = (Vec::new(), None::<OwnedSemaphorePermit>);
        while let Some(frame) = body.frame().await {
            // The client broke off: no reply is possible.
            let frame = frame.map_err(|why| invalid(StatusCode::BAD_REQUEST, why.to_string()))?;
            let Some(more) = frame.data_ref().filter(|more| !more.is_empty()) else { continue };
            if bytes.len() + more.len() > most {
                let why = format!("a request of more than {most} bytes; use several");
                return Err(invalid(StatusCode::PAYLOAD_TOO_LARGE, why));
            }
            let count = u32::try_from(more.len()).unwrap_or(u32::MAX);
            add(&mut held, Arc::clone(&self.free).try_acquire_many_owned(count).map_err(|_| busy())?);
            bytes.extend_from_slice(more);
        }
        Ok((bytes, held))
    }
}

fn add(held: &mut Option<OwnedSemaphorePermit>, share: OwnedSemaphorePermit) {
    match held {
        Some(held) => held.merge(share),
        None => *held = Some(share),
    }
}

/// Reads the body, then goes on with it.
pub(super) async fn read(State(bodies): State<Bodies>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let most = if parts.uri.path() == COMMANDS { COMMANDS_BYTES_MAX } else { BODY_MAX };
    match timeout(bodies.limits.body_within, bodies.whole(body, most)).await {
        Ok(Ok((bytes, share))) => {
            let answer = next.run(Request::from_parts(parts, bytes.into())).await;
            drop(share);
            answer
        }
        Ok(Err(refusal)) => refusal,
        Err(_) => invalid(StatusCode::REQUEST_TIMEOUT, "the request did not come to its end".to_owned()),
    }
}

/// Refuses what would change anything, and the configuration, which a reader of its file alone may see.
pub(super) async fn only_reads(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if request.method().is_safe() && path != CONFIGURATION {
        return next.run(request).await;
    }
    let why = match path {
        CONFIGURATION => "permission denied: the configuration may contain secrets",
        _ => "permission denied: this socket is read-only",
    };
    let error = Error::new(ErrorKind::Denied, why);
    Failure::from(error.hint("use the control socket, if you may")).into_response()
}

fn invalid(status: StatusCode, why: String) -> Response {
    let mut response = Failure::from(Error::new(ErrorKind::Invalid, why)).into_response();
    *response.status_mut() = status;
    response
}

fn busy() -> Response {
    let error = Error::new(ErrorKind::Busy, "too much is being sent to the control socket");
    Failure::from(error.hint("try again later")).into_response()
}
