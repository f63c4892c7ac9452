//! Whatever bytes come as body, header, query, cursor, plan or path, on whichever route: an answer that is no accident, and
//! nothing stored by a request that was refused.
//!
//! The inputs are drawn from a seed: 100,000 on every run of the tests; OUTLAST_TEST_ANY_BYTES asks for another number,
//! and OUTLAST_TEST_SEED for another beginning.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, Method, Request, Uri};
use outlast_core::Scope;
use outlast_core::api_key::ApiKey;
use outlast_engine::dispatch::TOKEN_HEADER;
use outlast_http::routes::listed;
use outlast_http::{InternalAccess, Invocation, Needs};
use serde_json::json;
use tower::ServiceExt as _;

use crate::support::agents::{all, notes};
use crate::support::answer::Answer;
use crate::support::callers::{ask_for_keys, bearer};
use crate::support::{Deliver, RUNS, Rig};

const USUALLY: u64 = 100_000;
/// Sent to one deployment, before another takes its place: so that what they store doesn't pile up.
const AT_A_TIME: u64 = 100;

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.roll(of.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.roll(most + 1);
        (0..length).map(|_| self.roll(256) as u8).collect()
    }

    /// Something that is nearly right: cut, doubled, with a byte changed, or two of them mixed.
    fn spoiled(&mut self, sound: &[&str]) -> Vec<u8> {
        let mut bytes = self.one(sound).as_bytes().to_vec();
        for _ in 0..self.roll(4) {
            let at = self.roll(bytes.len() + 1);
            match self.roll(5) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.roll(256) as u8),
                2 => bytes.splice(at..at, self.one(sound).bytes()).for_each(drop),
                3 => bytes.splice(at..at, self.bytes(8)).for_each(drop),
                _ if at < bytes.len() => bytes[at] = ODD[self.roll(ODD.len())],
                _ => {}
            }
        }
        bytes
    }
}

/// Bytes that mean something somewhere.
const ODD: &[u8] = b"\0\"\\{}[],:0-9e.%&=# \n\xff\x80";
const PLANS: [&str; 8] = [
    r#"{"input":{"steps":[{"key":"a","tool":"note","input":1}]},"agent":"plan","threadId":"t2","turnId":"u"}"#,
    r#"{"input":{"steps":[]},"endsAt":"2026-06-01T00:00:00Z"}"#,
    r#"{"input":{"steps":[{"key":"a","tool":"note","input":{"b":[1,2.5e300,null,"\ud83d\ude00"]}}]}}"#,
    "{\"key\":\"a\",\"tool\":\"note\",\"input\":1}\n{\"key\":\"b\",\"tool\":\"say\"}\n",
    r#"{"force":true}"#,
    r#"{"input":99999999999999999999999999999999,"agent":"other"}"#,
    "\u{feff}{}",
    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];
const QUERIES: [&str; 9] = [
    "after=1",
    "wait=0s&after=0",
    "limit=100&after=1780000000000.0197a8c0-0000-7000-8000-000000000000",
    "threadId=t",
    "force=true",
    "token=1780000000000.AAAA.bw",
    "concurrency=3&rate=1.5&agent=plan&threadId=t3&turnId=x&endsAt=2026-06-01T00%3A00%3A00Z",
    "after=18446744073709551615",
    "limit=-1&limit=1",
];
const HEADERS: [(&str, &str); 12] = [
    ("accept", "text/event-stream"),
    ("accept", "text/event-stream;q=0.5, */*;q=nan"),
    ("content-type", "application/json"),
    ("content-type", "application/x-ndjson; charset=utf-8"),
    ("content-length", "18446744073709551616"),
    ("idempotency-key", "\"key\""),
    ("last-event-id", "1"),
    ("last-event-id", "999"),
    ("authorization", "Bearer ol_"),
    (TOKEN_HEADER, "1780000000000.AAAA"),
    ("expect", "100-continue"),
    ("x-forwarded-for", ""),
];

