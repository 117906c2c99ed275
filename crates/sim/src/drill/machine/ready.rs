//! Readiness of a socket, as `poll` reports it.

use net::tcp::tcb::State;

use super::super::lab::Lab;
use super::super::program::{Socket, Stage};

/// Readiness of a socket
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There is something to read or to accept, or the end, or an error.
    pub readable: bool,
    /// There is room for bytes to send, or an error.
    pub writable: bool,
    /// The other end wants that something is read soon.
    pub urgent: bool,
    /// The program has not been told yet why it has ended.
    pub error: bool,
    /// Nothing goes any more, or has ever gone.
    pub hangup: bool,
    /// Nothing more comes.
    pub read_hangup: bool,
}

/// Returns the readiness of a TCP socket.
pub(super) fn of(socket: &Socket, lab: &mut Lab) -> Readiness {
    let ready = socket.ready(lab);
    let Stage::Open(..) = socket.stage else {
        // Without a connection, or one that is promised, it is as one that has ended.
        let is_nothing = ready.is_none();
        let ready = ready.unwrap_or_default();
        return Readiness {
            readable: ready.readable,
            writable: ready.writable || is_nothing,
            hangup: is_nothing,
            ..Readiness::default()
        };
    };
    let ready = ready.unwrap_or_default();
    let is_over = matches!(socket.state(lab), None | Some(State::Closed));
    let shut = socket.look_at(lab, |_, tcb| (tcb.is_finished(), tcb.is_shut()));
    let (is_finished, is_shut) = shut.unwrap_or((true, true));
    Readiness {
        readable: ready.readable || is_finished,
        writable: ready.writable,
        urgent: ready.urgent,
        error: socket.has_failed(lab),
        hangup: is_over || is_finished && is_shut,
        read_hangup: is_over || is_finished,
    }
}
