//! The stand-in for a message's bytes: notes what a type asks for and answers with the simplest
//! value of that kind.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
    value::U64Deserializer,
};

/// Beyond so many levels options and lists are empty, so that a type may hold itself.
const LEVELS: u32 = 16;

/// What is asked for beyond this is not noted: a bound for types that hold themselves many times.
const QUESTIONS: u32 = 4_096;

/// Passes over a type with enums.
const PASSES: u32 = 64;

/// What is known of a type so far.
#[derive(Default)]
pub(super) struct Known {
    hash: Fnv,
    questions: u32,
    passes: u32,
    /// Each enum's name: how many variants it has and how many were shown.
    enums: BTreeMap<&'static str, (usize, usize)>,
}

impl Known {
    /// True while a pass would show something new.
    pub(super) fn begin_pass(&mut self) -> bool {
        let is_first = self.passes == 0;
        let is_new = self.enums.values().any(|(count, shown)| shown < count);
        self.passes += 1;
        self.questions = 0;
        is_first || (is_new && self.passes <= PASSES)
    }

    pub(super) fn tracer(&mut self) -> Tracer<'_> {
        Tracer {
            known: self,
            level: 0,
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash.0
    }

    fn note(&mut self, kind: &str) {
        self.questions += 1;
        self.hash.write(kind);
    }

    /// The variant to be shown next.
    fn next_variant(&mut self, name: &'static str, count: usize) -> usize {
        let (_, shown) = self.enums.entry(name).or_insert((count, 0));
        *shown += 1;
        (*shown - 1) % count.max(1)
    }
}

/// FNV-1a: the same number in every build, and no secret.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn write(&mut self, text: &str) {
        // The end of a text is noted too.
        for byte in text.bytes().chain([0xFF]) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The type gave up, or was given up.
#[derive(Debug)]
pub(super) struct GivenUp;

impl Display for GivenUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the shape is known only so far")
    }
}

impl std::error::Error for GivenUp {}

impl Error for GivenUp {
    fn custom<T: Display>(_: T) -> Self {
        Self
    }
}

pub(super) struct Tracer<'a> {
    known: &'a mut Known,
    level: u32,
}

impl<'a> Tracer<'a> {
    fn note(&mut self, kind: &str) -> Result<(), GivenUp> {
        if self.level > 2 * LEVELS || self.known.questions > 2 * QUESTIONS {
            return Err(GivenUp);
        }
        self.known.note(kind);
        Ok(())
    }

    /// The same one level further in.
    fn within(self) -> Self {
        Self {
            level: self.level + 1,
            ..self
        }
    }

    /// `count` values, or none if this is deep already.
    fn parts(self, count: usize, may_be_empty: bool) -> Parts<'a> {
        let is_deep = self.level >= LEVELS || self.known.questions >= QUESTIONS;
        Parts {
            left: if may_be_empty && is_deep { 0 } else { count },
            tracer: self.within(),
        }
    }
}

