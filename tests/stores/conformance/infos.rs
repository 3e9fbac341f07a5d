//! What a live is opened with, and what back ends write about it later.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::store::{
    ChangeLive, ChangeReply, Info, LiveChange, LiveRecord, OpenLive, OpenReply, OpenedBy,
    RecordStanding, RemoveReply, Terms,
};

use super::{
    LONG, end, finish, later, lifting, live, named, on_each, opened, opened_as, removal, user, wish,
};

on_each!(
    a_live_keeps_the_terms_with_which_it_was_opened,
    information_grows_in_version_and_can_be_cleared,
    information_is_of_one_epoch_and_gone_with_the_close,
    lost_information_is_written_again_and_later_information_stays,
    the_title_and_the_streamer_timeout_change_and_nothing_else_does,
    lost_changes_are_written_again,
    hosts_change_and_are_never_banned,
);

async fn change(
    store: &Arc<dyn WholeStore>,
    record: &LiveRecord,
    change: LiveChange,
) -> ChangeReply {
    let request = ChangeLive {
        live: record.live.clone(),
        epoch: record.epoch,
        change,
        message: "it changed".to_owned(),
    };
    store.change_live(&request).await.unwrap()
}

async fn write(
    store: &Arc<dyn WholeStore>,
    record: &LiveRecord,
    json: Option<&str>,
) -> ChangeReply {
    let news = LiveChange {
        info: Some(json.map(Into::into)),
        ..LiveChange::default()
    };
    change(store, record, news).await
}

async fn written(store: &Arc<dyn WholeStore>, record: &LiveRecord, json: Option<&str>) -> Info {
    let ChangeReply::Changed(version) = write(store, record, json).await else {
        panic!("not written")
    };
    Info {
        version,
        json: json.map(Into::into),
    }
}

async fn load(store: &Arc<dyn WholeStore>, record: &LiveRecord) -> LiveRecord {
    store
        .load_live(&record.live)
        .await
        .unwrap()
        .expect("a record")
}

async fn a_live_keeps_the_terms_with_which_it_was_opened(store: Arc<dyn WholeStore>) {
    let terms = Terms {
        title: Some("Köche & Ko. \"live\"".to_owned()),
        streamer_timeout: Some(Duration::ZERO),
        attendance: true,
        invisible: true,
        hosts: vec![user(7), user(8)],
    };
    let record = opened_as(
        &store,
        &OpenLive {
            terms: terms.clone(),
            ..wish("42")
        },
    )
    .await;
    assert_eq!(
        (&record.terms, &load(&store, &record).await),
        (&terms, &record)
    );
    let other = Terms {
        streamer_timeout: Some(Duration::from_secs(7)),
        ..Terms::default()
    };
    let again = store
        .open_live(&OpenLive {
            terms: other.clone(),
            ..wish("42")
        })
        .await
        .unwrap();
    assert_eq!(again, OpenReply::AlreadyOpen(record.clone()));
    let elsewhere = named(&record, "43");
    assert_eq!(
        store.keep_live(&elsewhere, "").await.unwrap(),
        RecordStanding::Rewritten
    );
    assert_eq!(load(&store, &elsewhere).await, elsewhere);
    store.begin_close(&end(&record)).await.unwrap();
    finish(&store, &record).await;
    assert_eq!(
        load(&store, &record).await.terms,
        terms,
        "for those who look it up later"
    );
    assert_eq!(opened(&store, "42").await.terms, Terms::default());
    let usual = Some(Duration::from_secs(60));
    let timeout = |streamer_timeout, opened_by| {
        let terms = Terms {
            streamer_timeout,
            ..Terms::default()
        };
        LiveRecord {
            terms,
            opened_by,
            ..record.clone()
        }
        .streamer_timeout(usual)
    };
    assert_eq!(timeout(None, OpenedBy::Streamer), usual);
    assert_eq!(timeout(None, OpenedBy::Service), None);
    for by in [OpenedBy::Streamer, OpenedBy::Service] {
        assert_eq!(timeout(Some(Duration::ZERO), by), None);
        assert_eq!(timeout(other.streamer_timeout, by), other.streamer_timeout);
    }
}

