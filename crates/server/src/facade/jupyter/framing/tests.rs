//! Tests of the framings: what goes out comes back, and nothing else is taken.

use axum::extract::ws::Message as WebSocketMessage;
use bytes::Bytes;
use serde_json::json;

use super::{FrameError, Framing, decode_binary, decode_text, encode};
use crate::facade::jupyter::message::{Channel, KernelMessage, Parent};

fn message(buffers: Vec<Bytes>) -> KernelMessage {
    let mut message = KernelMessage::new(
        Channel::Iopub,
        "stream",
        &Parent::none(),
        &json!({"name": "stdout", "text": "hé"}),
    );
    message.buffers = buffers;
    message
}

fn decoded(framing: Framing, message: &KernelMessage) -> super::Received {
    match encode(framing, message) {
        WebSocketMessage::Text(text) => decode_text(framing, &text).unwrap(),
        WebSocketMessage::Binary(frame) => decode_binary(framing, &frame).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_survive_both_framings() {
    for framing in [Framing::Json, Framing::V1] {
        for buffers in [vec![], vec![Bytes::from_static(b"\x00\xff"), Bytes::new()]] {
            let sent = message(buffers.clone());
            let back = decoded(framing, &sent);
            assert_eq!(back.channel, Channel::Iopub);
            assert_eq!(back.header.msg_type, "stream");
            assert_eq!(back.content.get(), sent.content.get());
            assert_eq!(back.buffers, buffers);
        }
    }
}

#[test]
fn frames_cut_at_any_byte_are_refused_and_break_nothing() {
    for framing in [Framing::Json, Framing::V1] {
        let WebSocketMessage::Binary(frame) =
            encode(framing, &message(vec![Bytes::from_static(b"abc")]))
        else {
            panic!("it has a buffer")
        };
        for length in 0..frame.len() {
            let mut changed = frame.to_vec();
            changed[length] ^= 0xff;
            // Either outcome is fine; a panic is not.
            let _ = decode_binary(framing, &changed.into());
            let _ = decode_binary(framing, &frame.slice(..length));
        }
        for offset in [0_u64, 1, u64::MAX, 1 << 32] {
            let mut changed = frame.to_vec();
            changed[8..16].copy_from_slice(&offset.to_le_bytes());
            let _ = decode_binary(framing, &changed.into());
        }
    }
    assert_eq!(decode_binary(Framing::V1, &Bytes::new()).unwrap_err(), FrameError::Offsets);
    assert_eq!(decode_text(Framing::V1, "{}").unwrap_err(), FrameError::Text);
    assert_eq!(decode_text(Framing::Json, "{}").unwrap_err(), FrameError::Json);
    assert_eq!(decode_text(Framing::Json, &"[".repeat(100_000)).unwrap_err(), FrameError::Json);
}

#[test]
fn missing_channel_is_shell_and_unknown_fields_are_left_alone() {
    let text =
        r#"{"header": {"msg_id": "1", "msg_type": "execute_request", "extra": [1]}, "more": {}}"#;
    let received = decode_text(Framing::Json, text).unwrap();
    assert_eq!(received.channel, Channel::Shell);
    assert_eq!(received.content.get(), "{}");
    assert_eq!(received.header.msg_type, "execute_request");
}

#[test]
fn long_headers_are_refused() {
    let long = "x".repeat(20_000);
    let text = format!(r#"{{"header": {{"msg_id": "1", "msg_type": "a", "session": "{long}"}}}}"#);
    assert_eq!(decode_text(Framing::Json, &text).unwrap_err(), FrameError::Json);
}
