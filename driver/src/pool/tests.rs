//! Tests of pools.
