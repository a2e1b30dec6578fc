//! A body that breaks off lets the connection flush what came before.

use futures_util::{FutureExt, StreamExt};

use super::*;

#[tokio::test]
async fn error_in_a_body_comes_after_a_flush() {
    let (sender, receiver) = mpsc::channel(2);
    sender.send(Ok(Bytes::from_static(b"x"))).await.unwrap();
    sender.send(Err(io::ErrorKind::UnexpectedEof.into())).await.unwrap();
    let mut pieces = Box::pin(pieces(receiver));
    assert!(pieces.next().now_or_never().unwrap().unwrap().is_ok());
    // Nothing is ready at first, which is when a connection flushes.
    assert!(pieces.next().now_or_never().is_none());
    assert!(pieces.next().await.unwrap().is_err());
}
