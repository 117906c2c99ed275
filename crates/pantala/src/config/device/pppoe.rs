//! `pppoe:INTERFACE[,service=NAME][,ac=NAME]`.

use core::fmt;

use crate::config::problem::Wrong;
use diagnostic::did_you_mean;

const GRAMMAR: &str = "write pppoe:INTERFACE[,service=NAME][,ac=NAME], as in pppoe:uplink";
/// Bytes of the name of a service or access concentrator.
const NAME_MAX: usize = 128;

/// PPPoE over another interface.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pppoe {
    /// The name of the interface.
    pub parent: String,
    /// The service that is asked for; any if it is empty.
    pub service: String,
    /// The access concentrator that is accepted; any if `None`.
    pub ac: Option<String>,
}

impl Pppoe {
    pub(super) fn parse(rest: &str) -> Result<Self, Wrong> {
        let mut words = rest.split(',');
        let parent = words.next().unwrap_or_default().to_owned();
        if parent.is_empty() {
            return Err(Wrong::new(format!("`pppoe:{rest}` names no interface"), GRAMMAR));
        }
        let mut own = Self { parent, service: String::new(), ac: None };
        for word in words {
            match word.split_once('=') {
                Some(("service", name)) => own.service = self::name(name)?,
                Some(("ac", name)) => own.ac = Some(self::name(name)?),
                _ => {
                    let key = word.split('=').next().unwrap_or_default();
                    let help = did_you_mean(key, &["service", "ac"]);
                    return Err(Wrong::new(format!("unknown option `{word}` of pppoe"), help));
                }
            }
        }
        Ok(own)
    }
}

fn name(text: &str) -> Result<String, Wrong> {
    if text.is_empty() || text.len() > NAME_MAX || text.chars().any(char::is_control) {
        let help = format!("use 1 to {NAME_MAX} bytes without a comma");
        return Err(Wrong::new(format!("`{text}` cannot be a name of PPPoE"), help));
    }
    Ok(text.to_owned())
}

impl fmt::Display for Pppoe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pppoe:{}", self.parent)?;
        if !self.service.is_empty() {
            write!(f, ",service={}", self.service)?;
        }
        self.ac.as_ref().map_or(Ok(()), |ac| write!(f, ",ac={ac}"))
    }
}
