//! Resources that close with their endpoint.

use std::sync::{Arc, Mutex};

use lockkeeper_core::{endpoint::Resources, prelude::*};

use crate::support::*;

type Log = Arc<Mutex<Vec<&'static str>>>;

fn register(resources: &Resources, log: &Log, name: &'static str, fails: bool) {
    let log = Arc::clone(log);
    resources
        .register(name, move || async move {
            tokio::task::yield_now().await;
            log.lock().unwrap().push(name);
            if fails { Err("no disk".into()) } else { Ok(()) }
        })
        .unwrap();
}

/// 1.4
#[test]
fn resources_are_closed_once_after_on_stop_the_last_first() {
    run(async {
        let mut setup = started().await;
        let log = Log::default();
        let resources = setup.server.resources();
        for name in ["file", "connection", "child"] {
            register(&resources, &log, name, false);
        }
        let removed = resources.register("other", || async { panic!("was taken out") });
        assert!(resources.unregister(removed.unwrap()));
        setup.server.terminate().await.unwrap();
        assert_eq!(setup.seen.recv().await, Some(Seen::Stopped));
        assert_eq!(*log.lock().unwrap(), ["child", "connection", "file"]);
    });
}

/// 1.4
#[test]
fn a_resource_that_fails_to_close_is_the_terminations_error_and_the_others_close() {
    run(async {
        let setup = started().await;
        let log = Log::default();
        let resources = setup.server.resources();
        register(&resources, &log, "file", false);
        register(&resources, &log, "connection", true);
        let error = setup.server.terminate().await.unwrap_err();
        assert_eq!(error.kind(), RpcErrorKind::LifecycleFailed);
        assert!(error.text().contains("connection"), "{error}");
        assert_eq!(*log.lock().unwrap(), ["connection", "file"]);
    });
}

/// 1.4
#[test]
fn registering_after_the_end_closes_the_resource_and_is_an_error() {
    run(async {
        let setup = started().await;
        let resources = setup.server.resources();
        register(&resources, &Log::default(), "file", false);
        setup.server.terminate().await.unwrap();
        let (closed, is_closed) = tokio::sync::oneshot::channel();
        let late = resources.register("late", move || async move {
            closed.send(()).unwrap();
            Ok(())
        });
        assert_eq!(kind(late), RpcErrorKind::Stopped);
        is_closed.await.unwrap();
    });
}

#[test]
fn a_panic_that_ends_the_endpoint_closes_its_resources_too() {
    run(async {
        let setup = started().await;
        let log = Log::default();
        register(&setup.server.resources(), &log, "file", false);
        let termination = setup.server.termination();
        assert!(setup.gateway.send(PanicLater).await.is_err());
        assert!(termination.await.is_err());
        assert_eq!(*log.lock().unwrap(), ["file"]);
    });
}
