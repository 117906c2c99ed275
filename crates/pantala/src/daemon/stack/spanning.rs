//! Spanning trees, as `ifconfig` shows them.

use net::stp::{PortStatus, Role, State};
use net::stp_io::Status;
use net::tables::IfIndex;

use super::super::tables::Attached;
use crate::api::{DeviceInfo, StpInfo, StpMember};

/// Adds what is known of a bridge's spanning tree.
pub(super) fn with_tree(
    mut info: DeviceInfo,
    interface: &Attached,
    trees: &[Status],
    attached: &[Attached],
) -> DeviceInfo {
    let tree = trees.iter().find(|tree| tree.bridge == interface.index);
    let (Some(bridge), Some(tree), Some(stp)) = (&mut info.bridge, tree, &interface.config.bridge.stp) else {
        return info;
    };
    let name = |index: IfIndex| {
        attached.iter().find(|other| other.index == index).map(|other| other.config.name.clone())
    };
    for member in &mut bridge.members {
        let own = tree.ports.iter().find(|(index, _)| name(*index).as_ref() == Some(&member.name));
        member.stp = own.map(|(_, port)| of_port(port));
    }
    let settings = &stp.settings;
    bridge.stp = Some(StpInfo {
        protocol: protocol(!settings.is_stp),
        id: tree.id.to_string(),
        root: tree.root.to_string(),
        cost: tree.cost,
        root_port: tree.root_port.and_then(name),
        hellotime_s: settings.hello,
        maxage_s: settings.max_age,
        fwddelay_s: settings.forward_delay,
        holdcnt: settings.hold_count,
    });
    info
}

fn of_port(port: &PortStatus) -> StpMember {
    let role = match port.role {
        Role::Disabled => "disabled",
        Role::Root => "root",
        Role::Designated => "designated",
        Role::Alternate => "alternate",
        Role::Backup => "backup",
    };
    let state = match port.state {
        State::Discarding => "discarding",
        State::Learning => "learning",
        State::Forwarding => "forwarding",
    };
    let [priority, _] = port.id.to_be_bytes();
    StpMember {
        role: role.to_owned(),
        state: state.to_owned(),
        port: port.id & 0x0fff,
        priority: priority & 0xf0,
        cost: port.cost,
        protocol: protocol(port.is_rapid),
        edge: port.is_edge,
        ptp: port.is_point_to_point,
    }
}

fn protocol(is_rapid: bool) -> String {
    if is_rapid { "rstp" } else { "stp" }.to_owned()
}
