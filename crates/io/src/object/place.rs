//! Describes a store's server and user, according to settings and environment.

use object_store::aws::AmazonS3ConfigKey as S3Key;
use object_store::azure::AzureConfigKey as AzureKey;
use object_store::gcp::GoogleConfigKey as GoogleKey;

use super::{Kind, Options};

impl Options {
    fn find(&self, names: &[&str]) -> Option<&str> {
        names
            .iter()
            .find_map(|name| self.config.get(*name))
            .map(String::as_str)
    }

    /// The server of the store.
    pub fn endpoint(&self) -> String {
        let given = match self.kind {
            Kind::S3 => self.find(&[S3Key::S3Endpoint.as_ref(), S3Key::Endpoint.as_ref()]),
            Kind::Google => self.find(&[GoogleKey::BaseUrl.as_ref()]),
            Kind::Azure => self.find(&[AzureKey::Endpoint.as_ref()]),
        };
        if let Some(given) = given {
            return given.to_owned();
        }
        match self.kind {
            Kind::S3 => format!("https://s3.{}.amazonaws.com", self.region()),
            Kind::Google => "https://storage.googleapis.com".to_owned(),
            Kind::Azure => match &self.host {
                Some(host) => format!("https://{}", host.replace(".dfs.", ".blob.")),
                None => {
                    let account = self.find(&[AzureKey::AccountName.as_ref()]);
                    format!(
                        "https://{}.blob.core.windows.net",
                        account.unwrap_or("ACCOUNT")
                    )
                }
            },
        }
    }

    fn region(&self) -> &str {
        let names = [S3Key::Region.as_ref(), S3Key::DefaultRegion.as_ref()];
        self.find(&names).unwrap_or("us-east-1")
    }

    /// A description: protocol, server, region, bucket addressing, and credentials.
    pub fn description(&self) -> String {
        let (kind, bucket) = match self.kind {
            Kind::S3 => ("S3", "bucket"),
            Kind::Google => ("Google Cloud Storage", "bucket"),
            Kind::Azure => ("Azure", "container"),
        };
        let mut parts = vec![
            format!("{kind} at {}", self.endpoint()),
            format!("{bucket} {}", self.bucket),
        ];
        if self.kind == Kind::S3 {
            let style = S3Key::VirtualHostedStyleRequest;
            let is_hosted = self.find(&[style.as_ref()]) == Some("true");
            parts.push(format!("region {}", self.region()));
            parts.push(match is_hosted {
                true => "the bucket in the server's name".to_owned(),
                false => "the bucket in the path".to_owned(),
            });
        }
        parts.push(self.credentials().to_owned());
        parts.join(", ")
    }

    fn credentials(&self) -> &'static str {
        let has = |names: &[&str]| self.find(names).is_some();
        let skips = [
            S3Key::SkipSignature.as_ref(),
            GoogleKey::SkipSignature.as_ref(),
            AzureKey::SkipSignature.as_ref(),
        ];
        let keys = [
            S3Key::AccessKeyId.as_ref(),
            GoogleKey::ServiceAccountKey.as_ref(),
            GoogleKey::ServiceAccount.as_ref(),
            AzureKey::AccessKey.as_ref(),
        ];
        if self.find(&skips) == Some("true") {
            "requests are not signed"
        } else if has(&keys) {
            "signed by a key"
        } else if has(&[AzureKey::SasKey.as_ref()]) {
            "by a shared access signature"
        } else {
            "by credentials of the cloud machine"
        }
    }
}
