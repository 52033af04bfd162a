use super::*;
use futures::FutureExt;
use std::future::Future;
use std::pin::{Pin, pin};

const TABLE: ObjectId = ObjectId(16384);
const OTHER: ObjectId = ObjectId(16385);

fn key(name: &str) -> Key {
    Arc::from(name.as_bytes())
}

fn keys(names: &[&str]) -> Vec<Key> {
    names.iter().map(|name| key(name)).collect()
}

/// Whether a wait is over.
fn is_over<F: Future<Output = SqlResult<()>>>(wait: &mut Pin<&mut F>) -> bool {
    wait.as_mut().now_or_never().is_some_and(|outcome| outcome.is_ok())
}

async fn has(wait: impl Future<Output = SqlResult<()>>) -> bool {
    is_over(&mut pin!(wait))
}

#[tokio::test]
async fn different_keys_are_held_beside_each_other_and_the_same_is_waited_for() {
    let locks = Arc::<Locks>::default();
    let [one, two, three] = [locks.holder(), locks.holder(), locks.holder()];
    assert!(has(one.keys(TABLE, keys(&["a", "b"]))).await);
    assert!(has(two.keys(TABLE, keys(&["c"]))).await);
    let mut wait = pin!(three.keys(TABLE, keys(&["d", "b"])));
    assert!(!is_over(&mut wait));
    two.give_up();
    assert!(!is_over(&mut wait));
    one.give_up();
    assert!(is_over(&mut wait));
}

#[tokio::test]
async fn a_whole_table_waits_for_its_keys_and_keys_that_come_later_for_it() {
    let locks = Arc::<Locks>::default();
    let [one, two, three] = [locks.holder(), locks.holder(), locks.holder()];
    assert!(has(one.keys(TABLE, keys(&["a"]))).await);
    let mut whole = pin!(two.whole(TABLE));
    assert!(!is_over(&mut whole));
    let mut later = pin!(three.keys(TABLE, keys(&["b"])));
    assert!(!is_over(&mut later));
    assert!(has(one.keys(TABLE, keys(&["c"]))).await, "who has a part goes on, or nobody would");
    one.give_up();
    assert!(!is_over(&mut later));
    assert!(is_over(&mut whole));
    two.give_up();
    assert!(is_over(&mut later));
}

#[tokio::test]
async fn a_wait_that_is_given_up_holds_nobody_up() {
    let locks = Arc::<Locks>::default();
    let [one, two, three] = [locks.holder(), locks.holder(), locks.holder()];
    assert!(has(one.keys(TABLE, keys(&["a"]))).await);
    let mut whole = Box::pin(two.whole(TABLE));
    assert!(whole.as_mut().now_or_never().is_none());
    let mut later = pin!(three.keys(TABLE, keys(&["b"])));
    assert!(!is_over(&mut later));
    drop(whole);
    assert!(is_over(&mut later));
}

#[tokio::test]
async fn transactions_that_wait_for_each_other_are_told() {
    let locks = Arc::<Locks>::default();
    let [one, two, three] = [locks.holder(), locks.holder(), locks.holder()];
    assert!(has(one.keys(TABLE, keys(&["a"]))).await);
    assert!(has(two.keys(TABLE, keys(&["b"]))).await);
    assert!(has(three.whole(OTHER)).await);
    let mut first = pin!(one.keys(TABLE, keys(&["b"])));
    let mut second = pin!(two.whole(OTHER));
    assert!(!is_over(&mut first) && !is_over(&mut second));
    let refused = three.keys(TABLE, keys(&["a"])).await.unwrap_err();
    assert_eq!(refused.state, SqlState::DeadlockDetected);
    three.give_up();
    assert!(is_over(&mut second));
    two.give_up();
    assert!(is_over(&mut first));
}

#[tokio::test]
async fn two_that_have_parts_of_a_table_cannot_both_have_all_of_it() {
    let locks = Arc::<Locks>::default();
    let [one, two] = [locks.holder(), locks.holder()];
    assert!(has(one.keys(TABLE, keys(&["a"]))).await);
    assert!(has(two.keys(TABLE, keys(&["b"]))).await);
    let mut whole = pin!(one.whole(TABLE));
    assert!(!is_over(&mut whole));
    assert_eq!(two.whole(TABLE).await.unwrap_err().state, SqlState::DeadlockDetected);
    two.give_up();
    assert!(is_over(&mut whole));
}

#[tokio::test]
async fn who_comes_next_reads_a_key_as_it_was_written_last() {
    let locks = Arc::<Locks>::default();
    let [one, two, three, four] = [locks.holder(), locks.holder(), locks.holder(), locks.holder()];
    assert!(has(one.keys(TABLE, keys(&["a"]))).await);
    one.written(Epoch(5), |_| Epoch(4));
    assert_eq!(two.settled(TABLE, &keys(&["a"])), Epoch(5));
    assert_eq!(two.settled(TABLE, &keys(&["b"])), Epoch(0));
    assert!(has(two.keys(TABLE, keys(&["a", "b"]))).await);
    two.written(Epoch(7), |_| Epoch(5));
    assert_eq!(three.settled(TABLE, &keys(&["a"])), Epoch(7));
    assert!(has(three.keys(TABLE, keys(&["c"]))).await);
    three.written(Epoch(9), |_| Epoch(8));
    assert_eq!(four.settled(TABLE, &keys(&["a"])), Epoch(0), "it is visible by now");
    assert!(has(four.whole(TABLE)).await);
    four.written(Epoch(11), |_| Epoch(9));
    assert_eq!(one.settled(TABLE, &keys(&["anything"])), Epoch(11));
}
