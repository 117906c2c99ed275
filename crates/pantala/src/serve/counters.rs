//! Counters of each web server, on each CPU.

use pkt::counters::Index;

/// One counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    Connections,
    TooMany,
    Requests,
    Remembered,
    Success,
    Redirection,
    ClientError,
    ServerError,
    Bytes,
    TimedOut,
    TooSlow,
    Refused,
}

impl Hit {
    pub(crate) const ALL: [Self; 12] = [
        Self::Connections,
        Self::TooMany,
        Self::Requests,
        Self::Remembered,
        Self::Success,
        Self::Redirection,
        Self::ClientError,
        Self::ServerError,
        Self::Bytes,
        Self::TimedOut,
        Self::TooSlow,
        Self::Refused,
    ];

    /// Returns its name in metrics, behind `pantala_web_` and before `_total`, and its description.
    pub(crate) const fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Connections => ("connections", "Connections accepted."),
            Self::TooMany => ("too_many", "Connections reset because the limit was reached."),
            Self::Requests => ("requests", "Requests received."),
            Self::Remembered => ("remembered", "Requests answered from cached files."),
            Self::Success => ("success", "Responses of class 2xx."),
            Self::Redirection => ("redirection", "Responses of class 3xx."),
            Self::ClientError => ("client_error", "Responses of class 4xx."),
            Self::ServerError => ("server_error", "Responses of class 5xx."),
            Self::Bytes => ("bytes", "Bytes sent, including headers."),
            Self::TimedOut => ("timed_out", "Connections closed by a timeout."),
            Self::TooSlow => ("too_slow", "Connections reset because the client read too slowly."),
            Self::Refused => ("refused", "Requests answered with 503 because the memory limit was reached."),
        }
    }

    /// Returns the counter of a status.
    #[cfg(feature = "web")]
    pub(super) const fn of_status(code: u16) -> Self {
        match code {
            ..300 => Self::Success,
            300..400 => Self::Redirection,
            400..500 => Self::ClientError,
            _ => Self::ServerError,
        }
    }
}

impl Index for Hit {
    const COUNT: usize = Self::ALL.len();

    fn index(self) -> usize {
        self as usize
    }
}
