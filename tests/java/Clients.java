import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Java's own producer and consumer. A question is lines of fields with tabs between them; bytes are hexadecimal, and - is null.
 *
 * "write SERVERS TRANSACTIONAL_ID" is followed by one line for each thing to do: begin, commit, abort, or
 * "send TOPIC PARTITION TIMESTAMP KEY VALUE [NAME VALUE]..." with a header in each of the last pairs. The answer is empty.
 *
 * "read SERVERS ISOLATION_LEVEL TOPIC..." is answered with a line for each record up to the present end of the topics:
 * "TOPIC PARTITION OFFSET TIMESTAMP KEY VALUE [NAME VALUE]...".
 */
public final class Clients {
    private static final HexFormat HEX = HexFormat.of();
    private static final String NULL = "-";

    private Clients() {
    }

    public static void main(String[] arguments) throws Exception {
        Frames.serve(Clients::answer);
    }

    private static byte[] answer(byte[] question) throws Exception {
        List<String[]> lines = new String(question, StandardCharsets.UTF_8).lines().map(line -> line.split("\t", -1)).toList();
        String[] asked = lines.get(0);
        return switch (asked[0]) {
            case "write" -> write(asked[1], asked[2], lines.subList(1, lines.size()));
            case "read" -> read(asked[1], asked[2], Arrays.asList(asked).subList(3, asked.length));
            default -> throw new IllegalArgumentException(asked[0]);
        };
    }

    private static byte[] write(String servers, String transactionalId, List<String[]> steps) throws Exception {
        Map<String, Object> config = new HashMap<>();
        config.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        config.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, 20_000);
        if (!transactionalId.equals(NULL)) {
            config.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, transactionalId);
        }
        List<Future<?>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            if (!transactionalId.equals(NULL)) {
                producer.initTransactions();
            }
            for (String[] step : steps) {
                switch (step[0]) {
                    case "begin" -> producer.beginTransaction();
                    case "commit" -> producer.commitTransaction();
                    case "abort" -> {
                        // Without it the producer drops what it has not sent, and there is nothing to abort.
                        producer.flush();
                        producer.abortTransaction();
                    }
                    default -> sent.add(producer.send(record(step)));
                }
            }
        }
        for (Future<?> each : sent) {
            each.get();
        }
        return new byte[0];
    }

    private static ProducerRecord<byte[], byte[]> record(String[] step) {
        Integer partition = step[2].equals(NULL) ? null : Integer.valueOf(step[2]);
        Long timestamp = step[3].equals(NULL) ? null : Long.valueOf(step[3]);
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(step[1], partition, timestamp, bytes(step[4]), bytes(step[5]));
        for (int at = 6; at < step.length; at += 2) {
            record.headers().add(step[at], bytes(step[at + 1]));
        }
        return record;
    }

    private static byte[] read(String servers, String isolationLevel, List<String> topics) {
        Map<String, Object> config = new HashMap<>();
        config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        config.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, isolationLevel);
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
        config.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, false);
        StringBuilder found = new StringBuilder();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> partitions = topics.stream()
                .flatMap(topic -> consumer.partitionsFor(topic).stream().map(info -> new TopicPartition(topic, info.partition())))
                .toList();
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (partitions.stream().anyMatch(partition -> consumer.position(partition) < ends.get(partition))) {
                consumer.poll(Duration.ofMillis(200)).forEach(record -> found.append(line(record)).append('\n'));
            }
        }
        return found.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static String line(ConsumerRecord<byte[], byte[]> record) {
        List<String> fields = new ArrayList<>(List.of(record.topic(), Integer.toString(record.partition()), Long.toString(record.offset())));
        fields.addAll(List.of(Long.toString(record.timestamp()), text(record.key()), text(record.value())));
        for (Header header : record.headers()) {
            fields.addAll(List.of(header.key(), text(header.value())));
        }
        return String.join("\t", fields);
    }

    private static byte[] bytes(String text) {
        return text.equals(NULL) ? null : HEX.parseHex(text);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? NULL : HEX.formatHex(bytes);
    }
}
