//! What must not compile.

#[test]
fn what_a_gateway_does_not_carry_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/it/ui/*.rs");
}
