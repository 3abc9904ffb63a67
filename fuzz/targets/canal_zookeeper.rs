//! What servers and clients leave in ZooKeeper.
#![no_main]

lockkeeper_fuzz::target!(lockkeeper_canal::fuzzing::zookeeper);
