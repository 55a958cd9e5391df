// The stories of tests/e2e/clients, told by KafkaJS.
//
// One argument: the plan, as JSON. One line of JSON on standard output for every step.
//
// KafkaJS brings gzip and takes the other codecs as plugs: snappy by its own package, lz4 and zstd
// by libraries that need no compiler. The blocks of an LZ4 frame must not depend on each other, or
// Kafka refuses it; so not every library will do.

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require("kafkajs");
const snappy = require("kafkajs-snappy");
const lz4 = require("lz4-napi");
const zstd = require("@bokuweb/zstd-wasm");

const plan = JSON.parse(process.argv[2]);
const kafka = new Kafka({ brokers: plan.bootstrap.split(','), logLevel: logLevel.WARN });
const PARTITIONS = [0, 1, 2];
// By default a fetch waits for five seconds, and whoever joins or leaves waits for the fetch.
const IMPATIENT = { maxWaitTimeInMs: 500 };

CompressionCodecs[CompressionTypes.Snappy] = snappy;
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => lz4.compressFrame(encoder.buffer),
  decompress: async (buffer) => lz4.decompressFrame(buffer),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
});

async function main() {
  await zstd.init();
  await create();
  for (const codec of plan.codecs) {
    const compression = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 }[codec];
    await produce(codec, {}, { compression });
  }
  await produce("idempotent", { idempotent: true }, {});
  await group();
  await resume();
  await times();
  say("done", {});
}

// ---------------------------------------------------------------------------- topics

async function create() {
  const topics = ["codecs", "group", "times"].map(named);
  await administer(async (admin) => {
    await admin.createTopics({
      topics: topics.map((topic) => ({ topic, numPartitions: 3, replicationFactor: 1 })),
    });
    const found = await admin.fetchTopicMetadata({ topics });
    say("created", {
      topics: Object.fromEntries(found.topics.map((one) => [one.name, one.partitions.length])),
    });
  });
}

async function administer(work) {
  const admin = kafka.admin();
  await admin.connect();
  await work(admin);
  await admin.disconnect();
}

// ---------------------------------------------------------------------------- producing

async function produce(label, settings, options) {
  const messages = count(plan.records).map((i) => ({ key: `${i}`, value: value(label, i) }));
  await send(named("codecs"), messages, settings, options);
  // KafkaJS tells only where the first record of a request went.
  say("produced", { label, acked: null });
}

async function send(topic, messages, settings = {}, options = {}) {
  const producer = kafka.producer(settings);
  await producer.connect();
  // One partition at a time. Of several, KafkaJS forgets one whose leader moves to a broker that has
  // answered for the others already, and says that all were sent.
  for (const partition of PARTITIONS) {
    const some = messages.filter((one, i) => (one.partition ?? i % PARTITIONS.length) === partition);
    if (some.length) {
      const given = some.map((one) => ({ ...one, partition }));
      await producer.send({ topic, messages: given, ...options });
    }
  }
  await producer.disconnect();
}

// ---------------------------------------------------------------------------- a group

async function group() {
  const members = new Map();
  const seen = [];

  const join = async (name) => {
    const consumer = kafka.consumer({ groupId: named("group"), ...IMPATIENT });
    const member = { consumer, owned: [], next: new Map() };
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      member.owned = payload.memberAssignment[named("group")] ?? [];
    });
    await consumer.connect();
    await consumer.subscribe({ topic: named("group"), fromBeginning: true });
    members.set(name, member);
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        seen.push([name, partition, Number(message.offset), message.value.toString()]);
        member.next.set(partition, Number(message.offset) + 1);
      },
    });
  };

  const awaitOwners = async (when) => {
    await until("owners", () => {
      const all = [...members.values()].flatMap((member) => member.owned).sort();
      return `${all}` === `${PARTITIONS}` && [...members.values()].every((m) => m.owned.length);
    });
    const owned = [...members].map(([name, member]) => [name, [...member.owned].sort()]);
    say("owned", { when, owned: Object.fromEntries(owned) });
  };

  const wave = async (number) => {
    const messages = PARTITIONS.flatMap((partition) =>
      count(plan.wave).map((i) => ({ partition, value: value(`wave${number}`, i) })),
    );
    await send(named("group"), messages);
    await until("records of a wave", () => seen.length >= 3 * plan.wave * (number + 1));
    for (const member of members.values()) {
      await commit(member.consumer, named("group"), member.next);
      member.next.clear();
    }
  };

  await Promise.all(["a", "b", "c"].map(join));
  await awaitOwners("three");
  await wave(0);
  await members.get("c").consumer.disconnect();
  members.delete("c");
  await awaitOwners("two");
  await wave(1);
  await join("d");
  await awaitOwners("three again");
  await wave(2);
  await Promise.all([...members.values()].map((member) => member.consumer.disconnect()));
  say("seen", { records: seen });
}

async function commit(consumer, topic, next) {
  const offsets = [...next].map(([partition, offset]) => ({ topic, partition, offset: `${offset}` }));
  if (offsets.length) {
    await consumer.commitOffsets(offsets);
  }
}

// ---------------------------------------------------------------------------- resuming

async function resume() {
  const all = plan.records * (plan.codecs.length + 1);
  const half = Math.floor(all / 2);
  const first = await read(half, true);
  say("resumed", { first, then: await read(all - half, false) });
}

async function read(wanted, withCommit) {
  const seen = [];
  const next = new Map();
  const consumer = kafka.consumer({ groupId: named("resume"), ...IMPATIENT });
  await consumer.connect();
  await consumer.subscribe({ topic: named("codecs"), fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      if (seen.length < wanted) {
        seen.push([partition, Number(message.offset), message.value.toString()]);
        next.set(partition, Number(message.offset) + 1);
      }
    },
  });
  await until("records to resume", () => seen.length >= wanted);
  if (withCommit) {
    await commit(consumer, named("codecs"), next);
  }
  await consumer.disconnect();
  return seen;
}

// ---------------------------------------------------------------------------- times

async function times() {
  const topic = named("times");
  const messages = plan.times.map(([partition, timestamp], i) => ({
    partition,
    timestamp: `${timestamp}`,
    value: value("times", i),
  }));
  await send(topic, messages);
  let found = [];
  await administer(async (admin) => {
    found = await admin.fetchTopicOffsetsByTimestamp(topic, plan.target_ms);
  });
  const offsets = Object.fromEntries(found.map((one) => [one.partition, Number(one.offset)]));

  const read = {};
  const consumer = kafka.consumer({ groupId: named("times"), ...IMPATIENT });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const wanted = PARTITIONS.filter((at) => offsets[at] < plan.times.filter(([p]) => p === at).length);
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      // What came before the seek is none of ours.
      if (Number(message.offset) >= offsets[partition]) {
        read[partition] ??= [Number(message.offset), Number(message.timestamp)];
      }
    },
  });
  for (const { partition, offset } of found) {
    consumer.seek({ topic, partition, offset });
  }
  await until("records of a time", () => wanted.every((partition) => partition in read));
  await consumer.disconnect();
  say("times", { offsets, read });
}

// ---------------------------------------------------------------------------- all of them

function named(name) {
  return `${plan.prefix}-${name}`;
}

function value(label, number) {
  return `${label} ${number} ${plan.padding}`;
}

function count(number) {
  return [...Array(number).keys()];
}

async function until(what, there) {
  const deadline = Date.now() + plan.patience_s * 1000;
  while (!there()) {
    if (Date.now() > deadline) {
      throw new Error(`waited too long for ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function say(step, fields) {
  process.stdout.write(`${JSON.stringify({ step, ...fields })}\n`);
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
