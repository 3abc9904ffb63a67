//! serde over the columns of one image of a row.

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::column::{Column, Columns};
use super::content::Stretch;
use super::error::RowError;
use super::value::ValueDeserializer;

/// A row as a map from names to values, or as a sequence of values.
pub(super) struct RowDeserializer<'de> {
    columns: Columns<'de>,
}

impl<'de> RowDeserializer<'de> {
    pub(super) fn new(columns: Columns<'de>) -> Self {
        Self { columns }
    }
}

impl<'de> de::Deserializer<'de> for RowDeserializer<'de> {
    type Error = RowError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_map(RowAccess {
            rest: self.columns.iter(),
            stretch: self.columns.stretch(),
            current: None,
        })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_seq(RowAccess {
            rest: self.columns.iter(),
            stretch: self.columns.stretch(),
            current: None,
        })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, RowError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, RowError> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct map struct enum identifier ignored_any
    }
}

struct RowAccess<'de, I> {
    rest: I,
    stretch: Stretch<'de>,
    current: Option<Column<'de>>,
}

fn value<'de, S: DeserializeSeed<'de>>(
    column: Column<'de>,
    stretch: Stretch<'de>,
    seed: S,
) -> Result<S::Value, RowError> {
    seed.deserialize(ValueDeserializer::new(column, stretch))
        .map_err(|error| error.in_column(column))
}

impl<'de, I: ExactSizeIterator<Item = Column<'de>>> MapAccess<'de> for RowAccess<'de, I> {
    type Error = RowError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, RowError> {
        self.current = self.rest.next();
        let Some(column) = self.current else {
            return Ok(None);
        };
        let name = column
            .name_text()
            .ok_or_else(|| RowError::new("the column's name is not UTF-8").in_column(column))?;
        seed.deserialize(BorrowedStrDeserializer::new(name))
            .map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, RowError> {
        match self.current.take() {
            Some(column) => value(column, self.stretch, seed),
            None => Err(RowError::new("a value was asked for before its name")),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

impl<'de, I: ExactSizeIterator<Item = Column<'de>>> SeqAccess<'de> for RowAccess<'de, I> {
    type Error = RowError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, RowError> {
        self.rest
            .next()
            .map(|column| value(column, self.stretch, seed))
            .transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}
