// The worker of KafkaJS, for tests/e2e/compat: operations.py says what it may be asked.
//
// One argument: the address. A question is a line of JSON, and all are answered side by side.
//
// KafkaJS brings gzip and takes the other codecs as plugs, as in ../../clients/node/stories.js. Its
// consumers are always in a group, and push what they read: a poll takes from a queue.

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel, Partitioners } =
  require("kafkajs");
const { AssignerProtocol } = require("kafkajs");
const snappy = require("kafkajs-snappy");
const lz4 = require("lz4-napi");
const zstd = require("@bokuweb/zstd-wasm");

class Absent extends Error {}

const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.NOTHING });
const admin = kafka.admin();
const CODECS = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 };
const TOPIC = ConfigResourceTypes.TOPIC;
// By default a fetch waits for five seconds, and whoever joins or leaves waits for the fetch.
const IMPATIENT = { maxWaitTimeInMs: 300 };
const producers = new Map();
const members = new Map();

CompressionCodecs[CompressionTypes.Snappy] = snappy;
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: async (buffer) => lz4.decompressFrame(buffer),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
});

const operations = {
  version: async () => require("kafkajs/package.json").version,
  produce,
  transact,
  topics,
  create_topic: createTopic,
  delete_topic: ({ topic }) => admin.deleteTopics({ topics: [topic] }),
  create_partitions: ({ topic, count }) =>
    admin.createPartitions({ topicPartitions: [{ topic, count }] }),
  describe_configs: describeConfigs,
  alter_configs: absent("its admin client has only the older way"),
  alter_configs_older: ({ topic, configs }) =>
    admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: TOPIC, name: topic, configEntries: named(configs) }],
    }),
  delete_records: async ({ topic, partition, before }) => {
    // It finds the leader only of a topic that it has been asked about.
    await admin.fetchTopicOffsets(topic);
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: `${before}` }] });
  },
  describe_cluster: describeCluster,
  describe_log_dirs: absent("its admin client cannot describe log directories"),
  offsets,
  open,
  poll,
  assigned: async ({ consumer }) => members.get(consumer).owned,
  changes: async ({ consumer }) => members.get(consumer).changes,
  seek,
  pause: async ({ consumer, topic, partition }) =>
    members.get(consumer).consumer.pause([{ topic, partitions: [partition] }]),
  resume: async ({ consumer, topic, partition }) =>
    members.get(consumer).consumer.resume([{ topic, partitions: [partition] }]),
  commit: ({ consumer, topic, partition, offset, metadata }) =>
    members.get(consumer).consumer.commitOffsets([
      { topic, partition, offset: `${offset}`, metadata },
    ]),
  committed: ({ consumer, topic, partition }) =>
    fetchOffset(members.get(consumer).group, topic, partition),
  close: ({ consumer }) => members.get(consumer).consumer.disconnect(),
  group_offset: async ({ group, topic, partition }) =>
    (await fetchOffset(group, topic, partition))?.[0] ?? null,
  list_groups: async () => (await admin.listGroups()).groups.map((one) => one.groupId),
  describe_group: describeGroup,
  delete_group: ({ group }) => admin.deleteGroups([group]),
  delete_offset: absent("its admin client cannot delete offsets of a group"),
};

// ---------------------------------------------------------------------------- producing

async function produce({ topic, records, settings, keep }) {
  const producer = await (keep ? kept(keep, settings) : connected(settings));
  const messages = records.map((one) => ({
    key: one.key,
    value: one.value,
    headers: gathered(one.headers),
    ...(one.partition === null ? {} : { partition: one.partition }),
    ...(one.timestamp === null ? {} : { timestamp: `${one.timestamp}` }),
  }));
  const how = {
    topic,
    ...(settings.acks ? { acks: { 0: 0, 1: 1, all: -1 }[settings.acks] } : {}),
    ...(settings.codec ? { compression: CODECS[settings.codec] } : {}),
  };
  // A request holds all that one call sends. It promises order only to calls that wait for each
  // other, so there is one in flight, whatever was asked for.
  const size = settings.in_flight ? 50 : messages.length;
  for (let start = 0; start < messages.length; start += size) {
    await producer.send({ ...how, messages: messages.slice(start, start + size) });
  }
  if (!keep) {
    await producer.disconnect();
  }
  // It tells only where the first record of a request went.
  return records.map(() => null);
}

