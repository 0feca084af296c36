//! The total time limit of a read.

use std::time::Duration;

use crate::IoError;

/// Work for a source, limited by the setting `total_timeout`.
pub(crate) async fn within<T>(
    url: &str,
    longest: Duration,
    work: impl Future<Output = T>,
) -> Result<T, IoError> {
    let done = tokio::time::timeout(longest, work).await;
    done.map_err(|_| IoError::Remote {
        url: url.to_owned(),
        source: format!(
            "the read takes longer than total_timeout={} s, including retries; increase it for a slow server",
            longest.as_secs_f64()
        )
        .into(),
    })
}
