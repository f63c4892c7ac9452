//! Ten thousand steps cost, each, what the first ones cost; a take-over reads the log once; memory stays in proportion.
//! Through the SDK, on the embedded server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use outlast_agent::tool::Repeat;
use outlast_agent::{Tool, ToolCall};
use outlast_core::Status;
use outlast_core::limits::Timing;
use outlast_engine::BodyError;
use outlast_engine::sweep::recover;
use outlast_store::dynamodb::{DynamoTable, create_tables};
use outlast_store::schema::TableNames;
use outlast_tests::embedded::Embedded;
use outlast_tests::requests::{Sent, Tally};
use outlast_tests::rig::{Deliver, Rig, RigOptions, deliver};
use outlast_tests::wait::RealPause;
use peak_alloc::PeakAlloc;
use serde_json::{Value, json};
use tokio::sync::watch;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const STEPS: usize = 10_000;
const CAP: Duration = Duration::from_secs(3600);

/// What had been sent, and how much memory was live, when a step's body ran.
#[derive(Clone, Copy, Debug)]
struct Sample {
    puts: Tally,
    live_bytes: usize,
}

/// A tool that takes a sample; or, at one step, never ends.
#[derive(Clone)]
struct Probe {
    sent: Sent,
    samples: Arc<Mutex<Vec<Sample>>>,
    hang_at: usize,
    hung: watch::Sender<bool>,
}

#[async_trait]
impl Tool for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn description(&self) -> &'static str {
        "Takes a sample."
    }

    fn input_schema(&self) -> Value {
        json!({ "type": "object" })
    }

    fn repeat(&self, _input: &Value) -> Repeat {
        Repeat::Idempotent
    }

    async fn call(&self, _call: ToolCall<'_>) -> Result<Value, BodyError> {
        let sample = Sample {
            puts: self.sent.of("PutItem"),
            live_bytes: MEMORY.current_usage(),
        };
        let taken = {
            let mut samples = self.samples.lock().unwrap();
            samples.push(sample);
            samples.len()
        };
        if taken == self.hang_at {
            self.hung.send_replace(true);
            std::future::pending::<()>().await;
        }
        Ok(json!({ "sample": 1 }))
    }
}

struct Host {
    rig: Rig,
    sent: Sent,
    probe: Probe,
}

async fn host(server: &Embedded, hang_at: usize, seed: u64, timing: Timing) -> Host {
    let names = TableNames::with_prefix("scale");
    create_tables(&server.client(), &names, &RealPause)
        .await
        .expect("tables");
    let sent = Sent::default();
    let probe = Probe {
        sent: sent.clone(),
        samples: Arc::default(),
        hang_at,
        hung: watch::Sender::new(false),
    };
    let table = DynamoTable::new(&sent.through(&server.client()), names);
    let mut options = RigOptions::new(Arc::new(table));
    options.app = assistant::app().tool(probe.clone());
    options.deliver = Deliver::Hold;
    // A busy machine must not make a holder doubt its lease: here requests are counted, not time.
    options.timing = timing;
    options.seed = seed;
    Host {
        rig: Rig::new(options),
        sent,
        probe,
    }
}

