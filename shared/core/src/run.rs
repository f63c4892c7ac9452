//! A run's row: everything that is decided about a run without reading its log. Under 1 KB: no lists, no input.

use serde::{Deserialize, Serialize};

use crate::ids::{AgentName, ClaimToken, Owner, RunId, StepKey, ThreadKey, TurnKey, WriteId};
use crate::outcome::Reason;
use crate::time::Timestamp;

/// Where a run stands. The last four are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nobody holds it and it can be claimed.
    Queued,
    /// Somebody has claimed it; whether the lease has run out is another question.
    Running,
    /// For a point in time or an answer.
    Waiting,
    /// Its holder gave no more sign of life. It can be claimed.
    Lost,
    Completed,
    Incomplete,
    Failed,
    Cancelled,
}

impl Status {
    pub const fn is_terminal(self) -> bool {
        match self {
            Status::Completed | Status::Incomplete | Status::Failed | Status::Cancelled => true,
            Status::Queued | Status::Running | Status::Waiting | Status::Lost => false,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running => "running",
            Status::Waiting => "waiting",
            Status::Lost => "lost",
            Status::Completed => "completed",
            Status::Incomplete => "incomplete",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }
}

/// Where a run's work happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Executor {
    /// In the foreground request itself.
    Inline,
    /// In an invocation that was dispatched.
    Background,
    /// In a worker that speaks HTTP.
    External,
}

impl Executor {
    pub const fn as_str(self) -> &'static str {
        match self {
            Executor::Inline => "inline",
            Executor::Background => "background",
            Executor::External => "external",
        }
    }
}

/// How far the dispatch that should lead to the next claim has come, and where it died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DispatchStage {
    /// None is under way: the run is claimed, inline, external or over.
    #[default]
    None,
    /// Handed to the dispatcher. Not a start: only a claim is.
    Sent,
    /// The dispatcher said no.
    Refused,
    /// It arrived and its token was not good (expired, another key).
    Token,
    /// It arrived and failed before its claim.
    SetUp,
}

/// How much of a failed dispatch's error a row keeps, in bytes.
pub const MAX_DISPATCH_ERROR_BYTES: usize = 200;

/// The dispatch that should lead to the next claim. A claim starts it anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatch {
    pub stage: DispatchStage,
    /// Dispatches since the last claim.
    pub attempts: u64,
    /// The first of them.
    pub first_at: Option<Timestamp>,
    /// What the last failure said; at most [`MAX_DISPATCH_ERROR_BYTES`].
    pub error: Option<String>,
}

/// What counts towards a run's bounds. They live here, so that no chunk starts them again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Claims, without those of chunks that ended by waiting: going on after a wait is no new chunk. Bounded by
    /// [`MAX_CHUNKS`](crate::limits::MAX_CHUNKS). How many claims there were in all is the run's epoch.
    pub chunks: u64,
    /// Leases that ran out, each counted once. Bounded by [`CRASHES_IN_ALL`](crate::limits::CRASHES_IN_ALL).
    pub crashes: u64,
    /// Crashes since a step was last committed. Bounded by [`CRASHES_IN_A_ROW`](crate::limits::CRASHES_IN_A_ROW).
    pub crashes_in_a_row: u64,
    /// Steps that were committed at the last crash.
    pub committed_at_crash: u64,
    /// Chunks in a row that ended without progress. Bounded by [`STALLED_CHUNKS`](crate::limits::STALLED_CHUNKS).
    pub stalled: u64,
}

/// M of N, as the log's last page has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// N: the declared steps and those that joined by starting.
    pub planned: u64,
    /// M.
    pub committed: u64,
    /// For good: no attempt is left.
    pub failed: u64,
    /// Started, interrupted, and not to be run again.
    pub unknown: u64,
    /// Left out of N again: what asked for them was decided without them.
    #[serde(default)]
    pub released: u64,
}

impl Totals {
    /// Progress never goes back: of each figure the larger. N alone falls, by what was released of all that ever was planned.
    pub fn max(self, other: Totals) -> Totals {
        let released = self.released.max(other.released);
        let ever = |totals: Totals| totals.planned.saturating_add(totals.released);
        Totals {
            planned: ever(self).max(ever(other)) - released,
            committed: self.committed.max(other.committed),
            failed: self.failed.max(other.failed),
            unknown: self.unknown.max(other.unknown),
            released,
        }
    }
}

/// Requests to the tables and the capacity they used, in tenths of a unit (an eventually consistent read costs half a one).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    pub write_requests: u64,
    pub read_requests: u64,
    pub write_deci_units: u64,
    pub read_deci_units: u64,
}

impl std::ops::Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            write_requests: self.write_requests + other.write_requests,
            read_requests: self.read_requests + other.read_requests,
            write_deci_units: self.write_deci_units + other.write_deci_units,
            read_deci_units: self.read_deci_units + other.read_deci_units,
        }
    }
}

impl std::ops::Sub for Cost {
    type Output = Cost;

