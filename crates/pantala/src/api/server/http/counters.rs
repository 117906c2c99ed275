//! Counters of the HTTP listener.

use core::sync::atomic::{AtomicU64, Ordering};

/// An event at the HTTP listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api::server) enum HttpEvent {
    Connections,
    TooManyConnections,
    SlowRequests,
    SlowReaders,
    BadHost,
    BadOrigin,
    BadToken,
    Streams,
    SlowStreams,
}

impl HttpEvent {
    /// All of them, in the order of their declaration.
    pub(in crate::api::server) const ALL: [Self; 9] = [
        Self::Connections,
        Self::TooManyConnections,
        Self::SlowRequests,
        Self::SlowReaders,
        Self::BadHost,
        Self::BadOrigin,
        Self::BadToken,
        Self::Streams,
        Self::SlowStreams,
    ];

    /// Returns its name in metrics and in the admin API.
    pub(in crate::api::server) const fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::TooManyConnections => "too_many_connections",
            Self::SlowRequests => "slow_requests",
            Self::SlowReaders => "slow_readers",
            Self::BadHost => "bad_host",
            Self::BadOrigin => "bad_origin",
            Self::BadToken => "bad_token",
            Self::Streams => "streams",
            Self::SlowStreams => "slow_streams",
        }
    }

    /// Returns its meaning.
    pub(in crate::api::server) const fn sentence(self) -> &'static str {
        match self {
            Self::Connections => "connections accepted",
            Self::TooManyConnections => "connections refused because all were taken",
            Self::SlowRequests => "connections closed because a request head was late",
            Self::SlowReaders => "connections closed because the client read nothing for 30 s",
            Self::BadHost => "requests refused because of their Host field",
            Self::BadOrigin => "requests refused because a page of another origin sent them",
            Self::BadToken => "requests refused without the token",
            Self::Streams => "streams of readings begun",
            Self::SlowStreams => "streams ended because their reader fell behind",
        }
    }
}

/// The counters.
#[derive(Debug, Default)]
pub(in crate::api::server) struct HttpCounters([AtomicU64; HttpEvent::ALL.len()]);

impl HttpCounters {
    pub(in crate::api::server) fn add(&self, event: HttpEvent) {
        if let Some(counter) = self.0.get(event as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(in crate::api::server) fn count(&self, event: HttpEvent) -> u64 {
        self.0.get(event as usize).map_or(0, |counter| counter.load(Ordering::Relaxed))
    }
}
