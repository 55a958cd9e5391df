"""What a worker may be asked, and what a client calls it.

    version             {} -> text
    produce             {topic, records, settings, keep?} -> [[partition, offset] or null]
                        records: {key, value, headers: [[name, value]], partition, timestamp}
                        settings: acks "0" | "1" | "all", codec, idempotent, in_flight, batch_bytes,
                            max_bytes, refresh_ms
                        keep: the name of a producer that goes on, for the next question
    transact            {name, topic, values, end: "commit" | "abort"} -> null
    topics              {} -> {name: partitions}
    create_topic        {topic, partitions, configs} -> null
    delete_topic        {topic} -> null
    create_partitions   {topic, count} -> null
    describe_configs    {topic} -> {name: value}
    alter_configs       {topic, set: {name: value}, delete: [name]} -> null
    alter_configs_older {topic, configs} -> null             all others go back to their defaults
    delete_records      {topic, partition, before} -> null
    describe_cluster    {} -> {brokers: [[id, host, port]], controller, cluster}
    describe_log_dirs   {topic} -> bytes
    offsets             {topic, partition, at: "earliest" | "latest" | milliseconds}
                        -> offset, or null where no record is so young
    open                {group?, topics? | pattern? | assign?: [[topic, partition]], settings}
                        -> the name of a consumer
                        settings: reset "earliest" | "latest", isolation, assignor "cooperative",
                            instance, protocol "consumer", refresh_ms
    poll                {consumer, ms, most} -> [record], with topic and offset
    assigned            {consumer} -> [[topic, partition]]
    changes             {consumer} -> [[ "assigned" | "revoked", [[topic, partition]] ]]
    seek                {consumer, topic, partition, offset} -> null
    pause, resume       {consumer, topic, partition} -> null
    commit              {consumer, topic, partition, offset, metadata?} -> null
    committed           {consumer, topic, partition} -> [offset, metadata] or null
    close               {consumer} -> null
    group_offset        {group, topic, partition} -> offset or null     asked by somebody else
    list_groups         {} -> [group]
    describe_group      {group} -> {state, members: [[[topic, partition]]]}
    delete_group        {group} -> null
    delete_offset       {group, topic, partition} -> null

Errors have the names of Kafka's protocol, states of groups are in capitals.
"""

__all__ = ["OPERATIONS"]

OPERATIONS = tuple(
    name
    for line in (__doc__ or "").splitlines()
    if line.startswith("    ") and not line.startswith("     ")
    for name in line.split("{")[0].replace(",", " ").split()
)
