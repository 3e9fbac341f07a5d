//! Statuses, timelines, lists, the jobs for followers, and the feeds that are made of them.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::ids::{Epoch, GatewayId, ListName, PostId, UserId};
use rollcall::features::feeds::store::fanout_jobs::FanoutJob;
use rollcall::features::feeds::store::fanout_jobs::FanoutTask;
use rollcall::features::feeds::store::feeds::View;
use rollcall::features::feeds::store::feeds::forget_author;
use rollcall::features::feeds::store::feeds::merge_author;
use rollcall::features::feeds::store::feeds::refill;
use rollcall::features::feeds::store::feeds::status_page;
use rollcall::features::feeds::store::lists::MAX_LIST;
use rollcall::features::feeds::store::lists::PutInList;
use rollcall::features::feeds::store::statuses::Post;
use rollcall::features::feeds::store::statuses::StatusId;
use rollcall::features::feeds::store::statuses::TimelineEntry;
use rollcall::features::feeds::store::timelines::MAX_TIMELINE;
use rollcall::features::feeds::store::timelines::Timeline;
use rollcall::store::Followed;
use tokio::time::Instant;

use super::{end, live, loaded, on_each, opened_as, user, wish_of};

on_each!(
    a_timeline_keeps_the_newest_once_and_pages_miss_nobody,
    a_streamer_s_lives_are_paged_to_their_end_however_many_are_on_air,
    a_write_that_is_too_late_is_refused_or_needless,
    an_announcement_stays_as_it_was_made_first,
    an_author_s_oldest_announcements_are_forgotten,
    a_list_has_each_member_once_and_is_bounded,
    a_job_is_taken_once_and_remembers_how_far_it_got,
    authors_who_are_pulled_keep_their_first_time,
    a_feed_shows_what_stands_and_drops_the_rest,
    a_follow_brings_what_stands_and_an_unfollow_takes_it,
    what_was_lost_is_filled_again_but_not_what_is_pulled,
    a_home_merges_announcements_and_lives_by_time,
);

fn post_of(author: usize, name: &str) -> StatusId {
    StatusId::of_post(user(author), PostId::parse(name).unwrap())
}

fn entry(author: usize, n: u64) -> TimelineEntry {
    TimelineEntry {
        at: 1_000 + n,
        id: post_of(author, &format!("p{n:05}")),
    }
}

async fn posted(store: &Arc<dyn WholeStore>, author: usize, n: u64) -> TimelineEntry {
    let entry = entry(author, n);
    let post = Post {
        at: entry.at,
        text: format!("text {n}"),
        data: Some("{\"a\":1}".to_owned()),
    };
    store.put_post(&entry.id, &post).await.unwrap();
    entry
}

async fn an_announcement_stays_as_it_was_made_first(store: Arc<dyn WholeStore>) {
    let first = posted(&store, 1, 1).await;
    let again = Post {
        at: first.at + 5,
        text: "text 1".to_owned(),
        data: None,
    };
    let there = store.put_post(&first.id, &again).await.unwrap();
    assert_eq!((there.at, there.data.is_some()), (first.at, true));
    assert_eq!(store.count_posts(&user(1)).await.unwrap(), 1);
}

async fn on_air(store: &Arc<dyn WholeStore>, name: &str, streamer: usize) -> TimelineEntry {
    let record = opened_as(store, &wish_of(name, user(streamer))).await;
    let entry = TimelineEntry::of_live(&record);
    store
        .add_entries(
            &Timeline::OnAir(user(streamer)),
            std::slice::from_ref(&entry),
        )
        .await
        .unwrap();
    entry
}

async fn read(
    store: &Arc<dyn WholeStore>,
    timeline: &Timeline,
    after: Option<&TimelineEntry>,
    limit: usize,
) -> Vec<TimelineEntry> {
    store
        .read_timelines(&[(timeline.clone(), after.cloned())], limit)
        .await
        .pop()
        .unwrap()
        .unwrap()
}

