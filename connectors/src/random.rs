//! Random numbers that depend on nothing but a seed, a stream and a place, so that any row can be made again alone.

/// Spreads the bits of a number over all bits of the result; a bijection. The constants are those of SplitMix64's output step.
#[inline(always)]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One stream of random numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Stream(u64);

impl Stream {
    /// The stream with this number of this seed.
    pub(crate) const fn new(seed: u64, number: u64) -> Stream {
        // A constant function can't call `mix`; one multiplication keeps the keys of neighbours apart.
        Stream(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(17))
    }

    /// The number at this place.
    #[inline(always)]
    pub(crate) fn at(self, place: u64) -> u64 {
        mix(mix(self.0.wrapping_add(place.wrapping_mul(0x9e37_79b9_7f4a_7c15))).wrapping_add(self.0))
    }
}

/// A number below `limit`, from the high bits of a random one; 0 for a limit of 0.
#[inline(always)]
pub(crate) fn below(random: u64, limit: u64) -> u64 {
    ((u128::from(random) * u128::from(limit)) >> 64) as u64
}

/// A number from 0 to below 1.
#[inline(always)]
pub(crate) fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}