/// A request of any kind, most of them nearly right.
fn request(dice: &mut Dice, routes: &[(Method, &str, Needs)], run: &str, key: &ApiKey) -> Option<Request<Body>> {
    let (method, path, _) = &routes[dice.roll(routes.len())];
    let mut target = match dice.roll(8) {
        0 => dice.spoiled(&[
            path,
            RUNS,
            "/_process-run",
            "//",
            "/api/v1/runs/%00/events",
            "/api/v1/runs/../x",
        ]),
        1 => path.replace("{id}", &encoded(&dice.bytes(20))).into_bytes(),
        _ => path.replace("{id}", run).into_bytes(),
    };
    if dice.roll(2) == 0 {
        target.push(b'?');
        target.extend(match dice.roll(3) {
            0 => encoded(&dice.bytes(24)).into_bytes(),
            _ => dice.spoiled(&QUERIES),
        });
    }
    let method = match dice.roll(10) {
        0 => Method::from_bytes(&dice.bytes(5)).ok()?,
        1 => Method::HEAD,
        _ => method.clone(),
    };
    let body = match dice.roll(4) {
        0 => dice.bytes(200),
        1 => Vec::new(),
        _ => dice.spoiled(&PLANS),
    };
    let mut request = Request::builder().method(method).uri(Uri::try_from(target).ok()?);
    for _ in 0..dice.roll(4) {
        let (name, sound) = HEADERS[dice.roll(HEADERS.len())];
        let value = match dice.roll(4) {
            0 => HeaderValue::from_bytes(&dice.bytes(30)),
            1 => HeaderValue::from_bytes(&dice.spoiled(&[sound])),
            _ => HeaderValue::from_bytes(sound.as_bytes()),
        };
        request = request.header(name, value.ok()?);
    }
    if dice.roll(8) > 0 {
        request = request.header("authorization", bearer(key));
    }
    if dice.roll(3) > 0 {
        request = request.header("content-type", "application/json");
    }
    let mut request = request.body(Body::from(body)).ok()?;
    let internal = dice.roll(4) == 0;
    request.extensions_mut().insert(Invocation {
        deadline: None,
        internal,
    });
    Some(request)
}

fn encoded(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02X}")).collect()
}

fn asked_for(variable: &str, usually: u64) -> u64 {
    std::env::var(variable).map_or(usually, |text| text.parse().expect("a number"))
}

#[test]
fn no_bytes_on_any_route_make_a_panic_or_a_500_and_nothing_refused_is_stored() {
    let (wanted, seed) = (
        asked_for("OUTLAST_TEST_ANY_BYTES", USUALLY),
        asked_for("OUTLAST_TEST_SEED", 1),
    );
    let (taken, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let sender = || {
        loop {
            let from = taken.fetch_add(AT_A_TIME, Ordering::Relaxed);
            if from >= wanted {
                return;
            }
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().start_paused(true).build().unwrap();
            let sending = send(seed + from, AT_A_TIME.min(wanted - from));
            refused.fetch_add(runtime.block_on(sending), Ordering::Relaxed);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(sender);
        }
    });
    // Neither all of it nonsense nor all of it sound.
    let refused = refused.into_inner();
    assert!(
        refused > wanted / 4 && refused < wanted - wanted / 20,
        "{refused} of {wanted} were refused"
    );
}

/// So many requests to a fresh deployment; how many of them were refused.
async fn send(seed: u64, count: u64) -> u64 {
    let rig = Rig::with(all(), |api| {
        ask_for_keys(api);
        api.internal = InternalAccess::Signed;
        api.stream_for = Duration::from_secs(1);
    });
    rig.deliver(Deliver::Hold);
    let key = rig.key("o", &Scope::ALL).await;
    let started = rig
        .post_with(
            RUNS,
            &[("authorization", &bearer(&key))],
            &json!({"input": notes(1), "threadId": "t"}),
        )
        .await;
    let run = started.json()["runId"].as_str().unwrap().to_owned();
    let (mut dice, routes) = (Dice(seed), listed());
    let (mut sent, mut refused) = (0, 0);
    while sent < count {
        let place = dice.0;
        let Some(request) = request(&mut dice, &routes, &run, &key) else {
            continue;
        };
        sent += 1;
        // Made anew: most are never described.
        let described = || {
            let request = self::request(&mut Dice(place), &routes, &run, &key);
            format!("OUTLAST_TEST_SEED={seed} OUTLAST_TEST_ANY_BYTES={sent}: {request:?}")
        };
        let before = rig.table.count();
        let answer = Answer::of(rig.router.clone().oneshot(request).await.unwrap()).await;
        assert!(!answer.status.is_server_error(), "{}\n{answer:?}", described());
        assert!(answer.is_whole, "{}\n{answer:?}", described());
        if answer.status.is_client_error() {
            refused += 1;
            assert_eq!(rig.table.count(), before, "{}\n{answer:?}", described());
            assert_eq!(
                answer.header("content-type"),
                "application/problem+json",
                "{}",
                described()
            );
        }
    }
    refused
}
