//! Cuts listings into pages: the query fields `cursor` and `limit`, and the text of the cursors.
//! Every handler that lists something uses it.
//!
//! A cursor is opaque to clients. It holds the listing's letter and the position after which the
//! next page begins, and needs no escaping in a query. A listing refuses a cursor of another
//! listing, and a malformed one.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{ObjectBuilder, Type};

use super::problem::{Problem, ProblemKind};
use crate::edge::fields::{FieldPlace, from_query};

const DEFAULT_LIMIT: usize = 100;

pub(crate) const MAX_LIMIT: usize = 1_000;

/// Separates the fields of a cursor; no id contains it.
const SEPARATOR: char = '~';

/// Which listing a cursor belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    Fans,
    Viewers,
    Lives,
    Following,
    Followers,
    Bans,
    /// Users who are online. The list goes on with those of [`Listing::Seen`].
    Online,
    /// Users by the time when they were seen last.
    Seen,
    Friends,
    Feed,
    Home,
    Profile,
    /// The statuses of the members of a user's list.
    ListTimeline,
    /// The members of a user's list.
    Members,
    /// A streamer's lives that are on air.
    OnAir,
    /// The slices that this gateway holds.
    Held,
    Sessions,
    Attendance,
    PastLives,
    /// Attempts to send events to a webhook.
    Deliveries,
    /// Bans of the platform or of a streamer, or moderators.
    Rules,
}

impl Listing {
    /// The letter with which its cursors begin, and regular expressions for the fields that follow.
    fn shape(self) -> (&'static str, &'static [&'static str]) {
        const NUMBER: &str = "[0-9]{1,19}";
        const SLICE: &str = "[0-9]{1,5}";
        const USER: &str = r"(?!\.{1,2}(~|$))[A-Za-z0-9_.:@-]{1,64}";
        const LIVE: &str = r"(?!\.{1,2}(~|$))(?!.*_slice[0-9]+(~|$))[A-Za-z0-9_.-]{1,64}";
        // A set of the platform belongs to no live.
        const SET: &str = r"(0~(?!\.{1,2}(~|$))(?!.*_slice[0-9]+(~|$))[A-Za-z0-9_.-]{1,64}|[12]~)";
        const LIVE_STATUS: &str =
            r"(?!\.{1,2}@)(?!.*_slice[0-9]+@)[A-Za-z0-9_.-]{1,64}@(0|[1-9][0-9]{0,18})";
        // An announcement, or a live.
        const STATUS: &str =
            r"(?!\.{1,2}(@|$))(?!.*_slice[0-9]+@)[A-Za-z0-9_.-]{1,64}(@(0|[1-9][0-9]{0,18}))?";
        match self {
            Self::Fans => ("n", &[NUMBER, NUMBER, SLICE, USER]),
            Self::Viewers => ("v", &[NUMBER, NUMBER, SLICE, USER]),
            Self::Lives => ("l", &["[avf]", NUMBER, LIVE]),
            Self::Following => ("g", &[NUMBER, USER]),
            Self::Followers => ("r", &[NUMBER, USER]),
            Self::Bans => ("b", &[NUMBER, USER]),
            Self::Online => ("u", &[NUMBER, SLICE, USER]),
            Self::Seen => ("o", &[NUMBER, USER]),
            Self::Friends => ("f", &[NUMBER, USER]),
            Self::Feed => ("d", &[NUMBER, USER, LIVE_STATUS]),
            Self::Home => ("m", &[NUMBER, USER, STATUS]),
            Self::Profile => ("p", &[NUMBER, USER, STATUS]),
            Self::ListTimeline => ("t", &[NUMBER, USER, STATUS]),
            Self::Members => ("e", &[USER]),
            Self::OnAir => ("i", &[NUMBER, USER, LIVE_STATUS]),
            Self::Held => ("h", &[SET, SLICE]),
            Self::Sessions => ("s", &[NUMBER, NUMBER, NUMBER, USER, NUMBER]),
            Self::Attendance => ("w", &[NUMBER, SLICE, USER]),
            Self::PastLives => ("c", &[NUMBER, LIVE, NUMBER]),
            Self::Deliveries => ("y", &[NUMBER, NUMBER]),
            Self::Rules => ("x", &[USER]),
        }
    }

    pub(crate) fn letter(self) -> &'static str {
        self.shape().0
    }

    /// A regular expression for the cursors that the listing can read.
    fn pattern(self) -> String {
        match self {
            Self::Online => format!("^({}|{})?$", Self::Online.form(), Self::Seen.form()),
            _ => format!("^({})?$", self.form()),
        }
    }

    /// The cursors that begin with the listing's letter, as a regular expression.
    fn form(self) -> String {
        let (letter, fields) = self.shape();
        let separator = SEPARATOR.to_string();
        format!("{letter}{separator}{}", fields.join(&separator))
    }

