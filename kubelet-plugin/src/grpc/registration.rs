//! Tells kubelet what the driver is and where it serves, and hears whether kubelet took it.

use lanemate_api::names;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use super::generated::registration::registration_server;
use super::generated::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};

/// What kubelet calls a driver of dynamic resource allocation.
const KIND: &str = "DRAPlugin";
/// The services at the endpoint, all of them and no others.
const SERVED: [&str; 2] = ["v1.DRAPlugin", "v1beta1.DRAPlugin"];
/// Bytes of kubelet's reason that are kept.
const LONGEST_REASON: usize = 1024;

/// What kubelet last said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Registration {
    /// Nothing yet.
    #[default]
    Awaited,
    /// It took the driver.
    Registered,
    /// It did not; the text is its reason. It tries again by itself.
    Refused(String),
}

/// The service at the registration socket.
#[derive(Debug)]
pub struct Registrar {
    endpoint: String,
    told: watch::Sender<Registration>,
}

impl Registrar {
    /// For the socket that serves claims.
    pub fn new(endpoint: &str) -> (Self, watch::Receiver<Registration>) {
        let (told, registered) = watch::channel(Registration::default());
        (Self { endpoint: endpoint.to_owned(), told }, registered)
    }
}

#[tonic::async_trait]
impl registration_server::Registration for Registrar {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: KIND.to_owned(),
            name: names::DRIVER.to_owned(),
            endpoint: self.endpoint.clone(),
            supported_versions: SERVED.map(str::to_owned).to_vec(),
        }))
    }

    async fn notify_registration_status(
        &self,
        status: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = status.into_inner();
        let said = if status.plugin_registered {
            tracing::info!(driver = names::DRIVER, "registered with kubelet");
            Registration::Registered
        } else {
            let end = status.error.floor_char_boundary(LONGEST_REASON);
            let reason = status.error.get(..end).unwrap_or_default().to_owned();
            tracing::error!(reason, "kubelet refused the registration");
            Registration::Refused(reason)
        };
        self.told.send_replace(said);
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
