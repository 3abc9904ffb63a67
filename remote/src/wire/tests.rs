//! The vectors of `docs/wire.md`, and what any bytes may do to the decoder.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use lockkeeper_core::trace::TraceContext;
use lockkeeper_core::{FencingToken, Lineage};
use proptest::collection::vec;
use proptest::prelude::*;
use tokio_util::codec::{Decoder, Encoder};
use uuid::Uuid;

use super::*;

const LIMIT: u32 = 1024 * 1024;

fn encode(frame: &Frame) -> BytesMut {
    let mut out = BytesMut::new();
    FrameCodec::new(LIMIT).encode(frame, &mut out).unwrap();
    out
}

/// One frame of each kind, under the name of its vector in `docs/wire.md`.
fn samples() -> Vec<(&'static str, Frame)> {
    let token = FencingToken::new(Lineage::new(0x0102), 7, Uuid::from_u128(0xABCD));
    let fault = Fault {
        code: 2,
        outcome: 1,
        text: "no endpoint \"x\"".to_owned(),
    };
    let trace = TraceContext {
        trace_id: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
        span_id: 0xb7ad_6b71_6920_3331,
    };
    vec![
        (
            "connect",
            Frame::Connect(Connect {
                request: 1,
                endpoint: "counter".to_owned(),
                gateway: "example.Counter".to_owned(),
                gateway_version: 1,
                token: None,
                methods: vec!["Add".to_owned(), "Get".to_owned()],
                shapes: vec![],
            }),
        ),
        (
            "connect-fenced",
            Frame::Connect(Connect {
                request: 2,
                endpoint: "c".to_owned(),
                gateway: "g".to_owned(),
                gateway_version: 3,
                token: Some(token),
                methods: vec![],
                shapes: vec![],
            }),
        ),
        (
            "connect-shaped",
            Frame::Connect(Connect {
                request: 3,
                endpoint: "c".to_owned(),
                gateway: "g".to_owned(),
                gateway_version: 1,
                token: None,
                methods: vec!["Add".to_owned()],
                shapes: vec![0x0123_4567_89ab_cdef],
            }),
        ),
        (
            "connected",
            Frame::Connected(Connected {
                request: 1,
                session: 5,
                grant: Grant {
                    messages: 16,
                    bytes: 1024,
                },
            }),
        ),
        (
            "refused",
            Frame::Refused(Refused {
                request: 2,
                fault: fault.clone(),
            }),
        ),
        (
            "ended",
            Frame::Ended(Ended {
                session: 5,
                fault: fault.clone(),
            }),
        ),
        (
            "credit",
            Frame::Credit(Credit {
                session: 5,
                grant: Grant {
                    messages: 4,
                    bytes: 260,
                },
            }),
        ),
        ("disconnect", Frame::Disconnect(Disconnect { session: 5 })),
        (
            "call",
            Frame::Call(Call {
                call: 9,
                session: 5,
                method: 0,
                time_left_ms: 10_000,
                trace: None,
                payload: Bytes::from_static(&[0x91, 0x05]),
            }),
        ),
        (
            "tell",
            Frame::Tell(Tell {
                session: 5,
                method: 1,
                trace: None,
                payload: Bytes::from_static(&[0x90]),
            }),
        ),
        (
            "call-traced",
            Frame::Call(Call {
                call: 9,
                session: 5,
                method: 0,
                time_left_ms: 10_000,
                trace: Some(Box::new(trace)),
                payload: Bytes::from_static(&[0x91, 0x05]),
            }),
        ),
        (
            "tell-traced",
            Frame::Tell(Tell {
                session: 5,
                method: 1,
                trace: Some(Box::new(trace)),
                payload: Bytes::from_static(&[0x90]),
            }),
        ),
        (
            "reply",
            Frame::Reply(Reply {
                call: 9,
                payload: Bytes::from_static(&[0x05]),
            }),
        ),
        ("failure", Frame::Failure(Failure { call: 9, fault })),
        ("cancel", Frame::Cancel(Cancel { call: 9 })),
        ("ping", Frame::Ping(Ping { nonce: 1 })),
        ("pong", Frame::Pong(Pong { nonce: 1 })),
        (
            "goodbye",
            Frame::Goodbye(Goodbye {
                reason: Farewell::Shutdown,
                text: "bye".to_owned(),
            }),
        ),
        (
            "chunk",
            Frame::Chunk(Chunk {
                transfer: 3,
                progress: Progress::Last,
                size: 6,
                payload: Bytes::from_static(&[0x12, 0, 0, 0, 9, 5]),
            }),
        ),
    ]
}

fn sample_preface() -> Preface {
    Preface {
        versions: VersionRange { min: 1, max: 1 },
        incarnation: Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff),
        frame_limit: 64 * 1024 * 1024,
        application: "app 1".to_owned(),
        listening: "127.0.0.1:7000".to_owned(),
        nonce: None,
    }
}