    /// The query parameters of the listing, for the OpenAPI document.
    pub(crate) fn parameters(self) -> Vec<Parameter> {
        let cursor = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(self.pattern()));
        // The empty string stands for the default, as the absent parameter does.
        let limit = ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::Integer, Type::String]))
            .default(Some(json!(DEFAULT_LIMIT)))
            .max_length(Some(0))
            .minimum(Some(1))
            .maximum(Some(MAX_LIMIT as u64));
        vec![
            query_parameter(
                "cursor",
                "What the previous page answered as `cursor`; absent or empty for the first page.",
                cursor,
            ),
            query_parameter("limit", "How many items at most.", limit),
        ]
    }

    /// Makes a cursor of the fields that name the position of the next page.
    pub(crate) fn cursor(self, fields: &[&dyn std::fmt::Display]) -> String {
        let mut text = self.letter().to_owned();
        for field in fields {
            text.push(SEPARATOR);
            text.push_str(&field.to_string());
        }
        text
    }

    /// Reads a position back from a cursor. `read` answers `None` for fields that it cannot use.
    pub(crate) fn resume<const N: usize, T>(
        self,
        cursor: &str,
        read: impl FnOnce([&str; N]) -> Option<T>,
    ) -> Result<T, Problem> {
        if let Some(fields) = self.fields(cursor)
            && let Some(position) = read(fields)
        {
            return Ok(position);
        }
        Err(bad_cursor(
            "must be what the previous page answered, unchanged",
        ))
    }

    /// The fields of a cursor. `None` for a cursor of another listing, or one that has not `N`
    /// fields. The last one may be the id of a guest, and have the separator in it.
    fn fields<const N: usize>(self, cursor: &str) -> Option<[&str; N]> {
        let mut fields = cursor.splitn(N + 1, SEPARATOR);
        if fields.next()? != self.letter() {
            return None;
        }
        let fields: Vec<&str> = fields.collect();
        fields.try_into().ok()
    }
}

fn query_parameter(name: &str, description: &str, schema: ObjectBuilder) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

pub(crate) fn bad_cursor(detail: &'static str) -> Problem {
    Problem::new(ProblemKind::InvalidCursor, detail).at(FieldPlace::Query("cursor".to_owned()))
}

/// Which page a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paging {
    /// `None` for the first page.
    pub(crate) cursor: Option<String>,
    /// 1 to [`MAX_LIMIT`].
    pub(crate) limit: usize,
}

impl Paging {
    /// The position that `read` finds in the cursor; `None` for the first page.
    pub(crate) fn position<T>(
        &self,
        read: impl FnOnce(&str) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        match &self.cursor {
            Some(cursor) => read(cursor).map(Some),
            None => Ok(None),
        }
    }
}

/// Declares the query parameters of a listing, for its `#[utoipa::path]`.
macro_rules! paging_query {
    ($name:ident = $listing:ident) => {
        /// The query of this listing.
        struct $name;

        impl utoipa::IntoParams for $name {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                $crate::edge::http::paging::Listing::$listing.parameters()
            }
        }
    };
}
pub(crate) use paging_query;

#[derive(Deserialize)]
struct PagingQuery {
    cursor: Option<String>,
    limit: Option<String>,
}

impl<S: Sync> FromRequestParts<S> for Paging {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query: PagingQuery =
            from_query(&parts.uri).map_err(|error| Problem::of_query(&error))?;
        let limit = match without_empty(query.limit) {
            None => DEFAULT_LIMIT,
            Some(text) => match text.parse() {
                Ok(limit @ 1..=MAX_LIMIT) => limit,
                _ => {
                    let detail = format!("must be a whole number from 1 to {MAX_LIMIT}");
                    return Err(Problem::new(ProblemKind::InvalidLimit, detail)
                        .at(FieldPlace::Query("limit".to_owned())));
                }
            },
        };
        Ok(Self {
            cursor: without_empty(query.cursor),
            limit,
        })
    }
}

/// Treats an empty field of the query as an absent one.
fn without_empty(field: Option<String>) -> Option<String> {
    field.filter(|text| !text.is_empty())
}

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    /// The items.
    pub(crate) items: Vec<T>,
    /// Where the next page begins; null at the end.
    pub(crate) cursor: Option<String>,
}

impl<T> Page<T> {
    pub(crate) fn empty() -> Self {
        Self {
            items: Vec::new(),
            cursor: None,
        }
    }

    /// The same page, with its items as `of` makes them.
    pub(crate) fn map<U>(self, of: impl FnMut(T) -> U) -> Page<U> {
        Page {
            items: self.items.into_iter().map(of).collect(),
            cursor: self.cursor,
        }
    }

    /// Cuts a page out of the items that the store returned: up to `limit` of them, and one more if
    /// the list goes on.
    pub(crate) fn cut(mut items: Vec<T>, limit: usize, cursor: impl FnOnce(&T) -> String) -> Self {
        // A store call returns MAX_LIMIT items at most, so a full page of that size may or may not
        // be the last.
        let more = items.len() > limit || (limit == MAX_LIMIT && items.len() == limit);
        items.truncate(limit);
        let cursor = if more { items.last().map(cursor) } else { None };
        Self { items, cursor }
    }
}

/// One page of a list, and how long the list is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CountedPage<T> {
    /// How many there are in all: exact, when the list began.
    pub(crate) count: u64,
    /// The items.
    pub(crate) items: Vec<T>,
    /// Where the next page begins; null at the end.
    pub(crate) cursor: Option<String>,
}

/// How many items to request from the store for a page of `limit`: one more than `limit`, within
/// the bound of one call.
pub(crate) fn ask_for(limit: usize) -> usize {
    (limit + 1).min(MAX_LIMIT)
}
