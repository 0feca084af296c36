//! Lists directories of WebDAV servers.

use reqwest::Method;
use reqwest::header::HeaderName;

use crate::RemoteEntry;

use super::failure::{HttpError, Why};
use super::propfind;
use super::request::{Call, Question};

/// Maximum size of a list, enough for several hundred thousand files; the same as for XRootD.
const LARGEST_LIST: usize = 256 << 20;

const DEPTH: HeaderName = HeaderName::from_static("depth");

/// Lists a directory.
pub(super) async fn list(call: Call<'_>) -> Result<Vec<RemoteEntry>, HttpError> {
    let Ok(method) = Method::from_bytes(b"PROPFIND") else {
        return Ok(Vec::new());
    };
    let question = Question::new(method, "listing (PROPFIND)".to_owned()).with(DEPTH, "1");
    let mut answer = match call.insist(&question).await {
        Ok(answer) if answer.status() == 207 => answer,
        Ok(answer) => return Err(answer.failure(Why::NoLists).into()),
        Err(error) => return Err(error.of_list()),
    };
    let folder = answer.place().path().to_owned();
    let body = answer.whole(LARGEST_LIST).await?;
    let body = body.ok_or_else(|| answer.lied("the list is too long"))?;
    propfind::entries(&String::from_utf8_lossy(&body), &folder)
        .map_err(|what| answer.lied(what).into())
}
