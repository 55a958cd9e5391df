"""Attacks on a running broker, while honest clients work: what of it do they notice?

crowd       the honest clients, a process
attacker    the hostile one, a process
on_*        what it does: connections, data, control, groups
rows        all of it, as a table
arena       a broker, its crowd, its attacker; what is measured and how it is judged
"""
