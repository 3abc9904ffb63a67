//! `rpc_gateway!`.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    codec,
    error::{RpcError, RpcErrorKind},
};

/// Declares a gateway: a marker type, its name and version on the wire, and the messages that it
/// carries.
///
/// - `local` before a message says that it has no serde and never leaves the process; asked of
///   another one, it fails with `LocalOnly`.
/// - `fenced` before the name says that every call needs a fencing token; only a fenced endpoint
///   can serve it, and only `connect_fenced` gives a handle.
/// - A method's name is the message type's name. Raise the version when the meaning or the shape
///   of a message changes; a message more or less needs no new version. Two processes whose builds
///   have another shape for a message under one version refuse each other at `connect`: see
///   [`RpcServiceBuilder::check_shapes`](crate::RpcServiceBuilder::check_shapes).
///
/// ```
/// use actix::Message;
/// use lockkeeper_core::rpc_gateway;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Message, Serialize, Deserialize)]
/// #[rtype(result = "i64")]
/// pub struct Add(pub i64);
///
/// /// Carries what has no serde.
/// #[derive(Message)]
/// #[rtype(result = "std::time::Instant")]
/// pub struct LastChange;
///
/// rpc_gateway! {
///     /// What a counter can be asked.
///     pub CounterGateway("example.Counter", version = 1) { Add, local LastChange }
/// }
///
/// rpc_gateway! {
///     /// The same of the leading counter only.
///     pub fenced LeaderGateway("example.Leader", version = 1) { Add }
/// }
/// ```
#[macro_export]
macro_rules! rpc_gateway {
    (@munch $head:tt ($index:expr) [$($done:tt)*]) => {
        $crate::rpc_gateway!(@emit $head [$($done)*]);
    };
    (@munch $head:tt ($index:expr) [$($done:tt)*] local $message:path $(, $($rest:tt)*)?) => {
        $crate::rpc_gateway!(@munch $head ($index + 1)
            [$($done)* { local ($index) $message }] $($($rest)*)?);
    };
    (@munch $head:tt ($index:expr) [$($done:tt)*] $message:path $(, $($rest:tt)*)?) => {
        $crate::rpc_gateway!(@munch $head ($index + 1)
            [$($done)* { remote ($index) $message }] $($($rest)*)?);
    };
    (@carries local $name:ident ($index:expr) $message:path) => {
        impl $crate::gateway::Carries<$message> for $name {
            const METHOD: u16 = $index;

            fn encode(_: &$message)
                -> ::core::result::Result<$crate::__private::Bytes, $crate::RpcError>
            {
                ::core::result::Result::Err($crate::__private::local_only::<Self>($index))
            }

            fn decode_reply(_: &[u8]) -> ::core::result::Result<
                <$message as $crate::__private::actix::Message>::Result,
                $crate::RpcError,
            > {
                ::core::result::Result::Err($crate::__private::local_only::<Self>($index))
            }
        }
    };
    (@carries remote $name:ident ($index:expr) $message:path) => {
        impl $crate::gateway::Carries<$message> for $name {
            const METHOD: u16 = $index;

            fn encode(message: &$message)
                -> ::core::result::Result<$crate::__private::Bytes, $crate::RpcError>
            {
                $crate::__private::encode_message::<Self, _>(message, $index)
            }

            fn decode_reply(reply: &[u8]) -> ::core::result::Result<
                <$message as $crate::__private::actix::Message>::Result,
                $crate::RpcError,
            > {
                $crate::__private::decode_reply::<Self, _>(reply, $index)
            }
        }
    };
    (@shape local $message:path) => {
        0
    };
    (@shape remote $message:path) => {{
        #[allow(unused_imports, reason = "one of the two is used")]
        use $crate::gateway::shape::{Readable as _, Unreadable as _};
        type Reply = <$message as $crate::__private::actix::Message>::Result;
        $crate::gateway::shape::of_method(
            (&&$crate::gateway::shape::Shape::<$message>::default()).number(),
            (&&$crate::gateway::shape::Shape::<Reply>::default()).number(),
        )
    }};
    (@emit
        { [$(#[$meta:meta])*] [$visibility:vis] $name:ident $fencing:ident $wire:literal $version:literal }
        [$({ $kind:ident ($index:expr) $message:path })*]
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        $visibility enum $name {}

        impl $crate::gateway::RpcGateway for $name {
            type Fencing = $crate::gateway::$fencing;

            const DESCRIPTOR: &'static $crate::gateway::GatewayDescriptor =
                &$crate::gateway::GatewayDescriptor {
                    name: $wire,
                    version: $version,
                    fenced: <$crate::gateway::$fencing as $crate::gateway::FencingMode>::FENCED,
                    methods: &[$(
                        $crate::gateway::MethodDescriptor::$kind(stringify!($message))
                    ),*],
                };

            fn shapes() -> &'static [u64] {
                static SHAPES: ::std::sync::OnceLock<::std::vec::Vec<u64>> =
                    ::std::sync::OnceLock::new();
                SHAPES.get_or_init(|| {
                    ::std::vec![$($crate::rpc_gateway!(@shape $kind $message)),*]
                })
            }
        }

        $($crate::rpc_gateway!(@carries $kind $name ($index) $message);)*

        impl<A> $crate::gateway::Dispatch<A> for $name
        where
            A: $crate::RpcEndpoint $(+ $crate::__private::actix::Handler<$message>)*
        {
            const METHODS: &'static [$crate::endpoint::Method<A>] = &[$(
                $crate::endpoint::Method::<A>::$kind::<$message>(stringify!($message))
            ),*];
        }
    };
    (
        $(#[$meta:meta])*
        $visibility:vis fenced $name:ident ($wire:literal, version = $version:literal $(,)?) {
            $($methods:tt)*
        }
    ) => {
        $crate::rpc_gateway!(@munch
            { [$(#[$meta])*] [$visibility] $name Fenced $wire $version } (0) [] $($methods)*);
    };
    (
        $(#[$meta:meta])*
        $visibility:vis $name:ident ($wire:literal, version = $version:literal $(,)?) {
            $($methods:tt)*
        }
    ) => {
        $crate::rpc_gateway!(@munch
            { [$(#[$meta])*] [$visibility] $name Unfenced $wire $version } (0) [] $($methods)*);
    };
}

/// For `rpc_gateway!` only.
pub fn encode_message<G: super::RpcGateway, M: Serialize>(
    message: &M,
    method: u16,
) -> Result<Bytes, RpcError> {
    codec::encode(message).map_err(|why| {
        let name = G::DESCRIPTOR.method_name(method);
        RpcError::new(
            RpcErrorKind::Encode,
            format!(
                "the message {name} of {} cannot be encoded: {why}",
                G::DESCRIPTOR.name
            ),
        )
    })
}

/// For `rpc_gateway!` only.
pub fn decode_reply<G: super::RpcGateway, R: DeserializeOwned>(
    reply: &[u8],
    method: u16,
) -> Result<R, RpcError> {
    codec::decode(reply).map_err(|why| {
        let name = G::DESCRIPTOR.method_name(method);
        RpcError::new(
            RpcErrorKind::ReplyCodec,
            format!(
                "the reply to {name} of {} cannot be decoded: {why}",
                G::DESCRIPTOR.name
            ),
        )
    })
}

/// For `rpc_gateway!` only.
#[must_use]
pub fn local_only<G: super::RpcGateway>(method: u16) -> RpcError {
    RpcError::new(
        RpcErrorKind::LocalOnly,
        format!(
            "{} of {} is `local`: it cannot be asked of another process",
            G::DESCRIPTOR.method_name(method),
            G::DESCRIPTOR.name
        ),
    )
}
