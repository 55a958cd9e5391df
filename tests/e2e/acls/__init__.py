"""Every API under every ACL, on a real Kafka and on lakelog: the same codes, cell by cell.

columns    who is allowed what: each set of ACLs is for one address on loopback
probes     requests, and what of an answer is compared
clusters   a Kafka with its authorizer, and a broker of ours in this process
matrix     the probes of a column, one after the other
page       docs/reference/acls.md, of the results

`python -m tests.e2e.acls` runs all of it, and writes results.json and the page.
"""
