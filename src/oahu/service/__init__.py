"""The live service: search a catalogue, collect feedback, and learn a metric from it at once.

A `Collection` consists of a catalogue (items and features), a feedback log (with the constraint graph), a learner
loop (log in, metrics out) and a query engine (catalogue and metric in, results out). The store keeps all data
durably. The HTTP API and the page use collections.
"""
