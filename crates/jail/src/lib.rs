//! Linux confinement: zone, shell, enter.
