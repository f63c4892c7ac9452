//! A function: its settings and the environments that it has.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::answer::{Answer, Failure};
use super::environment::{Environment, Work};

/// What a deployment says of a function.
#[derive(Clone, Debug)]
pub struct Settings {
    pub name: String,
    pub program: PathBuf,
    pub environment: Vec<(String, String)>,
    /// The wall: the process is killed.
    pub timeout: Duration,
    pub deadline: Deadline,
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
}

impl Function {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings: Arc::new(settings),
            environments: Mutex::default(),
            invocations: AtomicU64::new(0),
        }
    }

    /// In an idle environment, or in a new one.
    pub async fn invoke(&self, payload: Bytes) -> Result<Answer, Failure> {
        let number = self.invocations.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let mut work = Some(Work {
            request_id: format!("{}-{number}", self.settings.name),
            payload,
            answer,
        });
        for environment in self.environments() {
            work = match work {
                Some(work) => environment.take(work),
                None => break,
            };
        }
        if let Some(work) = work {
            let environment = Environment::start(self.settings.clone(), work).await;
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