async function kept(name, settings) {
  if (!producers.has(name)) {
    producers.set(name, connected(settings));
  }
  return producers.get(name);
}

async function connected(settings) {
  const producer = kafka.producer({
    createPartitioner: Partitioners.DefaultPartitioner,
    ...(settings.idempotent ? { idempotent: true } : {}),
    ...(settings.refresh_ms ? { metadataMaxAge: settings.refresh_ms } : {}),
  });
  await producer.connect();
  return producer;
}

function gathered(headers) {
  const found = {};
  for (const [name, value] of headers) {
    found[name] = name in found ? [].concat(found[name], value) : value;
  }
  return found;
}

async function transact({ name, topic, values, end }) {
  const producer = kafka.producer({
    transactionalId: name,
    maxInFlightRequests: 1,
    idempotent: true,
    createPartitioner: Partitioners.DefaultPartitioner,
  });
  await producer.connect();
  const transaction = await producer.transaction();
  await transaction.send({ topic, messages: values.map((value) => ({ value })) });
  await (end === "commit" ? transaction.commit() : transaction.abort());
  await producer.disconnect();
}

// ---------------------------------------------------------------------------- topics

async function topics() {
  const names = await admin.listTopics();
  const found = {};
  // One that another behaviour deletes meanwhile would fail the question for all.
  for (const name of names) {
    found[name] = null;
  }
  const metadata = await admin.fetchTopicMetadata();
  for (const one of metadata.topics) {
    found[one.name] = one.partitions.length;
  }
  return found;
}

async function createTopic({ topic, partitions, configs }) {
  const made = await admin.createTopics({
    topics: [
      { topic, numPartitions: partitions, replicationFactor: 1, configEntries: named(configs) },
    ],
  });
  if (!made) {
    // This is how it says so.
    throw Object.assign(new Error("createTopics is false"), { type: "TOPIC_ALREADY_EXISTS" });
  }
}

function named(configs) {
  return Object.entries(configs).map(([name, value]) => ({ name, value }));
}

async function describeConfigs({ topic }) {
  const found = await admin.describeConfigs({
    includeSynonyms: false,
    resources: [{ type: TOPIC, name: topic }],
  });
  return Object.fromEntries(
    found.resources[0].configEntries.map((one) => [one.configName, one.configValue]),
  );
}

async function describeCluster() {
  const found = await admin.describeCluster();
  return {
    brokers: found.brokers.map((one) => [one.nodeId, one.host, one.port]),
    controller: found.controller,
    cluster: found.clusterId,
  };
}

async function offsets({ topic, partition, at }) {
  const all =
    typeof at === "number"
      ? await admin.fetchTopicOffsetsByTimestamp(topic, at)
      : await admin.fetchTopicOffsets(topic);
  const found = all.find((one) => one.partition === partition);
  return Number({ earliest: found.low, latest: found.high }[at] ?? found.offset);
}

// ---------------------------------------------------------------------------- consuming

async function open({ group, topics: names, pattern, assign, settings }) {
  if (settings.protocol) {
    throw new Absent("it has the classic protocol only");
  }
  if (settings.instance) {
    throw new Absent("it has no static members");
  }
  if (settings.assignor === "cooperative") {
    throw new Absent("it has no cooperative assignor");
  }
  if (pattern && settings.refresh_ms) {
    throw new Absent("it looks for topics that match when it subscribes, and never again");
  }
  const name = `consumer-${members.size}`;
  const groupId = group ?? `${assign[0][0]}-${name}-${process.pid}`;
  const consumer = kafka.consumer({
    groupId,
    ...IMPATIENT,
    readUncommitted: settings.isolation !== "read_committed",
    ...(settings.refresh_ms ? { metadataMaxAge: settings.refresh_ms } : {}),
  });
  const member = { consumer, group: groupId, owned: [], changes: [], queue: [], from: new Map() };
  members.set(name, member);
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    member.owned = Object.entries(payload.memberAssignment).flatMap(([topic, partitions]) =>
      partitions.map((partition) => [topic, partition]),
    );
    member.changes.push(["assigned", member.owned]);
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    member.crash = payload.restart ? undefined : payload.error;
  });
  await consumer.connect();
  const wanted = pattern ? [new RegExp(pattern)] : assign.length ? [assign[0][0]] : names;
  await consumer.subscribe({ topics: wanted, fromBeginning: settings.reset !== "latest" });
  // Whoever joins waits for the others, who may have to be asked meanwhile.
  consumer.run({ autoCommit: false, eachMessage: async (one) => take(member, one) });
  if (assign.length) {
    await until(() => member.owned.length || member.crash);
  }
  return name;
}

