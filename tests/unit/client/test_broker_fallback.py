"""C2: the tables of what brokers speak that cannot say so."""

from __future__ import annotations

from itertools import pairwise

import pytest

from levada.client.network.broker_fallback import RELEASES, versions_of
from levada.config import ClientConfig
from levada.errors import ConfigError, UnsupportedVersionError
from levada.protocol.messages.create_topics import CreateTopicsRequest
from levada.protocol.messages.fetch import FetchRequest
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.produce import ProduceRequest


def test_C2_every_release_of_the_option_has_a_table() -> None:
    option = ClientConfig.OPTIONS["broker.version.fallback"]
    assert option.bounds == ", ".join(RELEASES)
    assert option.default == ""


def test_C2_a_later_release_speaks_all_that_an_earlier_one_does() -> None:
    for earlier, later in pairwise(RELEASES.values()):
        assert all(later[api] >= newest for api, newest in earlier.items())


@pytest.mark.parametrize(("release", "versions"), [("0.8.0", (0, 0, 0)), ("0.8.2", (0, 0, 0)), ("0.9.0", (1, 1, 0)), ("0.10.0", (2, 2, 1))])
def test_C2_what_produce_fetch_and_metadata_come_to(release: str, versions: tuple[int, ...]) -> None:
    spoken = versions_of(release)
    assert tuple(spoken.version_for(api) for api in (ProduceRequest, FetchRequest, MetadataRequest)) == versions
    with pytest.raises(UnsupportedVersionError, match="the broker does not know CreateTopics"):
        spoken.version_for(CreateTopicsRequest)


@pytest.mark.parametrize("release", ["0.9.0.1", "0.10.2", "2.8", "old"])
def test_C2_other_releases_are_refused_with_those_there_are(release: str) -> None:
    with pytest.raises(ConfigError, match=r"must be one of 0\.8\.0, 0\.8\.1, 0\.8\.2, 0\.9\.0, 0\.10\.0; got .*without its last number"):
        ClientConfig.parse(bootstrap_servers="kafka:9092", broker_version_fallback=release)
