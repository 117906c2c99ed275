//! `sysctl`: what variables say, and how that is changed on all CPUs.

use net::sysctl::{Sysctls, Unit, VARIABLES, Variable};

use super::super::control::Control;
use crate::api::{Error, ErrorKind, Sysctl, SysctlChange, SysctlChanged};
use diagnostic::nearest;

impl Control {
    pub(super) fn list_sysctls(&self) -> Vec<Sysctl> {
        VARIABLES.iter().map(|variable| shown(variable, &self.sysctls)).collect()
    }

    pub(super) fn turn_sysctl(&mut self, name: &str, change: &SysctlChange) -> Result<SysctlChanged, Error> {
        let variable = named(name)?;
        let value = variable.parse(&change.value).map_err(|wrong| {
            Error::new(ErrorKind::Invalid, format!("{name} cannot be {}", change.value))
                .hint(format!("it {wrong}"))
        })?;
        let old = variable.read(&self.sysctls);
        self.turn(variable, value)?;
        Ok(SysctlChanged { name: name.to_owned(), old: variable.text(old), new: variable.text(value) })
    }

    fn turn(&mut self, variable: &'static Variable, value: i64) -> Result<(), Error> {
        self.cpus.set_sysctl(variable, value)?;
        variable.write(&mut self.sysctls, value);
        Ok(())
    }
}

fn named(name: &str) -> Result<&'static Variable, Error> {
    Variable::named(name).ok_or_else(|| {
        let error = Error::new(ErrorKind::NotFound, format!("unknown variable `{name}`"));
        match nearest(name, VARIABLES.iter().map(|variable| variable.name)) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint("pantala sysctl -a shows all that there are"),
        }
    })
}

fn shown(variable: &Variable, sysctls: &Sysctls) -> Sysctl {
    Sysctl {
        name: variable.name.to_owned(),
        value: variable.text(variable.read(sysctls)),
        default: variable.text(variable.default()),
        unit: match variable.unit() {
            Unit::Bytes => "bytes".to_owned(),
            Unit::Milliseconds => "ms".to_owned(),
            Unit::Switch | Unit::None => String::new(),
        },
        min: *variable.range().start(),
        max: *variable.range().end(),
        words: variable.words().iter().map(|word| (*word).to_owned()).collect(),
        writable: !variable.is_fixed(),
        description: variable.about.to_owned(),
    }
}