function take(member, { topic, partition, message }) {
  const place = `${topic} ${partition}`;
  // What was on its way when somebody sought is none of theirs.
  if (member.from.has(place) && Number(message.offset) !== member.from.get(place)) {
    return;
  }
  member.from.delete(place);
  member.queue.push({
    topic,
    partition,
    offset: Number(message.offset),
    key: message.key === null ? null : message.key.toString(),
    value: message.value === null ? null : message.value.toString(),
    headers: Object.entries(message.headers ?? {}).flatMap(([name, values]) =>
      [].concat(values).map((value) => [name, value.toString()]),
    ),
    timestamp: Number(message.timestamp),
  });
}

async function poll({ consumer, ms, most }) {
  const member = members.get(consumer);
  const deadline = Date.now() + ms;
  await until(() => member.queue.length || member.crash || Date.now() >= deadline);
  if (member.crash) {
    throw member.crash;
  }
  return member.queue.splice(0, most);
}

async function seek({ consumer, topic, partition, offset }) {
  const member = members.get(consumer);
  member.queue = member.queue.filter((one) => one.topic !== topic || one.partition !== partition);
  // An offset that is not there is answered with another.
  const low = (await admin.fetchTopicOffsets(topic)).find((one) => one.partition === partition);
  member.from.set(`${topic} ${partition}`, offset < Number(low.high) ? offset : Number(low.low));
  member.consumer.seek({ topic, partition, offset: `${offset}` });
}

async function fetchOffset(groupId, topic, partition) {
  const [about] = await admin.fetchOffsets({ groupId, topics: [topic] });
  const found = about.partitions.find((one) => one.partition === partition);
  return Number(found.offset) < 0 ? null : [Number(found.offset), found.metadata];
}

async function describeGroup({ group }) {
  const [found] = (await admin.describeGroups([group])).groups;
  const places = found.members.map((one) => {
    const { assignment } = AssignerProtocol.MemberAssignment.decode(one.memberAssignment);
    return Object.entries(assignment).flatMap(([topic, partitions]) =>
      partitions.map((partition) => [topic, partition]),
    );
  });
  return { state: found.state.toUpperCase(), members: places };
}

// ---------------------------------------------------------------------------- all of them

function absent(why) {
  return async () => {
    throw new Absent(why);
  };
}

async function until(there) {
  while (!there()) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

// Errors of several topics or groups come wrapped, and retries wrap once more.
function cause(error) {
  const [one] = error.errors ?? error.groups ?? error.partitions ?? [];
  const inner = one?.error ?? one ?? error.cause;
  return inner && inner !== error ? cause(inner) : error;
}

async function answer({ id, op, ...asked }) {
  let told;
  try {
    told = { ok: (await operations[op](asked)) ?? null };
  } catch (error) {
    const root = cause(error);
    told =
      error instanceof Absent
        ? { absent: error.message }
        : { error: root.type ?? root.name ?? "Error", words: `${error.message} ${root.message}` };
  }
  process.stdout.write(`${JSON.stringify({ id, ...told })}\n`);
}

async function main() {
  await zstd.init();
  await admin.connect();
  const lines = require("readline").createInterface({ input: process.stdin });
  lines.on("line", (line) => answer(JSON.parse(line)));
  lines.on("close", () => process.exit(0));
}

// A consumer that fails says so itself; nothing else may take the others with it.
process.on("unhandledRejection", (error) => console.error(error));
main();