fn plan() -> Value {
    let steps = (0..STEPS).map(|n| json!({ "key": format!("s{n:05}"), "tool": "probe", "input": {} }));
    json!({ "steps": steps.collect::<Vec<_>>() })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_steps_and_a_take_over_at_9900() {
    let server = Embedded::start();
    let first = host(&server, 9_900, 1, Timing::LAMBDA).await;
    let run = first.rig.start(&plan()).await;
    let dispatch = first.rig.sent()[0].clone();
    let engine = first.rig.engine.clone();
    let holder = tokio::spawn(async move { deliver(&engine, &dispatch, CAP).await });
    let mut hung = first.probe.hung.subscribe();
    hung.wait_for(|hung| *hung).await.unwrap();
    holder.abort();
    let _ = holder.await;

    let samples = first.probe.samples.lock().unwrap().clone();
    let puts = |from: usize, to: usize| Tally {
        requests: samples[to].puts.requests - samples[from].puts.requests,
        bytes: samples[to].puts.bytes - samples[from].puts.bytes,
    };
    let (early, late) = (puts(100, 1100), puts(8_800, 9_800));
    println!("first thousand: {early:?}; last thousand: {late:?}");
    assert_eq!(
        (early.requests, late.requests),
        (1000, 1000),
        "one write request a step"
    );
    // Not a byte more but for the digits of the seqs.
    assert!(late.bytes < early.bytes + 1000 * 10, "{early:?} {late:?}");

    // Another process takes over; only its own requests are counted.
    let second = host(&server, usize::MAX, 2, Timing::LAMBDA).await;
    let log_bytes = log_bytes(&first.rig, &run).await;
    let grown = samples[9_890].live_bytes.saturating_sub(samples[100].live_bytes) as u64;
    println!("log: {log_bytes} bytes; memory grew by {grown}");
    assert!(
        grown <= 3 * log_bytes,
        "memory grew by {grown} for a log of {log_bytes}"
    );

    recover(&second.rig.engine)
        .await
        .expect("the holder is declared dead, the run is lost and dispatched");
    let dispatch = second.rig.sent().last().cloned().expect("a dispatch");
    let reads = |sent: &Sent| sent.of("GetItem").requests + sent.of("Query").requests;
    let before = reads(&second.sent);
    let samples_of_second = second.probe.samples.clone();
    let engine = second.rig.engine.clone();
    let holder = tokio::spawn(async move { deliver(&engine, &dispatch, CAP).await });
    outlast_tests::wait::wait_until("the first new step", Duration::from_secs(60), async || {
        !samples_of_second.lock().unwrap().is_empty()
    })
    .await;
    let taken_over = reads(&second.sent) - before;
    let allowed = log_bytes.div_ceil(1_000_000) + 3;
    println!("a take-over at 9,900 takes {taken_over} reads; {allowed} are allowed");
    assert!(taken_over <= allowed, "{taken_over} reads for {log_bytes} bytes");
    holder.await.unwrap();
    let ended = second.rig.ended(&run).await;
    assert_eq!(
        (ended.run.status, ended.totals.committed),
        (Status::Completed, STEPS as u64)
    );
    assert_eq!(ended.run.counters.crashes, 1);
}

/// By the capacity that reading it takes: a unit for 4 KB.
async fn log_bytes(rig: &Rig, run: &outlast_core::RunId) -> u64 {
    let store = rig.store.metered();
    let mut next = Some(1);
    while let Some(first_seq) = next {
        next = store.read_pages(run, first_seq, true).await.expect("readable").next;
    }
    store.cost().read_deci_units / 10 * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_costs_one_write_request_a_step_and_a_beat_appends_nothing() {
    let server = Embedded::start();
    let timing = Timing {
        lease: Duration::from_secs(60),
        ..Timing::LOCAL
    };
    let host = host(&server, usize::MAX, 1, timing).await;
    let steps: Vec<Value> = (0..100)
        .map(|n| json!({ "key": format!("s{n}"), "tool": "sleep", "input": { "ms": if n == 50 { 1600 } else { 0 } } }))
        .collect();
    host.rig.set_deliver(Deliver::AtOnce);
    let run = host.rig.start(&json!({ "steps": steps })).await;
    let ended = host.rig.ended(&run).await;
    let tallies = host.sent.tallies();
    println!("{tallies:?}");
    // run.claimed, 100 starts (99 of them with the result before), the last result; the end is a transaction, as the
    // acceptance was. The long step's start waits for nothing, and its wait lets one flush go out alone.
    let puts = tallies["PutItem"].requests;
    assert!((101..=103).contains(&puts), "{puts}");
    assert_eq!(tallies["TransactWriteItems"].requests, 2);
    // The claim and at least two beats, each an update of the row alone.
    let updates = tallies["UpdateItem"].requests;
    assert!(updates >= 3, "{updates}");
    assert_eq!(ended.last_seq as usize, 1 + 1 + 1 + 200 + 1);
    let cost = ended.run.cost;
    assert!(
        cost.write_requests >= puts && cost.write_deci_units >= puts * 10,
        "{cost:?}"
    );
}
