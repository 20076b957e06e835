//! The plugin under a real kubelet and containerd.

mod api_server;
mod devices;
mod directories;
pub mod installed;
mod pods;
mod refusals;
mod restarts;
mod rights;
mod scheduler;
mod slices;
mod update;
