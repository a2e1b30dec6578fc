//! The tables, as a list of steps from one version to the next. A step that was released never
//! changes; new ones are added at the end.

#[cfg(test)]
mod tests;

use rusqlite::Connection;

use crate::StoreError;
use crate::error::Failure;
use crate::file::Place;

/// Marks a file as ours: "Slca".
const APPLICATION_ID: i64 = 0x536c_6361;

/// What leads from version 0, an empty file, to the present one.
const STEPS: [&str; 2] = [include_str!("schema/1.sql"), include_str!("schema/2.sql")];

/// Brings the tables up to date, in one transaction.
pub(crate) fn migrate(connection: &Connection, place: &Place) -> Result<(), StoreError> {
    migrate_by(connection, place, &STEPS).map_err(|failure| place.explain(failure))
}

fn migrate_by(connection: &Connection, place: &Place, steps: &[&str]) -> Result<(), Failure> {
    let known = steps.len() as i64;
    if version(connection, place, known)? == known {
        return Ok(());
    }
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let migrated = take_steps(connection, place, steps);
    let ending = if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = connection.execute_batch(ending);
    migrated?;
    Ok(ended?)
}

/// Another process may have been first, so what is there is looked at again under the lock.
fn take_steps(connection: &Connection, place: &Place, steps: &[&str]) -> Result<(), Failure> {
    let known = steps.len() as i64;
    let found = version(connection, place, known)?;
    for step in &steps[found as usize..] {
        connection.execute_batch(step)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", known)?;
    Ok(())
}

/// Refuses to read what this version does not understand.
pub(crate) fn check(connection: &Connection, place: &Place) -> Result<(), Failure> {
    let known = STEPS.len() as i64;
    let found = version(connection, place, known)?;
    if found < known {
        let path = place.database.clone();
        return Err(StoreError::NotReady { path, found, known }.into());
    }
    Ok(())
}

/// The version of a file, if it is ours and not newer than we are.
fn version(connection: &Connection, place: &Place, known: i64) -> Result<i64, Failure> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (found, application) = (pragma("user_version")?, pragma("application_id")?);
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let path = place.database.clone();
    let is_empty = found == 0 && application == 0 && tables == 0;
    if !is_empty && (application != APPLICATION_ID || found < 1) {
        return Err(StoreError::Foreign { path }.into());
    }
    if found > known {
        return Err(StoreError::NewerSchema { path, found, known }.into());
    }
    Ok(found)
}
