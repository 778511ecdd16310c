"""The schemas of the request and response bodies of the HTTP API, with one module for each resource."""
