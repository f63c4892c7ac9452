use super::*;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A complete configuration with these changes; an empty value takes a variable away.
fn read(changes: &[(&str, &str)]) -> Result<Settings, WrongSettings> {
    let base = [
        (vars::BACKGROUND_FUNCTION.name, "background"),
        (vars::DISPATCH_SECRET.name, SECRET),
        (vars::IDENTITY.name, "none"),
        ("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:8000"),
    ];
    let all = base.iter().chain(changes);
    Settings::read(
        &all.map(|(name, value)| (String::from(*name), String::from(*value)))
            .collect(),
    )
}

/// Where work goes, and to which kind of host.
fn way(settings: &Settings) -> (String, Option<HostKind>) {
    let way = match &settings.dispatch {
        Dispatch::None => "none".into(),
        Dispatch::Lambda { background, .. } => format!("lambda {}", background.as_deref().unwrap_or("itself")),
        Dispatch::Http { url, .. } => format!("http {url}"),
    };
    (way, settings.dispatch.to(HostKind::Foreground))
}

/// The one problem that these changes make.
fn problem(changes: &[(&str, &str)]) -> String {
    let wrong = read(changes).expect_err("a problem");
    assert_eq!(wrong.0.len(), 1, "{wrong}");
    wrong.0.into_iter().next().expect("one")
}

#[test]
fn the_least_that_must_be_set() {
    let settings = read(&[]).unwrap();
    assert_eq!(settings.tables, TableNames::default());
    assert_eq!(settings.timing, Timing::LAMBDA);
    assert_eq!(way(&settings), ("lambda background".into(), Some(HostKind::Background)));
    assert_eq!(settings.soft_cap(HostKind::Foreground), None);
    assert_eq!(settings.base_path, "");
}

#[test]
fn the_defaults_are_those_that_the_documentation_states() {
    let documented = vars::ALL
        .iter()
        .filter_map(|variable| Some((variable.name, variable.default?)));
    let stated = read(&documented.collect::<Vec<_>>()).unwrap();
    let unset = read(&[]).unwrap();
    assert_eq!((&stated.tables, stated.timing), (&unset.tables, unset.timing));
    for host in [HostKind::Foreground, HostKind::Background] {
        assert_eq!(stated.soft_cap(host), Some(host.soft_cap_ceiling()));
    }
}

#[test]
fn a_foreground_cap_of_240_seconds_leaves_it_at_40() {
    let settings = read(&[(vars::FOREGROUND_SOFT_CAP.name, "240")]).unwrap();
    let host = crate::Host::foreground();
    let capped = |settings: &Settings| host.with_soft_cap(settings.soft_cap(host.kind())).soft_cap();
    assert_eq!(capped(&settings), Duration::from_secs(40));
    let settings = read(&[(vars::FOREGROUND_SOFT_CAP.name, "2.5")]).unwrap();
    assert_eq!(capped(&settings), Duration::from_millis(2500));
}

#[test]
fn everything_wrong_is_said_at_once() {
    let wrong = Settings::read(&BTreeMap::new()).unwrap_err().to_string();
    assert!(
        wrong.contains(&format!("{} is not set", vars::IDENTITY.name)),
        "{wrong}"
    );
    let variables = [(vars::DISPATCH.name, "lambda"), (vars::LEASE.name, "soon")];
    let named = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let wrong = Settings::read(&named.into()).unwrap_err().to_string();
    for variable in [vars::DISPATCH_SECRET, vars::IDENTITY, vars::LEASE] {
        assert!(wrong.contains(variable.name), "{wrong}");
    }
}

#[test]
fn a_secret_is_never_printed() {
    for variable in [vars::DISPATCH_SECRET, vars::DISPATCH_SECRET_PREVIOUS] {
        let short = "hunter2hunter2hunter2hunter2hun";
        let told = problem(&[(variable.name, short)]);
        assert!(told.contains("31 bytes") && told.contains(variable.name), "{told}");
        assert!(!told.contains("hunter2"), "{told}");
    }
    let settings = format!("{:?}", read(&[]).unwrap());
    assert!(!settings.contains(SECRET), "{settings}");
}

