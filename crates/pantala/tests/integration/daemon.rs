//! The real daemon, on devices of this machine in network namespaces that these tests make and delete.

mod admin;
mod advertising;
mod changes;
mod dashboard;
mod devices;
mod dhcp;
mod dhcp6;
mod ends;
mod full_disk;
mod hotplug;
mod http;
mod doctor;
mod init;
pub(crate) mod lab;
mod lifeline;
mod memif;
mod pppoe;
mod privileges;
mod reloads;
mod running;
mod service;
mod sharing;
mod webdriver;

harness::modules![
    admin,
    advertising,
    changes,
    dashboard,
    devices,
    dhcp,
    dhcp6,
    ends,
    full_disk,
    hotplug,
    http,
    doctor,
    init,
    lifeline,
    memif,
    pppoe,
    privileges,
    reloads,
    running,
    service,
    sharing
];
