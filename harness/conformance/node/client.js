// The kafkajs client, driven line by line over standard input: an id and tab-separated words in, the id and
// tab-separated words out. Words are written as in a URL's query, so that they may hold tabs and ends of lines. An answer
// begins with "ok", or with "error", the error's type and its message. Questions are answered side by side: who asks
// decides what waits for what.
//
// Settings and members that this program does not have, because kafkajs has none of them: static membership, and the
// high watermark of a partition.
'use strict'

const readline = require('node:readline')
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4js')
const { hash: xxh32 } = require('lz4js/xxh32.js')
const { ZstdCodec } = require('zstd-codec')

const PATIENCE_MS = 30000
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

const zstd = new Promise((resolve) => ZstdCodec.run((library) => resolve(new library.Simple())))
CompressionCodecs[CompressionTypes.Snappy] = snappy

// Kafka takes frames only whose blocks stand alone, and lz4js does not say that of its frames. Those of one block do: they
// get the flag, and the checksum of the header that goes with it.
function standAlone(frame) {
  frame[4] |= 0x20
  frame[6] = (xxh32(0, frame, 4, 2) >> 8) & 0xff
  return frame
}

CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => standAlone(Buffer.from(lz4.compress(encoder.buffer))),
  decompress: async (data) => Buffer.from(lz4.decompress(data)),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async (data) => Buffer.from((await zstd).decompress(data)),
})

const cluster = (bootstrap) =>
  new Kafka({
    brokers: bootstrap.split(","),
    logLevel: logLevel.NOTHING,
    retry: { initialRetryTime: 10, maxRetryTime: 200, retries: 100 },
  })

class Producer {
  constructor(bootstrap, transactionalId, codec, acks) {
    this.codec = CODECS[codec]
    this.acks = acks === 'all' ? -1 : Number(acks)
    const idempotent = acks === 'all'
    const settings = { idempotent, maxInFlightRequests: 1, retry: { retries: 5 } }
    this.producer = cluster(bootstrap).producer(
      transactionalId ? { ...settings, transactionalId } : settings,
    )
    this.waiting = new Map()
    this.transaction = null
  }

  // It asks for its producer id when it begins its first transaction.
  async init() {
    await this.producer.connect()
    this.transaction = await this.producer.transaction()
  }

  async begin() {
    this.transaction = this.transaction ?? (await this.producer.transaction())
  }

  send(topic, partition, key, value, header) {
    if (!this.waiting.has(topic)) {
      this.waiting.set(topic, [])
    }
    this.waiting.get(topic).push({ partition: Number(partition), key, value, headers: { header } })
  }

  async flush() {
    const topicMessages = [...this.waiting].map(([topic, messages]) => ({ topic, messages }))
    this.waiting.clear()
    if (topicMessages.length > 0) {
      const sender = this.transaction || this.producer
      await sender.sendBatch({ topicMessages, acks: this.acks, compression: this.codec })
    }
  }

  async end(commit) {
    if (commit) {
      await this.flush()
    }
    this.waiting.clear()
    const transaction = this.transaction
    this.transaction = null
    await (commit ? transaction.commit() : transaction.abort())
  }
}

// A member of a group. Its consumer holds each batch until that was polled and committed, so that it rebalances in between.
class Member {
  constructor(bootstrap, group, heartbeatMs, sessionMs) {
    this.batches = []
    this.polled = []
    this.partitions = []
    this.rebalances = 0
    this.consumer = cluster(bootstrap).consumer({
      groupId: group,
      heartbeatInterval: Number(heartbeatMs),
      sessionTimeout: Number(sessionMs),
      rebalanceTimeout: 60000,
      maxWaitTimeInMs: 50,
    })
  }

  async start(topic, reset) {
    this.topic = topic
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.partitions = payload.memberAssignment[topic] || []
      this.rebalances += 1
    })
    this.consumer.on(this.consumer.events.REBALANCING, () => {
      this.partitions = []
    })
    await this.consumer.connect()
    await this.consumer.subscribe({ topics: [topic], fromBeginning: reset === 'earliest' })
    await this.consumer.run({ autoCommit: false, eachBatch: (payload) => this.take(payload) })
  }

  take({ batch }) {
    return new Promise((release) => this.batches.push({ batch, release }))
  }

  release() {
    for (const { release } of this.polled) {
      release()
    }
    this.polled = []
  }

  async poll() {
    this.release()
    for (let waitedMs = 0; this.batches.length === 0 && waitedMs < 50; waitedMs += 5) {
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    this.polled = this.batches.splice(0)
    return this.polled.flatMap(({ batch }) =>
      batch.messages.flatMap(({ offset, value }) => [batch.partition, offset, value.toString()]),
    )
  }

  async commit() {
    try {
      await this.consumer.commitOffsets(
        this.polled.map(({ batch }) => ({
          topic: this.topic,
          partition: batch.partition,
          offset: String(BigInt(batch.lastOffset()) + 1n),
        })),
      )
      return true
    } catch {
      return false
    } finally {
      this.release()
    }
  }

  async leave() {
    this.release()
    this.take = async () => {}
    for (const { release } of this.batches.splice(0)) {
      release()
    }
    await this.consumer.disconnect()
  }
}

const producers = new Map()
const members = new Map()

