"""How long clients are muted for exceeding their quotas (KIP-219).

Each node counts its own requests. Requests to the controller are counted for the whole cluster.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from levada.broker.quotas.client_quotas import CONTROLLER_MUTATION_RATE, ClientQuotas, Meter, Quota
from levada.broker.quotas.meters import SampledRate, TokenBucket
from levada.error_codes import ErrorCode
from levada.errors import BrokerError

IDLE_MS = 3_600_000
"""The use of a client that was idle for this long is forgotten, as in Kafka."""
_Key: TypeAlias = tuple[str, Meter]


class QuotaClient(NamedTuple):
    """A client to which quotas apply. user: the principal's name without its type. client_id: "" if the client has none."""

    user: str
    client_id: str


class Throttles:
    """Counts the use of quotas and computes how long clients are throttled. samples, sample_ms: the number of samples of a rate's window,
    and the length of a sample in ms.
    """

    def __init__(self, quotas: ClientQuotas, samples: int, sample_ms: int) -> None:
        self._quotas = quotas
        self._samples = samples
        self._sample_ms = sample_ms
        self._rates: dict[_Key, SampledRate] = {}
        self._buckets: dict[Meter, TokenBucket] = {}

    @property
    def are_off(self) -> bool:
        """Whether no quotas are set, so that nothing has to be counted."""
        return self._quotas.is_empty

    def has_quota(self, key: str, client: QuotaClient) -> bool:
        """Return whether a quota applies to a client. key: the name of the quota."""
        return self._quotas.of(key, *client) is not None

    def record(self, key: str, client: QuotaClient, amount: float, now_ms: int, *, longest_ms: int | None = None) -> int:
        """Count the use of a quota; return how long the client is throttled, in ms, 0 without a quota. longest_ms: the maximum of the
        result, None for no maximum.
        """
        quota = self._quotas.of(key, *client)
        if quota is None:
            return 0
        rate = self._rate(key, quota)
        rate.record(amount, now_ms)
        pause_ms = rate.throttle_ms(quota.limit, now_ms)
        return pause_ms if longest_ms is None else min(pause_ms, longest_ms)

    def record_read(self, key: str, client: QuotaClient, amount: int, now_ms: int) -> tuple[int, bool]:
        """Count bytes before they are sent. Returns how long the client is throttled, in ms, and whether the bytes may be sent now.

        Bytes above the quota are neither sent nor counted, and the client fetches them again. If nothing else was counted in the window,
        they are sent and counted nevertheless, because a batch larger than the quota of a whole window could never be sent otherwise.
        """
        quota = self._quotas.of(key, *client)
        if quota is None:
            return 0, True
        rate = self._rate(key, quota)
        is_first = rate.used(now_ms) == 0
        pause_ms = self.record(key, client, amount, now_ms)
        if pause_ms and not is_first:
            rate.record(-amount, now_ms)
        return pause_ms, pause_ms == 0 or is_first

    def window_bytes(self, key: str, client: QuotaClient, otherwise: int) -> int:
        """Return the number of bytes that a client may use within a whole window, at most `otherwise`. Without a quota, `otherwise` is
        returned.
        """
        quota = self._quotas.of(key, *client)
        if quota is None:
            return otherwise
        return min(int(quota.limit * max(self._samples - 1, 1) * self._sample_ms / 1000), otherwise)

    def mutate(self, client: QuotaClient, partitions: int, now_ms: int, *, strict: bool) -> int:
        """Count created or deleted partitions; return how long the client is throttled, in ms.

        strict: if the quota is used up already, raise QuotaExceededError instead of counting; if not, return 0.
        """
        quota = self._quotas.of(CONTROLLER_MUTATION_RATE, *client)
        if quota is None:
            return 0
        bucket = self._buckets.setdefault(quota.meter, TokenBucket(self._samples, self._sample_ms))
        if strict and bucket.throttle_ms(quota.limit, now_ms):
            raise QuotaExceededError(bucket.throttle_ms(quota.limit, now_ms))
        bucket.record(partitions, quota.limit, now_ms)
        # A client whose requests may be refused is only muted by a refusal (KIP-599).
        return 0 if strict else bucket.throttle_ms(quota.limit, now_ms)

    def forget_idle(self, now_ms: int) -> None:
        """Remove the meters that were not used for IDLE_MS."""
        since_ms = now_ms - IDLE_MS
        self._rates = {key: rate for key, rate in self._rates.items() if not rate.is_idle(since_ms)}
        self._buckets = {meter: bucket for meter, bucket in self._buckets.items() if not bucket.is_idle(since_ms)}

    def _rate(self, key: str, quota: Quota) -> SampledRate:
        return self._rates.setdefault((key, quota.meter), SampledRate(self._samples, self._sample_ms))


class QuotaExceededError(BrokerError):
    """The request is refused because the quota is used up. throttle_ms: how long it takes until the quota allows requests again."""

    def __init__(self, throttle_ms: int) -> None:
        super().__init__("The throttling quota has been exceeded.", code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self.throttle_ms = throttle_ms
