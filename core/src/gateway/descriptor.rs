//! What a gateway's marker type says at run time: name, version, methods.

/// A gateway's name, version and methods. `rpc_gateway!` makes one `static` a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayDescriptor {
    /// The name on the wire, such as `example.Counter`.
    pub name: &'static str,
    /// The version; the two sides of a connection must have the same.
    pub version: u32,
    /// True if calls need a fencing token.
    pub fenced: bool,
    /// The methods; a method's number is its place in this list.
    pub methods: &'static [MethodDescriptor],
}

/// One method: the message type's name, and whether it can leave the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodDescriptor {
    /// The message type's name, without its path.
    pub name: &'static str,
    /// True if the message has no serde and is absent from the wire.
    pub local: bool,
}

impl MethodDescriptor {
    /// A method that can leave the process, by the path of its message type.
    #[must_use]
    pub const fn remote(path: &'static str) -> Self {
        Self {
            name: last_segment(path),
            local: false,
        }
    }

    /// A method that cannot leave the process.
    #[must_use]
    pub const fn local(path: &'static str) -> Self {
        Self {
            name: last_segment(path),
            local: true,
        }
    }
}

/// `messages :: Add` → `Add`.
pub(crate) const fn last_segment(path: &'static str) -> &'static str {
    let bytes = path.as_bytes();
    let mut at = bytes.len();
    while at > 0 && bytes[at - 1] != b':' && bytes[at - 1] != b' ' {
        at -= 1;
    }
    path.split_at(at).1
}

impl GatewayDescriptor {
    /// The name of a method, for texts.
    #[must_use]
    pub fn method_name(&self, method: u16) -> &'static str {
        self.methods
            .get(usize::from(method))
            .map_or("?", |m| m.name)
    }

    /// The methods that can leave the process, with their numbers.
    pub fn remote_methods(&self) -> impl Iterator<Item = (u16, &'static str)> {
        (0_u16..)
            .zip(self.methods)
            .filter(|(_, m)| !m.local)
            .map(|(number, m)| (number, m.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_has_the_name_of_its_type_without_the_path() {
        for path in ["Add", "messages::Add", "crate :: messages :: Add"] {
            assert_eq!(MethodDescriptor::remote(path).name, "Add");
        }
    }
}
