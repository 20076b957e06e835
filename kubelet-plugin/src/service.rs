//! Prepare and Unprepare of one claim, from kubelet's call to the answer: the claim is read from the
//! API server, the state thread does the rest, and the outcome is logged, counted and told.
