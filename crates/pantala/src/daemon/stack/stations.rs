//! Learnt link addresses: forgetting them.

use net::fdb;

use super::super::control::Control;
use crate::Mac;
use crate::api::{Error, ErrorKind};

impl Control {
    /// Forgets a learnt address of an interface, or all; answers how many.
    pub(super) fn forget_learnt(&self, name: &str, mac: Option<Mac>) -> Result<u64, Error> {
        let Some(interface) = self.attached.iter().find(|interface| interface.config.name == name) else {
            return Err(self.no_interface(name));
        };
        let index = interface.index;
        let Some(mac) = mac else {
            let flushed = self.cpus.call_all(move |netisr| fdb::flush(&mut netisr.cpu, index))?;
            return Ok(flushed.into_iter().map(|count| count as u64).sum());
        };
        if interface.config.fdb.statics.iter().any(|entry| entry.mac == mac.0) {
            let message = format!("{} is a static address of {name}", mac.0);
            let help = "remove it from `fdb` in the configuration";
            return Err(Error::new(ErrorKind::Invalid, message).hint(help.to_owned()));
        }
        let gone = self.cpus.call_all(move |netisr| fdb::delete(&mut netisr.cpu, index, mac.0))?;
        match gone.into_iter().any(|gone| gone) {
            true => Ok(1),
            false => Err(Error::new(ErrorKind::NotFound, format!("{name} has not learnt {}", mac.0))),
        }
    }
}
