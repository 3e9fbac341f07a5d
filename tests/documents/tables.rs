//! Settings, metrics, codes and keys: each is declared once in the code, and named in the document
//! about it.

use std::collections::{BTreeMap, BTreeSet};

use rollcall::auth::permissions;
use rollcall::base::ids::{LiveId, UserId};
use rollcall::base::key_prefix::KeyPrefix;
use rollcall::base::session_key::ENDS_KEPT;
use rollcall::base::{exit, metrics, process};
use rollcall::config;
use rollcall::features::audit::{FindingKind, Severity};
use rollcall::session::close_codes::Close;
use rollcall::session::messages::ErrorCode;
use rollcall::store::ATTENDANCE_KEPT;
use rollcall::store::Channel;
use rollcall::store::redis::family::{AllFamilies, Family, KeyType};
use rollcall::store::redis::keys::{self, Keys};

use super::{between, files_below, has_table, read, rows};

#[test]
fn the_documents_have_the_tables_of_settings_and_of_permissions() {
    has_table("docs/operations.md", "settings", &config::markdown_table());
    let table = permissions::markdown_table();
    has_table("docs/security.md", "permissions", &table);
}

/// The files that make a code or a signature, or seal something, with what the document calls each.
const SIGNERS: [(&str, &[&str]); 9] = [
    // Signs again what it has checked, for a library: nobody gets that.
    ("src/auth/ed25519.rs", &[]),
    ("src/auth/mint.rs", &["`mint.rs`"]),
    (
        "src/auth/presence_secret.rs",
        &[
            "`session ids`",
            "`session keys`",
            "`datagrams`",
            "`tickets`",
        ],
    ),
    ("src/auth/ticket_key.rs", &["`tickets`"]),
    ("src/features/datagrams/cookies.rs", &["`cookies.rs`"]),
    // Codes with the keys of datagrams.
    ("src/features/datagrams/wire.rs", &["codes"]),
    ("src/features/media/poller.rs", &["`poller.rs`"]),
    // Only checks what media servers send.
    ("src/features/media/signature.rs", &[]),
    (
        "src/features/webhooks/signature.rs",
        &["`webhooks/signature.rs`"],
    ),
];

#[test]
fn the_document_on_security_has_a_row_for_everything_that_is_signed() {
    let text = read("docs/security.md");
    let table = between(&text, "<!-- signed -->", "<!-- /signed -->").unwrap();
    let mut found = files_below("src");
    found.retain(|path| {
        if !path.ends_with(".rs") {
            return false;
        }
        let is_for_tests = path.contains("tests") || path.contains("test_keys");
        let text = read(path);
        let signs = ["HMAC_SHA256", "EncodingKey", "UnboundKey"]
            .iter()
            .any(|key| text.contains(key));
        signs && !is_for_tests
    });
    assert_eq!(found, SIGNERS.map(|(path, _)| path));
    for (path, names) in SIGNERS {
        for name in names {
            assert!(
                table.contains(name),
                "docs/security.md has no row for {name} of {path}"
            );
        }
    }
    // Each use of the presence secret has a label of its own.
    let secret = read("src/auth/presence_secret.rs");
    let labels = secret.split("expand(&root, &[b\"").skip(1);
    let labels: Vec<&str> = labels
        .filter_map(|rest| Some(rest.split_once('"')?.0))
        .collect();
    let used = [
        "session ids",
        "guests",
        "datagrams",
        "session keys",
        "tickets",
        "networks",
    ];
    assert_eq!(labels, used);
}

#[test]
fn the_document_names_every_metric_with_its_help_and_no_other() {
    let own = metrics::ALL
        .iter()
        .map(|(name, kind, help)| (format!("rollcall_{name}"), kind, help));
    let of_process = process::ALL
        .iter()
        .map(|(name, kind, help)| ((*name).to_owned(), kind, help));
    let right: BTreeMap<String, (String, String)> = own
        .chain(of_process)
        .map(|(name, kind, help)| {
            // `Counter` alone, or of a family, as in `Family<Why, Counter>`.
            let kind = ["counter", "gauge", "histogram"]
                .into_iter()
                .find(|word| kind.to_lowercase().contains(word));
            let kind =
                kind.unwrap_or_else(|| panic!("{name} is of a type that this check does not know"));
            let suffix = if kind == "counter" { "_total" } else { "" };
            (
                format!("{name}{suffix}"),
                (kind.to_owned(), help.trim().to_owned()),
            )
        })
        .collect();
    let text = read("docs/metrics.md");
    let named: BTreeMap<String, (String, String)> = rows(&text)
        .into_iter()
        .filter(|(name, _)| name.starts_with("rollcall_") || name.starts_with("process_"))
        .map(|(name, cells)| (name, (cells[0].clone(), cells.last().unwrap().clone())))
        .collect();
    let table: Vec<String> = right
        .iter()
        .map(|(name, (kind, help))| format!("| `{name}` | {kind} | … | {help} |"))
        .collect();
    assert!(
        named == right,
        "docs/metrics.md names\n{named:#?}\nright would be\n{}",
        table.join("\n")
    );
}

