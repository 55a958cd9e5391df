"""What the Kafka oracle tests are made of: Kafka and lakelog read and write each other's files.

workload   records that are hard on a reader, produced to a real Kafka
reading    a partition's directory as lakelog sees it
writing    a partition's closed segments replaced by lakelog's
judge      Kafka's own storage classes, on segments of our making
"""
