//! One execution environment: a process that takes one invocation at a time, and is frozen in between.

use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};

use super::answer::{Answer, Failure};
use super::function::Settings;
use super::runtime_api;
use super::trace::Trace;

/// What is handed to the process.
pub(super) struct Work {
    pub request_id: String,
    pub payload: Bytes,
    pub trace: Trace,
    pub answer: oneshot::Sender<Result<Answer, Failure>>,
}

/// What the process gets of it.
pub(super) struct Invocation {
    pub request_id: String,
    pub payload: Bytes,
    pub trace: Trace,
}

pub struct Environment {
    pub(super) settings: Arc<Settings>,
    pid: Pid,
    state: Mutex<State>,
    to_process: mpsc::UnboundedSender<Invocation>,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// Frozen by a test: it is given nothing.
    held: bool,
    /// Waited for: its process id may be another's by now.
    exited: bool,
    lines: Vec<String>,
}

#[derive(Default)]
enum Phase {
    #[default]
    Idle,
    Busy(Current),
    Gone,
}

struct Current {
    request_id: String,
    /// The process has it. Until then it waits for the end of a cold start.
    handed_over: bool,
    /// Taken when the answer begins.
    answer: Option<oneshot::Sender<Result<Answer, Failure>>>,
}

impl Environment {
    /// A cold start, with its first invocation. One that is frozen has not been given it, however far it came.
    pub(super) async fn start(settings: Arc<Settings>, work: Work, frozen: bool) -> Arc<Environment> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let api = listener.local_addr().expect("its address").to_string();
        let mut child = Command::new(&settings.program)
            .env_clear()
            .envs(settings.environment.iter().map(|(name, value)| (name, value)))
            .env("AWS_LAMBDA_RUNTIME_API", &api)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", settings.program.display()));
        let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let (to_process, from_invoker) = mpsc::unbounded_channel();
        let environment = Arc::new(Environment {
            settings,
            pid: pid.expect("a process has an id until it is waited for"),
            state: Mutex::default(),
            to_process,
        });
        runtime_api::serve(listener, environment.clone(), from_invoker);
        environment.keep_lines(child.stdout.take());
        environment.keep_lines(child.stderr.take());
        environment.watch(child);
        if frozen {
            environment.freeze();
        }
        environment.give(&mut environment.lock(), work);
        environment
    }

    /// Gives it the invocation if it is idle, else the invocation back.
    pub(super) fn take(&self, work: Work) -> Option<Work> {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Idle) || state.held {
            return Some(work);
        }
        self.signal(&state, Signal::CONT);
        self.give(&mut state, work);
        None
    }

    fn give(&self, state: &mut State, work: Work) {
        state.phase = Phase::Busy(Current {
            request_id: work.request_id.clone(),
            handed_over: false,
            answer: Some(work.answer),
        });
        // It fails only with the process, whose end the invoker learns anyway.
        let _ = self.to_process.send(Invocation {
            request_id: work.request_id,
            payload: work.payload,
            trace: work.trace,
        });
    }

    /// `SIGKILL`, as a test's failure or as Lambda's wall.
    pub fn kill(&self) {
        self.signal(&self.lock(), Signal::KILL);
    }

    /// `SIGSTOP`: everything in it stands still until [`Environment::thaw`].
    pub fn freeze(&self) {
        let mut state = self.lock();
        state.held = true;
        self.signal(&state, Signal::STOP);
    }

    pub fn thaw(&self) {
        let mut state = self.lock();
        state.held = false;
        self.signal(&state, Signal::CONT);
    }

    pub fn is_busy(&self) -> bool {
        matches!(self.lock().phase, Phase::Busy(_))
    }

    /// What the process has written so far.
    pub fn lines(&self) -> Vec<String> {
        self.lock().lines.clone()
    }

    /// Its wall: whatever it does, it is over.
    pub(super) fn time_out(&self, request_id: &str) {
        let is_at_it = matches!(&self.lock().phase, Phase::Busy(current) if current.request_id == request_id);
        if is_at_it {
            self.gone(Failure::TimedOut);
            self.kill();
        }
    }

    /// The process asks for more: what it had is over. Lambda freezes it here.
    pub(super) fn asks_for_more(&self) {
        let mut state = self.lock();
        match &mut state.phase {
            // It starts, and its first invocation waits for it.
            Phase::Busy(current) if !current.handed_over => return,
            Phase::Busy(current) => {
                if let Some(answer) = current.answer.take() {
                    let _ = answer.send(Err(Failure::Error("it asked for more without an answer".into())));
                }
            }
            Phase::Idle | Phase::Gone => return,
        }
        state.phase = Phase::Idle;
        self.signal(&state, Signal::STOP);
    }

    pub(super) fn handed_over(&self) {
        if let Phase::Busy(current) = &mut self.lock().phase {
            current.handed_over = true;
        }
    }

    /// The answer to this request begins: who waits for it. `None`: nobody, or it has begun.
    pub(super) fn answering(&self, request_id: &str) -> Option<oneshot::Sender<Result<Answer, Failure>>> {
        match &mut self.lock().phase {
            Phase::Busy(current) if current.request_id == request_id => current.answer.take(),
            Phase::Busy(_) | Phase::Idle | Phase::Gone => None,
        }
    }

    fn gone(&self, failure: Failure) {
        let before = std::mem::replace(&mut self.lock().phase, Phase::Gone);
        if let Phase::Busy(current) = before
            && let Some(answer) = current.answer
        {
            let _ = answer.send(Err(failure));
        }
    }

    fn watch(self: &Arc<Self>, mut child: Child) {
        let environment = self.clone();
        tokio::spawn(async move {
            let ended = child.wait().await;
            environment.lock().exited = true;
            let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
            environment.gone(Failure::Exited(how));
        });
    }

    fn keep_lines<R: AsyncRead + Unpin + Send + 'static>(self: &Arc<Self>, output: Option<R>) {
        let environment = self.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(output.expect("piped")).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                eprintln!("{}: {line}", environment.settings.name);
                environment.lock().lines.push(line);
            }
        });
    }

    fn signal(&self, state: &State, signal: Signal) {
        if !state.exited {
            // It fails only if the process ends at this moment, which is as good.
            let _ = kill_process(self.pid, signal);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
