//! What the tests across crates share: the addresses of the real servers.

/// The code in the README and in the guides compiles and, unless it says `no_run`, runs.
#[cfg(doctest)]
mod pages {
    macro_rules! pages {
        ($($name:ident = $path:literal;)*) => {
            $(#[doc = include_str!(concat!("../../", $path))] pub struct $name;)*
        };
    }

    pages! {
        Readme = "README.md";
        Canal = "docs/canal.md";
        Lockkeeper = "docs/lockkeeper.md";
        SecondProcess = "docs/start/second-process.md";
        JavaCanal = "docs/start/java-canal.md";
        RegionStart = "docs/start/region.md";
        FailOver = "docs/tasks/fail-over.md";
        RollingUpgrade = "docs/tasks/rolling-upgrade.md";
        TimeOuts = "docs/tasks/time-outs.md";
        BackPressure = "docs/tasks/back-pressure.md";
        Choosing = "docs/tasks/choosing.md";
        ExactlyOnceSql = "docs/tasks/exactly-once-sql.md";
        RowsFromBefore = "docs/tasks/rows-from-before.md";
        StartPosition = "docs/tasks/start-position.md";
        Testing = "docs/tasks/testing.md";
        Workers = "docs/tasks/workers.md";
        Kubernetes = "docs/tasks/kubernetes.md";
        Metrics = "docs/tasks/metrics.md";
        Console = "docs/tasks/console.md";
    }
}
