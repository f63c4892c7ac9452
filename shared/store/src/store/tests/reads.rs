//! What is read consistently, and what an index that lags behind can do.

use super::*;

#[test]
fn r36_what_decides_is_read_consistently() {
    let (bench, run) = Bench::accepted();
    bench.table.let_reads_lag(1);
    assert_eq!(block_on(bench.store.load_run(&run.id)), Ok(Some(run.clone())));
    assert_eq!(
        block_on(bench.store.active_run(&run.owner, &run.thread)),
        Ok(Some(run.id.clone()))
    );
    let turn = TurnKey::new("turn");
    assert!(block_on(bench.store.turn(&run.owner, &turn, at(0))).unwrap().is_some());
    assert!(block_on(bench.store.tail_page(&run.id)).unwrap().is_some());
    assert_eq!(block_on(bench.store.last_seq(&run.id)), Ok(1));
    assert_eq!(
        block_on(bench.store.read_pages(&run.id, 1, true)).unwrap().pages.len(),
        1
    );
    let requests = bench.table.requests();
    assert_eq!(requests.len(), 6);
    let consistent = |request: &Request| request.consistent == Some(true);
    assert!(requests.iter().all(consistent), "{requests:?}");
    // And one that needn't be sees what it sees.
    assert_eq!(block_on(bench.store.read_pages(&run.id, 1, false)).unwrap().pages, []);
    assert_eq!(bench.table.requests().last().unwrap().consistent, Some(false));
}

#[test]
fn r36_a_stale_index_shows_rows_and_decides_nothing() {
    let (bench, run) = Bench::accepted();
    let (after, last) = ended(&run);
    let shard = crate::rows::due_shard(&run.id);
    assert!(shard < DUE_SHARDS);
    assert!(matches!(
        block_on(bench.store.write_run_with_page(&run, &after, &last)),
        Ok(RowAndPageWrite::Landed(_))
    ));
    bench.table.let_indexes_lag(1);
    assert_eq!(
        block_on(bench.store.due_runs(shard, at(60_000))),
        Ok(vec![run.id.clone()]),
        "it was due a commit ago"
    );
    let late = block_on(bench.store.write_run(&run, &claimed(&run, "late"))).unwrap();
    assert_eq!(late, RowWrite::Changed(Some(Box::new(Run { version: 2, ..after }))));
    bench.table.let_indexes_lag(2);
    assert_eq!(
        block_on(bench.store.list_runs(&run.owner, 10, None)).unwrap().runs,
        [],
        "it was not there yet"
    );
    // The index names a row that is gone.
    bench.table.let_indexes_lag(0);
    bench.fault(Kind::Query, "local", Effect::Stale(1), 1);
    bench.table.plant(row_key(&run.id), None);
    assert_eq!(block_on(bench.store.list_runs(&run.owner, 10, None)).unwrap().runs, []);
}

#[test]
fn r35_due_runs_are_found_behind_many_that_are_not() {
    let bench = Bench::new();
    let stale = acceptance(1).run.id;
    let shard = crate::rows::due_shard(&stale);
    let plant = |pk: String, due_at: i64| {
        let item = Item::from([
            ("due_shard".to_owned(), crate::table::text(format!("due#{shard}"))),
            ("due_at".to_owned(), number(due_at)),
        ]);
        bench.table.plant(Key::Row { pk, sk: "meta".into() }, Some(item));
    };
    for index in 0..300_u32 {
        let id = RunId::from_parts(u64::from(index), [7; 10]);
        plant(format!("run#{id}"), 500);
    }
    plant(format!("run#{stale}"), 1000);
    bench.table.page_queries_at(1000);
    let due = block_on(bench.store.due_runs(shard, Timestamp::from_millis(1000))).unwrap();
    assert_eq!((due.len(), due.last()), (301, Some(&stale)));
    assert!(bench.table.requests().len() > 10, "the index was read page by page");
}

#[test]
fn r16_a_page_that_is_seen_late_is_a_gap_until_it_is_seen() {
    let (bench, run) = Bench::accepted();
    for seq in 2..=4 {
        let next = page(&run, seq, &format!("p{seq}"), EventBody::RunPaused);
        assert_eq!(block_on(bench.store.put_page(&next)), Ok(PagePut::Landed));
    }
    let late = Key::Page {
        run_id: run.id.to_string(),
        first_seq: 3,
    };
    bench.table.hide(late.clone());
    let seqs = |consistent| {
        let slice = block_on(bench.store.read_wire_events(&run.id, 1, consistent)).unwrap();
        slice.events.iter().map(|event| event.seq).collect::<Vec<_>>()
    };
    assert_eq!((seqs(false), seqs(true)), (vec![1, 2, 4], vec![1, 2, 3, 4]));
    bench.table.reveal(&late);
    assert_eq!(seqs(false), [1, 2, 3, 4]);
}

#[test]
fn runs_are_spread_over_all_due_shards_and_stay_in_theirs() {
    let mut found = [0; DUE_SHARDS as usize];
    for number in 0..=255 {
        found[crate::rows::due_shard(&acceptance(number).run.id) as usize] += 1;
    }
    assert!(found.iter().all(|count| (4..=40).contains(count)), "{found:?}");
    // Stored rows name their shard: this must never change.
    let id = RunId::new("0191f0a0-0000-7000-8000-000000000000");
    assert_eq!(crate::rows::due_shard(&id), 4);
}
