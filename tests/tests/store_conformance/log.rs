//! Pages.

use futures::future::join_all;
use outlast_core::event::{ContinueReason, EventBody};
use outlast_core::ids::AgentName;
use outlast_core::outcome::{ErrorInfo, Verification};
use outlast_core::time_budget::HostKind;
use outlast_core::{Page, Reason, RunId, StepKey, Totals, Writer};
use outlast_store::table::{Action, Condition, number};
use outlast_store::{LogSlice, PagePut, StoreError};

use crate::bench::{Bench, at, emit, outcome, page, page_key, payload, payload_of, run_id};

/// One of each kind, with every optional field once there and once not; ends with an ending.
pub fn every_kind() -> Vec<EventBody> {
    let key = || StepKey::new("a/b%20c");
    let error = || ErrorInfo::new("http_status", "500\r\n: \u{2028} \"no\" \0").at(key());
    let mut full = outcome(Some(payload(r#"{"z": 1.0, "a": [12345678901234567890123, null]}"#)));
    full.reason = Some(Reason::StepsFailed);
    full.totals = Totals {
        planned: 3,
        committed: 1,
        failed: 1,
        unknown: 1,
        released: 2,
    };
    full.remaining = 2;
    full.remainder_digest = Some("d".into());
    full.remainder = vec![key(), StepKey::new("e")];
    full.verification = Some(Verification {
        checked: 2,
        missing: vec![key()],
        unsettled: 1,
        ..Verification::default()
    });
    full.error = Some(error());
    vec![
        EventBody::RunAccepted {
            agent: AgentName::new("plan"),
            input: payload("{\n  \"a\" : 1e400\n}"),
            retry_of: None,
        },
        EventBody::RunClaimed {
            epoch: 1,
            holder: "h".into(),
            host: HostKind::Background,
        },
        EventBody::PlanDeclared {
            keys: payload(r#"["a","b"]"#),
        },
        EventBody::StepStarted {
            key: key(),
            attempt: 1,
            idempotent: false,
            input_digest: "d".into(),
            deadline: Some(at(5)),
        },
        EventBody::StepStarted {
            key: key(),
            attempt: 2,
            idempotent: true,
            input_digest: String::new(),
            deadline: None,
        },
        EventBody::StepRetrying {
            key: key(),
            attempt: 1,
            error: ErrorInfo::new("timeout", ""),
            not_before: at(9),
        },
        EventBody::StepCommitted {
            key: key(),
            attempt: u64::MAX,
            result: payload("\"\\u0000 你好🙂é\""),
        },
        EventBody::StepFailed {
            key: key(),
            attempt: 1,
            error: error(),
        },
        EventBody::StepUnknown { key: key(), attempt: 1 },
        EventBody::AutoContinue {
            reason: ContinueReason::RunTimeout,
            interrupted: vec![],
        },
        EventBody::AutoContinue {
            reason: ContinueReason::LeaseInDoubt,
            interrupted: vec![key(), StepKey::new("b")],
        },
        EventBody::RunParked {
            until: Some(at(1)),
            awaits: vec![],
        },
        EventBody::RunParked {
            until: None,
            awaits: vec![StepKey::new("ask")],
        },
        EventBody::RunLost {
            epoch: 1,
            last_sign_of_life: at(1),
            crashes: 1,
        },
        EventBody::RunPaused,
        EventBody::RunResumed,
        EventBody::StopRequested,
        EventBody::StepReleased { key: key() },
        EventBody::WaitStarted {
            key: key(),
            until: at(1),
        },
        EventBody::WaitEnded { key: key() },
        EventBody::ParallelEnded {
            key: key(),
            result: payload(r#"{"items": [ ]}"#),
        },
        EventBody::ApprovalRequired {
            key: key(),
            expires_at: Some(at(1)),
            default: Some(payload("null")),
            schema: Some(payload(r#"{"type": "object"}"#)),
        },
        EventBody::AnswerRecorded {
            key: key(),
            value: Some(payload("null")),
            error: None,
            expired: true,
        },
        EventBody::AnswerRecorded {
            key: key(),
            value: None,
            error: Some(error()),
            expired: false,
        },
        emit(payload("[ ]")),
        EventBody::terminal(full),
    ]
}

pub async fn every_kind_of_event_comes_back(bench: Bench) {
    let run = run_id();
    let mut whole = page(&run, 1, every_kind());
    whole.writer = Writer::Control;
    whole.epoch = 3;
    assert_eq!(bench.store.put_page(&whole).await, Ok(PagePut::Landed));
    let slice = bench.store.read_pages(&run, 1, true).await;
    assert_eq!(
        slice,
        Ok(LogSlice {
            pages: vec![whole],
            next: None
        })
    );
    for ending in [Reason::Stopped, Reason::CrashLimit, Reason::NoProgress] {
        let run = run_id();
        let mut outcome = outcome(None);
        outcome.reason = Some(ending);
        let end = page(&run, 1, vec![EventBody::terminal(outcome)]);
        assert_eq!(bench.store.put_page(&end).await, Ok(PagePut::Landed));
        let tail = bench.store.tail_page(&run).await.unwrap().unwrap();
        assert!(tail.is_ended());
        assert_eq!(tail, end);
    }
}

pub async fn the_same_page_again_has_landed(bench: Bench) {
    let run = run_id();
    let first = page(&run, 1, every_kind());
    for _ in 0..3 {
        assert_eq!(bench.store.put_page(&first).await, Ok(PagePut::Landed));
    }
    assert_eq!(bench.store.read_pages(&run, 1, true).await.unwrap().pages, [first]);
}

pub async fn the_same_seq_with_other_bytes_collides(bench: Bench) {
    let run = run_id();
    let first = bench.append(&run, 1, vec![emit(payload("1"))]).await;
    let other = page(&run, 1, vec![emit(payload("1"))]);
    assert_eq!(
        bench.store.put_page(&other).await,
        Ok(PagePut::Collided),
        "another write of the same"
    );
    let forged = Page {
        write_id: first.write_id.clone(),
        ..page(&run, 1, vec![emit(payload("2"))])
    };
    assert_eq!(
        bench.store.put_page(&forged).await,
        Ok(PagePut::Collided),
        "the same write id with other bytes"
    );
    assert_eq!(bench.store.read_pages(&run, 1, true).await.unwrap().pages, [first]);
}

pub async fn twenty_pages_for_one_place_have_one_winner(bench: Bench) {
    let run = run_id();
    let tries = (0..20).map(|racer: u32| {
        let (bench, page) = (bench.clone(), page(&run, 1, vec![emit(payload(&racer.to_string()))]));
        tokio::spawn(async move { (bench.store.put_page(&page).await.unwrap(), page) })
    });
    let tries: Vec<_> = join_all(tries).await.into_iter().map(Result::unwrap).collect();
    let landed: Vec<_> = tries.iter().filter(|(put, _)| *put == PagePut::Landed).collect();
    assert_eq!(landed.len(), 1);
    assert_eq!(bench.store.tail_page(&run).await, Ok(Some(landed[0].1.clone())));
}

/// 1,200 events of 3 KB: in pages of one and of several.
pub async fn long_log(bench: &Bench, run: &RunId) {
    let mut seq = 1;
    while seq <= 1200 {
        let count = if seq % 2 == 0 { 5 } else { 1 }.min(1201 - seq);
        let bodies = (0..count).map(|_| emit(payload_of(3000, 'x'))).collect();
        bench.append(run, seq, bodies).await;
        seq += count;
    }
}

async fn seqs_from(bench: &Bench, run: &RunId, first_seq: u64, consistent: bool) -> (Vec<u64>, usize) {
    let (mut seqs, mut next, mut requests) = (vec![], Some(first_seq), 0);
    while let Some(from) = next {
        let before = bench.store.cost();
        let slice = bench.store.read_pages(run, from, consistent).await.unwrap();
        assert_eq!((bench.store.cost() - before).read_requests, 1, "a slice is one request");
        requests += 1;
        seqs.extend(slice.pages.iter().flat_map(|page| &page.events).map(|event| event.seq));
        next = slice.next;
    }
    (seqs, requests)
}

pub async fn r35_a_log_of_several_queries_is_read_whole(bench: Bench) {
    let run = run_id();
    long_log(&bench, &run).await;
    for consistent in [true, false] {
        let (seqs, requests) = seqs_from(&bench, &run, 1, consistent).await;
        assert_eq!(seqs, (1..=1200).collect::<Vec<u64>>(), "count delivered = count stored");
        assert!(requests > 3, "more than one page of the query: {requests}");
    }
    for seen in [9, 99, 999, 1199] {
        let holding = bench.store.page_holding(&run, seen + 1, true).await.unwrap().unwrap();
        assert!(holding.first_seq() <= seen + 1 && seen < holding.last_seq(), "{seen}");
        let (seqs, _) = seqs_from(&bench, &run, holding.first_seq(), true).await;
        let later: Vec<u64> = seqs.into_iter().filter(|seq| *seq > seen).collect();
        assert_eq!(later, (seen + 1..=1200).collect::<Vec<u64>>(), "after {seen}");
    }
}

pub async fn the_end_and_the_page_of_a_seq_are_found(bench: Bench) {
    let run = run_id();
    let emits = |count: usize| (0..count).map(|_| emit(payload("1"))).collect::<Vec<_>>();
    let first = bench.append(&run, 1, emits(3)).await;
    let second = bench.append(&run, 4, emits(6)).await;
    let third = bench.append(&run, 10, emits(1)).await;
    // Another run whose id sorts behind.
    bench.append(&run_id(), 1, emits(1)).await;
    assert_eq!(bench.store.tail_page(&run).await, Ok(Some(third.clone())));
    for (seq, page) in [
        (1, &first),
        (3, &first),
        (4, &second),
        (9, &second),
        (10, &third),
        (99, &third),
    ] {
        let holding = bench.store.page_holding(&run, seq, false).await;
        assert_eq!(holding.as_ref(), Ok(&Some(page.clone())), "{seq}");
        let start = bench.store.page_start(&run, seq, false).await;
        assert_eq!(start, Ok(Some(page.first_seq())), "{seq}");
    }
    assert_eq!(bench.store.page_holding(&run, 0, true).await, Ok(None));
    assert_eq!(bench.store.last_seq(&run).await, Ok(10));
    let from_the_middle = bench.store.read_pages(&run, 2, true).await.unwrap();
    assert_eq!(
        from_the_middle.pages,
        [second, third],
        "pages that begin there or later"
    );
}

pub async fn a_log_that_is_not_there_is_empty(bench: Bench) {
    let run = run_id();
    assert_eq!(bench.store.tail_page(&run).await, Ok(None));
    assert_eq!(bench.store.page_holding(&run, 1, true).await, Ok(None));
    assert_eq!(bench.store.read_pages(&run, 1, true).await, Ok(LogSlice::default()));
    assert_eq!(bench.store.last_seq(&run).await, Ok(0));
    let nothing = bench.store.put_page(&page(&run, 1, vec![])).await;
    assert!(matches!(nothing, Err(StoreError::Rejected(_))), "{nothing:?}");
}

pub async fn a_page_of_a_newer_schema_is_left_alone(bench: Bench) {
    let run = run_id();
    bench.append(&run, 1, vec![emit(payload("1"))]).await;
    let newer = Action::Update {
        set: vec![("schema".into(), number(9))],
        remove: vec!["events".into()],
    };
    bench.write(&page_key(&run, 1), newer, Condition::Always).await;
    assert_eq!(
        bench.store.read_pages(&run, 1, true).await,
        Err(StoreError::UnknownSchema(9))
    );
    assert_eq!(bench.store.tail_page(&run).await, Err(StoreError::UnknownSchema(9)));
    assert_eq!(
        bench.store.read_wire_events(&run, 1, true).await,
        Err(StoreError::UnknownSchema(9))
    );
    assert_eq!(bench.store.last_seq(&run).await, Ok(1));
}