macro_rules! scalars {
    ($($asked:ident $answer:ident($($value:expr)?))*) => {$(
        fn $asked<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, GivenUp> {
            self.note(stringify!($asked))?;
            visitor.$answer($($value)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = GivenUp;

    // One and not zero: a number that must not be zero is content too.
    scalars! {
        deserialize_bool visit_bool(false)
        deserialize_i8 visit_i8(1) deserialize_i16 visit_i16(1) deserialize_i32 visit_i32(1)
        deserialize_i64 visit_i64(1) deserialize_i128 visit_i128(1)
        deserialize_u8 visit_u8(1) deserialize_u16 visit_u16(1) deserialize_u32 visit_u32(1)
        deserialize_u64 visit_u64(1) deserialize_u128 visit_u128(1)
        deserialize_f32 visit_f32(1.0) deserialize_f64 visit_f64(1.0)
        deserialize_char visit_char('x')
        deserialize_bytes visit_bytes(&[]) deserialize_byte_buf visit_bytes(&[])
        deserialize_unit visit_unit()
        deserialize_any visit_unit() deserialize_ignored_any visit_unit()
    }

    // What a type that is read as text makes of it is the same for both.
    fn deserialize_str<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, GivenUp> {
        self.note("text")?;
        visitor.visit_borrowed_str("")
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GivenUp> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GivenUp> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, GivenUp> {
        self.note("option")?;
        if self.level >= LEVELS || self.known.questions >= QUESTIONS {
            return visitor.visit_none();
        }
        visitor.visit_some(self.within())
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, GivenUp> {
        self.note("unit struct")?;
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, GivenUp> {
        // Not on the wire, and not noted.
        if self.level > 2 * LEVELS {
            return Err(GivenUp);
        }
        visitor.visit_newtype_struct(self.within())
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, GivenUp> {
        self.note("list")?;
        visitor.visit_seq(self.parts(1, true))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        mut self,
        size: usize,
        visitor: V,
    ) -> Result<V::Value, GivenUp> {
        self.note("tuple")?;
        self.note(&size.to_string())?;
        visitor.visit_seq(self.parts(size, false))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        size: usize,
        visitor: V,
    ) -> Result<V::Value, GivenUp> {
        self.deserialize_tuple(size, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, GivenUp> {
        self.note("map")?;
        visitor.visit_map(self.parts(1, true))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, GivenUp> {
        self.note("struct")?;
        for field in fields {
            self.note(field)?;
        }
        visitor.visit_seq(self.parts(fields.len(), false))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, GivenUp> {
        self.note("enum")?;
        for variant in variants {
            self.note(variant)?;
        }
        let shown = self.known.next_variant(name, variants.len());
        self.note(&shown.to_string())?;
        visitor.visit_enum(Variant {
            shown: u64::try_from(shown).unwrap_or(u64::MAX),
            tracer: self.within(),
        })
    }

    fn is_human_readable(&self) -> bool {
        // As the codec.
        false
    }
}

/// The values of a list, tuple, struct or map.
struct Parts<'a> {
    tracer: Tracer<'a>,
    left: usize,
}

impl Parts<'_> {
    fn next(&mut self) -> Tracer<'_> {
        Tracer {
            known: self.tracer.known,
            level: self.tracer.level,
        }
    }
}

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = GivenUp;

    fn next_element_seed<T>(&mut self, seed: T) -> Result<Option<T::Value>, GivenUp>
    where
        T: DeserializeSeed<'de>,
    {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        seed.deserialize(self.next()).map(Some)
    }
}

impl<'de> MapAccess<'de> for Parts<'_> {
    type Error = GivenUp;

    fn next_key_seed<K>(&mut self, seed: K) -> Result<Option<K::Value>, GivenUp>
    where
        K: DeserializeSeed<'de>,
    {
        self.next_element_seed(seed)
    }

    fn next_value_seed<V>(&mut self, seed: V) -> Result<V::Value, GivenUp>
    where
        V: DeserializeSeed<'de>,
    {
        seed.deserialize(self.next())
    }
}

/// The variant of an enum that is shown in this pass.
struct Variant<'a> {
    tracer: Tracer<'a>,
    shown: u64,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = GivenUp;
    type Variant = Self;

    fn variant_seed<S>(self, seed: S) -> Result<(S::Value, Self), GivenUp>
    where
        S: DeserializeSeed<'de>,
    {
        let value = seed.deserialize(U64Deserializer::<GivenUp>::new(self.shown))?;
        Ok((value, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = GivenUp;

    fn unit_variant(mut self) -> Result<(), GivenUp> {
        self.tracer.note("alone")
    }

    fn newtype_variant_seed<T>(mut self, seed: T) -> Result<T::Value, GivenUp>
    where
        T: DeserializeSeed<'de>,
    {
        self.tracer.note("with")?;
        seed.deserialize(self.tracer)
    }

    fn tuple_variant<V: Visitor<'de>>(self, size: usize, visitor: V) -> Result<V::Value, GivenUp> {
        self.tracer.deserialize_tuple(size, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, GivenUp> {
        self.tracer.deserialize_struct("", fields, visitor)
    }
}
