//! Which changes of a type change its number.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::*;

#[derive(Deserialize)]
#[expect(dead_code, reason = "only its shape matters")]
struct Order {
    id: u64,
    customer: u64,
    note: Option<String>,
}

mod other {
    use serde::Deserialize;

    macro_rules! types {
        ($($name:ident { $($field:ident: $type:ty),* })*) => {$(
            #[derive(Deserialize)]
            #[expect(dead_code, reason = "only its shape matters")]
            pub(super) struct $name { $($field: $type),* }
        )*};
    }

    types! {
        Same { id: u64, customer: u64, note: Option<String> }
        Moved { customer: u64, id: u64, note: Option<String> }
        More { id: u64, customer: u64, note: Option<String>, paid: bool }
        Less { id: u64, customer: u64 }
        OtherType { id: u64, customer: u64, note: Option<Vec<u8>> }
        NotOptional { id: u64, customer: u64, note: String }
        Renamed { id: u64, client: u64, note: Option<String> }
    }
}

#[test]
fn a_field_that_is_moved_added_removed_renamed_or_changed_changes_the_number() {
    let order = of::<Order>();
    assert_eq!(order, of::<Order>());
    assert_eq!(order, of::<other::Same>());
    let others = [
        of::<other::Moved>(),
        of::<other::More>(),
        of::<other::Less>(),
        of::<other::OtherType>(),
        of::<other::NotOptional>(),
        of::<other::Renamed>(),
    ];
    for (place, number) in others.into_iter().enumerate() {
        assert_ne!(order, number, "{place}");
    }
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only its shape matters")]
enum Change {
    Nothing,
    Insert(Row),
    Update { before: Row, after: Row },
    Move(u32, Inner),
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only its shape matters")]
struct Row(Vec<Option<i64>>);

#[derive(Deserialize)]
#[expect(dead_code, reason = "only its shape matters")]
enum Inner {
    One(u8),
    Two(u16),
    Three(u32),
}

mod deep {
    use serde::Deserialize;

    use super::Row;

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape matters")]
    pub(super) enum Change {
        Nothing,
        Insert(Row),
        Update { before: Row, after: Row },
        Move(u32, Inner),
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its shape matters")]
    pub(super) enum Inner {
        One(u8),
        Two(u16),
        Three(u64),
    }
}

#[test]
fn every_variant_is_looked_into_also_of_an_enum_within_another() {
    assert_eq!(of::<Change>(), of::<Change>());
    // They differ in the last variant of the enum in the last variant.
    assert_ne!(of::<Change>(), of::<deep::Change>());
}

#[test]
fn what_is_not_on_the_wire_does_not_count() {
    assert_eq!(of::<Row>(), of::<Vec<Option<i64>>>());
    assert_eq!(of::<BTreeMap<u8, u8>>(), of::<HashMap<u8, u8>>());
    assert_eq!(of::<Box<u8>>(), of::<u8>());
    assert_ne!(of::<u8>(), of::<u16>());
    assert_ne!(of::<(u8, u8)>(), of::<[u8; 3]>());
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only its shape matters")]
struct Tree {
    left: Option<Box<Tree>>,
    middle: Vec<Tree>,
    right: BTreeMap<String, Tree>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only its shape matters")]
enum Expression {
    Sum(Box<Expression>, Box<Expression>),
    Not(Box<Expression>),
    Value(i64),
}

#[test]
fn a_type_that_holds_itself_has_a_number() {
    assert_eq!(of::<Tree>(), of::<Tree>());
    assert_eq!(of::<Expression>(), of::<Expression>());
    assert_ne!(of::<Tree>(), of::<Expression>());
}

#[test]
fn a_type_that_refuses_the_stand_in_is_known_so_far() {
    assert_eq!(of::<(u8, Uuid)>(), of::<(u8, Uuid)>());
    assert_ne!(of::<(u8, Uuid)>(), of::<(u16, Uuid)>());
    assert_ne!(of::<(Uuid, u8)>(), of::<(u8, Uuid)>());
    assert_ne!(of::<NonZeroU32>(), of::<Duration>());
}

struct Panics;

impl<'de> Deserialize<'de> for Panics {
    fn deserialize<D: serde::Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        let text = String::deserialize(value)?;
        assert!(!text.is_empty(), "no text");
        Ok(Self)
    }
}

#[test]
fn a_type_that_panics_is_known_so_far() {
    assert_eq!(of::<(u8, Panics)>(), of::<(u8, Panics)>());
    assert_ne!(of::<(u8, Panics)>(), of::<(u16, Panics)>());
}

#[derive(Serialize)]
struct WriteOnly;

#[test]
fn a_type_that_this_side_cannot_read_is_not_known() {
    let known = &&Shape::<Order>::default();
    assert_eq!(known.number(), of::<Order>());
    let unknown = &&Shape::<WriteOnly>::default();
    assert_eq!(unknown.number(), 0);
    assert_eq!(of_method(of::<Order>(), 0), 0);
    assert_ne!(
        of_method(of::<u8>(), of::<u16>()),
        of_method(of::<u16>(), of::<u8>())
    );
}
