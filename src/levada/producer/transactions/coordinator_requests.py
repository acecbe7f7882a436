"""Sends the requests of a transactional producer to coordinators: look-up, retries according to `reactions`, and lost responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from levada.acls import ResourceType
from levada.base.clock import ExponentialBackoff
from levada.base.flow import Call, Flow, Sleep
from levada.base.permissions import needed
from levada.client.requests.coordinator_finder import CoordinatorFinder
from levada.error_codes import ErrorCode
from levada.errors import BrokerError, ConnectError, DisconnectError, ProtocolError, TimeoutError, UnsupportedVersionError, UnwritableError
from levada.producer.transactions.outcome import may_be_carried_out
from levada.producer.transactions.reactions import REACTIONS, Api, TransactionReaction
from levada.producer.transactions.requests import Question, worst

T = TypeVar("T")

SOON_MS = 20
"""The retry pause, in ms, for requests of a new transaction while the coordinator completes the previous one (KAFKA-5482)."""
_OF_A_NEW_TRANSACTION = frozenset({Api.ADD_PARTITIONS, Api.ADD_OFFSETS, Api.TXN_OFFSET_COMMIT})
_OLD_BROKER = "transactions need brokers of Kafka 0.11 or newer, and 2.5 or newer to go on after a lost answer or a failed record"


class Answer(NamedTuple):
    """The result of a request. text: details for the error text, such as the partition or a missing permission. reply: None without one."""

    reaction: TransactionReaction
    code: ErrorCode
    text: str
    reply: Any = None


class CoordinatorRequests:
    """Sends the requests of one producer, one at a time or several concurrently.

    lost: whether a request got no response, so that it may still arrive at a broker; the TransactionManager resets it after a new epoch.
    last: text about the last failure of the latest request; "" once that request has a conclusive response. in_doubt: whether an earlier
    attempt of the latest request may have been carried out.
    """

    def __init__(self, coordinators: CoordinatorFinder, backoff: ExponentialBackoff) -> None:
        self.lost = False
        self.last = ""
        self.in_doubt = False
        self._coordinators = coordinators
        self._backoff = backoff

    def ask(self, question: Question, is_wanted: Callable[[], bool] = lambda: True) -> Flow[Answer]:
        """Send a request, with retries, until there is a conclusive response. Return the result of the last attempt.

        is_wanted: called before each retry. If it returns False, the flow ends, and the reaction is RETRY or FIND_COORDINATOR.
        """
        self.last, self.in_doubt = "", False
        attempts = 0
        while True:
            answer = yield from self._ask_once(question)
            if answer.reaction not in (TransactionReaction.RETRY, TransactionReaction.FIND_COORDINATOR):
                self.last = ""
                return answer
            self.in_doubt |= may_be_carried_out(answer.code)
            of = f"coordinator of {question.whom.kind.name.lower()} {question.whom.key!r}"
            self.last = f"{question.api.value}: {of}: {answer.code.name}{answer.text and f' ({answer.text})'}"
            if answer.reaction is TransactionReaction.FIND_COORDINATOR:
                self._coordinators.forget(question.whom.kind, question.whom.key)
            yield Sleep(self._pause_ms(question.api, answer.code, attempts))
            if not is_wanted():
                return answer
            attempts += 1

    def explain(self, call: Flow[T]) -> Flow[T]:
        """Run a call. If it times out, the text of the TimeoutError includes `last`."""
        self.last = ""
        try:
            return (yield from call)
        except TimeoutError as late:
            if type(late) is not TimeoutError or not self.last:
                raise
            raise TimeoutError(f"{late} (last: {self.last})") from late

    def _pause_ms(self, api: Api, code: ErrorCode, attempts: int) -> int:
        if code is ErrorCode.CONCURRENT_TRANSACTIONS and api in _OF_A_NEW_TRANSACTION:
            return SOON_MS
        return self._backoff.delay_ms(attempts)

    def _ask_once(self, question: Question) -> Flow[Answer]:
        try:
            reply = yield Call(question.request, question.whom, min_version=question.versions[0], max_version=question.versions[1])
        except DisconnectError as error:
            self.lost = True
            return Answer(TransactionReaction.FIND_COORDINATOR, ErrorCode.NETWORK_EXCEPTION, str(error))
        except ConnectError as error:
            return Answer(TransactionReaction.FIND_COORDINATOR, ErrorCode.NETWORK_EXCEPTION, str(error))
        except UnwritableError as error:
            return Answer(TransactionReaction.ABORT, ErrorCode.INVALID_REQUEST, str(error))
        except ProtocolError as error:
            self.lost = True
            return Answer(TransactionReaction.RETRY, ErrorCode.UNKNOWN_SERVER_ERROR, f"an answer that cannot be read: {error}")
        except UnsupportedVersionError as error:
            return Answer(TransactionReaction.FATAL, ErrorCode.UNSUPPORTED_VERSION, f"{error.reason}; {_OLD_BROKER}")
        except BrokerError as error:
            # The coordinator look-up has failed, so no request was sent to the coordinator.
            return self._not_found(question, error)
        except BaseException:
            # The flow has timed out, or was interrupted, while the request was in flight.
            self.lost = True
            raise
        subject, code = worst(question.api, question.codes(reply))
        reaction = REACTIONS[question.api][code]
        if reaction is TransactionReaction.DONE and (missing := question.missing(reply)):
            return Answer(TransactionReaction.RETRY, ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer leaves out: {missing}", reply)
        # For an error about topic permissions, the subject is "topic-partition", or "group 'g', topic-partition" for offsets.
        names = {ResourceType.TOPIC: subject.rpartition(", ")[2].rpartition("-")[0], **question.names}
        return Answer(reaction, code, "; ".join(filter(None, [subject, needed(question.request.NAME, code, names)])), reply)

    @staticmethod
    def _not_found(question: Question, error: BrokerError) -> Answer:
        reaction = REACTIONS[Api.FIND_COORDINATOR][error.code]
        if question.api is Api.INIT_PRODUCER_ID and reaction is TransactionReaction.FATAL:
            # Do not make the error fatal: there is no transaction yet, and the same call may succeed once the permission is granted.
            reaction = REACTIONS[Api.INIT_PRODUCER_ID][error.code]
        return Answer(reaction, error.code, error.reason)