#[test]
fn a_number_that_is_none_is_named_with_its_unit() {
    for value in ["40s", "-1", "0", "NaN", "inf", "1e300"] {
        let told = problem(&[(vars::BACKGROUND_SOFT_CAP.name, value)]);
        assert!(
            told.contains(&format!("{} is `{value}`", vars::BACKGROUND_SOFT_CAP.name)),
            "{told}"
        );
        assert!(told.contains("seconds"), "{told}");
    }
    problem(&[(vars::LEASE.name, "61")]);
}

#[test]
fn an_ordering_names_both_values() {
    let told = problem(&[(vars::LEASE.name, "3"), (vars::BEAT.name, "1")]);
    for variable in [vars::BEAT, vars::LEASE] {
        assert!(told.contains(&format!("{} (3s)", variable.name)), "{told}");
    }
    assert!(read(&[(vars::LEASE.name, "3"), (vars::BEAT.name, "0.5")]).is_ok());
}

#[test]
fn nobody_is_let_in_without_loopback() {
    let endpoint = |url| [("AWS_ENDPOINT_URL_DYNAMODB", url)];
    for url in [
        "http://127.0.0.1:8000",
        "http://127.9.9.9",
        "http://[::1]:8000",
        "http://localhost:8000/",
    ] {
        assert!(read(&endpoint(url)).is_ok(), "{url}");
    }
    for url in [
        "",
        "https://dynamodb.eu-west-1.amazonaws.com",
        "http://10.0.0.1:8000",
        "http://127.0.0.1.example.com",
        "http://127.0.0.1@example.com",
        "http://0.0.0.0:8000",
        "no url",
    ] {
        assert!(problem(&endpoint(url)).contains(vars::IDENTITY.name), "{url}");
    }
    // The general endpoint counts where there is no special one; a switch of the SDK makes both count for nothing.
    let general = [
        ("AWS_ENDPOINT_URL_DYNAMODB", ""),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
    ];
    assert!(read(&general).is_ok());
    problem(&[("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")]);
}

#[test]
fn keys_are_asked_for_wherever_the_tables_are() {
    assert_eq!(read(&[]).unwrap().identity, Identity::None);
    for endpoint in ["", "http://127.0.0.1:8000", "https://dynamodb.eu-west-1.amazonaws.com"] {
        let changes = [
            (vars::IDENTITY.name, "api_key"),
            ("AWS_ENDPOINT_URL_DYNAMODB", endpoint),
        ];
        assert_eq!(read(&changes).unwrap().identity, Identity::ApiKey, "{endpoint}");
    }
    // What later versions may know, and what is misspelled.
    for other in ["jwt", "iam", "api-key", "None", ""] {
        let told = problem(&[(vars::IDENTITY.name, other)]);
        assert!(
            told.contains(other) && told.contains("`api_key`") && told.contains("outlast keys add"),
            "{told}"
        );
    }
}

#[test]
fn read_tokens_are_signed_with_the_secret_that_is_set() {
    let (dispatch, function, secret) = (
        vars::DISPATCH.name,
        vars::BACKGROUND_FUNCTION.name,
        vars::DISPATCH_SECRET.name,
    );
    let inline = |set: &str| {
        read(&[(dispatch, "none"), (function, ""), (secret, set)])
            .unwrap()
            .read_tokens
    };
    assert!(read(&[]).unwrap().read_tokens.is_some());
    assert!(inline(SECRET).is_some());
    assert!(inline("").is_none());
    let told = problem(&[(dispatch, "none"), (function, ""), (secret, "hunter2")]);
    assert!(told.contains("7 bytes") && !told.contains("hunter2"), "{told}");
}

