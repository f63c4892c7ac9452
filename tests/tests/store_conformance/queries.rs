//! The table port: queries of tables and indexes.

use outlast_store::schema::{Index, TableId};
use outlast_store::table::{Answer, Failure, Item, Key, Query, Range, number, number_of, text, text_of};

use crate::bench::{Bench, fresh};

fn pages(hash: &str) -> Query {
    Query {
        table: TableId::Events,
        index: None,
        hash: hash.into(),
        range: Range::All,
        reverse: false,
        limit: None,
        consistent: true,
        start: None,
    }
}

async fn plant(bench: &Bench, partition: &str, seqs: impl Iterator<Item = u64>, bytes: usize) {
    for first_seq in seqs {
        let key = Key::Page {
            run_id: partition.into(),
            first_seq,
        };
        bench
            .plant(&key, Item::from([("text".into(), text("x".repeat(bytes)))]))
            .await;
    }
}

async fn query(bench: &Bench, query: &Query) -> Answer {
    bench.table.query(query, &bench.meter).await.expect("an answer")
}

fn seqs(answer: &Answer) -> Vec<u64> {
    answer
        .items
        .iter()
        .filter_map(|item| number_of(item, "first_seq"))
        .collect()
}

pub async fn a_range_in_both_directions(bench: Bench) {
    let partition = fresh();
    plant(&bench, &partition, [1, 9, 10, 99, 100, 1000].into_iter(), 1).await;
    plant(&bench, &fresh(), [5, 50].into_iter(), 1).await;
    let check = async |range, reverse, expected: &[u64]| {
        let asked = Query {
            range,
            reverse,
            ..pages(&partition)
        };
        let answer = query(&bench, &asked).await;
        assert_eq!(
            (seqs(&answer).as_slice(), answer.last_key),
            (expected, None),
            "{range:?} {reverse}"
        );
    };
    check(Range::All, false, &[1, 9, 10, 99, 100, 1000]).await;
    check(Range::AtLeast(10), false, &[10, 99, 100, 1000]).await;
    check(Range::AtLeast(11), false, &[99, 100, 1000]).await;
    check(Range::AtMost(99), false, &[1, 9, 10, 99]).await;
    check(Range::AtMost(99), true, &[99, 10, 9, 1]).await;
    check(Range::AtLeast(2000), false, &[]).await;
    let nothing = query(&bench, &pages(&fresh())).await;
    assert_eq!(nothing, Answer::default());
}

pub async fn a_limit_says_that_there_may_be_more(bench: Bench) {
    let partition = fresh();
    plant(&bench, &partition, 1..=5, 1).await;
    let mut asked = Query {
        limit: Some(2),
        ..pages(&partition)
    };
    let mut found = vec![];
    loop {
        let answer = query(&bench, &asked).await;
        found.extend(seqs(&answer));
        match answer.last_key {
            Some(last_key) => asked.start = Some(last_key),
            None => break,
        }
    }
    assert_eq!(found, [1, 2, 3, 4, 5]);
    let last = Query {
        limit: Some(1),
        reverse: true,
        ..pages(&partition)
    };
    assert_eq!(seqs(&query(&bench, &last).await), [5]);
}

pub async fn a_query_is_cut_at_a_megabyte_and_goes_on(bench: Bench) {
    let partition = fresh();
    plant(&bench, &partition, 1..=8, 300 * 1024).await;
    for reverse in [false, true] {
        let mut asked = Query {
            reverse,
            ..pages(&partition)
        };
        let (mut found, mut requests) = (vec![], 0);
        loop {
            let answer = query(&bench, &asked).await;
            requests += 1;
            found.extend(seqs(&answer));
            match answer.last_key {
                Some(last_key) => asked.start = Some(last_key),
                None => break,
            }
        }
        if reverse {
            found.reverse();
        }
        assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(requests >= 2, "{requests} requests");
    }
}

pub async fn an_index_holds_keys_of_items_that_have_its_attributes(bench: Bench) {
    let shard = fresh();
    let row = |pk: &str| Key::Row {
        pk: pk.into(),
        sk: "meta".into(),
    };
    let due = |due_at: i64| {
        Item::from([
            ("due_shard".into(), text(&shard)),
            ("due_at".into(), number(due_at)),
            ("payload".into(), text("not in the index")),
        ])
    };
    let names: Vec<String> = (0..4).map(|_| fresh()).collect();
    bench.plant(&row(&names[0]), due(30)).await;
    bench.plant(&row(&names[1]), due(10)).await;
    bench.plant(&row(&names[2]), due(20)).await;
    let half = Item::from([("due_shard".to_owned(), text(&shard))]);
    bench.plant(&row(&names[3]), half).await;
    let asked = Query {
        table: TableId::Runs,
        index: Some(Index::Due),
        range: Range::AtMost(20),
        consistent: false,
        ..pages(&shard)
    };
    let answer = query(&bench, &asked).await;
    let found: Vec<_> = answer.items.iter().filter_map(|item| text_of(item, "pk")).collect();
    assert_eq!(found, [&names[1], &names[2]]);
    assert!(answer.items.iter().all(|item| item.len() == 4), "{:?}", answer.items);
}

pub async fn an_index_has_no_consistent_reads(bench: Bench) {
    let asked = Query {
        table: TableId::Runs,
        index: Some(Index::ByOwner),
        consistent: true,
        ..pages("someone")
    };
    let answer = bench.table.query(&asked, &bench.meter).await;
    assert!(matches!(answer, Err(Failure::Rejected(_))), "{answer:?}");
}
