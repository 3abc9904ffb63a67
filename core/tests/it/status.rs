//! What a console would show.

use lockkeeper_core::{prelude::*, status::StatusValue};

use crate::support::*;

#[test]
fn an_endpoint_and_the_dead_letters_show_their_counts() {
    run(async {
        let setup = started().await;
        setup.gateway.send(Add(1)).await.unwrap();
        setup.server.stop().await.unwrap();
        setup.gateway.do_send(Add(1));
        let find = |name: &str| {
            let sources = setup.service.status().sources();
            sources
                .iter()
                .find(|s| s.name() == name)
                .unwrap()
                .snapshot()
        };
        let endpoint = find("endpoint test");
        assert_eq!(
            endpoint.get("state"),
            Some(&StatusValue::Text("STOPPED".into()))
        );
        assert_eq!(endpoint.get("handled"), Some(&StatusValue::Count(1)));
        assert_eq!(
            find("dead letters").get("lost: not started"),
            Some(&StatusValue::Count(1))
        );
    });
}

#[test]
fn the_call_context_tells_method_caller_and_deadline() {
    run(async {
        let setup = started().await;
        assert!(CallContext::current().is_none());
        let mut setup = setup;
        let call = actix::spawn(setup.gateway.send(Wait));
        assert_eq!(setup.seen.recv().await, Some(Seen::Waiting));
        setup.hands.gate.notify_one();
        assert_eq!(call.await.unwrap().unwrap(), 7);
        assert!(CallContext::current().is_none());
    });
}
