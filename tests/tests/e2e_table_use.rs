//! What the real functions ask of their table, seen at the wire: reads that decide are consistent, nothing is written in
//! batches, a slow table doesn't starve the heartbeat, and an expiry is judged in code.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use outlast_store::schema::TableNames;
use outlast_tests::lambda::deployment::{Deployment, Options};
use outlast_tests::log_rules::{assert_kept, count, epochs, has_ended};
use outlast_tests::reader;
use outlast_tests::table_proxy::{Asked, Fault, Rule};
use serde_json::{Value, json};

fn naps(count: usize, ms: u64) -> Value {
    let steps = (0..count).map(|step| json!({ "key": format!("s{step}"), "tool": "sleep", "input": { "ms": ms } }));
    json!({ "steps": steps.collect::<Vec<_>>() })
}

async fn deploy() -> Deployment {
    Deployment::start(Options {
        proxied: true,
        ..Options::default()
    })
    .await
}

#[tokio::test]
async fn e15_r36_nothing_is_written_in_batches_and_what_decides_is_read_consistently() {
    let deployed = deploy().await;
    deployed.make_table("things", "id").await;
    // A run with a part beside its first page, a crash, and a user's table.
    let record = json!({ "table": "things", "key": { "id": "1" }, "record": { "text": "x".repeat(390_000) } });
    let mut plan = naps(6, 150);
    let put = json!({ "key": "put", "tool": "put_record", "input": record });
    plan["steps"].as_array_mut().unwrap().push(put);
    let run = deployed.start_run(&plan).await;
    deployed
        .logged(&run, "it is under way", |log| count(log, "step.committed") > 0)
        .await;
    deployed.background.busy().kill();
    deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
    let mut seen = reader::follow(deployed.url.clone(), run.clone());
    reader::wait_for(&mut seen, "the stream ends", |seen| seen.ended).await;
    // One that is stopped, under a key.
    let body = json!({ "agent": "plan", "input": naps(100, 100), "turnId": "turn" });
    let (_, started) = deployed.post("/api/v1/runs", &body).await;
    let run = started["runId"].as_str().unwrap();
    deployed
        .logged(run, "it is under way", |log| count(log, "step.started") > 0)
        .await;
    deployed.post(&format!("/api/v1/runs/{run}/stop"), &json!({})).await;
    deployed.logged(run, "it ends", has_ended).await;
    deployed.get("/api/v1/runs").await;
    deployed.sweep().await;

    let asked = [deployed.foreground_proxy(), deployed.background_proxy()].map(|proxy| proxy.asked());
    let operations: BTreeSet<_> = asked.iter().flatten().map(|asked| asked.operation.as_str()).collect();
    let expected = ["GetItem", "PutItem", "Query", "TransactWriteItems", "UpdateItem"];
    assert_eq!(operations.into_iter().collect::<Vec<_>>(), expected);
    let [foreground, background] = asked;
    for read in background.iter().filter(|asked| asked.index.is_none()) {
        let reads = read.operation == "GetItem" || read.operation == "Query";
        assert!(!reads || read.consistent, "{}", read.text);
    }
    for read in foreground.iter().filter(|asked| asked.operation == "GetItem") {
        assert!(read.consistent, "{}", read.text);
    }
    // Readers follow the log at half the price.
    assert!(
        foreground
            .iter()
            .any(|asked| asked.operation == "Query" && !asked.consistent)
    );
}

#[tokio::test]
async fn r28_beats_go_on_while_the_table_is_slow_for_pages() {
    let deployed = deploy().await;
    let proxy = deployed.background_proxy();
    // Longer than a lease.
    let slow = Fault::Slow(Duration::from_secs(5));
    proxy.rule(Rule::page_with("step.committed", slow));
    let run = deployed.start_run(&naps(2, 10)).await;
    let log = deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
    assert_kept(&log);
    assert_eq!(
        (proxy.did(slow), epochs(&log), count(&log, "step.started")),
        (1, vec![1], 2)
    );
    assert_eq!(deployed.show(&run).await["crashes"], 0);
    let asked = proxy.asked();
    let is_beat = |asked: &&Asked| asked.operation == "UpdateItem" && asked.text.contains("\"lease_expires_at\"");
    assert!(
        asked.iter().filter(is_beat).count() >= 8,
        "a beat each half second, for five"
    );
}

#[tokio::test]
async fn r28_a_beat_that_lands_after_later_ones_moves_nothing_back() {
    let deployed = deploy().await;
    let proxy = deployed.background_proxy();
    proxy.rule(Rule::beat(Fault::Late));
    let run = deployed.start_run(&naps(30, 100)).await;
    deployed
        .logged(&run, "some beats later", |log| count(log, "step.committed") >= 20)
        .await;
    let late = proxy.land().await;
    assert_eq!(late.len(), 1);
    assert!(late[0].2.contains("ConditionalCheckFailed"), "{}", late[0].2);
    let log = deployed.logged_with_sweeps(&run, "the run ends", has_ended).await;
    assert_kept(&log);
    assert_eq!((epochs(&log), count(&log, "step.started")), (vec![1], 30));
    assert_eq!(deployed.show(&run).await["crashes"], 0);
}

