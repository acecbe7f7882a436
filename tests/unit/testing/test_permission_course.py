"""The course of the differential test of permissions asks for what it says."""

from __future__ import annotations

from uuid import uuid4

from levada.base.permissions import NEEDS
from permission_course import NOT_ASKED, Course


def test_M_P8_every_api_is_asked_or_left_out_with_a_reason() -> None:
    course = Course(0)
    asked = {request.NAME for request, _ in course.questions({topic: uuid4() for topic in course.topics})}
    assert set(NEEDS) - asked == set(NOT_ASKED)
    assert all(NOT_ASKED.values())
