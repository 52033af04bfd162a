use super::*;

#[test]
fn epochs_grow_when_the_wall_clock_steps_back() {
    let clock = Clock::new(Epoch(1_000), 500);
    assert_eq!(clock.open(), Epoch(1_001));
    assert_eq!(clock.tick(400, false), (Epoch(1_001), Epoch(1_002)));
    assert_eq!(clock.tick(2_000, false), (Epoch(1_002), Epoch(2_000)));
}

#[test]
fn table_inputs_stay_at_a_write_until_it_is_delivered() {
    let clock = Clock::new(Epoch(0), 10);
    let first = clock.reserve(10);
    clock.tick(20, false);
    let second = clock.reserve(25);
    assert!(second.epoch() > Epoch(20), "a write's epoch is its own");
    clock.tick(30, false);
    let held = second.epoch();
    assert_eq!(clock.table_frontier(), first.epoch());
    drop(first);
    assert_eq!(clock.table_frontier(), held);
    drop(second);
    assert_eq!(clock.table_frontier(), Epoch(30));
}

#[test]
fn a_checkpoint_is_announced_before_a_later_epoch_opens() {
    let clock = Clock::new(Epoch(0), 10);
    let (closed, open) = clock.tick(20, true);
    assert_eq!(clock.next_checkpoint(Epoch(0)), Some(closed));
    assert!(open > closed);
    assert_eq!(clock.next_checkpoint(closed), None);
    clock.end_checkpoint(closed);
    assert!(!clock.checkpoint_running());
}

#[test]
fn incomplete_epochs_are_counted_by_ticks_not_by_time() {
    let clock = Clock::new(Epoch(0), 10);
    clock.tick(500, false);
    clock.tick(9_000, false);
    assert_eq!(clock.incomplete_since(Epoch(10)), 2);
    assert_eq!(clock.incomplete_since(Epoch::END), 0);
}
