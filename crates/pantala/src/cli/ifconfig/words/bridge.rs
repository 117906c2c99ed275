//! Words about bridges: ports, link addresses, the spanning tree.

use wire::ether::Mac;

use super::{Forget, Reader};
use crate::api::ConfigEdit;

impl Reader<'_> {
    /// Reads a word about a bridge; false if it is none.
    pub(super) fn bridge(&mut self, word: &str) -> Result<bool, String> {
        match word {
            "addm" if self.seen.creates => {
                let port = self.value(word, "an interface")?.to_owned();
                self.seen.members.push(port);
            }
            "addm" => self.insert("member", word)?,
            "deletem" => self.remove("member", word)?,
            "private" | "span" => self.insert(word, word)?,
            "-private" | "-span" => self.remove(word.trim_start_matches('-'), word)?,
            "static" => {
                let port = self.value(word, "a port and its Ethernet address")?.to_owned();
                let mac = self.mac(word)?;
                self.list("fdb", format!("{mac} {port}"), true);
            }
            "deladdr" => {
                let mac = self.mac(word)?;
                self.changes.stations.push(Forget::One(mac));
            }
            "flush" => self.changes.stations.push(Forget::All),
            "flushall" => {
                self.unset("fdb");
                self.changes.stations.push(Forget::All);
            }
            "addr" => self.changes.lists_stations = true,
            "maxaddr" | "timeout" | "storm" | "hellotime" | "maxage" | "fwddelay" | "holdcnt" => {
                self.set_number(word)?;
            }
            "priority" => {
                let number: u32 = self.number(word, "a number")?;
                self.set("stp_priority", number.to_string());
            }
            "stp" => self.set("stp", "rstp".to_owned()),
            "-stp" => self.unset("stp"),
            "proto" => {
                let protocol = self.value(word, "rstp or stp")?.to_owned();
                self.set("stp", protocol);
            }
            "ifpriority" | "ifpathcost" => {
                let port = self.value(word, "a port and a number")?.to_owned();
                let number: u32 = self.number(word, "a number")?;
                let of = if word == "ifpathcost" { "cost" } else { "priority" };
                self.list("stp_port", format!("{port} {of} {number}"), true);
            }
            "edge" | "-edge" | "autoedge" | "-autoedge" | "ptp" | "-ptp" => {
                let port = self.value(word, "a port")?.to_owned();
                self.list("stp_port", format!("{port} {word}"), true);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn mac(&mut self, word: &str) -> Result<Mac, String> {
        let text = self.value(word, "an Ethernet address")?;
        text.parse().map_err(|_| format!("`{text}` is not an Ethernet address"))
    }

    fn insert(&mut self, key: &str, word: &str) -> Result<(), String> {
        let port = self.value(word, "an interface")?.to_owned();
        self.list(key, port, true);
        Ok(())
    }

    fn remove(&mut self, key: &str, word: &str) -> Result<(), String> {
        let port = self.value(word, "an interface")?.to_owned();
        self.list(key, port, false);
        Ok(())
    }

    fn list(&mut self, key: &str, value: String, inserts: bool) {
        let (interface, key) = (self.interface.to_owned(), key.to_owned());
        self.changes.edits.push(if inserts {
            ConfigEdit::Insert { interface, key, value }
        } else {
            ConfigEdit::Remove { interface, key, value }
        });
    }
}