#[test]
fn paths_filters_and_tables_are_checked() {
    assert_eq!(read(&[(vars::BASE_PATH.name, "/a/b-c")]).unwrap().base_path, "/a/b-c");
    for path in ["a", "/", "/a/", "//a", "/a b", "/{a}", "/a?b"] {
        assert!(problem(&[(vars::BASE_PATH.name, path)]).contains(path));
    }
    assert!(problem(&[(vars::LOG.name, "info,a=loud")]).contains(vars::LOG.name));
    let told = problem(&[(vars::RUNS_TABLE.name, "x"), (vars::EVENTS_TABLE.name, "x")]);
    assert!(
        told.contains(vars::RUNS_TABLE.name) && told.contains(vars::EVENTS_TABLE.name),
        "{told}"
    );
}

#[test]
fn how_work_leaves_the_request_follows_from_what_there_is() {
    let (dispatch, function, secret) = (
        vars::DISPATCH.name,
        vars::BACKGROUND_FUNCTION.name,
        vars::DISPATCH_SECRET.name,
    );
    let (background, foreground) = (vars::BACKGROUND_URL.name, vars::FOREGROUND_URL.name);
    let (in_background, in_foreground) = (Some(HostKind::Background), Some(HostKind::Foreground));
    let check = |changes: &[(&str, &str)], how: &str, to: Option<HostKind>| {
        assert_eq!(way(&read(changes).unwrap()), (how.to_owned(), to), "{changes:?}");
    };
    check(&[], "lambda background", in_background);
    check(&[(function, "b:live")], "lambda b:live", in_background);
    // No background function, nothing to dispatch to, and no secret needed.
    check(&[(function, ""), (secret, "")], "none", None);
    check(&[(dispatch, "none"), (function, ""), (secret, "")], "none", None);
    check(&[(dispatch, "lambda"), (function, "")], "lambda itself", in_foreground);
    let url = "http://127.0.0.1:9000/lambda-url/background";
    check(
        &[(dispatch, "http"), (background, url)],
        &format!("http {url}"),
        in_background,
    );
    let with_slash = format!("{url}/");
    check(
        &[(dispatch, "http"), (background, &with_slash)],
        &format!("http {url}"),
        in_background,
    );
    check(
        &[(dispatch, "http"), (foreground, "https://a.example")],
        "http https://a.example/",
        in_foreground,
    );
}

#[test]
fn what_cannot_dispatch_is_said_with_what_to_do() {
    let (dispatch, function, secret) = (
        vars::DISPATCH.name,
        vars::BACKGROUND_FUNCTION.name,
        vars::DISPATCH_SECRET.name,
    );
    assert!(problem(&[(dispatch, "carrier-pigeon")]).contains("`none`, `lambda` or `http`"));
    assert!(problem(&[(dispatch, "none")]).contains(function));
    let (background, foreground) = (vars::BACKGROUND_URL.name, vars::FOREGROUND_URL.name);
    // A URL that nothing would ever be posted to, and two where one is meant.
    for url in [background, foreground] {
        for none in ["none", ""] {
            let told = problem(&[(dispatch, none), (function, ""), (url, "http://a.example")]);
            assert!(told.contains(url) && told.contains("`http`"), "{told}");
        }
    }
    let told = problem(&[
        (dispatch, "http"),
        (background, "http://a.example"),
        (foreground, "http://b.example"),
    ]);
    assert!(told.contains(background) && told.contains(foreground), "{told}");
    for how in [
        &[(secret, "")][..],
        &[(secret, ""), (dispatch, "lambda"), (function, "")],
    ] {
        assert!(problem(how).contains(secret), "{how:?}");
    }
    let told = problem(&[(dispatch, "http")]);
    assert!(
        told.contains(vars::BACKGROUND_URL.name) && told.contains(vars::FOREGROUND_URL.name),
        "{told}"
    );
    for url in [
        "127.0.0.1:9000",
        "ftp://a.example",
        "http://",
        "http://a.example/?b=c",
        "/lambda-url/background",
        "a b",
    ] {
        let told = problem(&[(dispatch, "http"), (vars::BACKGROUND_URL.name, url)]);
        assert!(told.contains(vars::BACKGROUND_URL.name) && told.contains(url), "{told}");
    }
}
