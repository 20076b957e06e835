//! Applies planned files atomically.
