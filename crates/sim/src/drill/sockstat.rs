//! Arguments of `sockstat` and `tcpdrop`.

use net::tcp;

use super::assert::state;
use super::lab::Lab;
use super::program::{Socket, Stage};

/// States as `sockstat -s` shows them, and as RFC 9293 does.
const STATES: [(&str, &str); 11] = [
    ("CLOSED", "CLOSED"),
    ("LISTEN", "LISTEN"),
    ("SYN_SENT", "SYN-SENT"),
    ("SYN_RCVD", "SYN-RECEIVED"),
    ("ESTABLISHED", "ESTABLISHED"),
    ("CLOSE_WAIT", "CLOSE-WAIT"),
    ("FIN_WAIT_1", "FIN-WAIT-1"),
    ("CLOSING", "CLOSING"),
    ("LAST_ACK", "LAST-ACK"),
    ("FIN_WAIT_2", "FIN-WAIT-2"),
    ("TIME_WAIT", "TIME-WAIT"),
];

/// Holds the number of sockets in a state to the text that must stand in it.
///
/// # Errors
///
/// How many there are.
pub(super) fn check<'a>(
    all: impl Iterator<Item = &'a Socket>,
    lab: &mut Lab,
    port: Option<u16>,
    wanted: &str,
    count: &str,
) -> Result<(), String> {
    let known = STATES.iter().find(|(shown, _)| *shown == wanted);
    let (_, wanted) = known.ok_or_else(|| format!("{wanted} is no state"))?;
    let mut sockets = 0;
    for socket in all {
        let is_there = port.is_none_or(|port| {
            let local = socket.look_at(lab, |ends, _| ends.local_port);
            local.or_else(|| socket.bound.map(|bound| bound.port())) == Some(port)
        });
        sockets += usize::from(is_there && state(socket, lab) == *wanted);
    }
    // Before they stand, connections of a listener have no socket; sockstat shows them all the same.
    if let ("SYN-RECEIVED", Some(port)) = (*wanted, port) {
        sockets += lab.count(move |cpu| tcp::half_open(cpu).filter(|ends| ends.local_port == port).count());
    }
    let came = sockets.to_string();
    match came.contains(count) {
        true => Ok(()),
        false => Err(format!("{came} sockets are in {wanted}, not {count}")),
    }
}

/// Ends the connections that are in a state.
///
/// # Errors
///
/// If there is no such state.
pub(super) fn drop_all<'a>(
    all: impl Iterator<Item = &'a Socket>,
    lab: &mut Lab,
    wanted: &str,
) -> Result<(), String> {
    let known = STATES.iter().find(|(shown, _)| *shown == wanted);
    let (_, wanted) = known.ok_or_else(|| format!("{wanted} is no state"))?;
    for socket in all {
        if matches!(socket.stage, Stage::Open(..)) && state(socket, lab) == *wanted {
            socket.abort(lab);
        }
    }
    Ok(())
}
