//! The main job: row changes of an orders table become totals per customer, exactly once,
//! although workers and the leading coordinator are killed on the way.
//!
//! From the data to the process: [`account`] says what one change does to one customer,
//! [`script`] makes the changes of the embedded source, [`totals`] and [`output`] are the region's
//! operators, [`judge`] compares what was
//! written with the truth, which [`database`] reads when the source is a real one. [`console`] shows
//! what goes on: [`relay`] tells it in each process, [`overview`] collects it.

pub mod account;
pub mod armed;
pub mod chaos;
pub mod cluster;
pub mod console;
pub mod database;
pub mod embedded;
pub mod job;
pub mod judge;
mod kept;
pub mod node;
pub mod options;
pub mod outcome;
pub mod output;
pub mod overview;
pub mod relay;
pub mod report;
pub mod rows;
pub mod run;
pub mod sabotage;
pub mod script;
pub mod totals;
pub mod truth;
