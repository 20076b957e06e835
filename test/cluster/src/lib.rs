//! The real cluster that `hack/cluster` starts, as tests see it.
