//! `ifconfig [-a] [-l] [IF [WORDS]]`: shows interfaces and changes them.

use self::words::Forget;
use super::flags::{Flags, extra_word};
use super::{Failure, Session};
use crate::api::client::escaped;
use crate::api::{ConfigEdit, ConfigEdits, Interface, InterfaceChange, Reloaded};
use crate::show;

pub(crate) const USAGE: &str = "\
pantala ifconfig [-a] | -l | IF
       pantala ifconfig IF create vlan ID vlandev INTERFACE [vlanproto 802.1ad]
       pantala ifconfig IF create tunnel LOCAL REMOTE [grekey N]
       pantala ifconfig IF create vxlanid N vxlanlocal A
               [vxlanremote B | vxlangroup G] [vxlanport P]
       pantala ifconfig IF create pppoedev INTERFACE [pppoesvc SERVICE]
               [pppoeac AC] [authname NAME] [authkey KEY]
               [authproto pap | chap]
       pantala ifconfig BRIDGE create [addm INTERFACE ...]
       pantala ifconfig IF create device DEVICE
       pantala ifconfig IF destroy
       pantala ifconfig IF [inet | inet6] ADDRESS/LEN [alias | -alias]
       pantala ifconfig IF [mtu N] [metric N] [fib N] [ether MAC]
               [vlanpcp N]
       pantala ifconfig IF up | down | monitor | -monitor
       pantala ifconfig IF description TEXT | -description
       pantala ifconfig BRIDGE addm | deletem | private | -private | span |
               -span INTERFACE
       pantala ifconfig BRIDGE addr | static INTERFACE MAC | deladdr MAC |
               flush | flushall
       pantala ifconfig BRIDGE [maxaddr N] [timeout SECONDS] [storm N]
       pantala ifconfig BRIDGE stp | -stp | [proto rstp | stp] [priority N]
               [hellotime N] [maxage N] [fwddelay N] [holdcnt N]
       pantala ifconfig BRIDGE ifpriority INTERFACE N |
               ifpathcost INTERFACE N |
               edge | autoedge | ptp | -edge | -autoedge | -ptp INTERFACE";

pub(crate) const HELP: &str = "  -a         every interface (the default)
  -l         only their names
  create     add an interface, over another one or with a DEVICE as in the
             configuration file; tap0 and tun0 are such of the kernel
  destroy    remove it
  ADDRESS    of IPv4: replaces the first one; of IPv6: is added
  alias      add the address beside the others
  -alias     remove the address
  up, down   bring the interface up or take it down
  fib        the routing table of what comes in, and of its own networks
  authkey    a password; a file keeps it from the list of processes:
             `password_file` in the configuration
  monitor    only count and measure what it receives; `netstat -M -I IF` shows
             it
  addm       add a port to a bridge; deletem removes it
  addr       the link addresses that a bridge or VXLAN knows
  deladdr    forget one of them, flush all that were learnt, flushall also the
             static ones
  stp        the spanning tree of a bridge, RSTP unless `proto stp` is given

The words of one line come into force together, or not at all. They change the
running configuration: `pantala config diff` shows it beside the file,
`config save` writes it, `config undo` takes it back. `up`, `down` and
`monitor` are not part of it.

Examples:
  pantala ifconfig lan
  pantala ifconfig lan 192.0.2.7/24 alias
  pantala ifconfig vlan10 create vlan 10 vlandev lan inet 10.0.10.1/24
  pantala ifconfig gif0 create tunnel 192.0.2.1 198.51.100.1
  pantala ifconfig tun0 create inet 10.9.0.1/24
  pantala ifconfig bridge0 create addm lan1 addm lan2 inet 192.0.2.1/24
  pantala ifconfig bridge0 static lan1 02:00:00:00:00:07
  pantala ifconfig bridge0 stp priority 4096 edge lan2
  pantala ifconfig vxlan0 create vxlanid 42 vxlanlocal 192.0.2.1
  pantala ifconfig pppoe0 create pppoedev uplink authname office authkey secret
  pantala ifconfig gif0 destroy";

mod words;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ifconfig {
    All,
    Names,
    One(String),
    Change {
        name: String,
        /// All of them together.
        edits: ConfigEdits,
        /// Behind them.
        state: InterfaceChange,
        /// Link addresses to be forgotten.
        stations: Vec<Forget>,
    },
    /// The link addresses that it knows.
    Stations(String),
}

