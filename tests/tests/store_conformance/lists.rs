//! Indexes.

use std::time::Duration;

use outlast_core::{Owner, Run, RunId};
use outlast_store::schema::DUE_SHARDS;
use outlast_store::table::{Action, Condition, number};
use outlast_store::{Accepted, RowWrite, StoreError};
use outlast_tests::wait::wait_until;

use crate::bench::{Bench, acceptance, at, ended, fresh, row_key, write_id};

async fn accepted_at(bench: &Bench, owner: &Owner, millis: i64) -> Run {
    let mut new = acceptance(owner, None);
    new.run.created_at = at(millis);
    assert_eq!(bench.store.accept(&new, at(millis)).await, Ok(Accepted::Landed));
    new.run
}

pub async fn runs_are_listed_newest_first_by_owner(bench: Bench) {
    let (owner, other) = (Owner::new(fresh()), Owner::new(fresh()));
    let mut made = vec![];
    for millis in [5, 1, 3, 3, 4, 2, 3] {
        made.push(accepted_at(&bench, &owner, millis).await);
    }
    accepted_at(&bench, &other, 9).await;
    let (mut listed, mut after, mut pages) = (vec![], None::<String>, 0);
    loop {
        let list = bench.store.list_runs(&owner, 2, after.as_deref()).await.unwrap();
        assert!(list.runs.len() <= 2);
        listed.extend(list.runs);
        pages += 1;
        match list.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert!(pages >= 4, "{pages}");
    let times: Vec<_> = listed.iter().map(|run| run.created_at).collect();
    assert_eq!(times, [5, 4, 3, 3, 3, 2, 1].map(at));
    let by_id = |mut runs: Vec<Run>| {
        runs.sort_by(|one, other| one.id.cmp(&other.id));
        runs
    };
    assert_eq!(by_id(listed), by_id(made));
    let all = bench.store.list_runs(&owner, 100, None).await.unwrap();
    assert_eq!((all.runs.len(), all.next), (7, None));
    assert_eq!(
        bench
            .store
            .list_runs(&Owner::new(fresh()), 10, None)
            .await
            .unwrap()
            .runs,
        []
    );
}

pub async fn a_cursor_is_checked(bench: Bench) {
    let owner = Owner::new(fresh());
    for cursor in [
        "",
        "x",
        "1",
        "1.",
        ".",
        "1.x",
        "x.00000000-0000-0000-0000-000000000000",
        "1.run#a",
    ] {
        let refused = bench.store.list_runs(&owner, 10, Some(cursor)).await;
        assert!(matches!(refused, Err(StoreError::Rejected(_))), "{cursor}: {refused:?}");
    }
    // One of someone else's list shows nothing of it.
    let other = Owner::new(fresh());
    for millis in 1..4 {
        accepted_at(&bench, &other, millis).await;
    }
    let cursor = bench.store.list_runs(&other, 1, None).await.unwrap().next.unwrap();
    assert_eq!(bench.store.list_runs(&owner, 10, Some(&cursor)).await.unwrap().runs, []);
}

async fn due(bench: &Bench, millis: i64) -> Vec<(u8, RunId)> {
    let mut found = vec![];
    for shard in 0..DUE_SHARDS {
        let runs = bench.store.due_runs(shard, at(millis)).await.unwrap();
        found.extend(runs.into_iter().map(|run| (shard, run)));
    }
    found
}

async fn become_due(bench: &Bench, run: &Run, millis: i64) -> Run {
    let after = Run {
        due_at: Some(at(millis)),
        write_id: write_id(),
        ..run.clone()
    };
    let RowWrite::Landed(landed) = bench.store.write_run(run, &after).await.unwrap() else {
        panic!("it lands");
    };
    *landed
}

pub async fn due_runs_are_found_in_their_shard(bench: Bench) {
    let mut runs = vec![];
    for index in 0..40 {
        let run = bench.accepted().await;
        runs.push(become_due(&bench, &run, 1000 + index).await);
    }
    let ids = |found: Vec<(u8, RunId)>| {
        let mut ids: Vec<RunId> = found.into_iter().map(|(_, run)| run).collect();
        ids.sort();
        ids
    };
    let expected = |until: usize| {
        let mut ids: Vec<RunId> = runs[..until].iter().map(|run| run.id.clone()).collect();
        ids.sort();
        ids
    };
    wait_until("the index has them all", Duration::from_secs(20), async || {
        due(&bench, 2000).await.len() == 40
    })
    .await;
    assert_eq!(ids(due(&bench, 999).await), []);
    assert_eq!(ids(due(&bench, 1019).await), expected(20));
    let all = due(&bench, 2000).await;
    let mut shards: Vec<u8> = all.iter().map(|(shard, _)| *shard).collect();
    shards.dedup();
    assert!(shards.len() > 4, "they are spread: {shards:?}");
    assert_eq!(ids(all), expected(40));
}

pub async fn an_ended_run_is_due_no_more(bench: Bench) {
    let run = bench.accepted().await;
    wait_until("it is due", Duration::from_secs(20), async || {
        due(&bench, 60_000).await.len() == 1
    })
    .await;
    assert!(matches!(
        bench.store.write_run(&run, &ended(&run)).await,
        Ok(RowWrite::Landed(_))
    ));
    wait_until("it is due no more", Duration::from_secs(20), async || {
        due(&bench, i64::from(u32::MAX)).await.is_empty()
    })
    .await;
}

pub async fn a_row_that_can_not_be_read_is_left_out_of_the_list(bench: Bench) {
    let owner = Owner::new(fresh());
    let broken = accepted_at(&bench, &owner, 2).await;
    let newer = accepted_at(&bench, &owner, 3).await;
    let good = accepted_at(&bench, &owner, 1).await;
    for (run, name, value) in [(&broken, "status", number(1)), (&newer, "schema", number(2))] {
        let set = vec![(name.to_owned(), value)];
        bench
            .write(
                &row_key(&run.id),
                Action::Update { set, remove: vec![] },
                Condition::Always,
            )
            .await;
    }
    assert_eq!(bench.store.list_runs(&owner, 10, None).await.unwrap().runs, [good]);
}
