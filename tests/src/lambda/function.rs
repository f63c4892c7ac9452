//! A function: its settings and the environments that it has.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::answer::{Answer, Failure};
use super::environment::{Environment, Work};
use super::trace::{RecursiveLoop, Trace};

/// What a deployment says of a function.
#[derive(Clone, Debug)]
pub struct Settings {
    pub name: String,
    pub program: PathBuf,
    pub environment: Vec<(String, String)>,
    /// The wall: the process is killed.
    pub timeout: Duration,
    pub deadline: Deadline,
    pub recursive_loop: RecursiveLoop,
}

/// What the function is told of its wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    True,
    /// Epoch milliseconds, as emulators send them.
    Nonsense(u64),
}

impl Settings {
    pub(super) fn arn(&self) -> String {
        format!("arn:aws:lambda:us-east-1:123456789012:function:{}", self.name)
    }
}

pub struct Function {
    settings: Arc<Settings>,
    environments: Mutex<Vec<Arc<Environment>>>,
    invocations: AtomicU64,
    freeze_next_start: AtomicBool,
}

impl Function {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings: Arc::new(settings),
            environments: Mutex::default(),
            invocations: AtomicU64::new(0),
            freeze_next_start: AtomicBool::new(false),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.settings.name
    }

    /// Whether an event of this chain is dropped instead of delivered.
    pub(super) fn drops(&self, trace: &Trace) -> bool {
        self.settings.recursive_loop == RecursiveLoop::Terminate && trace.is_stopped_at(self.name())
    }

    /// The next new environment is frozen in its set-up, its first invocation waiting for it, until a test thaws it.
    pub fn freeze_next_start(&self) {
        self.freeze_next_start.store(true, Ordering::Relaxed);
    }

    /// From outside, in an idle environment or in a new one.
    pub async fn invoke(&self, payload: Bytes) -> Result<Answer, Failure> {
        self.invoke_in(&Trace::begun(), payload).await
    }

    /// The same in a chain that has begun.
    pub(super) async fn invoke_in(&self, trace: &Trace, payload: Bytes) -> Result<Answer, Failure> {
        let number = self.invocations.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let mut work = Some(Work {
            request_id: format!("{}-{number}", self.settings.name),
            payload,
            trace: trace.invoking(self.name()),
            answer,
        });
        for environment in self.environments() {
            work = match work {
                Some(work) => environment.take(work),
                None => break,
            };
        }
        if let Some(work) = work {
            let frozen = self.freeze_next_start.swap(false, Ordering::Relaxed);
            let environment = Environment::start(self.settings.clone(), work, frozen).await;
            self.lock().push(environment);
        }
        answered
            .await
            .unwrap_or(Err(Failure::Exited("its environment is gone".into())))
    }

    /// All that there have been, the oldest first.
    pub fn environments(&self) -> Vec<Arc<Environment>> {
        self.lock().clone()
    }

    /// The one that is at work. Fails the test if there isn't just one.
    pub fn busy(&self) -> Arc<Environment> {
        let mut busy: Vec<_> = self.environments();
        busy.retain(|environment| environment.is_busy());
        assert_eq!(busy.len(), 1, "environments of {} at work", self.settings.name);
        busy.remove(0)
    }

    /// Everything that its processes have written.
    pub fn lines(&self) -> Vec<String> {
        self.environments()
            .iter()
            .flat_map(|environment| environment.lines())
            .collect()
    }

    pub fn invocations(&self) -> u64 {
        self.invocations.load(Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Environment>>> {
        self.environments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
