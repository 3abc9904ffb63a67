//! An election at Kubernetes, as a person writes it: `kubernetes://NAMESPACE/LEASE`, with `?url=URL` for an
//! API server that asks for no credentials, such as `kubectl proxy`.

use anyhow::{Context as _, bail};
use lockkeeper_fencing::driver::Kubernetes;

/// What stands behind `kubernetes://`.
///
/// # Errors
/// A namespace or a Lease that is missing, a parameter that is not known.
pub(crate) fn lease(text: &str) -> anyhow::Result<Kubernetes> {
    const FORM: &str = "it is kubernetes://NAMESPACE/LEASE";
    let (place, parameters) = match text.split_once('?') {
        Some((place, parameters)) => (place, Some(parameters)),
        None => (text, None),
    };
    let parts = place.split_once('/');
    let is_name = |name: &str| !name.is_empty() && !name.contains('/');
    let (namespace, lease) = parts
        .filter(|(namespace, lease)| is_name(namespace) && is_name(lease))
        .with_context(|| format!("kubernetes://{text} names no Lease of a namespace: {FORM}"))?;
    let cluster = Kubernetes::new(namespace, lease);
    match parameters.map(|parameters| parameters.split_once('=')) {
        None => Ok(cluster),
        Some(Some(("url", url))) if !url.is_empty() => Ok(cluster.with_url(url)),
        Some(_) => bail!("kubernetes://{text}: {FORM}, and behind it nothing but ?url=URL"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_of_a_namespace_is_read_and_what_is_none_is_refused() {
        for text in ["shop/words", "shop/words?url=http://127.0.0.1:8001"] {
            let cluster = format!("{:?}", lease(text).unwrap());
            assert!(cluster.contains("\"shop\"") && cluster.contains("\"words\""));
        }
        for text in [
            "", "shop", "shop/", "/words", "a/b/c", "a/b?u=c", "a/b?url=",
        ] {
            let error = lease(text).unwrap_err().to_string();
            assert!(error.contains("kubernetes://NAMESPACE/LEASE"), "{error}");
        }
    }
}
