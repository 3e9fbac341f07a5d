//! Loads settings from flags, variables and files that each test makes up.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::base::event_kind::EventKind;
use crate::base::ids::GatewayId;
use crate::base::media_server::MediaKind;
use crate::base::secret::Secret;

/// How a process is started.
#[derive(Default)]
struct Start {
    flags: Vec<String>,
    env: Vec<(String, String)>,
    file: Option<tempfile::NamedTempFile>,
}

impl Start {
    fn flags(mut self, flags: &str) -> Self {
        self.flags
            .extend(flags.split_whitespace().map(str::to_owned));
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    fn file(mut self, text: &str) -> Self {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let path = file.path().display().to_string();
        self.file = Some(file);
        self.env("ROLLCALL_CONFIG", &path)
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        let args = ["rollcall"]
            .into_iter()
            .map(OsString::from)
            .chain(self.flags.iter().map(OsString::from));
        load(
            args,
            self.env
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        )
    }

    #[track_caller]
    fn config(&self) -> Config {
        match self.load() {
            Ok(Loaded::Run(Task::Serve, config)) => *config,
            other => panic!("no settings: {other:?}"),
        }
    }

    #[track_caller]
    fn refused(&self) -> Vec<String> {
        match self.load() {
            Err(err) => err.mistakes.iter().map(ToString::to_string).collect(),
            other => panic!("not refused: {other:?}"),
        }
    }

    /// Expects one mistake, which contains each of these words.
    #[track_caller]
    fn refused_with(&self, words: &[&str]) {
        let mistakes = self.refused();
        assert_eq!(mistakes.len(), 1, "{mistakes:#?}");
        for word in words {
            assert!(
                mistakes[0].contains(word),
                "{word:?} is not in: {}",
                mistakes[0]
            );
        }
    }
}

fn flags(flags: &str) -> Start {
    Start::default().flags(flags)
}

fn env(name: &str, value: &str) -> Start {
    Start::default().env(name, value)
}

fn file(text: &str) -> Start {
    Start::default().file(text)
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn without_any_setting_the_defaults_apply() {
    assert_eq!(Start::default().config(), Config::default());
    assert_eq!(flags("serve").config(), Config::default());
}

#[test]
fn every_setting_has_a_line_of_help_and_a_row_in_the_table() {
    for setting in SETTINGS.iter() {
        assert!(
            setting.doc.len() <= 120 && !setting.doc.ends_with('.'),
            "{}",
            setting.name
        );
        assert!(
            markdown_table().contains(&format!("| `--{} ", setting.name)),
            "{}",
            setting.name
        );
    }
}

#[test]
fn a_flag_overrides_a_variable_and_a_variable_the_file_and_the_file_the_default() {
    let start = file("heartbeat = '1s'\ntimeout = '21s'\nflush = '11ms'\n")
        .env("ROLLCALL_HEARTBEAT", "2s")
        .env("ROLLCALL_TIMEOUT", "22s")
        .flags("--heartbeat 3s");
    let config = start.config();
    assert_eq!(config.heartbeat, secs(3));
    assert_eq!(config.timeout, secs(22));
    assert_eq!(config.flush, Duration::from_millis(11));
    assert_eq!(config.lease, Config::default().lease);
    // A wrong value that another source overrides does no harm.
    assert_eq!(
        env("ROLLCALL_HEARTBEAT", "soon")
            .flags("--heartbeat=3s")
            .config()
            .heartbeat,
        secs(3)
    );
}

#[test]
fn a_file_named_by_a_flag_replaces_the_file_named_by_a_variable() {
    let other = file("flush = '12ms'");
    let path = other.file.as_ref().unwrap().path().display().to_string();
    let config = file("flush = '11ms'")
        .flags(&format!("--config {path}"))
        .config();
    assert_eq!(config.flush, Duration::from_millis(12));
}

#[test]
fn every_setting_can_be_given_in_every_way() {
    let all = [
        ("listen", "127.0.0.1:0"),
        ("admin-listen", "[::1]:0"),
        ("handshake-timeout", "1s"),
        ("handshake-rate", "0"),
        ("max-handshakes", "64"),
        ("max-sockets", "500"),
        ("tls-cert", "/etc/cert.pem"),
        ("tls-key", "/etc/key.pem"),
        ("trusted-proxies", "10.0.0.0/8,::1"),
        ("proxy-protocol", "on"),
        ("origins", "https://example.org,http://localhost:3000"),
        ("redis", "redis://u:p@localhost:6379/3"),
        ("key-prefix", "app1:"),
        ("redis-ca", "/etc/ca.pem"),
        ("wait-for-store", "30s"),
        ("flush", "100ms"),
        ("lease", "20s"),
        ("lease-refresh", "4s"),
        ("check-every", "90s"),
        ("track-online", "off"),
        ("uniques", "off"),
        ("closed-ttl", "7d"),
        ("remember", "5d"),
        ("last-seen-ids", "u32"),
        ("attendance", "bitmap"),
        ("heartbeat", "1s"),
        ("timeout", "3s"),
        ("streamer-timeout", "90s"),
        ("auth", "jwt"),
        ("jwt-hs256-secret-file", "/etc/secret"),
        ("jwt-public-key", "/etc/public.pem"),
        ("jwt-jwks", "https://example.org/jwks.json"),
        ("jwt-audience", "rollcall"),
        ("jwt-issuer", "https://example.org"),
        ("proxy-from-env", "on"),
        ("api-keys", "/etc/api-keys"),
        ("fanout-limit", "5000"),
        ("fan-source", "sql"),
        ("fan-key", "followers"),
        ("fan-url", "postgres://rollcall:p@db/platform"),
        ("fan-secret-file", "/etc/fan-secret"),
        ("max-presences", "5000"),
        ("udp", "127.0.0.1:0"),
        (
            "udp-advertise",
            "gw1.example.org:8081,192.0.2.7:81,[::1]:82,:83",
        ),
        ("presence-secret-file", "/etc/presence-secret"),
        ("fan-ca", "/etc/fan-ca.pem"),
        ("fan-timeout", "500ms"),
        ("fan-calls", "3"),
        (
            "fan-sql",
            "SELECT/**/u/**/FROM/**/f/**/WHERE/**/s=$1/**/AND/**/u=ANY($2)",
        ),
        ("fan-sql-ids", "integer"),
        ("fan-ttl", "1m"),
        ("message-rate", "20"),
        ("sockets-per-user", "5"),
        ("sockets-per-ip", "50"),
        ("watches-per-socket", "7"),
        ("opens-per-socket", "8"),
        ("streamers-open", "off"),
        ("lives-per-streamer", "3"),
        ("opens-per-day", "4"),
        ("join-rate", "100"),
        ("http-rate", "9"),
        ("user-rate", "7"),
        ("guests", "on"),
        ("guest-rate", "8"),
        ("moderator-ban", "2h"),
        ("stream-grace", "30s"),
        ("events-kept", "1000"),
        ("events-max-age", "3days"),
        ("audit-max-age", "4days"),
        ("count-events", "off"),
        ("fan-events", "on"),
        ("follow-events", "on"),
        ("audit-events", "on"),
        ("webhook-url", "https://example.org/hooks?key=1"),
        ("webhook-secret-file", "/etc/webhook-secret"),
        ("webhook-events", "live.opened,fan.left"),
        ("webhook-allow-private", "on"),
        ("webhook-timeout", "2s"),
        ("webhook-patience", "2h"),
        ("drain", "0"),
        ("log", "rollcall=debug,warn"),
        ("log-format", "json"),
        ("otlp-endpoint", "http://127.0.0.1:4318"),
        ("otlp-one-in", "7"),
    ];
    assert_eq!(all.len() + 1, SETTINGS.len(), "all but config");
    // A build without traces refuses it.
    let taken = |(name, _): &&(&str, &str)| *name != "otlp-endpoint" || cfg!(feature = "otlp");
    let all: Vec<_> = all.iter().filter(taken).collect();
    let by_flag = all.iter().fold(Start::default(), |start, (name, value)| {
        start.flags(&format!("--{name} {value}"))
    });
    let by_env = all.iter().fold(Start::default(), |start, (name, value)| {
        start.env(
            &format!("ROLLCALL_{}", name.to_uppercase().replace('-', "_")),
            value,
        )
    });
    let by_file = file(
        &all.iter()
            .map(|(name, value)| format!("{name} = \"{value}\"\n"))
            .collect::<String>(),
    );
    let config = by_flag.config();
    assert_eq!(config, by_env.config());
    let mut by_file = by_file.config();
    assert!(
        by_file.file_with_secrets.take().is_some(),
        "the file has the URL of Redis"
    );
    assert_eq!(config, by_file);
    assert_eq!(config.admin_listen.unwrap().to_string(), "[::1]:0");
    assert_eq!(
        config.redis.unwrap().reveal(),
        "redis://u:p@localhost:6379/3"
    );
    assert_eq!(config.key_prefix.as_str(), "app1:");
    assert_eq!(config.streamer_timeout, Some(secs(90)));
    assert_eq!(config.fan_ttl, secs(60));
    assert_eq!(config.fanout_limit, 5_000);
    assert_eq!(
        (config.check_every, config.closed_ttl),
        (secs(90), secs(7 * 24 * 3600))
    );
    assert_eq!(
        (config.remember, config.last_seen_ids),
        (secs(5 * 24 * 3600), SeenIds::U32)
    );
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let start = file("heartbeat = 'soon'\ndrian = '1s'\nfan_ttl = true\n")
        .env("ROLLCALL_LISTEN", "localhost:9000")
        .env("ROLLCALL_FLUHS", "1s")
        .flags(
            "--log-format xml --timeuot 5s serve --lease --bogus=1 --fan-source sql --admin-listen",
        );
    let mistakes = start.refused();
    let expected = [
        ["heartbeat (file ", "is \"soon\"", "5s"],
        ["drian (file ", "no such setting", ""],
        ["fan-ttl (file ", "is not a duration", "5s"],
        [
            "listen (env ROLLCALL_LISTEN)",
            "is \"localhost:9000\"",
            "127.0.0.1:9000",
        ],
        [
            "ROLLCALL_FLUHS (env)",
            "no such setting",
            "did you mean ROLLCALL_FLUSH?",
        ],
        [
            "log-format (flag --log-format)",
            "is \"xml\"",
            "text or json",
        ],
        [
            "--timeuot (flag)",
            "no such flag",
            "did you mean --timeout?",
        ],
        ["--lease (flag)", "has no value", "--lease DURATION"],
        ["--bogus (flag)", "no such flag", ""],
        [
            "fan-source (flag --fan-source)",
            "is \"sql\"",
            "a fan-url of postgres or mysql",
        ],
        ["--admin-listen (flag)", "has no value", "ADDR:PORT"],
    ];
    for words in expected {
        let told = mistakes
            .iter()
            .any(|mistake| words.iter().all(|word| mistake.contains(word)));
        assert!(told, "{words:?} is not in {mistakes:#?}");
    }
    assert_eq!(mistakes.len(), expected.len(), "{mistakes:#?}");
    let shown = start.load().unwrap_err().to_string();
    assert_eq!(shown.lines().count(), expected.len(), "one a line");
}

#[test]
fn durations_have_units_and_bounds() {
    assert_eq!(
        flags("--streamer-timeout 0").config().streamer_timeout,
        None
    );
    assert_eq!(
        flags("--streamer-timeout 0s").config().streamer_timeout,
        None
    );
    assert_eq!(
        flags("--wait-for-store 0").config().wait_for_store,
        Duration::ZERO
    );
    assert_eq!(flags("--timeout 1m30s").config().timeout, secs(90));
    flags("--heartbeat 5").refused_with(&["5s or 5ms"]);
    flags("--heartbeat 0").refused_with(&["from 100ms to 5m"]);
    flags("--heartbeat 1h").refused_with(&["from 100ms to 5m"]);
    flags("--fan-ttl 99999999999999999999999years").refused_with(&["is not a duration"]);
    flags("--streamer-timeout never").refused_with(&["or 0 for never"]);
    flags("--streamer-timeout 1ms").refused_with(&["from 200ms to 1day", "or 0 for never"]);
    flags("--wait-for-store 2h").refused_with(&["from 0s to 1h"]);
}

#[test]
fn an_empty_value_is_not_the_default() {
    env("ROLLCALL_REDIS", "").refused_with(&["redis (env ROLLCALL_REDIS)", "is empty", "URL"]);
    flags("--heartbeat=").refused_with(&["is empty"]);
    file("listen = ''").refused_with(&["is empty"]);
}

#[test]
fn a_flag_that_is_given_twice_is_refused() {
    flags("--flush 1s --flush 2s").refused_with(&["flush (flag --flush)", "2 times"]);
}

#[test]
fn unknown_words_and_flags_are_refused() {
    flags("sevre").refused_with(&["is no command", "did you mean serve?"]);
    flags("serve serve").refused_with(&["one too many"]);
    flags("-x").refused_with(&["-x (flag)", "no such flag"]);
    flags("--port 9000").refused_with(&["did you mean --listen?"]);
    flags("--colour 5").refused_with(&["--colour (flag): no such flag"]);
}

#[test]
fn values_that_are_not_utf_8_are_refused() {
    use std::os::unix::ffi::OsStringExt;
    let noise = || OsString::from_vec(vec![b'r', 0xff]);
    let args = ["rollcall".into(), "--log".into(), noise(), noise()];
    let err = load(args, [("ROLLCALL_LISTEN".into(), noise())]).unwrap_err();
    assert_eq!(err.mistakes.len(), 3, "{err}");
}

#[test]
fn help_and_version_are_printed_whatever_else_is_wrong() {
    for asked in ["--help", "help", "--bogus --help"] {
        let Ok(Loaded::Print(text)) = flags(asked).load() else {
            panic!("{asked}")
        };
        for setting in SETTINGS.iter() {
            let (name, hint) = (&setting.name, &setting.hint);
            let flag = format!("--{name} <{hint}>");
            let may_stand_alone = format!("--{name} [<{hint}>]");
            assert!(
                text.contains(&flag) || text.contains(&may_stand_alone),
                "{flag} is not in {text}"
            );
            for word in [setting.env_name(), setting.group.clone()] {
                assert!(text.contains(&word), "{word} is not in {text}");
            }
        }
    }
    let Ok(Loaded::Print(short)) = flags("-h").load() else {
        panic!("-h")
    };
    assert!(short.contains("[default: 250ms]"), "{short}");
    assert!(short.contains("  audit         Search Redis"), "{short}");
    let Ok(Loaded::Print(of_lives)) = flags("lives --help").load() else {
        panic!("lives --help")
    };
    assert!(
        of_lives.contains("--watch [<SECONDS>]") && !of_lives.contains("--top"),
        "{of_lives}"
    );
    for asked in ["--version", "-V"] {
        let Ok(Loaded::Print(text)) = flags(asked).load() else {
            panic!("{asked}")
        };
        assert_eq!(text, format!("rollcall {}", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn secrets_are_never_printed() {
    for url in [
        "rediss+x://u:hunter2@h",
        "redis-cluster://u:hunter2@h/1",
        "redis-sentinel://u:hunter2@h,/name",
        "redis://u:hunter2@h,h",
        "redis://:hunter2%ff@h",
        "redis://:hunter2@",
        "redis://:hunter2@h:port",
        "redis://:hunter2@h/x",
        "redis://:hunt/er hunter2@h",
        "redis://:hunter2/#@h:1",
        "http://hunter2@h",
        "hunter2",
    ] {
        let file = file(&format!("redis = \"{url}\""));
        let as_flag = Start {
            flags: vec![format!("--redis={url}")],
            ..Start::default()
        };
        for start in [env("ROLLCALL_REDIS", url), file, as_flag] {
            let mistakes = start.refused();
            assert!(mistakes[0].contains("redis ("), "{mistakes:?}");
            assert!(!format!("{mistakes:?}").contains("hunter2"), "{mistakes:?}");
        }
    }
    // A URL in the wrong place, misspelt, split by a space, or on a broken line of TOML.
    for start in [
        flags("--listen redis://:hunter2@h"),
        flags("--reids redis://:hunter2@h"),
        flags("--reids=redis://:hunter2@h"),
        flags("--redis redis://:my hunter2@h"),
        env("ROLLCALL_REIDS", "redis://:hunter2@h"),
        file("redis = \"redis://:hunter2@h"),
        file("redis = redis://:hunter2@h"),
        file("redis = \"a\"\nredis = \"hunter2\""),
        file("redis = [\"hunter2\"]"),
    ] {
        let mistakes = format!("{:?}", start.refused());
        assert!(!mistakes.contains("hunter2"), "{mistakes}");
    }
    assert!(!format!("{:?}", flags("--redis redis://:hunter2@h").load()).contains("hunter2"));
}

#[test]
fn redis_urls_of_every_layout_are_accepted() {
    for good in [
        "redis://h",
        "redis://h:1",
        "redis://[::1]:6379/0",
        "redis://u:p%40@h.example:6379",
        "rediss://:p@h/15",
        "redis-cluster://u:p@a,b:7001",
        "rediss-cluster://a",
        "redis-sentinel://:p@a,b:1,c/main",
        "rediss-sentinel://a",
    ] {
        assert_eq!(
            flags(&format!("--redis {good}")).config().redis,
            Some(Secret::new(good))
        );
    }
    for bad in [
        "localhost:6379",
        "http://h",
        "redis://",
        "redis://:6379",
        "redis://h:x",
        "redis://h:0",
        "redis://h/db",
    ] {
        flags(&format!("--redis {bad}")).refused_with(&["right would be redis://"]);
    }
    flags("--redis redis-cluster://h/1")
        .refused_with(&["a cluster has none", "right would be redis-cluster://"]);
    assert_eq!(
        flags("--redis-ca /etc/ca.pem").config().redis_ca,
        Some(PathBuf::from("/etc/ca.pem"))
    );
    flags("--key-prefix a{b}:").refused_with(&["key-prefix (flag", "A-Z a-z 0-9 _ . : -"]);
}

#[test]
fn an_event_stays_for_as_long_as_a_webhook_may_be_sent_it() {
    flags("--webhook-patience 8days")
        .refused_with(&["webhook-patience", "events-max-age must be 8days or more"]);
    flags("--webhook-patience 8days --events-max-age 8days").config();
}

#[test]
fn a_word_that_is_not_known_is_refused() {
    flags("--auth jwt").refused_with(&["auth (flag --auth) is \"jwt\"", "jwt-public-key"]);
    flags("--auth none").refused_with(&["is not known; use off"]);
    flags("--fan-source ldap").refused_with(&["is not known; use redis or token or http or sql"]);
}

#[test]
fn each_source_of_fans_has_the_settings_that_fit_it() {
    let http = flags("--fan-source http --fan-url https://example.org/fans").config();
    assert_eq!((http.fan_timeout, http.fan_calls), (secs(2), 8));
    assert!(http.warnings().is_empty());
    assert!(
        flags("--fan-source http --fan-url http://[::1]/")
            .config()
            .warnings()[0]
            .contains("fan-url is a URL")
    );
    for database in [
        "postgres://u:p@h/d",
        "postgresql://h:5433/d?sslmode=verify-full",
        "mysql://h/d",
        "mariadb://h/d",
    ] {
        flags(&format!("--fan-source sql --fan-url {database}")).config();
        flags(&format!("--fan-source http --fan-url {database}"))
            .refused_with(&["needs a fan-url of http or https"]);
        flags(&format!("--fan-url {database}"))
            .refused_with(&["fan-url is for fan-source http or sql"]);
    }
    flags("--fan-source http").refused_with(&["needs a fan-url of http or https"]);
    flags("--fan-source sql --fan-url https://h/")
        .refused_with(&["needs a fan-url of postgres or mysql"]);
    flags("--fan-secret-file /etc/x")
        .refused_with(&["fan-secret-file and fan-ca are for fan-source http or sql"]);
    flags("--fan-sql-ids integer").refused_with(&["are for fan-source sql"]);
    assert_eq!(
        flags("--fan-key following").config().fan_key,
        FanKey::Following
    );
    flags("--fan-source http --fan-url http://h/ --fan-key following")
        .refused_with(&["fan-key is for fan-source redis"]);
    // A URL may hold a password, so no mistake shows it.
    let mistakes = flags("--fan-source sql --fan-url oracle://u:hunter2@h/d").refused();
    assert!(
        mistakes.len() == 1 && mistakes[0].contains("is not a URL"),
        "{mistakes:#?}"
    );
    assert!(!mistakes[0].contains("hunter2"), "{mistakes:#?}");
}

#[test]
fn a_statement_has_places_for_the_streamer_and_the_users() {
    let with = |url: &str, statement: &str| {
        flags(&format!(
            "--fan-source sql --fan-url {url} --fan-sql {statement}"
        ))
    };
    with("postgres://h/d", "$2,$1").config();
    with("postgres://h/d", "$1,(?)").refused_with(&["fan-sql needs $1, the streamer, and $2"]);
    with("mysql://h/d", "s=?/**/AND/**/u/**/IN(?)").config();
    for wrong in ["?", "(?)", "?,?", "(?),(?)", "?,(?),?", "$1,$2"] {
        with("mysql://h/d", wrong).refused_with(&["fan-sql needs two question marks"]);
    }
}

#[test]
fn settings_that_do_not_fit_each_other_are_refused() {
    flags("--heartbeat 15s").refused_with(&[
        "heartbeat (flag --heartbeat) is \"15s\"",
        "timeout (default)",
        "16s",
    ]);
    flags("--heartbeat 5s --timeout 5500ms").refused_with(&["timeout must be 6s or more"]);
    assert_eq!(
        flags("--heartbeat 200ms --timeout 400ms").config().timeout,
        Duration::from_millis(400)
    );
    flags("--lease 9999ms").refused_with(&[
        "lease (flag --lease)",
        "lease-refresh (default)",
        "a fifth of lease",
    ]);
    assert_eq!(flags("--lease 10s").config().lease_refresh, secs(2));
    flags("--lease-refresh 4s")
        .refused_with(&["lease-refresh (flag --lease-refresh)", "3s or less"]);
    flags("--flush 3s").refused_with(&["flush (flag --flush)", "2s or less"]);
    flags("--check-every 1s").refused_with(&["check-every (flag --check-every)", "2s or more"]);
    flags("--closed-ttl 30s").refused_with(&["closed-ttl (flag --closed-ttl)"]);
    flags("--listen 127.0.0.1:9 --admin-listen 127.0.0.1:9").refused_with(&["must differ"]);
    flags("--listen 127.0.0.1:0 --admin-listen 127.0.0.1:0").config();
    // A wrong setting is reported once, not again for each of its relations.
    flags("--heartbeat soon --timeout 1s").refused_with(&["heartbeat"]);
}

#[test]
fn with_auth_off_only_loopback_is_served() {
    for open in [
        "0.0.0.0:8080",
        "[::]:8080",
        "192.0.2.1:80",
        "[::ffff:192.0.2.1]:80",
    ] {
        flags(&format!("--listen {open}")).refused_with(&[
            "listen (flag --listen)",
            "auth (default)",
            "loopback",
        ]);
        let port = open.rsplit(':').next().unwrap();
        flags(&format!("--listen 127.0.0.1:1 --admin-listen {open}"))
            .refused_with(&["admin-listen", port]);
    }
    for loopback in [
        "127.0.0.1:0",
        "127.9.9.9:80",
        "[::1]:80",
        "[::ffff:127.0.0.1]:80",
    ] {
        flags(&format!("--listen {loopback}")).config();
    }
}

#[test]
fn a_collector_is_a_url_and_a_build_without_traces_says_so() {
    for wrong in ["collector:4317", "unix:///run/otlp", "http://h?key=1"] {
        let mistake = flags(&format!("--otlp-endpoint {wrong}"));
        mistake.refused_with(&["otlp-endpoint", "use one like http://127.0.0.1:4318"]);
    }
    let secret = flags("--otlp-endpoint https://u:hunter2@collector.example:4318");
    secret.refused_with(&["otlp-endpoint", "OTEL_EXPORTER_OTLP_HEADERS"]);
    assert!(!secret.refused()[0].contains("hunter2"));
    let right = flags("--otlp-endpoint https://collector.example:4318 --otlp-one-in 10");
    if cfg!(feature = "otlp") {
        let config = right.config();
        assert_eq!(
            (
                config.otlp_one_in,
                config.traces(&GatewayId::random()).unwrap().one_in
            ),
            (10, 10)
        );
    } else {
        right.refused_with(&["otlp-endpoint", "--features otlp"]);
    }
}

#[test]
fn a_filter_that_would_silence_the_log_by_a_typo_is_refused() {
    flags("--log inof").refused_with(&["log (flag --log) is \"inof\"", "info"]);
    flags("--log rollcall=loud").refused_with(&["is no filter"]);
}

#[test]
fn variables_that_kubernetes_sets_for_services_are_ignored() {
    for (name, value) in [
        ("ROLLCALL_VERSION", "1.2.3"),
        ("ROLLCALL_SERVICE_HOST", "10.0.0.7"),
        ("ROLLCALL_SERVICE_PORT", "8080"),
        ("ROLLCALL_SERVICE_PORT_HTTP_ADMIN", "9090"),
        ("ROLLCALL_PORT", "tcp://10.0.0.7:8080"),
        ("ROLLCALL_PORT_8080_TCP", "tcp://10.0.0.7:8080"),
        ("ROLLCALL_PORT_8080_TCP_ADDR", "10.0.0.7"),
        ("ROLLCALL_PORT_8080_TCP_PORT", "8080"),
        ("ROLLCALL_PORT_8080_TCP_PROTO", "tcp"),
        ("ROLLCALL_PORT_8080_UDP_PROTO", "udp"),
        ("ROLLCALL_REDIS_SERVICE_HOST", "10.0.0.8"),
        ("ROLLCALL_REDIS_PORT", "tcp://10.0.0.8:6379"),
        ("ROLLCALLER", "1"),
        ("PATH", "/bin"),
    ] {
        assert_eq!(env(name, value).config(), Config::default(), "{name}");
    }
    for name in [
        "ROLLCALL_VERSION",
        "ROLLCALL_GIT_COMMIT",
        "ROLLCALL_IMAGE_TAG",
        "ROLLCALL_BUILD_DATE",
    ] {
        assert_eq!(
            env(name, "1.2.3").config(),
            Config::default(),
            "{name} is about the program"
        );
    }
    let first_word = |setting: &Setting| {
        setting.env_name()["ROLLCALL_".len()..]
            .split('_')
            .next()
            .unwrap()
            .to_owned()
    };
    let mixed_up = SETTINGS
        .iter()
        .map(first_word)
        .find(|word| super::environment::BUILD_WORDS.contains(&&**word));
    assert_eq!(
        mixed_up, None,
        "a setting whose typos would be taken for a build's"
    );
    env("ROLLCALL_VERSIONS", "1").refused_with(&["no such setting"]);
    env("ROLLCALL_PORT", "9000").refused_with(&["did you mean ROLLCALL_LISTEN?"]);
    env("ROLLCALL_REDIS_URL", "redis://h").refused_with(&["did you mean ROLLCALL_REDIS?"]);
    env("ROLLCALL_PORT_X_TCP", "1").refused_with(&["no such setting"]);
    env("ROLLCALL_heartbeat", "1s").refused_with(&["did you mean ROLLCALL_HEARTBEAT?"]);
}

#[test]
fn the_file_may_use_dashes_underscores_texts_and_whole_numbers() {
    let config =
        file("streamer-timeout = 0\nlease_refresh = \"3s\" # why\nlisten = '127.0.0.1:0'\n")
            .config();
    assert_eq!(config.streamer_timeout, None);
    assert_eq!(config.lease_refresh, secs(3));
    assert_eq!(config.listen.port(), 0);
    file("").config();
    file("heartbeat = 5").refused_with(&["heartbeat (file ", "is \"5\"", "5s"]);
    for (value, kind) in [
        ("1.5", "a decimal number"),
        ("[]", "a list"),
        ("{}", "a table"),
        ("2020-01-01", "a date"),
        ("true", "is \"true\""),
    ] {
        file(&format!("heartbeat = {value}")).refused_with(&["heartbeat (file ", kind]);
    }
    file("lease-refresh = '3s'\nlease_refresh = '3s'").refused_with(&["lease", "is set twice"]);
    file("config = 'other.toml'").refused_with(&["config (file "]);
    file("[presence]\nheartbeat = '5s'").refused_with(&["presence (file ", "no such setting"]);
    file("log-level = 'info'").refused_with(&["did you mean log?"]);
}

#[test]
fn a_broken_or_unreadable_file_is_reported_with_the_other_mistakes() {
    let mistakes = file("flush = '1s'\nheartbeat 5s\n")
        .flags("--lease soon")
        .refused();
    assert_eq!(mistakes.len(), 2, "{mistakes:?}");
    assert!(
        mistakes[0].contains("is not valid TOML, line 2"),
        "{mistakes:?}"
    );
    file(&"#".repeat(70_000)).refused_with(&["is longer than 64 KiB"]);
    let dir = tempfile::tempdir().unwrap();
    flags(&format!("--config {}", dir.path().display()))
        .refused_with(&["file ", "cannot be read: is a directory"]);
    let missing = dir.path().join("missing.toml");
    flags(&format!("--config {}", missing.display()))
        .refused_with(&["missing.toml", "cannot be read: entity not found"]);
}

#[test]
fn a_key_set_is_a_file_or_a_url_without_a_password() {
    let of = |value: &str| flags(&format!("--auth jwt --jwt-jwks {value}")).config();
    assert_eq!(
        of("/etc/jwks.json").jwt_jwks,
        Some(Jwks::File(PathBuf::from("/etc/jwks.json")))
    );
    assert!(matches!(
        of("https://example.org/jwks.json").jwt_jwks,
        Some(Jwks::Url(_))
    ));
    assert!(of("https://example.org/jwks.json").warnings().is_empty());
    assert_eq!(of("http://example.org/jwks.json").warnings().len(), 1);
    for bad in [
        "ftp://example.org/hunter2",
        "https://u:hunter2@example.org",
        "https://hunter2@h",
        "https://hunter2 /",
    ] {
        let start = Start {
            flags: vec!["--auth=jwt".to_owned(), format!("--jwt-jwks={bad}")],
            ..Start::default()
        };
        let mistakes = start.refused();
        assert!(
            mistakes[0].starts_with("jwt-jwks (flag --jwt-jwks)"),
            "{mistakes:?}"
        );
        assert!(!mistakes.concat().contains("hunter2"), "{mistakes:?}");
    }
}

#[test]
fn token_and_key_are_commands_with_options_of_their_own() {
    let start =
        flags("token --sub u1 --role streamer --ttl 5m --lives 42,43 --fan-of s1 --no-count");
    let Ok(Loaded::Run(Task::Token(args), config)) = start
        .flags("--jwt-hs256-secret-file /s --jwt-issuer me")
        .load()
    else {
        panic!("no token");
    };
    assert_eq!(
        (
            config.jwt_issuer.as_deref(),
            args.sub.as_str(),
            args.role.as_str()
        ),
        (Some("me"), "u1", "streamer")
    );
    assert_eq!(
        (args.ttl, args.no_count, args.jwt_private_key),
        (secs(300), true, None)
    );
    assert_eq!(
        (args.lives.map(|l| l.len()), args.fan_of.map(|l| l.len())),
        (Some(2), Some(1))
    );
    let Ok(Loaded::Run(Task::Key(args), _)) =
        flags("key --name ci.1 --scopes moderate,read").load()
    else {
        panic!("no key")
    };
    assert_eq!(
        (args.name, args.scopes.join(" ")),
        ("ci.1".to_owned(), "moderate read".to_owned())
    );
    for (line, words) in [
        ("token", ["--sub (flag)", "is missing"]),
        ("token --sub u*", ["--sub (flag)", "an id may contain"]),
        (
            "token --sub u1 --role king",
            ["--role (flag)", "viewer, streamer or service"],
        ),
        (
            "token --sub u1 --ttl 1ms",
            ["--ttl (flag)", "from 1s to 366d"],
        ),
        ("token --sub u1 --sub u2", ["--sub (flag)", "only once"]),
        (
            "token --sub u1 --lives 42,,43",
            ["--lives (flag)", "1 to 64 bytes"],
        ),
        (
            "token --sub u1 --scopes read",
            ["--scopes (flag)", "is not an option of this command"],
        ),
        ("key --scopes read", ["--name (flag)", "is missing"]),
        (
            "key --name a --scopes all",
            ["--scopes (flag)", "read, write, moderate"],
        ),
        ("key --name #a --scopes read", ["--name (flag)", "1 to 64"]),
        (
            "serve --sub u1",
            ["--sub (flag)", "is not an option of this command"],
        ),
        (
            "audit --redis redis://h --name a",
            ["--name (flag)", "is not an option of this command"],
        ),
    ] {
        flags(line).refused_with(&words);
    }
}

#[test]
fn settings_that_are_probably_not_intended_cause_a_warning() {
    assert!(Config::default().warnings().is_empty());
    assert_eq!(flags("--streamer-timeout 5s").config().warnings().len(), 1);
}

#[test]
fn a_switch_may_be_given_without_a_value() {
    assert!(
        flags("--proxy-from-env --flush 11ms")
            .config()
            .proxy_from_env
    );
    assert!(flags("serve --proxy-from-env").config().proxy_from_env);
    assert!(!flags("--proxy-from-env off").config().proxy_from_env);
    assert!(flags("--proxy-from-env true").config().proxy_from_env);
    assert!(!env("ROLLCALL_TRACK_ONLINE", "off").config().track_online);
    assert!(!env("ROLLCALL_TRACK_ONLINE", "false").config().track_online);
    flags("--proxy-from-env yes").refused_with(&["--proxy-from-env", "use off or on"]);
    flags("--track-online").refused_with(&["--track-online", "has no value"]);
}

#[test]
fn a_webhook_needs_a_url_a_secret_and_events_that_are_written() {
    let hook = "--webhook-url https://example.org --webhook-secret-file /f";
    flags(hook).config();
    flags("--webhook-url https://example.org")
        .refused_with(&["webhook-url", "webhook-secret-file"]);
    flags("--webhook-secret-file /f").refused_with(&["webhook-url", "webhook-secret-file"]);
    for url in ["example.org", "ftp://example.org", "http:", "/hooks"] {
        flags(&format!("--webhook-url {url} --webhook-secret-file /f"))
            .refused_with(&["--webhook-url", "https"]);
    }
    flags(&format!("{hook} --webhook-events live.opened,live.shut"))
        .refused_with(&["--webhook-events", "live.closed"]);
    flags(&format!("{hook} --webhook-events fan.left"))
        .refused_with(&["webhook-events", "fan-events"]);
    flags(&format!("{hook} --webhook-events fan.left --fan-events")).config();
    flags(&format!(
        "{hook} --webhook-events live.counts --count-events off"
    ))
    .refused_with(&["count-events"]);
}

/// A settings file with one further webhook that has these lines.
fn webhook(lines: &str) -> Start {
    file(&format!("[webhooks.crm]\n{lines}"))
}

#[test]
fn a_table_describes_each_further_webhook() {
    let text = "webhook-url = 'https://a.example'\nwebhook-secret-file = '/a'\n\n[webhooks.crm]\n\
                url = 'https://u:hunter2@b.example/hooks?key=1'\nsecret-file = '/b'\n\
                events = 'live.opened,live.closed'\n\n[webhooks.log]\n\
                url = 'https://c.example'\nsecret_file = '/d'\n";
    let config = file(text).config();
    let endpoints = config.webhook_endpoints();
    let names: Vec<&str> = endpoints.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["default", "crm", "log"]);
    let crm = &endpoints[1];
    assert_eq!(crm.secret_file, PathBuf::from("/b"));
    assert!(crm.wants(EventKind::LiveOpened) && !crm.wants(EventKind::LiveCounts));
    assert!(endpoints[2].wants(EventKind::LiveCounts));
    assert_eq!(crm.origin(), "https://b.example");
    assert!(config.file_with_secrets.is_some());
    let debug = format!("{config:?}");
    assert!(!debug.contains("hunter2"), "{debug}");
}

#[test]
fn a_wrong_webhook_is_refused_with_the_name_of_its_key() {
    let good = "url = 'https://a.example'\nsecret-file = '/a'\n";
    for (lines, words) in [
        (
            "secret-file = '/a'",
            ["webhooks.crm.url (file ", "is missing"],
        ),
        (
            "url = 'https://a'",
            ["webhooks.crm.secret-file (file ", "is missing"],
        ),
        (
            "url = 'hunter2'\nsecret-file = '/a'",
            ["webhooks.crm.url (file ", "not a URL"],
        ),
        (
            "url = ''\nsecret-file = '/a'",
            ["webhooks.crm.url (file ", "is empty"],
        ),
        (
            "url = 7\nsecret-file = '/a'",
            ["webhooks.crm.url (file ", "text in quotes"],
        ),
        (
            &format!("{good}event = 'x'"),
            ["webhooks.crm.event (file ", "did you mean events?"],
        ),
        (
            &format!("{good}events = 'x'"),
            ["webhooks.crm.events (file ", "live.closed"],
        ),
        (
            &format!("{good}secret_file = '/b'"),
            ["webhooks.crm.secret-file", "set twice"],
        ),
        (
            &format!("{good}events = 'fan.left'"),
            ["webhooks.crm.events: ", "fan-events on"],
        ),
        (
            &format!("{good}events = 'user.followed'"),
            ["webhooks.crm.events: ", "follow-events on"],
        ),
        (
            &format!("{good}events = 'audit.recorded'"),
            ["webhooks.crm.events: ", "audit-events on"],
        ),
    ] {
        let start = webhook(lines);
        start.refused_with(&words);
        let mistakes = start.load().unwrap_err().to_string();
        assert!(!mistakes.contains("hunter2"), "{lines}");
        assert_eq!(mistakes.lines().count(), 1, "{mistakes}");
    }
    file("webhooks = 'x'").refused_with(&["line 1", "[webhooks.main]"]);
    file("webhooks.crm = 'x'").refused_with(&["webhooks.crm (file ", "write [webhooks.crm]"]);
    file(&format!("[webhooks.CRM]\n{good}")).refused_with(&["webhooks.CRM (file ", "a-z 0-9 -"]);
    file(&format!("[webhooks.default]\n{good}"))
        .refused_with(&["webhooks.default: ", "webhook-url"]);
}

/// A settings file with one media server that has these lines.
fn media(lines: &str) -> Start {
    file(&format!("[media.main]\n{lines}"))
}

#[test]
fn a_table_describes_each_media_server() {
    let text = "heartbeat = '4s'\n\n[media.main]\nkind = 'nginx-rtmp'\nsecret_file = '/etc/rtmp'\n\
                live = '{app}-{name}'\nnetworks = '10.0.0.0/8, ::1'\n\n[media.eu-1]\nkind = \"livekit\"\n\
                secret = \"devsecret\"\nstreamer = \"{streamer_id}\"\n";
    let config = file(text).config();
    assert_eq!(config.heartbeat, secs(4));
    let [main, eu] = config.media.as_slice() else {
        panic!("{:?}", config.media)
    };
    assert_eq!(main.name.as_str(), "main");
    assert_eq!(main.kind, MediaKind::NginxRtmp);
    assert_eq!(main.secret_file, Some(PathBuf::from("/etc/rtmp")));
    assert_eq!(main.networks.len(), 2);
    assert_ne!(main.live, Template::default());
    assert_eq!(eu.name.as_str(), "eu-1");
    assert_eq!(eu.secret.as_ref().unwrap().reveal(), "devsecret");
    assert_eq!(eu.live, Template::default());
    assert!(config.file_with_secrets.is_some());
    let debug = format!("{config:?}");
    assert!(!debug.contains("devsecret"), "{debug}");
}

#[test]
fn a_wrong_media_server_is_refused_with_the_name_of_its_key() {
    for (lines, words) in [
        (
            "",
            [
                "media.main.kind (file ",
                "is missing; use one of nginx-rtmp, srs",
            ],
        ),
        ("kind = 'nginx'", ["media.main.kind (file ", "line 1"]),
        ("kind = 7", ["media.main.kind (file ", "text in quotes"]),
        (
            "kind = 'srs'\nkidn = 'x'",
            ["media.main.kidn (file ", "did you mean kind?"],
        ),
        (
            "kind = 'srs'\nlive = ''",
            ["media.main.live (file ", "is empty"],
        ),
        (
            "kind = 'srs'\nlive = '{live}'",
            ["media.main.live (file ", "{name} or {app}"],
        ),
        (
            "kind = 'srs'\nlive = '{name'",
            ["media.main.live (file ", "brace"],
        ),
        (
            "kind = 'srs'\nsecret = 'hunter2'",
            ["media.main.secret: ", "16 characters"],
        ),
        (
            "kind = 'mux'",
            ["media.main.secret-file: ", "callbacks of mux"],
        ),
        (
            "kind = 'srs'\npublish-url = 'hunter2'",
            ["media.main.publish-url (file ", "not a URL"],
        ),
        (
            "kind = 'srs'\npublish-secret-file = 'x'",
            ["media.main.publish-secret-file: ", "publish-url"],
        ),
        (
            "kind = 'mux'\nsecret = 'x'\npoll-url = 'http://h/'",
            ["media.main.poll-url: ", "cannot be asked"],
        ),
        (
            "kind = 'srs'\nsecret = 'aaaaaaaaaaaaaaaa'\nheartbeats = 'on'",
            ["media.main.heartbeats: ", "sends none"],
        ),
        (
            "kind = 'nginx-rtmp'\nheartbeats = 'yes'",
            ["media.main.heartbeats (file ", "off or on"],
        ),
        (
            "kind = 'srs'\nnetworks = 'here'",
            ["media.main.networks (file ", "10.0.0.0/8"],
        ),
        (
            "kind = 'srs'\nbegins = 'x'",
            ["media.main.begins (file ", "for kind generic"],
        ),
        (
            "kind = 'generic'\nevent = 'a,'",
            ["media.main.event (file ", "comma"],
        ),
        (
            "kind = 'generic'\nno-status = '500'",
            ["media.main.no-status (file ", "400 to 499"],
        ),
        (
            "kind = 'generic'\nyes-header = 'x'",
            ["media.main.yes-header (file ", "no header"],
        ),
        (
            "kind = 'srs'\nsecret-file = 'a'\nsecret_file = 'b'",
            ["media.main.secret", "set twice"],
        ),
        (
            "kind = 'srs'\nsecret = 'hunter2hunter2hunter2'\nsecret-file = 'x'",
            ["media.main.secret: ", "use one of them"],
        ),
    ] {
        let start = media(lines);
        start.refused_with(&words);
        assert!(
            !start.load().unwrap_err().to_string().contains("hunter2"),
            "{lines}"
        );
    }
    file("media = 'srs'").refused_with(&["line 1", "[media.main]"]);
    file("media.main = 'srs'").refused_with(&["media.main (file ", "write [media.main]"]);
    file("[media.Main]\nkind = 'srs'").refused_with(&["media.Main (file ", "a-z 0-9 -"]);
}

#[test]
fn with_tokens_a_media_server_has_a_secret_and_names_the_streamer() {
    let jwt = |lines: &str| media(lines).flags("--auth jwt --jwt-public-key k");
    jwt("kind = 'srs'").refused_with(&["media.main.secret-file: ", "callbacks of srs"]);
    jwt("kind = 'mux'\nsecret-file = 'x'")
        .refused_with(&["media.main.streamer: ", "mux sends no token"]);
    jwt("kind = 'mux'\nsecret-file = 'x'\nstreamer = '{live}'").config();
    jwt("kind = 'srs'\nsecret-file = 'x'").config();
    media("kind = 'srs'").config();
}
