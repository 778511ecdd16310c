"""Reading and writing of files: models, feature tables, and streams of constraints.

Import from the modules of this package. This file does not import them, because saving a metric must not load
`oahu.constraints`.
"""