// Every record of one partition up to a value; kafkajs reads as a member of a group only.
async function read(bootstrap, isolation, topic, partition, until) {
  const consumer = cluster(bootstrap).consumer({
    groupId: `read-${topic}-${process.hrtime.bigint()}`,
    readUncommitted: isolation === 'read_uncommitted',
    maxWaitTimeInMs: 50,
  })
  const found = []
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  let timer
  const complete = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no record ${until}, only ${found}`)), PATIENCE_MS)
    const eachBatch = async ({ batch }) => {
      if (batch.partition !== Number(partition)) {
        return
      }
      for (const { offset, key, value, headers } of batch.messages) {
        found.push(offset, String(key ?? ''), String(value), String(headers.header ?? ''))
        if (String(value) === until) {
          resolve()
        }
      }
    }
    consumer.run({ autoCommit: false, eachBatch }).catch(reject)
  })
  try {
    await complete
  } finally {
    clearTimeout(timer)
    await consumer.disconnect()
  }
  return found
}

async function withAdmin(bootstrap, ask) {
  const admin = cluster(bootstrap).admin()
  await admin.connect()
  try {
    return await ask(admin)
  } finally {
    await admin.disconnect()
  }
}

const topicSetting = (name) => ({ type: ConfigResourceTypes.TOPIC, name })

const commands = {
  async producer(handle, bootstrap, transactionalId, codec, acks) {
    const made = new Producer(bootstrap, transactionalId, codec, acks)
    producers.set(handle, made)
    if (!transactionalId) {
      await made.producer.connect()
    }
  },
  init: (handle) => producers.get(handle).init(),
  begin: (handle) => producers.get(handle).begin(),
  send: (handle, ...record) => producers.get(handle).send(...record),
  flush: (handle) => producers.get(handle).flush(),
  async offsets(handle, group, topic, partition, offset) {
    const topics = [{ topic, partitions: [{ partition: Number(partition), offset }] }]
    await producers.get(handle).transaction.sendOffsets({ consumerGroupId: group, topics })
  },
  commit: (handle) => producers.get(handle).end(true),
  abort: (handle) => producers.get(handle).end(false),
  close: (handle) => producers.get(handle).producer.disconnect(),

  read,
  end: (bootstrap, isolation, topic, partition) =>
    withAdmin(bootstrap, async (admin) => {
      const offsets = await admin.fetchTopicOffsets(topic)
      return [offsets.find((one) => one.partition === Number(partition)).high]
    }),
  committed: (bootstrap, group, topic, partition) =>
    withAdmin(bootstrap, async (admin) => {
      const [found] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
      const there = found && found.partitions.find((one) => one.partition === Number(partition))
      return [there ? there.offset : -1]
    }),

  async subscribe(handle, bootstrap, group, topic, reset, _instance, heartbeatMs, sessionMs) {
    const made = new Member(bootstrap, group, heartbeatMs, sessionMs)
    members.set(handle, made)
    await made.start(topic, reset)
  },
  poll: (handle) => members.get(handle).poll(),
  'commit-polled': async (handle) => [await members.get(handle).commit()],
  assigned: (handle) => [members.get(handle).rebalances, ...members.get(handle).partitions],
  leave: (handle) => members.get(handle).leave(),

  create: (bootstrap, topic, partitions, setting, value) =>
    withAdmin(bootstrap, async (admin) => {
      const numPartitions = Number(partitions)
      const configEntries = [{ name: setting, value }]
      await admin.createTopics({ topics: [{ topic, numPartitions, replicationFactor: 1, configEntries }] })
    }),
  topics: (bootstrap) => withAdmin(bootstrap, (admin) => admin.listTopics()),
  partitions: (bootstrap, topic) =>
    withAdmin(bootstrap, async (admin) => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
      return [topics[0].partitions.length]
    }),
  grow: (bootstrap, topic, partitions) =>
    withAdmin(bootstrap, async (admin) => {
      await admin.createPartitions({ topicPartitions: [{ topic, count: Number(partitions) }] })
    }),
  delete: (bootstrap, topic) =>
    withAdmin(bootstrap, async (admin) => {
      await admin.deleteTopics({ topics: [topic] })
    }),
  setting: (bootstrap, topic, setting) =>
    withAdmin(bootstrap, async (admin) => {
      const resources = [{ ...topicSetting(topic), configNames: [setting] }]
      const { resources: described } = await admin.describeConfigs({ includeSynonyms: false, resources })
      return [described[0].configEntries[0].configValue]
    }),
  set: (bootstrap, topic, setting, value) =>
    withAdmin(bootstrap, async (admin) => {
      const resources = [{ ...topicSetting(topic), configEntries: [{ name: setting, value }] }]
      await admin.alterConfigs({ validateOnly: false, resources })
    }),
  'delete-records': (bootstrap, topic, partition, before) =>
    withAdmin(bootstrap, async (admin) => {
      await admin.fetchTopicOffsets(topic) // it deletes records of topics only that it has asked about
      await admin.deleteTopicRecords({ topic, partitions: [{ partition: Number(partition), offset: before }] })
      const offsets = await admin.fetchTopicOffsets(topic)
      return [offsets.find((one) => one.partition === Number(partition)).low]
    }),
  groups: (bootstrap) =>
    withAdmin(bootstrap, async (admin) => (await admin.listGroups()).groups.map((group) => group.groupId)),
  'delete-group': (bootstrap, group) =>
    withAdmin(bootstrap, async (admin) => {
      await admin.deleteGroups([group])
    }),
}

async function answer(command, words) {
  try {
    return ['ok', ...((await commands[command](...words)) ?? [])]
  } catch (error) {
    const cause = error.cause?.type ? error.cause : error
    return ['error', cause.type ?? error.name, error.message]
  }
}

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const [id, command, ...words] = line.split('\t').map(decodeURIComponent)
  process.stdout.write([id, ...(await answer(command, words))].map(encodeURIComponent).join('\t') + '\n')
}).on('close', () => process.exit(0))
