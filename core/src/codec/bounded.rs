//! A deserializer around another one that counts every kind of nesting.
//!
//! `rmp-serde` counts arrays, maps and extensions. It does not count what nests without them: an
//! option or a newtype takes no byte of its own, and an enum's variant is read past its count. A
//! message whose type can nest in those would let a peer exhaust the stack, which ends the process.

use std::fmt;

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::MAX_DEPTH;

/// What is left of a message's limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    levels: u32,
    /// Of the whole message: each element takes one at least.
    bytes: u32,
}

impl Bounds {
    pub(super) fn of(message: &[u8]) -> Self {
        Self {
            levels: u32::try_from(MAX_DEPTH).unwrap_or(u32::MAX),
            // MessagePack announces no more than that.
            bytes: u32::try_from(message.len()).unwrap_or(u32::MAX),
        }
    }

    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        match self.levels.checked_sub(1) {
            Some(levels) => Ok(Self { levels, ..self }),
            None => Err(E::custom(format_args!(
                "the value nests deeper than {MAX_DEPTH} levels"
            ))),
        }
    }

    /// Refuses a length that cannot be true before anybody makes room for it.
    fn check<E: de::Error>(self, announced: Option<usize>) -> Result<(), E> {
        let bytes = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        match announced {
            Some(count) if count > bytes => Err(E::custom(format_args!(
                "{count} elements are announced in a message of {} bytes",
                self.bytes
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn around<T>(self, inner: T) -> Bounded<T> {
        Bounded {
            inner,
            bounds: self,
        }
    }
}

/// Something of serde's, whose parts are bounded too.
#[derive(Debug)]
pub(super) struct Bounded<T> {
    inner: T,
    bounds: Bounds,
}

/// What can hold no other value is read by the inner one alone.
macro_rules! plain {
    ($($name:ident)*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$name(visitor)
        }
    )*};
}

macro_rules! nesting {
    ($($name:ident($($argument:ident: $type:ty),*))*) => {$(
        #[inline]
        fn $name<V: Visitor<'de>>(
            self,
            $($argument: $type,)*
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.inner.$name($($argument,)* self.bounds.around(visitor))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Bounded<D> {
    type Error = D::Error;

    plain! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_u128 deserialize_f32 deserialize_f64
    }

    nesting! {
        deserialize_any() deserialize_char() deserialize_str() deserialize_string()
        deserialize_bytes() deserialize_byte_buf() deserialize_option() deserialize_unit()
        deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str)
        deserialize_seq()
        deserialize_tuple(size: usize)
        deserialize_tuple_struct(name: &'static str, size: usize)
        deserialize_map()
        deserialize_struct(name: &'static str, fields: &'static [&'static str])
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
        deserialize_identifier() deserialize_ignored_any()
    }

    #[inline]
    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! values {
    ($($name:ident: $type:ty)*) => {$(
        #[inline]
        fn $name<E: de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$name(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Bounded<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    values! {
        visit_bool: bool visit_i8: i8 visit_i16: i16 visit_i32: i32 visit_i64: i64
        visit_i128: i128 visit_u8: u8 visit_u16: u16 visit_u32: u32 visit_u64: u64
        visit_u128: u128 visit_f32: f32 visit_f64: f64 visit_char: char visit_str: &str
        visit_borrowed_str: &'de str visit_string: String visit_bytes: &[u8]
        visit_borrowed_bytes: &'de [u8] visit_byte_buf: Vec<u8>
    }

    #[inline]
    fn visit_none<E: de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    #[inline]
    fn visit_unit<E: de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(self.bounds.deeper()?.around(value))
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        let value = self.bounds.deeper()?.around(value);
        self.inner.visit_newtype_struct(value)
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        self.bounds.check(elements.size_hint())?;
        self.inner.visit_seq(self.bounds.deeper()?.around(elements))
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<V::Value, A::Error> {
        self.bounds.check(entries.size_hint())?;
        self.inner.visit_map(self.bounds.deeper()?.around(entries))
    }

    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(self.bounds.deeper()?.around(variant))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Bounded<S> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(self.bounds.around(value))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Bounded<A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<S>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error>
    where
        S: DeserializeSeed<'de>,
    {
        self.inner.next_element_seed(self.bounds.around(seed))
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Bounded<A> {
    type Error = A::Error;

    #[inline]
    fn next_key_seed<S>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error>
    where
        S: DeserializeSeed<'de>,
    {
        self.inner.next_key_seed(self.bounds.around(seed))
    }

    #[inline]
    fn next_value_seed<S>(&mut self, seed: S) -> Result<S::Value, A::Error>
    where
        S: DeserializeSeed<'de>,
    {
        self.inner.next_value_seed(self.bounds.around(seed))
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Bounded<A> {
    type Error = A::Error;
    type Variant = Bounded<A::Variant>;

    #[inline]
    fn variant_seed<S>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error>
    where
        S: DeserializeSeed<'de>,
    {
        let (value, variant) = self.inner.variant_seed(self.bounds.around(seed))?;
        Ok((value, self.bounds.around(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Bounded<A> {
    type Error = A::Error;

    #[inline]
    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    #[inline]
    fn newtype_variant_seed<S>(self, seed: S) -> Result<S::Value, A::Error>
    where
        S: DeserializeSeed<'de>,
    {
        self.inner.newtype_variant_seed(self.bounds.around(seed))
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, size: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.inner.tuple_variant(size, self.bounds.around(visitor))
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner
            .struct_variant(fields, self.bounds.around(visitor))
    }
}
