//! The real daemon, on devices of this machine in network namespaces that these tests make and delete.

mod admin;
mod advertising;
mod changes;
mod devices;
mod dhcp;
mod ends;
mod full_disk;
mod hotplug;
mod doctor;
mod init;
mod lab;
mod lifeline;
mod memif;
mod privileges;
mod reloads;
mod running;
mod service;
mod sharing;

harness::modules![
    admin,
    advertising,
    changes,
    devices,
    dhcp,
    ends,
    full_disk,
    hotplug,
    doctor,
    init,
    lifeline,
    memif,
    privileges,
    reloads,
    running,
    service,
    sharing
];
