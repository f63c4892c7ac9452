//! A run that is paused for days and answered meanwhile: nothing of it is lost.

use std::time::Duration;

use outlast_core::event::EventBody;
use outlast_core::page::{Page, Writer};
use outlast_core::transition::Log;
use outlast_core::{Command, Event, RunId, Status, apply};
use outlast_engine::Ask;
use outlast_engine::answer::{Answer, answer};
use outlast_engine::sweep::sweep;
use outlast_store::RowAndPageWrite;
use outlast_tests::rig::Rig;
use outlast_tests::scripted::{nap, payload, scripted, start, story, swept_to_its_end, swept_until, value_of};
use outlast_tests::wait::after;
use serde_json::json;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A pause or a resumption, as a control writer makes it.
async fn change(rig: &Rig, run: &RunId, command: Command) {
    let row = rig.row(run).await;
    let now = rig.engine.seams().now();
    let mut change = apply(&row, &command, now).unwrap();
    change.run.write_id = rig.engine.seams().write_id();
    let tail = rig.store.tail_page(run).await.unwrap().unwrap();
    let body = match change.log {
        Log::Paused => EventBody::RunPaused,
        Log::Resumed => EventBody::RunResumed,
        other => panic!("{other:?}"),
    };
    let page = Page {
        run_id: run.clone(),
        epoch: row.epoch,
        writer: Writer::Control,
        write_id: change.run.write_id.clone(),
        totals: tail.totals,
        events: vec![Event {
            seq: tail.last_seq() + 1,
            at: now,
            body,
        }],
        expires_at: tail.expires_at,
    };
    let wrote = rig.store.write_run_with_page(&row, &change.run, &page).await.unwrap();
    assert!(matches!(wrote, RowAndPageWrite::Landed(_)), "{wrote:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_paused_for_three_days_is_answered_resumed_and_finished_with_all_its_pages() {
    let (mut options, _) = scripted(|ctx| {
        Box::pin(async move {
            nap(&ctx, "before", 10).await?;
            let soon = Ask {
                expires_in: Some(2 * DAY),
                default: Some(json!("the default")),
                schema: None,
            };
            let soon = ctx.ask("soon", soon).await?;
            let asked = ctx.ask("ok?", Ask::default()).await?;
            let (answer, waited) = tokio::join!(asked.answer::<u64>(), ctx.wait("a day", DAY));
            waited?;
            nap(&ctx, "after", 10).await?;
            Ok(json!([answer?, soon.answer::<String>().await?]))
        })
    });
    options.timing = outlast_core::limits::Timing::LAMBDA;
    let rig = Rig::new(options);
    let run = start(&rig).await;
    swept_until(
        &rig,
        &run,
        Status::Waiting,
        Duration::from_secs(1),
        Duration::from_secs(30),
    )
    .await;
    change(&rig, &run, Command::Pause).await;
    for hour in 0..72 {
        after(HOUR).await;
        sweep(&rig.engine).await.unwrap();
        if hour == 30 {
            let value = Answer::Value(payload(&7));
            answer(&rig.engine, &rig.owner, &run, "ok?", value).await.unwrap();
        }
    }
    let row = rig.row(&run).await;
    assert_eq!(
        (row.status, row.paused, row.due_at),
        (Status::Queued, true, Some(row.ends_at))
    );
    assert_eq!(row.totals.committed, 1, "nothing began meanwhile");
    let timing = outlast_core::limits::Timing::LAMBDA;
    change(&rig, &run, Command::Resume { timing }).await;
    let ended = swept_to_its_end(&rig, &run, HOUR).await;
    assert_eq!(
        (ended.run.status, value_of(&ended)),
        (Status::Completed, json!([7, "the default"]))
    );
    let log = rig.log(&run).await;
    assert_eq!(
        log.iter().map(|event| event.seq).collect::<Vec<_>>(),
        (1..=ended.last_seq).collect::<Vec<_>>()
    );
    assert_eq!(story(&log)[0], "run.accepted");
    // No page expires before the run could have ended at the latest, and its retention after that.
    let latest = (ended.run.ends_at + outlast_core::limits::RETENTION).as_ttl_seconds();
    let slice = rig.store.read_pages(&run, 1, true).await.unwrap();
    assert!(slice.pages.iter().all(|page| page.expires_at >= latest));
}
