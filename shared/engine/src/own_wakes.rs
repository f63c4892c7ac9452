//! A future that wakes itself while it is polled is polled again at once, without its runtime.
//!
//! A chunk is one task in which the agent's code and the log's writer wake each other at every step. To a runtime with
//! several threads each of these is a task to be scheduled: it wakes another thread to look for it, which finds nothing,
//! or takes the chunk along to a cold cache. That was half of what a step cost beside its write.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;

/// So often it may go on in one turn; then whoever else waits for this thread has one.
const ROUNDS: usize = 8;

pub(crate) struct OwnWakes<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
    waker: Waker,
}

#[derive(Default)]
struct Wakes {
    polling: AtomicBool,
    woken: AtomicBool,
    outer: AtomicWaker,
}

/// Runs `future` so that it keeps its own wakes to itself.
pub(crate) fn keep_own_wakes<F: Future>(future: F) -> OwnWakes<F> {
    let wakes = Arc::new(Wakes::default());
    OwnWakes {
        future: Box::pin(future),
        waker: Waker::from(wakes.clone()),
        wakes,
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // This order, and its reverse where polling ends: one of the two sees the other, so that no wake is lost.
        self.woken.store(true, Ordering::SeqCst);
        if !self.polling.load(Ordering::SeqCst) {
            self.outer.wake();
        }
    }
}

impl<F: Future> Future for OwnWakes<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.wakes.outer.register(context.waker());
        for _ in 0..ROUNDS {
            this.wakes.polling.store(true, Ordering::SeqCst);
            // What woke it before this is seen by the poll that follows.
            this.wakes.woken.store(false, Ordering::SeqCst);
            let polled = this.future.as_mut().poll(&mut Context::from_waker(&this.waker));
            this.wakes.polling.store(false, Ordering::SeqCst);
            if polled.is_ready() || !this.wakes.woken.load(Ordering::SeqCst) {
                return polled;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Ready at its third poll; until then `at_each` is given its waker.
    fn third_time(at_each: impl Fn(&Waker)) -> impl Future<Output = ()> {
        let mut polls = 0;
        poll_fn(move |context| {
            polls += 1;
            if polls == 3 {
                return Poll::Ready(());
            }
            at_each(context.waker());
            Poll::Pending
        })
    }

    #[test]
    fn its_own_wakes_stay_inside() {
        let count = Arc::new(Count::default());
        let mut future = keep_own_wakes(third_time(Waker::wake_by_ref));
        let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&count.clone().into()));
        assert_eq!(polled, Poll::Ready(()));
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_wake_from_outside_reaches_the_runtime() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(count.clone());
        let kept = std::sync::Mutex::new(None);
        let mut future = keep_own_wakes(third_time(|waker| *kept.lock().unwrap() = Some(waker.clone())));
        for wakes in 1..3 {
            assert!(
                Pin::new(&mut future)
                    .poll(&mut Context::from_waker(&waker))
                    .is_pending()
            );
            kept.lock().unwrap().take().unwrap().wake();
            assert_eq!(count.0.load(Ordering::SeqCst), wakes);
        }
        assert!(Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_ready());
    }

    #[test]
    fn one_that_never_rests_lets_others_have_their_turn() {
        let count = Arc::new(Count::default());
        let mut future = keep_own_wakes(poll_fn(|context| {
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        }));
        let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&count.clone().into()));
        assert!(polled.is_pending());
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
    }
}
