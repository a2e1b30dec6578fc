//! Random bytes from the kernel.

use std::sync::Arc;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::StoreError;
use crate::digest::to_hex;

/// Returns random bytes that are fit for secrets.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], StoreError> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty()).map_err(|errno| {
            let doing = "cannot get random bytes from the kernel".to_owned();
            StoreError::Io { doing, source: Arc::new(errno.into()) }
        })?;
    }
    Ok(bytes)
}

/// Returns 16 random hexadecimal digits.
pub fn random_hex() -> Result<String, StoreError> {
    Ok(to_hex(&random::<8>()?))
}
