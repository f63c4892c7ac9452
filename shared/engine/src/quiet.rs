//! Whether a future has really come to rest. One that is polled in parts, as many branches at once are, wakes itself to go on: what it
//! waits for then isn't all that it will wait for.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;

pub(crate) struct Quiet<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
    waker: Waker,
}

#[derive(Default)]
struct Wakes {
    woken: AtomicBool,
    outer: AtomicWaker,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.outer.wake();
    }
}

impl<F: Future> Quiet<F> {
    pub(crate) fn new(future: F) -> Self {
        let wakes = Arc::new(Wakes::default());
        Self {
            future: Box::pin(future),
            waker: Waker::from(wakes.clone()),
            wakes,
        }
    }

    /// Polled, and since then not woken by anyone.
    fn is_quiet(&self) -> bool {
        !self.wakes.woken.load(Ordering::SeqCst)
    }

    /// Its output; or `None`, once it has come to rest and this holds.
    pub(crate) async fn until_quiet_and(&mut self, holds: impl Fn() -> bool) -> Option<F::Output> {
        loop {
            let ended = std::future::poll_fn(|context| match self.poll(context) {
                Poll::Ready(output) => Poll::Ready(Some(output)),
                Poll::Pending if self.is_quiet() && holds() => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            if let Some(output) = ended.await {
                return Some(output);
            }
            // What has yielded to the runtime is woken only at the runtime's next turn: it isn't at rest before that.
            tokio::task::yield_now().await;
            if self.is_quiet() && holds() {
                return None;
            }
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<F::Output> {
        self.wakes.outer.register(context.waker());
        self.wakes.woken.store(false, Ordering::SeqCst);
        self.future.as_mut().poll(&mut Context::from_waker(&self.waker))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[tokio::test]
    async fn one_that_wakes_itself_is_not_at_rest() {
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = polls.clone();
        let mut quiet = Quiet::new(std::future::poll_fn(move |context| {
            // It goes on by itself twice; then nobody wakes it.
            if counted.fetch_add(1, Ordering::SeqCst) < 2 {
                context.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        assert_eq!(quiet.until_quiet_and(|| true).await, None);
        assert_eq!(polls.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn its_output_comes_first() {
        let mut quiet = Quiet::new(async {
            tokio::task::yield_now().await;
            7
        });
        assert_eq!(quiet.until_quiet_and(|| true).await, Some(7));
    }
}
