//! The paths of a deployment, behind its base path.

/// What every public route begins with.
pub const API: &str = "/api/v1";
/// Where a dispatch is delivered. Internal.
pub const PROCESS_RUN: &str = "/_process-run";
/// What the schedule calls. Internal.
pub const SWEEP: &str = "/_sweep";