#[test]
fn the_document_on_operations_names_every_exit_code() {
    let text = read("docs/operations.md");
    let table = between(&text, "| exit code | meaning |\n", "\n\n").unwrap();
    let named: Vec<(String, Vec<String>)> = rows(table);
    let right = exit::CODES
        .iter()
        .map(|(code, what)| (code.to_string(), vec![(*what).to_owned()]));
    assert_eq!(named, right.collect::<Vec<_>>());
}

#[test]
fn the_document_on_audits_names_every_kind_of_finding_and_no_other() {
    let word = |severity: &Severity| {
        if *severity == Severity::Error {
            "error"
        } else {
            "warning"
        }
    };
    let right: BTreeMap<String, Vec<String>> = FindingKind::ALL
        .iter()
        .map(|(name, severity, what)| {
            (
                (*name).to_owned(),
                vec![word(severity).to_owned(), what.trim().to_owned()],
            )
        })
        .collect();
    let text = read("docs/audit.md");
    let is_kind = |cells: &[String]| {
        cells
            .first()
            .is_some_and(|cell| cell == "error" || cell == "warning")
    };
    let named: BTreeMap<String, Vec<String>> = rows(&text)
        .into_iter()
        .filter(|(_, cells)| is_kind(cells))
        .map(|(name, cells)| (name, cells[..2].to_vec()))
        .collect();
    assert_eq!(named, right);
}

#[test]
fn the_document_on_the_websocket_names_every_code() {
    let text = read("docs/websocket.md");
    let rows: BTreeMap<_, _> = rows(&text).into_iter().collect();
    for close in Close::ALL {
        let Some(code) = close.code() else { continue };
        let cells = rows
            .get(&code.to_string())
            .unwrap_or_else(|| panic!("close code {code} has no row"));
        assert_eq!(
            cells[0],
            format!("`{}`", close.label()),
            "the reason of {code}"
        );
    }
    for code in ErrorCode::ALL {
        assert!(
            rows.contains_key(code.as_str()),
            "error code {} has no row",
            code.as_str()
        );
    }
    let known = |name: &&String| {
        let is = |code: &u16| code.to_string() == **name;
        name.len() == 4
            && name.starts_with('4')
            && !Close::ALL
                .iter()
                .filter_map(|close| close.code())
                .any(|c| is(&c))
    };
    assert_eq!(
        rows.keys().filter(known).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "close codes that are not sent"
    );
}

/// A family as the document names it. Its tables show slices of lives and of the platform.
fn documented(family: &Family) -> String {
    let name = family.name.replace("<live_slice>", "<slice>");
    let name = name.replace("<live_epoch>", "<live_id>@<epoch>");
    let name = name.replace("<gateways>", "rollcall:gateways");
    name.replace("<:webhook>", "")
}

/// The keys in the tables of a text, each with its type, and with one name for all slices.
fn keys_in(text: &str) -> BTreeSet<(String, String)> {
    let slices = [
        "online-fans:<live_id>_slice<k>",
        "online-fans:<live_id>",
        "online-users_slice<k>",
        "online-streamers_slice<k>",
    ];
    let mut found = BTreeSet::new();
    for (names, cells) in rows(text) {
        let kind = cells[0].split(' ').next().unwrap_or_default();
        if !["STRING", "SET", "ZSET", "HASH", "STREAM"].contains(&kind) {
            continue;
        }
        for name in names.split("`, `") {
            let mut name = name.to_owned();
            for slice in slices {
                name = name.replace(slice, "<slice>");
            }
            found.insert((name, kind.to_owned()));
        }
    }
    found
}

#[test]
fn the_document_on_redis_has_a_row_for_every_family_of_keys_and_no_other() {
    let text = read("docs/redis.md");
    let contract = between(&text, "## Keys for other services to read", "\n## ").unwrap();
    let own = between(&text, "## The gateways' own keys", "\n## ").unwrap();
    let (mut for_others, mut all) = (BTreeSet::new(), BTreeSet::new());
    for family in Keys::default().families() {
        let kind = match family.kind {
            KeyType::Text => "STRING",
            KeyType::Set => "SET",
            KeyType::Zset => "ZSET",
            KeyType::Hash => "HASH",
            KeyType::Stream => "STREAM",
        };
        let kind = kind.to_owned();
        if family.is_contract {
            for_others.insert((documented(family), kind.clone()));
        }
        all.insert((documented(family), kind));
    }
    assert_eq!(keys_in(contract), for_others);
    let named: BTreeSet<_> = keys_in(contract).union(&keys_in(own)).cloned().collect();
    assert_eq!(named, all);
    let live = LiveId::parse("live_id").unwrap();
    for channel in [
        Channel::Gateways,
        Channel::Live(live.clone()),
        Channel::Moves(live),
    ] {
        let name = Keys::default()
            .channel(&channel)
            .replace("live_id", "<live_id>");
        assert!(
            rows(own).iter().any(|(named, _)| *named == name),
            "docs/redis.md has no row for `{name}`"
        );
    }
}

