import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads and writes messages with the classes that Kafka generates for itself.
 *
 * "L" and a JSON list of classes asks which versions these have, and which APIs there are. "J" and jobs asks for a message each: it is
 * made from bytes ("B") or JSON ("J") of one version, and answered as JSON of this version and as bytes of another, which may have the
 * version ("V") or the record type ("T") in front.
 */
public final class Messages {
    // Infinity stands there as it does in Python's JSON.
    private static final ObjectMapper JSON = JsonMapper.builder()
        .enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
        .disable(JsonWriteFeature.WRITE_NAN_AS_STRINGS)
        .build();
    private static final Map<String, Methods> METHODS = new HashMap<>();

    private record Methods(Class<?> message, Method read, Method write) {
        static Methods of(String name) {
            try {
                Class<?> message = Class.forName(name);
                Class<?> converter = Class.forName(name + "JsonConverter");
                Method read = converter.getMethod("read", JsonNode.class, short.class);
                return new Methods(message, read, converter.getMethod("write", message, short.class, boolean.class));
            } catch (ReflectiveOperationException fault) {
                throw new IllegalArgumentException(name + " is no message", fault);
            }
        }
    }

    private record Job(Methods methods, char from, short fromVersion, char to, short toVersion, byte[] data) {
        static Job parse(DataInputStream input) throws IOException {
            Methods methods = METHODS.computeIfAbsent(input.readUTF(), Methods::of);
            char from = (char) input.readByte();
            short fromVersion = input.readShort();
            char to = (char) input.readByte();
            short toVersion = input.readShort();
            return new Job(methods, from, fromVersion, to, toVersion, input.readNBytes(input.readInt()));
        }
    }

    private Messages() {
    }

    public static void main(String[] arguments) throws Exception {
        Frames.serve(Messages::answer);
    }

    private static byte[] answer(byte[] question) throws Exception {
        DataInputStream input = new DataInputStream(new ByteArrayInputStream(question));
        return input.readByte() == 'L' ? JSON.writeValueAsBytes(known(JSON.readTree(input.readAllBytes()))) : done(input);
    }

    private static ObjectNode known(JsonNode classes) throws Exception {
        ObjectNode known = JSON.createObjectNode();
        ArrayNode apis = known.putArray("apis");
        for (ApiMessageType type : ApiMessageType.values()) {
            // Of an API that Kafka has dropped only the name is left.
            if (type.lowestSupportedVersion() <= type.highestSupportedVersion(true)) {
                describe(type, apis.addObject());
            }
        }
        ObjectNode versions = known.putObject("versions");
        for (JsonNode name : classes) {
            Message message = newMessage(Class.forName(name.asText()));
            versions.putArray(name.asText()).add(message.lowestSupportedVersion()).add(message.highestSupportedVersion());
        }
        return known;
    }

    private static void describe(ApiMessageType type, ObjectNode api) {
        api.put("key", type.apiKey());
        api.put("request", type.newRequest().getClass().getName());
        api.put("response", type.newResponse().getClass().getName());
        ObjectNode headers = api.putObject("headers");
        for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(true); version++) {
            headers.putArray(String.valueOf(version)).add(type.requestHeaderVersion(version)).add(type.responseHeaderVersion(version));
        }
    }

    private static byte[] done(DataInputStream input) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream output = new DataOutputStream(bytes);
        for (int left = input.readInt(); left > 0; left--) {
            Job job = Job.parse(input);
            try {
                done(job, output);
            } catch (InvocationTargetException fault) {
                refuse(fault.getCause(), output);
            } catch (RuntimeException fault) {
                refuse(fault, output);
            }
        }
        return bytes.toByteArray();
    }

    private static void done(Job job, DataOutputStream output) throws Exception {
        Message message = job.from == 'B' ? read(job) : (Message) job.methods.read.invoke(null, JSON.readTree(job.data), job.fromVersion);
        byte[] json = JSON.writeValueAsBytes((JsonNode) job.methods.write.invoke(null, message, job.fromVersion, true));
        byte[] written = written(message, job);
        output.writeByte(0);
        output.writeInt(json.length);
        output.write(json);
        output.writeInt(written.length);
        output.write(written);
    }

    private static void refuse(Throwable fault, DataOutputStream output) throws IOException {
        byte[] text = (fault.getClass().getName() + "\n" + fault.getMessage()).getBytes(java.nio.charset.StandardCharsets.UTF_8);
        output.writeByte(1);
        output.writeInt(text.length);
        output.write(text);
    }

    private static Message read(Job job) throws Exception {
        Message message = newMessage(job.methods.message);
        ByteBuffer buffer = ByteBuffer.wrap(job.data);
        message.read(new ByteBufferAccessor(buffer), job.fromVersion);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes are left over");
        }
        return message;
    }

    private static byte[] written(Message message, Job job) throws Exception {
        return switch (job.to) {
            case 'V' -> MessageUtil.toVersionPrefixedBytes(job.toVersion, message);
            // Not there in the jars of Kafka 3.9.
            case 'T' -> (byte[]) MessageUtil.class.getMethod("toCoordinatorTypePrefixedBytes", ApiMessage.class).invoke(null, message);
            default -> plain(message, job.toVersion);
        };
    }

    private static byte[] plain(Message message, short version) {
        ObjectSerializationCache sizes = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(sizes, version));
        message.write(new ByteBufferAccessor(buffer), sizes, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes fewer than announced");
        }
        return buffer.array();
    }

    private static Message newMessage(Class<?> type) throws ReflectiveOperationException {
        return (Message) type.getConstructor().newInstance();
    }
}
