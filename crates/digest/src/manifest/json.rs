//! JSON Lines: `{"path":"a","size":3,"hash":"900150983cd24fb0d6963f7d28e17f72","algorithm":"md5"}`.
//!
//! A path that isn't UTF-8 is Base64 under the key `path_b64` instead. Keys that are not known are
//! ignored.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};

use crate::algorithm::{Algorithm, Digest};

use super::parse::{ExpectedHash, ManifestEntry, ParseError};
use super::write::HashRecord;

#[derive(Serialize, Deserialize)]
struct JsonRecord<'a> {
    #[serde(skip_serializing_if = "Option::is_none", borrow)]
    path: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none", borrow)]
    path_b64: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(borrow)]
    hash: Cow<'a, str>,
    #[serde(borrow)]
    algorithm: Cow<'a, str>,
}

/// Appends an object, without the end of the line.
pub(super) fn append(out: &mut Vec<u8>, record: &HashRecord<'_>) {
    let path = std::str::from_utf8(record.path).ok();
    let object = JsonRecord {
        path: path.map(Cow::Borrowed),
        path_b64: path.is_none().then(|| BASE64_STANDARD.encode(record.path).into()),
        size: record.size,
        hash: record.digest.to_string().into(),
        algorithm: record.digest.algorithm().name().into(),
    };
    // Strings and numbers can't fail to be serialised.
    out.extend(serde_json::to_vec(&object).unwrap_or_default());
}

pub(super) fn parse(line: &[u8]) -> Result<ManifestEntry, ParseError> {
    let object: JsonRecord<'_> = serde_json::from_slice(line).map_err(|_| ParseError::Malformed)?;
    let path = match (object.path, object.path_b64) {
        (Some(path), None) => path.into_owned().into_bytes(),
        (None, Some(path)) => BASE64_STANDARD.decode(path.as_bytes()).map_err(|_| ParseError::BadName)?,
        _ => return Err(ParseError::BadName),
    };
    if path.is_empty() || path.contains(&0) {
        return Err(ParseError::BadName);
    }
    let algorithm = Algorithm::of_name(&object.algorithm).ok_or(ParseError::UnknownAlgorithm)?;
    let digest = Digest::parse(algorithm, object.hash.as_bytes()).ok_or(ParseError::BadHash)?;
    Ok(ManifestEntry { path, size: object.size, expected: ExpectedHash::Known(digest) })
}
