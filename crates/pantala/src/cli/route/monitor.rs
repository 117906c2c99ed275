//! `route monitor`: changes as they are made, by the names of BSD's routing messages.

use core::ops::ControlFlow;

use super::super::{Failure, Session};
use crate::api::{Change, ChangeOp, Route, RouteAction, RouteOrigin, StackChange};
use crate::show;

pub(super) fn run(session: &mut Session<'_>) -> Result<(), Failure> {
    let Session { client, json, term } = session;
    client.changes(|change| {
        let text = match *json {
            true => serde_json::to_string(&change).map(|line| line + "\n").unwrap_or_default(),
            false => line(&change),
        };
        term.show(&text)?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(())
}

fn line(StackChange { at_ns, change }: &StackChange) -> String {
    let (seconds, micros) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000 / 1000);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{hour:02}:{minute:02}:{second:02}.{micros:06} {}\n", words(change))
}

fn words(change: &Change) -> String {
    match change {
        Change::Route { op, route } => format!("{} {}", message(*op), route_words(route)),
        Change::Neighbour { op, address, mac, interface } => {
            format!("{} {address} lladdr {mac} {interface}", message(*op))
        }
        Change::Address { op: ChangeOp::Deleted, address, interface } => {
            format!("RTM_DELADDR {address} {interface}")
        }
        Change::Address { address, interface, .. } => format!("RTM_NEWADDR {address} {interface}"),
        Change::Interface { op: ChangeOp::Up, interface } => format!("RTM_IFINFO {interface} up"),
        Change::Interface { op: ChangeOp::Down, interface } => format!("RTM_IFINFO {interface} down"),
        Change::Interface { op: ChangeOp::Deleted, interface } => {
            format!("RTM_IFANNOUNCE {interface} destroyed")
        }
        Change::Interface { interface, .. } => format!("RTM_IFANNOUNCE {interface} created"),
        Change::Lost { count } => format!("{count} changes lost: the reader is too slow"),
    }
}

const fn message(op: ChangeOp) -> &'static str {
    match op {
        ChangeOp::Deleted => "RTM_DELETE",
        ChangeOp::Changed => "RTM_CHANGE",
        ChangeOp::Added | ChangeOp::Up | ChangeOp::Down => "RTM_ADD",
    }
}

fn route_words(route: &Route) -> String {
    let hop = |hop: &crate::api::NextHop| match hop.gateway {
        Some(gateway) => format!(" {gateway} {}", hop.interface),
        None => format!(" {}", hop.interface),
    };
    let hops: String = route.next_hops.iter().map(hop).collect();
    let action = match route.action {
        RouteAction::Forward => "",
        RouteAction::Local => " local",
        RouteAction::Reject => " reject",
        RouteAction::Blackhole => " blackhole",
    };
    let origin = match (&route.protocol, route.origin) {
        (Some(protocol), _) => protocol.as_str(),
        (None, RouteOrigin::Connected) => "connected",
        (None, RouteOrigin::Static) => "static",
        (None, RouteOrigin::Advertised) => "advertised",
        (None, RouteOrigin::Dynamic) => "dynamic",
    };
    format!("{}{hops}{action} {origin}", show::destination(route.to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_the_names_of_routing_messages() {
        let mac = crate::Mac(wire::ether::Mac([2, 0, 0, 0, 0, 7]));
        let interface = "lan".to_owned();
        let at_ns = 3_723_000_004_000;
        for (change, says) in [
            (
                Change::Neighbour {
                    op: ChangeOp::Added,
                    address: "192.0.2.7".parse().unwrap(),
                    mac,
                    interface: interface.clone(),
                },
                "RTM_ADD 192.0.2.7 lladdr 02:00:00:00:00:07 lan",
            ),
            (
                Change::Address {
                    op: ChangeOp::Deleted,
                    address: "2001:db8::1/64".parse().unwrap(),
                    interface: interface.clone(),
                },
                "RTM_DELADDR 2001:db8::1/64 lan",
            ),
            (Change::Interface { op: ChangeOp::Up, interface }, "RTM_IFINFO lan up"),
            (Change::Lost { count: 3 }, "3 changes lost: the reader is too slow"),
        ] {
            assert_eq!(line(&StackChange { at_ns, change }), format!("01:02:03.000004 {says}\n"));
        }
    }
}
