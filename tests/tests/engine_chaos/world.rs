//! What a seed makes of the world around one run.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use outlast_agent::tool::Repeat;
use outlast_agent::{Tool, ToolCall};
use outlast_core::time_budget::HostKind;
use outlast_core::{AgentName, Payload, RunId, Status};
use outlast_engine::BodyError;
use outlast_engine::answer::{Answer, answer};
use outlast_engine::continue_inline::{Continued, continue_inline};
use outlast_engine::control::stop;
use outlast_engine::seams::Random as _;
use outlast_engine::sweep::{sweep, sweep_and_carry};
use outlast_store::memory::{Effect, Fault, Kind, MemoryTable};
use outlast_store::table::Reason;
use outlast_tests::rig::{Deliver, Rig, RigOptions, TestClock, TestRandom, deliver, invocation};
use serde_json::{Value, json};
use tokio::task::{AbortHandle, JoinHandle};

use crate::STEPS;
use crate::waiting;

/// One seed's dice.
#[derive(Clone)]
pub struct Dice(Arc<TestRandom>);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(TestRandom::seeded(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)))
    }

    pub fn below(&self, sides: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes) % sides
    }

    pub fn one_in(&self, sides: u64) -> bool {
        self.below(sides) == 0
    }
}

/// A tool that counts its bodies by step and epoch, and takes some time.
#[derive(Clone, Default)]
pub struct Count(pub Arc<Mutex<HashMap<(String, u64), u64>>>);

#[async_trait]
impl Tool for Count {
    fn name(&self) -> &'static str {
        "count"
    }

    fn description(&self) -> &'static str {
        "Counts."
    }

    fn input_schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn repeat(&self, input: &Value) -> Repeat {
        match input["once"].as_bool() {
            Some(true) => Repeat::AtMostOnce {
                timeout: Duration::from_secs(5),
            },
            _ => Repeat::Idempotent,
        }
    }

    async fn call(&self, call: ToolCall<'_>) -> Result<Value, BodyError> {
        let key = call.step.idempotency_key.clone();
        *self.0.lock().unwrap().entry((key, call.step.epoch)).or_default() += 1;
        call.resources
            .clock
            .sleep(Duration::from_millis(call.input["ms"].as_u64().unwrap_or(0)))
            .await;
        Ok(json!({ "done": true }))
    }
}

pub struct World {
    dice: Dice,
    pub hosts: Vec<Rig>,
    pub bodies: Count,
    pub faulty: Arc<AtomicBool>,
    taken: Vec<usize>,
    invocations: Vec<JoinHandle<()>>,
    kills_left: u64,
    stops_at: Option<u64>,
    kind: Runs,
    /// Answers that were accepted, by their questions.
    pub answered: HashMap<String, u64>,
    /// How many of them were left to the holder to log.
    pub left_to_holders: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// A plan's, dispatched.
    Dispatched,
    /// A plan's, without anywhere to dispatch to: clients come and go, and the sweep carries.
    Inline,
    /// Of [`waiting`]'s agent.
    Waiting,
}

impl World {
    pub fn new(seed: u64, skew_ms: u64) -> World {
        Self::built(seed, skew_ms, Runs::Dispatched)
    }

    /// Without anywhere to dispatch to: clients come and go, and the sweep carries.
    pub fn inline(seed: u64) -> World {
        Self::built(seed, 1_000, Runs::Inline)
    }

    /// Whose run waits, asks and is answered.
    pub fn waiting(seed: u64) -> World {
        Self::built(seed, 1_000, Runs::Waiting)
    }

