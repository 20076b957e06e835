//! Certificates: one for the proxy, made at its start, and trust in the API server's.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// What makes the proxy believable.
pub(crate) struct Identity {
    /// Certificate of its authority, in PEM.
    pub(crate) authority: String,
    pub(crate) acceptor: TlsAcceptor,
}

/// An authority of its own, and a certificate for the loopback address.
pub(crate) fn identity() -> anyhow::Result<Identity> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&authority_key)?;
    let key = KeyPair::generate()?;
    let issuer = Issuer::from_params(&authority, &authority_key);
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()])?.signed_by(&key, &issuer)?;
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes())?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Identity { authority: certificate.pem(), acceptor: TlsAcceptor::from(Arc::new(config)) })
}

/// Connects to servers that the authority in a PEM file vouches for, and to servers without TLS.
pub(crate) fn connector(authority: Option<&Path>) -> anyhow::Result<HttpsConnector<HttpConnector>> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = authority {
        for certificate in CertificateDer::pem_file_iter(file)
            .with_context(|| format!("read {}", file.display()))?
        {
            roots.add(certificate?)?;
        }
    }
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(HttpsConnectorBuilder::new().with_tls_config(config).https_or_http().enable_http1().build())
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
