//! How an audit reads much: page after page, and a few lives or keys at a time.

/// How many lives or keys an audit reads concurrently.
pub(super) const AT_A_TIME: usize = 8;

/// Reads page after page. `read` gets a cursor, and answers that of the next page; `None` ends the reading.
pub(super) async fn each_page<C, E>(
    mut cursor: C,
    mut read: impl AsyncFnMut(C) -> Result<Option<C>, E>,
) -> Result<(), E> {
    while let Some(next) = read(cursor).await? {
        cursor = next;
    }
    Ok(())
}
