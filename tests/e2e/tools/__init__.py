"""Apache's tools and ours, side by side.

apache.py     Apache's tools, all in one JVM
comparing.py  one command line for both, and what may differ
Tools.java    the JVM's side
secured.py    a Kafka with a door that asks for a name
"""
