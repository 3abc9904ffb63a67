//! From what a person writes to a store.

use std::path::Path;
use std::sync::Arc;

use lockkeeper_consistent_region::store::{CheckpointStore, FileStore};

/// Opens the store at a folder or URL to look at it. A folder must be one already: a wrong path is
/// not made into an empty store.
pub(crate) fn open(place: &str) -> Result<Arc<dyn CheckpointStore>, String> {
    // A look need not be durable.
    open_with(place, false)
}

/// The same for a region that lives in it: a store that would lose what it is given is refused.
pub(crate) fn open_to_work(place: &str) -> Result<Arc<dyn CheckpointStore>, String> {
    open_with(place, true)
}

fn open_with(place: &str, check_durability: bool) -> Result<Arc<dyn CheckpointStore>, String> {
    match place.split_once("://") {
        None => folder(place),
        Some(("file", path)) => folder(path),
        Some(("redis" | "rediss", _)) => redis(place, check_durability),
        Some(("s3", _)) => s3(place),
        Some((scheme, _)) => Err(format!(
            "no store is reached by {scheme}: give a folder, or a URL that begins with file, redis or s3"
        )),
    }
}

fn folder(path: &str) -> Result<Arc<dyn CheckpointStore>, String> {
    let root = Path::new(path);
    for part in ["objects", "log"] {
        if !root.join(part).is_dir() {
            return Err(format!(
                "{path} is no store of a region: it has no folder {part:?}. On the disk of a host that is gone, \
                 the region's state is gone with it"
            ));
        }
    }
    let store = FileStore::open(root).map_err(|error| error.to_string())?;
    Ok(Arc::new(store))
}

/// Opens the store at a Redis, which is asked whether its answers are durable if `check_durability`.
#[cfg(feature = "redis")]
pub(crate) fn redis(url: &str, check_durability: bool) -> Result<Arc<dyn CheckpointStore>, String> {
    use lockkeeper_consistent_region::store::{RedisSettings, RedisStore};

    let password = std::env::var("LOCKKEEPER_REDIS_PASSWORD").ok();
    let (server, prefix) = redis_place(url, password.as_deref())?;
    let settings = RedisSettings {
        check_durability,
        ..RedisSettings::default()
    };
    let store = RedisStore::open(&server, &prefix, &settings).map_err(|error| error.to_string())?;
    Ok(Arc::new(store))
}

/// The server with its password, and what the keys begin with.
#[cfg(feature = "redis")]
pub(crate) fn redis_place(url: &str, password: Option<&str>) -> Result<(String, String), String> {
    let (server, query) = url.split_once('?').unwrap_or((url, ""));
    let prefix = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("prefix="))
        .ok_or("which keys? Add ?prefix=PREFIX, as the region's program gives it")?;
    let server = match password {
        Some(password) => with_password(server, password)?,
        None => server.to_owned(),
    };
    Ok((server, prefix.to_owned()))
}

#[cfg(feature = "redis")]
fn with_password(server: &str, password: &str) -> Result<String, String> {
    let (scheme, rest) = server.split_once("://").unwrap_or(("redis", server));
    if rest.contains(':') && rest.contains('@') {
        return Err("the URL holds a password, and another one was given".to_owned());
    }
    let (user, host) = rest.split_once('@').unwrap_or(("", rest));
    let escaped: String = password
        .bytes()
        .map(|byte| match byte.is_ascii_alphanumeric() {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect();
    Ok(format!("{scheme}://{user}:{escaped}@{host}"))
}

#[cfg(not(feature = "redis"))]
pub(crate) fn redis(_: &str, _: bool) -> Result<Arc<dyn CheckpointStore>, String> {
    Err("this program was built without Redis: build it with --features redis".to_owned())
}

#[cfg(feature = "s3")]
fn s3(url: &str) -> Result<Arc<dyn CheckpointStore>, String> {
    use lockkeeper_consistent_region::store::ObjectStorageStore;

    let options = aws_options();
    let options = options
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    let store = ObjectStorageStore::open(url, options).map_err(|error| error.to_string())?;
    Ok(Arc::new(store))
}

/// What object_store calls them: `aws_region` for `AWS_REGION`.
#[cfg(feature = "s3")]
pub(crate) fn aws_options() -> Vec<(String, String)> {
    let variables = std::env::vars().filter(|(name, _)| name.starts_with("AWS_"));
    variables
        .map(|(name, value)| (name.to_ascii_lowercase(), value))
        .collect()
}

#[cfg(not(feature = "s3"))]
fn s3(_: &str) -> Result<Arc<dyn CheckpointStore>, String> {
    Err("this program was built without S3: build it with --features s3".to_owned())
}