    fn sub(self, other: Cost) -> Cost {
        Cost {
            write_requests: self.write_requests.saturating_sub(other.write_requests),
            read_requests: self.read_requests.saturating_sub(other.read_requests),
            write_deci_units: self.write_deci_units.saturating_sub(other.write_deci_units),
            read_deci_units: self.read_deci_units.saturating_sub(other.read_deci_units),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub owner: Owner,
    pub agent: AgentName,
    pub thread: ThreadKey,
    pub turn: Option<TurnKey>,
    pub executor: Executor,
    /// The ended run whose remainder this one does.
    #[serde(default)]
    pub retry_of: Option<RunId>,
    /// The first run of that chain: bodies name it in their idempotency keys. `None`: this run itself.
    #[serde(default)]
    pub first_run: Option<RunId>,

    pub status: Status,
    /// No claim, no dispatch and no end of a wait until it is resumed. Its end time stands.
    pub paused: bool,
    /// A stop was asked for; whatever ends the run now ends it cancelled.
    pub stopping: bool,
    /// Another run of its thread comes first.
    pub blocked: bool,
    /// `stop.requested` is on the row and not yet in the log: the holder owes it.
    pub stop_unlogged: bool,
    /// The first stop; later ones don't move it.
    pub stop_requested_at: Option<Timestamp>,
    /// How many answers were stored: a holder that knows of fewer reads its log on.
    #[serde(default)]
    pub answers: u64,
    /// An answer that is stored, and not yet in the log: the holder owes it.
    #[serde(default)]
    pub answer_unlogged: Option<StepKey>,

    /// Counts the claims. Each write of a holder names the one that it was claimed with.
    pub epoch: u64,
    /// The token of the last claim. It stays after the end, so that a repeated finish is recognised.
    pub claim_token: Option<ClaimToken>,
    /// Who holds the lease: a host's name for itself, for people.
    pub holder: Option<String>,
    /// `None` unless it is running.
    pub lease_expires_at: Option<Timestamp>,
    /// The last claim or beat. It stays, to date a loss.
    pub last_sign_of_life: Option<Timestamp>,

    pub dispatch: Dispatch,
    pub counters: Counters,
    pub totals: Totals,
    pub cost: Cost,

    pub created_at: Timestamp,
    /// When its wall-clock limit ends it.
    pub ends_at: Timestamp,
    /// When the sweep must next look at it. `None` only after the end.
    pub due_at: Option<Timestamp>,
    /// If a lapse ended it: the last sign of life.
    pub ended_at: Option<Timestamp>,
    /// Why it did not complete; `None` while it lives and when it completed.
    pub reason: Option<Reason>,
    /// TTL seconds; set by the end.
    pub expires_at: Option<i64>,

    /// Counts the writes of this row; a write names the version it read.
    pub version: u64,
    /// Of the last write.
    pub write_id: WriteId,
}

impl Run {
    /// Past its retention: 404, whatever is still stored.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at
            .is_some_and(|expires_at| expires_at.saturating_mul(1000) <= now.as_millis())
    }

    /// The first run of its chain of retries.
    pub fn first_of_chain(&self) -> &RunId {
        self.first_run.as_ref().unwrap_or(&self.id)
    }

    /// The holder's lease has run out. Liveness only: nothing's safety hangs on this comparison.
    pub fn is_lapsed(&self, now: Timestamp) -> bool {
        self.status == Status::Running && self.lease_expires_at.is_none_or(|expires_at| expires_at <= now)
    }
}

/// Whose remainder a new run does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    pub of: RunId,
    /// The first run of the chain.
    pub first: RunId,
}

/// What a new run is made of.
#[derive(Clone, Debug)]
pub struct NewRun {
    pub id: RunId,
    pub owner: Owner,
    pub agent: AgentName,
    pub thread: ThreadKey,
    pub turn: Option<TurnKey>,
    pub executor: Executor,
    pub retry: Option<Retry>,
    pub ends_at: Timestamp,
    /// When the sweep looks if nobody has claimed it.
    pub due_at: Timestamp,
    pub write_id: WriteId,
}

impl NewRun {
    /// The row of a run that was accepted at `now`; a background run's first dispatch is counted as sent.
    pub fn accepted(self, now: Timestamp) -> Run {
        let dispatch = match self.executor {
            Executor::Background => Dispatch {
                stage: DispatchStage::Sent,
                attempts: 1,
                first_at: Some(now),
                error: None,
            },
            Executor::Inline | Executor::External => Dispatch::default(),
        };
        Run {
            id: self.id,
            owner: self.owner,
            agent: self.agent,
            thread: self.thread,
            turn: self.turn,
            executor: self.executor,
            retry_of: self.retry.as_ref().map(|retry| retry.of.clone()),
            first_run: self.retry.map(|retry| retry.first),
            status: Status::Queued,
            paused: false,
            stopping: false,
            blocked: false,
            stop_unlogged: false,
            stop_requested_at: None,
            answers: 0,
            answer_unlogged: None,
            epoch: 0,
            claim_token: None,
            holder: None,
            lease_expires_at: None,
            last_sign_of_life: None,
            dispatch,
            counters: Counters::default(),
            totals: Totals::default(),
            cost: Cost::default(),
            created_at: now,
            ends_at: self.ends_at,
            due_at: Some(self.due_at),
            ended_at: None,
            reason: None,
            expires_at: None,
            version: 1,
            write_id: self.write_id,
        }
    }
}