/// The statuses of a view, in pages of this size.
async fn seen(store: &Arc<dyn WholeStore>, view: View<'_>, limit: usize) -> Vec<TimelineEntry> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = status_page(store.as_ref(), view, after.as_ref(), limit)
            .await
            .unwrap();
        assert!(page.items.len() <= limit);
        all.extend(page.items.into_iter().map(|status| status.entry));
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

async fn a_timeline_keeps_the_newest_once_and_pages_miss_nobody(store: Arc<dyn WholeStore>) {
    let home = Timeline::Home(user(1));
    // Many at a time, so that pages begin in the middle of one.
    let all: Vec<TimelineEntry> = (0..60)
        .map(|n| TimelineEntry {
            at: 1_000 + n / 20,
            ..entry(9, n)
        })
        .collect();
    store.add_entries(&home, &all).await.unwrap();
    store.add_entries(&home, &all).await.unwrap();
    assert_eq!(store.timeline_len(&home).await.unwrap(), 60);
    let newest_first: Vec<TimelineEntry> = all.iter().rev().cloned().collect();
    for limit in [1, 7, 60] {
        let mut paged: Vec<TimelineEntry> = Vec::new();
        loop {
            let page = read(&store, &home, paged.last(), limit).await;
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, newest_first, "in pages of {limit}");
    }
    let crowd: Vec<TimelineEntry> = (0..MAX_TIMELINE as u64 - 30)
        .map(|n| entry(8, 100 + n))
        .collect();
    store.add_entries(&home, &crowd).await.unwrap();
    assert_eq!(
        store.timeline_len(&home).await.unwrap(),
        MAX_TIMELINE as u64
    );
    let listed = store
        .are_on_timelines(&[
            (home.clone(), all[29].id.clone()),
            (home.clone(), all[30].id.clone()),
        ])
        .await;
    assert_eq!(listed, [Ok(false), Ok(true)], "the oldest went");
    store
        .remove_entries(&home, &[all[30].id.clone(), post_of(7, "never")])
        .await
        .unwrap();
    store
        .remove_from_timelines(&all[31].id, &[home.clone(), Timeline::Home(user(2))])
        .await
        .unwrap();
    assert_eq!(
        store.timeline_len(&home).await.unwrap(),
        MAX_TIMELINE as u64 - 2
    );
}

async fn a_streamer_s_lives_are_paged_to_their_end_however_many_are_on_air(
    store: Arc<dyn WholeStore>,
) {
    let many = MAX_TIMELINE + 3;
    for n in 0..many {
        on_air(&store, &format!("l{n}"), 9).await;
    }
    assert_eq!(
        seen(&store, View::Profile(&user(9)), MAX_TIMELINE)
            .await
            .len(),
        many
    );
}

async fn a_write_that_is_too_late_is_refused_or_needless(store: Arc<dyn WholeStore>) {
    let homes: Vec<Timeline> = (0..40).map(|n| Timeline::Home(user(n))).collect();
    let (early, late) = (entry(9, 1), entry(9, 2));
    store
        .add_to_timelines(&early, &homes, Instant::now())
        .await
        .unwrap();
    // The embedded store has no way on which a write could be late.
    let is_late = store
        .add_to_timelines(&late, &homes, Instant::now() - Duration::from_secs(6))
        .await
        .is_err();
    for home in &homes {
        let found = read(&store, home, None, 10).await;
        assert_eq!(found.contains(&late), !is_late);
        assert!(found.contains(&early));
    }
    assert_eq!(is_late, store.kind() == "redis");
}

async fn an_author_s_oldest_announcements_are_forgotten(store: Arc<dyn WholeStore>) {
    for n in 0..MAX_TIMELINE as u64 + 3 {
        posted(&store, 9, n).await;
    }
    assert_eq!(
        store.count_posts(&user(9)).await.unwrap(),
        MAX_TIMELINE as u64
    );
    let asked = [entry(9, 2).id, entry(9, 3).id];
    let found: Vec<Option<Post>> = store
        .posts(&asked)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(
        (
            found[0].is_some(),
            found[1].as_ref().map(|post| post.text.as_str())
        ),
        (false, Some("text 3"))
    );
    assert!(store.drop_post(&asked[1]).await.unwrap());
    assert!(!store.drop_post(&asked[1]).await.unwrap());
    assert_eq!(
        store.count_posts(&user(9)).await.unwrap(),
        MAX_TIMELINE as u64 - 1
    );
}

async fn a_list_has_each_member_once_and_is_bounded(store: Arc<dyn WholeStore>) {
    let cooks = ListName::parse("cooks").unwrap();
    for n in 0..MAX_LIST {
        assert_eq!(
            store.put_in_list(&user(1), &cooks, &user(n)).await.unwrap(),
            PutInList::Added
        );
    }
    assert_eq!(
        store.put_in_list(&user(1), &cooks, &user(5)).await.unwrap(),
        PutInList::There
    );
    assert_eq!(
        store
            .put_in_list(&user(1), &cooks, &user(MAX_LIST))
            .await
            .unwrap(),
        PutInList::Full
    );
    assert!(
        store
            .take_out_of_list(&user(1), &cooks, &user(5))
            .await
            .unwrap()
    );
    assert!(
        !store
            .take_out_of_list(&user(1), &cooks, &user(5))
            .await
            .unwrap()
    );
    let mut members = store.list_members(&user(1), &cooks).await.unwrap();
    members.sort();
    let right: Vec<UserId> = (0..MAX_LIST).filter(|n| *n != 5).map(user).collect();
    assert_eq!(members, right);
    assert!(
        store
            .list_members(&user(2), &cooks)
            .await
            .unwrap()
            .is_empty()
    );
}

async fn a_job_is_taken_once_and_remembers_how_far_it_got(store: Arc<dyn WholeStore>) {
    let (one, other) = (GatewayId::random(), GatewayId::random());
    assert!(store.take_fanouts(&one, 10).await.unwrap().jobs.is_empty());
    let job = FanoutJob {
        task: FanoutTask::Add,
        entry: entry(9, 1),
    };
    for _ in 0..2 {
        store.enqueue_fanout(&job).await.unwrap();
    }
    let removal = FanoutJob {
        task: FanoutTask::Remove,
        ..job.clone()
    };
    store.enqueue_fanout(&removal).await.unwrap();
    assert!(store.is_being_added(&job.entry.id).await.unwrap());
    let mut first = store.take_fanouts(&one, 1).await.unwrap();
    assert_eq!(
        (first.unfinished, first.jobs.len()),
        (2, 1),
        "the same job is noted once"
    );
    let mut taken = first.jobs.remove(0);
    assert_eq!((&taken.job, &taken.done_to), (&job, &None));
    let second = store.take_fanouts(&other, 10).await.unwrap().jobs;
    assert_eq!(
        second.iter().map(|taken| &taken.job).collect::<Vec<_>>(),
        [&removal]
    );
    taken.done_to = Some(Followed {
        user: user(3),
        at: 77,
    });
    assert!(store.keep_fanout(&one, &taken).await.unwrap());
    store.enqueue_fanout(&job).await.unwrap();
    assert!(
        store.take_fanouts(&one, 10).await.unwrap().jobs.is_empty(),
        "it is not done yet"
    );
    store.finish_fanout(&one, &taken).await.unwrap();
    assert!(!store.is_being_added(&job.entry.id).await.unwrap());
    assert!(!store.keep_fanout(&one, &taken).await.unwrap());
    store.finish_fanout(&other, &second[0]).await.unwrap();
    assert_eq!(
        store.take_fanouts(&one, 10).await.unwrap(),
        Default::default()
    );
    store.enqueue_fanout(&job).await.unwrap();
    let again = store.take_fanouts(&one, 10).await.unwrap().jobs.remove(0);
    assert_eq!(
        (&again.job, &again.done_to),
        (&job, &None),
        "from the beginning"
    );
    store.finish_fanout(&one, &again).await.unwrap();
}

async fn authors_who_are_pulled_keep_their_first_time(store: Arc<dyn WholeStore>) {
    assert_eq!(store.pulled_since(&user(9)).await.unwrap(), None);
    for at in [70, 80] {
        store.set_pulled(&user(9), Some(at)).await.unwrap();
    }
    assert_eq!(store.pulled_since(&user(9)).await.unwrap(), Some(70));
    assert_eq!(store.pulled_authors().await.unwrap(), [(user(9), 70)]);
    store.set_pulled(&user(9), None).await.unwrap();
    assert!(store.pulled_authors().await.unwrap().is_empty());
}

async fn a_feed_shows_what_stands_and_drops_the_rest(store: Arc<dyn WholeStore>) {
    for streamer in 9..12 {
        store.follow(&user(1), &user(streamer)).await.unwrap();
    }
    let (over, here) = (on_air(&store, "41", 9).await, on_air(&store, "42", 9).await);
    let (foreign, lost) = (
        on_air(&store, "43", 20).await,
        on_air(&store, "44", 10).await,
    );
    let lost = TimelineEntry {
        at: lost.at,
        id: StatusId::of_live(user(10), live("never"), Epoch(3)),
    };
    let older = TimelineEntry {
        at: here.at,
        id: StatusId::of_live(user(9), live("42"), Epoch(1)),
    };
    let feed = Timeline::Feed(user(1));
    let all = [over.clone(), here.clone(), foreign, lost, older];
    store.add_entries(&feed, &all).await.unwrap();
    let record = loaded(&store, "41").await;
    store.begin_close(&end(&record)).await.unwrap();
    assert_eq!(
        seen(&store, View::Feed(&user(1)), 1).await,
        std::slice::from_ref(&here)
    );
    assert_eq!(
        read(&store, &feed, None, 10).await,
        std::slice::from_ref(&here),
        "the others were taken out"
    );
    // One that does not follow takes nothing out of the streamer's own list.
    assert!(seen(&store, View::Feed(&user(2)), 10).await.is_empty());
    assert!(
        read(&store, &Timeline::OnAir(user(9)), None, 10)
            .await
            .contains(&here)
    );
}

async fn a_follow_brings_what_stands_and_an_unfollow_takes_it(store: Arc<dyn WholeStore>) {
    let (first, gone) = (posted(&store, 9, 1).await, posted(&store, 9, 2).await);
    let air = on_air(&store, "42", 9).await;
    let (home, feed) = (Timeline::Home(user(1)), Timeline::Feed(user(1)));
    let other = posted(&store, 8, 3).await;
    store
        .add_entries(&home, std::slice::from_ref(&other))
        .await
        .unwrap();
    store.follow(&user(1), &user(9)).await.unwrap();
    merge_author(store.as_ref(), &user(1), &user(9))
        .await
        .unwrap();
    assert_eq!(
        read(&store, &home, None, 10).await,
        [other.clone(), gone.clone(), first]
    );
    assert_eq!(read(&store, &feed, None, 10).await, [air]);
    assert!(
        !forget_author(store.as_ref(), &user(1), &user(9))
            .await
            .unwrap()
    );
    assert_eq!(read(&store, &home, None, 10).await, [other]);
    assert!(read(&store, &feed, None, 10).await.is_empty());
    // A full timeline that loses so many is to be filled again.
    let crowd: Vec<TimelineEntry> = (0..800).map(|n| entry(9 - (n % 2) as usize, n)).collect();
    store.add_entries(&home, &crowd).await.unwrap();
    assert!(
        forget_author(store.as_ref(), &user(1), &user(9))
            .await
            .unwrap()
    );
}

async fn what_was_lost_is_filled_again_but_not_what_is_pulled(store: Arc<dyn WholeStore>) {
    for author in 5..30 {
        store.follow(&user(1), &user(author)).await.unwrap();
    }
    let mut all = Vec::new();
    for n in 0..120 {
        all.push(posted(&store, 5 + n % 20, n as u64).await);
    }
    let air = on_air(&store, "42", 9).await;
    let unknown = posted(&store, 40, 500).await;
    refill(store.as_ref(), &user(1)).await.unwrap();
    all.reverse();
    assert_eq!(
        read(&store, &Timeline::Home(user(1)), None, MAX_TIMELINE).await,
        all
    );
    assert_eq!(
        read(&store, &Timeline::Feed(user(1)), None, 10).await,
        std::slice::from_ref(&air)
    );
    assert!(
        !seen(&store, View::Home(&user(1)), 50)
            .await
            .contains(&unknown)
    );

    // From now on what user 9 tells is not copied, but it is shown.
    store.set_pulled(&user(9), Some(air.at + 1)).await.unwrap();
    let pulled = TimelineEntry {
        at: air.at + 2,
        id: post_of(9, "pulled"),
    };
    let post = Post {
        at: pulled.at,
        text: "hi".to_owned(),
        data: None,
    };
    store.put_post(&pulled.id, &post).await.unwrap();
    refill(store.as_ref(), &user(1)).await.unwrap();
    let listed = store
        .are_on_timelines(&[(Timeline::Home(user(1)), pulled.id.clone())])
        .await;
    assert_eq!(listed, [Ok(false)]);
    for limit in [1, 7, 1_000] {
        let seen = seen(&store, View::Home(&user(1)), limit).await;
        assert_eq!(
            (&seen[0], seen.len()),
            (&pulled, 122),
            "each once, in pages of {limit}"
        );
        assert!(seen.is_sorted_by(|a, b| a > b));
    }
    store.unfollow(&user(1), &user(9)).await.unwrap();
    assert!(
        !seen(&store, View::Home(&user(1)), 1_000)
            .await
            .contains(&pulled)
    );
}

async fn a_home_merges_announcements_and_lives_by_time(store: Arc<dyn WholeStore>) {
    let cooks = ListName::parse("cooks").unwrap();
    let mut all = Vec::new();
    for author in 2..30 {
        store
            .put_in_list(&user(1), &cooks, &user(author))
            .await
            .unwrap();
        for n in 0..25 {
            all.push(posted(&store, author, 100 * n + author as u64).await);
        }
    }
    all.push(on_air(&store, "42", 7).await);
    all.sort_by(|a, b| b.cmp(a));
    for limit in [13, 100, 1_000] {
        assert_eq!(
            seen(&store, View::List(&user(1), &cooks), limit).await,
            all,
            "in pages of {limit}"
        );
    }
    let own: Vec<TimelineEntry> = all
        .iter()
        .filter(|entry| *entry.id.author() == user(7))
        .cloned()
        .collect();
    assert_eq!(seen(&store, View::Profile(&user(7)), 4).await, own);
    assert_eq!(own.len(), 26);
    // What is deleted is gone from every list at once.
    store.drop_post(&own[3].id).await.unwrap();
    assert!(
        !seen(&store, View::List(&user(1), &cooks), 100)
            .await
            .contains(&own[3])
    );
}
