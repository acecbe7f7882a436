"""The reaction when records were deleted before a query has read them: the options failOnDataLoss and onDataLoss."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import Enum

from levada.errors import DataLossError


class OnLoss(Enum):
    """How a query reacts to a loss.

    FAIL stops the query. The others log a warning and continue with the records that remain. In a topic that was created again under the
    same name, EARLIEST continues at the beginning of the new log, SKIP at its end. NOT_FAIL: like EARLIEST, chosen by failOnDataLoss.

    The values are what the options say.
    """

    FAIL = "fail"
    SKIP = "skip"
    EARLIEST = "earliest"
    NOT_FAIL = "false"

    def report(self, findings: Sequence[str], logger: logging.Logger) -> None:
        """With FAIL raise DataLossError with the findings, else log each as a warning. Without findings do nothing."""
        if findings and self is OnLoss.FAIL:
            raise data_loss(findings)
        for finding in findings:
            option = "failOnDataLoss" if self is OnLoss.NOT_FAIL else "onDataLoss"
            logger.warning("%s; the query continues because %s is %s", finding, option, self.value)


def data_loss(findings: Sequence[str]) -> DataLossError:
    """Return the error for records that may have been lost."""
    what = "; ".join(findings)
    return DataLossError(
        f"{what}. Records may have been lost. Set the option failOnDataLoss to false to continue without them; a stream may start with a "
        "new checkpoint instead"
    )
