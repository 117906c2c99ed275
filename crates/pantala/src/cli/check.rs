//! `check -c FILE`: is this configuration right, and would a reload find what it needs?

use std::path::Path;

use dev::netlink::{NetlinkError, Rtnetlink};

use super::Failure;
use crate::config::{Config, ConfigError, Device, Interface, Machine, Problem};
use crate::serve;
use crate::term::Term;

pub(crate) fn run(file: &Path, json: bool, term: &mut Term) -> Result<(), Failure> {
    match (Config::load(file, &Machine::here()), json) {
        (Ok(config), _) => on_this_machine(file, &config, json, term),
        (Err(ConfigError::Wrong(problems)), true) => {
            let list: Vec<_> = problems.list.iter().map(as_json).collect();
            term.show(&format!("{:#}\n", serde_json::json!({ "problems": list, "more": problems.more })))?;
            Err(Failure::Said)
        }
        (Err(ConfigError::Wrong(problems)), false) => {
            term.complain(&problems.to_string());
            Err(Failure::Said)
        }
        (Err(error), _) => Err(Failure::Failed(error.to_string())),
    }
}

/// Checks the parts of a configuration that exist on this machine: a folder must be there, a device may come later.
fn on_this_machine(file: &Path, config: &Config, json: bool, term: &mut Term) -> Result<(), Failure> {
    let problems: Vec<String> = folders(config).collect();
    let warnings: Vec<String> = rules(config).iter().cloned().chain(devices(config)).collect();
    if json {
        let list: Vec<_> = problems.iter().map(|message| of_file(file, message)).collect();
        let shown = serde_json::json!({ "problems": list, "warnings": warnings });
        term.show(&format!("{shown:#}\n"))?;
    } else {
        warnings.iter().for_each(|warning| term.complain(&format!("warning: {warning}")));
        problems.iter().for_each(|problem| term.complain(&format!("{}: {problem}", file.display())));
    }
    match (problems.is_empty(), json) {
        (false, _) => Err(Failure::Said),
        (true, true) => Ok(()),
        (true, false) => Ok(term.show(&summary(file, config))?),
    }
}

/// Folders that cannot be served.
fn folders(config: &Config) -> impl Iterator<Item = String> {
    config.serves.iter().filter_map(|serve| {
        let why = serve::look(&serve.folder).err()?;
        Some(format!("{}: {why}", serve.folder.display()))
    })
}

fn rules(config: &Config) -> &[String] {
    config.firewall.as_ref().map_or(&[], |firewall| &firewall.warnings)
}

/// Devices that are not there now. A TAP is made.
fn devices(config: &Config) -> Vec<String> {
    let mut netlink = Rtnetlink::open().ok();
    let mut missing = |interface: &Interface| match &interface.device {
        Device::AfXdp { host, .. } => match netlink.as_mut()?.link(host) {
            Err(NetlinkError::NoSuchLink(_)) => Some(format!("there is no interface named {host}")),
            _ => None,
        },
        Device::Pcap { input, .. } => {
            std::fs::metadata(input).err().map(|why| format!("{}: {why}", input.display()))
        }
        Device::Tap { .. }
        | Device::Tun { .. }
        | Device::Null { .. }
        | Device::Memif(_)
        | Device::Mem { .. }
        | Device::Vlan(_)
        | Device::Tunnel(_)
        | Device::Vxlan(_)
        | Device::Bridge(_)
        | Device::Pppoe(_)
        | Device::Lo => None,
    };
    let warn = |interface: &Interface| Some((interface.name.clone(), missing(interface)?));
    let warnings = config.interfaces.iter().filter_map(warn);
    warnings
        .map(|(name, why)| {
            format!("interface {name}: {why}; a start or reload fails while its device is missing")
        })
        .collect()
}

fn summary(file: &Path, config: &Config) -> String {
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    format!(
        "{}: ok: {}, {}, {}\n",
        file.display(),
        plural(config.cpus.len(), "CPU"),
        plural(config.interfaces.len(), "interface"),
        plural(config.routes.len(), "route")
    )
}

fn as_json(problem: &Problem) -> serde_json::Value {
    serde_json::json!({
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "help": problem.help,
    })
}

/// A problem of the whole file.
fn of_file(file: &Path, message: &str) -> serde_json::Value {
    serde_json::json!({
        "file": file.display().to_string(),
        "line": null,
        "column": null,
        "message": message,
        "help": "make the folder, or name another",
    })
}
