//! What the SDK's errors mean, reason by reason.

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::CancellationReason;

use crate::table::{Failure, Reason};

pub(crate) fn failure<E>(error: &SdkError<E, HttpResponse>) -> Failure
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match error {
        SdkError::ServiceError(service) => {
            let status = service.raw().status().as_u16();
            let code = service.err().code().unwrap_or_default();
            by_code(code, status, service.err().message().unwrap_or_default())
        }
        SdkError::ConstructionFailure(_) => Failure::Rejected(chain(error)),
        // A request that has no answer, or one that can't be read, may have been done.
        _ => Failure::Unavailable(chain(error)),
    }
}

/// What an error and its causes say. Not their `Debug`, which may show what was sent and received.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}"))
}

fn by_code(code: &str, status: u16, message: &str) -> Failure {
    let what = match (code, message) {
        ("", message) => format!("status {status} {message}"),
        (code, "") => code.to_owned(),
        (code, message) => format!("{code}: {message}"),
    };
    match code {
        "ThrottlingException"
        | "Throttling"
        | "ThrottledException"
        | "TooManyRequestsException"
        | "ProvisionedThroughputExceededException"
        | "RequestLimitExceeded"
        | "SlowDown" => Failure::Throttled(what),
        "TransactionConflictException" | "TransactionInProgressException" | "ReplicatedWriteConflictException" => {
            Failure::Conflict(what)
        }
        "InternalServerError" | "InternalFailure" | "ServiceUnavailable" | "ServiceUnavailableException" => {
            Failure::Unavailable(what)
        }
        _ if status == 429 => Failure::Throttled(what),
        _ if status >= 500 || status == 408 => Failure::Unavailable(what),
        _ => Failure::Rejected(what),
    }
}

pub(super) fn reason(reason: &CancellationReason) -> Reason {
    match reason.code().unwrap_or("None") {
        "None" => Reason::None,
        "ConditionalCheckFailed" => Reason::ConditionFailed(reason.item().cloned()),
        "TransactionConflict" | "ReplicatedWriteConflict" => Reason::Conflict,
        "ThrottlingError" | "ProvisionedThroughputExceeded" | "RequestLimitExceeded" => Reason::Throttled,
        code => Reason::Other(format!("{code}: {}", reason.message().unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Item, Transacted, judge};

    #[test]
    fn r31_what_passes_is_told_from_what_is_refused() {
        let kind = |code: &str, status: u16| by_code(code, status, "said");
        for code in [
            "ThrottlingException",
            "ProvisionedThroughputExceededException",
            "RequestLimitExceeded",
        ] {
            assert!(matches!(kind(code, 400), Failure::Throttled(_)), "{code}");
        }
        for code in ["TransactionConflictException", "TransactionInProgressException"] {
            assert!(matches!(kind(code, 400), Failure::Conflict(_)), "{code}");
        }
        for (code, status) in [("InternalServerError", 500), ("", 502), ("Anything", 503), ("", 408)] {
            assert!(matches!(kind(code, status), Failure::Unavailable(_)), "{code} {status}");
        }
        for code in [
            "ValidationException",
            "AccessDeniedException",
            "ResourceNotFoundException",
            "",
        ] {
            assert!(matches!(kind(code, 400), Failure::Rejected(_)), "{code}");
        }
        assert_eq!(
            kind("ValidationException", 400).to_string(),
            "rejected: ValidationException: said"
        );
    }

    #[test]
    fn r31_cancelled_transactions_reason_by_reason() {
        let cancelled = |codes: &[&str]| {
            let reasons = codes.iter().map(|code| {
                let item = (*code == "ConditionalCheckFailed").then(Item::new);
                reason(&CancellationReason::builder().code(*code).set_item(item).build())
            });
            judge(reasons.collect())
        };
        assert!(matches!(
            cancelled(&["None", "TransactionConflict"]),
            Err(Failure::Conflict(_))
        ));
        assert!(matches!(
            cancelled(&["ProvisionedThroughputExceeded"]),
            Err(Failure::Throttled(_))
        ));
        assert!(matches!(
            cancelled(&["ThrottlingError", "None"]),
            Err(Failure::Throttled(_))
        ));
        assert!(matches!(
            cancelled(&["None", "ValidationError"]),
            Err(Failure::Rejected(_))
        ));
        assert!(matches!(
            cancelled(&["ItemCollectionSizeLimitExceeded"]),
            Err(Failure::Rejected(_))
        ));
        for codes in [
            &["ConditionalCheckFailed"][..],
            &["TransactionConflict", "ConditionalCheckFailed"],
            &["ConditionalCheckFailed", "ThrottlingError", "None"],
        ] {
            let Ok(Transacted::Refused(reasons)) = cancelled(codes) else {
                panic!("{codes:?} is a refusal");
            };
            let at = codes.iter().position(|code| *code == "ConditionalCheckFailed").unwrap();
            assert_eq!(reasons[at], Reason::ConditionFailed(Some(Item::new())));
        }
    }
}
