//! Word inside the process that a run's log has grown. It may wake a reader sooner; data comes from the log only.

use std::collections::HashMap;
use std::sync::Mutex;

use outlast_core::RunId;
use tokio::sync::watch;

#[derive(Default)]
pub struct Hints(Mutex<HashMap<RunId, watch::Sender<u64>>>);

impl Hints {
    /// A reader's ear. Each change is the log's last seq as its writer saw it.
    pub fn listen(&self, run: &RunId) -> watch::Receiver<u64> {
        let mut senders = self.lock();
        senders
            .entry(run.clone())
            .or_insert_with(|| watch::channel(0).0)
            .subscribe()
    }

    /// Wakes the run's readers in this process. Zero where the writer doesn't know the last seq.
    pub fn grew(&self, run: &RunId, last_seq: u64) {
        let mut senders = self.lock();
        let Some(sender) = senders.get(run) else { return };
        if sender.receiver_count() == 0 {
            senders.remove(run);
        } else {
            sender.send_replace(last_seq);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, watch::Sender<u64>>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
