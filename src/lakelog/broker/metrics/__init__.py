"""What a broker counts and measures, and how Prometheus is told.

counters         plain numbers in slotted objects
gauges           what is asked for at every scrape
lags             how far groups are behind; offset_timeline: when offsets came to be
prometheus       all of it as text
"""
