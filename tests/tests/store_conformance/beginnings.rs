//! Accepted runs: threads and turns.

use futures::future::join_all;
use outlast_core::{Owner, RunId, ThreadKey, TurnKey};
use outlast_store::table::{Key, number_of, text_of};
use outlast_store::{Acceptance, Accepted, RowAndPageWrite, RowWrite, StoreError, Turn};

use crate::bench::{Bench, acceptance, at, claimed, ended, fresh, outcome, page, page_key, row_key};
use outlast_core::event::EventBody;

const DAY: i64 = 24 * 3_600_000;

async fn accept(bench: &Bench, acceptance: &Acceptance) -> Accepted {
    bench.store.accept(acceptance, at(0)).await.expect("an answer")
}

/// Another run for the same thread.
fn on_thread_of(other: &Acceptance, turn: Option<(&str, &str)>) -> Acceptance {
    let mut new = acceptance(&other.run.owner, turn);
    new.run.thread = other.run.thread.clone();
    new
}

async fn end(bench: &Bench, run: &RunId) {
    let row = bench.store.load_run(run).await.unwrap().unwrap();
    let last = page(run, 2, vec![EventBody::terminal(outcome(None))]);
    let written = bench.store.write_run_with_page(&row, &ended(&row), &last).await;
    assert!(matches!(written, Ok(RowAndPageWrite::Landed(_))), "{written:?}");
}

pub async fn a_run_begins_with_four_items(bench: Bench) {
    let owner = Owner::new("someone");
    let new = acceptance(&owner, Some(("turn 1", "print")));
    assert_eq!(accept(&bench, &new).await, Accepted::Landed);
    let run = &new.run;
    assert_eq!(bench.store.load_run(&run.id).await, Ok(Some(run.clone())));
    assert_eq!(bench.store.tail_page(&run.id).await, Ok(Some(new.page.clone())));
    assert_eq!(
        bench.store.active_run(&owner, &run.thread).await,
        Ok(Some(run.id.clone()))
    );
    assert_eq!(
        bench.store.turn(&owner, &TurnKey::new("turn 1"), at(0)).await,
        Ok(new.turn.clone().map(Turn::Taken))
    );
    let turn = Key::Row {
        pk: "turn#someone#turn%201".into(),
        sk: "meta".into(),
    };
    let item = bench.peek(&turn).await.unwrap();
    assert_eq!(
        number_of::<i64>(&item, "expires_at"),
        Some(at(DAY).as_ttl_seconds()),
        "TTL is in seconds"
    );
    assert_eq!(text_of(&item, "owner"), Some("someone"));
    let row = bench.peek(&row_key(&run.id)).await.unwrap();
    assert!(!row.contains_key("expires_at"), "a live run doesn't expire");
    // A foreign owner finds nothing.
    assert_eq!(bench.store.active_run(&Owner::new("else"), &run.thread).await, Ok(None));
    assert_eq!(
        bench
            .store
            .turn(&Owner::new("else"), &TurnKey::new("turn 1"), at(0))
            .await,
        Ok(None)
    );
}

pub async fn a_thread_has_one_live_run(bench: Bench) {
    let first = acceptance(&Owner::new("local"), None);
    assert_eq!(accept(&bench, &first).await, Accepted::Landed);
    let second = on_thread_of(&first, None);
    assert_eq!(
        accept(&bench, &second).await,
        Accepted::ThreadBusy(first.run.id.clone())
    );
    assert_eq!(bench.peek(&row_key(&second.run.id)).await, None);
    assert_eq!(bench.peek(&page_key(&second.run.id, 1)).await, None);
    // With a turn that is new the thread still decides, and the turn stays free.
    let third = on_thread_of(&first, Some(("new", "print")));
    assert_eq!(accept(&bench, &third).await, Accepted::ThreadBusy(first.run.id));
    assert_eq!(
        bench.store.turn(&third.run.owner, &TurnKey::new("new"), at(0)).await,
        Ok(None)
    );
}

