//! What needs the fault script of the test double. What every table must do is in the conformance suite of the crate
//! `outlast-tests`.

use std::sync::Mutex;
use std::time::Duration;

use futures::executor::block_on;
use outlast_core::event::{Event, EventBody};
use outlast_core::run::NewRun;
use outlast_core::{
    AgentName, Executor, Owner, Payload, RunId, ThreadKey, Timestamp, Totals, TurnKey, WriteId, Writer,
};

mod reads;
mod retries;

use super::*;
use crate::memory::{Effect, Fault, Kind, MemoryTable, Request, gate};
use crate::schema::DUE_SHARDS;
use crate::table::{Item, Key, Reason, number};

/// Notes how long it should have waited.
#[derive(Default)]
struct NoWait {
    waits: Mutex<Vec<Duration>>,
}

#[async_trait]
impl Pause for NoWait {
    async fn sleep(&self, duration: Duration) {
        self.waits.lock().unwrap().push(duration);
    }

    fn draw(&self) -> f64 {
        0.5
    }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_780_000_000_000 + millis)
}

fn acceptance(number: u8) -> Acceptance {
    let id = RunId::from_parts(1_780_000_000_000, [number; 10]);
    let run = NewRun {
        id: id.clone(),
        owner: Owner::new("local"),
        agent: AgentName::new("plan"),
        thread: ThreadKey::new("t"),
        turn: Some(TurnKey::new("turn")),
        executor: Executor::Background,
        retry: None,
        ends_at: at(1_000_000),
        due_at: at(60_000),
        write_id: WriteId::new(format!("accept-{number}")),
    };
    let input = Payload::parse(r#"{"steps":[]}"#).unwrap();
    let body = EventBody::RunAccepted {
        agent: AgentName::new("plan"),
        input,
        retry_of: None,
    };
    let page = Page {
        run_id: id.clone(),
        epoch: 0,
        writer: Writer::Control,
        write_id: WriteId::new(format!("accept-{number}")),
        events: vec![Event {
            seq: 1,
            at: at(0),
            body,
        }],
        totals: Totals::default(),
        expires_at: 1_800_000_000,
    };
    Acceptance {
        run: run.accepted(at(0)),
        page,
        turn: Some(TurnRecord {
            owner: Owner::new("local"),
            turn: TurnKey::new("turn"),
            run_id: id,
            fingerprint: "f".into(),
            expires_at: at(100_000),
        }),
    }
}

struct Bench {
    table: MemoryTable,
    pause: Arc<NoWait>,
    store: Store,
}

impl Bench {
    fn new() -> Self {
        let (table, pause) = (MemoryTable::new(), Arc::new(NoWait::default()));
        let store = Store::new(Arc::new(table.clone()), pause.clone());
        Self { table, pause, store }
    }

    /// With an accepted run.
    fn accepted() -> (Self, Run) {
        let bench = Self::new();
        let new = acceptance(1);
        assert_eq!(block_on(bench.store.accept(&new, at(0))), Ok(Accepted::Landed));
        bench.table.forget_requests();
        (bench, new.run)
    }

    fn fault(&self, kind: Kind, part: &str, effect: Effect, times: usize) {
        self.table.fault(Fault::on(kind, part, effect).times(times));
    }

    fn waits(&self) -> Vec<u128> {
        self.pause
            .waits
            .lock()
            .unwrap()
            .iter()
            .map(Duration::as_millis)
            .collect()
    }
}

fn claimed(run: &Run, write_id: &str) -> Run {
    Run {
        epoch: run.epoch + 1,
        write_id: WriteId::new(write_id),
        ..run.clone()
    }
}

fn page(run: &Run, first_seq: u64, write_id: &str, body: EventBody) -> Page {
    Page {
        write_id: WriteId::new(write_id),
        events: vec![Event {
            seq: first_seq,
            at: at(1),
            body,
        }],
        ..acceptance_of(run)
    }
}

fn acceptance_of(run: &Run) -> Page {
    Page {
        run_id: run.id.clone(),
        ..acceptance(1).page
    }
}

fn ended(run: &Run) -> (Run, Page) {
    let after = Run {
        status: outlast_core::Status::Completed,
        due_at: None,
        write_id: WriteId::new("end"),
        ..run.clone()
    };
    let outcome = outlast_core::Outcome {
        reason: None,
        totals: Totals::default(),
        failures_handled: 0,
        remaining: 0,
        remainder_digest: None,
        remainder: vec![],
        verification: None,
        error: None,
        value: None,
    };
    let last = page(run, 2, "end", EventBody::terminal(outcome));
    (after, last)
}

fn row_key(run: &RunId) -> Key {
    Key::Row {
        pk: format!("run#{run}"),
        sk: "meta".into(),
    }
}

#[test]
fn lost_replies_of_writes_land_once() {
    let (bench, run) = Bench::accepted();
    bench.fault(Kind::Write, "run#", Effect::LoseReply, 1);
    let after = claimed(&run, "w2");
    let expected = Run {
        version: 2,
        ..after.clone()
    };
    assert_eq!(
        block_on(bench.store.write_run(&run, &after)),
        Ok(RowWrite::Landed(Box::new(expected.clone())))
    );
    assert_eq!(block_on(bench.store.load_run(&run.id)), Ok(Some(expected)));

    bench.fault(Kind::Write, "events/", Effect::LoseReply, 2);
    let second = page(&run, 2, "p2", EventBody::RunPaused);
    assert_eq!(block_on(bench.store.put_page(&second)), Ok(PagePut::Landed));
    assert_eq!(block_on(bench.store.tail_page(&run.id)), Ok(Some(second)));
    assert_eq!(
        bench
            .table
            .requests()
            .iter()
            .filter(|request| request.is_write())
            .count(),
        2 + 3
    );
}

#[test]
fn lost_replies_of_transactions_land_once() {
    let bench = Bench::new();
    let new = acceptance(1);
    bench.fault(Kind::Transact, "run#", Effect::LoseReply, 1);
    assert_eq!(block_on(bench.store.accept(&new, at(0))), Ok(Accepted::Landed));
    bench.fault(Kind::Transact, "run#", Effect::LoseReply, 3);
    let (after, last) = ended(&new.run);
    let landed = block_on(bench.store.write_run_with_page(&new.run, &after, &last)).unwrap();
    assert_eq!(landed, RowAndPageWrite::Landed(Box::new(Run { version: 2, ..after })));
    let log = block_on(bench.store.read_pages(&new.run.id, 1, true)).unwrap();
    assert_eq!(log.pages, [new.page, last]);
}

#[test]
fn a_lost_reply_is_known_although_the_row_went_on() {
    let (bench, run) = Bench::accepted();
    let (gate, turnstile) = gate();
    let paused = page(&run, 2, "p2", EventBody::RunPaused);
    bench
        .table
        .fault(Fault::on(Kind::Transact, "run#", Effect::HoldReply(turnstile)));
    let held = claimed(&run, "w2");
    let slow = bench.store.write_run_with_page(&run, &held, &paused);
    let quick = async {
        gate.arrived().await;
        let landed = Run {
            version: 2,
            ..held.clone()
        };
        let write = bench.store.write_run(&landed, &claimed(&landed, "w3")).await;
        assert!(matches!(write, Ok(RowWrite::Landed(_))), "{write:?}");
        gate.open();
    };
    let (slow, ()) = block_on(futures::future::join(slow, quick));
    assert!(matches!(slow, Ok(RowAndPageWrite::Landed(_))), "{slow:?}");
    let again = block_on(bench.store.write_run_with_page(&run, &held, &paused));
    assert_eq!(again, slow, "a repeated one too");
    assert_eq!(block_on(bench.store.load_run(&run.id)).unwrap().unwrap().version, 3);
}

#[test]
fn a_request_that_is_held_meets_what_came_before_it() {
    let (bench, run) = Bench::accepted();
    let (gate, turnstile) = gate();
    bench
        .table
        .fault(Fault::on(Kind::Write, "run#", Effect::HoldRequest(turnstile)));
    let (late, first) = (claimed(&run, "late"), claimed(&run, "first"));
    let slow = bench.store.write_run(&run, &late);
    let quick = async {
        gate.arrived().await;
        let write = bench.store.write_run(&run, &first).await;
        gate.open();
        write
    };
    let (slow, quick) = block_on(futures::future::join(slow, quick));
    let Ok(RowWrite::Landed(winner)) = quick else {
        panic!("the first one lands");
    };
    assert_eq!(slow, Ok(RowWrite::Changed(Some(winner))));
}

#[test]
fn e15_nothing_is_written_in_batches() {
    for source in [include_str!("../dynamodb.rs"), include_str!("../records.rs")] {
        assert!(!source.contains("batch_write"), "a batch may come back unprocessed");
    }
}

#[test]
fn each_clone_with_a_meter_counts_for_itself() {
    let (bench, run) = Bench::accepted();
    let before = bench.store.cost();
    let chunk = bench.store.metered();
    assert!(block_on(chunk.load_run(&run.id)).unwrap().is_some());
    assert_eq!((chunk.cost().read_requests, bench.store.cost()), (1, before));
    assert!(before.write_deci_units >= 80, "a transaction of four items: {before:?}");
}
