"""The same stories, told by seven unmodified Kafka clients.

    java         the Java client           java/Stories.java
    confluent    confluent-kafka           python/confluent.py
    aiokafka     aiokafka                  python/aio.py
    kafka-python kafka-python              python/plain.py
    kafkajs      KafkaJS                   node/stories.js
    franz-go     franz-go                  go/main.go
    kcat         kcat                      python/kcat.py

Each client is one program. It is given one argument, the plan (`plan.py`) as JSON, and prints one
line of JSON for every step. The test reads these lines, looks at what is stored, and asks a client
that took no part. So a program only says what it saw; what should be is said once, in
`test_clients.py`.

    topics and groups are {prefix}-codecs, {prefix}-group, {prefix}-times, {prefix}-resume

    created  {topics: {name: partitions}}
    produced {label, acked: [[number, partition, offset]] or null}     for each codec,
                                                                       then "idempotent"
    owned    {when: "three" | "two" | "three again", owned: {member: [partition]}}
    seen     {records: [[member, partition, offset, value]]}           by all members
    resumed  {first: [[partition, offset, value]], then: [...]}        before and after the commit
    times    {offsets: {partition: offset or null}, read: {partition: [offset, timestamp]}}
    done     {}

The group is told so that it has one right end. Its topic is empty until three members own one
partition each. Then comes a wave of records; when all of it was seen, every member commits. Now a
member leaves, the next wave comes, another joins, the last wave comes. Nothing moves while owners
change, and all is committed before; so every record is seen once, by one member. One that is seen
twice means that a commit was not honoured.

The stories were written against Apache Kafka, and can be told to it at any time:

    LAKELOG_CLIENTS_ON=kafka,lakelog python -m pytest tests/e2e/clients
"""
