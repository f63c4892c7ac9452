//! What needs the fault script of the test double. What every table must do is in the conformance suite.

use std::sync::Mutex;
use std::time::Duration;

use futures::executor::block_on;
use outlast_core::event::{Event, EventBody};
use outlast_core::run::NewRun;
use outlast_core::{
    AgentName, Executor, Owner, Payload, RunId, ThreadKey, Timestamp, Totals, TurnKey, WriteId, Writer,
};

use super::*;
use crate::memory::MemoryTable;

#[derive(Default)]
pub(super) struct NoWait {
    waits: Mutex<Vec<Duration>>,
}

#[async_trait]
impl Pause for NoWait {
    async fn sleep(&self, duration: Duration) {
        self.waits.lock().unwrap().push(duration);
    }

    fn draw(&self) -> f64 {
        0.5
    }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_780_000_000_000 + millis)
}

fn acceptance(number: u8) -> Acceptance {
    let id = RunId::from_parts(1_780_000_000_000, [number; 10]);
    let run = NewRun {
        id: id.clone(),
        owner: Owner::new("local"),
        agent: AgentName::new("plan"),
        thread: ThreadKey::new("t"),
        turn: Some(TurnKey::new("turn")),
        executor: Executor::Background,
        ends_at: at(1_000_000),
        due_at: at(60_000),
        write_id: WriteId::new(format!("accept-{number}")),
    };
    let input = Payload::parse(r#"{"steps":[]}"#).unwrap();
    let body = EventBody::RunAccepted {
        agent: AgentName::new("plan"),
        input,
    };
    let page = Page {
        run_id: id.clone(),
        epoch: 0,
        writer: Writer::Control,
        write_id: WriteId::new(format!("accept-{number}")),
        events: vec![Event {
            seq: 1,
            at: at(0),
            body,
        }],
        totals: Totals::default(),
        expires_at: 1_800_000_000,
    };
    Acceptance {
        run: run.accepted(at(0)),
        page,
        turn: Some(TurnRecord {
            owner: Owner::new("local"),
            turn: TurnKey::new("turn"),
            run_id: id,
            fingerprint: "f".into(),
            expires_at: at(100_000),
        }),
    }
}

fn store() -> (MemoryTable, Store) {
    let table = MemoryTable::new();
    let store = Store::new(Arc::new(table.clone()), Arc::new(NoWait::default()));
    (table, store)
}

#[test]
fn the_happy_path() {
    block_on(async {
        let (_, store) = store();
        let accepted = acceptance(1);
        let id = &accepted.run.id;
        assert_eq!(store.accept(&accepted, at(0)).await, Ok(Accepted::Landed));
        let run = store.load_run(id).await.unwrap().unwrap();
        assert_eq!(run, accepted.run);
        assert_eq!(store.tail_page(id).await, Ok(Some(accepted.page.clone())));
        let slice = store.read_pages(id, 1, false).await.unwrap();
        assert_eq!((slice.pages, slice.next), (vec![accepted.page.clone()], None));
        let wire = store.read_wire_events(id, 1, true).await.unwrap();
        assert_eq!(
            wire.events[0].json,
            outlast_core::event::wire_json(&accepted.page.events[0])
        );
        let mut after = run.clone();
        after.epoch = 1;
        after.write_id = WriteId::new("w2");
        let RowWrite::Landed(run) = store.write_run(&run, &after).await.unwrap() else {
            panic!("it lands");
        };
        assert_eq!((run.version, store.load_run(id).await.unwrap()), (2, Some(*run)));
        assert_eq!(
            store
                .list_runs(&Owner::new("local"), 10, None)
                .await
                .unwrap()
                .runs
                .len(),
            1
        );
    });
}
