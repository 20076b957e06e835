//! Who holds each device of ours: counted by holder, so that a device is free only when the last one lets go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lanemate_driver::allocation::{Cluster, DeviceId};

use crate::id::Uid;

/// Who keeps a device from being given to others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A claim whose allocation names the device, as seen or as assumed.
    Claim(Uid),
    /// A node that still has the device prepared for a claim.
    Node(Uid),
}

/// Holders of devices, with words for people.
#[derive(Debug, Default)]
pub struct Holders {
    by_device: BTreeMap<DeviceId, BTreeMap<Holder, Arc<str>>>,
    contested: BTreeSet<DeviceId>,
}

impl Holders {
    /// Who holds a device.
    pub fn of(&self, device: &DeviceId) -> BTreeSet<Holder> {
        self.by_device.get(device).into_iter().flat_map(|holders| holders.keys().cloned()).collect()
    }

    /// Devices that two or more claims hold.
    pub fn contested(&self) -> impl Iterator<Item = &DeviceId> {
        self.contested.iter()
    }

    /// Whether two or more claims hold it.
    pub fn is_contested(&self, device: &DeviceId) -> bool {
        self.contested.contains(device)
    }

    /// Held devices of a pool.
    pub fn of_pool<'a>(
        &'a self,
        driver: &str,
        pool: &'a str,
    ) -> impl Iterator<Item = &'a DeviceId> {
        let from: DeviceId = (driver.to_owned(), pool.to_owned(), String::new());
        let devices = self.by_device.range(from.clone()..);
        devices.map(|(device, _)| device).take_while(move |it| it.0 == from.0 && it.1 == from.1)
    }

    /// Adds a holder.
    pub fn hold(
        &mut self,
        device: &DeviceId,
        holder: Holder,
        words: &Arc<str>,
        cluster: &mut Cluster,
    ) {
        let holders = self.by_device.entry(device.clone()).or_default();
        holders.insert(holder, Arc::clone(words));
        self.bring_up_to_date(device, cluster);
    }

    /// Removes a holder; true if it was the last one.
    pub fn let_go(&mut self, device: &DeviceId, holder: &Holder, cluster: &mut Cluster) -> bool {
        let Some(holders) = self.by_device.get_mut(device) else { return false };
        let was_there = holders.remove(holder).is_some();
        let is_free = holders.is_empty();
        self.bring_up_to_date(device, cluster);
        if is_free {
            self.by_device.remove(device);
        }
        was_there && is_free
    }

    /// The core knows one holder of a device: here it is the first, claims before nodes.
    fn bring_up_to_date(&mut self, device: &DeviceId, cluster: &mut Cluster) {
        let Some(holders) = self.by_device.get(device) else { return };
        let claims = holders.keys().filter(|holder| matches!(holder, Holder::Claim(_))).count();
        if claims > 1 {
            self.contested.insert(device.clone());
        } else {
            self.contested.remove(device);
        }
        let wanted = holders.values().next();
        let known = cluster.holder(device).map(str::to_owned);
        if known.as_deref() == wanted.map(|words| &**words) {
            return;
        }
        let device = std::slice::from_ref(device);
        if let Some(known) = known {
            cluster.release(&known, device);
        }
        if let Some(wanted) = wanted {
            cluster.reserve(wanted, device);
        }
    }
}
