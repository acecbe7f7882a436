import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * What consume_members.py does, with Java's consumer. A question is "TOPIC MEMBERS PARTITIONS ROUNDS" with tabs, then a line
 * "NAME VALUE" with a tab for each setting; the answer is three lines: how long forming took, then every join, then every leave, in
 * milliseconds with spaces between them.
 */
public final class GroupMembers {
    private static final long TIMEOUT_MS = 60_000;
    private static final Duration POLL = Duration.ofMillis(500);

    private final Map<Member, Set<Integer>> owned = new HashMap<>();
    private final int partitions;
    private long lastChange;

    private GroupMembers(int partitions) {
        this.partitions = partitions;
    }

    public static void main(String[] arguments) throws Exception {
        Frames.serve(GroupMembers::answer);
    }

    private static byte[] answer(byte[] question) throws Exception {
        List<String[]> lines = new String(question, StandardCharsets.UTF_8).lines().map(line -> line.split("\t", -1)).toList();
        String[] asked = lines.get(0);
        Map<String, Object> settings = new TreeMap<>();
        lines.subList(1, lines.size()).forEach(line -> settings.put(line[0], line[1]));
        GroupMembers group = new GroupMembers(Integer.parseInt(asked[2]));
        return group.run(asked[0], Integer.parseInt(asked[1]), Integer.parseInt(asked[3]), settings).getBytes(StandardCharsets.UTF_8);
    }

    private String run(String topic, int members, int rounds, Map<String, Object> settings) throws Exception {
        List<Member> all = new ArrayList<>();
        StringBuilder joins = new StringBuilder();
        StringBuilder leaves = new StringBuilder();
        double form = started(topic, members, settings, all);
        for (int round = 0; round < rounds; round++) {
            List<Member> newcomer = new ArrayList<>();
            joins.append(started(topic, 1, settings, newcomer)).append(' ');
            long since = newcomer.get(0).close();
            leaves.append(millis(settled() - since)).append(' ');
        }
        all.forEach(member -> member.stopping = true);
        for (Member member : all) {
            member.close();
        }
        return form + "\n" + joins + "\n" + leaves;
    }

    private double started(String topic, int count, Map<String, Object> settings, List<Member> into) throws Exception {
        for (int number = 0; number < count; number++) {
            into.add(new Member(topic, settings));
        }
        long since = System.nanoTime();
        into.forEach(Thread::start);
        return millis(settled() - since);
    }

    private static double millis(long nanos) {
        return nanos / 1e6;
    }

    private synchronized void change(Member member, Runnable change) {
        if (owned.containsKey(member)) {
            change.run();
            lastChange = System.nanoTime();
            notifyAll();
        }
    }

    /** Wait until every partition is owned once and everybody has a fair share; return since when. */
    private synchronized long settled() throws Exception {
        long deadline = System.currentTimeMillis() + TIMEOUT_MS;
        while (!isSettled()) {
            long left = deadline - System.currentTimeMillis();
            if (left <= 0) {
                throw new IllegalStateException("the group did not settle: " + owned.values());
            }
            wait(left);
        }
        return lastChange;
    }

    private boolean isSettled() {
        Set<Integer> all = new HashSet<>();
        int sum = 0;
        int most = 0;
        int least = Integer.MAX_VALUE;
        for (Set<Integer> each : owned.values()) {
            all.addAll(each);
            sum += each.size();
            most = Math.max(most, each.size());
            least = Math.min(least, each.size());
        }
        return most - least <= 1 && sum == partitions && all.size() == partitions;
    }

    private final class Member extends Thread implements ConsumerRebalanceListener {
        private final String topic;
        private final Map<String, Object> settings;
        private volatile boolean stopping;
        private volatile long closingSince;

        Member(String topic, Map<String, Object> settings) {
            setDaemon(true);
            this.topic = topic;
            this.settings = settings;
            synchronized (GroupMembers.this) {
                owned.put(this, new HashSet<>());
            }
        }

        @Override
        public void run() {
            try (KafkaConsumer<byte[], byte[]> consumer =
                    new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer.subscribe(List.of(topic), this);
                while (!stopping) {
                    consumer.poll(POLL);
                }
                synchronized (GroupMembers.this) {
                    owned.remove(this);
                }
                closingSince = System.nanoTime();
            }
        }

        long close() throws InterruptedException {
            stopping = true;
            join(TIMEOUT_MS);
            return closingSince;
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            change(this, () -> assigned.forEach(each -> owned.get(this).add(each.partition())));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            change(this, () -> revoked.forEach(each -> owned.get(this).remove(each.partition())));
        }
    }
}
