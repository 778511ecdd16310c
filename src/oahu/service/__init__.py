"""The live service: search a catalogue, collect feedback, and learn a metric from the feedback immediately.

A `Collection` has four components. The catalogue contains the items and their features. The feedback log contains
the feedback and the constraint graph. The learner loop trains the learner on the log and publishes metrics. The
query engine answers queries with the catalogue and the newest metric. The store saves the data of all components on
disk. The HTTP API and the web page call the methods of collections.
"""
