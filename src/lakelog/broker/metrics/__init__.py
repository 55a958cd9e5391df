"""What a broker counts and measures, and how Prometheus is told.

counters         plain numbers in slotted objects; from_threads: counted from there
gauges           what is asked for at every scrape
purposes         what requests to the store are for
lags             how far groups are behind; offset_timeline: when offsets came to be
prometheus       all of it as text
"""
