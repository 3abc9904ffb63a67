//! What must not compile: of the derive macro, and of the gateways that it is about.
//!
//! They are here, and not in `lockkeeper-core`, because a test of the compiler builds what its crate depends on once
//! more: this one depends on little.

#[test]
fn what_a_gateway_does_not_carry_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
}
