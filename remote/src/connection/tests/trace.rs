//! Traces: to whom they are told, and in which version.

use bytes::Bytes;
use lockkeeper_core::trace::TraceContext;

use super::*;
use crate::connection::event::Serve;

fn traced_frames() -> [Frame; 2] {
    let trace = || {
        let (trace_id, span_id) = (7, 8);
        Some(Box::new(TraceContext { trace_id, span_id }))
    };
    let call = Call {
        call: 1,
        session: 1,
        method: 0,
        time_left_ms: 1000,
        trace: trace(),
        payload: Bytes::new(),
    };
    let tell = Tell {
        session: 1,
        method: 0,
        trace: trace(),
        payload: Bytes::new(),
    };
    [Frame::Call(call), Frame::Tell(tell)]
}

#[test]
fn a_trace_reaches_who_serves_the_call() {
    let mut rig = Rig::new();
    rig.serve();
    for frame in traced_frames() {
        let actions = rig.receive(frame);
        let [
            Action::Serve {
                serve: Serve { trace, .. },
                ..
            }
            | Action::ServeTell { trace, .. },
        ] = &actions[..]
        else {
            panic!("{} actions", actions.len());
        };
        assert_eq!(trace.as_ref().map(|trace| trace.span_id), Some(8));
    }
}

#[test]
fn a_trace_is_a_violation_where_version_1_is_spoken() {
    for frame in traced_frames() {
        let mut rig = Rig::new();
        rig.machine = Connection::new(
            Settings {
                version: 1,
                ..settings()
            },
            rig.now,
        );
        rig.serve();
        let actions = rig.receive(frame);
        let Some(Action::Close(Loss::Protocol(text))) = actions.last() else {
            panic!("{} actions", actions.len());
        };
        assert!(text.contains("version 2"), "{text}");
    }
}
