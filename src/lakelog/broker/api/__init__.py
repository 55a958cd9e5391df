"""One module for each of Kafka's APIs. Its docstring says what it does, and what it does not.

Handlers speak the newest version of an API: requests are lifted to it before, and answers are
lowered from it behind them (``lakelog.wire``).
"""
