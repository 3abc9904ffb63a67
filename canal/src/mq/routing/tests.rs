//! Rules that are none, and what no recorded line of Canal's has.

use super::*;
use crate::mq::golden::parsed;

#[test]
fn javas_hash_of_a_text() {
    for (text, hash) in [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("polygenelubricants", i32::MIN),
    ] {
        assert_eq!(hash::of(text), hash, "{text}");
    }
    // Over UTF-16 units: two for a character beyond U+FFFF.
    assert_eq!(hash::of("🚀"), 0xd83d * 31 + 0xde80);
}

#[test]
fn the_hash_that_has_no_absolute_value_has_a_partition() {
    for partitions in 1..40 {
        assert!(hash::partition(i32::MIN, partitions) < partitions);
    }
    assert_eq!(hash::partition(-7, 5), 2);
    assert_eq!(hash::partition(7, 0), 0);
}

#[test]
fn a_rule_that_is_none_is_refused() {
    let refused = |result: Result<MqRouting, MqError>, rule: &str| match result {
        Err(MqError::InvalidArgument(text)) => assert!(text.contains(rule), "{text}"),
        other => panic!("{rule}: {other:?}"),
    };
    for rule in ["shop.(", ":shop.orders", "topic:"] {
        refused(MqRouting::to("t").with_dynamic_topic(rule), rule);
    }
    for rule in ["shop.orders:", "shop.orders:^", ":id", "shop.[:id"] {
        let named = rule.split(':').next().unwrap();
        refused(MqRouting::to("t").with_partition_hash(rule), named);
    }
    for rule in ["topic", "topic:0", "topic:x", "topic:-1"] {
        refused(MqRouting::to("t").with_dynamic_topic_partitions(rule), rule);
    }
    for routing in [MqRouting::to(""), MqRouting::to("t").with_partitions(0)] {
        assert!(routing.check().is_err(), "{routing:?}");
    }
}

#[test]
fn an_expression_that_would_take_all_memory_is_refused() {
    let result = MqRouting::to("t").with_dynamic_topic("(((((a*)*)*)*)*){1000}{1000}{1000}");
    assert!(matches!(result, Err(MqError::InvalidArgument(_))));
}

#[test]
fn rows_are_spread_over_as_many_partitions_as_are_set_or_there() {
    let many = parsed("many");
    let routing = MqRouting::to("t")
        .with_partition_hash(r".*\..*:$pk$")
        .unwrap();
    let highest = |routing: &MqRouting, topic: &str, existing| {
        let split = routing.split(&many, topic, existing).unwrap();
        split.iter().map(|(partition, _)| *partition).max().unwrap()
    };
    assert!(highest(&routing, "t", 8) > 2);
    let three = routing.clone().with_partitions(3);
    assert!(highest(&three, "t", 8) <= 2);
    let by_topic = three
        .with_dynamic_topic_partitions("wide.*:8,narrow:1")
        .unwrap();
    assert!(highest(&by_topic, "wide_one", 8) > 2);
    assert_eq!(highest(&by_topic, "narrow", 8), 0);
}

#[test]
fn a_partition_that_the_topic_lacks_is_an_error_and_not_another_one() {
    let routing = MqRouting::to("t").with_partition(4);
    let wanted = MqError::UnknownPartition {
        topic: "t".to_owned(),
        partition: 4,
        partitions: 4,
    };
    assert_eq!(routing.split(&parsed("insert"), "t", 4), Err(wanted));
    assert!(routing.split(&parsed("insert"), "t", 5).is_ok());
}
