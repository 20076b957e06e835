//! Messages, clients and servers of the gRPC services, made from the files in `proto` of the plugin.

#[rustfmt::skip]
pub mod dra_v1;
#[rustfmt::skip]
pub mod dra_v1beta1;
#[rustfmt::skip]
pub mod registration;
