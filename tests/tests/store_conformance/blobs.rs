//! What doesn't fit into its page.

use outlast_core::event::{EventBody, wire_json};
use outlast_core::ids::AgentName;
use outlast_core::{Owner, Page, Payload, StepKey};
use outlast_store::table::{Action, Condition, Key, number_of, text, text_of};
use outlast_store::{Accepted, PagePut, RowAndPageWrite, StoreError};

use crate::bench::{Bench, acceptance, at, claimed, emit, ended, outcome, page, page_key, payload, payload_of, run_id};

const MB: usize = 1024 * 1024;

fn committed(result: Payload) -> EventBody {
    EventBody::StepCommitted {
        key: StepKey::new("k"),
        attempt: 1,
        result,
    }
}

async fn comes_back(bench: &Bench, page: &Page) {
    assert_eq!(bench.store.put_page(page).await, Ok(PagePut::Landed));
    assert_eq!(bench.store.put_page(page).await, Ok(PagePut::Landed), "again");
    let slice = bench
        .store
        .read_pages(&page.run_id, page.first_seq(), true)
        .await
        .unwrap();
    assert!(slice.pages == [page.clone()], "it comes back as it was written");
    assert!(bench.store.tail_page(&page.run_id).await.unwrap().as_ref() == Some(page));
    // Live and on resume a reader gets the same.
    let wire = bench
        .store
        .read_wire_events(&page.run_id, page.first_seq(), false)
        .await
        .unwrap();
    let expected: Vec<String> = page.events.iter().map(wire_json).collect();
    let found: Vec<String> = wire.events.into_iter().map(|event| event.json).collect();
    assert!(found == expected);
    let item = bench.peek(&page_key(&page.run_id, page.first_seq())).await.unwrap();
    let size = format!("{item:?}").len();
    assert!(size < 400 * 1024, "the page itself is small: {size}");
}

fn part_key(page: &Page, part: u64) -> Key {
    Key::Page {
        run_id: format!("{}#blob#{}", page.run_id, page.write_id),
        first_seq: part,
    }
}

pub async fn r30_large_results_come_back(bench: Bench) {
    for (bytes, character) in [(450 * 1024, 'x'), (399_900, '🙂'), (300_001, 'é'), (MB - 1000, '🙂')] {
        let run = run_id();
        let mut bodies = vec![committed(payload_of(bytes, character))];
        comes_back(&bench, &page(&run, 1, bodies.clone())).await;
        // Among small ones, and two of them.
        bodies.insert(0, emit(payload("1")));
        bodies.push(committed(payload_of(200 * 1024, '🙂')));
        comes_back(&bench, &page(&run, 2, bodies)).await;
    }
}

pub async fn r30_the_largest_input_and_value_come_back(bench: Bench) {
    let mut new = acceptance(&Owner::new("local"), None);
    let input = payload_of(5 * MB, '🙂');
    let agent = AgentName::new("plan");
    new.page = page(
        &new.run.id,
        1,
        vec![EventBody::RunAccepted {
            agent,
            input,
            retry_of: None,
        }],
    );
    assert_eq!(bench.store.accept(&new, at(0)).await, Ok(Accepted::Landed));
    let plan = EventBody::PlanDeclared {
        keys: payload(&format!("[{}]", payload_of(4 * MB - 2, 'x').as_str())),
    };
    comes_back(&bench, &page(&new.run.id, 2, vec![plan])).await;
    let end = page(
        &new.run.id,
        3,
        vec![EventBody::terminal(outcome(Some(payload_of(5 * MB, 'é'))))],
    );
    let written = bench.store.write_run_with_page(&new.run, &ended(&new.run), &end).await;
    assert!(matches!(written, Ok(RowAndPageWrite::Landed(_))), "{written:?}");
    let pages = bench.store.read_pages(&new.run.id, 1, true).await.unwrap().pages;
    assert!(pages[0] == new.page && pages[2] == end);
}

pub async fn r30_what_is_too_large_is_refused_before_any_write(bench: Bench) {
    let run = bench.accepted().await;
    let agent = || AgentName::new("plan");
    let bodies = [
        committed(payload_of(MB, 'x')),
        emit(payload_of(5 * MB, '🙂')),
        EventBody::RunAccepted {
            agent: agent(),
            input: payload_of(5 * MB + 1, 'x'),
            retry_of: None,
        },
        EventBody::PlanDeclared {
            keys: payload_of(4 * MB + 1, 'x'),
        },
        EventBody::terminal(outcome(Some(payload_of(5 * MB + 1, 'x')))),
        EventBody::StepUnknown {
            key: StepKey::new("x".repeat(301 * 1024)),
            attempt: 1,
        },
    ];
    for body in bodies {
        let before = bench.store.cost();
        let large = page(&run.id, 2, vec![emit(payload_of(250 * 1024, 'x')), body]);
        let refused = bench.store.put_page(&large).await;
        assert!(matches!(refused, Err(StoreError::TooLarge(_))), "{refused:?}");
        let refused = bench.store.write_run_with_page(&run, &claimed(&run), &large).await;
        assert!(matches!(refused, Err(StoreError::TooLarge(_))), "{refused:?}");
        let mut new = acceptance(&Owner::new("local"), None);
        new.page = Page {
            run_id: new.run.id.clone(),
            ..large
        };
        let refused = bench.store.accept(&new, at(0)).await;
        assert!(matches!(refused, Err(StoreError::TooLarge(_))), "{refused:?}");
        assert_eq!(bench.store.cost(), before, "nothing was asked of the table");
    }
    let many = (0..40_000).map(|_| EventBody::StopRequested).collect();
    let refused = bench.store.put_page(&page(&run.id, 2, many)).await;
    assert!(matches!(refused, Err(StoreError::TooLarge(_))), "{refused:?}");
}

