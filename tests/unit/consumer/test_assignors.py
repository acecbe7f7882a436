"""Who gets which partitions: the examples that Kafka's documentation and KIPs give, and what must hold for any group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levada.consumer.group.assignors import BUILT_IN, common_protocol
from levada.consumer.group.assignors.ranges import RangeAssignor
from levada.consumer.group.assignors.round_robin import RoundRobinAssignor
from levada.consumer.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from levada.consumer.group.assignors.sticky_data import Claim, cooperative_user_data, sticky_claim, sticky_user_data
from levada.consumer.group.leading import Layouts, check, check_handed_over
from levada.errors import IllegalStateError
from levada.groups import MemberAssignment, MemberSubscription, PartitionAssignor, RebalanceProtocol, TopicLayout
from levada.types import TopicPartition

NO_RACK: frozenset[str] = frozenset()
Members = Mapping[str, MemberSubscription]


def topics(**partitions: int) -> Layouts:
    return {name: TopicLayout(name, (NO_RACK,) * count) for name, count in partitions.items()}


def member(*names: str, **more: Any) -> MemberSubscription:
    return MemberSubscription(frozenset(names), **more)


def shared(assignor: PartitionAssignor, there: Layouts, members: Members) -> dict[str, str]:
    """What each member gets, such as "a0 a1 b0"."""
    return {who: shown(got.partitions) for who, got in sorted(assignor.assign(there, members).items())}


def shown(partitions: Any) -> str:
    return " ".join(f"{tp.topic}{tp.partition}" for tp in partitions)


def tps(text: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(word[0], int(word[1:])) for word in text.split())


# Range


def test_G20_range_gives_each_a_block_and_the_first_ones_more() -> None:
    members = {"y": member("a", "b"), "x": member("a", "b")}
    assert shared(RangeAssignor(), topics(a=3, b=3), members) == {"x": "a0 a1 b0 b1", "y": "a2 b2"}


def test_G19_static_members_come_first_by_instance_id_and_others_by_member_id() -> None:
    members = {"m1": member("a"), "m2": member("a", instance_id="z"), "m3": member("a", instance_id="b")}
    assert shared(RangeAssignor(), topics(a=4), members) == {"m1": "a3", "m2": "a2", "m3": "a0 a1"}


def test_G19_only_those_subscribed_get_partitions_and_topics_without_metadata_are_left_out() -> None:
    members = {"x": member("a"), "y": member("a", "b"), "z": member("gone")}
    for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor()):
        assert shared(assignor, topics(a=2, b=1), members)["z"] == ""
        assert "b0" in shared(assignor, topics(a=2, b=1), members)["y"]


def with_racks(name: str, *racks: str) -> TopicLayout:
    return TopicLayout(name, tuple(frozenset(each) for each in racks))


def test_G20_range_gives_partitions_to_members_in_a_rack_of_a_replica() -> None:
    there = {"a": with_racks("a", "3", "1", "2")}
    members = {"x": member("a", rack="1"), "y": member("a", rack="2"), "z": member("a", rack="3")}
    assert shared(RangeAssignor(), there, members) == {"x": "a1", "y": "a2", "z": "a0"}


def test_G20_racks_do_not_count_where_every_partition_is_on_all_of_them() -> None:
    there = {"a": with_racks("a", "123", "123", "123")}
    members = {"x": member("a", rack="3"), "y": member("a", rack="2"), "z": member("a", rack="1")}
    assert shared(RangeAssignor(), there, members) == {"x": "a0", "y": "a1", "z": "a2"}
    assert shared(RangeAssignor(), {"a": with_racks("a", "4", "5", "6")}, members) == {"x": "a0", "y": "a1", "z": "a2"}


def test_G20_co_partitioned_topics_stay_together_when_racks_count() -> None:
    there = {"a": with_racks("a", "1", "2", "3"), "b": with_racks("b", "13", "2", "1")}
    members = {"x": member("a", "b", rack="2"), "y": member("a", "b", rack="1"), "z": member("a", "b", rack="3")}
    assert shared(RangeAssignor(), there, members) == {"x": "a1 b1", "y": "a0 b0", "z": "a2 b2"}


# Round robin


def test_G21_round_robin_deals_out_and_passes_over_who_is_not_subscribed() -> None:
    same = {"x": member("a", "b"), "y": member("a", "b")}
    assert shared(RoundRobinAssignor(), topics(a=3, b=3), same) == {"x": "a0 a2 b1", "y": "a1 b0 b2"}
    others = {"x": member("a"), "y": member("a", "b"), "z": member("a", "b", "c")}
    assert shared(RoundRobinAssignor(), topics(a=1, b=2, c=3), others) == {"x": "a0", "y": "b0", "z": "b1 c0 c1 c2"}


# Sticky


def sticky(names: str, had: str = "", generation: int = 1) -> MemberSubscription:
    return member(*names.split(), user_data=sticky_user_data(Claim(tps(had), generation)))


def test_G22_sticky_moves_only_what_balance_needs() -> None:
    members = {"x": sticky("a", "a0 a1 a2 a3"), "y": sticky("a", "a4 a5"), "z": sticky("a")}
    assert shared(StickyAssignor(), topics(a=6), members) == {"x": "a0 a1", "y": "a4 a5", "z": "a2 a3"}


def test_G22_of_two_claims_the_newer_generation_is_believed_and_of_equal_ones_neither() -> None:
    members = {"x": sticky("a", "a0 a1", 1), "y": sticky("a", "a0 a2", 2), "z": sticky("a", "a2 a3", 2)}
    found = shared(StickyAssignor(), topics(a=6), members)
    assert "a0" in found["y"]
    assert "a1" in found["x"]
    assert "a3" in found["z"]
    assert {len(got.split()) for got in found.values()} == {2}


def test_G22_sticky_reads_what_java_writes_and_shrugs_at_the_rest() -> None:
    newer = b"\0\0\0\1\0\1a\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\5"
    assert sticky_user_data(Claim(tps("a0 a3"), 5)) == newer
    assert sticky_claim(member("a", user_data=newer)) == Claim(tps("a0 a3"), 5)
    assert sticky_claim(member("a", user_data=newer[:-4])) == Claim(tps("a0 a3"), -1)
    assert sticky_claim(member("a", user_data=b"junk")) == Claim((), -1)
    assert sticky_claim(member("a")) == Claim((), -1)


def test_G22_sticky_remembers_what_it_had_for_the_next_join() -> None:
    assignor = StickyAssignor()
    assert assignor.user_data(frozenset("a")) is None
    assignor.on_assignment(MemberAssignment(tps("a0 a3")), 5)
    assert assignor.user_data(frozenset("a")) == sticky_user_data(Claim(tps("a0 a3"), 5))


def test_G22_unequal_subscriptions_are_balanced_as_far_as_they_allow() -> None:
    members = {"x": sticky("a b", "a0 a1 a2 b0"), "y": sticky("a"), "z": sticky("c")}
    found = shared(StickyAssignor(), topics(a=4, b=1, c=1), members)
    assert found["z"] == "c0"
    assert "b0" in found["x"]
    assert balanced_enough(found, members)


def balanced_enough(found: Mapping[str, str], members: Members) -> bool:
    """Whether no partition could go to a member that has two less than its owner."""
    counts = {who: len(got.split()) for who, got in found.items()}
    return all(
        counts[other] + 1 >= counts[who]
        for who, got in found.items()
        for tp in tps(got)
        for other in members
        if tp.topic in members[other].topics
    )


def test_G22_a_free_partition_goes_to_a_member_in_a_rack_of_a_replica() -> None:
    there = {"a": with_racks("a", "2", "1")}
    members = {"x": member("a", rack="1"), "y": member("a", rack="2")}
    assert shared(CooperativeStickyAssignor(), there, members) == {"x": "a1", "y": "a0"}


# Cooperative


def test_G22_cooperative_leaves_out_what_its_owner_has_yet_to_give_up() -> None:
    members = {"x": member("a", owned=tps("a0 a1 a2 a3"), generation=3), "y": member("a")}
    assert shared(CooperativeStickyAssignor(), topics(a=4), members) == {"x": "a0 a1", "y": ""}
    afterwards = {"x": member("a", owned=tps("a0 a1"), generation=4), "y": member("a", generation=4)}
    assert shared(CooperativeStickyAssignor(), topics(a=4), afterwards) == {"x": "a0 a1", "y": "a2 a3"}


def test_G22_what_two_claim_is_given_to_neither_before_both_gave_it_up() -> None:
    members = {"x": member("a", owned=tps("a0"), generation=3), "y": member("a", owned=tps("a0"), generation=3)}
    assert "a0" not in " ".join(shared(CooperativeStickyAssignor(), topics(a=2), members).values())


def test_G22_a_member_without_a_generation_field_says_it_in_user_data() -> None:
    members = {
        "x": member("a", owned=tps("a0 a1"), user_data=cooperative_user_data(7)),
        "y": member("a", owned=tps("a0 a1"), user_data=cooperative_user_data(6)),
    }
    assert shared(CooperativeStickyAssignor(), topics(a=2), members)["x"] in ("a0", "a1")


def test_G18_cooperative_only_where_all_offered_assignors_are() -> None:
    assert common_protocol([CooperativeStickyAssignor()]) is RebalanceProtocol.COOPERATIVE
    assert common_protocol([RangeAssignor(), CooperativeStickyAssignor()]) is RebalanceProtocol.EAGER


# Any group

NAMES = "abcd"


@st.composite
def groups(draw: st.DrawFn, *, equal: bool) -> tuple[Layouts, dict[str, MemberSubscription]]:
    there = topics(**{name: draw(st.integers(1, 8)) for name in NAMES[: draw(st.integers(1, 4))]})
    every = [TopicPartition(name, index) for name, layout in there.items() for index in range(len(layout.racks))]
    members = {}
    for number in range(draw(st.integers(1, 6))):
        wanted = frozenset(there) if equal else draw(st.frozensets(st.sampled_from(sorted(there)), min_size=1))
        owned = tuple(draw(st.lists(st.sampled_from(every), unique=True, max_size=len(every))))
        generation = draw(st.integers(1, 3))
        members[f"m{number}"] = MemberSubscription(wanted, owned, generation, user_data=sticky_user_data(Claim(owned, generation)))
    return there, members


@pytest.mark.parametrize("name", sorted(BUILT_IN))
@settings(max_examples=25)
@given(group=groups(equal=False))
def test_G19_any_assignor_gives_every_partition_once_to_somebody_who_wants_it(name: str, group: Any) -> None:
    there, members = group
    given_out = BUILT_IN[name]().assign(there, members)
    check(name, given_out, there, members)
    if name != "cooperative-sticky":
        wanted = {topic for one in members.values() for topic in one.topics}
        assert sum(len(got.partitions) for got in given_out.values()) == sum(len(there[topic].racks) for topic in wanted)


@settings(max_examples=25)
@given(group=groups(equal=True))
def test_G22_equal_subscriptions_differ_by_one_at_most(group: Any) -> None:
    there, members = group
    counts = [len(got.partitions) for got in StickyAssignor().assign(there, members).values()]
    assert max(counts) - min(counts) <= 1


@settings(max_examples=25)
@given(group=groups(equal=False))
def test_G22_other_subscriptions_are_as_balanced_as_single_moves_make_them(group: Any) -> None:
    there, members = group
    assert balanced_enough(shared(StickyAssignor(), there, members), members)


@settings(max_examples=25)
@given(group=groups(equal=True))
def test_G22_who_has_no_more_than_its_share_keeps_it(group: Any) -> None:
    there, members = group
    given_out = StickyAssignor().assign(there, members)
    total, least = sum(len(layout.racks) for layout in there.values()), 0
    least = total // len(members)
    claimed = [tp for one in members.values() for tp in one.owned]
    for who, one in members.items():
        alone = {tp for tp in one.owned if claimed.count(tp) == 1}
        if len(one.owned) <= least:
            assert alone <= set(given_out[who].partitions)


@settings(max_examples=25)
@given(group=groups(equal=False))
def test_G18_cooperative_never_gives_twice_and_is_balanced_after_a_few_rounds(group: Any) -> None:
    there, members = group
    assignor = CooperativeStickyAssignor()
    for generation in range(4, 8):
        given_out = assignor.assign(there, members)
        check_handed_over(assignor.NAME, given_out, members)
        members = {
            who: one._replace(owned=given_out[who].partitions, generation=generation, user_data=None) for who, one in members.items()
        }
    wanted = {topic for one in members.values() for topic in one.topics}
    assert sum(len(one.owned) for one in members.values()) == sum(len(there[topic].racks) for topic in wanted)
    assert balanced_enough({who: shown(one.owned) for who, one in members.items()}, members)


# What a leader refuses


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"x": "a0", "y": "a0"}, "gave a-0 twice, to 'x' and 'y'"),
        ({"q": "a0"}, "'q', which is no member"),
        ({"x": "b0"}, "not subscribed to 'b'"),
        ({"x": "a9"}, "there is no such partition"),
    ],
)
def test_G9_a_result_that_no_group_may_have_is_refused(result: dict[str, str], message: str) -> None:
    given_out = {who: MemberAssignment(tps(text)) for who, text in result.items()}
    with pytest.raises(IllegalStateError, match=message):
        check("own", given_out, topics(a=2, b=1), {"x": member("a"), "y": member("a")})


def test_G18_an_assignor_that_gives_away_what_another_has_is_refused() -> None:
    members = {"x": member("a", owned=tps("a0"), generation=2), "y": member("a", generation=2)}
    with pytest.raises(IllegalStateError, match="gave a-0 to 'y' while 'x' has it"):
        check_handed_over("own", {"y": MemberAssignment(tps("a0"))}, members)
