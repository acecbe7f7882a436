"""What levada does differently where threads run at once."""

from __future__ import annotations

import sys

import pytest

from levada.base.gil import has_gil
from levada.protocol import decoder
from levada.protocol.codegen import encode
from levada.protocol.decoder import decoder_source
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


@pytest.mark.parametrize("enabled", [True, False])
def test_a_free_threaded_python_is_asked(monkeypatch: pytest.MonkeyPatch, enabled: bool) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: enabled, raising=False)
    assert has_gil() is enabled


def test_any_other_python_has_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "_is_gil_enabled", raising=False)
    assert has_gil()


@pytest.mark.parametrize(("enabled", "kind"), [(True, memoryview), (False, bytes)])
def test_records_are_copied_out_of_their_frame_without_the_lock(monkeypatch: pytest.MonkeyPatch, enabled: bool, kind: type) -> None:
    monkeypatch.setattr(decoder, "has_gil", lambda: enabled)
    source = decoder_source(ProduceRequest, 9)
    partition = PartitionProduceData(index=1, records=b"batch")
    sent = encode(ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[partition])]), 9)
    source.scope["FAULTS"] = ()
    exec(source.text(), source.scope)
    found, _ = source.scope["decode"](sent, 0, len(sent))
    records = found.topic_data[0].partition_data[0].records
    assert isinstance(records, kind)
    assert records == b"batch"
