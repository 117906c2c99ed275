//! Takes results of router advertisements over into the tables.

use std::sync::{Arc, Mutex};

use net::ip6::autoconf::{self, Forget, LinkUpdate};
use net::tables::IfIndex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::control::Control;
use super::{locked, log};
use crate::api::Error;

/// Where netisrs send what they have learned. How often they do is bounded there.
pub(crate) type Learning = UnboundedReceiver<LinkUpdate>;

impl Control {
    /// Has the netisrs say what they learn.
    pub(super) fn listen_to_routers(&self) -> Result<Learning, Error> {
        let (sender, receiver): (UnboundedSender<LinkUpdate>, _) = unbounded_channel();
        self.cpus.call_all(move |netisr| {
            let sender = sender.clone();
            // The receiver goes only when the stack ends.
            netisr.cpu.autoconf.set_sink(Box::new(move |news| drop(sender.send(news))));
        })?;
        Ok(receiver)
    }

    fn take_over(&mut self, news: impl IntoIterator<Item = LinkUpdate>) {
        for LinkUpdate { ifindex, learned } in news {
            if let Some(interface) = self.attached.iter_mut().find(|interface| interface.index == ifindex) {
                interface.learned = learned;
            }
        }
        if let Err(why) = self.publish() {
            log::error(&why.error);
        }
        self.routers_said();
    }

    /// Forgets something that was learned of all links, or of one; returns how many.
    pub(super) fn forget_of(&self, ifindex: Option<IfIndex>, what: Forget) -> Result<u64, Error> {
        let forgotten = self.cpus.call_all(move |netisr| autoconf::forget(&mut netisr.cpu, ifindex, what))?;
        Ok(forgotten.into_iter().sum::<usize>() as u64)
    }

    /// Returns the links learnt so far.
    pub(super) fn learned(&self) -> Result<Vec<autoconf::Status>, Error> {
        Ok(self.cpus.call_all(|netisr| autoconf::states(&netisr.cpu))?.concat())
    }
}

/// Takes over what is learned, for ever; what came together is one change.
pub(crate) async fn learn(control: &Arc<Mutex<Control>>, mut learning: Learning) {
    while let Some(first) = learning.recv().await {
        let mut news = vec![first];
        while let Ok(next) = learning.try_recv() {
            news.push(next);
        }
        locked(control).take_over(news);
    }
    core::future::pending().await
}
