//! Checks of a request before it reaches the admin API.

use core::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, HOST, HeaderName, ORIGIN, REFERRER_POLICY, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::super::routes::Failure;
use super::{HttpCounters, HttpEvent, Token, is_public};
use crate::api::types::{Error, ErrorKind};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The listener's rules for requests.
pub(super) struct Guard {
    hosts: Vec<String>,
    token: Option<Token>,
    counters: Arc<HttpCounters>,
}

/// A refused request.
struct Refused {
    event: HttpEvent,
    status: StatusCode,
    error: Error,
}

impl Guard {
    pub(super) const fn new(hosts: Vec<String>, token: Option<Token>, counters: Arc<HttpCounters>) -> Self {
        Self { hosts, token, counters }
    }

    fn check(&self, path: &str, headers: &HeaderMap) -> Result<(), Refused> {
        let host = host(headers).ok_or_else(|| bad_host("a request needs one Host field"))?;
        if !self.is_known(host) {
            let name = name(host);
            return Err(bad_host(&format!("Host `{name}` is not known: add it to `hosts` in [http]")));
        }
        if !is_of_origin(headers, host) || (!is_public(path) && is_of_another_site(headers)) {
            let error =
                Error::new(ErrorKind::Denied, "permission denied: a page of another origin has sent this");
            return Err(Refused { event: HttpEvent::BadOrigin, status: StatusCode::FORBIDDEN, error });
        }
        if is_public(path) || self.token.as_ref().is_none_or(|token| has(headers, token)) {
            return Ok(());
        }
        let error = Error::new(ErrorKind::Denied, "permission denied: this request needs the token");
        let error = error.hint("send `Authorization: Bearer TOKEN`, with the token of token_file in [http]");
        Err(Refused { event: HttpEvent::BadToken, status: StatusCode::UNAUTHORIZED, error })
    }

    /// Whether a host is meant for this listener. A name that its owner lets resolve to this machine is not: addresses
    /// resolve to nothing else.
    fn is_known(&self, host: &str) -> bool {
        let name = name(host);
        let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        bare.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|host| name.eq_ignore_ascii_case(host))
    }
}

/// Refuses a request, or passes it on; its answer is for the page of this listener alone.
pub(super) async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut answer = match guard.check(request.uri().path(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => {
            guard.counters.add(refused.event);
            refused.into_response()
        }
    };
    for (name, value) in [
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (CROSS_ORIGIN_RESOURCE_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut answer = Failure::from(self.error).into_response();
        *answer.status_mut() = self.status;
        if self.status == StatusCode::UNAUTHORIZED {
            answer
                .headers_mut()
                .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"pantala\""));
        }
        answer
    }
}

fn bad_host(why: &str) -> Refused {
    let error = Error::new(ErrorKind::Denied, why);
    Refused { event: HttpEvent::BadHost, status: StatusCode::MISDIRECTED_REQUEST, error }
}

/// Returns the host that a request names; `None` if there is not exactly one.
fn host(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    hosts.next().is_none().then_some(host)
}

/// Returns a host without its port.
fn name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) && !name.ends_with(':') => {
            // Colons of an address stand in brackets.
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

/// Whether a request is not from a page of another origin. A proxy may have taken TLS off, so both schemes are ours.
fn is_of_origin(headers: &HeaderMap, host: &str) -> bool {
    headers.get_all(ORIGIN).iter().all(|origin| {
        let origin = origin.to_str().unwrap_or_default();
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
    })
}

/// Whether a browser says that another site has caused a request.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    site.is_some_and(|site| site != b"same-origin" && site != b"none")
}

/// Whether a request carries the token.
fn has(headers: &HeaderMap, token: &Token) -> bool {
    let Some(field) = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes) else { return false };
    let Some((scheme, offered)) = field.split_at_checked(7) else { return false };
    scheme.eq_ignore_ascii_case(b"bearer ") && token.is(offered.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn answer(path: &str, fields: &[(HeaderName, &str)]) -> u16 {
        let token = Token::parse(TOKEN.as_bytes());
        let guard = Guard::new(vec!["gw.example".to_owned()], token, Arc::default());
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        guard.check(path, &headers).map_or_else(|refused| refused.status.as_u16(), |()| 200)
    }

    #[test]
    fn addresses_and_configured_names_are_known_and_other_names_are_not() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:8080",
            "localhost:1",
            "LOCALHOST",
            "gw.example:80",
            "GW.example",
        ] {
            assert_eq!(answer("/", &[(HOST, host)]), 200, "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "gw.example.evil",
            "gw.example:80:80",
            "::1",
            "a@127.0.0.1",
        ] {
            let is_address = host == "::1";
            assert_eq!(answer("/", &[(HOST, host)]), if is_address { 200 } else { 421 }, "{host}");
        }
        assert_eq!(answer("/", &[]), 421);
        assert_eq!(answer("/", &[(HOST, "127.0.0.1"), (HOST, "127.0.0.1")]), 421);
    }

    #[test]
    fn pages_of_other_origins_are_refused_even_with_the_token() {
        let bearer = format!("Bearer {TOKEN}");
        let with = |name: HeaderName, value: &str| {
            answer("/v1/version", &[(HOST, "127.0.0.1:80"), (AUTHORIZATION, &bearer), (name, value)])
        };
        for origin in ["http://127.0.0.1:80", "https://127.0.0.1:80"] {
            assert_eq!(with(ORIGIN, origin), 200, "{origin}");
        }
        for origin in [
            "null",
            "http://evil.example",
            "http://127.0.0.1:81",
            "http://127.0.0.1",
            "file://",
            "127.0.0.1:80",
        ] {
            assert_eq!(with(ORIGIN, origin), 403, "{origin}");
        }
        for (site, status) in [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)] {
            assert_eq!(with(SEC_FETCH_SITE, site), status, "{site}");
        }
        let link = [(HOST, "127.0.0.1:80"), (SEC_FETCH_SITE, "cross-site")];
        assert_eq!(answer("/", &link), 200, "a link elsewhere leads to the page");
    }

    #[test]
    fn all_but_the_page_needs_the_token() {
        let with = |field: &str| answer("/metrics", &[(HOST, "localhost"), (AUTHORIZATION, field)]);
        assert_eq!(with(&format!("Bearer {TOKEN}")), 200);
        assert_eq!(with(&format!("bearer  {TOKEN} ")), 200);
        let wrong = TOKEN.replace('0', "1");
        for field in ["", "Bearer", "Bearer ", TOKEN, &format!("Basic {TOKEN}"), &format!("Bearer {wrong}")] {
            assert_eq!(with(field), 401, "{field}");
        }
        assert_eq!(answer("/metrics", &[(HOST, "localhost")]), 401);
        assert_eq!(answer("/", &[(HOST, "localhost")]), 200);
    }
}
