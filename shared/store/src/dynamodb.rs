//! The port on DynamoDB, through the AWS SDK.

mod create;
mod expressions;
mod failures;

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{
    ConditionCheck, ConsumedCapacity, Put, ReturnConsumedCapacity, ReturnValuesOnConditionCheckFailure,
    TransactWriteItem, Update,
};

pub use create::create_tables;
pub(crate) use failures::failure;

use crate::meter::Meter;
use crate::schema::TableNames;
use crate::table::{Action, Answer, Failure, Item, Key, Query, Table, Transacted, Write, Written, judge};
use expressions::Placeholders;

/// A request that has no answer by then never gets one; it is tried again.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// DynamoDB doesn't say what a refused write used; it is one unit at least.
const REFUSED_UNITS: f64 = 1.0;

/// The two tables, by the names that they have in the account.
pub struct DynamoTable {
    client: Client,
    names: TableNames,
}

impl DynamoTable {
    /// Takes the client's settings but its retries: `Store` has its own loop, which counts each request, waits on
    /// the clock that it is given, and knows a write that had landed. Retries within retries would only multiply.
    /// A limit to each request is set if the client has none.
    pub fn new(client: &Client, names: TableNames) -> Self {
        let config = client.config();
        let mut builder = config.to_builder().retry_config(RetryConfig::disabled());
        let timeouts = config.timeout_config();
        if timeouts.is_none_or(|timeouts| timeouts.operation_attempt_timeout().is_none()) {
            let timeouts = timeouts.map_or_else(TimeoutConfig::builder, TimeoutConfig::to_builder);
            builder = builder.timeout_config(timeouts.operation_attempt_timeout(ATTEMPT_TIMEOUT).build());
        }
        Self {
            client: Client::from_conf(builder.build()),
            names,
        }
    }

    async fn put(&self, write: &Write, item: &Item, meter: &Meter) -> Result<Written, Failure> {
        let mut with = Placeholders::default();
        let condition = expressions::condition(&write.condition, hash(&write.key), &mut with);
        let sent = self
            .client
            .put_item()
            .table_name(self.names.of(write.key.table()))
            .set_item(Some(whole(&write.key, item)))
            .set_condition_expression(condition)
            .set_expression_attribute_names(with.names())
            .set_expression_attribute_values(with.values())
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await;
        match sent {
            Ok(output) => {
                meter.wrote(units(output.consumed_capacity()));
                Ok(Written::Done)
            }
            Err(error) => match error.as_service_error() {
                Some(PutItemError::ConditionalCheckFailedException(failed)) => {
                    meter.wrote(REFUSED_UNITS);
                    Ok(Written::Refused(failed.item().cloned()))
                }
                _ => {
                    meter.wrote(0.0);
                    Err(failure(&error))
                }
            },
        }
    }

    async fn update(&self, write: &Write, update: UpdateParts, meter: &Meter) -> Result<Written, Failure> {
        let sent = self
            .client
            .update_item()
            .table_name(self.names.of(write.key.table()))
            .set_key(Some(key_item(&write.key)))
            .update_expression(update.expression)
            .set_condition_expression(update.condition)
            .set_expression_attribute_names(update.with.names())
            .set_expression_attribute_values(update.with.values())
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await;
        match sent {
            Ok(output) => {
                meter.wrote(units(output.consumed_capacity()));
                Ok(Written::Done)
            }
            Err(error) => match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(failed)) => {
                    meter.wrote(REFUSED_UNITS);
                    Ok(Written::Refused(failed.item().cloned()))
                }
                _ => {
                    meter.wrote(0.0);
                    Err(failure(&error))
                }
            },
        }
    }

    fn transact_item(&self, write: &Write) -> Result<TransactWriteItem, Failure> {
        let table = self.names.of(write.key.table());
        let all_old = ReturnValuesOnConditionCheckFailure::AllOld;
        let built = match &write.action {
            Action::Put(item) => {
                let mut with = Placeholders::default();
                let condition = expressions::condition(&write.condition, hash(&write.key), &mut with);
                let put = Put::builder()
                    .table_name(table)
                    .set_item(Some(whole(&write.key, item)))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(with.names())
                    .set_expression_attribute_values(with.values())
                    .return_values_on_condition_check_failure(all_old)
                    .build();
                put.map(|put| TransactWriteItem::builder().put(put).build())
            }
            Action::Update { .. } => {
                let parts = UpdateParts::of(write);
                let update = Update::builder()
                    .table_name(table)
                    .set_key(Some(key_item(&write.key)))
                    .update_expression(parts.expression)
                    .set_condition_expression(parts.condition)
                    .set_expression_attribute_names(parts.with.names())
                    .set_expression_attribute_values(parts.with.values())
                    .return_values_on_condition_check_failure(all_old)
                    .build();
                update.map(|update| TransactWriteItem::builder().update(update).build())
            }
            Action::Check => {
                let mut with = Placeholders::default();
                let condition = expressions::condition(&write.condition, hash(&write.key), &mut with);
                let check = ConditionCheck::builder()
                    .table_name(table)
                    .set_key(Some(key_item(&write.key)))
                    .set_condition_expression(condition)
                    .set_expression_attribute_names(with.names())
                    .set_expression_attribute_values(with.values())
                    .return_values_on_condition_check_failure(all_old)
                    .build();
                check.map(|check| TransactWriteItem::builder().condition_check(check).build())
            }
        };
        built.map_err(|error| Failure::Rejected(error.to_string()))
    }
}

