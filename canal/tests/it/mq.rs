//! Message queues: the contract on the queue in memory, and the two actors with faults in the queue.

mod connector;
mod forwarder;
mod measure;
pub(crate) mod support;

use lockkeeper_canal::mq::testing::{MemoryQueue, contract};

/// Makes a test of every contract: `$run` gives a producer, a consumer and a topic with two
/// partitions to each.
macro_rules! every_queue_contract {
    ($run:path) => {
        crate::mq::queue_contracts! { $run,
            messages_keep_their_order
            a_fetch_keeps_its_limits
            a_fetch_at_the_end_waits
            an_offset_that_is_not_there_is_an_error
            a_partition_that_is_not_there_is_an_error
        }

        #[test]
        fn a_topic_that_is_not_there_is_an_error() {
            $run(
                "a_topic_that_is_not_there_is_an_error",
                async |_, consumer, topic| {
                    let missing = format!("{topic}-missing");
                    contract::a_topic_that_is_not_there_is_an_error(&consumer, &missing).await;
                },
            );
        }
    };
}

macro_rules! queue_contracts {
    ($run:path, $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $run(stringify!($name), async |producer, consumer, topic| {
                    contract::$name(&producer, &consumer, &topic).await;
                });
            }
        )*
    };
}

pub(crate) use {every_queue_contract, queue_contracts};

fn on_the_queue_in_memory(
    _name: &str,
    contract: impl AsyncFnOnce(MemoryQueue, MemoryQueue, String),
) {
    let queue = MemoryQueue::default();
    queue.create("topic", 2);
    let topic = "topic".to_owned();
    actix_rt::System::new().block_on(contract(queue.clone(), queue, topic));
}

every_queue_contract!(on_the_queue_in_memory);
