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
    let (outside, inside) = (SocketAddr::from(([0, 0, 0, 0], 5460)), SocketAddr::from(([127, 0, 0, 1], 5460)));
    assert!(on_loopback("pg_listen", outside, false).is_err());
    assert_eq!(on_loopback("pg_listen", outside, true), Ok(outside), "a container's own network is the fence");
    assert_eq!(on_loopback("pg_listen", inside, false), Ok(inside));
}

#[test]
fn every_setting_is_shown_and_no_secret_is() {
    let given = Given { s3_secret_access_key: Some("hush".into()), ..Given::default() };
    let shown = load(given, None, &[]).unwrap().shown();
    let names: Vec<_> = shown.iter().map(|(name, _, _)| *name).collect();
    assert_eq!(names, Given::names());
    assert!(shown.iter().all(|(_, value, _)| !value.contains("hush")));
}
