//! What is in a folder: by WebDAV, or by the page that a server makes of it.

use reqwest::Method;
use reqwest::header::HeaderName;

use crate::RemoteEntry;

use super::failure::HttpError;
use super::request::{Answer, Call, Question};
use super::{index, propfind};

/// What the list of several hundred thousand files takes; as of XRootD.
const LARGEST_LIST: usize = 256 << 20;

const DEPTH: HeaderName = HeaderName::from_static("depth");

/// Lists a folder.
pub(super) async fn list(call: Call<'_>) -> Result<Vec<RemoteEntry>, HttpError> {
    let Ok(method) = Method::from_bytes(b"PROPFIND") else {
        return Ok(Vec::new());
    };
    let question = Question::new(method, "its list (PROPFIND)".to_owned()).with(DEPTH, "1");
    match call.insist(&question).await {
        Ok(mut answer) if answer.status() == 207 => {
            let folder = answer.place().path().to_owned();
            let body = text(&mut answer).await?;
            propfind::entries(&body, &folder).map_err(|what| answer.lied(what).into())
        }
        Ok(_) => page(call).await,
        Err(error) if matches!(error.status(), Some(400 | 403 | 405 | 501)) => page(call).await,
        Err(error) => Err(error),
    }
}

/// Lists a folder by the links of its page.
async fn page(call: Call<'_>) -> Result<Vec<RemoteEntry>, HttpError> {
    let question = Question::new(Method::GET, "the page of a folder".to_owned());
    let mut answer = call.insist(&question).await?;
    let place = answer.place().clone();
    let body = text(&mut answer).await?;
    let what = "neither a list (PROPFIND) nor a page with links to what is in the folder";
    index::entries(&body, &place).ok_or_else(|| answer.lied(what).into())
}

async fn text(answer: &mut Answer) -> Result<String, HttpError> {
    let body = answer.whole(LARGEST_LIST).await?;
    let body = body.ok_or_else(|| answer.lied("a list that is too long"))?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}
