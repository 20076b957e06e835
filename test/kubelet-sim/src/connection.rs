//! A connection to a unix socket that knows whether it is open.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

/// A local socket answers at once or not at all; kubelet itself waits 10 s.
const CONNECT: Duration = Duration::from_secs(5);

/// A channel and how many streams it has open: none or one.
#[derive(Clone, Debug)]
pub struct Connection {
    channel: Channel,
    open: Arc<AtomicUsize>,
}

/// What kubelet sends as the `:authority` of its calls.
#[derive(Clone, Copy, Debug)]
pub enum Named {
    /// The path, with percent signs: to a registration socket.
    ByPath,
    /// `localhost`: to the socket for claims.
    Localhost,
}

/// A stream that is counted as long as it exists.
struct Counted {
    stream: UnixStream,
    open: Arc<AtomicUsize>,
}

impl Connection {
    /// Connects at once. Calls name the server as kubelet names it, see [`Named`].
    pub async fn to(path: &Path, named: Named) -> Result<Self, String> {
        let name = named.authority(path);
        let origin = format!("http://{name}").parse::<Uri>().map_err(|error| {
            format!("kubelet would name the server {name:?}, which not all servers accept: {error}")
        })?;
        let open = Arc::new(AtomicUsize::new(0));
        let connector = {
            let (path, open) = (path.to_owned(), Arc::clone(&open));
            service_fn(move |_: Uri| {
                let (path, open) = (path.clone(), Arc::clone(&open));
                async move {
                    let stream = UnixStream::connect(path).await?;
                    open.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, io::Error>(TokioIo::new(Counted { stream, open }))
                }
            })
        };
        // The name is not looked up: the connector knows where to go.
        let endpoint = Endpoint::from_static("http://localhost").origin(origin);
        let connected = endpoint.connect_with_connector(connector);
        match tokio::time::timeout(CONNECT, connected).await {
            Ok(Ok(channel)) => Ok(Self { channel, open }),
            Ok(Err(error)) => Err(format!("connect to {}: {error:?}", path.display())),
            Err(_) => Err(format!("connect to {}: no answer in {CONNECT:?}", path.display())),
        }
    }

    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst) > 0
    }
}

impl Named {
    /// Go's gRPC escapes all but what RFC 3986, 3.2 knows in an authority.
    fn authority(self, path: &Path) -> String {
        let path = match self {
            Self::ByPath => path.to_string_lossy(),
            Self::Localhost => return "localhost".to_owned(),
        };
        let kept =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]@".contains(&byte);
        let escaped = |byte: u8| match kept(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        path.bytes().map(escaped).collect()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
