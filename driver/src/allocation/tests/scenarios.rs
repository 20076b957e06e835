//! What people ask for, and what they get.
