//! The pure core: facts about a machine become a topology, an inventory and ResourceSlices; claims
//! and slices become allocations; allocations become prepare plans. Only three files touch the world:
//! `discovery/host.rs`, `discovery/nvml.rs` and `files.rs`.

#![warn(missing_docs)]

pub mod allocation;
pub mod attribute;
pub mod claim;
pub mod config;
pub mod discovery;
pub mod files;
pub mod ids;
pub mod inventory;
pub mod machine;
pub mod node_fit;
pub mod pending;
pub mod pool;
pub mod prepare;
pub mod resource_slice;
pub mod selector;
pub mod stable_hash;
#[cfg(feature = "testing")]
pub mod testing;
pub mod topology;
pub mod yaml;