/// The blocks ```` ```vector NAME ```` of the page, as bytes; text after `;` is a comment.
fn vectors_of_the_page() -> BTreeMap<String, Vec<u8>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/wire.md");
    let page = std::fs::read_to_string(path).unwrap();
    let mut vectors = BTreeMap::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line.strip_prefix("```vector ") else {
            continue;
        };
        let mut bytes = Vec::new();
        for line in lines.by_ref().take_while(|line| !line.starts_with("```")) {
            let hex = line.split(';').next().unwrap();
            for byte in hex.split_whitespace() {
                bytes.push(u8::from_str_radix(byte, 16).unwrap());
            }
        }
        assert!(
            vectors.insert(name.trim().to_owned(), bytes).is_none(),
            "{name} twice"
        );
    }
    vectors
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x} ")).collect()
}

#[test]
fn each_frame_is_byte_for_byte_what_the_page_says() {
    let mut page = vectors_of_the_page();
    for (name, frame) in samples() {
        let ours = encode(&frame);
        let theirs = page.remove(name).unwrap_or_default();
        assert_eq!(hex(&ours), hex(&theirs), "vector {name}");
        let mut bytes = BytesMut::from(&theirs[..]);
        assert_eq!(
            FrameCodec::new(LIMIT).decode(&mut bytes).unwrap(),
            Some(frame)
        );
        assert!(bytes.is_empty());
    }
    let mut ours = BytesMut::new();
    sample_preface().encode(&mut ours).unwrap();
    let theirs = page.remove("preface").unwrap_or_default();
    assert_eq!(hex(&ours), hex(&theirs), "vector preface");
    let proves = Preface {
        nonce: Some([7; 32]),
        ..sample_preface()
    };
    let mut ours = BytesMut::new();
    proves.encode(&mut ours).unwrap();
    let theirs = page.remove("preface-with-proof").unwrap_or_default();
    assert_eq!(hex(&ours), hex(&theirs), "vector preface-with-proof");
    assert_eq!(Preface::decode(ours.split_off(HEAD).freeze()), Ok(proves));
    assert!(page.is_empty(), "vectors without a frame: {page:?}");
}

#[test]
fn a_fenced_ask_of_16_bytes_takes_at_most_40_each_way() {
    // MessagePack: an array of one, bin8 of 16.
    let payload = Bytes::from_static(&[0; 19]);
    let call = Frame::Call(Call {
        call: 1,
        session: 1,
        method: 0,
        time_left_ms: 1,
        trace: None,
        payload,
    });
    assert!(encode(&call).len() <= 40, "{}", encode(&call).len());
    let reply = Frame::Reply(Reply {
        call: 1,
        payload: Bytes::from_static(&[0; 18]),
    });
    assert!(encode(&reply).len() <= 40);
}

#[test]
fn a_length_over_the_limit_is_refused_before_anything_is_allocated() {
    let mut bytes = BytesMut::from(&[0xFF, 0xFF, 0xFF, 0xFF, 0x10][..]);
    let capacity = bytes.capacity();
    let error = FrameCodec::new(LIMIT).decode(&mut bytes).unwrap_err();
    assert_eq!(
        error,
        WireError::FrameTooLong {
            size: 0xFFFF_FFFF,
            limit: u64::from(LIMIT)
        }
    );
    assert_eq!(bytes.capacity(), capacity);
}

#[test]
fn an_announced_frame_is_not_allocated_before_its_bytes_come() {
    let mut bytes = BytesMut::from(&LIMIT.to_be_bytes()[..]);
    assert_eq!(FrameCodec::new(LIMIT).decode(&mut bytes).unwrap(), None);
    assert!(bytes.capacity() <= 128 * 1024, "{}", bytes.capacity());
}

#[test]
fn a_frame_over_the_limit_is_not_written() {
    let frame = |size| {
        let payload = Bytes::from(vec![0; size]);
        Frame::Reply(Reply { call: 1, payload })
    };
    let fits = usize::try_from(LIMIT).unwrap() - 5;
    let mut out = BytesMut::from(&b"before"[..]);
    let error = FrameCodec::new(LIMIT)
        .encode(&frame(fits + 1), &mut out)
        .unwrap_err();
    let limit = u64::from(LIMIT);
    assert_eq!(
        error,
        WireError::FrameTooLong {
            size: limit + 1,
            limit
        }
    );
    assert_eq!(&out[..], b"before");
    FrameCodec::new(LIMIT)
        .encode(&frame(fits), &mut out)
        .unwrap();
    assert_eq!(out.len(), 6 + 4 + usize::try_from(LIMIT).unwrap());
}

#[test]
fn unknown_kinds_and_wrong_lengths_are_named() {
    let decode = |bytes: &[u8]| FrameCodec::new(LIMIT).decode(&mut BytesMut::from(bytes));
    assert_eq!(decode(&[0, 0, 0, 0]), Err(WireError::EmptyFrame));
    assert_eq!(
        decode(&[0, 0, 0, 1, 0x32]),
        Err(WireError::UnknownKind { kind: 0x32 })
    );
    assert_eq!(
        decode(&[0, 0, 0, 3, 0x14, 0, 0]),
        Err(WireError::Truncated {
            frame: "Cancel",
            field: "call"
        })
    );
    assert_eq!(
        decode(&[0, 0, 0, 6, 0x14, 0, 0, 0, 9, 9]),
        Err(WireError::TrailingBytes {
            frame: "Cancel",
            size: 1
        })
    );
}

