//! How watermarks pass through a node.

/// A watermark on an output column that follows from one on an input column. Where several mappings name one output
/// column, its watermark is the least of theirs, and there is none until all have one.
///
/// A `Relation` has no input: its mappings have port 0, and `input` is the object's declared column, whose watermark its
/// own job has. A `WatermarkFilter` makes its watermark: its mapping names the column alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WatermarkMapping {
    /// The input's port.
    pub port: usize,
    /// The input's column.
    pub input: usize,
    /// The output's column.
    pub output: usize,
    /// What becomes of the value.
    pub transform: WatermarkTransform,
}

/// What becomes of a watermark's value, in microseconds since 1970.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WatermarkTransform {
    /// The same.
    Identity,
    /// That many microseconds later (or earlier, if negative).
    Shift(i64),
    /// The start of the window that it falls in: the greatest `offset + n * slide_us` not above it, then `shift_us` on.
    Window {
        /// Distance between the starts of windows.
        slide_us: i64,
        /// Where windows start.
        offset_us: i64,
        /// Added afterwards: the size for a window's end; `slide − size` for the first of the windows that overlap.
        shift_us: i64,
    },
}

impl WatermarkTransform {
    /// The watermark that follows from `value`. The ends of time stay what they are, and nothing goes past them.
    pub fn apply(&self, value: i64) -> i64 {
        if value == i64::MAX || value == i64::MIN {
            return value;
        }
        match self {
            WatermarkTransform::Identity => value,
            WatermarkTransform::Shift(by) => value.saturating_add(*by),
            WatermarkTransform::Window { slide_us, offset_us, shift_us } => {
                let since = value.saturating_sub(*offset_us);
                value.saturating_sub(since.rem_euclid(*slide_us)).saturating_add(*shift_us)
            }
        }
    }
}
