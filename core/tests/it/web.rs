//! What the console shows of a service.

use actix_web::{
    App,
    http::StatusCode,
    test::{self},
};
use lockkeeper_core::{prelude::*, web::Console};

use crate::support::*;

/// Asks a console that has not looked yet.
async fn get(service: &RpcService, path: &str) -> (StatusCode, String) {
    let console = Console::builder(service.status()).build().unwrap();
    let app = test::init_service(App::new().service(console.scope("/console"))).await;
    let request = test::TestRequest::with_uri(&format!("/console{path}")).to_request();
    let response = test::call_service(&app, request).await;
    let status = response.status();
    let body = test::read_body(response).await;
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[test]
fn an_endpoint_is_drawn_and_the_process_is_ready_while_it_is_started() {
    run(async {
        let setup = started().await;
        setup.gateway.send(Add(1)).await.unwrap();
        let (status, page) = get(&setup.service, "/").await;
        assert_eq!(status, StatusCode::OK);
        for text in ["endpoint test", "STARTED", "handled", "dead letters"] {
            assert!(page.contains(text), "{text} is not in {page}");
        }
        assert_eq!(get(&setup.service, "/ready").await.0, StatusCode::OK);
        setup.server.stop().await.unwrap();
        let (status, reasons) = get(&setup.service, "/ready").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(
            reasons.contains("endpoint test") && reasons.contains("it is not started"),
            "{reasons}"
        );
    });
}
