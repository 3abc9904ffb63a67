//! Settings, statements and what their errors mean, without a database.

use super::*;

#[test]
fn settings_never_show_a_password() {
    let mut settings = SqlSettings::new("mysql://anna:geheim@db.example:3306/shop");
    settings.password = Some("secret".to_owned());
    let shown = format!("{settings:?} {}", settings.location());
    assert!(
        !shown.contains("geheim") && !shown.contains("secret"),
        "{shown}"
    );
    assert!(shown.contains("db.example:3306/shop"), "{shown}");
}

#[test]
fn statements_are_staged_in_parts_that_keep_their_order() {
    let statements: Vec<_> = (0..5_u64)
        .map(|n| {
            Statement::new("INSERT INTO t VALUES (?, ?)")
                .bind(n)
                .bind(vec![7_u8; PART_BYTES / 2])
        })
        .collect();
    let parts = encode(statements.clone()).unwrap();
    assert_eq!(parts.len(), 3);
    let back: Vec<Statement> = parts
        .iter()
        .flat_map(|part| rmp_serde::from_slice::<Vec<Statement>>(part).unwrap())
        .collect();
    assert_eq!(back, statements);
}

#[test]
fn a_server_that_is_not_there_is_worth_another_attempt_and_a_bad_url_is_not() {
    let refused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = refused.local_addr().unwrap();
    drop(refused);
    let sink = |url: String| {
        let settings = SqlSettings::new(url);
        SqlSink::<u64>::new(InstanceContext::alone("sink"), settings, |_, _| Ok(vec![]))
    };
    let error = sink(format!("mysql://anna@{address}/shop"))
        .sink()
        .abort_all_except(&[])
        .unwrap_err();
    assert!(matches!(error, OperatorError::Retry(_)), "{error}");
    let error = sink("http://anna:geheim@nowhere".to_owned())
        .sink()
        .abort_all_except(&[])
        .unwrap_err();
    assert!(matches!(error, OperatorError::Permanent(_)), "{error}");
    assert!(!error.to_string().contains("geheim"), "{error}");
}
