//! The allocation core against a brute-force oracle on small random nodes, and on what people ask for.

mod choice;
mod oracle;
mod properties;
mod scenarios;
