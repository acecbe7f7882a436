"""What happens when records are gone before a query has read them: the options failOnDataLoss and onDataLoss."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum

from levada.errors import DataLossError


class OnLoss(Enum):
    """FAIL stops the query. The others go on with a warning: at what is left of a log, and in a topic that was created again under the same
    name at the beginning of its new log (EARLIEST), or at its end (SKIP).
    """

    FAIL = "fail"
    SKIP = "skip"
    EARLIEST = "earliest"

    def report(self, findings: Sequence[str], logger: logging.Logger) -> None:
        """Raise DataLossError with what was found, or write it to the log. Nothing happens without findings."""
        if findings and self is OnLoss.FAIL:
            raise data_loss(findings)
        for finding in findings:
            logger.warning("%s; going on, as %s", finding, "onDataLoss is skip" if self is OnLoss.SKIP else "failOnDataLoss is false")


def data_loss(findings: Sequence[str]) -> DataLossError:
    """Return the error for records that the query will never see."""
    what = "; ".join(findings)
    return DataLossError(
        f"{what}. Records may have been lost. Set the option failOnDataLoss to false to go on without them; a stream may start with a new "
        "checkpoint instead"
    )
