import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;

/**
 * A plugin for metric.reporters that takes the metrics of clients (KIP-714). Each push is read and written again with the classes of
 * OpenTelemetry, into a file of the folder `telemetry.folder`: number~client id~client instance id~last or more.
 */
public final class TelemetryPlugin implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    private static final AtomicInteger NUMBERS = new AtomicInteger();
    private Path folder;

    @Override
    public void configure(Map<String, ?> configs) {
        folder = Path.of(String.valueOf(configs.get("telemetry.folder")));
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return this;
    }

    @Override
    public void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        try {
            ByteBuffer data = payload.data();
            byte[] written = MetricsData.parseFrom(data).toByteArray();
            String whose = context.clientId() + "~" + payload.clientInstanceId() + "~" + (payload.isTerminating() ? "last" : "more");
            String name = String.format("%06d~%s", NUMBERS.incrementAndGet(), whose);
            Path unfinished = Files.write(folder.resolve("." + name), written);
            Files.move(unfinished, folder.resolve(name), StandardCopyOption.ATOMIC_MOVE);
        } catch (Exception error) {
            throw new IllegalArgumentException(error);
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void close() {}
}
