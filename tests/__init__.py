"""The tests are a regular package, so that no `tests` folder in site-packages can shadow it."""
