//! How keys look.

use comfy_table::{Table, presets};
use outlast_core::Timestamp;
use outlast_store::KeyRecord;

use crate::table::trimmed;

/// A line a key, the oldest first. Of the key itself the first characters only; of its hash nothing.
pub(super) fn table(keys: &[KeyRecord], now: Timestamp) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["KEY", "OWNER", "SCOPES", "CREATED", "EXPIRES", "LABEL"]);
    for key in keys {
        table.add_row([
            key.begins.clone(),
            key.owner.to_string(),
            key.scopes.to_string(),
            date(key.made_at),
            expiry(key, now),
            key.label.clone().unwrap_or_default(),
        ]);
    }
    trimmed(&mut table)
}

fn expiry(key: &KeyRecord, now: Timestamp) -> String {
    match key.expires_at {
        None => "never".into(),
        Some(at) if key.is_expired(now) => format!("expired {}", date(at)),
        Some(at) => date(at),
    }
}

/// In a sentence.
pub(super) fn until(key: &KeyRecord, now: Timestamp) -> String {
    match key.expires_at {
        None => "good until it is removed".into(),
        Some(_) => format!("good until {}", expiry(key, now)),
    }
}

/// To the minute, in UTC.
fn date(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.as_millis()) {
        Ok(at) => at.strftime("%Y-%m-%dT%H:%MZ").to_string(),
        Err(_) => at.as_millis().to_string(),
    }
}
