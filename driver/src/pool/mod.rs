//! ResourceSlices become pools of devices, by node.