/// Whether a glob with `*` only matches a name.
fn fits(glob: &str, name: &str) -> bool {
    let Some((begin, rest)) = glob.split_once('*') else {
        return glob == name;
    };
    let Some(name) = name.strip_prefix(begin) else {
        return false;
    };
    (0..=name.len()).any(|at| name.is_char_boundary(at) && fits(rest, &name[at..]))
}

#[test]
fn the_rule_for_gateways_has_a_pattern_for_every_family_of_keys_and_no_other() {
    let text = read("docs/redis.md");
    let rule = between(&text, "ACL SETUSER rollcall reset", "```").unwrap();
    let patterns: Vec<&str> = rule
        .split_whitespace()
        .filter_map(|word| word.strip_prefix('~'))
        .collect();
    let mut names = Vec::new();
    for family in Keys::default().families() {
        let name = documented(family);
        if !name.contains("<slice>") {
            names.push(name);
            continue;
        }
        for slice in [
            "online-fans:42",
            "online-users_slice1",
            "online-streamers_slice1",
        ] {
            names.push(name.replace("<slice>", slice));
        }
    }
    for name in &names {
        assert!(
            patterns.iter().any(|pattern| fits(pattern, name)),
            "the rule in docs/redis.md does not allow {name}"
        );
    }
    for pattern in patterns {
        assert!(
            names.iter().any(|name| fits(pattern, name)),
            "nothing needs {pattern}"
        );
    }
}

#[test]
fn the_document_on_redis_names_every_lifetime() {
    let text = read("docs/redis.md");
    let lifetimes = [
        (keys::SLICE_TTL, 3_600, "h after"),
        (keys::CLOSED_FENCE_TTL, 3_600, "h after"),
        (keys::LEASES_TTL, 86_400, "days after the last renewal"),
        (keys::REMOVALS_TTL, 86_400, "days after the last removal"),
        (keys::ATTENDANCE_TTL, 86_400, "days after its last change"),
        (ATTENDANCE_KEPT, 86_400, "days after the close"),
        (ENDS_KEPT, 60, "minutes"),
    ];
    for (time, unit, word) in lifetimes {
        let said = format!("{} {word}", time.as_secs() / unit);
        assert!(text.contains(&said), "docs/redis.md does not say {said:?}");
    }
}

/// If it were allowed, the keys of one installation could be those of another, see [`KeyPrefix`].
#[test]
fn no_prefix_has_a_beginning_of_a_key_in_it() {
    let text = read("docs/redis.md");
    let (present, _former) = text.split_once("## Upgrading").unwrap();
    let named = rows(present)
        .into_iter()
        .filter_map(|(name, _)| Some(name.split_once('<')?.0.to_owned()));
    // Not the fields of hashes, nor the channel of lives, whose brace no prefix has.
    let beginnings: Vec<String> = named
        .filter(|name| name.ends_with(':') && !name.contains('{'))
        .collect();
    assert!(beginnings.len() > 4, "{beginnings:?}");
    for beginning in beginnings {
        let parsed = KeyPrefix::parse(&format!("app1:{beginning}"));
        assert!(
            parsed.is_err(),
            "src/base/key_prefix.rs must refuse a prefix with {beginning}"
        );
    }
}

#[test]
fn the_test_vectors_of_the_document_on_redis_are_right() {
    let text = read("docs/redis.md");
    let vectors: Vec<_> = rows(&text)
        .into_iter()
        .filter(|(_, cells)| cells.len() == 3)
        .collect();
    let mut checked = 0;
    for (user, cells) in vectors {
        let [Ok(_hash), Ok(of_8), Ok(of_256)] = [0, 1, 2].map(|i: usize| cells[i].parse::<u64>())
        else {
            continue;
        };
        let user = UserId::parse(&user).unwrap();
        let right = [8, 256].map(|n| u64::from(user.slice_index(n)));
        assert_eq!([of_8, of_256], right, "{user}");
        checked += 1;
    }
    assert!(checked >= 2, "docs/redis.md has no test vectors");
}
