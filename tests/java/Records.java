import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.internals.ByteBufferOutputStream;

/**
 * Reads and writes records with Kafka's own MemoryRecords. The imports are Kafka 4.4's; whoever compiles this for an older one takes
 * "internal" out of the names of packages.
 *
 * "W": the fields of a batch and its records; the answer is the bytes of it. "R": bytes; the answer is JSON of what they hold, after all
 * checksums have been looked at. "A": what a broker that appends the batches sets in them, and the batches; the answer is the batches.
 * "D": a magic, a first offset and batches; the answer is what brokers up to 3.9 send instead to clients that know only this magic.
 */
public final class Records {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int NO_LEVEL = Integer.MIN_VALUE;

    private Records() {
    }

    public static void main(String[] arguments) throws Exception {
        Frames.serve(Records::answer);
    }

    private static byte[] answer(byte[] question) throws Exception {
        DataInputStream input = new DataInputStream(new ByteArrayInputStream(question));
        char kind = (char) input.readByte();
        return switch (kind) {
            case 'W' -> bytesOf(written(input));
            case 'R' -> JSON.writeValueAsBytes(read(readable(input)));
            case 'A' -> bytesOf(appended(input));
            case 'D' -> bytesOf(downConverted(input));
            default -> throw new IllegalArgumentException("no question: " + kind);
        };
    }

    private static MemoryRecords written(DataInputStream input) throws IOException {
        byte magic = input.readByte();
        Compression compression = compression(CompressionType.forId(input.readByte()), input.readInt());
        TimestampType timestampType = timestampType(input);
        long baseOffset = input.readLong();
        long appendTime = input.readLong();
        long producerId = input.readLong();
        short producerEpoch = input.readShort();
        int baseSequence = input.readInt();
        boolean transactional = input.readBoolean();
        boolean control = input.readBoolean();
        int leaderEpoch = input.readInt();
        long deleteHorizon = input.readLong();
        try (MemoryRecordsBuilder builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(1 << 16), magic, compression, timestampType,
                baseOffset, appendTime, producerId, producerEpoch, baseSequence, transactional, control, leaderEpoch, 1 << 20, deleteHorizon)) {
            for (int left = input.readInt(); left > 0; left--) {
                append(builder, input);
            }
            return builder.build();
        }
    }

    private static void append(MemoryRecordsBuilder builder, DataInputStream input) throws IOException {
        long offset = input.readLong();
        SimpleRecord record = new SimpleRecord(input.readLong(), bytes(input), bytes(input), headers(input));
        if (builder.isControlBatch()) {
            builder.appendControlRecordWithOffset(offset, record);
        } else {
            builder.appendWithOffset(offset, record);
        }
    }

    private static Compression compression(CompressionType type, int level) {
        if (level == NO_LEVEL) {
            return Compression.of(type).build();
        }
        return switch (type) {
            case GZIP -> Compression.gzip().level(level).build();
            case LZ4 -> Compression.lz4().level(level).build();
            case ZSTD -> Compression.zstd().level(level).build();
            default -> throw new IllegalArgumentException(type + " has no levels");
        };
    }

    private static TimestampType timestampType(DataInputStream input) throws IOException {
        return switch (input.readByte()) {
            case 0 -> TimestampType.CREATE_TIME;
            case 1 -> TimestampType.LOG_APPEND_TIME;
            default -> TimestampType.NO_TIMESTAMP_TYPE;
        };
    }

    private static byte[] bytes(DataInputStream input) throws IOException {
        int size = input.readInt();
        return size < 0 ? null : input.readNBytes(size);
    }

    private static Header[] headers(DataInputStream input) throws IOException {
        Header[] headers = new Header[input.readInt()];
        for (int at = 0; at < headers.length; at++) {
            headers[at] = new RecordHeader(new String(bytes(input), StandardCharsets.UTF_8), bytes(input));
        }
        return headers;
    }

    private static MemoryRecords readable(DataInputStream input) throws IOException {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(input.readAllBytes()));
    }

    private static ArrayNode read(MemoryRecords records) {
        ArrayNode batches = JSON.createArrayNode();
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            ObjectNode shown = batches.addObject();
            show(batch, shown);
            ArrayNode found = shown.putArray("records");
            for (Record record : batch) {
                record.ensureValid();
                show(record, found.addArray());
            }
        }
        return batches;
    }

    private static void show(RecordBatch batch, ObjectNode shown) {
        shown.put("magic", batch.magic());
        shown.put("base_offset", batch.baseOffset());
        shown.put("last_offset", batch.lastOffset());
        shown.put("next_offset", batch.nextOffset());
        shown.put("records_count", batch.countOrNull());
        shown.put("codec", batch.compressionType().id);
        shown.put("timestamp_type", batch.timestampType().id);
        shown.put("max_timestamp", batch.maxTimestamp());
        shown.put("producer_id", batch.producerId());
        shown.put("producer_epoch", batch.producerEpoch());
        shown.put("base_sequence", batch.baseSequence());
        shown.put("last_sequence", batch.lastSequence());
        shown.put("is_transactional", batch.isTransactional());
        shown.put("is_control", batch.isControlBatch());
        shown.put("partition_leader_epoch", batch.partitionLeaderEpoch());
        shown.put("delete_horizon_ms", batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : null);
        shown.put("crc", batch.checksum());
        shown.put("size_bytes", batch.sizeInBytes());
    }

    private static void show(Record record, ArrayNode shown) {
        shown.add(record.offset()).add(record.timestamp()).add(shownBytes(record.key())).add(shownBytes(record.value()));
        ArrayNode headers = shown.addArray();
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
    }

    private static byte[] shownBytes(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    private static MemoryRecords appended(DataInputStream input) throws IOException {
        long offset = input.readLong();
        int leaderEpoch = input.readInt();
        TimestampType timestampType = timestampType(input);
        long appendTime = input.readLong();
        MemoryRecords records = readable(input);
        for (MutableRecordBatch batch : records.batches()) {
            batch.setLastOffset(offset + batch.lastOffset() - batch.baseOffset());
            if (batch.magic() >= RecordBatch.MAGIC_VALUE_V2) {
                batch.setPartitionLeaderEpoch(leaderEpoch);
            }
            if (timestampType == TimestampType.LOG_APPEND_TIME) {
                batch.setMaxTimestamp(timestampType, appendTime);
            }
            offset = batch.nextOffset();
        }
        return records;
    }

    /** By reflection, because Kafka 4 has neither the method nor its result. */
    private static MemoryRecords downConverted(DataInputStream input) throws Exception {
        byte magic = input.readByte();
        long firstOffset = input.readLong();
        Class<?> time = Class.forName("org.apache.kafka.common.utils.Time");
        Method convert = MemoryRecords.class.getMethod("downConvert", byte.class, long.class, time);
        try {
            Object converted = convert.invoke(readable(input), magic, firstOffset, time.getField("SYSTEM").get(null));
            return (MemoryRecords) converted.getClass().getMethod("records").invoke(converted);
        } catch (InvocationTargetException fault) {
            throw (Exception) fault.getCause();
        }
    }

    private static byte[] bytesOf(MemoryRecords records) {
        return shownBytes(records.buffer());
    }
}
