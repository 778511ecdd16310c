"""Files: models, tables of features, and streams of constraints.

Import from the modules. This package imports none of them, so that metrics can be saved without loading
`oahu.constraints`.
"""
