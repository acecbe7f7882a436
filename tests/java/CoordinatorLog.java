import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Reads the records of a coordinator's log as Kafka itself does. A question is "group", "transaction" or "share", a tab, and a file.
 *
 * The answer has one line per record: offset, type of the record, version of its value, key and value as JSON, between tabs; a value that
 * is null has version -1 and is "null". Kafka's tool for this knows no fields that are younger than itself.
 */
public final class CoordinatorLog {
    private final String kind;
    private final CoordinatorRecordSerde serde;

    private CoordinatorLog(String kind) {
        this.kind = kind;
        this.serde = switch (kind) {
            case "group" -> new GroupCoordinatorRecordSerde();
            case "transaction" -> new TransactionCoordinatorRecordSerde();
            case "share" -> new ShareCoordinatorRecordSerde();
            default -> throw new IllegalArgumentException(kind);
        };
    }

    public static void main(String[] arguments) throws Exception {
        Frames.serve(CoordinatorLog::answer);
    }

    private static byte[] answer(byte[] question) throws IOException {
        String[] asked = new String(question, StandardCharsets.UTF_8).split("\t");
        return new CoordinatorLog(asked[0]).lines(new File(asked[1])).getBytes(StandardCharsets.UTF_8);
    }

    private String lines(File segment) throws IOException {
        StringBuilder lines = new StringBuilder();
        try (FileRecords records = FileRecords.open(segment)) {
            for (RecordBatch batch : records.batches()) {
                if (!batch.isControlBatch()) {
                    batch.forEach(record -> lines.append(line(record)).append('\n'));
                }
            }
        }
        return lines.toString();
    }

    private String line(Record record) {
        CoordinatorRecord parsed = serde.deserialize(record.key(), record.value());
        ApiMessageAndVersion value = parsed.value();
        String json = value == null ? "null" : valueAsJson(value);
        int version = value == null ? -1 : value.version();
        return String.join("\t", record.offset() + "", parsed.key().apiKey() + "", version + "", keyAsJson(parsed.key()), json);
    }

    private String keyAsJson(ApiMessage key) {
        return (switch (kind) {
            case "group" -> org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters.writeRecordKeyAsJson(key);
            case "transaction" ->
                org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters.writeRecordKeyAsJson(key);
            default -> org.apache.kafka.coordinator.share.generated.CoordinatorRecordJsonConverters.writeRecordKeyAsJson(key);
        }).toString();
    }

    private String valueAsJson(ApiMessageAndVersion value) {
        ApiMessage message = value.message();
        return (switch (kind) {
            case "group" -> org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters
                .writeRecordValueAsJson(message, value.version());
            case "transaction" -> org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters
                .writeRecordValueAsJson(message, value.version());
            default -> org.apache.kafka.coordinator.share.generated.CoordinatorRecordJsonConverters
                .writeRecordValueAsJson(message, value.version());
        }).toString();
    }
}
