//! A small API server in the process, for faults that the real one cannot be made to show.
