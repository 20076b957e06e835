//! A machine, read once: facts, topology and inventory together.
