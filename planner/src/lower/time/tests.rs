use super::*;
use thalweg_plan::WatermarkTransform::{Identity, Shift, Window};

fn floor(value: i64, slide: i64, offset: i64) -> i64 {
    value - (value - offset).rem_euclid(slide)
}

#[test]
fn composed_transforms_equal_one_after_the_other() {
    let window = Window { slide_us: 10, offset_us: 3, shift_us: 10 };
    for value in -40..40 {
        let after = then(&window, &Shift(4)).unwrap();
        assert_eq!(after.apply(value), window.apply(value) + 4, "shift after window at {value}");
        let before = then(&Shift(4), &window).unwrap();
        assert_eq!(before.apply(value), window.apply(value + 4), "window after shift at {value}");
        assert_eq!(then(&Identity, &window).unwrap().apply(value), window.apply(value));
    }
    assert_eq!(then(&window, &window), None);
}

#[test]
fn s9_a_window_closes_strictly_above_its_end_exactly_when_the_time_reaches_it() {
    let (slide, size) = (2, 10);
    let starts = Window { slide_us: slide, offset_us: 0, shift_us: slide - size };
    let ends = then(&starts, &Shift(size)).unwrap();
    for time in -30..30 {
        for start in (-40..40).step_by(slide as usize) {
            let is_over = time >= start + size;
            assert_eq!(starts.apply(time) > start, is_over, "start {start} at {time}");
            assert_eq!(ends.apply(time) > start + size, is_over, "end of {start} at {time}");
        }
        assert_eq!(starts.apply(time), floor(time, slide, 0) + slide - size);
    }
}
