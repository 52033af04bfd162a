use super::*;

fn load(flags: Given, file: Option<&str>, environment: &[(&str, &str)]) -> ConfigResult<Settings> {
    let directory = tempfile::tempdir().unwrap();
    let path = file.map(|text| {
        let path = directory.path().join("thalweg.toml");
        std::fs::write(&path, text).unwrap();
        path
    });
    let environment = environment.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    Settings::load(flags, path.as_deref(), environment, Path::new("data"))
}

#[test]
fn a_flag_stands_above_the_environment_and_that_above_the_file() {
    let file = "workers = 1\njob_memory = '64MB'\nlog = 'info'";
    let environment = [("THALWEG_WORKERS", "2"), ("THALWEG_JOB_MEMORY", "32MB")];
    let settings = load(Given { workers: Some(3), ..Given::default() }, Some(file), &environment).unwrap();
    assert_eq!((settings.workers, settings.job_memory_bytes, settings.log.as_str()), (3, 32 << 20, "info"));
}

#[test]
fn d21_an_unknown_setting_is_refused_with_the_nearest_known_one() {
    let error = load(Given::default(), Some("worker = 1"), &[]).unwrap_err();
    assert!(error.0.contains("Did you mean \"workers\"?"), "{error}");
    let error = load(Given::default(), None, &[("THALWEG_JOB_MEMROY", "1GB")]).unwrap_err();
    assert!(error.0.contains("Did you mean \"job_memory\"?"), "{error}");
}

#[test]
fn d21_a_value_that_cannot_be_used_is_refused() {
    assert!(load(Given::default(), Some("workers = 0"), &[]).is_err());
    assert!(load(Given::default(), Some("job_memory = 'much'"), &[]).is_err());
    assert!(load(Given::default(), None, &[("THALWEG_WORKERS", "two")]).is_err());
    assert!(load(Given::default(), None, &[("THALWEG_PG_LISTEN", "here")]).is_err());
}

#[test]
fn without_authentication_only_this_machine_may_connect() {
    let elsewhere = || Given { pg_listen: Some(SocketAddr::from(([0, 0, 0, 0], 5460))), ..Given::default() };
    let error = load(elsewhere(), None, &[]).unwrap_err();
    assert!(error.0.contains("rule_file") && error.0.contains("trust_remote"), "{error}");
    let settings = load(Given { trust_remote: Some(true), ..elsewhere() }, None, &[]).unwrap();
    assert!(settings.trust_remote && !settings.http_remote);
    assert!(load(elsewhere(), None, &[("THALWEG_RULE_FILE", "rules")]).is_ok());
    let http = || Given { http_listen: Some(SocketAddr::from(([0, 0, 0, 0], 5461))), ..Given::default() };
    assert!(load(Given { trust_remote: Some(true), ..http() }, None, &[]).is_err());
    assert!(load(http(), None, &[("THALWEG_HTTP_REMOTE", "true")]).is_ok());
}

#[test]
fn a_certificate_needs_its_key() {
    assert!(load(Given { tls_certificate: Some("c.pem".into()), ..Given::default() }, None, &[]).is_err());
    assert!(load(Given { tls_client_ca: Some("r.pem".into()), ..Given::default() }, None, &[]).is_err());
    let both = Given { tls_certificate: Some("c.pem".into()), tls_key: Some("k.pem".into()), ..Given::default() };
    assert!(load(both, None, &[]).unwrap().tls.is_some());
}

#[test]
fn every_setting_is_shown_and_no_secret_is() {
    let given = Given { s3_secret_access_key: Some("hush".into()), ..Given::default() };
    let shown = load(given, None, &[]).unwrap().shown();
    let names: Vec<_> = shown.iter().map(|(name, _, _)| *name).collect();
    assert_eq!(names, Given::names());
    assert!(shown.iter().all(|(_, value, _)| !value.contains("hush")));
}
