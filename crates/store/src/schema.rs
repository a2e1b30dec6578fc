//! The tables, as a list of steps from one version to the next. A step that was released never
//! changes; new ones are added at the end.

#[cfg(test)]
mod tests;

use rusqlite::Connection;

use crate::StoreError;
use crate::error::Failure;
use crate::file::StorePaths;

/// SQLite's application id of Silica's databases: "Slca".
const APPLICATION_ID: i64 = 0x536c_6361;

/// The steps from version 0, an empty file, to the current one.
const STEPS: [&str; 5] = [
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
];

/// Brings the tables up to date, in one transaction.
pub(crate) fn migrate(connection: &Connection, paths: &StorePaths) -> Result<(), StoreError> {
    migrate_by(connection, paths, &STEPS).map_err(|failure| paths.explain(failure))
}

fn migrate_by(connection: &Connection, paths: &StorePaths, steps: &[&str]) -> Result<(), Failure> {
    let known = steps.len() as i64;
    if version(connection, paths, known)? == known {
        return Ok(());
    }
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let migrated = take_steps(connection, paths, steps);
    let ending = if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connection.execute_batch(ending);
    migrated?;
    Ok(ended?)
}

/// Takes the missing steps. Reads the version again under the lock, since another process may have
/// taken them meanwhile.
fn take_steps(connection: &Connection, paths: &StorePaths, steps: &[&str]) -> Result<(), Failure> {
    let known = steps.len() as i64;
    let found = version(connection, paths, known)?;
    for step in &steps[found as usize..] {
        connection.execute_batch(step)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", known)?;
    Ok(())
}

/// Fails unless the file has exactly the schema of this version of Silica.
pub(crate) fn check(connection: &Connection, paths: &StorePaths) -> Result<(), Failure> {
    let known = STEPS.len() as i64;
    let found = version(connection, paths, known)?;
    if found < known {
        let path = paths.database.clone();
        return Err(StoreError::NotReady { path, found, known }.into());
    }
    Ok(())
}

/// Returns the version of a file. Fails if it is not a database of Silica's, or newer than this
/// version.
fn version(connection: &Connection, paths: &StorePaths, known: i64) -> Result<i64, Failure> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let found = pragma("user_version")?;
    let application = pragma("application_id")?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let path = paths.database.clone();
    let is_empty = found == 0 && application == 0 && tables == 0;
    if !is_empty && (application != APPLICATION_ID || found < 1) {
        return Err(StoreError::Foreign { path }.into());
    }
    if found > known {
        return Err(StoreError::NewerSchema { path, found, known }.into());
    }
    Ok(found)
}
