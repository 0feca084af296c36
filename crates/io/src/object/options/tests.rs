use super::*;

/// The S3 options for these settings, in an environment with these AWS files.
fn asked(
    given: &[(&str, &str)],
    variables: &[(&str, &str)],
    files: [&str; 2],
) -> Result<BTreeMap<String, String>, IoError> {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join(".aws");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("credentials"), files[0]).unwrap();
    std::fs::write(place.join("config"), files[1]).unwrap();
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let mut environment: Environment = variables.iter().map(pair).collect();
    let home = folder.path().to_str().unwrap().to_owned();
    environment.insert("HOME".to_owned(), home);
    let address = Address::parse("s3://b/k").unwrap();
    let settings = Settings::with("s3://b/k", given).unwrap();
    Ok(Options::with(&address, &settings, &environment)?.config)
}

const FILES: [&str; 2] = [
    "[default]\naws_access_key_id=D\naws_secret_access_key=d\n[other]\naws_access_key_id=O\naws_secret_access_key=o\naws_session_token=t\n",
    "[default]\nregion=eu-west-3\nendpoint_url=http://h\n[profile sso]\nsso_session=x\n",
];

#[test]
fn settings_count_before_the_environment_and_that_before_profiles() {
    let environment = [
        ("AWS_ACCESS_KEY_ID", "E"),
        ("AWS_SECRET_ACCESS_KEY", "e"),
        ("AWS_SESSION_TOKEN", "s"),
    ];
    let id = |config: &BTreeMap<String, String>| config["aws_access_key_id"].clone();
    let config = asked(&[], &[], FILES).unwrap();
    assert_eq!(id(&config), "D");
    assert_eq!(config["aws_default_region"], "eu-west-3");
    assert_eq!(config["aws_endpoint"], "http://h");
    assert_eq!(config["allow_http"], "true");

    let named = [&environment[..], &[("AWS_PROFILE", "other")]].concat();
    let config = asked(&[], &named, FILES).unwrap();
    assert_eq!(id(&config), "E");
    let config = asked(&[("profile", "other")], &environment, FILES).unwrap();
    assert_eq!(
        (id(&config), &*config["aws_session_token"]),
        ("O".into(), "t")
    );
    let own = [("access_key_id", "S"), ("secret_access_key", "s")];
    let config = asked(&own, &environment, FILES).unwrap();
    assert_eq!(id(&config), "S");
    assert!(!config.contains_key("aws_session_token"));
    let config = asked(&[("anonymous", "true")], &environment, FILES).unwrap();
    assert!(!config.contains_key("aws_access_key_id"));
    assert_eq!(config["aws_skip_signature"], "true");
}

#[test]
fn endpoints_of_the_environment_count_before_those_of_profiles() {
    for variable in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"] {
        let config = asked(&[], &[(variable, "https://e")], FILES).unwrap();
        assert!(
            config.values().any(|value| value == "https://e"),
            "{variable}"
        );
        assert!(!config.contains_key("allow_http"));
    }
    let given = [("endpoint", "https://s")];
    let config = asked(&given, &[("AWS_ENDPOINT_URL_S3", "https://e")], FILES).unwrap();
    assert_eq!(config["aws_endpoint_url_s3"], "https://s");
}

#[test]
fn payloads_are_signed_only_without_tls() {
    let unsigned = |environment: &[(&str, &str)]| {
        let config = asked(&[], environment, FILES).unwrap();
        config.get("aws_unsigned_payload").cloned()
    };
    assert_eq!(unsigned(&[]), None); // http, of the profile
    let tls = ("AWS_ENDPOINT_URL", "https://e");
    assert_eq!(unsigned(&[tls]).as_deref(), Some("true"));
    let wanted = ("AWS_UNSIGNED_PAYLOAD", "false");
    assert_eq!(unsigned(&[tls, wanted]).as_deref(), Some("false"));
    let aws = Environment::from([("AWS_REGION".to_owned(), "r".to_owned())]);
    let address = Address::parse("s3://b/k").unwrap();
    let options = Options::with(&address, &Settings::default(), &aws).unwrap();
    assert_eq!(options.config["aws_unsigned_payload"], "true");
}

#[test]
fn profiles_that_are_of_no_use_are_told() {
    let error = asked(&[("profile", "none")], &[], FILES).unwrap_err();
    assert!(
        error.to_string().contains("profile none not found"),
        "{error}"
    );
    let error = asked(&[], &[("AWS_PROFILE", "sso")], FILES).unwrap_err();
    assert!(error.to_string().contains("export-credentials"), "{error}");
}

#[test]
fn an_account_of_azure_is_named_or_missed() {
    let asked = |url: &str, given: &[(&str, &str)], variables: &[(&str, &str)]| {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let environment: Environment = variables.iter().map(pair).collect();
        let address = Address::parse(url).unwrap();
        let settings = Settings::with(url, given).unwrap();
        Options::with(&address, &settings, &environment).map(drop)
    };
    let url = "az://container/key";
    for given in [&[][..], &[("anonymous", "true")]] {
        let error = asked(url, given, &[]).unwrap_err().to_string();
        for said in [
            "az://container/key",
            "access_key_id",
            "AZURE_STORAGE_ACCOUNT_NAME",
        ] {
            assert!(error.contains(said), "{error}");
        }
    }
    asked(url, &[("access_key_id", "me")], &[]).unwrap();
    asked(url, &[], &[("AZURE_STORAGE_ACCOUNT_NAME", "me")]).unwrap();
    asked(url, &[], &[("AZURE_STORAGE_USE_EMULATOR", "true")]).unwrap();
    asked("abfss://c@me.dfs.core.windows.net/key", &[], &[]).unwrap();
}

/// Regression: the crate `object_store` panicked with such endpoints.
#[test]
fn endpoints_that_are_no_urls_are_told() {
    for text in [
        "127.0.0.1:9000",
        "host",
        "",
        "s3.cern.ch",
        "ftp://h",
        "http://",
        "h:9000/x",
        "/x",
        "http://127.0.0.1:1/x y",
        "HTTP://127.0.0.1:1",
    ] {
        for (given, variables) in [
            (vec![("endpoint", text)], vec![]),
            (vec![], vec![("AWS_ENDPOINT_URL", text)]),
            (vec![], vec![("AWS_ENDPOINT_URL_S3", text)]),
        ] {
            // an empty variable counts as unset
            if text.is_empty() && given.is_empty() {
                continue;
            }
            let error = asked(&given, &variables, FILES).unwrap_err();
            assert_eq!(error.kind(), "usage");
            let error = error.to_string();
            assert!(error.contains("invalid endpoint"), "{text}: {error}");
        }
    }
    let error = asked(&[("endpoint", "127.0.0.1:9000")], &[], FILES).unwrap_err();
    assert!(
        error.to_string().contains("http://127.0.0.1:9000"),
        "{error}"
    );
}

#[test]
fn names_of_endpoints_are_those_of_the_crate() {
    let names = [S3Key::S3Endpoint.as_ref(), S3Key::Endpoint.as_ref()];
    let others = [GoogleKey::BaseUrl.as_ref(), AzureKey::Endpoint.as_ref()];
    assert_eq!([names, others].concat(), ENDPOINTS);
}
