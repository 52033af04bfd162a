//! Finding bytes sixteen at a time, for the readers of text formats.

/// Masks over sixteen bytes, one bit for each.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };

    #[inline(always)]
    fn load(chunk: &[u8; 16]) -> __m128i {
        // SAFETY: the load needs no alignment and reads the sixteen bytes of the array; SSE2 is part of every x86_64.
        unsafe { _mm_loadu_si128(chunk.as_ptr().cast()) }
    }

    /// Which bytes are `needle`.
    #[inline(always)]
    pub(super) fn equal(chunk: &[u8; 16], needle: u8) -> u32 {
        // SAFETY: SSE2 is part of every x86_64.
        unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(load(chunk), _mm_set1_epi8(needle as i8))) as u32 }
    }

    /// Which bytes end a run of plain JSON string content, and which are not ASCII.
    #[inline(always)]
    pub(super) fn string_stops(chunk: &[u8; 16]) -> (u32, u32) {
        let data = load(chunk);
        // SAFETY: SSE2 is part of every x86_64.
        unsafe {
            let quote = _mm_cmpeq_epi8(data, _mm_set1_epi8(b'"' as i8));
            let escape = _mm_cmpeq_epi8(data, _mm_set1_epi8(b'\\' as i8));
            let control = _mm_cmpeq_epi8(_mm_min_epu8(data, _mm_set1_epi8(0x1f)), data);
            let stops = _mm_or_si128(_mm_or_si128(quote, escape), control);
            (_mm_movemask_epi8(stops) as u32, _mm_movemask_epi8(data) as u32)
        }
    }
}

/// The same without vector instructions.
#[cfg(not(target_arch = "x86_64"))]
mod wide {
    fn mask(chunk: &[u8; 16], is: impl Fn(u8) -> bool) -> u32 {
        chunk.iter().enumerate().fold(0, |mask, (place, byte)| mask | (u32::from(is(*byte)) << place))
    }

    pub(super) fn equal(chunk: &[u8; 16], needle: u8) -> u32 {
        mask(chunk, |byte| byte == needle)
    }

    pub(super) fn string_stops(chunk: &[u8; 16]) -> (u32, u32) {
        (mask(chunk, |byte| byte == b'"' || byte == b'\\' || byte < 0x20), mask(chunk, |byte| byte >= 0x80))
    }
}

/// Where `needle` first stands.
#[inline]
pub(crate) fn find_byte(bytes: &[u8], needle: u8) -> Option<usize> {
    let mut chunks = bytes.chunks_exact(16);
    let mut at = 0;
    for chunk in chunks.by_ref() {
        // The chunk has sixteen bytes, so the conversion can't fail.
        if let Ok(chunk) = <&[u8; 16]>::try_from(chunk) {
            let found = wide::equal(chunk, needle);
            if found != 0 {
                return Some(at + found.trailing_zeros() as usize);
            }
        }
        at += 16;
    }
    chunks.remainder().iter().position(|byte| *byte == needle).map(|place| at + place)
}

/// The first place from `from` on with a quote, a backslash or a control character, or the end. Sets `wide_text` if a byte
/// before it is not ASCII.
#[inline(always)]
pub(crate) fn string_stop(bytes: &[u8], from: usize, wide_text: &mut bool) -> usize {
    let mut at = from;
    loop {
        let rest = bytes.get(at..).unwrap_or(&[]);
        let (stops, high) = match rest.first_chunk::<16>() {
            Some(chunk) => wide::string_stops(chunk),
            None => {
                // Padded with zeros, which stop the search at the end.
                let mut chunk = [0; 16];
                chunk[..rest.len()].copy_from_slice(rest);
                wide::string_stops(&chunk)
            }
        };
        if stops != 0 {
            let place = stops.trailing_zeros();
            *wide_text |= high & ((1 << place) - 1) != 0;
            return at + place as usize;
        }
        *wide_text |= high != 0;
        at += 16;
    }
}

#[cfg(test)]
mod tests;