#[test]
fn a_trace_of_zeros_is_no_trace() {
    let kinds = [(0x15, 14), (0x16, 6)];
    for (kind, fields) in kinds {
        for (trace, span, named) in [(0, 1, "trace"), (1, 0, "span")] {
            let mut body = vec![kind];
            body.extend(u128::to_be_bytes(trace));
            body.extend(u64::to_be_bytes(span));
            body.extend(std::iter::repeat_n(0, fields));
            match Frame::from_body(Bytes::from(body)) {
                Err(WireError::BadValue { field, value, .. }) => {
                    assert_eq!((field, value), (named, 0));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_long_text_is_cut_at_a_character() {
    let text = "ä".repeat(4096);
    let fault = Fault {
        code: 0,
        outcome: 2,
        text,
    };
    let mut bytes = encode(&Frame::Failure(Failure { call: 1, fault }));
    let Some(Frame::Failure(failure)) = FrameCodec::new(LIMIT).decode(&mut bytes).unwrap() else {
        panic!("no failure");
    };
    assert_eq!(failure.fault.text, "ä".repeat(2048));
}

#[test]
fn the_highest_common_version_is_used() {
    let range = |min, max| VersionRange { min, max };
    assert_eq!(range(1, 3).highest_common(range(2, 5)), Some(3));
    assert_eq!(range(2, 5).highest_common(range(1, 3)), Some(3));
    assert_eq!(range(1, 1).highest_common(range(2, 3)), None);
}

#[test]
fn a_preface_of_a_later_version_may_have_more_fields() {
    let mut bytes = BytesMut::new();
    sample_preface().encode(&mut bytes).unwrap();
    let mut body = bytes.split_off(HEAD);
    body.extend_from_slice(b"\0later");
    assert_eq!(Preface::decode(body.freeze()), Ok(sample_preface()));
}

#[test]
fn a_stranger_is_recognised_by_the_first_bytes() {
    let error = Preface::body_length(b"GET / HTTP").unwrap_err();
    assert_eq!(
        error,
        WireError::WrongProtocol {
            found: *b"GET / HT"
        }
    );
}

proptest! {
    #[test]
    fn a_stream_may_be_cut_anywhere(cuts in vec(1_usize..40, 1..60)) {
        let frames: Vec<_> = samples().into_iter().map(|(_, frame)| frame).collect();
        let mut stream = BytesMut::new();
        for frame in &frames {
            stream.extend_from_slice(&encode(frame));
        }
        let mut codec = FrameCodec::new(LIMIT);
        let (mut buffer, mut decoded) = (BytesMut::new(), Vec::new());
        for cut in cuts.iter().cycle() {
            let piece = stream.split_to((*cut).min(stream.len()));
            buffer.extend_from_slice(&piece);
            while let Some(frame) = codec.decode(&mut buffer).unwrap() {
                decoded.push(frame);
            }
            if stream.is_empty() {
                break;
            }
        }
        prop_assert_eq!(decoded, frames);
    }

    #[test]
    fn garbage_is_an_error_or_a_frame_and_never_a_panic(bytes in vec(any::<u8>(), 0..300)) {
        let mut buffer = BytesMut::from(&bytes[..]);
        let mut codec = FrameCodec::new(128);
        while let Ok(Some(_)) = codec.decode(&mut buffer) {}
        prop_assert!(buffer.capacity() <= 128 * 1024);
    }

    #[test]
    fn a_changed_byte_in_a_frame_never_panics(
        which in 0_usize..samples().len(),
        at in 0_usize..200,
        value in any::<u8>(),
    ) {
        let (_, frame) = &samples()[which];
        let mut bytes = encode(frame);
        let at = at % bytes.len();
        bytes[at] = value;
        let _ = FrameCodec::new(LIMIT).decode(&mut bytes);
    }

    #[test]
    fn a_garbled_preface_never_panics(bytes in vec(any::<u8>(), 0..80)) {
        let _ = Preface::decode(Bytes::from(bytes));
    }

    #[test]
    fn what_was_encoded_is_what_is_decoded(
        call in any::<u32>(), session in any::<u32>(), method in any::<u16>(),
        time_left_ms in any::<u32>(), payload in vec(any::<u8>(), 0..200),
        text in ".{0,40}",
    ) {
        let payload = Bytes::from(payload);
        let frames = [
            Frame::Call(Call { call, session, method, time_left_ms, trace: None, payload: payload.clone() }),
            Frame::Tell(Tell { session, method, trace: None, payload }),
            Frame::Failure(Failure { call, fault: Fault { code: method, outcome: 1, text } }),
        ];
        for frame in frames {
            let mut bytes = encode(&frame);
            prop_assert_eq!(FrameCodec::new(LIMIT).decode(&mut bytes).unwrap(), Some(frame));
        }
    }
}