#[async_trait]
impl Table for DynamoTable {
    async fn get(&self, key: &Key, consistent: bool, meter: &Meter) -> Result<Option<Item>, Failure> {
        let sent = self
            .client
            .get_item()
            .table_name(self.names.of(key.table()))
            .set_key(Some(key_item(key)))
            .consistent_read(consistent)
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await;
        match sent {
            Ok(output) => {
                meter.read(units(output.consumed_capacity()));
                Ok(output.item)
            }
            Err(error) => {
                meter.read(0.0);
                Err(failure(&error))
            }
        }
    }

    async fn write(&self, write: &Write, meter: &Meter) -> Result<Written, Failure> {
        match &write.action {
            Action::Put(item) => self.put(write, item, meter).await,
            Action::Update { .. } => self.update(write, UpdateParts::of(write), meter).await,
            Action::Check => Err(Failure::Rejected("a check by itself is no write".into())),
        }
    }

    async fn transact(&self, writes: &[Write], meter: &Meter) -> Result<Transacted, Failure> {
        let items = writes
            .iter()
            .map(|write| self.transact_item(write))
            .collect::<Result<Vec<_>, _>>()?;
        let sent = self
            .client
            .transact_write_items()
            .set_transact_items(Some(items))
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await;
        let error = match sent {
            Ok(output) => {
                meter.wrote(output.consumed_capacity().iter().map(|used| units(Some(used))).sum());
                return Ok(Transacted::Done);
            }
            Err(error) => error,
        };
        if let SdkError::ServiceError(service) = &error
            && let TransactWriteItemsError::TransactionCanceledException(cancelled) = service.err()
        {
            meter.wrote(2.0 * REFUSED_UNITS * writes.len() as f64);
            return judge(cancelled.cancellation_reasons().iter().map(failures::reason).collect());
        }
        meter.wrote(0.0);
        Err(failure(&error))
    }

    async fn query(&self, query: &Query, meter: &Meter) -> Result<Answer, Failure> {
        let mut with = Placeholders::default();
        let keys = query.index.map_or(query.table.keys(), |index| index.keys());
        let sent = self
            .client
            .query()
            .table_name(self.names.of(query.table))
            .set_index_name(query.index.map(|index| index.name().into()))
            .key_condition_expression(expressions::key_condition(query, keys, &mut with))
            .set_expression_attribute_names(with.names())
            .set_expression_attribute_values(with.values())
            .scan_index_forward(!query.reverse)
            .set_limit(query.limit.map(|limit| i32::try_from(limit).unwrap_or(i32::MAX)))
            .consistent_read(query.consistent)
            .set_exclusive_start_key(query.start.clone())
            .return_consumed_capacity(ReturnConsumedCapacity::Total)
            .send()
            .await;
        match sent {
            Ok(output) => {
                meter.read(units(output.consumed_capacity()));
                Ok(Answer {
                    items: output.items.unwrap_or_default(),
                    last_key: output.last_evaluated_key.filter(|key| !key.is_empty()),
                })
            }
            Err(error) => {
                meter.read(0.0);
                Err(failure(&error))
            }
        }
    }
}

/// An update's expressions.
struct UpdateParts {
    expression: String,
    condition: Option<String>,
    with: Placeholders,
}

impl UpdateParts {
    fn of(write: &Write) -> Self {
        let mut with = Placeholders::default();
        let expression = match &write.action {
            Action::Update { set, remove } => expressions::update(set, remove, &mut with),
            Action::Put(_) | Action::Check => String::new(),
        };
        Self {
            expression,
            condition: expressions::condition(&write.condition, hash(&write.key), &mut with),
            with,
        }
    }
}

fn units(used: Option<&ConsumedCapacity>) -> f64 {
    used.and_then(ConsumedCapacity::capacity_units).unwrap_or_default()
}

fn hash(key: &Key) -> &'static str {
    key.table().keys().hash.name
}

fn key_item(key: &Key) -> Item {
    key.attributes().map(|(name, value)| (name.to_owned(), value)).into()
}

fn whole(key: &Key, item: &Item) -> Item {
    let mut item = item.clone();
    item.extend(key_item(key));
    item
}
