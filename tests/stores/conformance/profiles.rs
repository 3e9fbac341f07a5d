//! Profiles, and who has a login.

use rollcall::features::WholeStore;
use std::sync::Arc;

use rollcall::base::ids::Login;
use rollcall::features::profiles::store::{Profile, PutProfile, Visibility};

use super::{on_each, user};

on_each!(
    the_first_profile_makes_the_signup_and_later_ones_keep_it,
    a_login_has_one_user_whatever_its_case,
    another_login_frees_the_former_one,
    of_many_who_claim_a_login_at_a_time_one_gets_it,
    a_user_who_changes_login_over_and_over_has_one_in_the_end,
    who_is_hidden_is_so_until_shown_again,
);

fn login(text: &str) -> Login {
    Login::parse(text).expect("a login")
}

async fn put(store: &Arc<dyn WholeStore>, n: usize, text: &str) -> PutProfile {
    store
        .put_profile(&user(n), &login(text), &format!("the {n}th"))
        .await
        .expect("an answer")
}

async fn the_first_profile_makes_the_signup_and_later_ones_keep_it(store: Arc<dyn WholeStore>) {
    assert_eq!(store.profile(&user(1)).await.unwrap(), None);
    let PutProfile::Created(first) = put(&store, 1, "Ann").await else {
        panic!("a first profile")
    };
    assert!(first.signup > 1_700_000_000_000, "{first:?}");
    assert_eq!(store.profile(&user(1)).await.unwrap(), Some(first.clone()));
    let again = store
        .put_profile(&user(1), &login("Ann"), "Änn 安")
        .await
        .unwrap();
    let renamed = Profile {
        name: "Änn 安".to_owned(),
        ..first
    };
    assert_eq!(again, PutProfile::Replaced(renamed.clone()));
    assert_eq!(store.profile(&user(1)).await.unwrap(), Some(renamed));
}

async fn who_is_hidden_is_so_until_shown_again(store: Arc<dyn WholeStore>) {
    let users = [user(1), user(2), user(3)];
    let hidden = async || store.are_hidden(&users).await.unwrap();
    assert_eq!(hidden().await, [false; 3]);
    for _ in 0..2 {
        for n in [1, 3] {
            let user = user(n);
            store
                .set_visibility(&user, Visibility::Hidden)
                .await
                .unwrap();
        }
        assert_eq!(hidden().await, [true, false, true]);
    }
    put(&store, 1, "ann").await;
    assert_eq!(hidden().await, [true, false, true], "another profile");
    for _ in 0..2 {
        let third = user(3);
        store
            .set_visibility(&third, Visibility::Shown)
            .await
            .unwrap();
        assert_eq!(hidden().await, [true, false, false]);
    }
    assert_eq!(store.are_hidden(&[]).await.unwrap(), [false; 0]);
}

async fn a_login_has_one_user_whatever_its_case(store: Arc<dyn WholeStore>) {
    put(&store, 1, "Ann").await;
    for taken in ["Ann", "ann", "ANN"] {
        assert_eq!(
            put(&store, 2, taken).await,
            PutProfile::LoginTaken,
            "{taken}"
        );
    }
    assert_eq!(store.profile(&user(2)).await.unwrap(), None);
    // Their own login in another case is another way to write it.
    assert!(matches!(
        put(&store, 1, "aNN").await,
        PutProfile::Replaced(_)
    ));
    assert_eq!(
        store.profile(&user(1)).await.unwrap().unwrap().login,
        login("aNN")
    );
    assert_eq!(put(&store, 2, "ann").await, PutProfile::LoginTaken);
}

async fn another_login_frees_the_former_one(store: Arc<dyn WholeStore>) {
    put(&store, 1, "ann").await;
    put(&store, 2, "bob").await;
    assert_eq!(put(&store, 1, "bob").await, PutProfile::LoginTaken);
    assert_eq!(
        put(&store, 3, "ann").await,
        PutProfile::LoginTaken,
        "a change that was refused frees nothing"
    );
    assert!(matches!(
        put(&store, 1, "cid").await,
        PutProfile::Replaced(_)
    ));
    assert!(matches!(
        put(&store, 3, "Ann").await,
        PutProfile::Created(_)
    ));
    // A way back is closed, and none is open by accident.
    assert_eq!(put(&store, 1, "ann").await, PutProfile::LoginTaken);
    assert!(matches!(
        put(&store, 1, "CID").await,
        PutProfile::Replaced(_)
    ));
    assert_eq!(put(&store, 3, "cid").await, PutProfile::LoginTaken);
}

async fn of_many_who_claim_a_login_at_a_time_one_gets_it(store: Arc<dyn WholeStore>) {
    let claims = (0..20).map(|n| {
        let store = Arc::clone(&store);
        async move { put(&store, n, if n % 2 == 0 { "star" } else { "STAR" }).await }
    });
    let answers = futures_util::future::join_all(claims).await;
    let winners: Vec<usize> = (0..20)
        .filter(|n| answers[*n] != PutProfile::LoginTaken)
        .collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    for n in 0..20 {
        assert_eq!(
            store.profile(&user(n)).await.unwrap().is_some(),
            winners.contains(&n),
            "user {n}"
        );
    }
}

async fn a_user_who_changes_login_over_and_over_has_one_in_the_end(store: Arc<dyn WholeStore>) {
    let changes = (0..12).map(|n| {
        let store = Arc::clone(&store);
        async move { put(&store, 1, &format!("name{}", n % 4)).await }
    });
    for answer in futures_util::future::join_all(changes).await {
        assert_ne!(answer, PutProfile::LoginTaken);
    }
    let has = store.profile(&user(1)).await.unwrap().unwrap().login;
    for n in 0..4 {
        let taken = put(&store, 10 + n, &format!("name{n}")).await == PutProfile::LoginTaken;
        assert_eq!(taken, has == login(&format!("name{n}")), "name{n}, {has}");
    }
}
