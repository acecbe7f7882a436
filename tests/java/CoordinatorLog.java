import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Prints the records of a coordinator's log as Kafka itself reads them: {@code java CoordinatorLog group|transaction FILE}.
 *
 * One line per record: offset, type of the record, version of its value, key and value as JSON, between tabs; a value that is null prints
 * as version -1 and "null". Kafka's tool for this reads no fields that are younger than itself.
 */
public final class CoordinatorLog {
    private final boolean ofGroups;
    private final CoordinatorRecordSerde serde;
    private final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private CoordinatorLog(boolean ofGroups) {
        this.ofGroups = ofGroups;
        this.serde = ofGroups ? new GroupCoordinatorRecordSerde() : new TransactionCoordinatorRecordSerde();
    }

    public static void main(String[] arguments) throws IOException {
        new CoordinatorLog(arguments[0].equals("group")).print(new File(arguments[1]));
    }

    private void print(File segment) throws IOException {
        try (FileRecords records = FileRecords.open(segment)) {
            for (RecordBatch batch : records.batches()) {
                if (!batch.isControlBatch()) {
                    batch.forEach(this::print);
                }
            }
        }
        out.flush();
    }

    private void print(Record record) {
        CoordinatorRecord parsed = serde.deserialize(record.key(), record.value());
        ApiMessageAndVersion value = parsed.value();
        String json = value == null ? "null" : valueAsJson(value);
        int version = value == null ? -1 : value.version();
        out.println(String.join("\t", record.offset() + "", parsed.key().apiKey() + "", version + "", keyAsJson(parsed.key()), json));
    }

    private String keyAsJson(ApiMessage key) {
        return ofGroups
            ? org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters.writeRecordKeyAsJson(key).toString()
            : org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters.writeRecordKeyAsJson(key).toString();
    }

    private String valueAsJson(ApiMessageAndVersion value) {
        return ofGroups
            ? org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters
                .writeRecordValueAsJson(value.message(), value.version()).toString()
            : org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordJsonConverters
                .writeRecordValueAsJson(value.message(), value.version()).toString();
    }
}
