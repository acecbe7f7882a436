"""Which region an AWS_MSK_IAM login is signed for."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from levada.base.clock import SystemClock
from levada.oauth.aws import AwsMskIam

OF_IRELAND = "b-1.c.abc.c2.kafka.eu-west-1.amazonaws.com"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


def region_for(host: str, region: str | None) -> str:
    step: Any = next(AwsMskIam(region, None, SystemClock(), "levada").begin(host))
    return str(json.loads(step.run())["x-amz-credential"].split("/")[2])


def test_a_broker_in_another_region_gets_a_signature_for_that_one() -> None:
    assert region_for(OF_IRELAND, None) == "eu-west-1"
    assert region_for("kafka.test", None) == "us-east-1", "a name without a region: as the environment says"
    assert region_for(OF_IRELAND, "ap-south-1") == "ap-south-1", "the setting counts before all"
