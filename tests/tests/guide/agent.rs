use std::time::Duration;

use async_trait::async_trait;
use outlast_core::outcome::ErrorInfo;
use outlast_core::step::StepPolicy;
use outlast_core::{AgentName, Payload};
use outlast_engine::{Agent, BadInput, BodyError, Ctx, Returned, StepCall, StepError};
use serde::Deserialize;

/// Refunds an order: looks it up, and pays once.
pub struct Refund {
    pub http: reqwest::Client,
    pub shop: String,
}

#[derive(Deserialize)]
struct Order {
    order: String,
}

#[async_trait]
impl Agent for Refund {
    fn name(&self) -> AgentName {
        AgentName::new("refund")
    }

    /// Before anything is stored: what is refused here is a 400 or 422 for whoever asked.
    fn check_input(&self, input: &Payload) -> Result<(), BadInput> {
        let checked = input.decode::<Order>().map(drop);
        checked.map_err(|error| BadInput {
            malformed: true,
            code: "invalid_order",
            message: error.to_string(),
            pointer: None,
        })
    }

    /// From its start in every chunk. What was committed is found in the log and not run again.
    async fn run(&self, ctx: Ctx, input: Payload) -> Result<Returned, ErrorInfo> {
        let Order { order } = input
            .decode()
            .map_err(|error| ErrorInfo::new("invalid_order", error.to_string()))?;
        // N of "M of N".
        ctx.plan(["look_up", "pay"]).await.map_err(StepError::into_info)?;

        // Harmless to repeat: six attempts, and again after a crash.
        let look_up = |_: StepCall| self.look_up(&order);
        let cents: u64 = ctx
            .step("look_up", &order, StepPolicy::IDEMPOTENT, look_up)
            .await
            .map_err(StepError::into_info)?;

        // Not harmless: one attempt. Cut off by a crash, it is `StepError::Unknown` and never run again.
        let once = StepPolicy::at_most_once(Duration::from_secs(20));
        let pay = |call: StepCall| self.pay(&order, cents, call);
        let receipt: String = ctx
            .step("pay", &(&order, cents), once, pay)
            .await
            .map_err(StepError::into_info)?;

        let value = Payload::of(&receipt).map_err(|error| ErrorInfo::new("no_json", error.to_string()))?;
        Ok(Returned {
            value,
            verification: None,
        })
    }
}

impl Refund {
    async fn look_up(&self, order: &str) -> Result<u64, BodyError> {
        let answer = self.http.get(format!("{}/orders/{order}", self.shop)).send().await;
        let cents = answer.and_then(|answer| answer.error_for_status()).map_err(no_shop)?;
        let cents = cents.text().await.map_err(no_shop)?;
        cents
            .parse()
            .map_err(|_| BodyError::permanent("no_price", format!("`{cents}` is no price")))
    }

    async fn pay(&self, order: &str, cents: u64, call: StepCall) -> Result<String, BodyError> {
        let pay = self.http.post(format!("{}/refunds/{order}/{cents}", self.shop));
        // `<run>/pay`: the same for every attempt, should the shop be able to tell a repetition.
        let answer = pay.header("Idempotency-Key", call.idempotency_key).send().await;
        let receipt = answer.and_then(|answer| answer.error_for_status()).map_err(no_shop)?;
        receipt.text().await.map_err(no_shop)
    }
}

fn no_shop(error: reqwest::Error) -> BodyError {
    BodyError::retryable("shop", error.to_string())
}
