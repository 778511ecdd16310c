"""Request and response bodies of the HTTP API, one file per resource."""
