//! Answers questions over lives with attendance: part by part, many at a time, and a page of the
//! users at once.

use futures_util::{StreamExt, TryStreamExt, stream};

use super::attendance::{Attendance, Attended, Attendees, Attending, LiveEpoch};
use super::errors::{StoreError, StoreResult};
use super::last_seen::Span;
use super::limits::MAX_BATCH;
use super::sessions::Sessions;
use crate::base::ids::UserId;

/// Parts that are answered for at a time.
const PARTS_AT_A_TIME: usize = 64;
/// The same for a page that goes on: most often one part has all of it.
const PARTS_OF_A_PAGE: usize = 4;

/// A question over lives.
#[derive(Debug, Clone)]
pub struct AttendanceQuestion {
    /// Who is asked for.
    pub which: Attending,
    /// The lives, at most [`super::MAX_ATTENDED`], each once.
    pub lives: Vec<(LiveEpoch, Attended)>,
    /// A fan came to a live if a session of theirs there touches this span.
    pub within: Option<Span>,
}

/// Where a list of attendees goes on: after this user of this part; and how many there were when it
/// began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttendancePlace {
    /// The count of the first page.
    pub count: u64,
    /// The part.
    pub part: u32,
    /// The last user listed.
    pub after: UserId,
}

/// A page of attendees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttendancePage {
    /// How many there are in all, when the list began.
    pub count: u64,
    /// Some of them.
    pub users: Vec<UserId>,
    /// Where to go on; `None` at the end.
    pub next: Option<AttendancePlace>,
}

/// Answers a question: a page of up to `limit` users from `start` on.
pub async fn find_attendees<S: Attendance + Sessions + ?Sized>(
    store: &S,
    question: &AttendanceQuestion,
    start: Option<&AttendancePlace>,
    limit: usize,
) -> StoreResult<AttendancePage> {
    let lives: Vec<LiveEpoch> = question.lives.iter().map(|(of, _)| of.clone()).collect();
    // If no live matches, the answer is empty.
    let mut parts = if lives.is_empty() {
        Vec::new()
    } else {
        store.attendance_parts(&lives).await?
    };
    parts.retain(|part| start.is_none_or(|start| *part >= start.part));
    let at_a_time = if start.is_none() {
        PARTS_AT_A_TIME
    } else {
        PARTS_OF_A_PAGE
    };
    let answers = parts.into_iter().map(|part| {
        let lives = &lives;
        async move { Ok::<_, StoreError>((part, answer_for(store, question, lives, part).await?)) }
    });
    let mut answers = stream::iter(answers.collect::<Vec<_>>()).buffered(at_a_time);
    let (mut count, mut users) = (start.map_or(0, |start| start.count), Vec::new());
    while let Some((part, found)) = answers.try_next().await? {
        if start.is_none() {
            count += found.count();
        }
        let after = start
            .filter(|start| start.part == part)
            .map(|start| &start.after);
        // One more than fits: it tells that the list goes on.
        let more = found.page(after, limit + 1 - users.len());
        users.extend(more.into_iter().map(|user| (part, user)));
        if start.is_some() && users.len() > limit {
            break;
        }
    }
    let goes_on = users.len() > limit;
    users.truncate(limit);
    let last = users.last().filter(|_| goes_on);
    let next = last.map(|(part, after)| AttendancePlace {
        count,
        part: *part,
        after: after.clone(),
    });
    Ok(AttendancePage {
        count,
        users: users.into_iter().map(|(_, user)| user).collect(),
        next,
    })
}

async fn answer_for<S: Attendance + Sessions + ?Sized>(
    store: &S,
    question: &AttendanceQuestion,
    lives: &[LiveEpoch],
    part: u32,
) -> StoreResult<Attendees> {
    let Some(span) = question.within else {
        return store.attendees(question.which, lives, part).await;
    };
    // Who came to another live at another time than asked for must not be left out.
    let candidates = match question.which {
        Attending::Not => store.attendees(Attending::All, &lives[..1], part).await?,
        which => store.attendees(which, lives, part).await?,
    };
    let mut found = Vec::new();
    for users in candidates.page(None, usize::MAX - 1).chunks(MAX_BATCH) {
        let mut came = vec![Vec::with_capacity(lives.len()); users.len()];
        for (of, attended) in &question.lives {
            let (fans, there) = tokio::try_join!(
                store.have_attended(of, users),
                store.were_there(of, attended, users, span)
            )?;
            for (place, came) in came.iter_mut().enumerate() {
                came.push(fans[place] && there[place]);
            }
        }
        let taken = users
            .iter()
            .zip(&came)
            .filter(|(_, came)| question.which.takes(came));
        found.extend(taken.map(|(user, _)| user.clone()));
    }
    Ok(Attendees::Users(found))
}