pub async fn r34_the_turn_decides_before_the_thread(bench: Bench) {
    let first = acceptance(&Owner::new("local"), Some(("turn", "print")));
    assert_eq!(accept(&bench, &first).await, Accepted::Landed);
    let taken = Accepted::TurnTaken(first.turn.clone().unwrap());
    let repeated = on_thread_of(&first, Some(("turn", "print")));
    assert_eq!(accept(&bench, &repeated).await, taken);
    let other_body = on_thread_of(&first, Some(("turn", "another print")));
    assert_eq!(
        accept(&bench, &other_body).await,
        taken,
        "with the fingerprint that tells them apart"
    );
    let other_thread = acceptance(&Owner::new("local"), Some(("turn", "print")));
    assert_eq!(accept(&bench, &other_thread).await, taken);
    // And after the end of the first run too.
    end(&bench, &first.run.id).await;
    assert_eq!(accept(&bench, &repeated).await, taken);
    // Someone else's turn of the same name is another.
    let foreign = acceptance(&Owner::new("else"), Some(("turn", "print")));
    assert_eq!(accept(&bench, &foreign).await, Accepted::Landed);
}

pub async fn r34_twenty_of_one_turn_start_one_run(bench: Bench) {
    let owner = Owner::new(fresh());
    let thread = ThreadKey::new("t");
    let tries = (0..20).map(|_| {
        let (bench, mut new) = (bench.clone(), acceptance(&owner, Some(("turn", "print"))));
        new.run.thread = thread.clone();
        tokio::spawn(async move { (accept(&bench, &new).await, new) })
    });
    let tries: Vec<_> = join_all(tries).await.into_iter().map(Result::unwrap).collect();
    let mut winners = tries.iter().filter(|(accepted, _)| *accepted == Accepted::Landed);
    let (_, winner) = winners.next().expect("one wins");
    assert_eq!(winners.count(), 0);
    for (accepted, new) in &tries {
        if *accepted != Accepted::Landed {
            assert_eq!(*accepted, Accepted::TurnTaken(winner.turn.clone().unwrap()));
            assert_eq!(bench.peek(&row_key(&new.run.id)).await, None);
        }
    }
    assert_eq!(
        bench.store.active_run(&owner, &thread).await,
        Ok(Some(winner.run.id.clone()))
    );
}

pub async fn e05_an_expired_turn_is_free_although_its_item_is_there(bench: Bench) {
    let owner = Owner::new("local");
    let first = acceptance(&owner, Some(("turn", "print")));
    assert_eq!(accept(&bench, &first).await, Accepted::Landed);
    let turn = TurnKey::new("turn");
    let second = acceptance(&owner, Some(("turn", "print")));
    for before in [at(0), at(DAY - 1)] {
        assert_eq!(
            bench.store.turn(&owner, &turn, before).await,
            Ok(first.turn.clone().map(Turn::Taken))
        );
        let taken = bench.store.accept(&second, before).await;
        assert_eq!(taken, Ok(Accepted::TurnTaken(first.turn.clone().unwrap())));
    }
    assert_eq!(bench.store.turn(&owner, &turn, at(DAY)).await, Ok(None));
    assert_eq!(bench.store.accept(&second, at(DAY)).await, Ok(Accepted::Landed));
    assert_eq!(
        bench.store.turn(&owner, &turn, at(0)).await,
        Ok(second.turn.clone().map(Turn::Taken))
    );
    // A busy thread is not freed by an expired turn.
    let third = on_thread_of(&first, Some(("turn", "print")));
    let busy = bench.store.accept(&third, at(3 * DAY)).await;
    assert_eq!(busy, Ok(Accepted::ThreadBusy(first.run.id)));
}

pub async fn a_stopped_turn_lets_only_a_cancelled_run_in(bench: Bench) {
    let owner = Owner::new("local");
    let turn = TurnKey::new("turn");
    let stop = async |at_ms| bench.store.stop_turn(&owner, &turn, at(at_ms + DAY), at(at_ms)).await;
    assert_eq!((stop(0).await, stop(1).await), (Ok(None), Ok(None)));
    assert_eq!(bench.store.turn(&owner, &turn, at(0)).await, Ok(Some(Turn::Stopped)));
    let live = acceptance(&owner, Some(("turn", "print")));
    assert_eq!(accept(&bench, &live).await, Accepted::TurnStopped);
    assert_eq!(bench.peek(&row_key(&live.run.id)).await, None);
    assert_eq!(bench.store.active_run(&owner, &live.run.thread).await, Ok(None));

    let mut cancelled = acceptance(&owner, Some(("turn", "print")));
    cancelled.run.status = outlast_core::Status::Cancelled;
    assert_eq!(accept(&bench, &cancelled).await, Accepted::Landed);
    assert_eq!(
        accept(&bench, &cancelled).await,
        Accepted::Landed,
        "again: it has landed"
    );
    assert_eq!(bench.store.active_run(&owner, &cancelled.run.thread).await, Ok(None));
    let record = cancelled.turn.clone().unwrap();
    assert_eq!(
        bench.store.turn(&owner, &turn, at(0)).await,
        Ok(Some(Turn::Taken(record.clone())))
    );
    assert_eq!(stop(2).await, Ok(Some(record)));
}

