//! A wait: in the log before it begins, and in the log when it has ended.

use std::sync::Arc;
use std::time::Duration;

use outlast_core::StepKey;
use outlast_core::event::EventBody;

use crate::append::Logged;
use crate::chunk::Chunk;
use crate::step::{StepError, same_kind};

pub(crate) async fn wait(chunk: &Arc<Chunk>, key: StepKey, duration: Duration) -> Result<(), StepError> {
    if !chunk.ask(&key) {
        return Err(StepError::DuplicateKey { key });
    }
    let _open = chunk.open();
    same_kind(chunk, &key, "a wait").await;
    let logged = chunk.journal.with_fold(|fold| fold.waits.get(&key).cloned());
    let until = match logged {
        Some(wait) if wait.ended => return Ok(()),
        // However long it is asked for now: the one that was begun counts.
        Some(wait) => wait.until,
        None => {
            let until = chunk.engine.seams.now() + duration;
            let ends_at = chunk.ends_at;
            if until >= ends_at {
                return Err(StepError::WaitTooLong { key, until, ends_at });
            }
            let key = key.clone();
            logged_or_away(chunk, EventBody::WaitStarted { key, until }).await;
            until
        }
    };
    {
        let _delayed = chunk.delay_until(until);
        chunk.engine.seams.sleep_until(until).await;
    }
    chunk.journal.accept(EventBody::WaitEnded { key });
    Ok(())
}

/// Returns once the event is in the log; never, if this chunk begins nothing any more.
pub(crate) async fn logged_or_away(chunk: &Arc<Chunk>, body: EventBody) {
    if chunk.closing.is_cancelled() || chunk.journal.log(body).await != Ok(Logged::Landed) {
        chunk.turn_away().await;
    }
}
