"""Who is told of commits that are over: interceptors, and the callbacks of commit_async()."""

from __future__ import annotations

from levada.api.interception import ConsumerInterceptors
from levada.client.host import Host
from levada.consumer.core import ConsumerCore
from levada.consumer.positions.commits import Commit, OnCommit
from levada.consumer.reading import Reading
from levada.errors import KafkaError
from levada.logs import Log


class CommitsTold:
    """Tells of the commits of one consumer."""

    def __init__(self, core: ConsumerCore, reading: Reading, host: Host, interceptors: ConsumerInterceptors, log: Log) -> None:
        self._commits = core.commits
        self._reading = reading
        self._host = host
        self._interceptors = interceptors
        self._log = log

    def tell(self) -> None:
        """Call interceptors and the callbacks of commits that are over, in the order of the commits.

        What a callback raises comes out, and the others wait.
        """
        if self._interceptors and self._commits.has_untold:
            for offsets in self._reading.look(lambda core: core.commits.newly_committed()):
                with self._host.user_code():
                    self._interceptors.on_commit(offsets)
        while self._commits.has_untold and (commit := self._reading.look(lambda core: core.commits.over())) is not None:
            error = commit.done.error
            assert error is None or isinstance(error, KafkaError), "flows fail with errors of levada's own"
            if commit.callback is not None:
                self._call_back(commit, commit.callback, error)
            elif error is not None:
                self._log.warning("%s", error)

    def _call_back(self, commit: Commit, callback: OnCommit, error: KafkaError | None) -> None:
        is_called = False
        try:
            with self._host.user_code():
                is_called = True
                callback(dict(commit.offsets), error)
        finally:
            if not is_called:
                # Ctrl-C came first; the next call tells.
                self._reading.look(lambda core: core.commits.give_back(commit))
