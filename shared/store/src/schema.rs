pub const DUE_SHARDS: u8 = 16;
