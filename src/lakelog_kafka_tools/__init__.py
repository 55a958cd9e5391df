"""Kafka's command line tools, without Java: Apache's flags, Apache's text, Apache's exit codes.

running     how a tool is run: arguments in, two streams and an exit code out
grammar     command lines as Apache's parser takes them; usage/, the texts it is made from
java        what the text owes to Java: the order of hash maps, numbers, ids, dates
thrown      exceptions of Java's tools, as far as they print them; failures.tsv, by error code
settings    properties files; Java's names of settings -> what our clients call them

schemas     Kafka's messages from a line of text; apis, the lines
sasl, link  a connection to a broker
cluster     which broker is asked, and how often
admin, group_admin
            requests, in the order in which Java's admin client sends them

topics, groups, configs, acls, get_offsets, producer, consumer
            the tools, and beside them what each of them prints

Every answer is asked for as Apache's tools ask, because what they print shows it: a group that does
not exist, replicas that are eligible to lead, where a setting comes from. A general client hides
half of that, and takes longer to import than a tool takes to run. Only the console producer and
consumer, which are more than a few questions, stand on librdkafka.
"""
