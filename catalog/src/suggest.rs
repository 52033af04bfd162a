//! "Did you mean": the nearest known name to one that is not known.

/// The candidate nearest to `name`, if any is near enough that a slip of the finger explains the difference.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&name, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len().min(name.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The hint that names the nearest candidate, or lists all of them where none is near.
pub fn hint<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(name, candidates.clone()) {
        Some(near) => format!("Did you mean \"{near}\"?"),
        None => {
            let all: Vec<&str> = candidates.into_iter().collect();
            format!("Known are {}.", all.join(", "))
        }
    }
}
