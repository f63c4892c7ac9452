//! What a function answers: a status, headers and a body that may still be coming.

use axum::body::{Body, BodyDataStream};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc;

/// What ends the head of a streamed answer.
const END_OF_HEAD: [u8; 8] = [0; 8];

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Body,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The wall.
    TimedOut,
    /// The process has ended.
    Exited(String),
    /// The function said so.
    Error(String),
    /// It was never invoked: Lambda took the chain for a loop.
    Dropped,
}

impl Answer {
    pub async fn text(self) -> String {
        let bytes = axum::body::to_bytes(self.body, usize::MAX)
            .await
            .expect("the whole body");
        String::from_utf8(bytes.into()).expect("UTF-8")
    }

    pub async fn json(self) -> Value {
        serde_json::from_str(&self.text().await).expect("JSON")
    }

    /// What a 200 with JSON says, read to its end; anything else is a failure.
    pub(super) async fn said(self) -> Result<Value, Failure> {
        let status = self.status;
        let body = axum::body::to_bytes(self.body, usize::MAX).await;
        let body = body.map_err(|error| Failure::Exited(error.to_string()))?;
        let said = serde_json::from_slice(&body).ok().filter(|_| status == StatusCode::OK);
        said.ok_or_else(|| Failure::Error(format!("{status}: {}", String::from_utf8_lossy(&body))))
    }

    /// Of a buffered answer.
    pub(super) fn from_json(answer: &Value) -> Option<Answer> {
        let body = answer["body"].as_str().unwrap_or_default().to_owned();
        Answer::new(answer, Body::from(body))
    }

    fn new(head: &Value, body: Body) -> Option<Answer> {
        let status = u16::try_from(head["statusCode"].as_u64()?).ok()?;
        let mut headers = HeaderMap::new();
        for (name, value) in head["headers"].as_object()? {
            let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            for value in values {
                let value = HeaderValue::from_str(value.as_str()?).ok()?;
                headers.append(HeaderName::from_bytes(name.as_bytes()).ok()?, value);
            }
        }
        let status = StatusCode::from_u16(status).ok()?;
        Some(Answer { status, headers, body })
    }
}

/// A streamed answer that is arriving.
pub(super) struct Arriving {
    stream: BodyDataStream,
    body: mpsc::UnboundedSender<Result<Bytes, axum::Error>>,
}

/// Reads the head of a streamed answer. What follows comes as it is read with [`Arriving::finish`].
pub(super) async fn begin(body: Body) -> Result<(Answer, Arriving), String> {
    let mut stream = body.into_data_stream();
    let mut read = BytesMut::new();
    let head_end = loop {
        let end = read.windows(END_OF_HEAD.len()).position(|window| window == END_OF_HEAD);
        if let Some(end) = end {
            break end;
        }
        match stream.next().await {
            Some(Ok(chunk)) => read.extend_from_slice(&chunk),
            Some(Err(error)) => return Err(format!("the answer broke off in its head: {error}")),
            None => return Err("the answer ended in its head".into()),
        }
    };
    let rest = read.split_off(head_end + END_OF_HEAD.len()).freeze();
    read.truncate(head_end);
    let head: Value = serde_json::from_slice(&read).map_err(|error| format!("the head is no JSON: {error}"))?;
    let (body, arriving) = mpsc::unbounded_channel();
    if !rest.is_empty() {
        let _ = body.send(Ok(rest));
    }
    let arriving = futures::stream::unfold(arriving, async |mut arriving| Some((arriving.recv().await?, arriving)));
    let answer = Answer::new(&head, Body::from_stream(arriving)).ok_or(format!("no head of an answer: {head}"))?;
    Ok((answer, Arriving { stream, body }))
}

impl Arriving {
    /// Hands on what comes, live. A reader that has gone stops nothing, as on Lambda.
    pub(super) async fn finish(mut self) {
        while let Some(chunk) = self.stream.next().await {
            let broke_off = chunk.is_err();
            let _ = self.body.send(chunk);
            if broke_off {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_head_may_come_in_any_pieces() {
        let whole = b"{\"statusCode\":201,\"headers\":{\"a\":\"b\"},\"cookies\":[]}\0\0\0\0\0\0\0\0data: 1\n\n";
        for size in [1, 7, whole.len()] {
            let pieces: Vec<_> = whole
                .chunks(size)
                .map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)))
                .collect();
            let body = Body::from_stream(futures::stream::iter(pieces));
            let (answer, arriving) = begin(body).await.unwrap();
            arriving.finish().await;
            assert_eq!(
                (answer.status, &answer.headers["a"]),
                (StatusCode::CREATED, &HeaderValue::from_static("b"))
            );
            assert_eq!(answer.text().await, "data: 1\n\n");
        }
        assert!(begin(Body::from("{\"statusCode\":201}\0\0\0")).await.is_err());
    }
}
