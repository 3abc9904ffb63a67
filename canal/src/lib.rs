//! A client of Alibaba Canal's server.
