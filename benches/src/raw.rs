//! The floor: the same table, the same SDK, the same bytes, and no engine.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::AttributeValue;
use outlast_core::RunId;
use outlast_store::schema::TableNames;

type Item = HashMap<String, AttributeValue>;

/// Puts copies of one page of a real run, each under a key of its own, where nothing stands.
#[derive(Clone)]
pub struct RawPuts {
    client: Client,
    table: String,
    item: Item,
    next: u64,
}

impl RawPuts {
    /// Copies of the page of `run` that holds `seq`.
    pub async fn of_page(client: &Client, run: &RunId, seq: u64) -> anyhow::Result<Self> {
        let table = TableNames::default().events;
        let found = client
            .query()
            .table_name(&table)
            .key_condition_expression("run_id = :run AND first_seq <= :seq")
            .expression_attribute_values(":run", AttributeValue::S(run.to_string()))
            .expression_attribute_values(":seq", AttributeValue::N(seq.to_string()))
            .scan_index_forward(false)
            .limit(1)
            .send()
            .await?;
        let item = found.items.unwrap_or_default().into_iter().next();
        Ok(Self {
            // As the engine's client: a retry in between would be two puts.
            client: without_retries(client),
            table,
            item: item.context("the run has no such page")?,
            next: 0,
        })
    }

    /// The same bytes as one attribute: what an item's structure costs is left out too.
    pub fn as_one_text(&self) -> Self {
        let bytes: usize = self.item.iter().map(|(name, value)| name.len() + bytes(value)).sum();
        let text = AttributeValue::S("x".repeat(bytes));
        Self {
            item: Item::from([("text".into(), text)]),
            ..self.clone()
        }
    }

    /// Another putter, in a partition of its own.
    pub fn at(&self, partition: &str) -> Self {
        let mut putter = self.clone();
        let key = format!("raw-{partition:0>32}");
        putter.item.insert("run_id".into(), AttributeValue::S(key));
        putter.next = 0;
        putter
    }

    /// One conditional put; how long it took.
    pub async fn put(&mut self) -> anyhow::Result<Duration> {
        self.next += 1;
        let number = AttributeValue::N(self.next.to_string());
        self.item.insert("first_seq".into(), number);
        let item = self.item.clone();
        let from = Instant::now();
        self.client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(run_id)")
            .send()
            .await?;
        Ok(from.elapsed())
    }

    pub async fn puts(&mut self, count: usize) -> anyhow::Result<Duration> {
        let from = Instant::now();
        for _ in 0..count {
            self.put().await?;
        }
        Ok(from.elapsed())
    }

    /// So many putters at once, each putting so many.
    pub async fn at_once(&self, prefix: &str, putters: usize, count: usize) -> anyhow::Result<Duration> {
        let from = Instant::now();
        let tasks: Vec<_> = (0..putters)
            .map(|number| {
                let mut putter = self.at(&format!("{prefix}-{number}"));
                tokio::spawn(async move { putter.puts(count).await })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        Ok(from.elapsed())
    }

    /// A put, then a query that finds it: the least that lies between an append and a reader in the same place.
    pub async fn put_and_find(&mut self) -> anyhow::Result<Duration> {
        let from = Instant::now();
        self.put().await?;
        let run = self.item.get("run_id").context("no key")?.clone();
        let found = self
            .client
            .query()
            .table_name(&self.table)
            .key_condition_expression("run_id = :run AND first_seq >= :seq")
            .expression_attribute_values(":run", run)
            .expression_attribute_values(":seq", AttributeValue::N(self.next.to_string()))
            .send()
            .await?;
        if found.count != 1 {
            bail!("the item just put was not found");
        }
        Ok(from.elapsed())
    }
}

/// Reads a run's whole log, consistently; how long it took.
pub async fn read_log(client: &Client, run: &RunId) -> anyhow::Result<Duration> {
    let from = Instant::now();
    let mut start: Option<Item> = None;
    loop {
        let page = client
            .query()
            .table_name(TableNames::default().events)
            .key_condition_expression("run_id = :run")
            .expression_attribute_values(":run", AttributeValue::S(run.to_string()))
            .consistent_read(true)
            .set_exclusive_start_key(start)
            .send()
            .await?;
        start = page.last_evaluated_key.filter(|key| !key.is_empty());
        if start.is_none() {
            return Ok(from.elapsed());
        }
    }
}

fn without_retries(client: &Client) -> Client {
    let config = client.config().to_builder().retry_config(RetryConfig::disabled());
    Client::from_conf(config.build())
}

/// As DynamoDB counts an item's size, near enough.
fn bytes(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) | AttributeValue::N(text) => text.len(),
        AttributeValue::L(values) => values.iter().map(bytes).sum(),
        AttributeValue::M(fields) => fields.iter().map(|(name, value)| name.len() + bytes(value)).sum(),
        _ => 1,
    }
}
