//! One rule for rows.

use aws_sdk_dynamodb::types::AttributeValue;
use futures::future::join_all;
use outlast_core::ids::{AgentName, ClaimToken};
use outlast_core::run::{Cost, Counters, Dispatch, DispatchStage};
use outlast_core::{Owner, Reason, Run, Status, StepKey, Totals, TurnKey};
use outlast_store::table::{Action, Condition, Written, number, number_of, text, text_of};
use outlast_store::{Accepted, RowWrite, StoreError};

use crate::bench::{Bench, acceptance, at, claimed, ended, fresh, row_key, run_id, write_id};

/// Every field has a value.
fn full(run: &Run) -> Run {
    Run {
        paused: true,
        stopping: true,
        blocked: true,
        stop_unlogged: true,
        stop_requested_at: Some(at(1)),
        epoch: 12,
        claim_token: Some(ClaimToken::new(fresh())),
        holder: Some("background/2026/05/29/[$LATEST]0123456789abcdef0123456789abcdef".into()),
        lease_expires_at: Some(at(2)),
        last_sign_of_life: Some(at(3)),
        dispatch: Dispatch {
            stage: DispatchStage::SetUp,
            attempts: 3,
            first_at: Some(at(4)),
            error: Some("x".repeat(100)),
        },
        counters: Counters {
            chunks: 500,
            crashes: 25,
            crashes_in_a_row: 2,
            committed_at_crash: 20_000,
            stalled: 2,
        },
        totals: Totals {
            planned: 20_000,
            committed: 19_998,
            failed: 1,
            unknown: 1,
            released: 3,
        },
        answers: 4,
        // For as long as a holder takes to log it, the row may be larger.
        answer_unlogged: None,
        cost: Cost {
            write_requests: 40_000,
            read_requests: 1_234_567,
            write_deci_units: 800_000,
            read_deci_units: 12_345_678,
        },
        ended_at: Some(at(5)),
        reason: Some(Reason::StepsFailed),
        expires_at: Some(at(0).as_ttl_seconds()),
        status: Status::Incomplete,
        write_id: write_id(),
        ..run.clone()
    }
}

pub async fn a_row_comes_back_as_it_was_written(bench: Bench) {
    let run = bench.accepted().await;
    assert_eq!(bench.store.load_run(&run.id).await, Ok(Some(run.clone())));
    // Every field, set and then taken away again.
    let all = Run {
        answer_unlogged: Some(StepKey::new("fan/a/ok%3F")),
        ..full(&run)
    };
    let RowWrite::Landed(landed) = bench.store.write_run(&run, &all).await.unwrap() else {
        panic!("it lands");
    };
    assert_eq!(*landed, Run { version: 2, ..all });
    assert_eq!(bench.store.load_run(&run.id).await, Ok(Some(*landed.clone())));
    let bare = Run {
        write_id: write_id(),
        ..run.clone()
    };
    let RowWrite::Landed(landed) = bench.store.write_run(&landed, &bare).await.unwrap() else {
        panic!("it lands");
    };
    assert_eq!(*landed, Run { version: 3, ..bare });
    assert_eq!(bench.store.load_run(&run.id).await, Ok(Some(*landed)));
    assert_eq!(bench.store.load_run(&run_id()).await, Ok(None));
}

pub async fn a_row_is_smaller_than_a_kilobyte(bench: Bench) {
    let mut new = acceptance(&Owner::new("tenant-0123456789-0123456789-01234567890"), None);
    new.run.agent = AgentName::new("an-agent-with-a-name");
    new.run.turn = Some(TurnKey::new(fresh()));
    assert_eq!(bench.store.accept(&new, at(0)).await, Ok(Accepted::Landed));
    let all = full(&new.run);
    // The most that a row holds while it runs, while it waits for its next chunk, and after its end.
    let running = Run {
        status: Status::Running,
        dispatch: Dispatch::default(),
        ended_at: None,
        reason: None,
        expires_at: None,
        ..all.clone()
    };
    let queued = Run {
        status: Status::Queued,
        holder: None,
        lease_expires_at: None,
        dispatch: Dispatch {
            error: Some("x".repeat(200)),
            ..all.dispatch.clone()
        },
        write_id: write_id(),
        ..running.clone()
    };
    let over = Run {
        due_at: None,
        holder: None,
        lease_expires_at: None,
        dispatch: Dispatch::default(),
        write_id: write_id(),
        ..all
    };
    let mut before = new.run.clone();
    for after in [running, queued, over] {
        let RowWrite::Landed(landed) = bench.store.write_run(&before, &after).await.unwrap() else {
            panic!("it lands");
        };
        let cost = bench.meter.cost();
        let nothing = Action::Update {
            set: vec![("paused".into(), AttributeValue::Bool(true))],
            remove: vec![],
        };
        bench.write(&row_key(&new.run.id), nothing, Condition::Always).await;
        let item = bench.peek(&row_key(&new.run.id)).await.unwrap();
        let units = (bench.meter.cost() - cost).write_deci_units;
        assert_eq!(units, 10, "a write unit is a kilobyte: {} {item:?}", item.len());
        let native = |value: &AttributeValue| value.is_s() || value.is_n() || value.is_bool();
        assert!(item.values().all(native), "native attributes only: {item:?}");
        let lease = after.lease_expires_at.map(|at| at.as_millis());
        assert_eq!(number_of(&item, "lease_expires_at"), lease);
        assert_eq!(text_of(&item, "status"), Some(after.status.as_str()));
        before = *landed;
    }
}

