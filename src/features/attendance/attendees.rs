//! Answers questions over lives with attendance. The answers for several parts are computed
//! concurrently; one call answers one page of users.

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::base::ids::UserId;
use crate::features::attendance::store::Sessions;
use crate::features::attendance::store::{Attendance, Attended, Attendees, Attending};
use crate::store::LiveEpoch;
use crate::store::errors::{StoreError, StoreResult};
use crate::store::last_seen::Span;
use crate::store::limits::MAX_BATCH;

/// Maximum parts for which the first page computes answers concurrently.
const MAX_CONCURRENT_PARTS: usize = 64;

/// The same for a later page, which usually ends within one part.
const MAX_CONCURRENT_PARTS_OF_LATER_PAGE: usize = 4;

/// A question over lives.
#[derive(Debug, Clone)]
pub struct AttendanceQuestion {
    /// Which fans the question asks for.
    pub which: Attending,
    /// The lives, at most [`crate::features::attendance::store::MAX_ATTENDED`], each once.
    pub lives: Vec<(LiveEpoch, Attended)>,
    /// A fan came to a live if a session of theirs there touches this span.
    pub within: Option<Span>,
}

/// Where a list of attendees goes on: after this user of this part. It also has the number of
/// attendees when the list began.
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
    /// The users of this page.
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
    let concurrent = match start {
        Some(start) => {
            parts.retain(|part| *part >= start.part);
            MAX_CONCURRENT_PARTS_OF_LATER_PAGE
        }
        None => MAX_CONCURRENT_PARTS,
    };
    let answers = parts.into_iter().map(|part| {
        let lives = &lives;
        async move { Ok::<_, StoreError>((part, answer_for(store, question, lives, part).await?)) }
    });
    let mut answers = stream::iter(answers.collect::<Vec<_>>()).buffered(concurrent);
    let mut count = match start {
        Some(start) => start.count,
        None => 0,
    };
    let mut users = Vec::new();
    while let Some((part, found)) = answers.try_next().await? {
        if start.is_none() {
            count += found.count();
        }
        let after = match start {
            Some(start) if start.part == part => Some(&start.after),
            _ => None,
        };
        // One user more than fits shows that the list goes on.
        let more = found.page(after, limit + 1 - users.len());
        users.extend(more.into_iter().map(|user| (part, user)));
        if start.is_some() && users.len() > limit {
            break;
        }
    }
    let goes_on = users.len() > limit;
    users.truncate(limit);
    let next = match users.last() {
        Some((part, after)) if goes_on => Some(AttendancePlace {
            count,
            part: *part,
            after: after.clone(),
        }),
        _ => None,
    };
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
    // A fan who came to another live, but not within the span, must not be left out.
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
        for (user, came) in users.iter().zip(&came) {
            if question.which.takes(came) {
                found.push(user.clone());
            }
        }
    }
    Ok(Attendees::Users(found))
}
