//! The two tables, as data. `dynamodb::create_tables` makes them; deployment templates are checked against this.

/// The due index is spread over this many partitions.
pub const DUE_SHARDS: u8 = 16;

/// Both tables' items are removed some days after this attribute's time, in epoch seconds.
pub const TTL: &str = "expires_at";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TableId {
    Runs,
    Events,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Index {
    /// Live runs by when the sweep must look at them.
    Due,
    /// What is looked for under a name: what waits for a worker or a reviewer; the API keys.
    Work,
    /// An owner's runs by when they were made.
    ByOwner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    Text,
    Number,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAttribute {
    pub name: &'static str,
    pub kind: KeyType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    pub hash: KeyAttribute,
    pub range: KeyAttribute,
}

/// On demand, with TTL on [`TTL`]; the indexes hold keys only, of the items that have both of their attributes.
#[derive(Clone, Copy, Debug)]
pub struct TableSchema {
    pub table: TableId,
    pub keys: Keys,
    pub indexes: &'static [Index],
}

pub const TABLES: [TableSchema; 2] = [
    TableSchema {
        table: TableId::Runs,
        keys: TableId::Runs.keys(),
        indexes: &[Index::Due, Index::Work, Index::ByOwner],
    },
    TableSchema {
        table: TableId::Events,
        keys: TableId::Events.keys(),
        indexes: &[],
    },
];

impl TableId {
    pub const fn keys(self) -> Keys {
        match self {
            TableId::Runs => keys(text("pk"), text("sk")),
            TableId::Events => keys(text("run_id"), number("first_seq")),
        }
    }
}

impl Index {
    pub const fn name(self) -> &'static str {
        match self {
            Index::Due => "due",
            Index::Work => "work",
            Index::ByOwner => "by_owner",
        }
    }

    pub const fn keys(self) -> Keys {
        match self {
            Index::Due => keys(text("due_shard"), number("due_at")),
            Index::Work => keys(text("work_list"), number("work_rank")),
            Index::ByOwner => keys(text("owner"), number("created_at")),
        }
    }
}

const fn keys(hash: KeyAttribute, range: KeyAttribute) -> Keys {
    Keys { hash, range }
}

const fn text(name: &'static str) -> KeyAttribute {
    KeyAttribute {
        name,
        kind: KeyType::Text,
    }
}

const fn number(name: &'static str) -> KeyAttribute {
    KeyAttribute {
        name,
        kind: KeyType::Number,
    }
}

/// What the tables are called in an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableNames {
    pub runs: String,
    pub events: String,
}

impl TableNames {
    /// `<prefix>-runs` and `<prefix>-events`.
    pub fn with_prefix(prefix: &str) -> Self {
        Self {
            runs: format!("{prefix}-runs"),
            events: format!("{prefix}-events"),
        }
    }

    pub fn of(&self, table: TableId) -> &str {
        match table {
            TableId::Runs => &self.runs,
            TableId::Events => &self.events,
        }
    }
}

/// `outlast-runs` and `outlast-events`.
impl Default for TableNames {
    fn default() -> Self {
        Self::with_prefix("outlast")
    }
}
