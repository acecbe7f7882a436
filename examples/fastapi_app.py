"""A FastAPI service that writes orders to Kafka and shows what arrives: python examples/fastapi_app.py

Without --kafka HOST:PORT, or KAFKA in the environment, it starts the embedded broker. In production:

    KAFKA=localhost:9092 uvicorn fastapi_app:app

POST /orders answers when the order is in Kafka, GET /orders lists the latest orders, and GET /health says whether orders still arrive.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel

import levada as lv
from levada import aio
from levada.testing import EmbeddedKafka

TOPIC, LATEST = "orders", 100
SENDING = {
    "buffer.memory": 8 << 20,  # Records that wait for Kafka. A request that finds no room ...
    "max.block.ms": 500,  # ... for so long is answered by 503.
    "request.timeout.ms": 4_000,
    "delivery.timeout.ms": 10_000,  # A request is answered within this time, even if no broker can be reached.
}


class Order(BaseModel):
    """The body of POST /orders."""

    customer: str
    item: str


async def follow(consumer: aio.KafkaConsumer[Any, Any], latest: deque[dict[str, Any]]) -> None:
    """Keep the latest orders, and begin with those that are there. Each process reads all partitions, so it is in no group."""
    partitions = [lv.TopicPartition(TOPIC, info.partition) for info in await consumer.partitions_for(TOPIC)]
    consumer.assign(partitions)
    for partition, end in (await consumer.end_offsets(partitions)).items():
        consumer.seek(partition, max(0, end - LATEST))  # Where this was deleted already, auto.offset.reset finds what is left.
    async for record in consumer:
        if record.value is not None:
            latest.append({"partition": record.partition, "offset": record.offset, **record.value.model_dump()})


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """Keep one producer, one consumer and its task for as long as the service runs. Requests find them in request.state."""
    kafka = {"bootstrap.servers": os.environ.get("KAFKA", "localhost:9092")}
    reading = {"auto.offset.reset": "earliest", "value.deserializer": Order.model_validate_json, "on.decode.error": "skip"}
    latest: deque[dict[str, Any]] = deque(maxlen=LATEST)
    async with (
        aio.KafkaProducer({**kafka, **SENDING}) as producer,  # Its end waits for the records that are not acknowledged yet.
        aio.KafkaConsumer({**kafka, **reading}) as consumer,
    ):
        following = asyncio.create_task(follow(consumer, latest))
        yield {"producer": producer, "consumer": consumer, "following": following, "latest": latest}
        following.cancel()
        await asyncio.wait([following])  # If it has failed, GET /health has told so: the end is the same.


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def create(order: Order, request: Request) -> dict[str, int]:
    """Answer when all replicas in sync have the order."""
    try:
        delivery = await request.state.producer.send(TOPIC, order.model_dump_json(), key=order.customer)
        written = await delivery
    except lv.errors.BufferExhaustedError as error:
        raise HTTPException(503, "too many orders wait for Kafka; try again", headers={"Retry-After": "1"}) from error
    except lv.KafkaError as error:
        # "unknown": the order may be in Kafka all the same, so a client that tries again may order twice.
        raise HTTPException(503, {"error": str(error), "persisted": error.persisted.value}) from error
    return {"partition": written.partition, "offset": written.offset}


@app.get("/orders")
async def latest(request: Request) -> list[dict[str, Any]]:
    """List the latest orders of all processes."""
    return list(request.state.latest)


@app.get("/health")
async def health(request: Request, response: Response) -> dict[str, Any]:
    """Answer 503 while no broker is connected, and once the consumer's task has failed."""
    following, connections = request.state.following, request.state.consumer.metrics().value("connection-count")
    if following.done() or not connections:
        response.status_code = 503
    return {"connections": connections, "error": repr(following.exception()) if following.done() else None}


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--kafka", default=os.environ.get("KAFKA"), help="HOST:PORT; default: the embedded broker")
    options.add_argument("--port", type=int, default=8000)
    given = options.parse_args()
    with nullcontext() if given.kafka else EmbeddedKafka() as embedded:
        os.environ["KAFKA"] = embedded.bootstrap_servers if embedded else given.kafka
        uvicorn.run(app, port=given.port)
