//! A table, a store on it, and runs to write.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use outlast_core::event::{Event, EventBody};
use outlast_core::run::NewRun;
use outlast_core::{
    AgentName, Executor, Outcome, Owner, Page, Payload, Run, RunId, StepKey, ThreadKey, Timestamp, Totals, TurnKey,
    WriteId, Writer,
};
use outlast_store::dynamodb::{DynamoTable, create_tables};
use outlast_store::memory::MemoryTable;
use outlast_store::schema::TableNames;
use outlast_store::table::{Action, Condition, Item, Key, Table, Write, Written};
use outlast_store::{Acceptance, Accepted, Meter, PagePut, Store, TurnRecord};
use outlast_tests::wait::RealPause;

/// In the year 2096: DynamoDB Local removes within seconds what has expired by the machine's clock.
pub const NOW: i64 = 4_000_000_000_000;

#[derive(Clone)]
pub struct Bench {
    pub table: Arc<dyn Table>,
    pub store: Store,
    pub meter: Arc<Meter>,
}

impl Bench {
    pub fn memory() -> Self {
        Self::of(Arc::new(MemoryTable::new()))
    }

    /// With tables made.
    pub async fn on(client: Client) -> Self {
        let names = TableNames::default();
        create_tables(&client, &names, &RealPause)
            .await
            .expect("the tables are made");
        Self::of(Arc::new(DynamoTable::new(&client, names)))
    }

    fn of(table: Arc<dyn Table>) -> Self {
        let store = Store::new(table.clone(), Arc::new(RealPause));
        let meter = Arc::default();
        Self { table, store, meter }
    }

    pub async fn peek(&self, key: &Key) -> Option<Item> {
        self.table.get(key, true, &self.meter).await.expect("an answer")
    }

    pub async fn write(&self, key: &Key, action: Action, condition: Condition) -> Written {
        let write = Write {
            key: key.clone(),
            action,
            condition,
        };
        self.table.write(&write, &self.meter).await.expect("an answer")
    }

    /// Whatever stands there.
    pub async fn plant(&self, key: &Key, item: Item) {
        let written = self.write(key, Action::Put(item), Condition::Always).await;
        assert_eq!(written, Written::Done);
    }

    /// An accepted run on a thread of its own, and its row.
    pub async fn accepted(&self) -> Run {
        let acceptance = acceptance(&Owner::new("local"), None);
        assert_eq!(self.store.accept(&acceptance, at(0)).await, Ok(Accepted::Landed));
        acceptance.run
    }

    /// Appends a page of events after `run.accepted`.
    pub async fn append(&self, run: &RunId, first_seq: u64, bodies: Vec<EventBody>) -> Page {
        let page = page(run, first_seq, bodies);
        assert_eq!(self.store.put_page(&page).await, Ok(PagePut::Landed));
        page
    }
}

pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(NOW + millis)
}

pub fn fresh() -> String {
    uuid::Uuid::now_v7().to_string()
}

pub fn run_id() -> RunId {
    RunId::new(fresh())
}

pub fn write_id() -> WriteId {
    WriteId::new(fresh())
}

pub fn payload(json: &str) -> Payload {
    Payload::parse(json).expect("JSON")
}

/// JSON text of exactly this many bytes: a string of one character over and over.
pub fn payload_of(bytes: usize, character: char) -> Payload {
    let mut text = String::from('"');
    text.extend(std::iter::repeat_n(character, (bytes - 2) / character.len_utf8()));
    text.extend(std::iter::repeat_n('.', bytes - 1 - text.len()));
    text.push('"');
    assert_eq!(text.len(), bytes);
    payload(&text)
}

pub fn emit(data: Payload) -> EventBody {
    let key = StepKey::new("k");
    EventBody::Emit { key, data }
}

/// A background run of its own thread, unless the turn says otherwise.
pub fn acceptance(owner: &Owner, turn: Option<(&str, &str)>) -> Acceptance {
    let id = run_id();
    let run = NewRun {
        id: id.clone(),
        owner: owner.clone(),
        agent: AgentName::new("plan"),
        thread: ThreadKey::new(id.as_str()),
        turn: turn.map(|(turn, _)| TurnKey::new(turn)),
        executor: Executor::Background,
        retry: None,
        ends_at: at(7 * 24 * 3_600_000),
        due_at: at(60_000),
        write_id: write_id(),
    };
    let body = EventBody::RunAccepted {
        agent: AgentName::new("plan"),
        input: payload(r#"{"steps": [{"key": "a"}]}"#),
        retry_of: None,
    };
    Acceptance {
        run: run.accepted(at(0)),
        page: page(&id, 1, vec![body]),
        turn: turn.map(|(turn, fingerprint)| TurnRecord {
            owner: owner.clone(),
            turn: TurnKey::new(turn),
            run_id: id.clone(),
            fingerprint: fingerprint.into(),
            expires_at: at(24 * 3_600_000),
        }),
    }
}

pub fn page(run: &RunId, first_seq: u64, bodies: Vec<EventBody>) -> Page {
    let event = |(body, seq)| Event { seq, at: at(7), body };
    Page {
        run_id: run.clone(),
        epoch: 0,
        writer: Writer::Holder,
        write_id: write_id(),
        events: bodies.into_iter().zip(first_seq..).map(event).collect(),
        totals: Totals {
            planned: 3,
            committed: 1,
            ..Totals::default()
        },
        expires_at: NOW / 1000 + 40 * 24 * 3600,
    }
}

pub fn outcome(value: Option<Payload>) -> Outcome {
    Outcome {
        reason: None,
        totals: Totals::default(),
        failures_handled: 0,
        remaining: 0,
        remainder_digest: None,
        remainder: vec![],
        verification: None,
        error: None,
        value,
    }
}

/// The row as a claim leaves it.
pub fn claimed(run: &Run) -> Run {
    Run {
        epoch: run.epoch + 1,
        holder: Some("a host".into()),
        write_id: write_id(),
        ..run.clone()
    }
}

/// The row as an end leaves it.
pub fn ended(run: &Run) -> Run {
    Run {
        status: outlast_core::Status::Completed,
        due_at: None,
        ended_at: Some(at(1000)),
        expires_at: Some(NOW / 1000 + 30 * 24 * 3600),
        write_id: write_id(),
        ..run.clone()
    }
}

pub fn row_key(run: &RunId) -> Key {
    Key::Row {
        pk: format!("run#{run}"),
        sk: "meta".into(),
    }
}

pub fn page_key(run: &RunId, first_seq: u64) -> Key {
    Key::Page {
        run_id: run.to_string(),
        first_seq,
    }
}
