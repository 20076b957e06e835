//! The kubelet of a test.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::transport::Channel;

use crate::connection::Connection;
use crate::registry::{self, Memory, lock};
use crate::{Answers, Claim, Device, KubeletError, Plugin, Settings, Version, calls};

/// Registers plugins and calls them. Ends when dropped.
#[derive(Debug)]
pub struct Kubelet {
    settings: Settings,
    run: Mutex<Run>,
}

/// From one start to the next.
#[derive(Debug)]
struct Run {
    memory: Arc<Mutex<Memory>>,
    task: JoinHandle<()>,
}

impl Run {
    fn start(settings: &Settings) -> Self {
        let memory = Arc::default();
        let task = tokio::spawn(registry::watch(settings.clone(), Arc::clone(&memory)));
        Self { memory, task }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Kubelet {
    /// Begins to watch the registry directory, which need not exist. Needs a tokio runtime.
    pub fn start(settings: Settings) -> Self {
        let run = Mutex::new(Run::start(&settings));
        Self { settings, run }
    }

    /// Forgets which plugins are registered and which claims are prepared, and begins anew.
    pub fn restart(&self) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = Run::start(&self.settings);
    }

    fn memory(&self) -> Arc<Mutex<Memory>> {
        Arc::clone(&self.run.lock().unwrap_or_else(PoisonError::into_inner).memory)
    }

    /// The instances of a driver, the first to register first.
    pub fn plugins(&self, driver: &str) -> Vec<Plugin> {
        let memory = self.memory();
        let memory = lock(&memory);
        let instances = memory.instances.iter().filter(|instance| instance.driver == driver);
        instances.map(registry::Instance::plugin).collect()
    }

    /// Sockets in the registry directory that could not be registered, with the reason.
    pub fn failures(&self) -> BTreeMap<PathBuf, String> {
        lock(&self.memory()).failures.clone()
    }

    /// Waits until a driver has exactly so many instances, all of them connected.
    ///
    /// # Errors
    /// They do not come, or do not go, in time.
    pub async fn until_registered(
        &self,
        driver: &str,
        count: usize,
        within: Duration,
    ) -> Result<Vec<Plugin>, KubeletError> {
        let deadline = Instant::now() + within;
        loop {
            let plugins = self.plugins(driver);
            if plugins.len() == count && plugins.iter().all(|plugin| plugin.connected) {
                return Ok(plugins);
            }
            if Instant::now() >= deadline {
                let what = format!("{count} connected instances of {driver}");
                let seen = format!("{plugins:?}, failures {:?}", self.failures());
                return Err(KubeletError::Waited { what, within, seen });
            }
            tokio::time::sleep(self.settings.poll).await;
        }
    }

    /// Prepares the claims of a pod. Those that are known to be prepared are not sent again, see
    /// [`Kubelet::forget`]. Kubelet calls with all claims of a pod at once, and starts the pod when
    /// none has an error; otherwise it tries again after some seconds.
    ///
    /// # Errors
    /// No answer, or one that kubelet does not accept.
    pub async fn prepare(
        &self,
        driver: &str,
        claims: &[Claim],
    ) -> Result<Answers<Vec<Device>>, KubeletError> {
        let memory = self.memory();
        let key = |uid: &str| (driver.to_owned(), uid.to_owned());
        let (mut answers, mut sent) = (Answers::new(), Vec::new());
        for claim in claims {
            match lock(&memory).prepared.get(&key(&claim.uid)) {
                Some(devices) => drop(answers.insert(claim.uid.clone(), Ok(devices.clone()))),
                None => sent.push(claim.clone()),
            }
        }
        if sent.is_empty() {
            return Ok(answers);
        }
        let (version, channel) = self.newest(driver)?;
        let new = calls::prepare(version, channel, &sent, self.settings.call_timeout).await?;
        for (uid, answer) in &new {
            if let Ok(devices) = answer {
                lock(&memory).prepared.insert(key(uid), devices.clone());
            }
        }
        answers.extend(new);
        Ok(answers)
    }

    /// Unprepares claims, whether they are known to be prepared or not.
    ///
    /// # Errors
    /// No answer, or one that kubelet does not accept.
    pub async fn unprepare(
        &self,
        driver: &str,
        claims: &[Claim],
    ) -> Result<Answers<()>, KubeletError> {
        let memory = self.memory();
        let (version, channel) = self.newest(driver)?;
        let answers =
            calls::unprepare(version, channel, claims, self.settings.call_timeout).await?;
        for uid in answers.iter().filter(|(_, answer)| answer.is_ok()).map(|(uid, _)| uid) {
            lock(&memory).prepared.remove(&(driver.to_owned(), uid.clone()));
        }
        Ok(answers)
    }

    /// Forgets that claims are prepared, as if the answer had been lost: they are sent again.
    pub fn forget(&self, driver: &str, claims: &[Claim]) {
        let memory = self.memory();
        for claim in claims {
            lock(&memory).prepared.remove(&(driver.to_owned(), claim.uid.clone()));
        }
    }

    /// The newest instance that is connected, in the newest version that it offers or in the one
    /// that was set.
    fn newest(&self, driver: &str) -> Result<(Version, Channel), KubeletError> {
        let memory = self.memory();
        let memory = lock(&memory);
        let mut instances =
            memory.instances.iter().filter(|instance| instance.driver == driver).peekable();
        if instances.peek().is_none() {
            return Err(KubeletError::NotRegistered(driver.to_owned()));
        }
        let connected = instances.rfind(|instance| instance.is_connected());
        let (instance, channel) = connected
            .and_then(|instance| Some((instance, instance.connection.as_ref()?)))
            .map(|(instance, connection)| (instance, Connection::channel(connection)))
            .ok_or_else(|| KubeletError::NotConnected(driver.to_owned()))?;
        let wanted = match self.settings.version {
            Some(version) => vec![version],
            None => vec![Version::V1, Version::V1beta1],
        };
        let offers = |version: &Version| instance.versions.iter().any(|v| v == version.service());
        match wanted.iter().copied().find(offers) {
            Some(version) => Ok((version, channel)),
            None => Err(KubeletError::NoVersion {
                driver: driver.to_owned(),
                offered: instance.versions.clone(),
                wanted: wanted.iter().map(|v| v.service()).collect::<Vec<_>>().join(" or "),
            }),
        }
    }
}
