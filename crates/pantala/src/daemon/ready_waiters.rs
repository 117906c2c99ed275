//! Callers that wait until the stack's addresses can be used.

use core::time::Duration;

use tokio::sync::{Notify, watch};

/// Interval of looks while a caller waits: links come up without an event that all devices have.
const LOOK: Duration = Duration::from_millis(10);

/// The callers, and the control thread that tells them to look again.
#[derive(Default)]
pub(crate) struct Waiting {
    /// The first caller has come.
    asked: Notify,
    looks: watch::Sender<()>,
}

impl Waiting {
    /// Returns what tells a caller to look again.
    pub(crate) fn join(&self) -> watch::Receiver<()> {
        let looks = self.looks.subscribe();
        self.asked.notify_one();
        looks
    }

    /// Tells callers to look again, for ever.
    pub(super) async fn run(&self) {
        loop {
            self.asked.notified().await;
            while self.looks.receiver_count() > 0 {
                tokio::time::sleep(LOOK).await;
                self.look();
            }
        }
    }

    /// Tells callers to look again.
    pub(crate) fn look(&self) {
        self.looks.send_replace(());
    }
}
