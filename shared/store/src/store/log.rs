//! Pages.

use outlast_core::{Page, RunId};

use super::runs::{is_put_by, page_put};
use super::{LogSlice, PagePut, Store, StoreError};
use crate::blobs::{self, Parts};
use crate::pages::{decode_page, encode_page, first_seq_of, partition, parts_of};
use crate::schema::TableId;
use crate::table::{Item, Query, Range, Written};

impl Store {
    /// A holder's put: lands only where nothing stands. The same page again (by write id) has landed.
    pub async fn put_page(&self, page: &Page) -> Result<PagePut, StoreError> {
        let page = encode_page(page)?;
        self.put_parts(&page).await?;
        let write = page_put(page);
        match self.write(&write).await? {
            Written::Done => Ok(PagePut::Landed),
            Written::Refused(Some(stands)) if is_put_by(&stands, &write) => Ok(PagePut::Landed),
            Written::Refused(_) => Ok(PagePut::Collided),
        }
    }

    /// Consistent: the end of the log, with its totals and size of what is not known here (zero).
    pub async fn tail_page(&self, id: &RunId) -> Result<Option<Page>, StoreError> {
        self.last_page(id, Range::All, true).await
    }

    /// The page that holds `seq`: the one with the greatest first seq at or before it.
    pub async fn page_holding(&self, id: &RunId, seq: u64, consistent: bool) -> Result<Option<Page>, StoreError> {
        self.last_page(id, at_most(seq), consistent).await
    }

    /// One request's worth of pages whose first seq is at least `first_seq`, in order.
    pub async fn read_pages(&self, id: &RunId, first_seq: u64, consistent: bool) -> Result<LogSlice, StoreError> {
        let answer = self.query(&pages_from(id, first_seq, consistent)?).await?;
        let mut pages = Vec::with_capacity(answer.items.len());
        for item in answer.items {
            pages.push(self.decode(id, item).await?);
        }
        // Never by count: the table says whether there is more.
        let next = answer.last_key.and_then(|last| match pages.last() {
            Some(page) => Some(page.last_seq() + 1),
            None => first_seq_of(&last).map(|seq| seq + 1),
        });
        Ok(LogSlice { pages, next })
    }

    async fn last_page(&self, id: &RunId, range: Range, consistent: bool) -> Result<Option<Page>, StoreError> {
        match self.last_item(id, range, consistent).await? {
            Some(item) => self.decode(id, item).await.map(Some),
            None => Ok(None),
        }
    }

    /// The last page in a range, as it is stored.
    pub(super) async fn last_item(
        &self,
        id: &RunId,
        range: Range,
        consistent: bool,
    ) -> Result<Option<Item>, StoreError> {
        let query = Query {
            reverse: true,
            limit: Some(1),
            range,
            ..pages_from(id, 0, consistent)?
        };
        Ok(self.query(&query).await?.items.into_iter().next())
    }

    async fn decode(&self, id: &RunId, item: Item) -> Result<Page, StoreError> {
        let parts = self.parts_of_page(id, &item).await?;
        decode_page(id, item, &parts)
    }

    /// What a page names, if it names anything: consistently, since it was there before the page.
    pub(super) async fn parts_of_page(&self, id: &RunId, item: &Item) -> Result<Parts, StoreError> {
        let mut parts = Parts::new();
        if let Some(write_id) = parts_of(item) {
            let query = Query {
                hash: blobs::partition(id, write_id)?,
                ..pages_from(id, 0, true)?
            };
            blobs::collect(self.query_all(query).await?, &mut parts);
        }
        Ok(parts)
    }
}

pub(super) fn pages_from(id: &RunId, first_seq: u64, consistent: bool) -> Result<Query, StoreError> {
    Ok(Query {
        table: TableId::Events,
        index: None,
        hash: partition(id)?,
        range: Range::AtLeast(i64::try_from(first_seq).unwrap_or(i64::MAX)),
        reverse: false,
        limit: None,
        consistent,
        start: None,
    })
}

pub(super) fn at_most(seq: u64) -> Range {
    Range::AtMost(i64::try_from(seq).unwrap_or(i64::MAX))
}
