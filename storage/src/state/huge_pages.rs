//! Memory for large tables that are read in no order.
//!
//! With pages of 4 kB nearly every access to a table of some ten megabytes misses the processor's page cache too, which costs as much
//! as the miss itself; with pages of 2 MB hardly any does. The system gives them to whoever asks before the memory is first touched.

/// From here on a table's memory is worth asking for: two large pages.
const ADVISED_BYTES: usize = 4 << 20;
/// The memory of an aligned large page.
const PAGE_BYTES: usize = 2 << 20;

/// Asks for large pages under the room that a vector has left.
pub(crate) fn advise<T>(vector: &mut Vec<T>) {
    let room = vector.spare_capacity_mut();
    let bytes = size_of_val(room);
    if bytes < ADVISED_BYTES {
        return;
    }
    let start = room.as_mut_ptr() as usize;
    let first = start.next_multiple_of(PAGE_BYTES);
    let end = (start + bytes) / PAGE_BYTES * PAGE_BYTES;
    #[cfg(target_os = "linux")]
    if first < end {
        // SAFETY: the range lies in an allocation that we own, and the advice changes neither its contents nor its protection. That it
        // is refused, on a system without large pages, changes nothing.
        unsafe { libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (first, end);
}

/// Gives a vector another capacity, in memory that has been asked for before it is written.
pub(crate) fn regrow<T>(vector: &mut Vec<T>, capacity: usize) {
    let mut larger = Vec::with_capacity(capacity.max(vector.len()));
    advise(&mut larger);
    larger.append(vector);
    *vector = larger;
}
