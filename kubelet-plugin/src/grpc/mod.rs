//! The gRPC services that kubelet calls, on unix sockets.
