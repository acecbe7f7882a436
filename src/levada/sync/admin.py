"""KafkaAdmin: topics and the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from levada.admin.cluster import ClusterDescription
from levada.admin.topics import CreatedTopic, TopicDescription
from levada.config import AdminConfig
from levada.face.asking import Administering
from levada.face.engines import Connector
from levada.not_yet import ADMIN, lacks
from levada.sync.client import KafkaClient
from levada.sync.connect import connect
from levada.sync.driver import Driver
from levada.types import NewTopic, TransactionHandle

if TYPE_CHECKING:
    from typing import Unpack

    from levada.config.typed import AdminSettings


@lacks(ADMIN)
class KafkaAdmin(KafkaClient):
    """Creates, deletes and describes topics, describes the cluster, and sends any other request().

    Settings are Kafka's, dotted in a mapping or with underscores as keywords; see docs/CONFIGURATION.md. Timeouts are in seconds, default
    default.api.timeout.ms. Any thread may use it. Every call raises BootstrapError when no broker can be reached, TimeoutError when its
    time is over, and the error of a broker that refuses; a call about several topics tries all of them, and then raises the first
    error, whose notes and `outcomes` tell what became of each.
    """

    _asking: Administering

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        _connect: Connector[Driver] = connect,
        **settings: Unpack[AdminSettings],
    ) -> None:
        parsed = AdminConfig.parse(config, **settings)
        self._start(parsed, "admin", _connect)
        self._asking = Administering(parsed, self._engine)

    def create_topics(
        self, new_topics: Sequence[NewTopic], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, CreatedTopic]:
        """Create topics; return what was created, by name. validate_only: only say whether they could be.

        Raises TopicAlreadyExistsError, InvalidTopicError and others. Brokers may know a new topic a moment later than this returns.
        """
        return self._run(self._asking.create_topics(new_topics, validate_only, timeout))

    def delete_topics(self, names: Sequence[str], *, timeout: float | None = None) -> None:
        """Delete topics and all their records. Raises UnknownTopicOrPartitionError and others."""
        self._run(self._asking.delete_topics(names, timeout))

    def describe_topics(self, names: Sequence[str], *, timeout: float | None = None) -> dict[str, TopicDescription]:
        """Describe topics, by name; it creates none. Raises UnknownTopicOrPartitionError and others."""
        return self._run(self._asking.describe_topics(names, timeout))

    def list_topics(self, *, internal: bool = False, timeout: float | None = None) -> list[str]:
        """Return the names of the topics this user may see, sorted. internal: with Kafka's own, such as __consumer_offsets."""
        return self._run(self._asking.list_topics(internal, timeout))

    def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """Return the cluster's id and brokers."""
        return self._run(self._asking.describe_cluster(timeout))

    def commit_detached(self, handle: TransactionHandle, *, timeout: float | None = None) -> None:
        """Commit a transaction that its producer has handed over by detach_transaction(), in this process or another one.

        Asks again until there is an answer. To repeat the call is safe, after a success too, as long as nobody makes another producer with
        this transactional id: do not before the outcome is known. Raises ProducerFencedError or BrokerError (INVALID_TXN_STATE) where it
        was not committed: after transaction.timeout.ms the coordinator aborts it. Raises BrokerError (INVALID_PRODUCER_ID_MAPPING) where
        the coordinator has forgotten the id, which says nothing; TransactionOutcomeUnknownError when the time is over.

        A success does not tell that an administrator aborted it by force before, nor that a topic was deleted meanwhile. Records become
        visible a few milliseconds after the answer.
        """
        self._run(self._asking.end_detached(handle, True, timeout))

    def abort_detached(self, handle: TransactionHandle, *, timeout: float | None = None) -> None:
        """Abort a transaction that its producer has handed over. What commit_detached() says of repetitions and errors holds here.

        Raises BrokerError (INVALID_TXN_STATE) where it was committed before, ProducerFencedError where it is open no more.
        """
        self._run(self._asking.end_detached(handle, False, timeout))
