//! The order in which pending pods and claims are served.
