use clap::Parser;
use outlast_core::api_key::ApiKey;
use outlast_core::{Scopes, Timestamp};

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: KeysArgs,
}

fn record(owner: &str, random: u8) -> KeyRecord {
    let key = ApiKey::from_random([random; 32]);
    KeyRecord {
        hash: key.hash(),
        owner: Owner::new(owner),
        scopes: [Scope::Run, Scope::Read].into_iter().collect(),
        label: None,
        begins: key.begins().into(),
        made_at: Timestamp::from_millis(1_780_000_000_000),
        expires_at: None,
    }
}

#[test]
fn a_list_shows_no_key_and_no_hash() {
    let now = Timestamp::from_millis(1_790_000_000_000);
    let all = [
        record("imports", 1),
        KeyRecord {
            label: Some("the nightly job".into()),
            scopes: Scopes::ALL,
            expires_at: Some(Timestamp::from_millis(1_800_000_000_000)),
            ..record("ops", 2)
        },
        KeyRecord {
            expires_at: Some(now),
            ..record("ops", 3)
        },
    ];
    let listed = render::table(&all, now);
    for (record, random) in all.iter().zip(1..) {
        assert!(!listed.contains(&record.hash[..8]));
        assert!(!listed.contains(&ApiKey::from_random([random; 32]).expose()[..12]));
    }
    insta::assert_snapshot!(listed);
}

#[test]
fn a_key_is_named_by_its_first_characters() {
    let all = [record("a", 1), record("b", 2), record("c", 2)];
    assert_eq!(named(&all, &all[0].begins).unwrap().owner, all[0].owner);
    assert_eq!(
        named(&all, ApiKey::from_random([1; 32]).expose()).unwrap().owner,
        all[0].owner
    );
    for text in [
        "",
        "ol_",
        &all[0].begins[..10],
        "ol_unknown1",
        &all[0].hash,
        &all[1].begins,
    ] {
        let problem = named(&all, text).unwrap_err();
        assert_eq!(problem.exit, Exit::Usage, "{text}");
        assert!(text.is_empty() || text == "ol_" || !problem.text.contains(text));
    }
}

#[test]
fn a_time_has_a_unit() {
    let seconds = |text| time(text).ok().map(|time| time.as_secs());
    assert_eq!(seconds("90d"), Some(7_776_000));
    assert_eq!(seconds("12h"), Some(43_200));
    assert_eq!(seconds("30m"), Some(1800));
    for wrong in [
        "",
        "d",
        "0d",
        "-1d",
        "90",
        "1.5h",
        "1w",
        "5é",
        "4294967295d",
        "99999999999d",
    ] {
        assert_eq!(seconds(wrong), None, "{wrong}");
    }
}

#[test]
fn what_is_to_be_made_is_checked_before_anybody_is_asked() {
    let parsed = |line: &[&str]| Line::try_parse_from([&["keys", "add"], line].concat());
    assert!(parsed(&["--owner", "imports"]).is_ok());
    assert!(
        parsed(&[
            "--owner",
            "team/1",
            "--scopes",
            "read",
            "--label",
            "für Ana",
            "--expires-in",
            "1d"
        ])
        .is_ok()
    );
    let long = "x".repeat(257);
    for wrong in [
        &[][..],
        &["--owner", ""],
        &["--owner", &long],
        &["--owner", "a\u{1b}[2J"],
        &["--owner", "a", "--scopes", "run,write"],
        &["--owner", "a", "--scopes", ""],
        &["--owner", "a", "--label", "two\nlines"],
        &["--owner", "a", "--label", &long],
        &["--owner", "a", "--expires-in", "soon"],
    ] {
        assert!(parsed(wrong).is_err(), "{wrong:?}");
    }
}
