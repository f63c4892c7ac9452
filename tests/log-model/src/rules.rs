//! Which rules the writers keep. Each switch takes one check or one act away, and nothing else.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Rule 1: whoever reads the tail compares it with what they are; an end or a newer epoch fences them.
    pub tail_is_fence: bool,
    /// Rule 2: a change of the row and the page that tells of it are one transaction.
    pub control_by_transaction: bool,
    /// Rule 2: a page is put on the condition that its place is free.
    pub conditional_puts: bool,
    /// Rule 3: a `run.claimed` that collides is sent again only after folding what it collided with.
    pub claim_folds_then_claims: bool,
    /// Rule 3: a holder does nothing before its `run.claimed` is in the log.
    pub claimed_comes_first: bool,
    /// Rule 4: no page is sent while the outcome of the one before it is open.
    pub one_in_flight: bool,
    /// Rule 4: a repeated put has the write id of the first, so that finding it in place is success.
    pub same_write_id: bool,
    /// Rule 5: a holder that collides folds what is there and builds its page anew.
    pub collision_reads_on: bool,
    /// Rule 5: a holder that reads `run.lost` of its own epoch stops.
    pub lost_fences: bool,
}

impl Rules {
    pub const ALL: Rules = Rules {
        tail_is_fence: true,
        control_by_transaction: true,
        conditional_puts: true,
        claim_folds_then_claims: true,
        claimed_comes_first: true,
        one_in_flight: true,
        same_write_id: true,
        collision_reads_on: true,
        lost_fences: true,
    };
}
