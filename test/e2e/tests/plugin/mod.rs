//! The plugin under a real kubelet and containerd.

mod api_server;
mod devices;
mod directories;
mod installed;
mod pods;
mod refusals;
mod restarts;
mod scheduler;
mod slices;
mod update;
