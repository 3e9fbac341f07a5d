//! The routes of what users tell each other: announcements, feeds and lists.

pub(crate) mod feeds;
pub(crate) mod lists;
pub(crate) mod statuses;

pub(crate) mod open_lives;

use utoipa_axum::routes;

use crate::auth::permissions::Action;
use crate::edge::http::routes::Routes;

/// Adds the routes of this feature.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .only_for(Action::ReadPastLives, routes!(open_lives::of_streamer))
        .only_for(Action::ReadFeeds, routes!(feeds::feed))
        .only_for(Action::ReadFeeds, routes!(feeds::home))
        .only_for(Action::ReadFeeds, routes!(feeds::profile))
        .only_for(Action::ReadFeeds, routes!(statuses::show))
        .only_for(Action::Announce, routes!(statuses::post))
        .only_for(Action::Announce, routes!(statuses::delete))
        .only_for(Action::WriteList, routes!(lists::put, lists::take_out))
        .only_for(Action::ReadFeeds, routes!(lists::members))
        .only_for(Action::ReadFeeds, routes!(lists::timeline))
}
