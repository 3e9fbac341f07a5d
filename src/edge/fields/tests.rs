//! What is said of a wrong field, whichever type is read.

use axum::http::Uri;
use serde::Deserialize;

use super::*;
use crate::base::ids::UserId;

#[derive(Debug, Deserialize, PartialEq)]
struct Body {
    user_ids: Option<Vec<UserId>>,
    title: Option<String>,
    is_open: Option<bool>,
    seconds: Option<u64>,
    inner: Option<Inner>,
    sort: Option<Sort>,
    #[serde(default)]
    any: serde_json::Value,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Inner {
    deep: u64,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Sort {
    OpenedAt,
    Viewers,
}

fn wrong(text: &str) -> (String, String) {
    let error = from_json::<Body>(&Json::parse(text.as_bytes()).unwrap()).unwrap_err();
    let FieldPlace::Body(pointer) = error.in_body() else {
        panic!("{error}")
    };
    (pointer, error.fault.to_string())
}

#[test]
fn a_right_body_is_read() {
    let text = r#"{"user_ids":["a"],"title":null,"is_open":true,"seconds":7,"inner":{"deep":1},"sort":"viewers",
                   "any":{"x":[1,2.5,-3,"y",null,true]}}"#;
    let read: Body = from_json(&Json::parse(text.as_bytes()).unwrap()).unwrap();
    assert_eq!(
        (read.seconds, read.is_open, read.title, read.sort),
        (Some(7), Some(true), None, Some(Sort::Viewers))
    );
    assert_eq!(read.user_ids.unwrap()[0].as_str(), "a");
    assert_eq!(
        read.any,
        serde_json::json!({"x": [1, 2.5, -3, "y", null, true]})
    );
}

#[test]
fn a_wrong_field_of_a_body_is_named_with_what_would_be_right() {
    for (text, pointer, words) in [
        (r#"{"titel":"x"}"#, "/titel", "did you mean title?"),
        (r#"{"isOpen":true}"#, "/isOpen", "did you mean is_open?"),
        (r#"{"second":1}"#, "/second", "did you mean seconds?"),
        (
            r#"{"zzz":1,"yyy":2}"#,
            "/zzz",
            "and none named yyy; it takes user_ids, title",
        ),
        (
            r#"{"inner":{"deep":1,"deeep":2}}"#,
            "/inner/deeep",
            "did you mean deep?",
        ),
        (r#"{"inner":{}}"#, "/inner/deep", "is missing"),
        (r#"{"title":"x","title":"y"}"#, "/title", "is there twice"),
        (r#"{"any":[{"a":1,"a":1}]}"#, "/any/0/a", "is there twice"),
        (
            r#"{"any":{"a/b~c":{"d":1,"d":1}}}"#,
            "/any/a~1b~0c/d",
            "is there twice",
        ),
        (r#"{"title":7}"#, "/title", "must be a text, not a number"),
        (
            r#"{"is_open":"true"}"#,
            "/is_open",
            "must be true or false, not a text",
        ),
        (
            r#"{"user_ids":"a"}"#,
            "/user_ids",
            "must be a list, not a text",
        ),
        (
            r#"{"user_ids":["a",null]}"#,
            "/user_ids/1",
            "must be a text, not null",
        ),
        (
            r#"{"user_ids":["a","b","{c}"]}"#,
            "/user_ids/2",
            "an id may contain",
        ),
        (
            r#"{"inner":[1]}"#,
            "/inner",
            "must be an object, not a list",
        ),
        (
            r#"{"sort":"size"}"#,
            "/sort",
            "must be opened_at or viewers",
        ),
        (r#"{"inner":{"deep":-1}}"#, "/inner/deep", "not -1"),
    ] {
        let (found, said) = wrong(text);
        assert_eq!(found, pointer, "{text}: {said}");
        assert!(said.contains(words), "{text}: {said}");
    }
}

#[test]
fn no_message_quotes_a_text_of_the_body() {
    for text in [
        r#"{"seconds":"hunter2"}"#,
        r#"{"sort":"hunter2"}"#,
        r#"{"user_ids":["{hunter2}"]}"#,
    ] {
        let (_, said) = wrong(text);
        assert!(!said.contains("hunter2"), "{said}");
    }
    let (pointer, _) = wrong(&format!("{{\"{}\":1}}", "x".repeat(10_000)));
    assert!(pointer.len() < 100, "a long name is cut: {pointer}");
}

#[test]
fn a_wrong_field_of_a_query_is_named_and_those_of_other_types_are_left_alone() {
    #[derive(Debug, Deserialize)]
    struct Query {
        seconds: Option<u64>,
        is_open: Option<bool>,
        sort: Option<Sort>,
    }
    let read = |query: &str| from_query::<Query>(&format!("/?{query}").parse::<Uri>().unwrap());
    let right = read("seconds=7&is_open=false&sort=opened_at&cursor=x&cursor=y").unwrap();
    assert_eq!(
        (right.seconds, right.is_open, right.sort),
        (Some(7), Some(false), Some(Sort::OpenedAt))
    );
    for (query, name, words) in [
        ("seconds=soon", "seconds", "must be"),
        ("seconds=-1", "seconds", "must be"),
        ("seconds=+1", "seconds", "must be"),
        ("seconds=", "seconds", "must be"),
        ("is_open=yes", "is_open", "true or false"),
        ("sort=size", "sort", "opened_at or viewers"),
        ("seconds=1&seconds=1", "seconds", "is there twice"),
    ] {
        let error = read(query).unwrap_err();
        assert_eq!(
            error.in_query(),
            FieldPlace::Query(name.to_owned()),
            "{query}"
        );
        assert!(error.fault.to_string().contains(words), "{query}: {error}");
    }
}