pub async fn a_stop_and_a_request_of_one_turn_at_once_have_one_order(bench: Bench) {
    for round in 0..10 {
        let (owner, key) = (Owner::new("local"), format!("turn {round}"));
        let turn = TurnKey::new(key.clone());
        let new = acceptance(&owner, Some((&key, "print")));
        let (stopped, accepted) = futures::join!(
            bench.store.stop_turn(&owner, &turn, at(DAY), at(0)),
            bench.store.accept(&new, at(0))
        );
        match (stopped.unwrap(), accepted.unwrap()) {
            (None, Accepted::TurnStopped) => assert_eq!(bench.peek(&row_key(&new.run.id)).await, None),
            (Some(record), Accepted::Landed) => assert_eq!(record.run_id, new.run.id),
            both => panic!("neither came first: {both:?}"),
        }
    }
}

pub async fn a_thread_is_free_again_after_the_end(bench: Bench) {
    let first = acceptance(&Owner::new("local"), None);
    assert_eq!(accept(&bench, &first).await, Accepted::Landed);
    end(&bench, &first.run.id).await;
    let second = on_thread_of(&first, None);
    assert_eq!(accept(&bench, &second).await, Accepted::Landed);
    let thread = Key::Row {
        pk: format!("thread#local#{}", first.run.thread),
        sk: "meta".into(),
    };
    let item = bench.peek(&thread).await.unwrap();
    assert!(
        !item.contains_key("expires_at"),
        "TTL must not take a thread in use: {item:?}"
    );
    assert_eq!(text_of(&item, "live_run"), Some(second.run.id.as_str()));
}

pub async fn a_repeated_acceptance_knows_itself(bench: Bench) {
    for turn in [None, Some(("turn", "print"))] {
        let new = acceptance(&Owner::new("local"), turn);
        assert_eq!(accept(&bench, &new).await, Accepted::Landed);
        assert_eq!(accept(&bench, &new).await, Accepted::Landed);
        // Also when the run went on meanwhile.
        let claim = bench.store.write_run(&new.run, &claimed(&new.run)).await;
        assert!(matches!(claim, Ok(RowWrite::Landed(_))), "{claim:?}");
        assert_eq!(accept(&bench, &new).await, Accepted::Landed);
        end(&bench, &new.run.id).await;
        assert_eq!(accept(&bench, &new).await, Accepted::Landed);
        let row = bench.store.load_run(&new.run.id).await.unwrap().unwrap();
        assert_eq!((row.epoch, row.version), (1, 3), "nothing was begun anew");
    }
}

pub async fn names_can_not_forge_keys(bench: Bench) {
    let threads = [
        ("a#b", "c"),
        ("a", "b#c"),
        ("a%23b", "c"),
        ("a", "b%23c"),
        ("a/b", "c"),
        ("ä", "🙂"),
        ("a ", "c"),
    ];
    for (owner, thread) in threads {
        let mut new = acceptance(&Owner::new(owner), Some((thread, "print")));
        new.run.thread = ThreadKey::new(thread);
        assert_eq!(accept(&bench, &new).await, Accepted::Landed, "{owner} {thread}");
        let found = bench
            .store
            .active_run(&Owner::new(owner), &ThreadKey::new(thread))
            .await;
        assert_eq!(found, Ok(Some(new.run.id.clone())));
    }
}

pub async fn names_that_can_not_be_keys_are_refused(bench: Bench) {
    let long = "x".repeat(257);
    for name in ["", long.as_str()] {
        let mut new = acceptance(&Owner::new("local"), None);
        new.run.thread = ThreadKey::new(name);
        let refused = bench.store.accept(&new, at(0)).await;
        assert!(matches!(refused, Err(StoreError::Rejected(_))), "{refused:?}");
        let refused = bench.store.load_run(&RunId::new(name)).await;
        assert!(matches!(refused, Err(StoreError::Rejected(_))), "{refused:?}");
    }
    let longest = "🙂".repeat(64);
    let mut new = acceptance(&Owner::new(&longest), Some((&longest, "print")));
    new.run.thread = ThreadKey::new(&longest);
    assert_eq!(accept(&bench, &new).await, Accepted::Landed);
}
