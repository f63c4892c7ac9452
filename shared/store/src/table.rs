pub trait Table: Send + Sync {}
