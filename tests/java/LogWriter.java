import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes, with Java's own clients, logs that hold every kind of record batch. A question is "SERVERS PROTOCOL ...".
 *
 * The topics exist already; each PROTOCOL is a group protocol ("classic", "consumer") with which one group commits. Keys and values are
 * text of one line, because the tool that prints a log prints them as they are.
 */
public final class LogWriter {
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    private static final List<String> TOPICS = List.of("plain", "stamped", "recompressed");
    private static final int PARTITIONS = 3;
    private static final int RECORDS = 40;
    private static final long EPOCH_2020_MS = 1_577_836_800_000L;

    private final String servers;
    private final Random random = new Random(2026);

    private LogWriter(String servers) {
        this.servers = servers;
    }

    public static void main(String[] arguments) throws Exception {
        Frames.serve(LogWriter::answer);
    }

    private static byte[] answer(byte[] question) throws Exception {
        String[] asked = new String(question, StandardCharsets.UTF_8).split(" ");
        LogWriter writer = new LogWriter(asked[0]);
        for (String codec : CODECS) {
            writer.writeEveryWay(codec);
        }
        writer.writeToBeCompacted();
        for (int at = 1; at < asked.length; at++) {
            writer.commitAsGroup(asked[at]);
        }
        return new byte[0];
    }

    private void writeEveryWay(String codec) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(codec, Map.of(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, false))) {
            writeBatches(producer);
        }
        try (KafkaProducer<byte[], byte[]> producer = producer(codec, Map.of())) {
            writeBatches(producer);
        }
        try (KafkaProducer<byte[], byte[]> producer = producer(codec, Map.of(ProducerConfig.TRANSACTIONAL_ID_CONFIG, "writer-" + codec))) {
            writeTransactions(producer, codec);
        }
    }

    private void writeTransactions(KafkaProducer<byte[], byte[]> producer, String codec) throws Exception {
        producer.initTransactions();
        producer.beginTransaction();
        writeBatches(producer);
        producer.abortTransaction();
        producer.beginTransaction();
        writeBatches(producer);
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(new TopicPartition("plain", 1), new OffsetAndMetadata(7, "of " + codec));
        producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata("in-transactions"));
        producer.commitTransaction();
    }

    /** Two batches at least for every partition of every topic. */
    private void writeBatches(KafkaProducer<byte[], byte[]> producer) {
        for (int round = 0; round < 2; round++) {
            for (String topic : TOPICS) {
                for (int number = 0; number < RECORDS; number++) {
                    producer.send(anyRecord(topic, number % PARTITIONS));
                }
            }
            producer.flush();
        }
    }

    /** Null keys and values, empty ones, headers of every kind, timestamps that go back. */
    private ProducerRecord<byte[], byte[]> anyRecord(String topic, int partition) {
        byte[] key = random.nextInt(4) == 0 ? null : text(random.nextInt(12));
        byte[] value = random.nextInt(8) == 0 ? null : text(random.nextInt(10) == 0 ? 3000 : random.nextInt(60));
        Long timestamp = random.nextInt(3) == 0 ? null : Long.valueOf(EPOCH_2020_MS + random.nextInt(1_000_000));
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, partition, timestamp, key, value);
        for (int count = random.nextInt(4) - 1; count > 0; count--) {
            record.headers().add(List.of("a", "b", "schlüssel ✓", "").get(random.nextInt(4)), random.nextInt(3) == 0 ? null : text(5));
        }
        return record;
    }

    private byte[] text(int length) {
        StringBuilder text = new StringBuilder();
        while (text.length() < length) {
            text.append(List.of("kafka", "größe", "x", "7", "≈").get(random.nextInt(5)));
        }
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    /**
     * Compaction finds: a producer's last batch of which a later producer replaced every key, and so an empty batch; batches with some of
     * their records replaced; tombstones and markers, and so delete horizons; a transaction that was aborted.
     */
    private void writeToBeCompacted() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer("lz4", Map.of())) {
            writeKeys(producer, 0, 10, false);
            writeKeys(producer, 0, 5, false);
        }
        try (KafkaProducer<byte[], byte[]> producer = producer("none", Map.of(ProducerConfig.TRANSACTIONAL_ID_CONFIG, "compacted"))) {
            producer.initTransactions();
            producer.beginTransaction();
            writeKeys(producer, 0, 5, false);
            producer.abortTransaction();
            producer.beginTransaction();
            writeKeys(producer, 0, 8, false);
            producer.commitTransaction();
        }
        try (KafkaProducer<byte[], byte[]> producer = producer("zstd", Map.of())) {
            writeKeys(producer, 3, 6, true);
            writeKeys(producer, 20, 25, false);
        }
        // Longer than segment.ms, so that the next records begin a segment and all before them can be compacted.
        Thread.sleep(300);
        try (KafkaProducer<byte[], byte[]> producer = producer("gzip", Map.of())) {
            writeKeys(producer, 30, 32, false);
        }
    }

    private void writeKeys(KafkaProducer<byte[], byte[]> producer, int from, int to, boolean tombstones) {
        for (int number = from; number < to; number++) {
            byte[] key = ("key-" + number).getBytes(StandardCharsets.UTF_8);
            producer.send(new ProducerRecord<>("compacted", 0, key, tombstones ? null : text(20)));
        }
        producer.flush();
    }

    private KafkaProducer<byte[], byte[]> producer(String codec, Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(more);
        config.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        config.put(ProducerConfig.COMPRESSION_TYPE_CONFIG, codec);
        config.put(ProducerConfig.LINGER_MS_CONFIG, 1000);
        config.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, 20_000);
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private void commitAsGroup(String protocol) {
        Map<String, Object> config = new HashMap<>();
        config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        config.put(ConsumerConfig.GROUP_ID_CONFIG, "group-" + protocol);
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        config.put("group.protocol", protocol);
        int read = 0;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(new ArrayList<>(TOPICS));
            long deadline = System.currentTimeMillis() + 20_000;
            while (read == 0 && System.currentTimeMillis() < deadline) {
                read += consumer.poll(Duration.ofMillis(200)).count();
            }
            consumer.commitSync();
        }
        if (read == 0) {
            throw new IllegalStateException("a group of protocol " + protocol + " read nothing");
        }
    }
}
