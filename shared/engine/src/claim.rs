//! Claiming: the row first, then the whole log, then `run.claimed` at exactly the next seq after what was read. Nothing
//! starts before that page lands.

use std::sync::Arc;

use outlast_core::event::EventBody;
use outlast_core::page::Writer;
use outlast_core::time_budget::HostKind;
use outlast_core::transition::{Claim, Log};
use outlast_core::{Command, Fold, Page, Refusal, Run, RunId};
use outlast_store::store::tail_of;
use outlast_store::{PagePut, Store, StoreError};

use crate::agent::Agent;
use crate::append::REPEAT_AFTER;
use crate::control::{change_run, numbered, page_expiry, read_on};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::heartbeat::{self, Heartbeat};
use crate::lease::Lease;

/// A run whose lease is ours and whose log says so.
pub(crate) struct Claimed {
    pub run: Run,
    pub host: HostKind,
    pub fold: Fold,
    pub agent: Arc<dyn Agent>,
    pub lease: Arc<Lease>,
    /// From the claim on: a long log takes longer to read than a lease lasts.
    pub beats: Heartbeat,
}

/// Takes a run's lease for a chunk. A run that ends instead (a limit, a stop) is refused as ended.
pub(crate) async fn claim(
    engine: &Arc<Engine>,
    store: &Store,
    id: &RunId,
    expected_epoch: Option<u64>,
    host: HostKind,
) -> Result<Claimed, EngineError> {
    let run = store.load_run(id).await?.ok_or(EngineError::NotFound)?;
    let agent = engine.agents.get(&run.agent).cloned();
    let agent = agent.ok_or_else(|| EngineError::UnknownAgent(run.agent.to_string()))?;
    let lease_from = engine.seams.clock.monotonic();
    let now = engine.seams.now();
    let committed = if run.is_lapsed(now) {
        committed_in_log(store, id).await?
    } else {
        0
    };
    let command = Command::Claim(Claim {
        token: engine.seams.claim_token(),
        holder: engine.holder.clone(),
        lease: engine.timing.lease,
        expected_epoch,
        committed,
    });
    let change = change_run(engine, store, run, &command).await?;
    if change.log != Log::Claimed {
        return Err(Refusal::Ended.into());
    }
    let run = change.run;
    let beat_store = engine.beat_store.metered();
    let lease = Lease::new(
        run.clone(),
        lease_from,
        engine.timing.trusted_lease(),
        beat_store.clone(),
    );
    let lease = Arc::new(lease);
    let beats = heartbeat::start(engine, beat_store, store.clone(), lease.clone());
    let fold = log_claim(engine, store, &run, &lease, host).await?;
    lease.set_totals(fold.totals);
    Ok(Claimed {
        run,
        host,
        fold,
        agent,
        lease,
        beats,
    })
}

async fn committed_in_log(store: &Store, id: &RunId) -> Result<u64, EngineError> {
    Ok(store.tail_page(id).await?.map_or(0, |page| page.totals.committed))
}

/// Reads the log and puts `run.claimed` behind it, again behind whatever came in between. A page whose outcome is not known
/// is sent again as it was: made anew it would be a second claim of one epoch.
async fn log_claim(
    engine: &Engine,
    store: &Store,
    run: &Run,
    lease: &Lease,
    host: HostKind,
) -> Result<Fold, EngineError> {
    let mut fold = Fold::default();
    loop {
        while let Err(error) = read_on(store, &run.id, &mut fold).await {
            wait_to_repeat(engine, lease, error).await?;
        }
        if fold.fences(run.epoch) {
            return Err(Refusal::LeaseLost.into());
        }
        let page = claim_page(engine, run, &fold, host);
        let put = loop {
            match store.put_page(&page).await {
                Ok(put) => break put,
                Err(error) => wait_to_repeat(engine, lease, error.into()).await?,
            }
        };
        if put == PagePut::Landed {
            engine.hints.grew(&run.id, tail_of(&page).seq);
            fold.page(&page)?;
            return Ok(fold);
        }
    }
}

/// What the table did not answer is asked again, as long as the lease is ours for all we know. Any other error stays one.
async fn wait_to_repeat(engine: &Engine, lease: &Lease, error: EngineError) -> Result<(), EngineError> {
    let clock = &engine.seams.clock;
    match error {
        EngineError::Store(StoreError::Unavailable(_)) if lease.is_trusted(clock.monotonic()) => {
            clock.sleep(REPEAT_AFTER).await;
            Ok(())
        }
        error => Err(error),
    }
}

/// `run.claimed`, and what the interrupted bodies of earlier holders came to: those that can't be run again are unknown.
fn claim_page(engine: &Engine, run: &Run, fold: &Fold, host: HostKind) -> Page {
    let holder = engine.holder.clone();
    let mut bodies = vec![EventBody::RunClaimed {
        epoch: run.epoch,
        holder,
        host,
    }];
    let mut totals = fold.totals;
    for key in fold.interrupted(run.epoch) {
        if let Some(step) = fold.steps.get(&key).filter(|step| !step.idempotent) {
            bodies.push(EventBody::StepUnknown {
                key,
                attempt: step.attempt,
            });
            totals.unknown += 1;
        }
    }
    Page {
        run_id: run.id.clone(),
        epoch: run.epoch,
        writer: Writer::Holder,
        write_id: engine.seams.write_id(),
        events: numbered(fold.tail.seq, bodies, engine.seams.now()),
        totals,
        expires_at: page_expiry(run),
    }
}
