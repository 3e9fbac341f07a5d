//! What is sent to a database, without one. The stories ask a real PostgreSQL.

use crate::features::fan_sources::sql::*;

fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

#[test]
fn the_list_of_mysql_has_a_power_of_two_of_places() {
    assert_eq!(with_places("a = ? AND b IN (?)", 1), "a = ? AND b IN (?)");
    assert_eq!(
        with_places("a = ? AND b IN (?)", 3),
        "a = ? AND b IN (?,?,?,?)"
    );
    let sizes: std::collections::BTreeSet<_> = (1..=MAX_BATCH).map(places).collect();
    assert_eq!((sizes.len(), sizes.last()), (11, Some(&1_024)));
}

#[test]
fn an_integer_is_written_as_integers_usually_are() {
    assert_eq!(integer(&user("7")), Some(7));
    assert_eq!(integer(&user("-7")), Some(-7));
    for odd in ["007", "-0", "7.0", "seven", "9223372036854775808"] {
        assert_eq!(integer(&user(odd)), None, "{odd}");
    }
}

#[test]
fn every_error_of_the_library_has_a_kind() {
    assert!(matches!(
        FanError::from(sqlx::Error::PoolTimedOut),
        FanError::Unreachable(_)
    ));
    let column = sqlx::Error::ColumnIndexOutOfBounds { index: 0, len: 0 };
    assert!(matches!(FanError::from(column), FanError::Nonsense(_)));
}

#[tokio::test]
async fn a_url_that_cannot_be_used_is_refused_without_being_shown() {
    for url in [
        "postgres://u:hunter2@h/d?sslmode=hunter2",
        "mysql://u:hunter2@h/d?ssl-mode=hunter2",
    ] {
        let config = Config {
            fan_url: Some(Secret::new(url)),
            ..Config::default()
        };
        let refused = SqlFans::new(&config, Arc::default())
            .err()
            .map(|why| why.to_string());
        assert_eq!(
            refused.as_deref(),
            Some("fan-url: cannot be read, or has a parameter with a wrong value")
        );
    }
}
