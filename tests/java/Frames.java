import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Answers questions from standard input on standard output, each with its size (int32) in front; an answer's first byte is 0, or 1 when
 * the name of an exception and its message follow. Questions are read on a thread of their own, so that the process ends with the
 * one that asks even in the middle of an answer.
 */
final class Frames {
    interface Program {
        byte[] answer(byte[] question) throws Exception;
    }

    private static final int ANSWER = 0;
    private static final int FAULT = 1;

    private Frames() {
    }

    static void serve(Program program) throws Exception {
        // What a library prints must not get between the answers.
        System.setOut(System.err);
        DataOutputStream output = new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        BlockingQueue<byte[]> questions = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> read(questions));
        reader.setDaemon(true);
        reader.start();
        while (true) {
            answer(program, questions.take(), output);
        }
    }

    private static void read(BlockingQueue<byte[]> questions) {
        try (DataInputStream input = new DataInputStream(new BufferedInputStream(new FileInputStream(FileDescriptor.in)))) {
            while (true) {
                byte[] question = new byte[input.readInt()];
                input.readFully(question);
                questions.add(question);
            }
        } catch (EOFException nobodyAsksAnyMore) {
            Runtime.getRuntime().halt(0);
        } catch (Throwable fault) {
            fault.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void answer(Program program, byte[] question, DataOutputStream output) throws IOException {
        try {
            write(output, ANSWER, program.answer(question));
        } catch (Exception | LinkageError | OutOfMemoryError fault) {
            write(output, FAULT, (fault.getClass().getName() + "\n" + fault.getMessage()).getBytes(StandardCharsets.UTF_8));
        }
    }

    private static void write(DataOutputStream output, int kind, byte[] answer) throws IOException {
        byte[] frame = new byte[5 + answer.length];
        java.nio.ByteBuffer.wrap(frame).putInt(1 + answer.length).put((byte) kind).put(answer);
        output.write(frame);
    }
}
