//! Keys are read from files; bad files are refused by the name of their setting.

use std::path::PathBuf;

use super::super::test_keys::{ED25519, P256, P384, RSA, SECRET, SHORT_RSA, set};
use super::*;

fn file(content: impl AsRef<[u8]>) -> tempfile::TempPath {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), content).unwrap();
    file.into_temp_path()
}

fn read_public(pem: &str) -> Result<Algorithm, KeyError> {
    let path = file(pem);
    let config = Config {
        jwt_public_key: Some(path.to_path_buf()),
        ..Config::default()
    };
    of_files(&config).map(|keys| keys[0].algorithm)
}

#[test]
fn a_public_key_pins_its_algorithm() {
    assert_eq!(read_public(&RSA.public), Ok(Algorithm::RS256));
    assert_eq!(read_public(&P256.public), Ok(Algorithm::ES256));
    assert_eq!(read_public(&ED25519.public), Ok(Algorithm::EdDSA));
}

#[test]
fn every_key_of_a_file_counts_and_what_is_no_key_is_named() {
    let old_and_new = format!("# old\n{}\n# new\n{}", RSA.public, P256.public);
    let path = file(&old_and_new);
    let config = Config {
        jwt_public_key: Some(path.to_path_buf()),
        ..Config::default()
    };
    let keys = of_files(&config).unwrap();
    let algorithms: Vec<Algorithm> = keys.iter().map(|key| key.algorithm).collect();
    assert_eq!(algorithms, [Algorithm::RS256, Algorithm::ES256]);

    let certificate = RSA.certificate();
    let cut = &P256.public[..P256.public.len() - 30];
    let too_many = P256.public.repeat(MOST_KEYS + 1);
    let lines = P256.public.lines().count();
    for (bad, words) in [
        (certificate.clone(), "is a certificate, not a public key"),
        (format!("{}{certificate}", RSA.public), "is a certificate"),
        (format!("{}{}", RSA.public, P256.private), "something else"),
        (format!("{}{}", RSA.public, P384.public), "is not RSA of"),
        (
            format!("{}hunter2", P256.public),
            &*format!("line {} of", lines + 1),
        ),
        (format!("{}{cut}", RSA.public), "is cut off"),
        (too_many, "more than 32 keys"),
    ] {
        let why = read_public(&bad).expect_err(words).to_string();
        assert!(
            why.contains(words) && !why.contains("hunter2"),
            "{words}: {why}"
        );
    }
}

#[test]
fn keys_that_could_check_no_token_are_refused_at_once() {
    let keys = [
        &*P384.public,
        &SHORT_RSA.public,
        &RSA.private,
        &P256.private,
        &ED25519.private,
    ];
    for (at, bad) in keys.into_iter().chain(["", "hunter2"]).enumerate() {
        let why = read_public(bad).expect_err(&format!("number {at} is no good key"));
        assert_eq!(why.setting, "jwt-public-key");
        assert!(!why.to_string().contains("hunter2"), "{why}");
    }
}

#[test]
fn a_secret_has_32_bytes_or_more_without_the_line_end() {
    let read = |content: &str| secret(&file(content));
    assert_eq!(read(&format!("{SECRET}\n")), Ok(SECRET.as_bytes().to_vec()));
    assert!(read(&"x".repeat(32)).is_ok());
    let short = read(&format!("{}\n\n", "x".repeat(31))).unwrap_err();
    assert_eq!(
        short.to_string(),
        "jwt-hs256-secret-file: the secret is shorter than 32 bytes"
    );
    let public = read(&format!("-----BEGIN PUBLIC KEY-----\n{}\n", "x".repeat(64))).unwrap_err();
    assert!(
        public.problem.contains("not a secret; see jwt-public-key"),
        "{public}"
    );
    let two = read(&format!("{SECRET}\n{SECRET}\n")).unwrap_err();
    assert!(two.problem.contains("more than one line"), "{two}");
    let binary = [&b"\xff\n"[..], &[b'x'; 32]].concat();
    assert_eq!(secret(&file(&binary)), Ok(binary));
    let missing = secret(&PathBuf::from("/no/such/file")).unwrap_err();
    assert!(
        missing.problem.contains("cannot be read: entity not found"),
        "{missing}"
    );
    assert!(
        missing.problem.ends_with("(/no/such/file)"),
        "it names the file: {missing}"
    );
    assert!(
        read(&"x".repeat(LONGEST + 1))
            .unwrap_err()
            .problem
            .contains("longer than 1 MiB")
    );
}

#[test]
fn all_files_together_make_the_keys() {
    let (secret, public) = (file(SECRET), file(&RSA.public));
    let jwks = file(set(&[
        P256.jwk(Algorithm::ES256, "k1"),
        ED25519.jwk(Algorithm::EdDSA, "k2"),
    ]));
    let config = Config {
        jwt_hs256_secret_file: Some(secret.to_path_buf()),
        jwt_public_key: Some(public.to_path_buf()),
        jwt_jwks: Some(Jwks::File(jwks.to_path_buf())),
        ..Config::default()
    };
    let algorithms: Vec<_> = of_files(&config)
        .unwrap()
        .iter()
        .map(|key| key.algorithm)
        .collect();
    assert_eq!(
        algorithms,
        [
            Algorithm::HS256,
            Algorithm::RS256,
            Algorithm::ES256,
            Algorithm::EdDSA
        ]
    );
    std::fs::write(&jwks, "{}").unwrap();
    assert_eq!(
        of_files(&config).unwrap_err().to_string(),
        "jwt-jwks: the file is not a JSON Web Key Set"
    );
}

#[test]
fn a_key_prints_its_algorithm_only() {
    let path = file(SECRET);
    let config = Config {
        jwt_hs256_secret_file: Some(path.to_path_buf()),
        ..Config::default()
    };
    assert_eq!(format!("{:?}", of_files(&config)), "Ok([Key(HS256)])");
}