pub async fn many_payloads_that_are_too_large_together(bench: Bench) {
    let bodies = (0..20)
        .map(|index| committed(payload_of(50 * 1024 + index, 'x')))
        .collect();
    comes_back(&bench, &page(&run_id(), 1, bodies)).await;
    let bodies = (0..200).map(|index| emit(payload_of(2000 + index, 'é'))).collect();
    comes_back(&bench, &page(&run_id(), 1, bodies)).await;
}

pub async fn a_page_that_fits_is_one_write(bench: Bench) {
    let before = bench.store.cost();
    let fits = bench
        .append(&run_id(), 1, vec![emit(payload_of(290 * 1024, 'x'))])
        .await;
    assert_eq!((bench.store.cost() - before).write_requests, 1);
    let before = bench.store.cost();
    bench.store.read_pages(&fits.run_id, 1, true).await.unwrap();
    assert_eq!((bench.store.cost() - before).read_requests, 1);
    // One that doesn't: a write for each part, and one more query.
    let before = bench.store.cost();
    let large = bench
        .append(&run_id(), 1, vec![emit(payload_of(800 * 1024, 'x'))])
        .await;
    assert_eq!((bench.store.cost() - before).write_requests, 1 + 3);
    let before = bench.store.cost();
    bench.store.read_pages(&large.run_id, 1, true).await.unwrap();
    assert_eq!((bench.store.cost() - before).read_requests, 2);
    // Parts expire with their page.
    let part = bench.peek(&part_key(&large, 1)).await.unwrap();
    assert_eq!(number_of(&part, "expires_at"), Some(large.expires_at));
    assert!(text_of(&part, "text").is_some_and(|content| content.starts_with("\"xxx")));
}

async fn is_corrupt(bench: &Bench, page: &Page) {
    let read = bench.store.read_pages(&page.run_id, 1, true).await;
    assert!(matches!(read, Err(StoreError::Corrupt(_))), "it is corrupt");
    let tail = bench.store.tail_page(&page.run_id).await;
    assert!(matches!(tail, Err(StoreError::Corrupt(_))), "it is corrupt");
    // Only the event itself is lost to readers.
    let wire = bench
        .store
        .read_wire_events(&page.run_id, 1, true)
        .await
        .unwrap()
        .events;
    let kinds: Vec<(u64, &str)> = wire.iter().map(|event| (event.seq, event.kind.as_str())).collect();
    assert_eq!(kinds, [(1, "emit"), (2, "corrupt"), (3, "run.completed")]);
    assert!(wire[2].terminal);
}

async fn with_parts(bench: &Bench) -> Page {
    let large = committed(payload_of(800 * 1024, '🙂'));
    let end = EventBody::terminal(outcome(None));
    bench.append(&run_id(), 1, vec![emit(payload("1")), large, end]).await
}

pub async fn a_wrong_part_is_corrupt(bench: Bench) {
    for change in [
        |content: &str| content.replacen("🙂", "🙃", 1),
        |content: &str| format!("{content}x"),
        |_: &str| String::new(),
    ] {
        let page = with_parts(&bench).await;
        let key = part_key(&page, 2);
        let mut part = bench.peek(&key).await.unwrap();
        let content = change(text_of(&part, "text").unwrap());
        part.insert("text".into(), text(content));
        bench.plant(&key, part).await;
        is_corrupt(&bench, &page).await;
    }
}

pub async fn a_missing_part_is_corrupt(bench: Bench) {
    let page = with_parts(&bench).await;
    let strange = Action::Update {
        set: vec![],
        remove: vec!["text".into()],
    };
    bench.write(&part_key(&page, 3), strange, Condition::Always).await;
    is_corrupt(&bench, &page).await;
}

pub async fn a_large_page_in_a_transaction(bench: Bench) {
    let run = bench.accepted().await;
    let end = page(
        &run.id,
        2,
        vec![EventBody::terminal(outcome(Some(payload_of(MB, '🙂'))))],
    );
    let after = ended(&run);
    for _ in 0..2 {
        let written = bench.store.write_run_with_page(&run, &after, &end).await;
        assert!(matches!(written, Ok(RowAndPageWrite::Landed(_))), "{written:?}");
    }
    assert!(bench.store.tail_page(&run.id).await.unwrap() == Some(end));
}