    fn built(seed: u64, skew_ms: u64, kind: Runs) -> World {
        let dice = Dice::new(seed);
        let table = Arc::new(MemoryTable::new());
        let bodies = Count::default();
        let faulty = Arc::new(AtomicBool::new(true));
        let clock = TestClock::new();
        let hosts = (0..2).map(|index| {
            let mut options = RigOptions::new(table.clone());
            options.app = assistant::app()
                .tool(bodies.clone())
                .agent(waiting::agent(bodies.clone()));
            options.clock = clock.with_skew(dice.below(2 * skew_ms) as i64 - skew_ms as i64);
            options.deliver = Deliver::Hold;
            options.dispatches = kind != Runs::Inline;
            options.cap = Duration::from_millis(1_000 + dice.below(3_000));
            options.seed = seed * 2 + index;
            Rig::new(options)
        });
        let hosts: Vec<Rig> = hosts.collect();
        let effects = [
            Effect::LoseRequest,
            Effect::LoseReply,
            Effect::Throttle,
            Effect::Conflict,
            Effect::Stale(3),
        ];
        for effect in effects {
            let (dice, faulty, one_in) = (dice.clone(), faulty.clone(), 12 + dice.below(60));
            table.fault(Fault::new(effect, move |_| faulty.load(Ordering::SeqCst) && dice.one_in(one_in)).always());
        }
        // So that answers come to be left to the holder.
        let collides = Effect::Cancel(vec![Reason::None, Reason::None, Reason::ConditionFailed(None)]);
        let is_answer = {
            let (dice, faulty) = (dice.clone(), faulty.clone());
            move |request: &outlast_store::memory::Request| {
                let hits = request.kind == Kind::Transact && request.names("/answer#");
                hits && faulty.load(Ordering::SeqCst) && !dice.one_in(4)
            }
        };
        if kind == Runs::Waiting {
            table.fault(Fault::new(collides, is_answer).always());
        }
        let kills_left = dice.below(3);
        let stops_at = dice.one_in(4).then(|| dice.below(40));
        World {
            dice,
            taken: vec![0; 2],
            hosts,
            bodies,
            faulty,
            invocations: Vec::new(),
            kills_left,
            stops_at,
            kind,
            answered: HashMap::new(),
            left_to_holders: 0,
        }
    }

    fn host(&self) -> &Rig {
        &self.hosts[self.dice.below(2) as usize]
    }

    fn plan(&self) -> Value {
        let steps: Vec<Value> = (0..STEPS)
            .map(|n| {
                let input = json!({ "ms": self.dice.below(600), "once": self.dice.one_in(4) });
                json!({ "key": format!("s{n}"), "tool": "count", "input": input })
            })
            .collect();
        json!({ "steps": steps, "concurrency": 1 + self.dice.below(4) })
    }

    /// Delivers what was dispatched: once, twice, or not at all; some of it late.
    fn deliver(&mut self) {
        for index in 0..self.hosts.len() {
            for dispatch in self.hosts[index].sent().into_iter().skip(self.taken[index]) {
                self.taken[index] += 1;
                if self.dice.one_in(6) {
                    continue;
                }
                let copies = if self.dice.one_in(5) { 2 } else { 1 };
                for _ in 0..copies {
                    let engine = self.host().engine.clone();
                    let late = self
                        .dice
                        .one_in(8)
                        .then(|| Duration::from_millis(self.dice.below(9_000)));
                    let (dispatch, cap) = (dispatch.clone(), Duration::from_millis(1_000 + self.dice.below(3_000)));
                    self.invocations.push(tokio::spawn(async move {
                        if let Some(late) = late {
                            engine.seams().clock.sleep(late).await;
                        }
                        deliver(&engine, &dispatch, cap).await;
                    }));
                }
            }
        }
    }

    /// A client asks for a chunk, and may be gone before it has ended, which ends nothing.
    fn continued(&mut self, run: &RunId) {
        let rig = self.host();
        let (engine, owner, run) = (rig.engine.clone(), rig.owner.clone(), run.clone());
        let cap = Duration::from_millis(1_000 + self.dice.below(3_000));
        let stays = Duration::from_millis(self.dice.below(6_000));
        self.invocations.push(tokio::spawn(async move {
            let chunk = invocation(&engine, HostKind::Foreground, cap);
            let asked = async {
                if let Ok(Continued::Underway(underway)) = continue_inline(&engine, &owner, &run, chunk).await {
                    let _ = underway.ended().await;
                }
            };
            let _ = tokio::time::timeout(stays, asked).await;
        }));
    }

