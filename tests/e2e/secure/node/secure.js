// Records there and back with KafkaJS, or a question about the cluster. One argument: the plan, as JSON.

const fs = require("fs");
const { Kafka, logLevel } = require("kafkajs");

const plan = JSON.parse(process.argv[2]);
const ssl = { ca: [fs.readFileSync(plan.ca)] };
if (plan.cert) ssl.key = ssl.cert = fs.readFileSync(plan.cert);
async function token() {
  const body = new URLSearchParams({
    grant_type: "client_credentials", client_id: plan.user, client_secret: plan.password,
  });
  const answer = await fetch(plan.token_url, { method: "POST", body });
  return { value: (await answer.json()).access_token };
}

let sasl;
if (plan.mechanism === "OAUTHBEARER") {
  sasl = { mechanism: "oauthbearer", oauthBearerProvider: token };
} else if (plan.mechanism) {
  sasl = { mechanism: plan.mechanism.toLowerCase(), username: plan.user, password: plan.password };
}
const kafka = new Kafka({
  brokers: [plan.bootstrap], ssl, sasl, logLevel: logLevel.NOTHING,
  reauthenticationThreshold: 1000,  // By default ten seconds, which is longer than our sessions.
  retry: { retries: plan.within_s > 10 ? 8 : 1 },
});

async function main() {
  if (plan.wants === "cluster") {
    const admin = kafka.admin();
    await admin.connect();
    await admin.describeAcls({  // Any, of each of them.
      resourceType: 1, resourcePatternType: 1, permissionType: 1, operation: 1,
    });
    console.log("ok");
    return;
  }
  const producer = kafka.producer();
  await producer.connect();
  for (let at = 0; at < plan.count; at++) {
    await producer.send({ topic: plan.topic, messages: [{ value: `${plan.value}${at}` }] });
    await new Promise((done) => setTimeout(done, 1000 * plan.pause_s));
  }
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: plan.group, maxWaitTimeInMs: 500 });
  await consumer.connect();
  await consumer.subscribe({ topic: plan.topic, fromBeginning: true });
  let found = 0;
  await new Promise((done, fail) => {
    consumer.on(consumer.events.CRASH, (event) => fail(event.payload.error));
    consumer.run({ eachMessage: async () => { if (++found === plan.count) done(); } }).catch(fail);
  });
  await consumer.disconnect();
  console.log("ok");
}

main().then(() => process.exit(0), (error) => { console.error(String(error)); process.exit(1); });
