"""The results of send() and send_arrow(): Delivery, ArrowDelivery, AckBuffer sequences, and failures that the program has not read."""