impl Ifconfig {
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        // Behind a name there are words, of which some begin like flags.
        if let [name, rest @ ..] = words
            && !rest.is_empty()
            && !name.starts_with('-')
        {
            let usage = |why| Failure::usage(format!("ifconfig: {why}"));
            let words::Changes { edits, state, stations, lists_stations } =
                words::read(name, rest).map_err(usage)?;
            if lists_stations {
                return Ok(Self::Stations(name.clone()));
            }
            let edits = ConfigEdits { edits, title: format!("ifconfig {}", without_password(words)) };
            return Ok(Self::Change { name: name.clone(), edits, state, stations });
        }
        let flags = Flags::read("ifconfig", words, "al", "")?;
        if flags.has('l') {
            return flags.no_operands("ifconfig").map(|()| Self::Names);
        }
        match flags.operands.as_slice() {
            [] => Ok(Self::All),
            [name] => Ok(Self::One(name.clone())),
            [_, extra, ..] => Err(extra_word("ifconfig", extra)),
        }
    }

    pub(crate) fn run(self, session: &mut Session<'_>) -> Result<(), Failure> {
        match self {
            Self::All => {
                let all: Vec<Interface> = session.client.get("/v1/interfaces")?;
                session.show(&all, |all| show::ifconfig(all))
            }
            Self::Names => {
                let all: Vec<Interface> = session.client.get("/v1/interfaces")?;
                let names: Vec<String> = all.into_iter().map(|interface| interface.name).collect();
                session.show(&names, |names| names.join(" ") + "\n")
            }
            Self::One(name) => {
                let one: Interface = session.client.get(&path(&name))?;
                session.show(&one, |one| show::ifconfig(core::slice::from_ref(one)))
            }
            Self::Stations(name) => {
                let one: Interface = session.client.get(&path(&name))?;
                session.show(&one.fdb, |all| show::stations(all))
            }
            Self::Change { name, mut edits, state, stations } => {
                let mut learnt = Vec::new();
                for one in stations {
                    match (&one, is_static(session, &name, &one)?) {
                        (Forget::One(mac), true) => {
                            let (interface, value) = (name.clone(), mac.to_string());
                            edits.edits.push(ConfigEdit::Remove { interface, key: "fdb".to_owned(), value });
                        }
                        _ => learnt.push(one),
                    }
                }
                if !edits.edits.is_empty() {
                    let _: Reloaded = session.client.post("/v1/config/edits", &edits)?;
                }
                for one in learnt {
                    match one {
                        Forget::All => _ = session.client.delete::<u64>(&format!("{}/fdb", path(&name)))?,
                        Forget::One(mac) => session.client.delete(&format!("{}/fdb/{mac}", path(&name)))?,
                    }
                }
                if state != InterfaceChange::default() {
                    let () = session.client.patch(&path(&name), &state)?;
                }
                session.done("")
            }
        }
    }
}

/// The words of a line, as they are recorded.
fn without_password(words: &[String]) -> String {
    let is_password =
        |at: usize| at.checked_sub(1).and_then(|at| words.get(at)).is_some_and(|word| word == "authkey");
    let shown = words.iter().enumerate().map(|(at, word)| if is_password(at) { "…" } else { word });
    shown.collect::<Vec<_>>().join(" ")
}

/// Whether a link address that is to be forgotten is a static one, which the configuration has.
fn is_static(session: &Session<'_>, name: &str, forget: &Forget) -> Result<bool, Failure> {
    let Forget::One(mac) = forget else { return Ok(false) };
    let interface: Interface = session.client.get(&path(name))?;
    Ok(interface.fdb.iter().any(|station| station.is_static && station.mac.0 == *mac))
}

fn path(name: &str) -> String {
    format!("/v1/interfaces/{}", escaped(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Ifconfig, Failure> {
        Ifconfig::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn bsd_lines_are_understood() {
        let change = |words: &str, state| Ifconfig::Change {
            name: "lan".into(),
            edits: ConfigEdits { edits: Vec::new(), title: format!("ifconfig lan {words}") },
            state,
            stations: Vec::new(),
        };
        let up = |up| InterfaceChange { up: Some(up), monitor: None };
        let monitor = |on| InterfaceChange { up: None, monitor: Some(on) };
        for (line, means) in [
            ("", Ifconfig::All),
            ("-a", Ifconfig::All),
            ("-l", Ifconfig::Names),
            ("lan", Ifconfig::One("lan".into())),
            ("lan up", change("up", up(true))),
            ("lan down", change("down", up(false))),
            ("lan monitor", change("monitor", monitor(true))),
            ("lan -monitor", change("-monitor", monitor(false))),
            ("bridge0 addr", Ifconfig::Stations("bridge0".into())),
        ] {
            assert_eq!(read(line).unwrap(), means, "{line}");
        }
    }

    #[test]
    fn other_lines_are_explained() {
        for (line, says) in [
            ("lan dwon", "did you mean `down`?"),
            ("lan frobnicate", "known are up, down, monitor, -monitor"),
            ("lan monitro", "did you mean `monitor`?"),
            ("-x", "no flag -x"),
            ("-a lan up", "one word too many"),
        ] {
            let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
            assert!(text.contains(says), "{line}: {text}");
        }
    }
}
