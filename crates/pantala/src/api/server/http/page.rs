//! The dashboard: one page, which is the same for all and says nothing of the stack.

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use rustix::rand::{GetRandomFlags, getrandom};

use super::super::routes::Failure;
use crate::api::types::{Error, ErrorKind};

const PAGE: &str = include_str!("page.html");
/// Stands in the page for the nonce of its script and its style.
const NONCE: &str = "NONCE";

/// Answers the page. Its script and style have a nonce, so that nothing else that got into it would run.
pub(super) async fn page() -> Result<impl IntoResponse, Response> {
    let nonce = nonce()
        .map_err(|why| Failure::from(Error::new(ErrorKind::Failed, why.to_string())).into_response())?;
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let page = PAGE.replace(NONCE, &nonce);
    Ok(([(CONTENT_TYPE, "text/html; charset=utf-8".to_owned()), (CONTENT_SECURITY_POLICY, policy)], page))
}

/// Draws 128 bits, in hexadecimal digits.
fn nonce() -> rustix::io::Result<String> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
