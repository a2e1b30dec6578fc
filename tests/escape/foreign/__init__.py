"""Other people's tests, inside a sandbox and outside."""
