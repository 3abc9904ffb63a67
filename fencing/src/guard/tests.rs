//! Tests of the guard: behaviour, every interleaving of the real procedures, and a real folder.

mod adopting;
mod behaviour;
mod explore;
mod folder;
mod interleavings;
mod lineage;
mod listing;
mod pruning;
