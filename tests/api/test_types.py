"""What type checkers know of the APIs.

`make lint` has mypy read this module: an assert_type that does not hold is an error, and so is a `type: ignore` where nothing is wrong. The
functions under TYPE_CHECKING never run.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, assert_type, get_args

import pytest

import levada as lv
from levada import aio
from levada.protocol.api import APIS

if TYPE_CHECKING:
    from levada.protocol.messages.metadata import MetadataRequest, MetadataResponse
    from levada.protocol.messages.produce import ProduceRequest, ProduceResponse
    from levada.protocol.schema import Request
    from levada.registry import AvroDeserializer, AvroSerializer, JSONDeserializer, JSONSerializer, SchemaRegistryClient
    from levada.serialization import json_of

    class Order: ...

    class Refund: ...

    def settings_have_names_and_types() -> None:
        lv.KafkaProducer(bootstrap_servers=["a:9092", ("b", 9092)], linger_ms=5, acks="all", compression_type="lz4")
        lv.KafkaProducer({"linger.ms": "5", "bootstrap.servers": "a:9092"}, client_id="dotted names and text come in a mapping")
        lv.KafkaProducer(linger_millis=5)  # type: ignore[call-arg]
        lv.KafkaProducer(linger_ms="5")  # type: ignore[arg-type]
        lv.KafkaProducer(compression_type="brotli")  # type: ignore[arg-type]
        lv.KafkaProducer(max_poll_records=5)  # type: ignore[call-arg]
        lv.KafkaConsumer(auto_offset_reset="earliest", max_poll_records=5, on_reset=print)
        lv.KafkaConsumer(isolation_level="newest")  # type: ignore[arg-type]
        lv.KafkaConsumer(linger_ms=5)  # type: ignore[call-arg]
        lv.scan("orders", start="earliest", fetch_max_bytes=5)
        lv.scan("orders", fetch_max_byte=5)  # type: ignore[call-arg]
        lv.KafkaAdmin(retries=5)
        lv.KafkaClient(retries=5)  # type: ignore[call-arg]

    def an_administrators_calls_have_the_arguments_and_results_of_their_operations(admin: lv.KafkaAdmin) -> None:
        assert_type(admin.create_topics([lv.NewTopic("orders")], timeout=5), dict[str, lv.CreatedTopic])
        assert_type(admin.list_offsets({}), dict[lv.TopicPartition, lv.OffsetAndTimestamp | None])
        assert_type(admin.outcomes(admin.describe_topics, ["orders"]), dict[str, lv.TopicDescription | lv.KafkaError])
        admin.create_topics("orders", timout=5)  # type: ignore[arg-type]
        admin.describe_topics(["orders"], timout=5)  # type: ignore[call-arg]
        admin.outcomes(admin.describe_topics, names=5)  # type: ignore[arg-type]

    async def an_administrators_calls_have_types_on_asyncio(admin: aio.KafkaAdmin) -> None:
        assert_type(await admin.describe_cluster(), lv.ClusterDescription)
        assert_type(await admin.outcomes(admin.delete_topics, ["orders"]), dict[str, lv.KafkaError | None])
        await admin.delete_topics(5)  # type: ignore[arg-type]

    async def settings_have_names_and_types_on_asyncio() -> None:
        aio.KafkaProducer(linger_ms=5)
        aio.KafkaProducer(linger_millis=5)  # type: ignore[call-arg]
        aio.KafkaConsumer(max_poll_records="5")  # type: ignore[arg-type]
        aio.scan("orders", fetch_max_byte=5)  # type: ignore[call-arg]
        aio.KafkaAdmin(retries=5)
        aio.KafkaClient(retries=5)  # type: ignore[call-arg]

    def to_text(order: Order) -> bytes: ...
    def from_text(text: bytes) -> Order: ...

    def records_to_be_acknowledged_have_the_types_of_the_deserializers() -> None:
        consumer = lv.KafkaConsumer(key_deserializer=str, value_deserializer=from_text)
        for record in consumer.acks(lanes=5, ordering="key"):
            assert_type(record, lv.AckRecord[str, Order])
            assert_type(record.value, Order | None)
        consumer.process(lambda record: assert_type(record, lv.AckRecord[str, Order]).ack())
        consumer.process(print, executor="threads")  # type: ignore[arg-type]
        consumer.acks(ordering="keys")  # type: ignore[arg-type]

    async def records_to_be_acknowledged_have_types_on_asyncio() -> None:
        consumer = aio.KafkaConsumer(value_deserializer=from_text)
        async for record in consumer.acks():
            assert_type(record, lv.AckRecord[bytes, Order])

    def a_producer_takes_what_its_serializers_take() -> None:
        orders = lv.KafkaProducer(key_serializer=str.encode, value_serializer=to_text)
        assert_type(orders, lv.KafkaProducer[str, Order])
        orders.send("orders", Order(), "key")
        orders.send("orders", partition=1)
        orders.send_many("orders", [Order(), ("key", Order()), (None, None, {"trace": b"1"})])
        orders.send_many("orders", [b"text"])  # type: ignore[list-item]
        orders.send("orders", b"text")  # type: ignore[arg-type]
        orders.send("orders", Order(), 5)  # type: ignore[arg-type]
        orders.send("orders", Order(), timestamp_ms=5)  # type: ignore[arg-type]
        lv.KafkaProducer(value_serializer=lambda order: json.dumps(order)).send("orders", {"id": 5}, "key")
        plain: lv.KafkaProducer[str, bytes] = lv.KafkaProducer(linger_ms=5)
        plain.send("orders", 5)  # type: ignore[arg-type]
        plain = lv.KafkaProducer[Any, bytes | str]()
        with lv.KafkaProducer(value_serializer=to_text) as producer:
            assert_type(producer, lv.KafkaProducer[Any, Order])

    def an_ack_is_a_buffer_and_a_sequence() -> None:
        buffer = lv.AckBuffer(5)
        lv.KafkaProducer().send("orders", ack=(buffer, buffer.put(1)))
        lv.KafkaProducer().send("orders", ack=(aio.AckBuffer(5), 0))
        lv.KafkaProducer().send_many("orders", ["a", "b"], ack=(buffer, 0))
        lv.KafkaProducer().send("orders", ack=buffer.put(1))  # type: ignore[arg-type]

    def a_consumer_hands_out_what_its_deserializers_return() -> None:
        for record in lv.KafkaConsumer():
            assert_type(record, lv.ConsumerRecord[bytes, bytes])
            assert_type(record.key, bytes | None)
        with lv.KafkaConsumer(key_deserializer=bytes.decode, value_deserializer=from_text) as consumer:
            assert_type(consumer.poll(), lv.ConsumerRecords[str, Order])
            assert_type(consumer.poll()[0].value, Order | None)
        assert_type(lv.KafkaConsumer(value_deserializer=lambda text: int(text)), lv.KafkaConsumer[bytes, int])
        mapped: lv.KafkaConsumer[str, Order] = lv.KafkaConsumer({"key.deserializer": bytes.decode, "value.deserializer": from_text})
        assert_type(mapped.poll()[0].key, str | None)
        for read in lv.scan("orders", value_deserializer=from_text):
            assert_type(read.value, Order | None)

    def a_model_is_the_type_of_the_records(registry: SchemaRegistryClient) -> None:
        to_json, from_json = json_of(Order)
        producer = lv.KafkaProducer(value_serializer=to_json)
        producer.send("orders", Order())
        producer.send("orders", b"text")  # type: ignore[arg-type]
        assert_type(lv.KafkaConsumer(value_deserializer=from_json), lv.KafkaConsumer[bytes, Order])
        for write in (AvroSerializer(registry, model=Order), JSONSerializer(registry, model=Order)):
            lv.KafkaProducer(value_serializer=write).send("orders", Order())
            lv.KafkaProducer(value_serializer=write).send("orders", b"text")  # type: ignore[arg-type]
        for record in lv.KafkaConsumer(value_deserializer=AvroDeserializer(registry, model=Order)):
            assert_type(record.value, Order | None)
        assert_type(lv.KafkaConsumer(value_deserializer=JSONDeserializer(model=Order)), lv.KafkaConsumer[bytes, Order])
        assert_type(aio.KafkaConsumer(value_deserializer=from_json), aio.KafkaConsumer[bytes, Order])
        assert_type(
            lv.KafkaConsumer(value_deserializer=AvroDeserializer(registry, model=Order | Refund)).poll()[0].value, Order | Refund | None
        )
        assert_type(json_of(list[Order])[1](b""), list[Order])
        assert_type(AvroDeserializer(registry, from_dict=lambda found: Order()), AvroDeserializer[Order])
        assert_type(AvroDeserializer(registry), AvroDeserializer[Any])

    def what_is_committed_is_records_or_offsets() -> None:
        with lv.KafkaConsumer(value_deserializer=from_text) as consumer, lv.KafkaProducer().transaction() as txn:
            records, tp = consumer.poll(), lv.TopicPartition("orders", 0)
            consumer.commit(records)
            consumer.commit(records[:2])
            consumer.commit(records[0])
            consumer.commit(record for record in records)
            consumer.commit({tp: 5, lv.TopicPartition("orders", 1): lv.OffsetAndMetadata(5)})
            consumer.commit_async({tp: 5})
            consumer.commit([tp])  # type: ignore[list-item]
            consumer.commit("orders")  # type: ignore[arg-type]
            txn.send_offsets(consumer, records[:2])
            txn.send_offsets(consumer, {tp: 5})  # type: ignore[arg-type]

    def a_share_consumer_hands_out_how_often_a_record_was_delivered() -> None:
        with lv.KafkaShareConsumer(value_deserializer=from_text, share_acknowledgement_mode="explicit") as consumer:
            assert_type(consumer.poll(), lv.ShareRecords[bytes, Order])
            for record in consumer:
                assert_type(record, lv.ShareRecord[bytes, Order])
                assert_type(record.delivery_count, int)
                consumer.acknowledge(record)
        lv.KafkaShareConsumer(share_acknowledgement_mode="manual")  # type: ignore[arg-type]
        lv.KafkaShareConsumer(auto_offset_reset="earliest")  # type: ignore[call-arg]

    async def asyncio_does_so_too() -> None:
        orders = aio.KafkaProducer(key_serializer=str.encode, value_serializer=to_text)
        assert_type(orders, aio.KafkaProducer[str, Order])
        await orders.send("orders", b"text")  # type: ignore[arg-type]
        async with aio.KafkaConsumer(value_deserializer=from_text) as consumer:
            assert_type(await consumer.poll(), lv.ConsumerRecords[bytes, Order])
            async for record in consumer:
                assert_type(record.value, Order | None)
        async with aio.KafkaShareConsumer(value_deserializer=from_text) as shared:
            assert_type(await shared.poll(), lv.ShareRecords[bytes, Order])
        async for read in aio.scan("orders", key_deserializer=bytes.decode):
            assert_type(read, lv.ConsumerRecord[str, bytes])

    def a_request_names_its_response(client: lv.KafkaClient, admin: lv.KafkaAdmin, any_request: Request) -> None:
        assert_type(client.request(MetadataRequest()), MetadataResponse)
        assert_type(admin.request(MetadataRequest(), node="controller"), MetadataResponse)
        assert_type(client.request(ProduceRequest(acks=0)), ProduceResponse | None)
        assert_type(client.request(any_request), Any)

    async def a_request_names_its_response_on_asyncio(client: aio.KafkaClient) -> None:
        assert_type(await client.request(MetadataRequest()), MetadataResponse)


SETTINGS: list[tuple[Callable[..., Any], Callable[..., Any], str]] = [
    (lv.KafkaClient, aio.KafkaClient, "ClientSettings"),
    (lv.KafkaAdmin, aio.KafkaAdmin, "AdminSettings"),
    (lv.KafkaProducer, aio.KafkaProducer, "ProducerSettings[K_in, V_in]"),
    (lv.KafkaConsumer, aio.KafkaConsumer, "ConsumerSettings[K, V]"),
    (lv.KafkaShareConsumer, aio.KafkaShareConsumer, "ShareConsumerSettings[K, V]"),
    (lv.scan, aio.scan, "ScanArguments[K, V]"),
]


@pytest.mark.parametrize(("blocking", "asyncio", "settings"), SETTINGS)
def test_every_api_takes_the_settings_that_are_declared(blocking: Any, asyncio: Any, settings: str) -> None:
    for client in (blocking, asyncio):
        *_, keywords = inspect.signature(client).parameters.values()
        assert keywords.annotation == f"Unpack[{settings}]", client


def test_every_request_is_typed_by_its_response() -> None:
    for request in APIS.values():
        (named,) = get_args(vars(request)["__orig_bases__"][0])
        assert named.__forward_arg__.removesuffix(" | None") == request.RESPONSE.__name__


EVERYTHING = """
import sys
sys.modules["typing_extensions"] = None
import levada, levada.config.typed
from levada import aio
[getattr(module, name) for module in (levada, aio) for name in module.__all__]
"""


def test_what_only_type_checkers_need_is_not_needed_at_run_time() -> None:
    subprocess.run([sys.executable, "-c", EVERYTHING], check=True)
