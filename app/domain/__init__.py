"""Plain frozen values that travel along the request's path; standard library and numpy only, no I/O."""
