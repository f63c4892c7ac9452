//! The host on a plain listener.

use std::io;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::middleware::map_request;
use axum::serve::ListenerExt as _;
use outlast_http::Invocation;
use tokio::net::TcpListener;

/// Refused, because nobody is asked for a credential here: everyone who gets there may do everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} can be reached from other machines, and nobody is asked for a credential here: listen on 127.0.0.1 instead"
)]
pub struct NotLoopback(pub SocketAddr);

/// A listener on an address of this machine alone.
pub async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    if !address.ip().is_loopback() {
        return Err(NotLoopback(address).into());
    }
    let listening = TcpListener::bind(address).await;
    listening.map_err(|error| anyhow::anyhow!("can't listen on {address}: {error}"))
}

/// Serves the router to whoever connects, until `shutdown` resolves and the last request has ended.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    // An event is small, and the one before it may not be acknowledged yet: without this the kernel holds it back for as
    // long as the reader delays its acknowledgement, 40 ms on Linux.
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps small writes back");
        }
    });
    axum::serve(listener, public(router))
        .with_graceful_shutdown(shutdown)
        .await
}

/// The router as the outside world may see it: no request counts as the host's own, and none has a wall.
pub fn public(router: Router) -> Router {
    router.layer(map_request(async |mut request: Request| {
        request.extensions_mut().insert(Invocation::default());
        request
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_loopback_is_listened_on() {
        let refused = listen(SocketAddr::from(([0, 0, 0, 0], 0))).await.unwrap_err();
        assert!(refused.to_string().contains("127.0.0.1"), "{refused}");
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let taken = listen(listener.local_addr().unwrap()).await.unwrap_err();
        assert!(taken.to_string().contains("can't listen"), "{taken}");
    }
}
