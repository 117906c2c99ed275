//! Pipes and queues as they were configured, beside what CPUs are given of them.

use std::collections::BTreeMap;

use ipfw::command::{PipeConfig, QueueConfig};
use net::firewall::pipe::Config;

use super::Refused;

/// Pipes and queues.
#[derive(Clone, Debug)]
pub(crate) struct Shapes {
    compiled: Config,
    pipes: BTreeMap<u16, PipeConfig>,
    queues: BTreeMap<u16, QueueConfig>,
}

impl Shapes {
    /// None. `key` keys what tells flows apart.
    pub(crate) fn new(key: u128) -> Self {
        Self { compiled: Config::new(key), pipes: BTreeMap::new(), queues: BTreeMap::new() }
    }

    /// Returns the configuration for the CPUs.
    pub(crate) fn compiled(&self) -> &Config {
        &self.compiled
    }

    /// The pipes, by number.
    pub(crate) fn pipes(&self) -> impl Iterator<Item = (u16, &PipeConfig)> {
        self.pipes.iter().map(|(number, config)| (*number, config))
    }

    /// The queues, by number.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (u16, &QueueConfig)> {
        self.queues.iter().map(|(number, config)| (*number, config))
    }

    pub(crate) fn set_pipe(&mut self, number: u16, config: &PipeConfig) -> Result<(), Refused> {
        self.compiled.set_pipe(number, config).map_err(|why| Refused::new(why, ""))?;
        self.pipes.insert(number, config.clone());
        Ok(())
    }

    pub(crate) fn set_queue(&mut self, number: u16, config: &QueueConfig) -> Result<(), Refused> {
        self.compiled.set_queue(number, config).map_err(|why| Refused::new(why, ""))?;
        self.queues.insert(number, config.clone());
        Ok(())
    }

    pub(crate) fn delete(&mut self, number: u16, is_queue: bool) -> Result<(), Refused> {
        if !self.compiled.delete(number, is_queue) {
            let what = if is_queue { "queue" } else { "pipe" };
            return Err(Refused::new(format!("there is no {what} {number}"), ""));
        }
        if is_queue {
            self.queues.remove(&number);
        } else {
            self.pipes.remove(&number);
        }
        Ok(())
    }

    /// All pipes and queues go.
    pub(crate) fn flush(&mut self) {
        for number in core::mem::take(&mut self.queues).into_keys() {
            self.compiled.delete(number, true);
        }
        for number in core::mem::take(&mut self.pipes).into_keys() {
            self.compiled.delete(number, false);
        }
    }

    /// Becomes what others are, by changing what differs: a pipe that stays as it is keeps what waits in it, and its
    /// place in time.
    pub(crate) fn adopt(&mut self, new: &Self) -> Result<(), Refused> {
        let gone = |old: Vec<u16>, is_new: &dyn Fn(&u16) -> bool| {
            old.into_iter().filter(|number| !is_new(number)).collect::<Vec<_>>()
        };
        for number in gone(self.queues.keys().copied().collect(), &|number| new.queues.contains_key(number)) {
            self.delete(number, true)?;
        }
        for number in gone(self.pipes.keys().copied().collect(), &|number| new.pipes.contains_key(number)) {
            self.delete(number, false)?;
        }
        for (number, config) in new.pipes() {
            if self.pipes.get(&number) != Some(config) {
                self.set_pipe(number, config)?;
            }
        }
        for (number, config) in new.queues() {
            if self.queues.get(&number) != Some(config) {
                self.set_queue(number, config)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ipfw::Command;

    use super::*;

    fn shapes(text: &str) -> Shapes {
        let mut shapes = Shapes::new(7);
        for statement in ipfw::parse_file("t", text).unwrap() {
            match statement.command {
                Command::PipeConfig { number, config } => shapes.set_pipe(number, &config).unwrap(),
                Command::QueueConfig { number, config } => shapes.set_queue(number, &config).unwrap(),
                other => panic!("{other}"),
            }
        }
        shapes
    }

    fn text(shapes: &Shapes) -> String {
        let pipes = shapes.pipes().map(|(number, config)| format!("pipe {number}{config}\n"));
        let queues = shapes.queues().map(|(number, config)| format!("queue {number}{config}\n"));
        pipes.chain(queues).collect()
    }

    #[test]
    fn what_is_adopted_is_the_same_and_what_is_gone_is_gone() {
        let mut old = shapes("pipe 1 config bw 1Mbit/s\npipe 2 config delay 5\nqueue 1 config pipe 1\n");
        let new = shapes("pipe 1 config bw 1Mbit/s\npipe 3 config bw 2Mbit/s\nqueue 2 config pipe 3\n");
        old.adopt(&new).unwrap();
        assert_eq!(text(&old), text(&new));
        assert!(old.delete(2, false).is_err() && old.delete(1, true).is_err());
        old.flush();
        assert_eq!(text(&old), "");
        assert!(old.delete(1, false).is_err());
    }
}
