import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/**
 * Runs kafka-consumer-groups. A question is its arguments, one per line; the answer is what it printed. Where it ended with another
 * status than 0, that is an exception with what it printed.
 */
public final class GroupTool {
    private static final class Ended extends RuntimeException {
        private static final long serialVersionUID = 1;
        private final int status;

        Ended(int status, String message) {
            super(message);
            this.status = status;
        }
    }

    private GroupTool() {
    }

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((status, message) -> {
            throw new Ended(status, message);
        });
        Frames.serve(question -> run(new String(question, StandardCharsets.UTF_8).split("\n")));
    }

    private static byte[] run(String[] arguments) throws Exception {
        PrintStream before = System.out;
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            ConsumerGroupCommand.main(arguments);
        } catch (Ended ended) {
            if (ended.status != 0) {
                throw new IllegalStateException(ended.getMessage() + "\n" + printed.toString(StandardCharsets.UTF_8));
            }
        } finally {
            System.setOut(before);
        }
        return printed.toByteArray();
    }
}
