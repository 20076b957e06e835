//! What kubelet does to a DRA plugin, for what the real one cannot be made to do.
