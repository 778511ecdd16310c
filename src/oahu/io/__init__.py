"""Files: models, feature tables, and streams of constraints.

Import from the modules. This package imports none of them, so that a metric can be saved without loading
`oahu.constraints`.
"""