#[tokio::test]
async fn r28_beats_end_with_the_chunk() {
    let deployed = deploy().await;
    let proxy = deployed.background_proxy();
    let run = deployed.start_run(&naps(3, 400)).await;
    deployed.logged(&run, "the run ends", has_ended).await;
    // The same process, awake: its next run's chunk lasts for several beats.
    let next = deployed.start_run(&naps(4, 400)).await;
    deployed.logged(&next, "the next one ends", has_ended).await;
    assert_eq!(deployed.background.environments().len(), 1);
    let asked = proxy.asked();
    let ended = asked
        .iter()
        .rposition(|asked| asked.operation == "TransactWriteItems" && asked.text.contains(&run));
    let after = &asked[ended.expect("its closing write") + 1..];
    assert!(after.iter().all(|asked| !asked.text.contains(&run)), "{after:?}");
    assert!(after.len() > 5, "{after:?}");
}

type Item = HashMap<String, AttributeValue>;

async fn set(deployed: &Deployment, pk: &str, name: &str, value: i64) {
    let client = deployed.database.client();
    let update = client
        .update_item()
        .table_name(TableNames::default().runs)
        .key("pk", AttributeValue::S(pk.into()))
        .key("sk", AttributeValue::S("meta".into()))
        .update_expression("SET #name = :value")
        .expression_attribute_names("#name", name)
        .expression_attribute_values(":value", AttributeValue::N(value.to_string()));
    update.send().await.expect("an update");
}

async fn all(deployed: &Deployment, table: String) -> Vec<Item> {
    let scan = deployed.database.client().scan().table_name(table);
    scan.send().await.expect("a scan").items.expect("items")
}

fn ttl(item: &Item) -> Option<i64> {
    item.get("expires_at")
        .map(|value| value.as_n().expect("a number").parse().expect("seconds"))
}

#[tokio::test]
async fn e05_an_expiry_is_judged_in_code_and_frees_no_lock() {
    let deployed = deploy().await;
    let keyed = |ms| json!({ "agent": "plan", "input": naps(1, ms), "threadId": "t", "turnId": "turn" });
    let (status, first) = deployed.post("/api/v1/runs", &keyed(10)).await;
    assert_eq!(status, 202, "{first}");
    let run = first["runId"].as_str().unwrap();
    deployed.logged(run, "it ends", has_ended).await;

    // The turn has expired, and TTL hasn't removed its item yet: it is free.
    set(&deployed, "turn#local#turn", "taken_until", 1).await;
    let (status, second) = deployed.post("/api/v1/runs", &keyed(8000)).await;
    assert_eq!(status, 202, "{second}");
    assert_ne!(first["runId"], second["runId"]);

    // TTL says that the thread's item may go; that frees no live run's thread.
    set(&deployed, "thread#local#t", "expires_at", 1).await;
    let body = json!({ "agent": "plan", "input": naps(1, 10), "threadId": "t" });
    let (status, busy) = deployed.post("/api/v1/runs", &body).await;
    assert_eq!(
        (status, &busy["error"]["details"]["activeRunId"]),
        (409, &second["runId"]),
        "{busy}"
    );

    // A live row has no TTL. That of its pages lies beyond its latest end, in seconds; an ended row's beyond now.
    let live = second["runId"].as_str().unwrap();
    let rows = all(&deployed, TableNames::default().runs).await;
    let row = |run: &str| {
        let is = AttributeValue::S(format!("run#{run}"));
        rows.iter().find(|row| row["pk"] == is).expect("its row")
    };
    assert_eq!(ttl(row(live)), None);
    let in_seconds = 1_000_000_000..10_000_000_000;
    assert!(ttl(row(run)).is_some_and(|at| in_seconds.contains(&at)));
    let latest_end: i64 = row(live)["ends_at"]
        .as_n()
        .expect("a number")
        .parse()
        .expect("milliseconds");
    for page in all(&deployed, TableNames::default().events).await {
        let at = ttl(&page).expect("a page's TTL");
        assert!(
            in_seconds.contains(&at) && (page["run_id"] != AttributeValue::S(live.into()) || at > latest_end / 1000)
        );
    }

    // Past its time a run is gone, whatever is still stored.
    set(&deployed, &format!("run#{run}"), "expires_at", 1_000_000_000).await;
    for path in ["", "/events"] {
        assert_eq!(
            deployed.get(&format!("/api/v1/runs/{run}{path}")).await.0,
            404,
            "{path}"
        );
    }
}
