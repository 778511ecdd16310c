"""Reading and writing of files: models, feature tables, and streams of constraints.

Import from the modules of this package. The package itself does not import its modules, so that saving a metric
does not load `oahu.constraints`.
"""
