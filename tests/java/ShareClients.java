import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Java's own share consumer. A question is a line of fields with tabs between them; bytes are hexadecimal.
 *
 * "open NAME SERVERS GROUP TOPIC" makes one, and "close NAME" closes it. "metrics NAME" is answered with a line for each metric: "GROUP NAME".
 * "poll NAME MILLISECONDS" is answered with a line for each record: "PARTITION OFFSET DELIVERY_COUNT VALUE". Each is accepted, and the answer
 * waits until the brokers have taken that.
 */
public final class ShareClients {
    private static final HexFormat HEX = HexFormat.of();
    private static final Map<String, KafkaShareConsumer<byte[], byte[]>> OPEN = new HashMap<>();

    private ShareClients() {
    }

    public static void main(String[] arguments) throws Exception {
        Frames.serve(ShareClients::answer);
    }

    private static byte[] answer(byte[] question) {
        String[] asked = new String(question, StandardCharsets.UTF_8).split("\t", -1);
        StringBuilder found = new StringBuilder();
        switch (asked[0]) {
            case "open" -> OPEN.put(asked[1], open(asked[2], asked[3], asked[4]));
            case "poll" -> poll(OPEN.get(asked[1]), Duration.ofMillis(Long.parseLong(asked[2])), found);
            case "metrics" -> OPEN.get(asked[1]).metrics().keySet().forEach(
                metric -> found.append(metric.group()).append('\t').append(metric.name()).append('\n'));
            case "close" -> OPEN.remove(asked[1]).close();
            default -> throw new IllegalArgumentException(asked[0]);
        }
        return found.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static KafkaShareConsumer<byte[], byte[]> open(String servers, String group, String topic) {
        Map<String, Object> config = new HashMap<>();
        config.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        config.put(ConsumerConfig.GROUP_ID_CONFIG, group);
        config.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 10);
        config.put("share.acknowledgement.mode", "explicit");
        KafkaShareConsumer<byte[], byte[]> consumer =
            new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private static void poll(KafkaShareConsumer<byte[], byte[]> consumer, Duration timeout, StringBuilder found) {
        consumer.poll(timeout).forEach(record -> {
            consumer.acknowledge(record);
            found.append(record.partition()).append('\t').append(record.offset()).append('\t').append(record.deliveryCount().orElse((short) 0))
                .append('\t').append(HEX.formatHex(record.value())).append('\n');
        });
        consumer.commitSync().forEach((partition, failure) -> failure.ifPresent(error -> {
            throw error;
        }));
    }
}
