"""Running oahu for others: a catalogue, people who say what is alike, and a metric that moves at once.

Three parts with narrow doors between them: the store (what was said, durably), the learner loop (the log in, metric
versions out) and the searcher (metric and catalogue in, answers out). `Collection` ties them together, the HTTP
interface and the page stand before it.
"""
