//! `manifest.json`: what a deployment must know of each function. Never a secret's value.

use outlast_core::digest::sha256_hex;
use serde::{Deserialize, Serialize};

use crate::plan::Function;

pub const FILE: &str = "manifest.json";
/// Raised when a reader of an older one would misread it. New keys alone don't.
pub const SCHEMA: u64 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub schema: u64,
    pub functions: Vec<Packed>,
}

/// A function, and its zip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed {
    #[serde(flatten)]
    pub function: Function,
    pub sha256: String,
    /// Of the zip, in bytes.
    pub size: u64,
}

/// Why a manifest is none of ours.
#[derive(Debug, thiserror::Error)]
pub enum WrongManifest {
    #[error("{FILE} is no manifest of deploy-builder: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("{FILE} has schema {0}: this deploy-builder knows {SCHEMA}; use the one that wrote it")]
    Schema(u64),
}

impl Packed {
    pub fn new(function: Function, zip: &[u8]) -> Self {
        Packed {
            function,
            sha256: sha256_hex(zip),
            size: zip.len() as u64,
        }
    }
}

impl Manifest {
    pub fn new(functions: Vec<Packed>) -> Self {
        Manifest {
            schema: SCHEMA,
            functions,
        }
    }

    pub fn to_json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    pub fn parse(text: &str) -> Result<Self, WrongManifest> {
        #[derive(Deserialize)]
        struct Head {
            schema: u64,
        }
        // Of a schema that isn't known nothing else can be expected.
        let head: Head = serde_json::from_str(text)?;
        if head.schema != SCHEMA {
            return Err(WrongManifest::Schema(head.schema));
        }
        Ok(serde_json::from_str(text)?)
    }
}