pub async fn an_unknown_attribute_survives_an_update(bench: Bench) {
    let run = bench.accepted().await;
    let later = Action::Update {
        set: vec![
            ("added_later".into(), text("x")),
            ("cost_added_later".into(), number(7)),
        ],
        remove: vec![],
    };
    assert_eq!(
        bench.write(&row_key(&run.id), later, Condition::Always).await,
        Written::Done
    );
    let read = bench.store.load_run(&run.id).await.unwrap().unwrap();
    assert_eq!(read, run);
    assert!(matches!(
        bench.store.write_run(&read, &full(&read)).await,
        Ok(RowWrite::Landed(_))
    ));
    let item = bench.peek(&row_key(&run.id)).await.unwrap();
    assert_eq!(
        (text_of(&item, "added_later"), number_of(&item, "cost_added_later")),
        (Some("x"), Some(7))
    );
}

pub async fn a_write_at_another_version_is_refused_with_the_row(bench: Bench) {
    let run = bench.accepted().await;
    let RowWrite::Landed(second) = bench.store.write_run(&run, &claimed(&run)).await.unwrap() else {
        panic!("it lands");
    };
    let late = bench.store.write_run(&run, &claimed(&run)).await;
    assert_eq!(late, Ok(RowWrite::Changed(Some(second.clone()))));
    assert_eq!(bench.store.load_run(&run.id).await, Ok(Some(*second)));
}

pub async fn a_repeated_write_knows_itself(bench: Bench) {
    let run = bench.accepted().await;
    let after = claimed(&run);
    let first = bench.store.write_run(&run, &after).await;
    assert!(matches!(first, Ok(RowWrite::Landed(_))), "{first:?}");
    assert_eq!(bench.store.write_run(&run, &after).await, first);
    assert_eq!(
        bench.store.load_run(&run.id).await.unwrap().unwrap().version,
        2,
        "it was written once"
    );
}

pub async fn a_row_that_is_not_there_has_changed(bench: Bench) {
    let run = acceptance(&Owner::new("local"), None).run;
    let answer = bench.store.write_run(&run, &claimed(&run)).await;
    assert_eq!(answer, Ok(RowWrite::Changed(None)));
    assert_eq!(bench.peek(&row_key(&run.id)).await, None);
}

pub async fn twenty_claims_have_one_winner(bench: Bench) {
    let run = bench.accepted().await;
    let tries = (0..20).map(|_| {
        let (bench, run) = (bench.clone(), run.clone());
        tokio::spawn(async move { bench.store.write_run(&run, &claimed(&run)).await.unwrap() })
    });
    let tries: Vec<RowWrite> = join_all(tries).await.into_iter().map(Result::unwrap).collect();
    let winners: Vec<_> = tries
        .iter()
        .filter(|write| matches!(write, RowWrite::Landed(_)))
        .collect();
    assert_eq!(winners.len(), 1);
    let RowWrite::Landed(winner) = winners[0] else {
        unreachable!("it was filtered");
    };
    for write in &tries {
        if let RowWrite::Changed(stands) = write {
            assert_eq!(stands.as_ref(), Some(winner));
        }
    }
    assert_eq!(bench.store.load_run(&run.id).await, Ok(Some(*winner.clone())));
}

pub async fn a_write_id_must_be_fresh(bench: Bench) {
    let run = bench.accepted().await;
    let after = Run {
        write_id: run.write_id.clone(),
        ..claimed(&run)
    };
    let answer = bench.store.write_run(&run, &after).await;
    assert!(matches!(answer, Err(StoreError::Rejected(_))), "{answer:?}");
}

pub async fn a_newer_schema_is_left_alone(bench: Bench) {
    let run = bench.accepted().await;
    let newer = Action::Update {
        set: vec![
            ("schema".into(), number(2)),
            ("version".into(), number(2)),
            ("status".into(), text("dreaming")),
        ],
        remove: vec![],
    };
    bench.write(&row_key(&run.id), newer, Condition::Always).await;
    assert_eq!(bench.store.load_run(&run.id).await, Err(StoreError::UnknownSchema(2)));
    let write = bench.store.write_run(&run, &ended(&run)).await;
    assert_eq!(write, Err(StoreError::UnknownSchema(2)));
}

pub async fn an_unreadable_row_is_postponed(bench: Bench) {
    let run = bench.accepted().await;
    let key = row_key(&run.id);
    let broken = Action::Update {
        set: vec![("status".into(), number(7))],
        remove: vec![],
    };
    bench.write(&key, broken, Condition::Always).await;
    let unreadable = bench.store.load_run(&run.id).await;
    assert!(matches!(unreadable, Err(StoreError::Corrupt(_))), "{unreadable:?}");
    assert_eq!(bench.store.postpone_unreadable(&run.id, at(999_000)).await, Ok(()));
    let item = bench.peek(&key).await.unwrap();
    assert_eq!(number_of(&item, "due_at"), Some(at(999_000).as_millis()));

    // One that isn't there, and one that has ended: nothing is made and nothing is due.
    let nowhere = run_id();
    assert_eq!(bench.store.postpone_unreadable(&nowhere, at(1)).await, Ok(()));
    assert_eq!(bench.peek(&row_key(&nowhere)).await, None);
    let run = bench.accepted().await;
    assert!(matches!(
        bench.store.write_run(&run, &ended(&run)).await,
        Ok(RowWrite::Landed(_))
    ));
    assert_eq!(bench.store.postpone_unreadable(&run.id, at(1)).await, Ok(()));
    let item = bench.peek(&row_key(&run.id)).await.unwrap();
    assert!(
        !item.contains_key("due_at") && !item.contains_key("due_shard"),
        "{item:?}"
    );
}
