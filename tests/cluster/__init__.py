"""What is done to a cluster of real brokers, who watches it, and who judges what they saw.

history    what clients sent, were told and read, as they wrote it down
operations the same in Jepsen's shape; ``edn`` writes it as Jepsen does
case       a history and the log in the end, and what follows from both
checker    what is wrong with them: pure, and tested by planted errors
workers    real clients in processes of their own, each with a diary
faults     what befalls the brokers, by a seed
planted    lakelog with bugs, which a run must find
story      one run from its beginning to its end
load       brokers, workers and the end of a run: healed, quiet, read from the store
"""
