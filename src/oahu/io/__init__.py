"""Files: models, feature tables, and streams of constraints.

Import from the modules. The package itself imports none of them, so that saving a metric does not load
`oahu.constraints`.
"""