async fn information_grows_in_version_and_can_be_cleared(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    assert_eq!(record.info, Info::default());
    let mut last = 0;
    for json in [
        Some(r#"{"goods":["a b",1.50]}"#),
        Some("7"),
        None,
        Some("\"\u{fc}\""),
        None,
    ] {
        let info = written(&store, &record, json).await;
        assert!(
            info.version > last && info.version >= record.opened_at,
            "{info:?}"
        );
        last = info.version;
        let read = load(&store, &record).await;
        assert_eq!((&read.info, read.version), (&info, last));
    }
}

async fn information_is_of_one_epoch_and_gone_with_the_close(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let absent = named(&record, "43");
    assert_eq!(write(&store, &absent, Some("1")).await, ChangeReply::Absent);
    let other = later(&record, 1);
    assert_eq!(write(&store, &other, Some("1")).await, ChangeReply::Over);
    written(&store, &record, Some("1")).await;
    store.begin_close(&end(&record)).await.unwrap();
    assert_eq!(write(&store, &record, Some("2")).await, ChangeReply::Over);
    assert_eq!(load(&store, &record).await.info, Info::default());
    finish(&store, &record).await;
    assert_eq!(write(&store, &record, Some("2")).await, ChangeReply::Over);
    assert_eq!(opened(&store, "42").await.info, Info::default());
}

async fn lost_information_is_written_again_and_later_information_stays(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let first = written(&store, &record, Some("1")).await;
    // The record was lost as a whole.
    let elsewhere = LiveRecord {
        live: live("43"),
        version: first.version,
        info: first.clone(),
        ..record.clone()
    };
    assert_eq!(
        store.keep_live(&elsewhere, "").await.unwrap(),
        RecordStanding::Rewritten
    );
    assert_eq!(load(&store, &elsewhere).await.info, first);
    // The store fell back behind what the gateway knows.
    for json in [Some("2"), None] {
        let version = load(&store, &record).await.info.version + 5;
        let later = LiveRecord {
            version,
            info: Info {
                version,
                json: json.map(Into::into),
            },
            ..record.clone()
        };
        let standing = store.keep_live(&later, "").await.unwrap();
        assert_eq!(
            standing,
            RecordStanding::Open {
                removals: 0,
                version
            }
        );
        assert_eq!(load(&store, &record).await.info, later.info);
    }
    // The gateway is behind.
    let newest = written(&store, &record, Some("3")).await;
    let behind = LiveRecord {
        version: first.version,
        info: first,
        ..record.clone()
    };
    let standing = store.keep_live(&behind, "").await.unwrap();
    assert_eq!(
        standing,
        RecordStanding::Open {
            removals: 0,
            version: newest.version
        }
    );
    assert_eq!(load(&store, &record).await.info, newest);
}

fn changes(title: Option<Option<&str>>, streamer_timeout: Option<Option<Duration>>) -> LiveChange {
    LiveChange {
        info: None,
        title: title.map(|title| title.map(str::to_owned)),
        streamer_timeout,
        hosts: None,
    }
}

async fn the_title_and_the_streamer_timeout_change_and_nothing_else_does(
    store: Arc<dyn WholeStore>,
) {
    let terms = Terms {
        title: Some("One".to_owned()),
        attendance: true,
        invisible: true,
        ..Terms::default()
    };
    let record = opened_as(
        &store,
        &OpenLive {
            terms,
            ..wish("42")
        },
    )
    .await;
    let info = written(&store, &record, Some("7")).await;
    let mut last = info.version;
    let mut terms = record.terms.clone();
    for (title, timeout) in [
        (Some(Some("Two \u{fc}")), None),
        (None, Some(Some(Duration::from_secs(60)))),
        (Some(None), Some(None)),
        (Some(Some("Three")), Some(Some(Duration::ZERO))),
        (None, None),
    ] {
        let reply = change(&store, &record, changes(title, timeout)).await;
        let ChangeReply::Changed(version) = reply else {
            panic!("{reply:?}")
        };
        assert!(version > last, "{version}");
        last = version;
        if let Some(title) = title {
            terms.title = title.map(str::to_owned);
        }
        terms.streamer_timeout = timeout.unwrap_or(terms.streamer_timeout);
        let read = load(&store, &record).await;
        assert_eq!((&read.terms, &read.info), (&terms, &info));
        assert_eq!(read.version, last);
        assert_eq!(
            LiveRecord {
                version: 0,
                terms: record.terms.clone(),
                info: Info::default(),
                ..read
            },
            record
        );
    }
    let absent = named(&record, "43");
    assert_eq!(
        change(&store, &absent, changes(Some(None), None)).await,
        ChangeReply::Absent
    );
    let other = later(&record, 1);
    assert_eq!(
        change(&store, &other, changes(Some(None), None)).await,
        ChangeReply::Over
    );
    store.begin_close(&end(&record)).await.unwrap();
    assert_eq!(
        change(&store, &record, changes(Some(None), None)).await,
        ChangeReply::Over
    );
    finish(&store, &record).await;
    assert_eq!(
        change(&store, &record, changes(Some(None), None)).await,
        ChangeReply::Over
    );
    assert_eq!(load(&store, &record).await.terms, terms);
}

async fn lost_changes_are_written_again(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let terms = Terms {
        title: Some("New".to_owned()),
        streamer_timeout: Some(Duration::ZERO),
        hosts: vec![user(7)],
        ..Terms::default()
    };
    let known = LiveRecord {
        version: record.opened_at + 1_000_000,
        terms,
        ..record.clone()
    };
    store.keep_live(&known, "").await.unwrap();
    assert_eq!(load(&store, &record).await, known);
    // A gateway that has not heard of the change takes nothing back.
    store.keep_live(&record, "").await.unwrap();
    assert_eq!(load(&store, &record).await, known);
    // Nor does one bring back what was taken away.
    let cleared = LiveRecord {
        version: known.version + 1,
        ..record.clone()
    };
    store.keep_live(&cleared, "").await.unwrap();
    assert_eq!(load(&store, &record).await, cleared);
}

async fn host(store: &Arc<dyn WholeStore>, record: &LiveRecord, hosts: &[usize]) -> ChangeReply {
    let news = LiveChange {
        hosts: Some(hosts.iter().map(|n| user(*n)).collect()),
        ..LiveChange::default()
    };
    change(store, record, news).await
}

async fn hosts_change_and_are_never_banned(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let hosts = async || load(&store, &record).await.terms.hosts;
    let ban = removal(record.epoch, 1, Some(LONG));
    let plain = removal(record.epoch, 1, None);
    store.remove_user(&ban).await.unwrap();
    assert_eq!(
        host(&store, &record, &[2, 1]).await,
        ChangeReply::Banned(user(1))
    );
    assert!(hosts().await.is_empty(), "nothing was done");
    let lift = lifting(record.epoch, 1);
    store.lift_ban(&lift).await.unwrap();
    assert!(matches!(
        host(&store, &record, &[1, 11]).await,
        ChangeReply::Changed(_)
    ));
    assert_eq!(hosts().await, [user(1), user(11)]);
    assert_eq!(store.remove_user(&ban).await, Ok(RemoveReply::Host));
    let sent_out = store.remove_user(&plain).await;
    assert!(matches!(
        sent_out,
        Ok(RemoveReply::Done { until: None, .. })
    ));
    host(&store, &record, &[11]).await;
    let banned = store.remove_user(&ban).await;
    assert!(matches!(
        banned,
        Ok(RemoveReply::Done { until: Some(_), .. })
    ));
    host(&store, &record, &[]).await;
    assert!(hosts().await.is_empty());
}
