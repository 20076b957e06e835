//! CEL selectors, compiled once and evaluated often.