    /// Somebody answers, perhaps once more, perhaps too early.
    async fn answer(&mut self, tick: u64, run: &RunId) {
        let key = waiting::QUESTIONS[self.dice.below(3) as usize];
        let rig = self.host();
        let value = Answer::Value(Payload::of(&tick).expect("JSON"));
        // Without a word of it, nobody knows whether it has landed.
        if let Ok(row) = answer(&rig.engine, &rig.owner, run, key, value).await {
            self.left_to_holders += u64::from(row.answer_unlogged.is_some());
            let before = self.answered.insert(key.to_owned(), tick);
            assert_eq!(before, None, "two answers to {key} were accepted");
        }
    }

    /// The schedule, once more while its last pass may still be carrying a chunk.
    fn swept(&mut self) {
        let engine = self.host().engine.clone();
        let cap = Duration::from_millis(1_000 + self.dice.below(3_000));
        self.invocations.push(tokio::spawn(async move {
            let chunk = || invocation(&engine, HostKind::Foreground, cap);
            let _ = sweep_and_carry(&engine, chunk).await;
        }));
    }

    fn kill_someone(&mut self) {
        let own = self.hosts.iter().flat_map(|host| host.spawner.chunks());
        let alive: Vec<AbortHandle> = own
            .chain(self.invocations.iter().map(JoinHandle::abort_handle))
            .filter(|invocation| !invocation.is_finished())
            .collect();
        if self.kills_left > 0 && !alive.is_empty() && self.dice.one_in(12) {
            self.kills_left -= 1;
            alive[self.dice.below(alive.len() as u64) as usize].abort();
        }
    }

    pub async fn begin(&mut self) -> RunId {
        self.faulty.store(false, Ordering::SeqCst);
        let rig = &self.hosts[0];
        let mut request = rig.request(&self.plan());
        if self.kind == Runs::Waiting {
            request.agent = AgentName::new("waiting");
            request.input = Payload::of(&self.dice.below(1 << 40)).expect("JSON");
        }
        let run = rig.try_start(request).await.expect("it is accepted").run.id;
        self.faulty.store(true, Ordering::SeqCst);
        run
    }

    /// A moment in which anything may happen.
    pub async fn tick(&mut self, tick: u64, run: &RunId) {
        self.deliver();
        self.kill_someone();
        if self.stops_at == Some(tick) {
            let rig = self.host();
            // It may fail under these faults; then nobody has asked for a stop, or the row says so.
            let _ = stop(&rig.engine, &rig.owner, run, self.dice.one_in(4)).await;
        }
        if self.kind == Runs::Waiting && self.dice.one_in(6) {
            self.answer(tick, run).await;
        }
        if self.kind == Runs::Inline && self.dice.one_in(4) {
            self.continued(run);
        }
        if self.kind == Runs::Inline && self.dice.one_in(3) {
            self.swept();
        } else if self.kind != Runs::Inline && tick % 2 == 1 {
            let _ = sweep(&self.host().engine).await;
        }
        tokio::time::advance(Duration::from_millis(50 + self.dice.below(700))).await;
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    /// Without faults from here on: what still runs is fenced or ends by its own cap.
    pub async fn settle(&mut self) {
        self.faulty.store(false, Ordering::SeqCst);
        for invocation in std::mem::take(&mut self.invocations) {
            let _ = tokio::time::timeout(Duration::from_secs(60), invocation).await;
        }
        while self.hosts.iter().any(|host| !host.spawner.chunks().is_empty()) {
            tokio::time::advance(Duration::from_millis(100)).await;
            tokio::task::yield_now().await;
        }
    }

    pub async fn status(&self, run: &RunId) -> Status {
        let was = self.faulty.swap(false, Ordering::SeqCst);
        let status = self.hosts[0].row(run).await.status;
        self.faulty.store(was, Ordering::SeqCst);
        status
    }
}
