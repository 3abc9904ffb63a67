//! Writes the service without protoc: one unary method with messages that are written by hand.

fn main() {
    let echo = tonic_build::manual::Method::builder()
        .name("echo")
        .route_name("Echo")
        .input_type("crate::Data")
        .output_type("crate::Data")
        .codec_path("tonic_prost::ProstCodec")
        .build();
    let service = tonic_build::manual::Service::builder()
        .name("Echo")
        .package("bench")
        .method(echo)
        .build();
    tonic_build::manual::Builder::new().compile(&[service]);
}
